"""Whether statistics look like independent draws of one distribution, in any order or sorted."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

MOST_EQUAL = 0.001
"""Share of equal neighbours in sorted rows, and of numbers with one value: of a density there are none."""


class Atoms(NamedTuple):
    """Values with probabilities of their own, in ascending order, up to an error of rounding."""

    # Shapes: values (v,).
    values: np.ndarray
    rounding: float
    higher: bool = False
    """Whether the last one stands for all that are higher, as of counts."""

    @classmethod
    def of(
        cls,
        statistics: np.ndarray,
        *,
        # As many as `Transformed.levels` takes for a statistic of few values: of more, each has a fit.
        most_atoms: int = 5,
        # The same beside a density, where nothing else describes them.
        most_amid_density: int = 20,
        # As of one statistic: see `Cells.of`.
        rounding_share: float = 1000 * np.finfo(float).eps,
        tied_share: float = 0.05,
        # Of counts, whose probabilities are one function of the count: tables of so many fit in memory.
        most_counts: int = 1000,
    ) -> Atoms:
        """Of all numbers of rows (n, d); none where there are more, or what is left is discrete as well."""
        rounding = rounding_share * float(np.median(np.abs(statistics)))
        values, counts = np.unique(statistics, return_counts=True)
        last = np.append(np.diff(values) > rounding, True)
        values, counts = values[last], np.diff(np.cumsum(counts)[last], prepend=0)
        common = (counts > 1) & (counts > MOST_EQUAL * statistics.size)
        rest = counts[~common]
        tied = np.sum(rest[rest > 1]) > tied_share * rest.sum()
        if tied or np.sum(common) > most_atoms:
            lattice = _lattice(values, most_counts)
            if not (tied or len(lattice)) and np.sum(common) <= most_amid_density:
                return cls(values[common], rounding)
            if len(lattice) and np.mean(statistics > lattice[-1] + rounding) > MOST_EQUAL:
                lattice = lattice[:0]
            return cls(lattice, rounding, higher=True)
        return cls(values[common], rounding)

    def number(self, numbers: np.ndarray) -> np.ndarray:
        """The place of each one's value, of any shape; that after the last where it has a density."""
        if not len(self.values):
            return np.zeros(numbers.shape, dtype=int)
        nearest = np.searchsorted((self.values[1:] + self.values[:-1]) / 2, numbers)
        there = np.abs(numbers - self.values[nearest]) <= self.rounding
        if self.higher:
            there |= numbers > self.values[-1]
        return np.where(there, nearest, len(self.values))

    def hold(self, numbers: np.ndarray) -> np.ndarray:
        """Which of the numbers, of any shape, have one of these values."""
        return self.number(numbers) < len(self.values)

    def share_of_equal(self, ordered: np.ndarray) -> float:
        """The share of neighbours in sorted rows (n, d) that are equal, and have none of these values."""
        return float(np.mean((np.diff(ordered, axis=1) == 0) & ~self.hold(ordered)[:, 1:]))


def _lattice(
    values: np.ndarray,
    most: int,
    *,
    # Of a step: units are rounded.
    most_off: float = 1e-6,
) -> np.ndarray:
    """The lowest points, at most so many, of the lattice of distinct values (v,), if there is one."""
    step = float(np.diff(values).min()) if len(values) > 1 else 0.0
    if step == 0.0:
        return values[:0]
    places = np.rint((values - values[0]) / step)
    step = float(values[-1] - values[0]) / float(places[-1])
    if np.any(np.abs((values - values[0]) / step - places) > most_off):
        return values[:0]
    lattice = values[0] + step * np.arange(min(places[-1] + 1, most))
    there = places < most
    lattice[places[there].astype(int)] = values[there]
    return lattice


def seems_exchangeable(
    statistics: np.ndarray,
    parameters: np.ndarray,
    *,
    # Rows that are compared, at most.
    most_rows: int = 2000,
    # Unsorted columns that are compared, at most: of many more pairs one differs by chance.
    most_columns: int = 100,
    # Standard errors by which two statistics, or two pairs of them, differ.
    errors_between: float = 5.0,
    # Statistics: means and deviations of fewer say little.
    fewest: int = 8,
    fewest_rows: int = 200,
    # Of the numbers that have a density, where there are any.
    fewest_numbers: int = 200,
) -> bool:
    """Whether rows (n, d) may be sets of d draws with one distribution given parameters (n, q)."""
    # It may have a density, a few values with probabilities of their own, or both.
    n, d = statistics.shape
    if d < fewest or n < fewest_rows:
        return False
    looked = np.linspace(0, n - 1, min(n, most_rows)).astype(int)
    rows = statistics[looked]
    atoms = Atoms.of(rows)
    ordered = np.sort(rows, axis=1)
    discrete = atoms.hold(ordered)
    if atoms.share_of_equal(ordered) > MOST_EQUAL or 0 < np.sum(~discrete) < fewest_numbers:
        return False
    if np.array_equal(ordered, rows) and (atoms.higher or not discrete.all()):
        if atoms.higher:
            # Draws of counts, spread evenly up to the next one, are draws of a density.
            step = atoms.values[1] - atoms.values[0] if len(atoms.values) > 1 else 0.0
            ordered = np.sort(ordered + step * np.random.default_rng(20).random(ordered.shape), axis=1)
            discrete = np.zeros(ordered.shape, dtype=bool)
        return _spaced_as_draws(ordered, discrete)
    rows = rows[:, np.linspace(0, d - 1, min(d, most_columns)).astype(int)]
    # Of ranks, so that no tail decides; from each row's mean, as the parameters move all its values.
    ranks = rankdata(rows).reshape(rows.shape) / rows.size - 0.5
    away = ranks - ranks.mean(axis=1, keepdims=True)
    spread = away**2 - np.mean(away**2, axis=1, keepdims=True)
    if max(_errors(away), _errors(spread)) > errors_between:
        return False
    for level in (rankdata(parameters[looked], axis=0) / len(looked) - 0.5).T:
        if max(_errors(level[:, None] * away), _errors(level[:, None] * spread)) > errors_between:
            return False
    return max(_errors_of_pairs(away), _errors_of_pairs(spread)) < errors_between


def _spaced_as_draws(
    ordered: np.ndarray,
    discrete: np.ndarray,
    *,
    # Variance of sorted draws' spacings, over that of exponential spacings: that of draws is no less.
    least_uneven: float = 0.9,
) -> bool:
    """Whether neighbouring spacings of sorted rows (n, d) of a density are as uneven as those of draws."""
    spacings = np.diff(ordered, axis=1)
    both = spacings[:, 1:] + spacings[:, :-1]
    three = (both > 0) & ~(discrete[:, 2:] | discrete[:, 1:-1] | discrete[:, :-2])
    shares = spacings[:, :-1][three] / both[three]
    return len(shares) > 0 and float(np.mean((shares - 0.5) ** 2)) > least_uneven / 12


def _errors_of_pairs(columns: np.ndarray) -> float:
    """The largest difference of a covariance of two columns (n, d) from those of others, in its errors."""
    n, d = columns.shape
    pairs = np.triu_indices(d, 1)
    products = (columns.T @ columns / n)[pairs]
    variances = ((columns**2).T @ columns**2 / n)[pairs] - products**2
    return float(np.max(np.abs(products - products.mean()) / np.sqrt(variances / n)))


def _errors(columns: np.ndarray) -> float:
    """The largest mean of columns (n, d) in its standard errors."""
    errors = columns.std(axis=0) / np.sqrt(len(columns))
    return float(np.max(np.abs(columns.mean(axis=0)) / np.maximum(errors, 1e-300)))
