"""From draws of a posterior to what the next round draws from, and to where the rows of a fit may lie."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.rounds.bounds import NARROWED_TO
from pymc_kbr.simulation import Proposal

MOST_PROPOSAL_PARTS = 12
"""Normal parts of a mixture, at most."""

DRAWS_A_NUMBER = 10
"""Independent draws that each number of a mixture must have: fewer do not show a part's covariance."""

NEAR_FACTOR, WIDE_FACTOR, WIDE_SHARE = 1.2, 4.0, 0.5
"""By which covariances are multiplied, and the share of the draws that comes from the wide ones."""

PART_REACH = 4.0
"""Deviations from a part's mean beyond which rows are left out of a fit."""

REACH_FACTOR = 1.5
"""By which the reach grows until enough rows lie within."""


def proposal_of(
    draws: np.ndarray,
    independent: float,
    support: Support,
    prior_share: float,
    wider: float,
    seed: int,
    notes: Mapping[str, Any],
) -> Proposal:
    """A normal mixture on draws of a posterior, half of it widened, with a share of the prior.

    Parameters
    ----------
    draws : ndarray of shape (m, p)
    independent : float
        How many independent ones they are worth.
    support : Support
        Of the whole prior.
    prior_share : float
    wider : float
        By what covariances are multiplied.
    seed : int
    notes : mapping
        See `Proposal`.

    Notes
    -----
    The number of parts has the lowest Bayesian information criterion. Mixtures with a part of heavier tails,
    and with the prior, are the defensive mixtures of [1]_: a posterior that is wrong, or narrow by chance,
    does not stay so, and the ratio of the prior to what rows were drawn from is bounded.

    References
    ----------
    .. [1] T. Hesterberg, Weighted average importance sampling and defensive mixture distributions,
       Technometrics 37 (1995), 185-194.
    """
    with np.errstate(divide="ignore"):
        free = support.forward(draws)
    free = free[np.isfinite(free).all(axis=1)]
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
    )


def _mixture(points: np.ndarray, independent: float, seed: int) -> GaussianMixture:
    q = points.shape[1]
    numbers = 1 + q + q * (q + 1) / 2  # of a part
    most = int(np.clip(independent / (DRAWS_A_NUMBER * numbers), 1, MOST_PROPOSAL_PARTS))
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
    """The support in which the rows of a fit lie: bounds around the parts of a mixture.

    Parameters
    ----------
    proposal : Proposal
    parameters : ndarray of shape (n, p)
        Of all rows so far, the first of them draws of the prior.
    least : int
        Rows that have to lie within: the bounds are drawn wider until so many do.

    Notes
    -----
    A parameter that they do not narrow keeps the prior's own bounds, as does one that is not free between
    constant ones. A likelihood that is learned, and a posterior from weighted rows, stay what they are
    where rows are left out by their parameters alone: the prior is cut off where the posterior has no mass.
    """
    return _between(proposal, parameters, reach_of(proposal, parameters, least))


def reach_of(proposal: Proposal, parameters: np.ndarray, least: int) -> float:
    """Deviations from the parts of a mixture to the bounds of `region_of`."""
    reach = PART_REACH
    while np.sum(_between(proposal, parameters, reach).contains(parameters)) < least and reach <= 1e3:
        reach *= REACH_FACTOR
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
