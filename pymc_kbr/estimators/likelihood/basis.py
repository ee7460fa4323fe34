"""Functions of the parameters, orthonormal over the rows: constant, linear, and kernels at landmarks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import skew

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import parallel_map, product, product_over_rows, row_parts
from pymc_kbr.estimators.likelihood.smooth_function import independent


def fixed_bounds(support: Support) -> Iterator[tuple[int, float, float]]:
    """Columns of parameters whose bounds are numbers, and these."""
    for block in support.blocks:
        if len(block.steps) != 1 or not isinstance(step := block.steps[0], Interval):
            continue
        if step.lower_slopes is None and step.upper_slopes is None:
            yield from zip(block.columns, step.lower, step.upper, strict=True)


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Gaussian kernels at some points, each with a bandwidth of its own along each parameter."""

    # Shapes: centres (l, q); precisions (l, q); directions (q, q).
    centres: np.ndarray
    precisions: np.ndarray
    directions: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.centres)

    def independent(
        self,
        *,
        # Of a variance of one, given the others: below it functions are lost to rounding.
        negligible: float = 1e-10,
    ) -> Landmarks:
        """Those that determine all others."""
        chosen, _ = independent(self._kernel(self.centres, np), negligible=negligible)
        return Landmarks(self.centres[chosen], self.precisions[chosen], self.directions)

    def moved(self, points: np.ndarray) -> Landmarks:
        """The same kernel, equal at all its landmarks, at points (m, q)."""
        turned = points if self.directions is None else points @ self.directions
        return Landmarks(turned, np.broadcast_to(self.precisions[0], turned.shape).copy(), self.directions)

    def kernel(self, theta: Any, xp: Any = np) -> Any:
        """Kernels at parameters (k, q), shape (k, l)."""
        if self.directions is not None:
            theta = xp.dot(theta, self.directions)
        return self._kernel(theta, xp)

    def _kernel(self, theta: Any, xp: Any) -> Any:
        norms = np.sum(self.precisions * self.centres**2, axis=1)
        if xp is np:
            # One product of matrices is the whole exponent: passes over a large array cost more than it.
            left = np.column_stack([theta, theta**2, np.ones(len(theta))])
            right = np.column_stack([self.precisions * self.centres, -0.5 * self.precisions, -0.5 * norms])
            exponent = left @ right.T
            np.minimum(exponent, 0.0, out=exponent)
            return np.exp(exponent, out=exponent)
        crossed = xp.dot(theta, (-2 * self.precisions * self.centres).T)
        squared = xp.dot(theta**2, self.precisions.T) + crossed + norms
        return xp.exp(-0.5 * xp.maximum(squared, 0.0))

    def slopes(self, theta: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
        """Derivatives (k, e, q) at parameters (k, q), by coefficients (1 + q + l, e)."""
        q = theta.shape[1]
        turned = theta if self.directions is None else theta @ self.directions
        kernel = self._kernel(turned, np)
        weighted = np.einsum("le,lq->leq", coefficients[1 + q :], self.precisions)
        slopes = np.tensordot(kernel, weighted * self.centres[:, None, :], axes=1)
        slopes -= np.tensordot(kernel, weighted, axes=1) * turned[:, None, :]
        if self.directions is not None:
            slopes = slopes @ self.directions.T
        return slopes + coefficients[1 : 1 + q].T

    def combined(self, theta: Any, coefficients: np.ndarray, xp: Any = np) -> Any:
        """Combinations (k, e) of one, parameters (k, q) and kernels, by coefficients (1 + q + l, e)."""
        q = self.centres.shape[1]
        linear = xp.dot(theta, coefficients[1 : 1 + q]) + coefficients[0]
        return linear + xp.dot(self.kernel(theta, xp), coefficients[1 + q :])


@dataclass(frozen=True, eq=False)
class Basis:
    """Combinations of raw functions whose mean squares over the rows are one, and products zero."""

    # Shapes: mix (1 + q + l, f); penalties (f,).
    landmarks: Landmarks
    mix: np.ndarray
    penalties: np.ndarray

    def __call__(self, theta: np.ndarray) -> np.ndarray:
        """Values at parameters (k, q), shape (k, f)."""
        return self.landmarks.combined(theta, self.mix)


def make_basis(
    theta: np.ndarray,
    groups: Sequence[Landmarks],
    weights: Sequence[float] | None = None,
    of_linear: float = 0.0,
) -> tuple[Basis, np.ndarray]:
    """The basis of some groups of landmarks, and its values at the rows."""
    # Where a function's norm is that of its coefficients, the covariance of the features is diagonalised:
    # ridge regression is then a division by 1 + lambda * penalty, for every lambda.
    # Shapes: theta (n, q).
    n, q = theta.shape
    groups = [group.independent() for group in groups]
    landmarks = Landmarks(
        np.vstack([group.centres for group in groups]),
        np.vstack([group.precisions for group in groups]),
        groups[0].directions,
    )
    linear = np.column_stack([np.ones(n), theta])
    into_linear = _constant_first(linear)
    flat = linear @ into_linear
    shares = [1.0] * len(groups) if weights is None else weights
    whiten = [_whitening(group) * np.sqrt(share) for group, share in zip(groups, shares, strict=True)]
    starts = np.cumsum([0, *[len(group) for group in groups]])
    places = [slice(a, b) for a, b in pairwise(starts)]
    parts = row_parts(n)

    def whitened(rows: slice) -> np.ndarray:
        kernel = landmarks.kernel(theta[rows])
        return np.hstack([kernel[:, place] @ w for place, w in zip(places, whiten, strict=True)])

    with parallel_map(len(parts)) as map_:
        features = np.concatenate(map_(whitened, parts))
        overlap = product_over_rows(flat, features, map_) / n
        # Kernels without their linear part, so that this is not penalised a second time by way of them.
        features -= flat @ overlap
        values, vectors = np.linalg.eigh(product_over_rows(features, features, map_) / n)
        kept = _resolved(values)
        root = vectors[:, kept] / np.sqrt(values[kept])
        whole = np.hstack([flat, product(features, root, map_)])
    mix = np.zeros((1 + q + len(landmarks), flat.shape[1] + int(kept.sum())))
    mix[: 1 + q, : flat.shape[1]] = into_linear
    mix[: 1 + q, flat.shape[1] :] = -into_linear @ (overlap @ root)
    rows = 0
    for place, w in zip(places, whiten, strict=True):
        mix[1 + q :][place, flat.shape[1] :] = w @ root[rows : rows + w.shape[1]]
        rows += w.shape[1]
    # A function of mean square one over the rows has the squared norm one over its eigenvalue.
    penalties = np.concatenate([[0.0], np.full(flat.shape[1] - 1, of_linear), 1 / values[kept]])
    return Basis(landmarks, mix, penalties), whole


def _resolved(values: np.ndarray, *, negligible: float = 1e-12) -> np.ndarray:
    """Which eigenvalues, in ascending order, are no rounding errors beside the largest."""
    return values > negligible * max(values[-1], 1e-300)


def _constant_first(linear: np.ndarray) -> np.ndarray:
    """A mix (1 + q, r) of a constant and others (n, 1 + q), the first the constant alone."""
    mean = linear.mean(axis=0)
    mix = _orthonormal(linear[:, 1:] - mean[1:])
    return np.block([[np.ones((1, 1)), -mean[1:] @ mix], [np.zeros((len(mix), 1)), mix]])


def _orthonormal(columns: np.ndarray) -> np.ndarray:
    """A mix (c, r) under which columns (n, c) are orthonormal over the rows; dependent ones are left out."""
    values, vectors = np.linalg.eigh(columns.T @ columns / len(columns))
    kept = _resolved(values)
    return vectors[:, kept] / np.sqrt(values[kept])


def _whitening(group: Landmarks) -> np.ndarray:
    """A mix (l, r) of a group's kernels under which coefficients have the norm of their function."""
    values, vectors = np.linalg.eigh(group._kernel(group.centres, np))
    kept = _resolved(values)
    return vectors[:, kept] / np.sqrt(values[kept])


# --- coordinates of the parameters ---


@dataclass(frozen=True, eq=False)
class ParameterScale:
    """Parameters in standard units: as they are, as logarithms of the distance to a bound, or as logits."""

    # Logarithms where these are less skewed.
    # Shapes: sign (p,), 0 as they are, 1 or -1 for logarithms above or below a bound, 2 for logits; bound,
    # centre, unit (p,); upper (p,), the second bound of logits.
    sign: np.ndarray
    bound: np.ndarray
    centre: np.ndarray
    unit: np.ndarray
    upper: np.ndarray | None = None

    @classmethod
    def fit(cls, parameters: np.ndarray, support: Support) -> ParameterScale:
        """Of a table's parameters (n, p)."""
        p = parameters.shape[1]
        sign, bound = np.zeros(p), np.zeros(p)
        for j, lower, upper in fixed_bounds(support):
            column, least = parameters[:, j], abs(skew(parameters[:, j]))
            for side, end in ((1, lower), (-1, upper)):
                if np.isfinite(end) and np.all(side * (column - end) > 0):
                    found = abs(skew(np.log(side * (column - end))))
                    if found < least:
                        sign[j], bound[j], least = side, end, found
        return cls(sign, bound, np.zeros(p), np.ones(p))._in_units(parameters)

    def _in_units(self, parameters: np.ndarray) -> ParameterScale:
        values = replace(self, centre=np.zeros_like(self.centre), unit=np.ones_like(self.unit))(parameters)
        return replace(self, centre=values.mean(axis=0), unit=unit_deviations(values))

    def with_logits(self, parameters: np.ndarray, columns: Sequence[int], ends: np.ndarray) -> ParameterScale:
        """Logits, between their ends (2, c), of some of the parameters (n, p)."""
        sign, bound, upper = self.sign.copy(), self.bound.copy(), np.ones_like(self.bound)
        sign[columns], bound[columns], upper[columns] = 2.0, *ends
        return replace(self, sign=sign, bound=bound, upper=upper)._in_units(parameters)

    def __call__(self, parameters: Any, xp: Any = np) -> Any:
        """Parameters (k, p) in these coordinates, shape (k, p)."""
        if not np.any(self.sign):
            return (parameters - self.centre) / self.unit
        # Kept off the bound, so that what is not chosen has a gradient too.
        distance = xp.maximum(np.where(self.sign < 0, -1.0, 1.0) * (parameters - self.bound), 1e-300)
        values = xp.where(self.sign == 0, parameters, xp.log(distance))
        if self.upper is not None:
            above = xp.log(xp.maximum(self.upper - parameters, 1e-300))
            values = xp.where(self.sign == 2, values - above, values)
        return (values - self.centre) / self.unit
