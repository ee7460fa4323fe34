"""Draws of a known density beside the prior's: a normal mixture in the space without edges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from pymc_kbr.arrays.bijections import Circular
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.streams import PROPOSAL_STREAM, ROWS_A_STREAM, streams
from pymc_kbr.tables.columns import Columns


@dataclass(frozen=True, eq=False)
class Proposal:
    """A normal mixture in the free space of a support, mixed with the prior."""

    # Shapes: weights (k,); means (k, q); covariances (k, q, q); free_range (2, q).
    # prior_share: Of the draws, at regular places, are from the prior.
    # notes: What else is kept with it in a store.
    # free_range: In the free space, the ends between which the mixture is drawn from.
    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    support: Support
    prior_share: float
    notes: Mapping[str, Any] = field(default_factory=dict)
    free_range: np.ndarray | None = None

    def prior_rows(self, rows: int) -> int:
        """How many of the first `rows` draws are from the prior."""
        return int(np.floor(rows * self.prior_share))

    def draw(
        self,
        count: int,
        rng: np.random.Generator,
        *,
        # Times that draws of a proposal are drawn again where the prior has no mass.
        most_redrawn: int = 1000,
    ) -> np.ndarray:
        """Draws (count, p) of the mixture alone, where the prior has mass and within its range."""
        made, there = self._drawn(count, rng)
        for _ in range(most_redrawn):
            outside = np.flatnonzero(~there)
            if not len(outside):
                return made
            made[outside], there[outside] = self._drawn(len(outside), rng)
        raise ValueError(
            f"{len(outside)} of {count} draws of a proposal lie where the prior has no mass, or beyond all "
            f"draws of the prior and the posterior, also after {most_redrawn} draws of each; simulate "
            "draws of the prior (`simulate`)"
        )

    def _drawn(self, count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Draws (count, p), and which of them are kept."""
        parts = rng.choice(len(self.weights), count, p=self.weights)
        noise = rng.standard_normal((count, self.means.shape[1]))
        roots = np.linalg.cholesky(self.covariances)
        free = self.means[parts] + np.einsum("nij,nj->ni", roots[parts], noise)
        made = self.support.backward(free)
        return made, self._inside(free) & (self.support.allows(made) if self.support.restricted else True)

    def _inside(self, free: np.ndarray) -> np.ndarray:
        """Which points (n, q) are within the range."""
        if self.free_range is None:
            return np.ones(len(free), dtype=bool)
        lower, upper = self.free_range
        return np.all((free >= lower) & (free <= upper), axis=1)

    def log_density(self, parameters: np.ndarray) -> np.ndarray:
        """Log density (n,) of the mixture alone at parameters (n, p), in the user's space."""
        with np.errstate(divide="ignore"):
            free = self.support.forward(parameters)
        inside = np.isfinite(free).all(axis=1)
        found = np.full(len(parameters), -np.inf)
        found[inside] = self._of_free(free[inside]) - self.support.log_jacobian(free[inside])
        if self.support.restricted or self.free_range is not None:
            found[inside] -= self._log_mass
            found[~self._inside(free)] = -np.inf
        if self.support.restricted:
            found[~self.support.allows(parameters)] = -np.inf
        return found

    @cached_property
    def _log_mass(self) -> float:
        """Log of the mixture's share where the prior has mass and within its range."""
        # So many that a share of a third is known to within half a percent.
        _, there = self._drawn(2**16, np.random.default_rng(0))
        return float(np.log(np.mean(there)))

    def log_ratio(self, parameters: np.ndarray, log_prior: np.ndarray, rows: int) -> np.ndarray:
        """Log of the density of `rows` draws, the prior's share included, over the prior's: shape (n,)."""
        # Shapes: parameters (n, p); log_prior (n,).
        # rows: Of the draws.
        share = self.prior_rows(rows) / rows
        with np.errstate(divide="ignore", invalid="ignore"):
            beside = np.log1p(-share) + self.log_density(parameters) - log_prior
            # Where both densities vanish, or the prior's is infinite, there are only draws of the prior.
            beside = np.where(np.isnan(beside) | (log_prior == np.inf), -np.inf, beside)
            return np.logaddexp(np.log(share), beside)

    def _of_free(self, free: np.ndarray) -> np.ndarray:
        parts = np.empty((len(self.weights), len(free)))
        for k, (mean, root) in enumerate(zip(self.means, np.linalg.cholesky(self.covariances), strict=True)):
            apart = solve_triangular(root, (free - mean).T, lower=True)
            parts[k] = -0.5 * np.einsum("qn,qn->n", apart, apart) - np.log(np.diag(root)).sum()
        found: np.ndarray = logsumexp(parts + np.log(self.weights)[:, None], axis=0)
        return found - 0.5 * self.means.shape[1] * np.log(2 * np.pi)

    def to_json(self) -> dict[str, Any]:
        """Plain lists and numbers, but for the support, which the store has."""
        # Stores of rounds that had none go on.
        ends = {} if self.free_range is None else {"free_range": self.free_range.tolist()}
        return {
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "covariances": self.covariances.tolist(),
            "prior_share": self.prior_share,
            "notes": dict(self.notes),
            **ends,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any], support: Support) -> Proposal:
        """The inverse of `to_json`."""
        weights, means, covariances = (
            np.array(document[name], dtype=float) for name in ("weights", "means", "covariances")
        )
        ends = document.get("free_range")
        return cls(
            weights,
            means,
            covariances,
            support,
            document["prior_share"],
            document["notes"],
            None if ends is None else np.array(ends, dtype=float),
        )


class ProposalSampler:
    """Draws of a proposal in blocks: each from streams of its own, the prior's at regular places."""

    def __init__(self, sampler: PriorSampler, proposal: Proposal, entropy: int) -> None:
        self.batched = sampler.batched
        self._prior = DrawnPrior(sampler, proposal.support)
        self._proposal, self._entropy = proposal, entropy

    def block(self, number: int) -> np.ndarray:
        """Block `number` of draws, shape (ROWS_A_STREAM, p); they are asked for in order."""
        first, proposal = number * ROWS_A_STREAM, self._proposal
        (rng,) = streams(self._entropy, PROPOSAL_STREAM, number, 1)
        drawn = proposal.draw(ROWS_A_STREAM, rng)
        ends = [proposal.prior_rows(row) for row in range(first, first + ROWS_A_STREAM + 1)]
        # Where the prior's share of the rows has grown by one: the same places whatever the number of rows.
        drawn[np.diff(ends) > 0] = self._prior[slice(ends[0], ends[-1])]
        return drawn

    def provenance(self) -> dict[str, str]:
        """How rows are drawn."""
        proposal = self._proposal
        return {
            "proposal": f"{proposal.prior_share:.2g} of the rows from the prior, the others from a mixture "
            f"of {len(proposal.weights)} normal densities in the space without edges"
        }

    def account(self) -> dict[str, str]:
        """Nothing more."""
        return {}


def can_be_freed(support: Support) -> bool:
    """Whether normal draws in the free space have a known density."""
    return all(map(is_free, support.blocks))


def is_free(block: Block) -> bool:
    """The same of some columns."""
    return block.continuous and not any(isinstance(step, Circular) for step in block.steps)


def check_can_be_proposed(support: Support, columns: Columns) -> None:
    """Refuse parameters of which normal draws in the free space have no known density."""
    for block in support.blocks:
        if not is_free(block):
            names = [columns.names[column] for column in block.columns]
            raise ValueError(
                f"rounds at posterior draws need parameters with a transform to an unconstrained space, and "
                f"{names} are discrete, have point masses, are angles, or are constrained in another way; "
                "simulate draws of the prior instead (`simulate`), or use other parameters"
            )
