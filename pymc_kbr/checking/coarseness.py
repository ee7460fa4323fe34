"""Whether a posterior is what rows near it say, or that of a table which is too coarse for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.covariance import ledoit_wolf

from pymc_kbr.arrays.refusals import times
from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.arrays.support import NearRows, Region, region_of
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.estimators import Estimator, KernelLikelihood
from pymc_kbr.estimators.estimator import LogDensity
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.checks import fewest_rows
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable
from pymc_kbr.estimators.likelihood.prior_density import fit_prior_density
from pymc_kbr.estimators.likelihood.success import Success, weighting_of
from pymc_kbr.estimators.summaries import Dependent, Transformed
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.simulation.prior.proposal import can_be_freed
from pymc_kbr.tables.reference_table import ReferenceTable

_AS_MANY = "which usually takes as many simulations again; from the prior alone you would need {many}"
REMEDIES = {
    "rounds": f"simulate in rounds near the observation (`rounds='auto'`, `refine` or `zoom`), {_AS_MANY}",
    "forced": f"simulate in rounds near the observation (`rounds=4`, `refine` or `zoom`), {_AS_MANY}",
    "prior": "simulate more draws of the prior, {many}, or take statistics that say more of the parameters",
    "refined": "take more simulations, {many} that are drawn as these were, or more rounds",
    "ended": "take more simulations, {many} that are drawn as these were",
    "zoomed": "simulate more between the bounds, {many}, or between narrower ones (`zoom`)",
}
"""What helps a coarse table: rounds, more of the prior where there can be none, or more of the same."""


def remedy_of(table: ReferenceTable) -> str:
    """Which of `REMEDIES` is open to the user of a table."""
    origin = table.origin
    if origin.from_proposal:
        return "ended" if rounds_ended(table) else "refined"
    if origin.between_bounds:
        return "zoomed"
    # Where no rounds were made the table says why: they are impossible, or take more simulations.
    if not can_be_freed(table.support.of_rows(table.parameters)) or rounds_ended(table):
        return "prior"
    return "forced" if origin.rounds.startswith("none") else "rounds"


def rounds_ended(table: ReferenceTable) -> str:
    """Why there were no rounds, or no more, where that was not for the posterior's sake; or nothing."""
    rounds = table.origin.rounds
    return rounds.partition(", since ")[2] or rounds.partition(", but ")[2]


Summaries = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Coarseness:
    """A posterior against what the rows nearest to it say."""

    # Shapes: moved (p,); resized (p,).
    moved: np.ndarray
    resized: np.ndarray
    simulations: float
    rows: int
    names: tuple[str, ...]
    judge: str = "in one that is learnt from the simulations nearest to it"
    # Deviations between the means, and logarithm of the ratio of widths, from which a table is coarse: with
    # these `tests/statistical/coarse.py` finds 90% of the coarse tables, and calls 5% of the others coarse.
    most_moved: float = 0.7
    most_resized: float = 0.45

    @property
    def size(self) -> float:
        """How coarse: the larger of shift and change of width over their limits."""
        return float(max(self.moved.max() / self.most_moved, np.abs(self.resized).max() / self.most_resized))

    @property
    def coarse(self) -> bool:
        """Whether the two differ by more than their own error explains."""
        return self.size > 1

    def message(
        self,
        remedy: str = "rounds",
        ended: str = "",
        *,
        # More times as many simulations are given without a number.
        most_times: int = 100,
    ) -> str:
        """What was found, and what to do, by a name in `REMEDIES`; and why rounds ended, where they did."""
        worst = int(
            np.argmax(np.maximum(self.moved / self.most_moved, np.abs(self.resized) / self.most_resized))
        )
        factor = float(np.exp(np.abs(self.resized[worst])))
        width = f"{times(factor, '.1f')} as {'wide' if self.resized[worst] >= 0 else 'narrow'}"
        more, moved = self.simulations / self.rows, self.moved[worst]
        many = (
            f"about {int(float(f'{self.simulations:.1e}')):,}"
            if more < most_times
            else f"more than {most_times} times as many"
        )
        return (
            f"the table is too coarse for this posterior: {self.names[worst]!r} is {width} as {self.judge}, "
            "and the means are "
            f"{moved:{'.1f' if moved < 1e6 else '.2g'}} standard deviations from each other; "
            f"{REMEDIES[remedy].format(many=many)}"
            f"{f'; there were no further rounds near the observation, since {ended}' if ended else ''}"
        )


def coarseness(
    posterior: Posterior,
    table: ReferenceTable,
    *,
    ratio: np.ndarray | None = None,
    log_prior: LogDensity | None = None,
    likelihood: KernelLikelihood | None = None,
    random_seed: int | np.random.Generator | None = None,
    # Times these limits from which one fit decides; below, a second fit to other rows must agree.
    clear_from: float = 2.0,
    # Of the posterior, and of the one that it is compared with.
    draws: int = 500,
    # Nearest rows of the first fit at least, where fewer are within reach,
    rows: int = 200,
    # and of the second.
    rows_again: int = 300,
) -> Coarseness | None:
    """Compare a posterior with what the rows nearest to it say."""
    # Shapes: ratio (n,).
    rng = np.random.default_rng(random_seed)
    drawn = posterior.draw(draws, rng)
    region = region_of(drawn, table.support)
    if region is None:
        return None
    if likelihood is not None and isinstance(likelihood.form_, Exchangeable):
        found = by_scores(likelihood, region, table, ratio, rng, fewest=rows)
        if found is not None:
            return found
    changes = None if likelihood is None else changes_of(likelihood, region.ends())
    given = drawn, region, table, ratio, log_prior, changes
    found = _compared(*given, rows, rng)
    if found is None or not found.coarse or found.size >= clear_from:
        return found
    again = _compared(*given, rows_again, rng)
    # Both have to differ: the milder of the two is what is certain.
    return found if again is None else min(found, again, key=lambda one: one.size)


def by_scores(
    likelihood: KernelLikelihood,
    region: Region,
    table: ReferenceTable,
    ratio: np.ndarray | None,
    rng: np.random.Generator,
    *,
    fewest: int = 200,
    most: int = 1000,
    # Of a posterior standard deviation: second differences have six digits.
    step: float = 0.1,
    # Standard errors that chance explains.
    errors: float = 2.0,
) -> Coarseness | None:
    """Judge a posterior by its own likelihood at the rows near it; None where these are too few to say.

    Of raw draws no likelihood that is learnt from a few hundred rows says as much as one of all rows. At rows
    (t_i, x_i) scores d log p(x_i | t) / dt have mean zero at t_i, if the likelihood is right, and as variance
    the mean of minus their derivative.
    """
    _, near = region.nearest(table.parameters, ratio)
    # Where simulations failed a score has a term of its own, and parts of a whole have no axis each.
    names, failed = tuple(table.parameter_names), weighting_of(table).success is not None
    if len(near) < fewest or failed or len(names) != len(region.centre):
        return None
    near = rng.permutation(near)[:most]
    free, axes = region.support.forward(table.parameters[near]), region.axes()
    prepared = likelihood.prepare(table.statistics[near])

    def log_density(moved: np.ndarray) -> np.ndarray:
        return likelihood.log_density(likelihood.describe(region.support.backward(moved)), prepared)

    middle = log_density(free)
    ends = np.stack([[log_density(free + sign * step * axis) for axis in axes] for sign in (1, -1)])
    scores, information = (ends[0] - ends[1]) / (2 * step), (2 * middle - ends[0] - ends[1]) / step**2
    there = np.all(np.isfinite(scores) & np.isfinite(information), axis=0)  # beside an edge a density ends
    if np.sum(there) < fewest:
        return None
    scores, information = scores[:, there], information[:, there]

    def beyond_chance(found: np.ndarray, error: np.ndarray) -> np.ndarray:
        return np.sign(found) * np.maximum(np.abs(found) - errors * error, 0.0)

    # In units of the axes the posterior has the covariance one: of its mean and its deviations that is said.
    root, unit = np.sqrt(np.sum(there)), np.linalg.norm(axes, axis=0)
    moves = scores.T @ (axes / unit)
    shift = beyond_chance(moves.mean(axis=0), moves.std(axis=0) / root)
    centred = scores - scores.mean(axis=1, keepdims=True)
    variance, expected = np.mean(centred**2, axis=1), np.mean(information, axis=1)
    error = np.std(centred**2 - information, axis=1) / (root * variance)
    more = beyond_chance(np.log(variance / np.maximum(expected, 1e-3 * variance)), error)
    # The prior's part of a width is right.
    share = np.clip(expected, 0.0, 1.0)
    widths = 1 / (1 - share + share * np.exp(-more))
    resized = -0.5 * np.log(widths @ (axes / unit) ** 2)
    simulations = region.simulations(table.parameters)
    judge = "the scores of the simulations nearest to it say"
    return Coarseness(np.abs(shift), resized, simulations, len(table), names, judge)


def _compared(
    drawn: np.ndarray,
    region: Region,
    table: ReferenceTable,
    ratio: np.ndarray | None,
    log_prior: LogDensity | None,
    changes: Summaries | None,
    fewest: int,
    rng: np.random.Generator,
    *,
    # Different draws of the comparison, at least: fewer come from a fit that has collapsed onto a point.
    fewest_draws: int = 50,
) -> Coarseness | None:
    """Draws of a posterior against one that is learnt from rows in their region, at least so many."""
    near = region.rows(table.parameters, ratio, rng, fewest)
    # Warnings of the second fit are about itself, and not about the posterior.
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = _other(table, near, ratio, log_prior, changes, rng)
    if other is None:
        return None
    again = other.draw(len(drawn), rng)
    # Beyond its rows a likelihood is extrapolated: what they say of a posterior is what it is among them.
    farthest = region.distances(table.parameters[near.rows]).max()
    within = [some[region.distances(some) <= farthest] for some in (drawn, again)]
    drawn, again = (
        those if len(np.unique(those, axis=0)) >= fewest_draws else some
        for those, some in zip(within, (drawn, again), strict=True)
    )
    if len(np.unique(again, axis=0)) < fewest_draws:
        return None
    mine, theirs = (unit_deviations(each) for each in (drawn, again))
    apart = np.abs(drawn.mean(axis=0) - again.mean(axis=0)) / np.minimum(mine, theirs)
    # Rows are needed for the narrower of the two, whichever is right.
    narrower = region if mine.prod() <= theirs.prod() else region_of(again, table.support) or region
    simulations, names = narrower.simulations(table.parameters), tuple(table.parameter_names)
    return Coarseness(apart, np.log(mine / theirs), simulations, len(table), names)


def coarseness_of(
    fitted: Estimator,
    posterior: Posterior,
    table: ReferenceTable,
    log_prior: LogDensity | None,
    rng: np.random.Generator,
) -> Coarseness | None:
    """The same for an estimator that was fitted to a table, or to one of which this has some rows."""
    known: FittedTable = fitted.table_
    if known.draws is not None:
        return None
    ratio = weighting_of(table).ratio
    if not known.streamed and known.ratio is not None:
        # Rows that were left out of the fit have no density under its prior.
        ratio = np.zeros(known.size)
        ratio[slice(None) if known.rows is None else known.rows] = known.ratio
    of_all = isinstance(fitted, KernelLikelihood) and isinstance(
        known.scaler, Scaler | Transformed | Dependent
    )
    likelihood = fitted if of_all else None
    return coarseness(
        posterior, table, ratio=ratio, log_prior=log_prior, likelihood=likelihood, random_seed=rng
    )


def _other(
    table: ReferenceTable,
    near: NearRows,
    ratio: np.ndarray | None,
    log_prior: LogDensity | None,
    changes: Summaries | None,
    rng: np.random.Generator,
    *,
    # Statistics above which the likelihood is that of a few summaries of them.
    most_statistics: int = 12,
    particles: int = 500,
) -> Posterior | None:
    """The posterior under a likelihood that is learnt from near rows, or None where none can be."""
    if len(near.rows) < fewest_rows(table.parameters.shape[1], 1):
        return None
    success = weighting_of(table).success
    success = None if success is None else success.at_rows()
    support = table.support.of_rows(table.parameters)  # near rows alone have a narrower range
    if log_prior is None:
        log_prior = _prior_density(table, ratio, success, rng)
    noise = table.noise * rng.normal(size=(len(near.rows), len(table.noise)))
    statistics, observed = table.statistics[near.rows] + noise, table.observed
    assert observed is not None
    few = summaries_of(table, near)
    if statistics.shape[1] <= most_statistics:
        ways: list[Summaries] = [lambda x: x, few]
    else:
        ways = [few] if changes is None else [changes, few]
    # What loses least of the statistics first: the first way that can be fitted is taken.
    for way in ways:
        try:
            # With the noise of a table a statistic may have no logarithm, and a likelihood no value.
            x, y = way(statistics), way(observed[None])
            if len(x) < fewest_rows(table.parameters.shape[1], x.shape[1]):
                continue
            fitted: Estimator = KernelLikelihood("location_scale", particles).for_scores()
            fitted.fit(
                table.parameters[near.rows],
                x,
                support,
                ratio=None if ratio is None else ratio[near.rows],
                log_prior=log_prior,
                success=success,
                random_seed=rng,
            )
            found: Posterior = fitted.for_draws(particles).condition(y[0])
        except (ValueError, np.linalg.LinAlgError):
            continue
        return found
    return None


def _prior_density(
    table: ReferenceTable, ratio: np.ndarray | None, success: Success | None, rng: np.random.Generator
) -> LogDensity:
    """The log density of the prior of all simulations, failed ones included."""
    support = table.support.of_rows(table.parameters)
    weighs = success is not None and not success.condition
    if ratio is None and not weighs:
        return fit_prior_density(table.parameters, support, rng).log_density
    ratio = np.ones(len(table)) if ratio is None else ratio
    rows = ratio > 0
    weights, parameters = np.log(ratio[rows]), table.parameters[rows]
    if success is not None and weighs:
        weights = weights - success.log_probability(parameters)
    return fit_prior_density(parameters, support, rng, log_weights=weights).log_density


# --- a few summaries of the rows near a posterior ---


def summaries_of(
    table: ReferenceTable,
    near: NearRows,
    *,
    # Rows near the posterior from which summaries are learnt, at most.
    rows_for_summaries: int = 2000,
) -> Callable[[np.ndarray], np.ndarray]:
    """From statistics (k, d) to linear summaries informative about the parameters, and the rest."""
    rows = near.more[:rows_for_summaries]
    with np.errstate(divide="ignore"):
        theta = table.support.forward(table.parameters[rows])
    x = table.statistics[rows]
    kept = np.ptp(x, axis=0) > 0
    centre, unit = x[:, kept].mean(axis=0), unit_deviations(x[:, kept])
    x = (x[:, kept] - centre) / unit
    u = (theta - theta.mean(axis=0)) / unit_deviations(theta)
    slopes = np.linalg.lstsq(u, x, rcond=None)[0]
    # Shrunk: there may be more statistics than rows, whose own covariance then has no inverse.
    covariance = ledoit_wolf(x - u @ slopes, assume_centered=True)[0]
    root = np.linalg.cholesky(covariance + 1e-10 * np.eye(len(covariance)))
    leading, sizes, _ = np.linalg.svd(np.linalg.solve(root, slopes.T), full_matrices=False)
    leading = leading[:, sizes > 1e-10 * sizes.max(initial=0.0)]

    def summaries(statistics: np.ndarray) -> np.ndarray:
        white = np.linalg.solve(root, ((statistics[:, kept] - centre) / unit).T).T
        along = white @ leading
        rest = np.sum((white - along @ leading.T) ** 2, axis=1)
        spread = [np.log(rest + 1e-12)[:, None]] if white.shape[1] > leading.shape[1] else []
        return np.hstack([along, *spread])

    return summaries


def changes_of(likelihood: KernelLikelihood, ends: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From statistics (k, d) to what a learned likelihood makes of them along each axis of a posterior."""
    # Shapes: ends (2 q, p).
    count = len(ends) // 2

    def summaries(statistics: np.ndarray) -> np.ndarray:
        logs = likelihood.log_likelihoods(ends, statistics)
        return (logs[:count] - logs[count:]).T

    return summaries
