"""The mean of the statistics given the parameters, by kernel ridge regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pymc_kbr.arrays.row_parts import product_over_rows, row_parts
from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.arrays.triangular import inverse_lower
from pymc_kbr.estimators.likelihood.spread import UNEVEN
from pymc_kbr.regression.ridge import LARGEST_LEVERAGE

BASIS_RIDGES = tuple(10.0**k for k in np.arange(1, -12.1, -0.5))
"""From which each statistic's own is chosen."""

MOST_FREEDOM = 0.5
"""Degrees of freedom, as a share of the rows, beyond which residuals that leave a row out say nothing."""

ERRORS_LOOKED_AT = 2_500_000
"""By which ridges are chosen: of twice as many rows times columns every second row, of three times as many
every third, and so on.
"""

TINY_RIDGE, OF_CHANCE = 1e-6, 10
"""Below the first, a smaller ridge is taken only where it lowers the error by a larger share than the second
over the number of rows. What chance gains there takes coefficients of millions, whose sums are wrong by their
rounding.
"""

FUNCTIONS_REWEIGHTED = 400
"""Of the basis, smoothest first: those that a regression weighted by precisions works with."""


class BasisRegression(NamedTuple):
    """A regression on a basis.

    Coefficients (f, e), each row's residual (n, e) by all the others, and each column's ridge (e,).
    """

    coefficients: np.ndarray
    residuals: np.ndarray
    ridges: np.ndarray


def regress(
    features: np.ndarray, penalties: np.ndarray, points: np.ndarray, ridges: slice = slice(None)
) -> BasisRegression:
    """Ridge regression on orthonormal features, each column's ridge by its leave-one-out error.

    Parameters
    ----------
    features : ndarray of shape (n, f)
    penalties : ndarray of shape (f,)
    points : ndarray of shape (n, e)
    ridges : slice
        Of `BASIS_RIDGES`: those that are tried.
    """
    n, columns = points.shape
    parts = row_parts(n)
    with side_by_side(len(parts)) as map_:
        right, shrinks = product_over_rows(features, points, map_) / n, _shrinks(penalties)[:, ridges]
        # The diagonal of the hat matrix, as features are orthonormal over the rows.
        # All ridges in one product: a matrix is read once, and not once for each of them.
        hats = np.concatenate(map_(lambda rows: (features[rows] ** 2 / n) @ shrinks, parts))
        leverage = np.minimum(hats, LARGEST_LEVERAGE)

        def left_out(rows: slice, slopes: np.ndarray, k: int | np.ndarray) -> np.ndarray:
            found = features[rows] @ slopes
            np.subtract(points[rows], found, out=found)
            found /= 1 - leverage[rows, k].reshape(len(found), -1)
            return found

        # Of many columns some rows, spread over all, tell as well which ridge is best.
        step = max(1, n * columns // ERRORS_LOOKED_AT)

        def errors(k: int) -> np.ndarray:
            slopes = shrinks[:, k, None] * right
            some = [slice(rows.start, rows.stop, step) for rows in parts]
            return np.sum(map_(lambda rows: np.sum(left_out(rows, slopes, k) ** 2, axis=0), some), axis=0)

        # The first fit stands whatever its freedom: there must be one.
        found = np.array([errors(k) for k in range(_within_freedom(leverage, least=1))])
        best = _not_needlessly_small(found, np.array(BASIS_RIDGES[ridges]), n)
        coefficients, residuals = shrinks[:, best] * right, np.empty((n, columns))

        def fill(rows: slice) -> None:
            residuals[rows] = left_out(rows, coefficients, best)

        map_(fill, parts)
    return BasisRegression(coefficients, residuals, np.array(BASIS_RIDGES[ridges])[best])


def _not_needlessly_small(errors: np.ndarray, ridges: np.ndarray, n: int) -> np.ndarray:
    """Which ridge each column takes, by errors (r, e) of n rows at the first r of these, which fall."""
    best, places = np.argmin(errors, axis=0), np.arange(len(errors))[:, None]
    may_be = (places == best) | (ridges[: len(errors), None] < TINY_RIDGE * 1.001)
    return np.argmax(may_be & (errors <= (1 + OF_CHANCE / n) * errors.min(axis=0)), axis=0)


def _shrinks(penalties: np.ndarray) -> np.ndarray:
    """By which each coefficient is multiplied at each ridge, shape (f, ridges)."""
    return 1 / (1 + penalties[:, None] * np.array(BASIS_RIDGES))


def _within_freedom(leverage: np.ndarray, least: int) -> int:
    """How many ridges, from the largest on, whose leverages (n, ridges) leave rows something to say."""
    beyond = np.flatnonzero(leverage.mean(axis=0) > MOST_FREEDOM)
    return max(least, int(beyond[0]) if len(beyond) else leverage.shape[1])


def regress_weighted(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    precisions: np.ndarray,
    before: BasisRegression,
) -> BasisRegression:
    """As `regress`, with squared residuals weighted; a column keeps the fit before it where that is better.

    Parameters
    ----------
    precisions : ndarray of shape (n, e)
        One over the variance of each statistic at each row.
    before : BasisRegression
        Unweighted.

    Notes
    -----
    Rows of large variance else decide the mean where it is known best. Columns whose deviations hardly differ
    are left as they are.
    """
    count = min(FUNCTIONS_REWEIGHTED, features.shape[1])
    smooth = np.argsort(penalties, kind="stable")[:count]
    f, p = features[:, smooth], penalties[smooth]
    coefficients, residuals = before.coefficients.copy(), before.residuals.copy()

    def reweight(j: int) -> None:
        weights = precisions[:, j] / precisions[:, j].sum()
        found = _weighted(f, p, points[:, j], weights, float(weights @ before.residuals[:, j] ** 2))
        if found is not None:
            coefficients[:, j] = 0
            coefficients[smooth, j], residuals[:, j] = found

    uneven = np.flatnonzero(0.5 * np.std(np.log(precisions), axis=0) > UNEVEN).tolist()
    with side_by_side(len(uneven)) as map_:
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
    leverage = np.minimum((rotated**2 * weights[:, None]) @ shrinks, LARGEST_LEVERAGE)
    tried = _within_freedom(leverage, least=0)
    slopes = shrinks[:, :tried] * right[:, None]
    left_out = (column[:, None] - rotated @ slopes) / (1 - leverage[:, :tried])
    errors = weights @ left_out**2
    if not tried or errors.min() >= reached:
        return None
    best = int(np.argmin(errors))
    return vectors @ slopes[:, best], left_out[:, best]


def regress_alike(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    weights: np.ndarray,
    ridges: slice = slice(None),
) -> BasisRegression:
    """As `regress`, with the squared residuals of each row weighted (n,), those of all columns alike."""
    count = min(FUNCTIONS_REWEIGHTED, features.shape[1])
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
