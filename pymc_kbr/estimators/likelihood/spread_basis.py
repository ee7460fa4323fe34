"""Functions of the parameters of which a spread is made, and the frame of residuals in which it is simple."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks, make_basis
from pymc_kbr.estimators.likelihood.spread import Below, choose_spread
from pymc_kbr.kernels import median_heuristic

JOINT_LANDMARKS = 300
"""Of the kernel of all parameters."""

WIDE_POINTS, WIDE_BANDWIDTH = 16, 0.5
"""Of a kernel of one parameter: how many, and their bandwidth over its deviation."""

NARROW_POINTS, NARROW, SHARE_OF_NARROW = 50, 0.12, 0.1
"""Of a second one, for kinks; its functions cost ten times as much."""

SHARES = (1.0, 10.0, 0.1)
"""Of the kernel of all parameters over those of one: small where scales multiply, large where they do not."""

PENALTY_OF_LINEAR = 0.1
"""So that at the largest ridge a spread hardly moves at all."""

MOST_PAIRED = 24
"""Statistics up to which entries below the diagonal depend on the parameters."""

ROWS_FOR_FRAMES = 1500
"""To which frames and shares are fitted that are compared."""

RIDGES_COMPARED = (100.0, 1.0, 1e-1, 1e-2, 1e-3)
"""At which they are."""


class Frame(NamedTuple):
    """Residuals in which a factor is looked for.

    Attributes
    ----------
    whiten : ndarray of shape (e, e)
        Lower triangular: diagonal, where scales move and correlations between residuals are constant;
        whole, where what moves are the scales of constant combinations.
    below : Below
        Constants are such that (I + C) times `whiten` whitens the residuals of all rows.
    """

    whiten: np.ndarray
    below: Below


def frames(residuals: np.ndarray) -> list[Frame]:
    """Those that are tried for residuals (n, e)."""
    whole = whitening(residuals)
    e = len(whole)
    rows, columns = np.tril_indices(e, -1) if e <= MOST_PAIRED else (np.empty(0, int), np.empty(0, int))
    found = [Frame(whole, Below(rows, columns, np.zeros(len(rows))))]
    if len(rows):
        diagonal = np.diag(whole)
        found.insert(0, Frame(np.diag(diagonal), Below(rows, columns, (whole / diagonal)[rows, columns])))
    return found


class SpreadChoice(NamedTuple):
    """Place of the frame in `frames`, and the joint kernel's share."""

    frame: int
    share: float


def choose_basis(
    theta: np.ndarray,
    residuals: np.ndarray,
    held_out: np.ndarray,
    rng: np.random.Generator,
    known: SpreadChoice | None = None,
) -> tuple[SpreadChoice, Basis, np.ndarray]:
    """The frame, and the share of the joint kernel, that held-out rows prefer, and the basis of these.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
    residuals : ndarray of shape (n, e)
    held_out : ndarray of bool, shape (n,)
    rng : numpy.random.Generator
    known : SpreadChoice, optional
        Which is taken, where it has been made before.

    Returns
    -------
    choice : SpreadChoice
    basis : Basis
    values : ndarray of shape (n, f)
        Of the basis at the rows.
    """
    groups = _groups(theta, rng)
    choice = known or _chosen(theta, groups, residuals, held_out)
    basis, values = make_basis(theta, groups, _weights(groups, choice.share), PENALTY_OF_LINEAR)
    return choice, basis, values


def _chosen(
    theta: np.ndarray, groups: list[Landmarks], residuals: np.ndarray, held_out: np.ndarray
) -> SpreadChoice:
    rest = np.flatnonzero(~held_out)[:ROWS_FOR_FRAMES]
    some = np.concatenate([rest, np.flatnonzero(held_out)[:ROWS_FOR_FRAMES]])
    left = held_out[some]
    tried = frames(residuals)
    # One parameter has no joint kernel.
    shares = SHARES if theta.shape[1] > 1 else SHARES[:1]

    def held_out_density(place: int, share: float) -> float:
        frame = tried[place]
        basis, values = make_basis(theta[some], groups, _weights(groups, share), PENALTY_OF_LINEAR)
        found = choose_spread(
            values, residuals[some] @ frame.whiten.T, basis.penalties, RIDGES_COMPARED, frame.below, left
        )
        # Densities in two frames are compared in one unit.
        return found.held_out + float(np.log(np.diag(frame.whiten)).sum())

    with side_by_side(2) as map_:
        by_frame = map_(lambda k: held_out_density(k, shares[0]), range(len(tried)))
        place = int(np.argmax(by_frame))
        by_share = [by_frame[place], *map_(lambda share: held_out_density(place, share), shares[1:])]
    return SpreadChoice(place, shares[int(np.argmax(by_share))])


def spread_basis(theta: np.ndarray, rng: np.random.Generator) -> tuple[Basis, np.ndarray]:
    """The basis with the first share, and its values at the rows (n, q), where no other is tried."""
    groups = _groups(theta, rng)
    return make_basis(theta, groups, _weights(groups, SHARES[0]), PENALTY_OF_LINEAR)


def whitening(residuals: np.ndarray) -> np.ndarray:
    """Lower triangular W with W times the residuals of unit covariance."""
    cov = np.atleast_2d(np.cov(residuals.T))
    unit = np.sqrt(np.diag(cov))
    # In units of one: deviations may differ by more than a float's digits, and then rounding decides.
    factor = cholesky(cov / unit / unit[:, None] + 1e-9 * np.eye(len(cov)), lower=True)
    return solve_triangular(factor, np.eye(len(cov)), lower=True) / unit


def _groups(theta: np.ndarray, rng: np.random.Generator) -> list[Landmarks]:
    """Two kernels of each parameter by itself, and, last, one of all where there are several."""
    n, q = theta.shape
    groups = [
        _of_one(theta, j, points, bandwidth)
        for points, bandwidth in ((WIDE_POINTS, WIDE_BANDWIDTH), (NARROW_POINTS, NARROW))
        for j in range(q)
    ]
    if q > 1:
        chosen = theta[rng.permutation(n)[:JOINT_LANDMARKS]]
        groups.append(Landmarks(chosen, np.full(chosen.shape, median_heuristic(theta) ** -2)))
    return groups


def _of_one(theta: np.ndarray, j: int, points: int, bandwidth: float) -> Landmarks:
    levels = (np.arange(points) + 0.5) / points
    centres, precisions = np.zeros((points, theta.shape[1])), np.zeros((points, theta.shape[1]))
    centres[:, j] = np.quantile(theta[:, j], levels)
    precisions[:, j] = (bandwidth * theta[:, j].std()) ** -2
    return Landmarks(centres, precisions)


def _weights(groups: list[Landmarks], share: float) -> list[float]:
    """Of each group's kernel."""
    q = groups[0].centres.shape[1]
    return [1.0] * q + [SHARE_OF_NARROW] * q + [share] * (len(groups) - 2 * q)
