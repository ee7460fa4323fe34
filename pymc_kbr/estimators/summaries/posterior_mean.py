"""Semi-automatic statistics: regression estimates of the parameters (Fearnhead and Prangle 2012, section 3).

Of the rows that a regression was fitted on it knows the parameters, so that their own estimates are nearer to
them than those of an observation will be. Where estimators use these rows, each has the estimate of the
regression without it; otherwise posteriors come out too narrow, the more statistics there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.special import ndtri

from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.summaries.relevance import Estimates, Relevance, StatisticColumns
from pymc_kbr.gram import LowRankGram, RandomlyPivotedCholesky
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.regression.kernel_ridge import KernelRegression, RidgeRegression


@dataclass(frozen=True, eq=False)
class PosteriorMean(Estimates):
    """One statistic a parameter: its conditional mean given all statistics."""

    # Shapes: fitted_on (n, d); left_out (n, p).
    # By kernel ridge regression in the metric of `Relevance`, in place of the linear one of section 3.
    relevance: Relevance
    regression: KernelRegression
    scaler: Scaler
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(
        cls,
        statistics: np.ndarray,
        parameters: np.ndarray,
        *,
        # Of the table, on which the regression is fitted.
        most_rows: int = 10_000,
    ) -> PosteriorMean:
        """Regress a table's parameters on its statistics."""
        relevance = Relevance.fit(statistics, parameters)
        step = max(1, len(statistics) // most_rows)
        regression = KernelRegression(
            relevance.transform(statistics[::step]), parameters[::step], np.random.default_rng(0)
        )
        predicted = regression.predict(relevance.transform(statistics))
        predicted[::step] = regression.estimates  # without the row itself
        scaler = Scaler.fit(predicted)
        return cls(relevance, regression, scaler, statistics, scaler.transform(predicted))

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.relevance

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        return self.scaler.transform(self.regression.predict(self.relevance.transform(statistics)))


@dataclass(frozen=True, eq=False)
class LinearPosteriorMean(Estimates):
    """One statistic a parameter: its best linear estimate from all statistics."""

    # Shapes: centre (d,); fitted_on (n, d); left_out (n, p).
    # With a ridge: for hundreds of statistics, where it takes a second and `PosteriorMean` a minute.
    standardise: Scaler
    centre: np.ndarray
    regression: RidgeRegression
    scaler: Scaler
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(
        cls, statistics: np.ndarray, parameters: np.ndarray, *, warns: bool = True
    ) -> LinearPosteriorMean:
        """Regress a table's parameters on its statistics."""
        standardise = Scaler.fit(statistics, warns=warns)
        x = standardise.transform(statistics)
        centre = x.mean(axis=0)
        regression = RidgeRegression(x - centre, parameters)
        scaler = Scaler.fit(regression.estimates, warns=warns)
        left_out = scaler.transform(regression.estimates)
        return cls(standardise, centre, regression, scaler, statistics, left_out)

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.standardise

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        x = self.standardise.transform(statistics) - self.centre
        return self.scaler.transform(self.regression.predict(x))


# --- estimates from curves and a joint kernel ---


@dataclass(frozen=True, eq=False)
class JointPosteriorMean(Estimates):
    """One statistic a parameter: its estimate by curves of each statistic, and by all of them jointly."""

    # Shapes: fitted_on (n, d); left_out (n, p).
    # Ridge regression on `CurvedPosteriorMean`'s curves, and on a Gaussian kernel of the first principal
    # components of the normal scores, each over the fourth root of its variance: with the variance itself the
    # first few would hide the others, and equally weighted ones are mostly noise.
    features: Features
    regression: RidgeRegression
    scaler: Scaler
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(
        cls,
        statistics: np.ndarray,
        parameters: np.ndarray,
        *,
        # Of the table, on which the regression is fitted.
        most_rows: int = 10_000,
    ) -> JointPosteriorMean:
        """Regress a table's parameters on its statistics."""
        rows = spread_out(len(statistics), most_rows)
        features, at_rows = Features.fit(statistics[rows], parameters[rows])
        regression = RidgeRegression(at_rows, parameters[rows])
        others = np.setdiff1d(np.arange(len(statistics)), rows)
        predicted = np.empty(parameters.shape)
        predicted[rows] = regression.estimates
        if len(others):
            predicted[others] = regression.predict(features(statistics[others]))
        scaler = Scaler.fit(predicted)
        return cls(features, regression, scaler, statistics, scaler.transform(predicted))

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.features.curves.standardise

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        return self.scaler.transform(self.regression.predict(self.features(statistics)))


@dataclass(frozen=True, eq=False)
class Features:
    """Centred curves of each statistic, and centred features of a kernel of their principal components."""

    # Shapes: centre (c,); directions (q, k).
    curves: Curves
    centre: np.ndarray
    directions: np.ndarray
    of_kernel: Callable[[np.ndarray], np.ndarray]

    @classmethod
    def fit(
        cls,
        statistics: np.ndarray,
        parameters: np.ndarray,
        *,
        # Of the kernel, as in a `KernelRegression`.
        rank: int = 600,
    ) -> tuple[Features, np.ndarray]:
        """Of a table, and their values at its rows (n, c + r)."""
        curves = Curves.fit(statistics)
        at_rows = curves.transform(statistics)
        centre = at_rows.mean(axis=0)
        scores = curves.normal_scores(statistics)
        directions = _directions(scores)
        components = scores @ directions
        linear = _weighted(at_rows - centre)
        gram = _factor(components, _bandwidth(components, linear, parameters), rank)
        return cls(curves, centre, directions, gram.feature_map), np.hstack([linear, gram.features])

    def __call__(self, statistics: np.ndarray) -> np.ndarray:
        """Of rows of statistics (k, d), shape (k, c + r)."""
        components = self.curves.normal_scores(statistics) @ self.directions
        linear = _weighted(self.curves.transform(statistics) - self.centre)
        return np.hstack([linear, self.of_kernel(components)])


def _weighted(
    curves: np.ndarray,
    *,
    # Variance of all curves together, where the kernel's features have one.
    curve_share: float = 0.25,
) -> np.ndarray:
    """Centred curves with the variance that they have together."""
    return curves * np.sqrt(curve_share / curves.shape[1])


def _directions(
    scores: np.ndarray,
    *,
    # Principal components of the normal scores that enter the kernel, at most.
    most_components: int = 12,
) -> np.ndarray:
    """To principal components, each divided by the fourth root of its variance: (q, k)."""
    values, vectors = eigh(np.atleast_2d(np.cov(scores, rowvar=False)))
    order = np.argsort(values)[::-1][:most_components]
    order = order[values[order] > np.finfo(float).eps * values[-1] * len(values)]
    if not len(order):  # one value in all of the quantiles, and others so seldom that these do not see them
        return vectors[:, -1:]
    return vectors[:, order] / values[order] ** 0.25


def _bandwidth(
    components: np.ndarray,
    linear: np.ndarray,
    parameters: np.ndarray,
    *,
    # Bandwidths that are tried, in median distances.
    joint_scales: tuple[float, float, float] = (0.5, 1.0, 2.0),
    # Rows on which the bandwidth is chosen
    rows_for_joint_bandwidth: int = 2000,
    # and the rank of its kernel.
    rank_for_joint_bandwidth: int = 300,
) -> float:
    """That of the smallest leave-one-out error on some rows."""
    rows = spread_out(len(components), rows_for_joint_bandwidth)
    if not np.ptp(components[rows], axis=0).any():
        return 1.0
    of_curves, targets = linear[rows] - linear[rows].mean(axis=0), parameters[rows]
    unit, median = unit_deviations(targets), median_heuristic(components[rows])

    def error(bandwidth: float) -> float:
        gram = _factor(components[rows], bandwidth, rank_for_joint_bandwidth)
        regression = RidgeRegression(np.hstack([of_curves, gram.features]), targets)
        return float(np.sum((regression.residuals / unit) ** 2))

    return min((scale * median for scale in joint_scales), key=error)


def _factor(
    components: np.ndarray,
    bandwidth: float,
    rank: int,
    *,
    # Where the factorisation ends, as that of a `KernelRegression`.
    tolerance: float = 1e-5,
) -> LowRankGram:
    """Centred features of a Gaussian kernel between rows of components."""
    solver = RandomlyPivotedCholesky(rank=min(rank, len(components)), tolerance=tolerance)
    gram = solver.gram(Gaussian(bandwidth), components, np.random.default_rng(0), 1.0)
    assert isinstance(gram, LowRankGram)
    # The ridge regression takes features of mean zero: the constant has no penalty.
    return gram.centred(np.full(len(components), 1 / len(components)), overwrite=True)


# --- estimates from curves of each statistic ---


@dataclass(frozen=True, eq=False)
class Curves:
    """Each statistic in its deviations, and Hermite polynomials of its normal scores."""

    # Shapes: quantiles (q, d); scores (q,).
    standardise: Scaler
    quantiles: np.ndarray
    scores: np.ndarray

    @classmethod
    def fit(
        cls,
        statistics: np.ndarray,
        *,
        # Quantiles of each statistic between which its normal scores are interpolated.
        knots: int = 199,
    ) -> Curves:
        """Of a table's statistics (n, d)."""
        standardise = Scaler.fit(statistics)
        levels = (np.arange(knots) + 0.5) / knots
        return cls(standardise, np.quantile(statistics[:, standardise.kept], levels, axis=0), ndtri(levels))

    def normal_scores(self, statistics: np.ndarray) -> np.ndarray:
        """Of rows of statistics (k, d), shape (k, q); beyond the table those of its ends."""
        kept = statistics[:, self.standardise.kept]
        columns = zip(kept.T, self.quantiles.T, strict=True)
        return np.column_stack([np.interp(x, of_x, self.scores) for x, of_x in columns])

    def transform(
        self,
        statistics: np.ndarray,
        *,
        # Degree of the polynomials of normal scores.
        hermite_degree: int = 3,
    ) -> np.ndarray:
        """Rows of statistics (k, d), and polynomials of their normal scores: (k, q (1 + degree))."""
        z = self.normal_scores(statistics)
        polynomials, before = [z], np.ones_like(z)
        for degree in range(1, hermite_degree):  # He_{k + 1}(z) = z He_k(z) - k He_{k - 1}(z)
            polynomials.append(z * polynomials[-1] - degree * before)
            before = polynomials[-2]
        return np.hstack([self.standardise.transform(statistics), *polynomials])


@dataclass(frozen=True, eq=False)
class CurvedPosteriorMean(Estimates):
    """One statistic a parameter: its best linear estimate from all statistics and curves of each."""

    # Shapes: fitted_on (n, d); left_out (n, p).
    # Powers of heavy-tailed data are those of a few rows: Hermite polynomials of normal scores are bounded.
    curves: Curves
    regression: LinearPosteriorMean
    fitted_on: np.ndarray
    left_out: np.ndarray

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> CurvedPosteriorMean:
        """Regress a table's parameters on curves of its statistics."""
        curves = Curves.fit(statistics)
        # Of constant curves: of constant statistics there was a warning.
        regression = LinearPosteriorMean.fit(curves.transform(statistics), parameters, warns=False)
        return cls(curves, regression, statistics, regression.left_out)

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.curves.standardise

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""
        return self.regression.transform(self.curves.transform(statistics))
