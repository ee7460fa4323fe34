"""Kernel ridge regression of some columns on others."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.gram import LowRankGram, RandomlyPivotedCholesky
from pymc_kbr.kernels import FAMILIES, median_heuristic
from pymc_kbr.regression.leave_one_out import SCALES, choose_kernel_and_ridge
from pymc_kbr.regression.ridge import FEATURE_ROWS_AT_ONCE, RidgeRegression

RANK, TOLERANCE = 600, 1e-5
"""Where the factorisation of the Gram matrix ends: rank, and residual as a share of the trace."""

ROWS_FOR_BANDWIDTH = 700
"""Rows on which the bandwidth is chosen."""


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
    rank : int
        Of the factorisation, at most.

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
    The bandwidth has the smallest leave-one-out error on standardised targets in a regression on some rows,
    the ridge in that on all of them, as up to 10,000 rows show it. The Gram matrix is factored by randomly
    pivoted Cholesky, G = F F'; with the features centred, the leave-one-out residual of row i is its residual
    over 1 - h_i, with h_i = d_i (1 / sum d + f_i' A^-1 f_i) and A = F' D F + ridge I, for every ridge by one
    eigendecomposition of F' D F. For `estimates` h_i is without 1 / sum d.
    """

    def __init__(
        self,
        x: np.ndarray,
        targets: np.ndarray,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
        most: int = ROWS_FOR_BANDWIDTH,
        rank: int = RANK,
    ) -> None:
        d = np.ones(len(x)) if weights is None else weights / weights.mean()
        standard = (targets - targets.mean(axis=0)) / unit_deviations(targets)
        # Standardised, so that a target in small units counts as much as the others in the choice.
        median = median_heuristic(x)
        kernels = [FAMILIES["gaussian"](scale * median) for scale in SCALES]
        choice = choose_kernel_and_ridge(x, standard, kernels, weights=weights, targets=standard, most=most)
        self.bandwidth = float(choice.kernel.bandwidth)  # type: ignore[attr-defined]
        solver = RandomlyPivotedCholesky(rank=min(rank, len(x)), tolerance=TOLERANCE)
        gram = solver.gram(choice.kernel, x, rng, choice.ridge)
        assert isinstance(gram, LowRankGram)
        # In place: nobody else holds the factor, the largest array here.
        self._gram = gram.centred(d / d.sum(), overwrite=True)
        self._ridge = RidgeRegression(self._gram.features, targets, weights)
        self.ridge, self.residuals = self._ridge.ridge, self._ridge.residuals
        self.estimates = self._ridge.estimates
        self.leverages_capped = self._ridge.leverages_capped

    def predict(self, x: np.ndarray) -> np.ndarray:
        """Conditional means at statistics (k, d), shape (k, t)."""
        parts = np.array_split(x, max(1, len(x) // FEATURE_ROWS_AT_ONCE))
        return np.concatenate([self._ridge.predict(self._gram.feature_map(part)) for part in parts])
