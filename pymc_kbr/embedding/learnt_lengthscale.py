"""Lengthscales of a Gaussian kernel by maximum marginal likelihood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.spatial.distance import pdist

from pymc_kbr.arrays.refusals import positive, shown, squarable, whole
from pymc_kbr.arrays.rows import as_points, refuse_constant
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.weighted import spread_out_varied
from pymc_kbr.embedding.marginal_likelihood import FlatEmbedding, MarginalLikelihood, Measure, check_measure
from pymc_kbr.kernels import Gaussian, Kernel, Sum, median_heuristic

Likelihood = Callable[[np.ndarray], tuple[float, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Maximum:
    """Where a search ended."""

    # Shapes: lengthscale (D,).
    lengthscale: np.ndarray
    log_likelihood: float
    at_edge: bool

    @property
    def kernel(self) -> Gaussian:
        """The kernel of these lengthscales."""
        return gaussian(self.lengthscale)


@dataclass(frozen=True, eq=False)
class LearntLengthscale:
    """The lengthscales of the highest marginal likelihood, and the other maxima."""

    # Shapes: scanned, likelihoods (s,); units (D,).
    maxima: tuple[Maximum, ...]
    rows: int
    scanned: np.ndarray
    likelihoods: np.ndarray
    units: np.ndarray

    @property
    def lengthscale(self) -> np.ndarray:
        """One a dimension, (D,), all the same where they were learnt so."""
        return self.maxima[0].lengthscale

    @property
    def kernel(self) -> Gaussian:
        """The kernel of these."""
        return self.maxima[0].kernel

    @property
    def shortest(self) -> Gaussian:
        """The kernel of the maximum with the smallest lengthscales, by their product."""
        return min(self.maxima, key=lambda m: float(np.log(m.lengthscale).sum())).kernel

    @property
    def kernel_of_all(self) -> Kernel:
        """The sum of the kernels of all maxima."""
        total: Kernel = self.kernel
        for maximum in self.maxima[1:]:
            total = Sum(total, maximum.kernel)
        return total


def gaussian(lengthscale: np.ndarray) -> Gaussian:
    """The Gaussian kernel of lengthscales (D,), with one bandwidth where they are the same."""
    if np.ptp(lengthscale) == 0:
        return Gaussian(float(lengthscale[0]))
    return Gaussian(tuple(lengthscale.tolist()))


def learn_lengthscale(
    points: np.ndarray,
    *,
    separate: bool = False,
    noise: float = 0.1,
    measure: Measure | None = None,
    most: int = 1000,
    # Rows of the scan that finds where searches start,
    rows_scanned: int = 300,
    # E-folds that a search may go beyond the scan.
    beyond_scan: float = 3.0,
    # Difference of log lengthscales within which two searches have found one maximum.
    same_maximum: float = 0.05,
) -> LearntLengthscale:
    """Maximise the marginal likelihood of points over the lengthscales of a Gaussian kernel."""
    # Shapes: points (n,) or (n, D).
    positive("noise", noise)
    whole("most", most)
    points = as_points("the points", points, least=3)
    check_measure(measure, points.shape[1])
    refuse_constant("the points", points)
    rows = points[spread_out_varied(points, most)]
    units = unit_deviations(rows) if separate else np.ones(rows.shape[1])
    rows = rows / units
    with one_blas_thread():
        likelihood = MarginalLikelihood(rows, noise, measure)
        few = rows[spread_out_varied(rows, rows_scanned)]
        scanned = _span(few)
        of_few = MarginalLikelihood(few, noise, measure)
        heights = _heights(of_few, scanned, len(units))
        starts = np.log(scanned[_peaks(heights)])
        edges = np.log(scanned[0]) - beyond_scan, np.log(scanned[-1]) + beyond_scan
        climbed = [_climb(likelihood, start, edges, units, separate) for start in starts]
    ends = sorted((end for end in climbed if end is not None), key=lambda end: -end.log_likelihood)
    if not ends:  # all searches start where all rows, not the few scanned, have a flat one
        likelihood(np.full(len(units), scanned[np.argmax(heights)]))
    maxima: list[Maximum] = []
    for end in ends:
        if all(np.abs(np.log(end.lengthscale / known.lengthscale)).max() > same_maximum for known in maxima):
            maxima.append(end)
    return LearntLengthscale(tuple(maxima), len(rows), scanned, heights, units)


def _span(
    points: np.ndarray,
    *,
    # and its lengthscales.
    lengthscales_scanned: int = 20,
) -> np.ndarray:
    """Lengthscales from less than neighbours' distances to the largest one, at even steps of their log."""
    distances = pdist(points)
    distances = distances[distances > 0]
    if not len(distances):
        raise ValueError(
            "all points lie so close that squares of their distances are no floats; give them in smaller "
            "units"
        )
    # Of n^2 / 2 distances the n shortest are about those between nearest neighbours.
    lowest = 0.25 * np.quantile(distances, min(1.0, 2 / len(points)))
    return np.geomspace(lowest, 2 * distances.max(), lengthscales_scanned)


def _heights(likelihood: Likelihood, scanned: np.ndarray, columns: int) -> np.ndarray:
    """The log likelihood at common lengthscales; minus infinity where the embedding is flat at a point."""
    heights = np.full(len(scanned), -np.inf)
    flat: FlatEmbedding | None = None
    for i, scale in enumerate(scanned):
        try:
            heights[i] = likelihood(np.full(columns, scale))[0]
        except FlatEmbedding as error:
            flat = error
    if flat is not None and not np.any(np.isfinite(heights)):
        raise flat
    return heights


def _peaks(heights: np.ndarray) -> np.ndarray:
    """Which values are as high as both neighbours; there is one beyond either end, which is low."""
    padded = np.concatenate([[-np.inf], heights, [-np.inf]])
    return np.flatnonzero((padded[1:-1] >= padded[:-2]) & (padded[1:-1] >= padded[2:]) & np.isfinite(heights))


def _climb(
    likelihood: Likelihood,
    start: float,
    edges: tuple[float, float],
    units: np.ndarray,
    separate: bool,
    *,
    # Minus the log likelihood where it is zero: the search needs finite values.
    impossible: float = 1e100,
) -> Maximum | None:
    """Search from a common log lengthscale, in `units`; None where the embedding is flat at the start."""

    def lowered(logs: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, slopes = likelihood(np.broadcast_to(np.exp(logs), units.shape))
        except FlatEmbedding:
            return impossible, np.zeros(len(logs))
        # A lengthscale that all columns share has the sum of their slopes.
        return -value, -slopes if separate else -slopes.sum(keepdims=True)

    at = np.full(len(units) if separate else 1, start)
    found = minimize(lowered, at, jac=True, method="L-BFGS-B", bounds=[edges] * len(at))
    if found.fun >= impossible:
        return None
    at_edge = bool(np.any((found.x <= edges[0]) | (found.x >= edges[1])))
    return Maximum(np.exp(found.x) * units, -float(found.fun), at_edge)


def choose_lengthscale(
    given: Any, points: np.ndarray, *, separate: bool, noise: float, measure: Measure | None
) -> tuple[np.ndarray, LearntLengthscale | None]:
    """Lengthscales (D,) of points (n, D), given or chosen by name, and how they were learnt."""
    d = points.shape[1]
    if isinstance(given, str) and given == "bayesian":
        learnt = learn_lengthscale(points, separate=separate, noise=noise, measure=measure)
        return learnt.lengthscale, learnt
    if isinstance(given, str) and given == "median":
        return np.full(d, median_heuristic(points)), None
    if isinstance(given, str):
        raise ValueError(
            f"lengthscale is {shown(given)}; it may be 'bayesian', 'median', or numbers above zero"
        )
    if not isinstance(given, int | float | np.number | list | tuple | np.ndarray):
        raise TypeError(
            f"lengthscale is {shown(given)}; it may be 'bayesian', 'median', or numbers above zero"
        )
    for value in np.atleast_1d(np.asarray(given, dtype=object)).ravel():
        squarable("lengthscale", value)
    if np.size(given) not in (1, d):
        raise ValueError(f"there are {np.size(given)} lengthscales; give one, or one for each of {d} columns")
    return np.broadcast_to(np.asarray(given, dtype=float), (d,)).copy(), None
