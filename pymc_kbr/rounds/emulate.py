"""A long table whose statistics are predicted instead of simulated."""

from __future__ import annotations

import dataclasses
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import flag, whole
from pymc_kbr.arrays.scaling import deviations, nonzero
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.rounds.bounds import bounds_of, likely_bounds
from pymc_kbr.rounds.emulator import Emulator, noise_kept, noise_of
from pymc_kbr.simulation import ForwardModel, entropy_of
from pymc_kbr.tables.origin import Failures
from pymc_kbr.tables.reference_table import ReferenceTable, check_table

if TYPE_CHECKING:
    import pymc as pm

MOST_NARROWINGS = 5
"""Times, at most, that rows close in on the observation."""


@default_arithmetic
def emulate(
    table: ReferenceTable,
    draws: int,
    *,
    model: pm.Model | None = None,
    noise: Any = None,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Make a long table from a short one by predicting statistics from parameters.

    For simulators whose statistics are a function of the parameters, such as equations that are solved. A
    thousand simulations near the posterior, for instance from `zoom`, often predict all others.

    Parameters
    ----------
    table : ReferenceTable
        What was simulated.
    draws : int
        Rows of the new table: draws of the model's prior in the table's support, which between bounds are
        not independent but fill it evenly. Where simulations of the table failed, as many of the draws fail:
        with the probability that is learnt from those.
    model : pymc.Model, optional
        That the table was simulated from; that of the surrounding ``with`` block where left out.
    noise : float or array_like of shape (d,), optional
        Standard deviations of the normal noise on the observation that the simulator leaves out, as
        in `zoom`. With it rows are drawn where they are likely, and errors are measured against it.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool
        Of the rows that are predicted.

    Returns
    -------
    ReferenceTable
        Its statistics are without noise, too. ``provenance["emulated"]`` has the number of rows it was
        predicted from and the leave-one-out error.

    Raises
    ------
    TypeError, ValueError
        If `draws` is no whole number above one, the model has other parameters or another support, the table
        has no observation although there is `noise`, or `noise` is not positive.

    Warns
    -----
    UserWarning
        If the leave-one-out error is above 5% of the statistics' deviations: the statistics are noisy, or too
        few; or, with `noise`, if the errors of all statistics together are above one deviation of it.

    Notes
    -----
    The prediction is (G + r I)^-1 applied to the statistics, with a Gaussian kernel on the parameters over
    their deviations in the table: the conditional mean of the statistics, and that of a Gaussian process
    [1]_. With normal noise of deviation h on every statistic, `NadarayaWatson` with ``bandwidth=h,
    scale=False`` weights each row with its likelihood.

    References
    ----------
    .. [1] R. D. Wilkinson, Accelerating ABC methods using Gaussian processes, AISTATS (2014), 1015-1023.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_kbr as pk
    >>> times = np.arange(1, 6)
    >>> def fn(rng, rate, size):
    ...     return np.exp(-rate * times)
    >>> with pm.Model():
    ...     rate = pm.HalfNormal("rate", 1)
    ...     _ = pk.vector_simulator("y", fn, rate, observed=np.exp(-0.5 * times))
    ...     few = pk.zoom(600, rounds=2, noise=0.01, random_seed=1, progressbar=False)
    ...     many = pk.emulate(few, 5000, noise=0.01, random_seed=1, progressbar=False)
    >>> estimator = pk.NadarayaWatson(0.01, scale=False).fit(many.parameters, many.statistics)
    >>> bool(abs(estimator.condition(many.observed).mean()[0] - 0.5) < 0.01)
    True
    """
    check_table("table", table)
    flag("progressbar", progressbar)
    _check_draws(draws)
    forward = ForwardModel.of_columns(model)
    if forward.graph.parameters != table.parameter_columns:
        raise ValueError(
            f"the model's parameters are {forward.graph.parameters.names} and the table's "
            f"{table.parameter_names}; give the model that the table was simulated from"
        )
    size = len(table.statistic_names)
    deviation = deviations(table.statistics)
    scales = None if noise is None else noise_of(noise, table.statistic_names)
    if scales is not None and table.observed is None:
        raise ValueError(
            "the table has no observation, and noise draws rows where it is likely; leave noise out"
        )
    within = None if table.support == forward.support else bounds_of(table.support, table)
    if scales is not None:
        forward.check_can_be_truncated()
    started = time.perf_counter()
    rng = np.random.default_rng(entropy_of(random_seed))
    seeds = rng.integers(2**63, size=MOST_NARROWINGS + 1)
    # Errors matter as shares of the noise, which is what likelihoods are measured in.
    units = nonzero(deviation) if scales is None else scales
    emulator = Emulator.fit(table, units, rng)
    _warn_of_errors(emulator.error, size, scales is not None)
    # Rows are wanted where they are likely under the noise: each look narrows where the next one searches.
    if scales is not None:
        for seed in seeds[:-1]:
            narrowed, closer = likely_bounds(emulator, table, forward, int(seed), within, scales)
            if not narrowed:
                break
            within = closer
    parameters, support = forward.draw(draws, int(seeds[-1]), within, even=True)
    unit = "noise" if scales is not None else "deviation"
    origin = dataclasses.replace(table.origin, simulations=table.simulations, noise=noise_kept(scales))
    succeeds, failures = _succeeding(table, parameters, rng)
    return dataclasses.replace(
        table,
        parameters=parameters[succeeds],
        statistics=emulator(parameters[succeeds], progressbar),
        support=support,
        failures=failures,
        seed=None,
        provenance={
            **table.provenance,
            "emulated": f"from {len(table)} rows; leave-one-out error {emulator.error:.2g} of the {unit}",
            **origin.words,
        },
        timings={**table.timings, "emulate": time.perf_counter() - started},
        origin=origin,
    )


def _succeeding(
    table: ReferenceTable, parameters: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray | slice, Failures]:
    """Which draws (n, p) are rows: with the probability that a simulation succeeds there."""
    success = weighting_of(table).success
    if success is None or success.constant:
        return slice(None), Failures.none(parameters.shape[1])
    succeeds = rng.random(len(parameters)) < success(parameters)
    lost = np.flatnonzero(~succeeds)
    return succeeds, Failures(lost, parameters[lost], ("a simulation would have failed here",) * len(lost))


def _check_draws(draws: Any) -> None:
    whole("draws", draws)
    if draws < 2:
        raise ValueError(f"draws is {draws}; a reference table has at least two rows")


def _warn_of_errors(
    error: float,
    size: int,
    noise: bool,
    *,
    # Error, as a share of a statistic's deviation in the table, above which a warning is given.
    large_error: float = 0.05,
) -> None:
    if noise and error * np.sqrt(size) > 1:
        warnings.warn(
            f"statistics are predicted with a leave-one-out error of {error:.2g} of the noise, for all "
            f"{size} together {error * np.sqrt(size):.2g}, and likelihoods are off by as much; zoom in "
            "further, or simulate more rows",
            UserWarning,
            stacklevel=users_line(),
        )
    elif not noise and error > large_error:
        warnings.warn(
            f"statistics are predicted with a leave-one-out error of {error:.0%} of their deviations in the "
            "table; where the simulator is noisy put an estimator on the table itself, otherwise simulate "
            "more rows, or zoom in",
            UserWarning,
            stacklevel=users_line(),
        )
