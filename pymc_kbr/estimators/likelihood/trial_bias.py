"""How far posteriors of many trials are off: what the scores of the table's rows say of a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from scipy.spatial import KDTree

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.threads import parallel_map, row_parts
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.smooth_function import gaussian, inverse_lower, with_jitter


@dataclass(frozen=True, eq=False)
class TrialBias:
    """How far the posterior of r trials is expected to be off, in posterior deviations.

    Attributes
    ----------
    trials : int
        Their number, r.
    at : ndarray of shape (k, p)
        The parameters at which they are made.
    shift : ndarray of shape (q,)
        For each parameter that is inferred, how far its posterior mean lies above that of the exact
        posterior, as far as the scores show it.
    standard_error : ndarray of shape (q,)
        Of the shift: how well the scores show it, and the error of a likelihood that is learnt from a finite
        table, which they cannot show.
    expected : float
        Root of the mean of shift^2 + standard_error^2 over the parameters: the error to be expected.
    names : tuple of str or None
        Of the parameters that are inferred.
    """

    trials: int
    at: np.ndarray
    shift: np.ndarray
    standard_error: np.ndarray
    names: tuple[str, ...] | None = None

    @property
    def expected(self) -> float:
        """The error of a posterior mean to be expected, on average over the parameters."""
        return float(np.sqrt(np.mean(self.shift**2 + self.standard_error**2)))

    @property
    def worst(self) -> str:
        """The parameter of which most is expected."""
        worst = int(np.argmax(self.shift**2 + self.standard_error**2))
        return f"parameter {worst}" if self.names is None else repr(self.names[worst])

    def __repr__(self) -> str:
        names = self.names or tuple(map(str, range(len(self.shift))))
        each = ", ".join(
            f"{name} {shift:+.2f} +/- {error:.2f}"
            for name, shift, error in zip(names, self.shift, self.standard_error, strict=True)
        )
        return f"TrialBias({self.trials} trials: {self.expected:.2f} posterior deviations expected; {each})"


# --- scores ---


def scores(
    evaluation: Evaluation,
    inputs: np.ndarray,
    statistics: np.ndarray,
    columns: np.ndarray,
    *,
    # Of a parameter's deviation: both rounding and the cubic term leave eight digits.
    step_share: float = 1e-4,
) -> np.ndarray:
    """Derivatives (n, q) of the log density of each row by some of its own inputs, by central differences."""
    # Shapes: inputs (n, p); statistics (n, d); columns (q,).
    # Rows are those of simulations that succeeded: how probable these are is no part of their density.
    alone = replace(evaluation, success=None)
    steps = step_share * unit_deviations(inputs)

    def of_part(rows: slice) -> np.ndarray:
        prepared, found = alone.prepare(statistics[rows]), []
        for column in columns:
            step = np.zeros(inputs.shape[1])
            step[column] = steps[column]
            up, down = (
                alone.log_density(alone.describe(inputs[rows] + sign * step), prepared) for sign in (1, -1)
            )
            with np.errstate(invalid="ignore"):  # beyond an edge there is no density
                found.append((up - down) / (2 * steps[column]))
        return np.column_stack(found)

    parts = row_parts(len(inputs), 2_000)
    with parallel_map(len(parts)) as map_:
        return np.concatenate(map_(of_part, parts))


# --- the regression of scores on parameters ---


class Regression(NamedTuple):
    """A Gaussian process of targets (n, q) at points (n, p), its size and bandwidth the likeliest."""

    # Shapes: landmarks (m, p); scales (p,); into (m, m); right (m, q); precisions (m,).
    landmarks: np.ndarray
    scales: np.ndarray
    into: np.ndarray
    right: np.ndarray
    precisions: np.ndarray

    @classmethod
    def of(
        cls,
        points: np.ndarray,
        targets: np.ndarray,
        noise: float,
        *,
        # Of a bias, in the parameters' deviations times the root of their number.
        bandwidths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0),
        # Prior variances, over that of one trial's score: the smallest is seen in 100,000 trials.
        levels: tuple[float, ...] = tuple(10.0**k for k in np.arange(-5, 1.6, 0.5)),
        most_landmarks: int = 100,
    ) -> Self:
        """With this variance of the noise of every target."""
        p, q = points.shape[1], targets.shape[1]
        landmarks = points[np.linspace(0, len(points) - 1, min(most_landmarks, len(points))).astype(int)]
        found, best = None, -np.inf
        for bandwidth in bandwidths:
            scales = np.full(p, 1 / (bandwidth * np.sqrt(p)))
            unwhiten = inverse_lower(np.linalg.cholesky(with_jitter(gaussian(landmarks, landmarks, scales))))
            features = gaussian(points, landmarks, scales) @ unwhiten.T
            values, vectors = np.linalg.eigh(features.T @ features / noise)
            right = vectors.T @ (features.T @ targets) / noise
            for level in levels:
                precisions = np.maximum(values, 0) + 1 / level
                evidence = np.sum(right**2 / precisions[:, None]) - q * np.sum(np.log(precisions * level))
                if evidence > best:
                    best = evidence
                    found = cls(landmarks, scales, unwhiten.T @ vectors, right, precisions)
        assert found is not None
        return found

    def __call__(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means (k, q) and the variance (k,) that each of them has."""
        features = gaussian(points, self.landmarks, self.scales) @ self.into
        return features @ (self.right / self.precisions[:, None]), features**2 @ (1 / self.precisions)


# --- the check ---


@dataclass(frozen=True, eq=False, repr=False)
class ScoreCheck:
    """What scores of the table's rows, under the fit and under fits to parts of it, say of many trials."""

    # Scores of the right density have mean zero at every t: regressed on t, I^-1/2 s says what the form
    # cannot follow. The mean difference d(t) from a fit to n' of n rows is an error of estimation: that of
    # the fit to all has, on average, d d' times n' / (n - n').

    # Shapes: centre, unit (p,); prior (q, q); anchors (m, p); roots, products, rests (m, q, q).
    centre: np.ndarray
    unit: np.ndarray
    prior: np.ndarray
    bias: Regression
    anchors: np.ndarray
    roots: np.ndarray
    products: np.ndarray
    rests: np.ndarray

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        parts: Sequence[tuple[Evaluation, np.ndarray, float]],
        inputs: np.ndarray,
        statistics: np.ndarray,
        columns: np.ndarray,
        *,
        # With 200 trials a shift of 0.15 deviations is then as large as its error.
        most_rows: int = 10_000,
        # Rows at which the information is known; elsewhere it is that of the nearest one.
        most_anchors: int = 500,
    ) -> Self:
        """Of rows in random order, and of fits to parts: which rows each has not seen, and n' / (n - n')."""
        some = slice(most_rows)
        inputs, statistics = inputs[some], statistics[some]
        own = scores(evaluation, inputs, statistics, columns)
        # Next to an edge a difference is infinite.
        finite = np.flatnonzero(np.all(np.isfinite(own), axis=1))
        inputs, statistics, own = inputs[finite], statistics[finite], own[finite]
        centre, unit = inputs.mean(axis=0), unit_deviations(inputs)
        points = (inputs - centre) / unit
        anchors = points[:most_anchors]
        of_rows = KDTree(anchors).query(points)[1]
        values, vectors = np.linalg.eigh(_averages(anchors, points, own))
        # Along a direction on which no statistic depends there is no information.
        lengths = np.sqrt(np.maximum(values, 1e-12 * values[:, -1:] + 1e-300))[:, None, :]
        back = np.swapaxes(vectors, 1, 2)
        roots, inverses = (vectors * lengths) @ back, (vectors / lengths) @ back

        def whitened(rows: np.ndarray | slice, values: np.ndarray) -> np.ndarray:
            return np.einsum("nij,nj->ni", inverses[of_rows[rows]], values)

        bias = Regression.of(points, whitened(slice(None), own), 1.0)
        products, rests = np.zeros((2, *roots.shape))
        for part, unseen, share in parts:
            rows = np.flatnonzero(unseen[some][finite])
            apart = scores(part, inputs[rows], statistics[rows], columns) - own[rows]
            there = np.all(np.isfinite(apart), axis=1)
            rows, apart = rows[there], whitened(rows[there], apart[there])
            # A row of which a part makes more than a score's own deviation is one that it has no idea of, and
            # would stand for all.
            apart /= np.maximum(1.0, np.linalg.norm(apart, axis=1, keepdims=True))
            smooth, _ = Regression.of(points[rows], apart, float(np.mean(apart**2)) or 1.0)(points[rows])
            for sums, each in ((products, smooth), (rests, apart - smooth)):
                sums += share / len(parts) * _averages(anchors, points[rows], each)
        prior = np.linalg.pinv(np.atleast_2d(np.cov(inputs[:, columns], rowvar=False)))
        return cls(centre, unit, prior, bias, anchors, roots, products, rests)

    def __call__(self, trials: int, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Shifts and their standard errors (q,), in posterior deviations, of trials at parameters (k, p)."""
        points = (at - self.centre) / self.unit
        nearest = KDTree(self.anchors).query(points)[1]
        roots, products, rests = (each[nearest] for each in (self.roots, self.products, self.rests))
        mean, variance = self.bias(points)
        products = products + variance[:, None, None] * np.eye(roots.shape[1])
        # Errors at several parameters are taken for the same: their function is smooth.
        score = trials * np.einsum("kij,kj->ki", roots, mean).mean(axis=0)
        spread = np.mean(roots @ (trials**2 * products + trials * rests) @ roots, axis=0)
        # Where trials say little of a parameter the posterior is as wide as the prior.
        inverse = np.linalg.inv(trials * np.mean(roots @ roots, axis=0) + self.prior)
        deviations = np.sqrt(np.diag(inverse))
        errors = np.sqrt(np.maximum(np.diag(inverse @ spread @ inverse), 0))
        return inverse @ score / deviations, errors / deviations


def _averages(anchors: np.ndarray, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Mean products (m, q, q) of values (n, q) at points (n, p) near each anchor (m, p)."""
    # As many points as a local average takes at best: C. J. Stone, Annals of Statistics 10 (1982).
    n, p = points.shape
    count = max(min(n, 10 * p), int(n ** (4 / (4 + p))))
    near = KDTree(points).query(anchors, k=count)[1].reshape(len(anchors), count)
    return np.stack([values[rows].T @ values[rows] / count for rows in near])
