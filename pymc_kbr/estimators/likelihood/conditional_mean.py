"""The mean of the statistics given the parameters, by kernel ridge regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_kbr.arrays.threads import parallel_map, product_over_rows, row_parts
from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks, make_basis
from pymc_kbr.estimators.likelihood.smooth_function import inverse_lower
from pymc_kbr.kernels import median_heuristic
from pymc_kbr.regression.kernel_ridge import cap_leverages

BASIS_RIDGES = tuple(10.0**k for k in np.arange(1, -12.1, -0.5))
"""From which each statistic's own is chosen."""


class BasisRegression(NamedTuple):
    """A regression on a basis."""

    coefficients: np.ndarray
    residuals: np.ndarray
    ridges: np.ndarray


def regress(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    ridges: slice = slice(None),
    *,
    # By which ridges are chosen: of twice as many rows times columns every second row, and so on.
    most_errors: int = 2_500_000,
) -> BasisRegression:
    """Ridge regression on orthonormal features, each column's ridge by its leave-one-out error."""
    # Shapes: features (n, f); penalties (f,); points (n, e).
    n, columns = points.shape
    parts = row_parts(n)
    with parallel_map(len(parts)) as map_:
        right, shrinks = product_over_rows(features, points, map_) / n, _shrinks(penalties)[:, ridges]
        # The diagonal of the hat matrix, as features are orthonormal over the rows.
        # All ridges in one product: a matrix is read once, and not once for each of them.
        hats = np.concatenate(map_(lambda rows: (features[rows] ** 2 / n) @ shrinks, parts))
        leverage = cap_leverages(hats)

        def left_out(rows: slice, slopes: np.ndarray, k: int | np.ndarray) -> np.ndarray:
            found = features[rows] @ slopes
            np.subtract(points[rows], found, out=found)
            found /= 1 - leverage[rows, k].reshape(len(found), -1)
            return found

        # Of many columns some rows, spread over all, tell as well which ridge is best.
        step = max(1, n * columns // most_errors)

        def errors(k: int) -> np.ndarray:
            slopes = shrinks[:, k, None] * right
            some = [slice(rows.start, rows.stop, step) for rows in parts]
            return np.sum(map_(lambda rows: np.sum(left_out(rows, slopes, k) ** 2, axis=0), some), axis=0)

        # The first fit is tried whatever its freedom: there must be one.
        found = np.array([errors(k) for k in range(_within_freedom(leverage, least=1))])
        best = _not_needlessly_small(found, np.array(BASIS_RIDGES[ridges]), n)
        coefficients, residuals = shrinks[:, best] * right, np.empty((n, columns))

        def fill(rows: slice) -> None:
            residuals[rows] = left_out(rows, coefficients, best)

        map_(fill, parts)
    return BasisRegression(coefficients, residuals, np.array(BASIS_RIDGES[ridges])[best])


def _not_needlessly_small(
    errors: np.ndarray,
    ridges: np.ndarray,
    n: int,
    *,
    # Below this ridge a smaller one must lower the error by more than chance: coefficients of millions have
    # sums that are wrong by rounding.
    tiny_ridge: float = 1e-06,
    # Gain that is chance, times the number of rows.
    of_chance: int = 10,
) -> np.ndarray:
    """Which ridge each column takes, by errors (r, e) of n rows at the first r of these, which fall."""
    best, places = np.argmin(errors, axis=0), np.arange(len(errors))[:, None]
    may_be = (places == best) | (ridges[: len(errors), None] < tiny_ridge * 1.001)
    return np.argmax(may_be & (errors <= (1 + of_chance / n) * errors.min(axis=0)), axis=0)


def _shrinks(penalties: np.ndarray) -> np.ndarray:
    """By which each coefficient is multiplied at each ridge, shape (f, ridges)."""
    return 1 / (1 + penalties[:, None] * np.array(BASIS_RIDGES))


def _within_freedom(
    leverage: np.ndarray,
    least: int,
    *,
    # Degrees of freedom, as a share of the rows: beyond it leave-one-out residuals are uninformative.
    most_freedom: float = 0.5,
) -> int:
    """How many ridges, from the largest on, whose leverages (n, ridges) leave rows something to say."""
    beyond = np.flatnonzero(leverage.mean(axis=0) > most_freedom)
    return max(least, int(beyond[0]) if len(beyond) else leverage.shape[1])


def regress_weighted(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    precisions: np.ndarray,
    before: BasisRegression,
    *,
    # Of the basis, smoothest first.
    most_functions: int = 400,
    # Deviation of log scales among rows above which a column is weighted.
    least_uneven: float = 0.1,
) -> BasisRegression:
    """As `regress`, with squared residuals weighted; a column keeps a fit before it that is better."""
    # Rows of large variance else decide the mean where it is known best.
    # Shapes: precisions (n, e).
    count = min(most_functions, features.shape[1])
    smooth = np.argsort(penalties, kind="stable")[:count]
    f, p = features[:, smooth], penalties[smooth]
    coefficients, residuals = before.coefficients.copy(), before.residuals.copy()

    def reweight(j: int) -> None:
        weights = precisions[:, j] / precisions[:, j].sum()
        found = _weighted(f, p, points[:, j], weights, float(weights @ before.residuals[:, j] ** 2))
        if found is not None:
            coefficients[:, j] = 0
            coefficients[smooth, j], residuals[:, j] = found

    uneven = np.flatnonzero(0.5 * np.std(np.log(precisions), axis=0) > least_uneven).tolist()
    with parallel_map(len(uneven)) as map_:
        map_(reweight, uneven)
    return BasisRegression(coefficients, residuals, before.ridges)


def _weighted(
    f: np.ndarray, p: np.ndarray, column: np.ndarray, weights: np.ndarray, reached: float
) -> tuple[np.ndarray, np.ndarray] | None:
    """Coefficients and residuals of one column with a lower weighted error than has been reached, or None."""
    weighted = f * weights[:, None]
    values, vectors = _orthonormal(p, weighted.T @ f)
    rotated, right = f @ vectors, vectors.T @ (weighted.T @ column)
    shrinks = _shrinks(values)
    leverage = cap_leverages((rotated**2 * weights[:, None]) @ shrinks)
    tried = _within_freedom(leverage, least=0)
    slopes = shrinks[:, :tried] * right[:, None]
    left_out = (column[:, None] - rotated @ slopes) / (1 - leverage[:, :tried])
    errors = weights @ left_out**2
    if not tried or errors.min() >= reached:
        return None
    best = int(np.argmin(errors))
    return vectors @ slopes[:, best], left_out[:, best]


def regress_with_common_weights(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    ridges: slice = slice(None),
    *,
    # Of the basis, smoothest first.
    most_functions: int = 400,
) -> BasisRegression:
    """As `regress`, with the squared residuals of each row weighted (n,), the same in all columns."""
    count = min(most_functions, features.shape[1])
    smooth = np.argsort(penalties, kind="stable")[:count]
    root = np.sqrt(weights / weights.mean())[:, None]
    weighted = features[:, smooth] * root
    values, vectors = _orthonormal(penalties[smooth], weighted.T @ weighted / len(weighted))
    found = regress(weighted @ vectors, values, points * root, ridges)
    coefficients = np.zeros((features.shape[1], points.shape[1]))
    coefficients[smooth] = vectors @ found.coefficients
    return BasisRegression(coefficients, found.residuals / root, found.ridges)


def _orthonormal(penalties: np.ndarray, products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Penalties of combinations of functions whose mean products are zero and one, and these combinations."""
    # Functions that differ where no weight is are the same: the products may be singular.
    products[np.diag_indices(len(products))] += 1e-10 * np.trace(products) / len(products)
    # Both forms are diagonal in the eigenvectors of the penalty against the weighted products.
    unwhiten = inverse_lower(np.linalg.cholesky(products))
    values, vectors = np.linalg.eigh((unwhiten * penalties) @ unwhiten.T)
    return np.maximum(values, 0), unwhiten.T @ vectors


# --- basis functions of the mean ---


class Tried(NamedTuple):
    """A regression on some rows, with directions (q, q) and bandwidth of its kernel, and its error."""

    directions: np.ndarray
    scale: float
    basis: Basis
    fitted: BasisRegression
    error: float


class MeanSearch(NamedTuple):
    """What is tried for the kernel of the mean."""

    scales: tuple[float, ...] = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0)

    # Times that directions are taken from the slopes of the previous regression.
    turns: int = 2

    # Gain in a statistic's log mean squared error, on average, for which distances are not Euclidean.
    gain: float = 0.01
    landmarks: int = 300
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
    *,
    # Rows on which directions and bandwidth are chosen.
    rows_for_directions: int = 2000,
) -> tuple[Basis, np.ndarray]:
    """The basis with the smallest leave-one-out error, and its values at the rows."""
    # Distances are Euclidean, or along the eigenvectors of the slopes' mean outer product, after A.
    # Radhakrishnan et al., Mechanism for feature learning in neural networks, Science 383 (2024).
    # Shapes: theta (n, q); points (n, e).
    n, q = theta.shape
    if known is not None:
        return make_basis(theta, [known.moved(theta[rng.permutation(n)[:landmarks]])])
    some = rng.permutation(n)[:rows_for_directions]
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
        with parallel_map(len(search.scales)) as map_:
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


def _directions(
    theta: np.ndarray,
    before: Tried,
    *,
    # A direction's mean squared slope over the largest one, at least: none is dropped for good.
    least_direction: float = 1e-4,
) -> np.ndarray:
    """Columns along which the regression before moves, in proportion to its root mean squared slope."""
    # Coefficients of the basis as those of the raw functions, whose slopes are known.
    slopes = before.basis.landmarks.slopes(theta, before.basis.mix @ before.fitted.coefficients)
    values, vectors = np.linalg.eigh(np.einsum("niq,nip->qp", slopes, slopes))
    return vectors * np.sqrt(np.maximum(values / max(values[-1], 1e-300), least_direction))
