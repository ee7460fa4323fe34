"""Kernel ridge regression of some columns on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.gram import LowRankGram, RandomlyPivotedCholesky
from pymc_kbr.kernels import FAMILIES, median_heuristic
from pymc_kbr.regression.choose_ridge import RIDGES, SCALES, choose_kernel_and_ridge


class KernelRegression:
    """Regression of targets on statistics in the space of a Gaussian kernel, plus a constant."""

    # Shapes: x (n, d); targets (n, t); weights (n,); residuals (n, t); estimates (n, t).
    def __init__(
        self,
        x: np.ndarray,
        targets: np.ndarray,
        rng: np.random.Generator,
        weights: np.ndarray | None = None,
        # Rows on which the bandwidth is chosen.
        most: int = 700,
        rank: int = 600,
        tolerance: float = 1e-5,
    ) -> None:
        d = np.ones(len(x)) if weights is None else weights / weights.mean()
        standard = (targets - targets.mean(axis=0)) / unit_deviations(targets)
        # Standardised, so that a target in small units counts as much as the others in the choice.
        median = median_heuristic(x)
        kernels = [FAMILIES["gaussian"](scale * median) for scale in SCALES]
        choice = choose_kernel_and_ridge(x, standard, kernels, weights=weights, targets=standard, most=most)
        self.bandwidth = float(choice.kernel.bandwidth)  # type: ignore[attr-defined]
        solver = RandomlyPivotedCholesky(rank=min(rank, len(x)), tolerance=tolerance)
        gram = solver.gram(choice.kernel, x, rng, choice.ridge)
        assert isinstance(gram, LowRankGram)
        # In place: nobody else holds the factor, the largest array here.
        self._gram = gram.centred(d / d.sum(), overwrite=True)
        self._ridge = RidgeRegression(self._gram.features, targets, weights)
        self.ridge, self.residuals = self._ridge.ridge, self._ridge.residuals
        self.estimates = self._ridge.estimates
        self.leverages_capped = self._ridge.leverages_capped

    def predict(self, x: np.ndarray, *, rows_at_once: int = 4096) -> np.ndarray:
        """Conditional means at statistics (k, d), shape (k, t)."""
        parts = np.array_split(x, max(1, len(x) // rows_at_once))
        return np.concatenate([self._ridge.predict(self._gram.feature_map(part)) for part in parts])


# --- ridge regression with leave-one-out residuals ---


def cap_leverages(leverages: np.ndarray, *, largest: float = 0.99) -> np.ndarray:
    """Leverages for left-out residuals: a row that determines its own prediction says little."""
    return np.minimum(leverages, largest)


class RidgeRegression:
    """Linear regression of targets on centred features, plus a constant, its ridge by leave-one-out."""

    # Shapes: features (n, r); targets (n, t); weights (n,).
    def __init__(self, features: np.ndarray, targets: np.ndarray, weights: np.ndarray | None = None) -> None:
        d = np.ones(len(features)) if weights is None else weights / weights.mean()
        unit, root = unit_deviations(targets), np.sqrt(d)[:, None]
        self._constant = d @ targets / d.sum()
        spectrum = _Wide if features.shape[1] >= len(features) else _Tall
        weighted = features if weights is None else root * features
        solver = spectrum(weighted, root * (targets - self._constant), d / d.sum())
        self.ridge = float(RIDGES[int(np.argmin(solver.errors(RIDGES, unit)))])
        chosen = solver.solve(self.ridge)
        self.residuals = chosen.left_out / root
        self.estimates = targets - chosen.left_out_of_slopes / root
        self.leverages_capped = chosen.capped
        self._coefficients = chosen.coefficients

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Targets at features (k, r), shape (k, t)."""
        return self._constant + features @ self._coefficients


class _Solution(NamedTuple):
    """The regression at one ridge: left-out residuals with and without the constant's share, slopes."""

    left_out: np.ndarray
    left_out_of_slopes: np.ndarray
    capped: int
    coefficients: np.ndarray


class _Tall:
    """Ridge regression by the eigenvectors of F' F, for fewer features than rows."""

    # Shapes: features (n, r); targets (n, t); share (n,).
    def __init__(self, features: np.ndarray, targets: np.ndarray, share: np.ndarray) -> None:
        self._features, self._targets, self._share = features, targets, share
        values, self._vectors = eigh(features.T @ features)
        self._values = np.maximum(values, 0)
        self._right = self._vectors.T @ (features.T @ targets)

    def errors(
        self,
        ridges: Sequence[float],
        unit: np.ndarray,
        *,
        # Rows on which the ridge is chosen, of a regression on all.
        most: int = 10_000,
    ) -> np.ndarray:
        """Sum of squared left-out residuals over `unit` (t,) of some rows, for each ridge."""
        rows = spread_out(len(self._features), most)
        rotated = self._features[rows] @ self._vectors
        inverse = 1 / (self._values[:, None] + np.array(ridges))
        leverages = self._share[rows, None] + rotated**2 @ inverse
        slopes = inverse[:, :, None] * self._right[:, None, :]
        residuals = self._targets[rows, None] - np.tensordot(rotated, slopes, axes=1)
        left_out = residuals / (1 - cap_leverages(leverages))[:, :, None]
        return np.sum((left_out / unit) ** 2, axis=(0, 2))

    def solve(
        self,
        ridge: float,
        *,
        # Eigenvalues of F' F below this share of the ridge are left out of leverages, which they would raise
        # by as much.
        negligible_for_leverage: float = 1e-6,
        rows_at_once: int = 4096,
    ) -> _Solution:
        """See `_Solution`."""
        inverse = 1 / (self._values + ridge)
        large = self._values > negligible_for_leverage * ridge
        directions = self._vectors[:, large] * np.sqrt(inverse[large])
        blocks = np.array_split(self._features, max(1, len(self._features) // rows_at_once))
        of_slopes = np.concatenate([np.sum((block @ directions) ** 2, axis=1) for block in blocks])
        # The constant's share is orthogonal to centred features, so that leverages add up.
        leverage = self._share + of_slopes
        coefficients = self._vectors @ (inverse[:, None] * self._right)
        residuals = self._targets - self._features @ coefficients
        return _Solution(
            residuals / (1 - cap_leverages(leverage))[:, None],
            residuals / (1 - cap_leverages(of_slopes))[:, None],
            int(np.sum(leverage > cap_leverages(leverage))),
            coefficients,
        )


class _Wide:
    """The same by those of F F', for fewer rows than features, where both residuals and 1 - h may vanish."""

    def __init__(self, features: np.ndarray, targets: np.ndarray, share: np.ndarray) -> None:
        self._features = features
        direction = np.sqrt(share)
        gram = features @ features.T
        # The constant's direction is moved to the end of the spectrum, where it is known.
        beyond = 2 * float(np.trace(gram)) + 1.0
        values, vectors = eigh(gram + beyond * np.outer(direction, direction))
        self._values, self._vectors = np.maximum(values[:-1], 0), vectors[:, :-1]
        self._share, self._right = share, self._vectors.T @ targets

    def errors(self, ridges: Sequence[float], unit: np.ndarray) -> np.ndarray:
        """Sum of squared left-out residuals over `unit` (t,), for each ridge."""
        return np.array([np.sum((self.solve(ridge).left_out / unit) ** 2) for ridge in ridges])

    def solve(self, ridge: float) -> _Solution:
        """See `_Solution`."""
        inverse = 1 / (self._values + ridge)
        dual = self._vectors @ (inverse[:, None] * self._right)
        diagonal = self._vectors**2 @ inverse
        return _Solution(
            dual / diagonal[:, None],
            dual / (diagonal + self._share / ridge)[:, None],
            0,
            self._features.T @ dual,
        )
