"""Rounds one after the other: simulate, fit, condition, propose."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import chi2
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.refusals import check_seed, path_of, shown, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.weighted import column_quantiles, effective_sample_size
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Rejection
from pymc_kbr.estimators.likelihood.checks import fewest_rows
from pymc_kbr.estimators.likelihood.prior_density import free_log_density
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.likelihood.tempered import tempered
from pymc_kbr.estimators.sets import columns_of_sets
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.rounds.bounds import NARROWED_TO
from pymc_kbr.simulation import (
    ForwardModel,
    Interrupted,
    Proposal,
    SimulationOptions,
    entropy_of,
    simulate_table,
    warn_of_failures,
    warn_of_interrupt,
    weights_of,
)
from pymc_kbr.tables.origin import EDGE_TAIL, Failures
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

DRAWS_FOR_PROPOSAL = 1_000
"""Draws of a posterior to which a proposal is fitted."""


def check_arguments(draws: Any, rounds: Any, random_seed: Any, store: Any) -> None:
    """Refuse arguments of `zoom` and `refine` that are out of range, before a model is looked at."""
    whole("draws", draws)
    whole("rounds", rounds)
    check_seed(random_seed)
    if store is None:
        return
    path_of("store", store)
    if not isinstance(random_seed, int | np.integer | list | tuple | np.ndarray):
        raise ValueError(
            f"random_seed is {shown(random_seed)}; with a store it must be a whole number, or several, so "
            "that the same call goes on"
        )


@dataclass(eq=False)
class Rounds:
    """The rounds of one call: what they have in common, and those that are simulated."""

    forward: ForwardModel
    estimator: Estimator
    options: SimulationOptions
    asked: dict[str, Any]
    store: Path | None
    tables: list[ReferenceTable] = field(default_factory=list)
    proposals: list[Proposal | None] = field(default_factory=list)
    needs_refinement: Callable[[ReferenceTable], Estimator | None] | None = None
    settle: Callable[[ReferenceTable], Estimator] | None = None
    ended: str = ""
    refused: dict[str, None] = field(default_factory=dict)

    def run(self) -> ReferenceTable:
        """Make the rounds, those that a store does not hold, and the table of them all."""
        self.options = dataclasses.replace(self.options, warns_of_failures=False)
        try:
            table = self._made()
        except KeyboardInterrupt:
            if not self.tables:
                raise
            table = self._so_far()
        on_failure = self.options.on_failure
        warn_of_failures(len(table.failures), self.asked["draws"], on_failure)
        return table

    def _so_far(self) -> ReferenceTable:
        """The table of the rounds that there are when they are interrupted."""
        made = sum(len(table) + len(table.failures) for table in self.tables)
        self.ended = f"interrupted after {made:,} of {self.asked['draws']:,} simulations"
        warn_of_interrupt(self.ended, self.store)
        table = self._pooled()
        return dataclasses.replace(table, provenance={**table.provenance, "interrupted": self.ended})

    def _made(self) -> ReferenceTable:
        draws, rounds = self.asked["draws"], self.asked["rounds"]
        entropy = entropy_of(self.options.random_seed)
        # Simulations and proposals have seeds apart: a round that a store holds changes no other.
        seeds = np.random.default_rng(entropy).integers(2**63, size=(2, rounds))
        sizes = self.asked.get("sizes", [draws // rounds] * rounds)
        left, last = draws, rounds == 1
        proposal: Proposal | None = None
        if self.needs_refinement is not None:
            self.options = dataclasses.replace(self.options, random_seed=entropy)
            self._begin(sizes[0])
            left -= sizes[0]
            further = self.needs_refinement(self.tables[0])
            if further is not None:
                self.estimator = further
                proposal = self._next(int(seeds[1, 1]))
            if proposal is None:
                return self._rest_of_the_prior()
            last = proposal.notes["last"]
        while True:
            number = len(self.tables)
            size = left if last else sizes[number]
            self._simulate(size, proposal, int(seeds[0, number]))
            left -= size
            if last:
                return self._pooled(stopped=number + 1 < rounds)
            held = self._held(number + 1)
            # Where no new one is found, what is left is drawn from the one before.
            proposal = held or self._next(int(seeds[1, number + 1])) or proposal
            last = bool(self.ended) or (proposal is not None and proposal.notes["last"])

    def _begin(self, size: int) -> None:
        """Simulate the first rows of what all draws of the prior would be."""
        options = dataclasses.replace(self.options, draws=size, to_be_extended=True)
        self._add(options, None)

    def _rest_of_the_prior(self) -> ReferenceTable:
        """All draws of the prior, of which there are the first ones."""
        options = dataclasses.replace(self.options, to_be_extended=True)
        try:
            made = simulate_table(options, self.forward, head=self.tables[0])
        except Interrupted as error:
            self.tables = [error.table]
            raise
        assert isinstance(made, ReferenceTable)
        return made

    def _next(self, seed: int) -> Proposal | None:
        """What the next round is drawn from; None where none is found and rounds were not asked for."""
        try:
            return self._propose(seed)
        except (ValueError, np.linalg.LinAlgError) as error:
            if self.needs_refinement is None:
                raise
            self.ended = str(error)
            return None

    def _simulate(self, size: int, proposal: Proposal | None, seed: int) -> None:
        options = dataclasses.replace(
            self.options, draws=size, random_seed=seed, proposal=proposal, store=self._path(len(self.tables))
        )
        self._add(options, proposal)

    def _add(self, options: SimulationOptions, proposal: Proposal | None) -> None:
        """Simulate a table, or what there is of it when it is interrupted."""
        try:
            made = simulate_table(options, self.forward)
        except Interrupted as error:
            self.tables.append(error.table)
            self.proposals.append(proposal)
            raise
        self.tables.append(made.load() if isinstance(made, StoredTable) else made)
        self.proposals.append(proposal)

    def _path(self, number: int) -> Path | None:
        return None if self.store is None else self.store / f"round_{number}.zarr"

    def _held(self, number: int) -> Proposal | None:
        """What a round was drawn from in an earlier call."""
        path = self._path(number)
        if path is None or not path.exists():
            return None
        document = StoredTable.open(path).store.documents.get("proposal") or {"notes": {}}
        asked = document["notes"].get("asked")
        if asked != self.asked:
            raise ValueError(
                f"the store {path} is that of a round of another call, with {asked}, and now {self.asked}; "
                "make the call that it was made with, or choose another folder"
            )
        return Proposal.from_json(document, self.forward.support)

    def _propose(
        self,
        seed: int,
        *,
        # Draws that are compared with as many of the round before.
        compared_draws: int = 500,
    ) -> Proposal:
        """What the next round is drawn from."""
        rng = np.random.default_rng(seed)
        if self.settle is not None:
            self.estimator = self.settle(self.tables[0].without_missing())
        # Columns of data sets are learnt anew in each round, since near the observation a regression says
        # more. They are functions of the data, whatever rows they were learnt from.
        table = columns_of_sets(self._pooled()).without_missing()
        # Sums of several threads are rounded as these share them out.
        with one_blas_thread():
            # Of a few rows that what is known leaves nothing is learnt: it says itself where to look first.
            few = len(self.tables) == 1 and few_effective(table)
            posterior = None if few else self._posterior(table, rng)
            drawn = (
                draws_of_known(self.forward, DRAWS_FOR_PROPOSAL, rng)
                if posterior is None
                else posterior.draw(DRAWS_FOR_PROPOSAL, rng)
            )
            compared = drawn[:compared_draws]
            before = self.proposals[-1]
            settled = before is not None and indistinguishable(
                self.forward.support.forward(np.array(before.notes["compared"])),
                self.forward.support.forward(compared),
                rng,
            )
            wider = 1.0
            if posterior is not None:
                held_out = held_out_rows(table, rng)
                rest = np.setdiff1d(np.arange(len(table)), held_out)
                wider = widening(self._fitted(table, rest, rng), table, held_out, rng)
                # Posteriors that rest on a row or two are too narrow by any factor: no wider than the prior.
                wider = min(wider, self._widest(drawn))
            independent = np.inf if posterior is None else posterior.effective_sample_size
            notes = {
                "widened": wider,
                "asked": self.asked,
                "last": bool(settled or len(self.tables) + 1 == self.asked["rounds"]),
                "compared": compared.tolist(),
            }
            return proposal_of(
                drawn,
                min(DRAWS_FOR_PROPOSAL, independent),
                self.forward.support,
                self.asked["prior_share"],
                wider,
                int(rng.integers(2**32)),
                notes,
                self.tables[0].parameters,
            )

    def _widest(self, drawn: np.ndarray) -> float:
        """By what covariances of draws (m, p) may be multiplied until they are as wide as the prior."""
        with np.errstate(divide="ignore"):
            rows, draws = (self.forward.support.forward(some) for some in (self.tables[0].parameters, drawn))
        ratios = unit_deviations(rows[np.isfinite(rows).all(axis=1)]) / unit_deviations(draws)
        return max(1.0, float(np.max(ratios**2)))

    def _posterior(self, table: ReferenceTable, rng: np.random.Generator) -> Posterior:
        # To all rows: what is held out for `widening` lies nearest to the observation, and is missed there.
        fitted = self._fitted(table, np.arange(len(table)), rng)
        return fitted.for_draws(DRAWS_FOR_PROPOSAL).condition(table.observed)  # type: ignore[arg-type]

    def _fitted(self, table: ReferenceTable, rows: np.ndarray, rng: np.random.Generator) -> Estimator:
        """The estimator, fitted to some rows of a table."""
        weighting = weighting_of(table)
        ratio = None if weighting.ratio is None else weighting.ratio[rows]
        given: dict[str, Any] = {"ratio": ratio, "random_seed": rng}
        if weighting.success is not None:
            given["success"] = weighting.success
        if self.estimator.multiplies_prior:
            given["log_prior"] = self.forward.log_target
        estimator: Estimator = clone(self.estimator)
        if self.needs_refinement is not None:  # the posterior itself is that of another fit
            estimator = estimator.for_scores()
        estimator.reading(np.vstack([table.statistics, table.observed[None]]))  # type: ignore[index]
        parameters: Any = table.parameters[rows]
        statistics: Any = table.statistics[rows]
        if isinstance(estimator, KernelLikelihood):
            # With names, by which shifts and edges of statistics are declared.
            parameters = pd.DataFrame(parameters, columns=table.parameter_names)
            statistics = pd.DataFrame(statistics, columns=table.statistic_names)
        estimator.fit(parameters, statistics, table.support, **given)
        self.refused |= dict.fromkeys(estimator.refused_curves(table.statistic_names))
        return estimator

    def _pooled(
        self,
        stopped: bool = False,
        *,
        # Of all rows, at least, are within the bounds beyond which rows are left out of a fit.
        kept_share: float = 0.5,
    ) -> ReferenceTable:
        """All rows near what the last round was drawn from, and how far they are from draws of the prior."""
        last = self.proposals[-1]
        if last is None:
            return self.tables[0]
        parameters = np.vstack([table.parameters for table in self.tables])
        failed = np.vstack([table.failures.parameters for table in self.tables])
        rows, drawn = len(parameters), np.vstack([parameters, failed])
        # Failures were drawn too: a round's share is that of what it asked for.
        sizes = np.array([len(table) + len(table.failures) for table in self.tables])
        log_prior = self.forward.log_prior(drawn)
        parts = [
            np.zeros(len(drawn)) if proposal is None else proposal.log_ratio(drawn, log_prior, int(size))
            for proposal, size in zip(self.proposals, sizes, strict=True)
        ]
        # All rounds are one mixture in the denominator: a row that one of them hardly draws has no huge
        # weight where another draws it often.
        log_ratio = logsumexp(parts, b=(sizes / sizes.sum())[:, None], axis=0)
        least = int(kept_share * len(parameters))
        region = region_of(last, parameters, least)
        log_known, ratio = self.forward.log_known, np.exp(-log_ratio)
        edges = edges_of(last, parameters, ratio[:rows], region, least)
        # Over all draws the mean of p / q is one.
        mass = float(np.sum(ratio[region.contains(drawn)]) / len(drawn))
        if log_known is not None:
            ratio = weights_of(log_known(drawn) - log_ratio)
        left_out = int(np.sum(~region.contains(parameters)))
        further = f"; {left_out} rows left out, outside of the last bounds"
        if stopped:
            further += "; ended early, since the posterior did not change any more"
        further += "".join(f"; {words}" for words in self.refused)
        ratios = {"prior_ratio": ratio[:rows], "failed_ratio": ratio[rows:] if len(failed) else None}
        table = joined(self.tables, region, word="refined", further=further, **ratios)
        origin = dataclasses.replace(
            table.origin, from_proposal=True, left_out=left_out, prior_mass=mass, **edges
        )
        return dataclasses.replace(table, origin=origin)


def least_rows(
    parameters: int,
    statistics: int,
    estimator: Estimator,
    *,
    # Rows that a round must have.
    least_rows_of_a_round: int = 20,
    least_rows_a_parameter: int = 10,
) -> int:
    """Rows that a round must have, for so many parameters and statistics."""
    least = least_rows_of_a_round + least_rows_a_parameter * parameters
    if isinstance(estimator, KernelLikelihood):
        least = max(least, MOST_CONDITIONED + fewest_rows(parameters, statistics))
    return least


def near_rows(scale: bool | str) -> Estimator:
    """What rounds go by where no likelihood is learned: nearest rows, moved to the observation."""
    near = Rejection(0.3, kernel="epanechnikov", scale=scale)
    return Adjusted(near, "heteroscedastic_local_linear")


# --- comparison of two samples ---


PERMUTATIONS, INDISTINGUISHABLE_LEVEL = 200, 0.95
"""How often two samples are mixed at random, and the share of these times that they may be nearer."""


def indistinguishable(one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether the energy distance of two samples (m, q) is one that halves of their union often have."""
    both = np.vstack([one, other])
    both = both / unit_deviations(both)
    distances = cdist(both, both)
    # With signs 1 / m and -1 / m the quadratic form of distances is minus the energy distance.
    signs = np.where(np.arange(len(both)) < len(one), 1 / len(one), -1 / len(other))
    mixed = np.array([rng.permutation(signs) for _ in range(PERMUTATIONS)])
    found = -signs @ distances @ signs
    by_chance = -np.einsum("bi,bi->b", mixed @ distances, mixed)
    return bool(found <= np.quantile(by_chance, INDISTINGUISHABLE_LEVEL))


# --- edges of the prior and of the last bounds ---


def edges_of(
    proposal: Proposal,
    parameters: np.ndarray,
    ratio: np.ndarray,
    region: Support,
    least: int,
    *,
    # From the last bounds, within which draws are near them. Those of a normal posterior are four from
    # its mean, and a thousandth of it is so near; were a hundredth of it beyond bounds, near them would
    # be eight of the rest.
    deviations_near: float = 1.0,
) -> dict[str, Any]:
    """What an `Origin` holds of these edges."""
    # Shapes: parameters (n, p); ratio (n,).
    prior = column_quantiles(parameters, [EDGE_TAIL, 1 - EDGE_TAIL], ratio)
    reach = reach_of(proposal, parameters, least)
    bounds, near = (ends_of_parts(proposal, at) for at in (reach, reach - deviations_near))
    narrowed = _narrowed(region, proposal.support)
    # Beyond the prior's own edge there is little that could be cut off.
    cuts = narrowed & (bounds[0] > prior[0]), narrowed & (bounds[1] < prior[1])
    cut = tuple(
        tuple(float(end) if there else None for end, there in zip(ends, which, strict=True))
        for ends, which in zip(near, cuts, strict=True)
    )
    return {"prior_edges": tuple(map(tuple, prior.tolist())), "cut_edges": cut}


def _narrowed(region: Support, whole: Support) -> np.ndarray:
    """Which columns (p,) have other bounds than those of the prior."""
    found = np.zeros(whole.size, dtype=bool)
    for block, own in zip(region.blocks, whole.blocks, strict=True):
        if block != own:
            step, before = block.steps[0], own.steps[0] if own.steps else None
            assert isinstance(step, Interval)
            columns = list(block.columns)
            if before is None:
                found[columns] = np.isfinite(step.lower)
            else:
                assert isinstance(before, Interval)
                found[columns] = np.not_equal(step.lower, before.lower) | np.not_equal(
                    step.upper, before.upper
                )
    return found


# --- correction of posteriors that are too narrow ---


MOST_CONDITIONED = 12
"""Rows that are conditioned on."""


def held_out_rows(
    table: ReferenceTable,
    rng: np.random.Generator,
    *,
    # Rows nearest to the observation, of which half at most are held out: a share, and fewest.
    near_share: float = 0.25,
    fewest_in_share: int = 20,
) -> np.ndarray:
    """Numbers of a few rows near the observation."""
    unit = unit_deviations(table.statistics)
    away = np.linalg.norm((table.statistics - table.observed) / unit, axis=1)
    near = np.argsort(away, kind="stable")[: max(fewest_in_share, int(near_share * len(table)))]
    # Half of the near rows stay: without them the fit would be worse there than with all.
    return rng.permutation(near)[: min(len(near) // 2, MOST_CONDITIONED)]


def widening(
    fitted: Estimator,
    table: ReferenceTable,
    held_out: np.ndarray,
    rng: np.random.Generator,
    *,
    # Draws of each posterior.
    draws_of_each: int = 300,
    # Share of the held-out rows that widened posteriors cover, as normal ones do.
    covered: float = 0.8,
) -> float:
    """By what covariances of posteriors at rows (k,) must be multiplied to cover: at least one."""
    if isinstance(fitted, KernelLikelihood):
        fitted = fitted.for_scores()
    posteriors = fitted.condition(table.statistics[held_out])
    with np.errstate(divide="ignore"):
        truths = table.support.forward(table.parameters[held_out])
    squared = [
        _squared_distance(table.support.forward(posterior.draw(draws_of_each, rng)), truth)
        for posterior, truth in zip(posteriors, truths, strict=True)
    ]
    found = float(np.quantile(squared, covered) / chi2.ppf(covered, truths.shape[1]))
    return max(1.0, found)


def _squared_distance(draws: np.ndarray, truth: np.ndarray) -> float:
    apart = truth - draws.mean(axis=0)
    unit = unit_deviations(draws)
    # Draws of a few rows lie in a plane, and what is off it must not count as infinitely far.
    covariance = np.cov((draws / unit).T).reshape(len(truth), -1) + 1e-6 * np.eye(len(truth))
    return (apart / unit) @ np.linalg.solve(covariance, apart / unit)


# --- one table from several rounds ---


def joined(
    tables: list[ReferenceTable],
    support: Support | None = None,
    prior_ratio: np.ndarray | None = None,
    failed_ratio: np.ndarray | None = None,
    word: str = "zoomed",
    further: str = "",
) -> ReferenceTable:
    """All rows of some tables that lie in a support, that of the last table where left out."""
    # Shapes: prior_ratio (n,); failed_ratio (f,).
    # Each table is a draw of the prior between its bounds, so between the last ones all are of one law. The
    # prior's mass there is the product of the shares that bounds leave of the rows between those before.
    last = tables[-1]
    shares_left = [np.mean(b.support.contains(drawn_in(a))) for a, b in pairwise(tables)]
    support = last.support if support is None else support
    inside = [support.contains(table.parameters) for table in tables]
    drawn = [len(table) + len(table.failures) for table in tables]
    before = np.cumsum([0, *drawn[:-1]])
    origin = dataclasses.replace(last.origin, simulations=sum(drawn), prior_mass=float(np.prod(shares_left)))
    shares = "; ".join(f"{rows.sum()} rows of {n}" for rows, n in zip(inside, drawn, strict=True))
    return dataclasses.replace(
        last,
        support=support,
        prior_ratio=None if prior_ratio is None else prior_ratio[np.concatenate(inside)],
        parameters=np.vstack([t.parameters[rows] for t, rows in zip(tables, inside, strict=True)]),
        statistics=np.vstack([t.statistics[rows] for t, rows in zip(tables, inside, strict=True)]),
        failures=Failures(
            np.concatenate([start + t.failures.rows for start, t in zip(before, tables, strict=True)]),
            np.vstack([t.failures.parameters for t in tables]),
            tuple(message for t in tables for message in t.failures.messages),
            failed_ratio,
        ),
        seed=None,
        provenance={**last.provenance, **origin.words, word: shares + further},
        timings={name: sum(t.timings.get(name, 0.0) for t in tables) for name in last.timings},
        origin=origin,
    )


def drawn_in(table: ReferenceTable) -> np.ndarray:
    """All parameters that were drawn for a table, those of failures last."""
    return np.vstack([table.parameters, table.failures.parameters])


# --- the next proposal ---


NEAR_FACTOR, WIDE_FACTOR, WIDE_SHARE = 1.2, 4.0, 0.5
"""By which covariances are multiplied, and the share of the draws that comes from the wide ones."""


def proposal_of(
    draws: np.ndarray,
    independent: float,
    support: Support,
    prior_share: float,
    wider: float,
    seed: int,
    notes: Mapping[str, Any],
    prior_draws: np.ndarray,
) -> Proposal:
    """A normal mixture on draws of a posterior, half of it widened, with a share of the prior."""
    # It ends where the draws of the prior and of the posterior do: beyond them simulators fail.
    # Shapes: draws (m, p); prior_draws (n, p).
    with np.errstate(divide="ignore"):
        free, others = (support.forward(some) for some in (draws, prior_draws))
    free, others = (some[np.isfinite(some).all(axis=1)] for some in (free, others))
    ends = np.stack([end(np.vstack([free, others]), axis=0) for end in (np.min, np.max)])
    centre, unit = free.mean(axis=0), unit_deviations(free)
    mixture = _mixture((free - centre) / unit, independent, seed)
    covariances = wider * mixture.covariances_ * np.outer(unit, unit)
    shares = (1 - WIDE_SHARE) * mixture.weights_, WIDE_SHARE * mixture.weights_
    weights = np.concatenate(shares)
    return Proposal(
        weights / weights.sum(),
        np.tile(centre + unit * mixture.means_, (2, 1)),
        np.concatenate([NEAR_FACTOR * covariances, WIDE_FACTOR * covariances]),
        support,
        prior_share,
        notes,
        ends,
    )


def _mixture(
    points: np.ndarray,
    independent: float,
    seed: int,
    *,
    # Normal parts of a mixture, at most.
    most_proposal_parts: int = 12,
    # Independent draws that each number of a mixture must have: fewer do not show a part's covariance.
    draws_a_number: int = 10,
) -> GaussianMixture:
    q = points.shape[1]
    numbers = 1 + q + q * (q + 1) / 2  # of a part
    most = int(np.clip(independent / (draws_a_number * numbers), 1, most_proposal_parts))
    best, lowest = None, np.inf
    for parts in [k for k in (1, 2, 3, 4, 6, 8, 12) if k <= most]:
        with warnings.catch_warnings():
            # It need not be the best mixture: whatever it is, its density is known.
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted = GaussianMixture(parts, reg_covar=1e-4, random_state=seed % 2**32).fit(points)
        # Draws that repeat, or are weighted, count for as many as they are worth.
        criterion = -2 * independent * fitted.score(points) + parts * numbers * np.log(independent)
        if criterion < lowest:
            best, lowest = fitted, criterion
    assert best is not None
    return best


def region_of(proposal: Proposal, parameters: np.ndarray, least: int) -> Support:
    """The support in which the rows of a fit lie: bounds around the parts of a mixture."""
    # Shapes: parameters (n, p).
    return _between(proposal, parameters, reach_of(proposal, parameters, least))


def reach_of(
    proposal: Proposal,
    parameters: np.ndarray,
    least: int,
    *,
    # Deviations from a part's mean beyond which rows are left out of a fit.
    part_reach: float = 4.0,
    # By which the reach grows until enough rows lie within.
    reach_factor: float = 1.5,
) -> float:
    """Deviations from the parts of a mixture to the bounds of `region_of`."""
    reach = part_reach
    while np.sum(_between(proposal, parameters, reach).contains(parameters)) < least and reach <= 1e3:
        reach *= reach_factor
    return reach


def ends_of_parts(proposal: Proposal, reach: float) -> np.ndarray:
    """Parameters (2, p) so many deviations below and above all parts of a mixture that are not widened."""
    away = reach * np.sqrt(np.einsum("kqq->kq", proposal.covariances) / NEAR_FACTOR)
    # Half of the parts are the defensive ones, four times as wide: they would keep every row.
    near = slice(0, len(away) // 2)
    ends = (proposal.means - away)[near].min(axis=0), (proposal.means + away)[near].max(axis=0)
    return proposal.support.backward(np.stack(ends))


def _between(proposal: Proposal, parameters: np.ndarray, reach: float) -> Support:
    support = proposal.support
    lower, upper = ends_of_parts(proposal, reach)
    least, most = parameters.min(axis=0), parameters.max(axis=0)
    narrowed = np.minimum(upper, most) - np.maximum(lower, least) < NARROWED_TO * (most - least)
    blocks = []
    for block in support.blocks:
        rows = list(block.columns)
        if block.smooth and len(block.steps) <= 1 and all(map(_is_constant, block.steps)):
            own = block.steps[0] if block.steps else Interval((-np.inf,) * len(rows), (np.inf,) * len(rows))
            assert isinstance(own, Interval)
            step = Interval(
                tuple(np.where(narrowed[rows], lower[rows], own.lower).tolist()),
                tuple(np.where(narrowed[rows], upper[rows], own.upper).tolist()),
            )
            block = Block(block.columns, (step,)) if narrowed[rows].any() else block
        blocks.append(block)
    return dataclasses.replace(support, blocks=tuple(blocks))


def _is_constant(step: Any) -> bool:
    return isinstance(step, Interval) and step.lower_slopes is None and step.upper_slopes is None


# --- draws of the prior times what is known ---


def few_effective(
    table: ReferenceTable,
    *,
    # Effective number of the first round's rows below which the second is drawn by what is known alone.
    fewest: int = 100,
) -> int:
    """The effective number of rows, rounded up, where known densities leave too few of them; else zero."""
    if not table.origin.known or table.prior_ratio is None:
        return 0
    size = effective_sample_size(table.prior_ratio)
    return int(np.ceil(size)) if size < fewest else 0


def draws_of_known(forward: ForwardModel, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (count, p) of the prior times the known likelihood, by tempered sequential Monte Carlo."""
    support, log_known = forward.support, forward.log_known
    assert log_known is not None

    def log_likelihood(free: np.ndarray, observations: np.ndarray) -> np.ndarray:
        rows = support.backward(free.reshape(-1, free.shape[2]))
        return log_known(rows).reshape(free.shape[:2])

    start = forward.prior.block(0)
    start = start[support.contains(start)]
    found = tempered(
        log_likelihood,
        free_log_density(support, forward.log_prior),
        support.forward(start),
        log_known(start)[None],
        count,
        rng,
    )
    return support.backward(found.particles[0])
