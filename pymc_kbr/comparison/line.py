"""One estimator on one budget's table: posteriors of held-out rows, their scores and seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.support import Support
from pymc_kbr.checking.calibrate import OBSERVATIONS_AT_ONCE
from pymc_kbr.comparison.peak_memory import peak_memory
from pymc_kbr.comparison.scores import ScoredPosterior, score_posteriors
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.selection.select import select
from pymc_kbr.simulation.sample_smc import run_smc
from pymc_kbr.tables.reference_table import ReferenceTable

MOST_ATOMS_OF_A_MODE = 1000
"""Weighted atoms up to which a mode is found from the weights: each step of the search visits all."""

SIMULATIONS_A_DRAW = 30
"""Simulations that `sample_smc` makes for each of its draws, about: it does not take a budget."""


@dataclass(frozen=True)
class SampleSMC:
    """PyMC's own `pm.sample_smc`, on the same model, as one of the estimators that `compare` compares.

    Parameters
    ----------
    draws : int, optional
        Of each chain. Where left out so many that about the budget is simulated; the number that was is
        reported.
    chains, cores : int
    observations : int
        Held-out rows that it is run for, the first ones: each takes a run of its own.
    options : dict
        Of `pm.sample_smc`, such as ``threshold`` and ``correlation_threshold``.
    """

    draws: int | None = None
    chains: int = 2
    cores: int = 2
    observations: int = 3
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scoring:
    """What is computed of each posterior: see `compare`."""

    draws: int
    modes: bool
    work: float
    time_budget: float | None
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None

    def __str__(self) -> str:
        budget = f"{self.work}" if self.time_budget is None else f"{self.work} {self.time_budget}s"
        return f"{self.draws} {self.modes} {budget} {self.exact is not None}"


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """A budget's table, and the rows that are scored."""

    table: ReferenceTable
    truth: np.ndarray
    observed: np.ndarray
    data: dict[str, np.ndarray] | None
    seconds: float


@dataclass
class Costs:
    """What an estimator has cost on one table, summed while its posteriors are made.

    Parameters
    ----------
    fit, condition : float
        Seconds.
    simulations : int
        Of its own, beside the table's.
    """

    fit: float = 0.0
    condition: float = 0.0
    simulations: int = 0


def line_of(
    estimator: str | Estimator | SampleSMC, rows: ScoredRows, source: Any, scoring: Scoring, seed: int
) -> dict[str, Any]:
    """The scores of one estimator on one table; a note instead where it fails."""
    amortised = not isinstance(estimator, SampleSMC)
    costs, clock = Costs(), time.perf_counter()
    line: dict[str, Any] = {
        "amortised": amortised,
        "seconds_simulate": rows.seconds if amortised else 0.0,
        "simulations": len(rows.table),
        "note": "",
    }
    try:
        with peak_memory() as peak:
            if isinstance(estimator, SampleSMC):
                posteriors = _smc(estimator, rows, source, scoring.modes, seed, costs)
            else:
                posteriors = _amortised(estimator, rows, scoring, seed, costs)
            k, scores = score_posteriors(
                posteriors, rows.truth, rows.observed, rows.table.parameters.std(axis=0), scoring.exact
            )
    except Exception as error:  # of whatever kind: one estimator's failure must not end a comparison of days
        failed = {"seconds_condition": float("nan"), "seconds_fit": time.perf_counter() - clock}
        return line | failed | {"note": f"{type(error).__name__}: {error}"}
    line |= {
        "seconds_fit": costs.fit,
        "seconds_condition": costs.condition / k,
        "peak_memory": peak.megabytes,
        "observations": k,
    }
    if not amortised:
        line["simulations"] = costs.simulations / k
    by_parameter = {
        f"{score}[{name}]": float(value)
        for score, values in scores.by_parameter.items()
        for name, value in zip(rows.table.parameter_names, values, strict=True)
    }
    return line | scores.overall | by_parameter


def _amortised(
    estimator: str | Estimator, rows: ScoredRows, scoring: Scoring, seed: int, costs: Costs
) -> Iterator[ScoredPosterior]:
    """An estimator's posteriors; its seconds are added to `costs`."""
    table, started = rows.table, time.perf_counter()
    if isinstance(estimator, str) and estimator == "auto":
        fitted = select(
            table,
            work=scoring.work,
            time_budget=scoring.time_budget,
            random_seed=seed,
            progressbar=False,
        )
    else:
        fitted = clone(make_estimator(estimator))
        success = weighting_of(table).success
        fitted.fit(table.parameters, table.statistics, table.support, success=success, random_seed=seed)
    costs.fit = time.perf_counter() - started
    rng = np.random.default_rng(seed)
    for part in np.array_split(np.arange(len(rows.truth)), -(-len(rows.truth) // OBSERVATIONS_AT_ONCE)):
        started = time.perf_counter()
        posteriors = fitted.condition(rows.observed[part])
        drawn = [posterior.draw(scoring.draws, rng) for posterior in posteriors]
        # Modes and scores are asked for by the comparison, not by a user: their seconds do not count.
        costs.condition += time.perf_counter() - started
        for posterior, d in zip(posteriors, drawn, strict=True):
            mode = _mode(posterior, d) if scoring.modes else None
            yield ScoredPosterior(posterior.mean(), d, posterior.atoms, posterior.weights, mode)


def _smc(
    smc: SampleSMC, rows: ScoredRows, model: Any, modes: bool, seed: int, costs: Costs
) -> Iterator[ScoredPosterior]:
    """`sample_smc` once for each observation."""
    assert rows.data is not None
    draws = smc.draws or max(20, len(rows.table) // (SIMULATIONS_A_DRAW * smc.chains))
    for i in range(min(smc.observations, len(rows.truth))):
        data = {name: values[i] for name, values in rows.data.items()}
        run = run_smc(
            model, data, draws=draws, chains=smc.chains, cores=smc.cores, random_seed=seed + i, **smc.options
        )
        costs.condition += run.seconds
        costs.simulations += run.simulations
        drawn = run.draws
        mode = _mode_of_draws(drawn, rows.table.support) if modes else None
        yield ScoredPosterior(drawn.mean(axis=0), drawn, drawn, None, mode)


def _mode(posterior: Posterior, draws: np.ndarray) -> np.ndarray:
    """The posterior's mode, from its weights or, where these are many, from its draws."""
    if np.count_nonzero(posterior.weights) > MOST_ATOMS_OF_A_MODE:
        return _mode_of_draws(draws, posterior.support)
    return posterior.mode(starts=2)


def _mode_of_draws(draws: np.ndarray, support: Support) -> np.ndarray:
    equal = np.full(len(draws), 1 / len(draws))
    return Posterior.of(Atoms(draws, Gaussian(1.0)), equal, support).mode(starts=2)
