"""Rounds one after the other: simulate, fit, condition, propose."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp
from sklearn.base import clone

from pymc_kbr.arrays.blas import one_blas_thread
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Rejection
from pymc_kbr.estimators.likelihood.checks import fewest_rows
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.sets.columns import columns_of_sets
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.rounds.alike import alike
from pymc_kbr.rounds.edges import edges_of
from pymc_kbr.rounds.joined import joined
from pymc_kbr.rounds.known_alone import draws_of_known, few_effective
from pymc_kbr.rounds.proposing import proposal_of, region_of
from pymc_kbr.rounds.widening import MOST_CONDITIONED, widening
from pymc_kbr.simulation import (
    Forward,
    Proposal,
    SimulationOptions,
    entropy_of,
    simulate_table,
    warn_of_failures,
    weights_of,
)
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

DRAWS_FOR_PROPOSAL = 1_000
"""Draws of a posterior to which a proposal is fitted."""

COMPARED_DRAWS = 500
"""Of which so many are compared with as many of the round before."""

KEPT_SHARE = 0.5
"""Of all rows, at least, are within the bounds beyond which rows are left out of a fit."""

LEAST_ROWS_OF_A_ROUND, LEAST_ROWS_A_PARAMETER = 20, 10
"""Rows that a round must have."""


@dataclass(eq=False)
class Rounds:
    """The rounds of one call: what they have in common, and those that are simulated.

    Where there is `goes_on`, the first round begins the table that all draws of the prior would be. It says
    what the further rounds go by, from that round's table; None, where they are the rest of that table.
    Where there is `settle`, it says from the first round's table what all go by. `ended` says why there was
    no proposal for a further round, in the words of an error.
    """

    forward: Forward
    estimator: Estimator
    options: SimulationOptions
    asked: dict[str, Any]
    store: Path | None
    tables: list[ReferenceTable] = field(default_factory=list)
    proposals: list[Proposal | None] = field(default_factory=list)
    goes_on: Callable[[ReferenceTable], Estimator | None] | None = None
    settle: Callable[[ReferenceTable], Estimator] | None = None
    ended: str = ""

    def run(self) -> ReferenceTable:
        """Make the rounds, those that a store does not hold, and the table of them all."""
        self.options = dataclasses.replace(self.options, failures_told=False)
        table = self._made()
        on_failure = self.options.on_failure
        warn_of_failures(len(table.failures), self.asked["draws"], on_failure)
        return table

    def _made(self) -> ReferenceTable:
        draws, rounds = self.asked["draws"], self.asked["rounds"]
        entropy = entropy_of(self.options.random_seed)
        # Simulations and proposals have seeds apart: a round that a store holds changes no other.
        seeds = np.random.default_rng(entropy).integers(2**63, size=(2, rounds))
        sizes = self.asked.get("sizes", [draws // rounds] * rounds)
        left, last = draws, rounds == 1
        proposal: Proposal | None = None
        if self.goes_on is not None:
            self.options = dataclasses.replace(self.options, random_seed=entropy)
            self._begin(sizes[0])
            left -= sizes[0]
            further = self.goes_on(self.tables[0])
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
        made = simulate_table(options, self.forward)
        assert isinstance(made, ReferenceTable)
        self.tables, self.proposals = [made], [None]

    def _rest_of_the_prior(self) -> ReferenceTable:
        """All draws of the prior, of which there are the first ones."""
        options = dataclasses.replace(self.options, to_be_extended=True)
        made = simulate_table(options, self.forward, head=self.tables[0])
        assert isinstance(made, ReferenceTable)
        return made

    def _next(self, seed: int) -> Proposal | None:
        """What the next round is drawn from; None where none is found and rounds were not asked for."""
        try:
            return self._propose(seed)
        except (ValueError, np.linalg.LinAlgError) as error:
            if self.goes_on is None:
                raise
            self.ended = str(error)
            return None

    def _simulate(self, size: int, proposal: Proposal | None, seed: int) -> None:
        options = dataclasses.replace(
            self.options,
            draws=size,
            random_seed=seed,
            proposal=proposal,
            store=self._path(len(self.tables)),
        )
        made = simulate_table(options, self.forward)
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

    def _propose(self, seed: int) -> Proposal:
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
            compared = drawn[:COMPARED_DRAWS]
            before = self.proposals[-1]
            settled = before is not None and alike(
                self.forward.support.forward(np.array(before.notes["compared"])),
                self.forward.support.forward(compared),
                rng,
            )
            wider = 1.0 if posterior is None else widening(self._fitted, table, rng)
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
            )

    def _posterior(self, table: ReferenceTable, rng: np.random.Generator) -> Posterior:
        fitted = self._fitted(table, np.arange(len(table)), rng)
        found: Posterior = fitted.for_draws(DRAWS_FOR_PROPOSAL).condition(table.observed)  # type: ignore[arg-type]
        return found

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
        if self.goes_on is not None:  # the posterior itself is that of another fit
            estimator = estimator.for_scores()
        return estimator.fit(table.parameters[rows], table.statistics[rows], table.support, **given)

    def _pooled(self, stopped: bool = False) -> ReferenceTable:
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
        least = int(KEPT_SHARE * len(parameters))
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
        ratios = {"prior_ratio": ratio[:rows], "failed_ratio": ratio[rows:] if len(failed) else None}
        table = joined(self.tables, region, word="refined", further=further, **ratios)
        origin = dataclasses.replace(
            table.origin, from_proposal=True, left_out=left_out, prior_mass=mass, **edges
        )
        return dataclasses.replace(table, origin=origin)


def least_rows(parameters: int, statistics: int, estimator: Estimator) -> int:
    """Rows that a round must have, for so many parameters and statistics."""
    least = LEAST_ROWS_OF_A_ROUND + LEAST_ROWS_A_PARAMETER * parameters
    if isinstance(estimator, KernelLikelihood):
        least = max(least, MOST_CONDITIONED + fewest_rows(parameters, statistics))
    return least


def near_rows(scale: bool | str) -> Estimator:
    """What rounds go by where no likelihood is learned: nearest rows, moved to the observation."""
    near = Rejection(0.3, kernel="epanechnikov", scale=scale)
    return Adjusted(near, "heteroscedastic_local_linear")
