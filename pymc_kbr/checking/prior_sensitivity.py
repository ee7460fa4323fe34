"""How much a posterior owes to its prior and to its likelihood: each raised to a power."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.observations import Observations
from pymc_kbr.estimators import Estimator, KernelLikelihood
from pymc_kbr.posterior.arviz import power_scaling
from pymc_kbr.simulation.prior.density import KnownDensities
from pymc_kbr.tables.file import check_result


@default_arithmetic
def prior_sensitivity(result: Any) -> pd.DataFrame:
    """Power-scaling sensitivity of a result of `sample_abc`.

    Parameters
    ----------
    result : arviz.InferenceData or xarray.DataTree
        With the group ``log_prior``, which is there where the prior is that of a PyMC model, and
        ``log_likelihood``, which is there where the estimator is a learned likelihood.

    Returns
    -------
    pandas.DataFrame
        A line a parameter: the sensitivity to the ``prior`` and to the ``likelihood`` (NaN where none was
        learnt), 0 where nothing moves, and a ``diagnosis`` in words.

    Raises
    ------
    ValueError
        If the result has no group ``log_prior``.

    Notes
    -----
    The rate at which the posterior's distribution moves with the power that the prior, or the likelihood, is
    raised to, by weighted draws [1]_; computed by ArviZ. From .05 on in both, prior and data pull in
    different directions, or the prior is strong. In the prior alone, the data have little effect.

    References
    ----------
    .. [1] N. Kallioinen, T. Paananen, P.-C. Bürkner, A. Vehtari, Detecting and diagnosing prior and
       likelihood sensitivity with power-scaling, Stat. Comput. 34, 57 (2024).
    """
    check_result("result", result)
    if not hasattr(result, "log_prior"):
        raise ValueError(
            "the result has no group `log_prior`; it is there where `sample_abc` knows the PyMC model whose "
            "prior it is: give `model`, or a model as `prior`"
        )
    prior = _by_column(power_scaling(result, "prior"))
    learnt = hasattr(result, "log_likelihood")
    likelihood = _by_column(power_scaling(result, "likelihood")) if learnt else dict.fromkeys(prior, np.nan)
    table = pd.DataFrame({"prior": prior, "likelihood": likelihood})
    return table.assign(diagnosis=[_diagnosis(*line) for line in table.to_numpy()])


def _diagnosis(
    prior: float,
    likelihood: float,
    *,
    # Diagnostic from which a posterior is sensitive to its prior (Kallioinen et al. 2024).
    sensitive_from: float = 0.05,
) -> str:
    if prior < sensitive_from:
        return "prior has little effect"
    if np.isnan(likelihood):
        return "prior matters"
    return (
        "prior and data differ, or prior is strong"
        if likelihood >= sensitive_from
        else "data have little effect"
    )


def _by_column(found: Any) -> dict[str, float]:
    """Each number of a data set by its variable's name and its place in it."""
    numbers = {}
    for name, variable in found.data_vars.items():
        for place, value in np.ndenumerate(variable.to_numpy()):
            numbers[f"{name}[{', '.join(map(str, place))}]" if place else str(name)] = float(value)
    return numbers


def log_densities(
    fitted: Estimator, drawn: np.ndarray, given: Observations, known: KnownDensities
) -> dict[str, dict[str, np.ndarray]]:
    """Log densities at draws (m, p), as groups of a result."""
    # Shapes: drawn (m, p); returned: (m,).
    groups = {} if known.prior is None else {"log_prior": {"prior": known.prior(drawn)}}
    if isinstance(fitted, KernelLikelihood):
        groups["log_likelihood"] = {"statistics": fitted.log_likelihood_of(drawn, given.rows)}
        if known.likelihood is not None:
            groups["log_likelihood"]["known"] = known.likelihood(drawn)
    return groups
