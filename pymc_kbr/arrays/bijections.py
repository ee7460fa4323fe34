"""Bijections between columns with constraints and columns without, as plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.special import expit, log_expit, logsumexp

from pymc_kbr.arrays.refusals import shown

LARGEST_BOUND = 1e100
"""Of an interval's finite ends: shares of a wider one have no digit left for values of usual size."""


class Step(Protocol):
    """One bijection of some columns; `parameters` holds every column that is already known."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray: ...
    def width(self, columns: int) -> int: ...


class OneToOne:
    """Of a step that makes as many free columns as there are columns."""

    def width(self, columns: int) -> int:
        """Number of free columns."""
        return columns


class OneFewer:
    """Of a step of columns whose sum is fixed: the last is known from the others."""

    def width(self, columns: int) -> int:
        """Number of free columns."""
        return columns - 1


@dataclass(frozen=True)
class Interval(OneToOne):
    """Each column between two bounds, either of which may be infinite or depend on other columns."""

    # Shapes: lower_slopes, upper_slopes (k, p).
    lower: tuple[float, ...]
    upper: tuple[float, ...]
    lower_slopes: tuple[tuple[float, ...], ...] | None = None
    upper_slopes: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        for end in (*self.lower, *self.upper):
            if np.isfinite(end) and abs(end) > LARGEST_BOUND:
                raise ValueError(
                    f"a bound is {end}; an end beyond {LARGEST_BOUND:g} leaves no digit of what lies "
                    "between: take an infinite one"
                )

    def bounds(self, parameters: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return (
            _affine(self.lower, self.lower_slopes, parameters),
            _affine(self.upper, self.upper_slopes, parameters),
        )

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        lower, upper = self.bounds(parameters)
        with np.errstate(divide="ignore"):
            # Beyond an end as at it: infinite, and no logarithm of a negative number.
            above = np.where(np.isfinite(lower), np.log(np.where(values > lower, values - lower, 0)), 0)
            below = np.where(np.isfinite(upper), np.log(np.where(values < upper, upper - values, 0)), 0)
        unbounded = np.isinf(lower) & np.isinf(upper)
        return np.where(unbounded, values, above - below)

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        lower, upper = self.bounds(parameters)
        both = np.isfinite(lower) & np.isfinite(upper)
        # An interval's share is taken from the nearer end, so that neither end loses digits.
        width = np.where(both, upper, 0) - np.where(both, lower, 0)
        share = width * expit(-np.abs(free))
        inside = np.where(free < 0, lower + share, upper - share)
        if np.all(both):
            return inside
        # Both are made everywhere and the wrong ones thrown away: infinite ends give infinities there.
        with np.errstate(over="ignore", invalid="ignore"):
            from_below = lower + np.exp(free)
            from_above = upper - np.exp(-free)
        return np.select(
            [both, np.isfinite(lower), np.isfinite(upper)], [inside, from_below, from_above], free
        )

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        lower, upper = self.bounds(parameters)
        return np.all((values >= lower) & (values <= upper), axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Log |d backward / d free|, shape (n,)."""
        lower, upper = self.bounds(parameters)
        with np.errstate(divide="ignore", invalid="ignore"):
            both = np.log(upper - lower) + log_expit(free) + log_expit(-free)
        finite = [np.isfinite(lower) & np.isfinite(upper), np.isfinite(lower), np.isfinite(upper)]
        return np.select(finite, [both, free, -free], 0.0).sum(axis=1)


@dataclass(frozen=True)
class Lattice(OneToOne):
    """One column of whole numbers, each of which represents the interval that is nearest to it."""

    runs: tuple[tuple[float, float], ...]
    spacing: float

    @classmethod
    def of(
        cls,
        column: np.ndarray,
        *,
        # A value expected in so many rows is in none of them once in fifty tables: exp(-4).
        rows_missed: float = 4.0,
    ) -> Lattice:
        """Of simulated whole numbers (n,), of which two or more differ."""
        values, counts = np.unique(column, return_counts=True)
        gaps = np.diff(values)
        spacing = float(np.gcd.reduce(gaps.astype(np.int64)))
        # So many that not one of all values is missed by chance.
        enough = rows_missed + np.log(len(values))
        holes = (gaps > spacing) & (np.minimum(counts[1:], counts[:-1]) > enough)
        first, last = values[np.r_[True, holes]], values[np.r_[holes, True]]
        return cls(tuple(zip(first.tolist(), last.tolist(), strict=True)), spacing)

    def ends(self) -> tuple[float, float]:
        """Where the first stretch begins and the last one ends."""
        outer = np.array([self.runs[0][0], self.runs[-1][1]])
        left, right = self.halves(outer)
        return float(outer[0] - left[0]), float(outer[1] + right[1])

    def halves(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """How far the stretch of each value, of any shape, goes to the left and to the right."""
        first, last = np.array(self.runs).T
        run = np.searchsorted(first, values, side="right") - 1
        # Beyond both ends as far as inwards.
        gap = np.r_[np.nan, first[1:] - last[:-1], np.nan]
        left = np.where(values > first[run], self.spacing, gap[run])
        right = np.where(values < last[run], self.spacing, gap[run + 1])
        left, right = np.where(np.isnan(left), right, left), np.where(np.isnan(right), left, right)
        return left / 2, right / 2

    def nearest(self, points: np.ndarray) -> np.ndarray:
        """The nearest value to each point of any shape, which is reflected where it is beyond an end."""
        low, high = self.ends()
        points = np.where(points < low, 2 * low - points, np.where(points > high, 2 * high - points, points))
        first, last = np.array(self.runs).T
        run = np.clip(np.searchsorted(first, points, side="right") - 1, 0, None)
        within = np.clip(points, first[run], last[run])
        below = first[run] + self.spacing * np.rint((within - first[run]) / self.spacing)
        above = first[np.minimum(run + 1, len(first) - 1)]
        return np.where(np.abs(above - points) < np.abs(points - below), above, below)

    def spread(self, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Values of any shape, each moved to a random place of its stretch."""
        left, right = self.halves(values)
        return values + rng.uniform(-left, right)

    def settled(
        self,
        points: np.ndarray,
        weights: np.ndarray,
        *,
        # So that the share is known to a millionth.
        halvings: int = 20,
    ) -> np.ndarray:
        """Points (m, 1) with weights (m,) of sum one, rounded so that their variance stays as it is."""
        mean = weights @ points

        def rounded(share: float) -> np.ndarray:
            return self.nearest(mean + share * (points - mean))

        def variance(values: np.ndarray) -> float:
            return float((weights @ (values - weights @ values) ** 2).sum())

        found, wanted = rounded(1.0), variance(points)
        if variance(found) <= wanted:
            return found
        less, more = 0.0, 1.0
        for _ in range(halvings):
            middle = (less + more) / 2
            less, more = (less, middle) if variance(rounded(middle)) > wanted else (middle, more)
        return min(rounded(less), rounded(more), key=lambda values: abs(variance(values) - wanted))

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return values

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return self.nearest(free)

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(self.nearest(values) == values, axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """From probabilities to densities: over the stretches' widths."""
        low, high = self.ends()
        left, right = self.halves(self.nearest(free))
        total = -np.log(left + right).sum(axis=1)
        return np.where(np.all((free >= low) & (free <= high), axis=1), total, -np.inf)


@dataclass(frozen=True)
class Ordered(OneToOne):
    """Columns that increase from the first to the last: the gaps are taken in logarithms."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.hstack([values[:, :1], np.log(np.diff(values, axis=1))])

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.cumsum(np.hstack([free[:, :1], np.exp(free[:, 1:])]), axis=1)

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(np.diff(values, axis=1) >= 0, axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return free[:, 1:].sum(axis=1)


@dataclass(frozen=True)
class Simplex(OneFewer):
    """k non-negative columns that sum to one, as k - 1 log ratios to the last of them."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        return logs[:, :-1] - logs[:, -1:]

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        logs = np.hstack([free, np.zeros((len(free), 1))])
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(values >= 0, axis=1) & (np.abs(values.sum(axis=1) - 1) < 1e-6)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Of the first k - 1 columns, which densities on the simplex are given in: the product of all k."""
        logs = np.hstack([free, np.zeros((len(free), 1))])
        return logs.sum(axis=1) - logs.shape[1] * logsumexp(logs, axis=1)


@dataclass(frozen=True)
class ZeroSum(OneFewer):
    """k columns that sum to zero, as the first k - 1 of them."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return values[:, :-1]

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.hstack([free, -free.sum(axis=1, keepdims=True)])

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.abs(values.sum(axis=1)) <= 1e-6 * (1 + np.abs(values).max(axis=1))

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Of the first k - 1 columns, which are as they were."""
        return np.zeros(len(free))


@dataclass(frozen=True)
class Circular(OneToOne):
    """Angles, wrapped into [-pi, pi]."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return values

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.arctan2(np.sin(free), np.cos(free))

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return np.all(np.abs(values) <= np.pi, axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """One turn of the circle represents all: minus infinity beyond it, or no density would integrate."""
        return np.where(np.all(np.abs(free) <= np.pi, axis=1), 0.0, -np.inf)


@dataclass(frozen=True)
class DrawnRange(Interval):
    """The range that some draws of a prior without a density have: nothing is made beyond it."""

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """The draws show where the prior ends, and further ones where it continues."""
        return np.ones(len(values), dtype=bool)


def _rows_of(partial: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors (n, k, k) of correlation matrices, from atanh of partial correlations (n, q)."""
    n = len(partial)
    factor, before = np.zeros((n, size, size)), np.zeros_like(partial)
    factor[:, 0, 0] = 1.0
    place = 0
    for i in range(1, size):
        left = np.zeros(n)  # half the logarithm of one less the squares so far
        for j in range(i):
            before[:, place] = left
            # One less the square of tanh is sech squared, with all its digits.
            factor[:, i, j] = np.tanh(partial[:, place]) * np.exp(left)
            left = left + _log_sech(partial[:, place])
            place += 1
        factor[:, i, i] = np.exp(left)
    return factor, before


def _partial_of(factor: np.ndarray) -> np.ndarray:
    """The inverse of `_rows_of`; infinite where there is none."""
    size, found = factor.shape[1], []
    for i in range(1, size):
        # What is left of a row is the length of its end: a difference to one would lose digits.
        ends = np.sqrt(np.cumsum(factor[:, i, i::-1] ** 2, axis=1))[:, ::-1]
        for j in range(i):
            with np.errstate(divide="ignore", invalid="ignore"):
                # atanh(a / sqrt(a^2 + b^2)) is asinh(a / b).
                found.append(np.arcsinh(factor[:, i, j] / ends[:, j + 1]))
    return np.column_stack(found)


def _log_sech(free: np.ndarray) -> np.ndarray:
    return np.log(2.0) - np.abs(free) - np.log1p(np.exp(-2 * np.abs(free)))


def _cholesky(matrices: np.ndarray) -> np.ndarray:
    """Lower factors (n, k, k), NaN where a matrix (n, k, k) is not positive definite."""
    try:
        return np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        found = np.full(matrices.shape, np.nan)
        for one, matrix in zip(found, matrices, strict=True):
            try:
                one[:] = np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                continue
        return found


def _size_of(entries: int, diagonal: bool) -> int:
    """The k of k (k - 1) / 2 entries, or of k (k + 1) / 2 with the diagonal."""
    size = int(np.sqrt(2 * entries))
    return size if diagonal else size + 1


@dataclass(frozen=True)
class Correlations(OneToOne):
    """Entries above the diagonal of a correlation matrix, row by row: partial correlations, by atanh."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        free = _partial_of(_cholesky(self._whole(values)))
        return np.where(np.isnan(free), np.inf, free)

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        size = _size_of(free.shape[1], diagonal=False)
        factor, _ = _rows_of(free, size)
        above = np.triu_indices(size, 1)
        return (factor @ np.swapaxes(factor, 1, 2))[:, above[0], above[1]]

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        # Singular to rounding, as a draw may be, is an edge.
        lowest = np.linalg.eigvalsh(self._whole(values))[:, 0]
        return lowest >= -1e-12

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        size = _size_of(free.shape[1], diagonal=False)
        factor, before = _rows_of(free, size)
        with np.errstate(divide="ignore"):
            diagonal = np.log(np.einsum("nii->ni", factor))
        # d correlations / d factor: in each row the factor's diagonal entries of the rows before it.
        of_factor = (diagonal * np.arange(size - 1, -1, -1)).sum(axis=1)
        return of_factor + (2 * _log_sech(free) + before).sum(axis=1)

    @staticmethod
    def _whole(values: np.ndarray) -> np.ndarray:
        size = _size_of(values.shape[1], diagonal=False)
        whole = np.zeros((len(values), size, size)) + np.eye(size)
        rows, columns = np.triu_indices(size, 1)
        whole[:, rows, columns] = whole[:, columns, rows] = values
        return whole


@dataclass(frozen=True)
class UnitRows:
    """Lower Cholesky factor of a correlation matrix, by rows from the second: atanh of partial ones."""

    def width(self, columns: int) -> int:
        """Number of free columns."""
        size = _size_of(columns + 1, diagonal=True)
        return size * (size - 1) // 2

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        return _partial_of(self._whole(values))

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        size = _size_of(free.shape[1], diagonal=False)
        factor, _ = _rows_of(free, size)
        below = np.tril_indices(size)
        return factor[:, below[0][1:], below[1][1:]]

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        whole = self._whole(values)
        unit = np.abs((whole**2).sum(axis=2) - 1).max(axis=1) < 1e-6
        return unit & (np.einsum("nii->ni", whole) >= 0).all(axis=1)

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Of the entries below the diagonal, which densities of the factor are given in."""
        _, before = _rows_of(free, _size_of(free.shape[1], diagonal=False))
        return (2 * _log_sech(free) + before).sum(axis=1)

    @staticmethod
    def _whole(values: np.ndarray) -> np.ndarray:
        size = _size_of(values.shape[1] + 1, diagonal=True)
        whole = np.zeros((len(values), size, size))
        whole[:, 0, 0] = 1.0
        rows, columns = np.tril_indices(size)
        whole[:, rows[1:], columns[1:]] = values
        return whole


@dataclass(frozen=True)
class Covariance(OneToOne):
    """Entries on and above the diagonal of a covariance matrix, row by row: its Cholesky factor."""

    def forward(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        factor = _cholesky(self._whole(values))
        size = factor.shape[1]
        with np.errstate(divide="ignore", invalid="ignore"):
            factor[:, range(size), range(size)] = np.log(np.einsum("nii->ni", factor))
        free = factor[:, *np.tril_indices(size)]
        return np.where(np.isnan(free), -np.inf, free)

    def backward(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        factor = self._factor(free)
        whole = factor @ np.swapaxes(factor, 1, 2)
        return whole[:, *np.triu_indices(factor.shape[1])]

    def contains(self, values: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        ends = np.linalg.eigvalsh(self._whole(values))
        return ends[:, 0] >= -1e-12 * np.abs(ends[:, -1])

    def log_jacobian(self, free: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        size = _size_of(free.shape[1], diagonal=True)
        rows, columns = np.tril_indices(size)
        # Two for each diagonal entry; its power is that of d covariance / d factor, and one of the logarithm.
        powers = np.arange(size, 0, -1) + 1.0
        return size * np.log(2.0) + free[:, rows == columns] @ powers

    @staticmethod
    def _factor(free: np.ndarray) -> np.ndarray:
        size = _size_of(free.shape[1], diagonal=True)
        factor = np.zeros((len(free), size, size))
        factor[:, *np.tril_indices(size)] = free
        factor[:, range(size), range(size)] = np.exp(np.einsum("nii->ni", factor))
        return factor

    @staticmethod
    def _whole(values: np.ndarray) -> np.ndarray:
        size = _size_of(values.shape[1], diagonal=True)
        whole = np.zeros((len(values), size, size))
        rows, columns = np.triu_indices(size)
        whole[:, rows, columns] = whole[:, columns, rows] = values
        return whole


KINDS: dict[str, Any] = {
    "interval": Interval,
    "lattice": Lattice,
    "ordered": Ordered,
    "simplex": Simplex,
    "zero_sum": ZeroSum,
    "circular": Circular,
    "drawn_range": DrawnRange,
    "correlations": Correlations,
    "unit_rows": UnitRows,
    "covariance": Covariance,
}


def _affine(
    constant: tuple[float, ...], slopes: tuple[tuple[float, ...], ...] | None, parameters: np.ndarray
) -> np.ndarray:
    base = np.asarray(constant)[None, :]
    return base if slopes is None else base + parameters @ np.asarray(slopes).T


def ends_of(name: str, bounds: Any) -> tuple[float, float]:
    """Both ends of a parameter's bounds, infinite where they are None."""
    try:
        a, b = bounds
        lower, upper = -np.inf if a is None else float(a), np.inf if b is None else float(b)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the bounds of {name!r} are {shown(bounds)}; give two numbers, (lower, upper), with None for "
            "an end that is open"
        ) from error
    if not lower < upper:
        raise ValueError(f"the bounds of {name!r} are ({a}, {b}); the lower one must be below the upper one")
    if any(np.isfinite(end) and abs(end) > LARGEST_BOUND for end in (lower, upper)):
        raise ValueError(
            f"the bounds of {name!r} are ({a}, {b}); an end beyond {LARGEST_BOUND:g} leaves no digit of what "
            "lies between: give None for an end that is open"
        )
    return lower, upper


def step_to_json(step: Step) -> dict[str, Any]:
    """A step as plain data: its kind and its fields, infinities as text."""
    kind = next(name for name, cls in KINDS.items() if cls is type(step))
    return {"kind": kind, **_to_text(dataclasses.asdict(step))}  # type: ignore[call-overload]


def step_from_json(document: Mapping[str, Any]) -> Step:
    """The inverse of `step_to_json`."""
    fields = {name: _from_text(value) for name, value in document.items() if name != "kind"}
    return KINDS[document["kind"]](**fields)


def _to_text(fields: Any) -> Any:
    if isinstance(fields, dict):
        return {name: _to_text(value) for name, value in fields.items()}
    if isinstance(fields, list | tuple):
        return [_to_text(value) for value in fields]
    # JSON has no infinities.
    return str(fields) if isinstance(fields, float) and np.isinf(fields) else fields


def _from_text(fields: Any) -> Any:
    if isinstance(fields, list):
        return tuple(_from_text(value) for value in fields)
    return float(fields) if isinstance(fields, str) else fields
