"""Of many statistics those that say something of the parameters, each by the curve that suits it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from pymc_kbr.arrays.dependence import depend_on
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries.transformed import Transformed


@dataclass(frozen=True, eq=False)
class Dependent:
    """Leaves out the statistics that the table shows to be independent of the parameters.

    Parameters
    ----------
    kept : ndarray of bool, shape (d,)
        Statistics that vary.
    columns : ndarray of int, shape (m,)
        Numbers of those that are not left out.
    curved : Transformed
        Of these alone.
    """

    kept: np.ndarray
    columns: np.ndarray
    curved: Transformed

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> Self:
        """Test each statistic of a table's rows (n, d), with parameters (n, p): see `depend_on`.

        Raises
        ------
        ValueError
            If none depends on a parameter.
        """
        kept = Scaler.fit(statistics).kept
        columns = np.flatnonzero(kept)[depend_on(statistics[:, kept], parameters)]
        if not len(columns):
            raise ValueError(
                f"none of the {len(kept)} statistics is found to depend on a parameter: by this table they "
                "say nothing of them; simulate more rows, or take scale=True, which leaves none out"
            )
        return cls(kept, columns, Transformed.fit(statistics[:, columns], parameters))

    @property
    def fitted(self) -> np.ndarray:
        """Which statistics are not left out, shape (d,)."""
        return np.isin(np.arange(len(self.kept)), self.columns)

    @property
    def size(self) -> int:
        """Number of statistics, d, with those that are left out."""
        return len(self.kept)

    def of_columns(self, columns: np.ndarray) -> Dependent:
        """The same for some of the statistics, by their numbers."""
        left = np.flatnonzero(np.isin(columns, self.columns))
        places = np.searchsorted(self.columns, columns[left])
        return Dependent(self.kept[columns], left, self.curved.of_columns(places))

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) as coordinates (k, m): see `Transformed`."""
        return self.curved.transform(statistics[:, self.columns])
