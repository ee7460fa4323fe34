"""Regression adjustments, and the table of their names."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator

from pymc_kbr.arrays.neighbours import Neighbours
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.posterior.posterior import PosteriorWarning
from pymc_kbr.regression.kernel_ridge import KernelRegression


class Adjustment(BaseEstimator):
    """Moves the atoms of simulations with other statistics to where they would be at the observation."""

    # Parameters live in the unconstrained space (n, q), statistics in the estimator's scale (n, d). An
    # adjustment that `streams` can be fitted to some rows of a table and move others.

    streams = False

    @abstractmethod
    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Learn from statistics x (n, d) and parameters z (n, q), what does not depend on an observation."""
        # `weights` (n,) are the density ratio of another prior, or None.

    def for_rows(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> Self:
        """The fitted adjustment for other rows."""
        # Shapes: x, z (m, d); fitted (m,).
        # fitted: Their numbers among the rows that it was fitted to; -1 for those it was not.
        other = copy(self)
        other._take(x, z, fitted)
        return other

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        """Put rows in the place of the fitted ones, where an adjustment `streams`."""
        raise TypeError(
            f"{type(self).__name__} moves the rows that it was fitted to, and no others; take 'local_linear' "
            "or 'kernel_ridge' for rows that are read a part at a time"
        )

    @abstractmethod
    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` (m,) moved to the observation x (d,), shape (m, q)."""
        # `weights` (m,) are not negative.


class NoAdjustment(Adjustment):
    """Atoms stay where they are."""

    streams = True

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the parameters."""
        self.parameters_ = z
        return self

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        self.parameters_ = z

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The parameters of `rows` as they are."""
        return self.parameters_[rows]


def squared_residual_logarithms(residuals: np.ndarray) -> np.ndarray:
    """Log r^2, bounded below at a millionth of the mean square, so that an exact fit is no outlier."""
    squares = residuals**2
    return np.log(np.maximum(squares, 1e-6 * squares.mean(axis=0) + np.finfo(float).tiny))


# --- one slope for each atom ---


class JointNeighbours(Adjustment):
    """Each atom moves by the slope among its neighbours in parameters and statistics together."""

    # neighbours: Of each atom; two fifths of the rows that are moved where left out.
    # theta_i + B_i' (x - x_i), where B_i are the slopes of theta on x by least squares over the rows
    # (theta_j, x_j) nearest to (theta_i, x_i). Where a posterior has several modes, or is bent, neighbours in
    # the joint space lie on the atom's own branch, and branches that move in opposite directions as the
    # observation changes are not averaged. Statistics are measured in halves of the distance of the farthest
    # row that is moved, parameters in standard deviations over these rows.

    def __init__(self, neighbours: int | None = None) -> None:
        self.neighbours = neighbours

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the rows, and a tree of their statistics."""
        self.statistics_, self.parameters_, self._weights = x, z, weights
        self._tree = KDTree(x)
        return self

    def move(
        self,
        x: np.ndarray,
        rows: np.ndarray,
        weights: np.ndarray,
        *,
        # Neighbours of an atom, as a share of the moved rows, where no number is given.
        neighbour_share: float = 0.4,
        # Neighbours are searched among this many times the moved rows, those nearest to the observation.
        pool_factor: int = 4,
        # Ridge of the slopes, of the neighbours' mean variance of a statistic.
        ridge_share: float = 1e-2,
    ) -> np.ndarray:
        """The parameters of `rows` plus their own slopes times what the observation differs."""
        n, d = self.statistics_.shape
        count = round(neighbour_share * len(rows)) if self.neighbours is None else self.neighbours
        # A list of numbers, not one: a single row then has its axis, too.
        pool = self._tree.query(x, k=[*range(1, min(n, pool_factor * len(rows)) + 1)])[1]
        # Twice as many as a slope has coefficients, however few rows are moved.
        count = min(len(pool), max(count, 2 * (d + 1)))
        moved, apart = self.parameters_[rows], x - self.statistics_[rows]
        radius = np.linalg.norm(apart, axis=1).max() / 2
        unit = np.hstack([np.full(d, radius if radius > 0 else 1.0), unit_deviations(moved)])
        joint = np.hstack([self.statistics_, self.parameters_])
        candidates = joint[pool] / unit
        result = np.empty_like(moved)
        for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * count * d // 2**20)):
            distances = cdist(joint[rows[part]] / unit, candidates, "sqeuclidean")
            near = pool[np.argpartition(distances, count - 1, axis=1)[:, :count]]
            shares = np.full(near.shape, 1 / count) if self._weights is None else self._weights[near]
            shares = shares / shares.sum(axis=1, keepdims=True)
            xs, zs = self.statistics_[near], self.parameters_[near]
            xs = xs - np.einsum("rk,rkd->rd", shares, xs)[:, None]
            zs = zs - np.einsum("rk,rkq->rq", shares, zs)[:, None]
            weighted = np.swapaxes(shares[:, :, None] * xs, 1, 2)
            covariance = weighted @ xs
            ridge = ridge_share * np.trace(covariance, axis1=1, axis2=2) / d + np.finfo(float).tiny
            slopes = np.linalg.solve(covariance + ridge[:, None, None] * np.eye(d), weighted @ zs)
            result[part] = moved[part] + np.einsum("rd,rdq->rq", apart[part], slopes)
        return result


# --- local linear regression ---


class LocalLine(NamedTuple):
    """A weighted linear regression about an observation: what is expected there, and what is left of rows."""

    # Shapes: here (q,); residuals (m, q); design (m, 1 + d); inverse (1 + d, m).
    here: np.ndarray
    residuals: np.ndarray
    design: np.ndarray
    inverse: np.ndarray
    """Of the design times the roots of the weights."""

    @classmethod
    def of(cls, away: np.ndarray, z: np.ndarray, weights: np.ndarray) -> Self:
        """Of parameters z (m, q), and statistics less those of the observation, (m, d)."""
        root = np.sqrt(weights)[:, None]
        # About the observation: the intercept is what is wanted there.
        design = np.hstack([np.ones((len(away), 1)), away])
        inverse = np.linalg.pinv(root * design)
        coefficients = inverse @ (root * z)
        return cls(coefficients[0], z - design @ coefficients, design, inverse)


class LocalLinearAdjustment(Adjustment):
    """Residuals of a weighted linear regression on the rows that carry weight."""

    # heteroscedastic: Whether residuals are also scaled by the ratio of their expected sizes there and here.
    # theta_i - b' (x_i - x), with b from least squares weighted as the rows are [1]; heteroscedastic as in
    # `KernelRidgeAdjustment`, with a second linear regression.
    # [1] M. Beaumont, W. Zhang, D. Balding, Approximate Bayesian computation in population genetics, Genetics
    # 162 (2002), 2025-2035.

    streams = True

    def __init__(self, heteroscedastic: bool = False) -> None:
        self.heteroscedastic = heteroscedastic

    def fit(self, x: np.ndarray, z: np.ndarray, weights: np.ndarray | None, rng: np.random.Generator) -> Self:
        """Keep the rows."""
        self.statistics_, self.parameters_ = x, z
        return self

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        self.statistics_, self.parameters_ = x, z

    def move(
        self,
        x: np.ndarray,
        rows: np.ndarray,
        weights: np.ndarray,
        *,
        # Residual deviations by which the regression may be off at the observation without a warning.
        farthest_regression: float = 10.0,
    ) -> np.ndarray:
        """The intercept at x plus the residuals of `rows`."""
        count = int(np.sum(weights > 0))
        if count < 2 * (len(x) + 1):
            raise ValueError(
                f"{count} rows carry weight and the local-linear adjustment fits {len(x) + 1} coefficients "
                "to them; take at least twice as many rows (a larger share accepted), or the adjustment "
                "'kernel_ridge', which uses all rows"
            )
        line = LocalLine.of(self.statistics_[rows] - x, self.parameters_[rows], weights)
        root = np.sqrt(weights)[:, None]
        # The regression at the observation is a sum of the rows' parameters with these factors.
        error = float(np.linalg.norm(line.inverse[0] * root[:, 0]))
        if error > farthest_regression:
            warnings.warn(
                f"the local-linear regression is uncertain at the observation by {error:.2g} deviations of "
                "its residuals: the statistics of the rows with weight are collinear, and the observation's "
                "are not; take fewer statistics, scale='linear_posterior_mean', or the adjustment "
                "'kernel_ridge'",
                PosteriorWarning,
                stacklevel=users_line(),
            )
        residuals = line.residuals
        if self.heteroscedastic:
            slopes = line.inverse @ (root * squared_residual_logarithms(residuals))
            logs = line.design @ slopes
            # Beyond all rows a straight line of logarithms is of no residual any more, and soon of no float.
            here = np.clip(slopes[0], logs.min(axis=0), logs.max(axis=0))
            residuals = residuals * np.exp(0.5 * (here - logs))
        return line.here + residuals


def regression_clouds(
    near: Callable[[int], Neighbours],
    statistics: np.ndarray,
    free: np.ndarray,
    observed: np.ndarray,
    *,
    # Simulations of each cloud,
    nearest: int = 400,
    # and for each coefficient of a regression at least.
    rows_for_each: int = 5,
    # Of more a regression takes tens of milliseconds an observation, as all else does.
    most_statistics: int = 250,
) -> np.ndarray | None:
    """Near simulations, moved to each observation, (k, c, q); None of few, or of many statistics."""
    # Shapes: statistics (n, d), scaled; free (n, q); observed (k, d), scaled.
    n, d = statistics.shape
    size = max(nearest, rows_for_each * (d + 1))
    if n < 2 * size or d > most_statistics:
        return None
    finite = np.where(np.isfinite(free), free, np.nan)
    free = np.clip(free, np.nanmin(finite, axis=0), np.nanmax(finite, axis=0))
    distances, rows = near(size + 1).query(observed, size + 1)

    def moved(i: int) -> np.ndarray:
        squares, some = distances[i] ** 2, rows[i, :-1]
        weights = 1 - squares[:-1] / max(squares[-1], 1e-300)
        if not np.any(weights > 0):  # all are as far
            weights = np.ones(size)
        line = LocalLine.of(statistics[some] - observed[i], free[some], weights)
        return line.here + line.residuals[:nearest]

    with parallel_map(len(observed)) as map_:
        return np.stack(map_(moved, range(len(observed))))


# --- kernel ridge regression ---


class KernelRidgeAdjustment(Adjustment):
    """Residuals of a regression on the whole table, moved to the observation."""

    # heteroscedastic: Whether residuals are also scaled by the ratio of their expected sizes there and here.
    # theta_i + m(x) - m_{-i}(x_i), with m the kernel ridge regression and m_{-i} the same without row i:
    # residuals of fitted rows would be too small. (Those of rows that it was not fitted to are theta_i -
    # m(x_i).) Heteroscedastic: m(x) + (theta_i - m_{-i}(x_i)) s(x) / s(x_i), where log s^2 is a second
    # regression, on the logarithms of squared residuals [1].
    # [1] M. Blum, O. François, Non-linear regression models for approximate Bayesian computation, Stat.
    # Comput. 20 (2010), 63-73, eq. 7.

    streams = True

    def __init__(self, heteroscedastic: bool = False) -> None:
        self.heteroscedastic = heteroscedastic

    def fit(
        self,
        x: np.ndarray,
        z: np.ndarray,
        weights: np.ndarray | None,
        rng: np.random.Generator,
        *,
        # Rows for the settings of the second regression: logarithms of squares are mostly noise.
        rows_for_spread: int = 400,
        # Rank of the second regression.
        rank_for_spread: int = 200,
    ) -> Self:
        """Fit the regressions."""
        self.mean_ = KernelRegression(x, z, rng, weights)
        self._residuals = self.mean_.residuals
        self.leverages_capped_ = self.mean_.leverages_capped
        if self.heteroscedastic:
            logs = squared_residual_logarithms(self.mean_.residuals)
            self.spread_ = KernelRegression(x, logs, rng, weights, most=rows_for_spread, rank=rank_for_spread)
            self._logs = logs - self.spread_.residuals  # each by the regression without that row
        return self

    def _take(self, x: np.ndarray, z: np.ndarray, fitted: np.ndarray) -> None:
        # What was fitted has its residual without itself; of others the regression knows nothing.
        known = (fitted >= 0)[:, None]
        self._residuals = np.where(known, self._residuals[fitted], z - self.mean_.predict(x))
        if self.heteroscedastic:
            self._logs = np.where(known, self._logs[fitted], self.spread_.predict(x))

    def move(self, x: np.ndarray, rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """The regression at x plus the residuals of `rows`."""
        residuals = self._residuals.take(rows, axis=0)
        if self.heteroscedastic:
            residuals = residuals * np.exp(
                0.5 * (self.spread_.predict(x[None]) - self._logs.take(rows, axis=0))
            )
        return self.mean_.predict(x[None]) + residuals


# --- adjustments by their names ---


ADJUSTMENTS: dict[str, Callable[[], Adjustment]] = {
    "none": NoAdjustment,
    "kernel_ridge": KernelRidgeAdjustment,
    "heteroscedastic_kernel_ridge": lambda: KernelRidgeAdjustment(heteroscedastic=True),
    "local_linear": LocalLinearAdjustment,
    "heteroscedastic_local_linear": lambda: LocalLinearAdjustment(heteroscedastic=True),
    "joint_neighbours": JointNeighbours,
}
"""The name of each adjustment."""


def make_adjustment(adjustment: str | Adjustment) -> Adjustment:
    """An adjustment from its name, with its defaults, or the given one."""
    if isinstance(adjustment, Adjustment):
        return adjustment
    if not isinstance(adjustment, str):
        raise TypeError(
            f"adjustment is {shown(adjustment)}; give an adjustment, or one of the names "
            f"{', '.join(ADJUSTMENTS)}"
        )
    if adjustment not in ADJUSTMENTS:
        raise ValueError(f"there is no adjustment {adjustment!r}; the names are {', '.join(ADJUSTMENTS)}")
    return ADJUSTMENTS[adjustment]()
