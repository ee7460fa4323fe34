"""Kernel and linear ridge regression of columns on statistics, with leave-one-out residuals."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from pymc_kbr.gram import LowRankGram, RandomlyPivotedCholesky
from pymc_kbr.kernels import FAMILIES, choose_kernel_and_ridge, deviations, median_heuristic
from pymc_kbr.kernels.leave_one_out import RIDGES, SCALES

RANK, TOLERANCE = 600, 1e-5
"""Where the factorisation of the Gram matrix ends: rank, and residual as a share of the trace."""

ROWS_FOR_BANDWIDTH = 700
"""Rows on which the bandwidth is chosen."""

LARGEST_LEVERAGE = 0.99
"""A row that determines its own prediction to this share is not divided by less than one minus it."""


class KernelRegression:
    """Regression of targets on statistics in the space of a Gaussian kernel, plus a constant.

    Parameters
    ----------
    x : ndarray of shape (n, d)
        Scaled statistics.
    targets : ndarray of shape (n, t)
    weights : ndarray of shape (n,), optional
        Of the squared residuals; one where left out.
    rng : numpy.random.Generator
        For the pivots of the factorisation.
    most : int
        Rows on which the bandwidth is chosen.

    Attributes
    ----------
    residuals : ndarray of shape (n, t)
        Of each row, predicted from all the others.
    estimates : ndarray of shape (n, t)
        Of each row, by the constant of all rows and slopes that were fitted to the others. (A constant that
        leaves the row out would tell its target where the slopes say little.)
    leverages_capped : int
        Rows whose leverage exceeded `LARGEST_LEVERAGE`.
    bandwidth, ridge : float

    Notes
    -----
    The bandwidth has the smallest leave-one-out error on standardised targets over some rows, the ridge over
    all of them. The Gram matrix is factored by randomly pivoted Cholesky, G = F F'; with the features
    centred, the leave-one-out residual of row i is its residual over 1 - h_i, with h_i = d_i (1 / sum d +
    f_i' A^-1 f_i) and A = F' D F + ridge I, for every ridge by one eigendecomposition of F' D F. For
    `estimates` h_i is without 1 / sum d.
    """

    def __init__(
        self,
        x: np.ndarray,
        targets: np.ndarray,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
        most: int = ROWS_FOR_BANDWIDTH,
    ) -> None:
        d = np.ones(len(x)) if weights is None else weights / weights.mean()
        deviation = deviations(targets)
        standard = (targets - targets.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        median = median_heuristic(x)
        kernels = [FAMILIES["gaussian"](scale * median) for scale in SCALES]
        choice = choose_kernel_and_ridge(x, standard, kernels, weights=weights, targets=standard, most=most)
        self.bandwidth = float(choice.kernel.bandwidth)  # type: ignore[attr-defined]
        solver = RandomlyPivotedCholesky(rank=min(RANK, len(x)), tolerance=TOLERANCE)
        gram = solver.gram(choice.kernel, x, rng, choice.ridge)
        assert isinstance(gram, LowRankGram)
        self._gram = gram.centred(d / d.sum())
        self._ridge = RidgeRegression(self._gram.features, targets, weights)
        self.ridge, self.residuals = self._ridge.ridge, self._ridge.residuals
        self.estimates = self._ridge.estimates
        self.leverages_capped = self._ridge.leverages_capped

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Conditional means at statistics (k, d), shape (k, t)."""
        return self._ridge.predict(self._gram.feature_map(x))


class RidgeRegression:
    """Linear regression of targets on centred features, plus a constant, its ridge by leave-one-out.

    Parameters
    ----------
    features : ndarray of shape (n, r)
        Of weighted mean zero.
    targets : ndarray of shape (n, t)
    weights : ndarray of shape (n,), optional
        Of the squared residuals; one where left out.

    Attributes
    ----------
    residuals, estimates, leverages_capped, ridge
        As of `KernelRegression`, whose Notes have the formula.
    """

    def __init__(self, features: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> None:
        d = np.ones(len(features)) if weights is None else weights / weights.mean()
        deviation, root = deviations(targets), np.sqrt(d)[:, None]
        self._constant = d @ targets / d.sum()
        spectrum = _Wide if features.shape[1] >= len(features) else _Tall
        solve = spectrum(root * features, root * (targets - self._constant), d / d.sum()).solve
        best = np.inf
        for ridge in RIDGES:
            solution = solve(ridge)
            error = float(np.sum((solution.left_out / np.where(deviation > 0, deviation, 1.0)) ** 2))
            if error < best:
                best, self.ridge, chosen = error, float(ridge), solution
        self.residuals = chosen.left_out / root
        self.estimates = targets - chosen.left_out_of_slopes / root
        self.leverages_capped = chosen.capped
        self._coefficients = chosen.coefficients()

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Targets at features (k, r), shape (k, t)."""
        return self._constant + features @ self._coefficients


class _Solution(NamedTuple):
    """The regression at one ridge: left-out residuals with and without the constant's share, slopes."""

    left_out: np.ndarray
    left_out_of_slopes: np.ndarray
    capped: int
    coefficients: Callable[[], np.ndarray]


class _Tall:
    """Ridge regression by the eigenvectors of F' F, for fewer features than rows.

    Parameters
    ----------
    features : ndarray of shape (n, r)
    targets : ndarray of shape (n, t)
    share : ndarray of shape (n,)
        The constant's part of each row's leverage.
    """

    def __init__(self, features: np.ndarray, targets: np.ndarray, share: np.ndarray) -> None:
        self._targets, self._share = targets, share
        self._values, self._vectors = eigh(features.T @ features)
        self._rotated = features @ self._vectors
        self._right, self._squares = self._rotated.T @ targets, self._rotated**2

    def solve(self, ridge: float) -> _Solution:
        inverse = 1 / (np.maximum(self._values, 0) + ridge)
        of_slopes = self._squares @ inverse
        leverage = self._share + of_slopes
        slopes = inverse[:, None] * self._right
        residuals = self._targets - self._rotated @ slopes
        return _Solution(
            residuals / (1 - np.minimum(leverage, LARGEST_LEVERAGE))[:, None],
            residuals / (1 - np.minimum(of_slopes, LARGEST_LEVERAGE))[:, None],
            int(np.sum(leverage > LARGEST_LEVERAGE)),
            lambda: self._vectors @ slopes,
        )


class _Wide:
    """The same by those of F F', for fewer rows than features, where both residuals and 1 - h may vanish.

    With C = (F F' + ridge I)^-1 a left-out residual is (C y)_i / C_ii; the constant takes its own direction,
    the root of `share`, which F F' does not reach, out of C.
    """

    def __init__(self, features: np.ndarray, targets: np.ndarray, share: np.ndarray) -> None:
        self._features = features
        direction = np.sqrt(share)
        gram = features @ features.T
        # The constant's direction is moved to the end of the spectrum, where it is known.
        beyond = 2 * float(np.trace(gram)) + 1.0
        values, vectors = eigh(gram + beyond * np.outer(direction, direction))
        self._values, self._vectors = np.maximum(values[:-1], 0), vectors[:, :-1]
        self._share, self._right = share, self._vectors.T @ targets

    def solve(self, ridge: float) -> _Solution:
        inverse = 1 / (self._values + ridge)
        dual = self._vectors @ (inverse[:, None] * self._right)
        diagonal = self._vectors**2 @ inverse
        return _Solution(
            dual / diagonal[:, None],
            dual / (diagonal + self._share / ridge)[:, None],
            0,
            lambda: self._features.T @ dual,
        )
