"""Functions of the parameters of which the mean is made: in which directions, and how fast, it moves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks, make_basis
from pymc_kbr.estimators.likelihood.conditional_mean import BasisRegression, regress
from pymc_kbr.kernels import median_heuristic

MEAN_SCALES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)
"""Bandwidths that are tried, over the median heuristic."""

ROWS_FOR_DIRECTIONS, LANDMARKS_FOR_DIRECTIONS = 2000, 300
"""Rows and landmarks with which directions and bandwidth are chosen."""

DIRECTION_TURNS = 2
"""Times that directions are taken from the slopes of the regression before."""

DISTANCE_GAIN = 0.01
"""Of a statistic's log mean squared error, on average, for which Euclidean distances are left."""

LEAST_DIRECTION = 1e-4
"""Of a direction's mean squared slope, over the largest: none is left out for good."""


class Tried(NamedTuple):
    """A regression on some rows, with directions (q, q) and bandwidth of its kernel, and its error."""

    directions: np.ndarray
    scale: float
    basis: Basis
    fitted: BasisRegression
    error: float


class MeanSearch(NamedTuple):
    """What is tried for the kernel of the mean.

    Attributes
    ----------
    scales : tuple of float
        Bandwidths over the median heuristic, rising.
    turns : int
        Times that directions are taken from the slopes of the regression before.
    gain : float
        Of a statistic's log mean squared error, on average, for which Euclidean distances are left.
    landmarks : int
    ridges : slice
        Of those that a regression tries.
    walks : bool
        Whether scales are tried from the last one down and up as long as errors fall, or all.
    """

    scales: tuple[float, ...] = MEAN_SCALES
    turns: int = DIRECTION_TURNS
    gain: float = DISTANCE_GAIN
    landmarks: int = LANDMARKS_FOR_DIRECTIONS
    ridges: slice = slice(None)
    walks: bool = False


USUAL = MeanSearch(walks=True)


def mean_basis(
    theta: np.ndarray,
    points: np.ndarray,
    landmarks: int,
    rng: np.random.Generator,
    known: Landmarks | None = None,
    search: MeanSearch = USUAL,
) -> tuple[Basis, np.ndarray]:
    """The basis with the smallest leave-one-out error, and its values at the rows.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
    points : ndarray of shape (n, e)
    landmarks : int
        Drawn from the rows.
    known : Landmarks, optional
        A kernel whose directions and bandwidth are taken, where these have been chosen before.
    search : MeanSearch

    Notes
    -----
    Distances are Euclidean, or those along the eigenvectors of the mean outer product of the regression's
    slopes, each in proportion to its root: the kernel then resolves what moves the mean, and hardly sees
    what does not. After A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, Mechanism for feature
    learning in neural networks and backpropagation-free machine learning models, Science 383 (2024).
    """
    n, q = theta.shape
    if known is not None:
        return make_basis(theta, [known.moved(theta[rng.permutation(n)[:landmarks]])])
    some = rng.permutation(n)[:ROWS_FOR_DIRECTIONS]
    first = best = last = _best_scale(theta[some], points[some], np.eye(q), search)
    for _ in range(search.turns if q > 1 else 0):
        last = _best_scale(theta[some], points[some], _directions(theta[some], last), search, last.scale)
        # Directions are many numbers more: plain distances are not left for what chance may gain.
        if last.error < best.error - (search.gain * points.shape[1] if best is first else 0.0):
            best = last
    chosen = theta[rng.permutation(n)[:landmarks]]
    return make_basis(theta, [_kernel(theta[some], chosen, best.directions, best.scale)])


def _best_scale(
    theta: np.ndarray, points: np.ndarray, directions: np.ndarray, search: MeanSearch, start: float = 1.0
) -> Tried:
    def tried(scale: float) -> Tried:
        kernel = _kernel(theta, theta[: search.landmarks], directions, scale)
        basis, features = make_basis(theta, [kernel])
        fitted = regress(features, basis.penalties, points, search.ridges)
        # Of logarithms, so that no statistic's unit, or noise, decides for all.
        error = float(np.sum(np.log(np.mean(fitted.residuals**2, axis=0) + 1e-300)))
        return Tried(directions, scale, basis, fitted, error)

    if not search.walks:
        with side_by_side(len(search.scales)) as map_:
            return min(map_(tried, search.scales), key=lambda one: one.error)
    at = int(np.argmin(np.abs(np.log(np.array(search.scales) / start))))
    best = tried(search.scales[at])
    # Errors are taken to have one valley: where a shorter bandwidth is better a longer one is not tried.
    for way in (search.scales[at - 1 :: -1] if at else (), search.scales[at + 1 :]):
        before = best.error
        for scale in way:
            if (one := tried(scale)).error >= best.error:
                break
            best = one
        if best.error < before:
            break
    return best


def _kernel(rows: np.ndarray, centres: np.ndarray, directions: np.ndarray, scale: float) -> Landmarks:
    """At some centres, its bandwidth in units of the median distance of rows."""
    unit = scale * median_heuristic(rows @ directions)
    return Landmarks(centres @ directions, np.full(centres.shape, unit**-2), directions)


def _directions(theta: np.ndarray, before: Tried) -> np.ndarray:
    """Columns along which the regression before moves, in proportion to its root mean squared slope."""
    # Coefficients of the basis as those of the raw functions, whose slopes are known.
    slopes = before.basis.landmarks.slopes(theta, before.basis.mix @ before.fitted.coefficients)
    values, vectors = np.linalg.eigh(np.einsum("niq,nip->qp", slopes, slopes))
    return vectors * np.sqrt(np.maximum(values / max(values[-1], 1e-300), LEAST_DIRECTION))
