"""Rounds of simulations at draws of the present posterior."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import path_of, shown
from pymc_kbr.estimators import Estimator, KernelLikelihood, make_estimator
from pymc_kbr.estimators.likelihood.choice import scale_of_many
from pymc_kbr.estimators.sets import most_columns
from pymc_kbr.rounds.sequence import DRAWS_FOR_PROPOSAL, Rounds, check_arguments, least_rows, near_rows
from pymc_kbr.simulation import ForwardModel, SimulationOptions, check_can_be_proposed
from pymc_kbr.simulation.model.read import refuse_without_simulator
from pymc_kbr.tables.layout import folder_of_stores
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pymc as pm


@default_arithmetic
def refine(
    draws: int,
    *,
    model: pm.Model | None = None,
    rounds: int = 4,
    estimator: str | Estimator | None = None,
    prior_share: float = 0.1,
    random_seed: int | np.random.Generator | None = None,
    cores: int | None = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Simulate a reference table at draws of the posterior that it leads to, in rounds.

    The first round simulates draws of the prior. Each later one fits an estimator to the rows that there
    are, conditions it on the observation, and simulates at draws of a normal mixture that is fitted to its
    posterior: half of them from one with twice the deviations, and `prior_share` of them from the prior. The
    mixture is as much wider than the posterior as posteriors of held-out rows near the observation would
    have to be to cover their parameters, so that a posterior that is narrow by chance does not stay so. Where
    known densities of other observed variables leave fewer than 100 effective rows of the first round, the
    second is drawn from the prior times these.

    Parameters
    ----------
    draws : int
        Number of simulations, over all rounds.
    model : pymc.Model, optional
        As in `simulate`. Each free variable must be one that a bijection frees, and have a density.
    rounds : int
        At most: where the posteriors of two rounds cannot be told from each other, the next round is the
        last and has all simulations that are left.
    estimator : str or Estimator, optional
        What the rounds go by: `KernelLikelihood` where left out, which needs no correction for where rows
        come from, with ``scale="dependent"`` where of 21 to 250 statistics half or fewer, and at most
        twenty, are found to depend on the parameters in the first round; of data sets, `Adjusted` on the
        nearest three tenths of the rows. All but the first are given `prior_ratio` as their `ratio`.
    prior_share : float
        Share of the rows of later rounds that are draws of the prior, above 0 and below 1.
    random_seed : int or numpy.random.Generator, optional
    cores, executor, on_failure, batched, timeout, progressbar
        As in `simulate`.
    store : str or Path, optional
        A folder for one store a round, made if it is missing. The same call goes on after a crash.

    Returns
    -------
    ReferenceTable
        Of all rounds, with `prior_ratio`, by which `sample_abc` and `select` weight the rows where an
        estimator needs them to be draws of the prior. Rows far from what the last round drew from are
        left out, at most half of all, and the table's support ends there. The others stand in the order of
        their rounds; ``provenance["refined"]`` says how many remain of each.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`; and if a round has too few rows, a parameter is discrete or has no density, the
        folder holds the rounds of another call or observation, or there is no seed for a store.

    Notes
    -----
    `prior_ratio` is p / q, with q the density of all rounds together, sum over r of (n_r / n) q_r: the
    deterministic mixture of multiple importance sampling [1]_. It is known exactly, since the q_r are normal
    mixtures in the space without edges. Simulating where the present posterior has its mass is sequential
    neural likelihood's idea [2]_. Data sets stay what they are in the table; each round makes columns of them
    by `SetFeatures`, fitted to all rows so far.

    References
    ----------
    .. [1] E. Veach, L. J. Guibas, Optimally combining sampling techniques for Monte Carlo rendering,
       SIGGRAPH (1995), 419-428.
    .. [2] G. Papamakarios, D. C. Sterratt, I. Murray, Sequential neural likelihood: fast likelihood-free
       inference with autoregressive flows, AISTATS (2019), 837-848.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, size):
    ...     return rng.normal(mean, 0.01, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, sum_stat="mean", observed=[0.3001, 0.3002])
    ...     table = refine(1000, rounds=3, random_seed=1, progressbar=False)
    >>> low, high = np.quantile(table.parameters, [0.1, 0.9])
    >>> bool(0.2 < low < 0.3001 < high < 0.4)
    True
    """
    asked_for = _checked(draws, rounds, estimator, prior_share, random_seed, store)
    refuse_without_simulator(model)
    forward = ForwardModel.read(model)
    given = _default(forward) if asked_for is None else asked_for
    # In words and numbers: a store compares them with those of an earlier call.
    asked = {
        "draws": draws,
        "rounds": rounds,
        "estimator": " ".join(repr(given).split()),
        "prior_share": prior_share,
    }
    options = SimulationOptions(
        draws=draws,
        random_seed=random_seed,
        cores=cores,
        executor=executor,
        on_failure=on_failure,
        batched=batched,
        timeout=timeout,
        progressbar=progressbar,
        to_be_extended=False,
    )
    _check_rounds(draws, rounds, forward, given)
    # Later rounds are near it. NaN, which is missing, is not equal to itself.
    asked["observed"] = [None if np.isnan(value) else value for value in forward.graph.observed.tolist()]
    if store is not None:
        folder_of_stores(path_of("store", store))
    settle = _by_first_round if asked_for is None and not forward.graph.statistics.set_names else None
    where = None if store is None else Path(store)
    return Rounds(forward, given, options, asked, where, settle=settle).run()


def _checked(
    draws: Any, rounds: Any, estimator: Any, prior_share: Any, random_seed: Any, store: Any
) -> Estimator | None:
    """The estimator, if one is given; what is out of range is refused before a model is looked at."""
    check_arguments(draws, rounds, random_seed, store)
    if isinstance(prior_share, bool) or not isinstance(prior_share, int | float | np.number):
        raise TypeError(f"prior_share is {shown(prior_share)}; it must be a number above 0 and below 1")
    if not 0 < prior_share < 1:
        raise ValueError(f"prior_share is {shown(prior_share)}; it must lie above 0 and below 1")
    return None if estimator is None else make_estimator(estimator)


def _default(forward: ForwardModel) -> Estimator:
    """What rounds go by where nothing is given."""
    # The columns of data sets are regression estimates already, with errors that fall with the size of a set.
    return (
        near_rows(True)
        if forward.graph.statistics.set_names
        else KernelLikelihood(particles=DRAWS_FOR_PROPOSAL)
    )


def _by_first_round(table: ReferenceTable) -> Estimator:
    """The learned likelihood of all statistics, or, where few of many depend on the parameters, of these."""
    scale = scale_of_many(table.statistics, table.parameters)
    return KernelLikelihood(particles=DRAWS_FOR_PROPOSAL, scale=scale)


def _check_rounds(draws: int, rounds: int, forward: ForwardModel, estimator: Estimator) -> None:
    """Refuse rounds of so few rows that they show no posterior, and priors that rounds cannot draw."""
    columns = forward.graph.parameters
    check_can_be_proposed(forward.seen_support(), columns)
    forward.log_prior(forward.prior.block(0)[:2])
    least = least_rows(columns.size, most_columns(forward.graph.statistics, columns.size), estimator)
    if draws // rounds < least:
        raise ValueError(
            f"draws is {draws}, of which each of {rounds} rounds simulates {draws // rounds}; give each at "
            f"least {least}: more draws, or fewer rounds"
        )
