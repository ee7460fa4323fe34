"""A table's rows as arrays, checked once: whoever is given `CheckedRows` trusts them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from pymc_kbr.arrays.rows import as_pairs, as_rows, check_finite, check_range, check_shapes
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Support, support_of


@dataclass(frozen=True, eq=False)
class CheckedRows:
    """Simulations as finite numbers, with the prior's support and the weight of each row."""

    # Shapes: parameters, statistics (n, p), (n, d); ratio (n,); lowest (d,), of rows that will be read.
    parameters: np.ndarray
    statistics: np.ndarray
    support: Support
    ratio: np.ndarray | None
    carrying: np.ndarray
    success: Any = None
    names: Any = None
    lowest: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        parameters: Any,
        statistics: Any,
        support: Support | None = None,
        ratio: Any = None,
        success: Any = None,
    ) -> CheckedRows:
        """Read what a user gave."""
        theta, x = as_pairs(parameters, statistics)
        check_shapes(theta, x)
        check_finite("parameters", theta)
        check_finite("statistics", x)
        check_range("the parameters", theta)
        return cls.trusted(theta, x, support_of(support, theta.shape[1]), ratio, success)

    @classmethod
    def trusted(
        cls,
        parameters: np.ndarray,
        statistics: np.ndarray,
        support: Support,
        ratio: Any = None,
        success: Any = None,
        names: Any = None,
    ) -> CheckedRows:
        """Of arrays that were checked before, as those of a `ReferenceTable`; the ratio is looked at."""
        if ratio is not None:
            ratio = as_rows("the density ratio", ratio)
        carrying = _rows_with_density(ratio, len(parameters))
        return cls(parameters, statistics, support, ratio, carrying, success, names)

    def __len__(self) -> int:
        return len(self.parameters)

    @cached_property
    def unit(self) -> np.ndarray:
        """Deviations (p,) of the parameters, one where they do not vary."""
        return unit_deviations(self.parameters)

    @property
    def effective_size(self) -> float:
        """How many rows of equal weight these are worth."""
        return float(len(self) if self.ratio is None else self.ratio.sum() ** 2 / np.sum(self.ratio**2))

    def reading(self, *others: np.ndarray | None) -> CheckedRows:
        """The same, where other rows (k, d) or (d,) of statistics are to be transformed, too."""
        seen = [self.statistics, *(np.atleast_2d(one) for one in others if one is not None)]
        lowest = np.min([one.min(axis=0) for one in seen], axis=0)
        return replace(self, lowest=lowest if self.lowest is None else np.minimum(lowest, self.lowest))

    def some(self, rows: np.ndarray) -> CheckedRows:
        """Some of them, by numbers of rows that carry weight."""
        theta, x = self.parameters[rows], self.statistics[rows]
        theta.flags.writeable = x.flags.writeable = False  # nobody has to copy what nobody can change
        ratio = None if self.ratio is None else self.ratio[rows]
        numbers = np.arange(len(rows))
        return CheckedRows(theta, x, self.support, ratio, numbers, self.success, self.names, self.lowest)


def _rows_with_density(ratio: np.ndarray | None, n: int) -> np.ndarray:
    """The rows to which another prior gives density, of n."""
    if ratio is None:
        return np.arange(n)
    if ratio.shape != (n,):
        raise ValueError(f"the density ratio has shape {ratio.shape}; there are {n} rows, one ratio for each")
    bad = np.flatnonzero(~(ratio >= 0) | np.isinf(ratio))
    if len(bad):
        raise ValueError(
            f"the density ratio is negative, NaN or infinite in {len(bad)} row(s), the first of them "
            f"row {bad[0]}; it must be a density over a positive density"
        )
    rows = np.flatnonzero(ratio > 0)
    if len(rows) < 2:
        raise ValueError(
            f"the other prior has density at {len(rows)} of the table's {n} rows; an estimator needs at "
            "least two: simulate a table from this prior"
        )
    return rows
