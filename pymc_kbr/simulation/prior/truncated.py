"""A model's prior between narrower bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import qmc

from pymc_kbr.arrays.bijections import LARGEST_BOUND, Interval, Step
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.simulation.model.known import LogDensity
from pymc_kbr.simulation.prior.draws import PriorSampler
from pymc_kbr.simulation.streams import PILOT_STREAM, PRIOR_STREAM, ROWS_A_STREAM, streams
from pymc_kbr.tables.columns import Columns

Within = Mapping[str, tuple[Any, Any]]
"""Lower and upper bounds by the name of a variable: numbers, or arrays of its shape."""


def truncated_support(support: Support, columns: Columns, within: Within) -> Support:
    """The support between bounds for every parameter."""
    lower, upper = _bounds(columns, within)
    check_can_be_truncated(support, columns)
    for block in support.blocks:
        for step in block.steps:
            assert isinstance(step, Interval)
            rows = list(block.columns)
            lower[rows] = np.maximum(lower[rows], step.lower)
            upper[rows] = np.minimum(upper[rows], step.upper)
    empty = np.flatnonzero(~(lower < upper))
    if len(empty):
        raise ValueError(
            f"within leaves nothing of the prior's support in {[columns.names[i] for i in empty]}; give "
            "bounds that overlap with it"
        )
    beyond = np.flatnonzero((np.abs(lower) > LARGEST_BOUND) | (np.abs(upper) > LARGEST_BOUND))
    if len(beyond):
        raise ValueError(
            f"within goes beyond {LARGEST_BOUND:g} in {[columns.names[i] for i in beyond]}; give bounds "
            "near where the prior has its mass"
        )
    interval = Interval(tuple(lower.tolist()), tuple(upper.tolist()))
    blocks = (Block(tuple(range(support.size)), (interval,)),)
    return Support(support.size, blocks, support.inside, support.constraints)


def check_can_be_truncated(support: Support, columns: Columns) -> None:
    """Refuse parameters whose prior cannot be drawn between bounds."""
    for block in support.blocks:
        if not (block.continuous and len(block.steps) <= 1 and all(map(_is_constant, block.steps))):
            names = [columns.names[column] for column in block.columns]
            raise ValueError(
                f"the prior of {names} cannot be drawn between bounds: they are discrete, have point masses, "
                "or are not free between constant bounds; leave `within` or `zoom` out, or take parameters "
                "that are free"
            )


def _is_constant(step: Step) -> bool:
    return isinstance(step, Interval) and step.lower_slopes is None and step.upper_slopes is None


def _bounds(columns: Columns, within: Within) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of each column."""
    if not isinstance(within, Mapping):
        raise TypeError(
            f"within is {shown(within)}; it must be a mapping of parameter names to (lower, upper)"
        )
    names = [variable.name for variable in columns.variables]
    if set(within) != set(names):
        raise ValueError(
            f"within bounds {sorted(map(str, within))}; the parameters are {names}, and each needs its bounds"
        )
    sides: list[list[np.ndarray]] = [[], []]
    for variable in columns.variables:
        pair = within[variable.name]
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(
                f"within[{variable.name!r}] is {shown(pair)}; it must be a pair of lower and upper bound"
            )
        for side, bound in zip(sides, pair, strict=True):
            values = as_rows(f"the bounds of {variable.name!r}", bound)
            if values.shape not in ((), variable.shape):
                raise ValueError(
                    f"a bound of {variable.name!r} has shape {values.shape}; it must be a number or of shape "
                    f"{variable.shape}"
                )
            side.append(np.broadcast_to(values, variable.shape).ravel()[variable.kept])
    lower, upper = (np.concatenate(side) for side in sides)
    if not (np.all(np.isfinite(lower)) and np.all(np.isfinite(upper)) and np.all(lower < upper)):
        raise ValueError(
            f"within is {dict(within)}; every lower bound must be a finite number below its upper bound"
        )
    return lower, upper


class TruncatedSampler:
    """Draws of a model's prior between bounds, in blocks."""

    def __init__(
        self,
        sampler: PriorSampler,
        log_density: LogDensity,
        support: Support,
        entropy: int,
        even: bool = False,
        *,
        # Points at which the largest density between the bounds is sought.
        pilots: int = 4096,
        # Candidates kept, below which drawing the prior would take longer than simulating.
        least_share: float = 1e-3,
        # Parameters up to which the 2^p corners are pilots too.
        most_with_corners: int = 10,
        # Times as many candidates as of the prior's draws that even draws may cost.
        even_draws_worth: int = 10,
    ) -> None:
        (interval,) = support.blocks[0].steps
        assert isinstance(interval, Interval)
        self._lower, self._upper = np.array(interval.lower), np.array(interval.upper)
        self._sampler, self._entropy = sampler, entropy
        self._log_density = log_density
        self.batched = sampler.batched
        (rng,) = streams(entropy, PILOT_STREAM, 0, 1)
        pilot = self._between(rng, pilots)
        # A density that is largest in a corner is seldom met by points inside.
        if support.size <= most_with_corners:
            corners = np.indices((2,) * support.size).reshape(support.size, -1).T
            pilot = np.vstack([pilot, self._lower + (self._upper - self._lower) * corners])
        density = self._log_density(pilot)
        # The largest density met stands for the largest there is; `account` says how often it did not.
        self._bound = float(density.max())
        inside = float(support.contains(sampler.block(0)).mean())
        kept = float(np.exp(density[:pilots] - self._bound).mean()) if np.isfinite(self._bound) else 0.0
        self.uniform = kept > inside or (even and kept > max(inside / even_draws_worth, least_share))
        self.share = kept if self.uniform else inside
        if self.share < least_share:
            raise ValueError(
                f"{inside:.2%} of the prior's draws lie between the bounds of `within`, and {kept:.2%} of "
                "uniform candidates would be kept by its density (none where that is infinite); take other "
                "bounds, or parameters in which the prior is flatter"
            )
        self._even = even
        self._above = self._candidates = 0

    def block(self, number: int) -> np.ndarray:
        """Block `number` of draws, some perhaps outside the bounds, shape (about ROWS_A_STREAM, p)."""
        if not self.uniform:
            return self._sampler.block(number)
        candidates, kept = self._candidates_of(number, int(ROWS_A_STREAM / self.share))
        log_ratio = self._log_density(candidates) - self._bound
        self._above += int(np.sum(log_ratio > 0))
        self._candidates += len(candidates)
        return candidates[kept < np.exp(log_ratio)]

    def provenance(self) -> dict[str, str]:
        """How rows are drawn."""
        if not self.uniform:
            return {"prior_truncated": f"the {self.share:.2g} of the prior's draws between the bounds"}
        return {
            "prior_truncated": f"uniform candidates, {self.share:.2g} of them kept by the prior's density"
        }

    def account(self) -> dict[str, str]:
        """The share of candidates so far with a density above the largest of the pilot."""
        if not self._candidates:
            return {}
        return {"prior_above_bound": f"{self._above / self._candidates:.2g}"}

    def _candidates_of(self, number: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Candidates (count, p) of a block, and numbers (count,) between 0 and 1 that decide about them."""
        if not self._even:
            (rng,) = streams(self._entropy, PRIOR_STREAM, number, 1)
            return self._between(rng, count), rng.random(count)
        (rng,) = streams(self._entropy, PRIOR_STREAM, 0, 1)
        count = 2 ** count.bit_length()  # of a power of two Sobol points are balanced
        sobol = qmc.Sobol(len(self._lower) + 1, seed=rng)
        if number:
            sobol.fast_forward(number * count)
        points = sobol.random(count)
        return self._lower + (self._upper - self._lower) * points[:, :-1], points[:, -1]

    def _between(self, rng: np.random.Generator, count: int) -> np.ndarray:
        return rng.uniform(self._lower, self._upper, size=(count, len(self._lower)))
