"""Of many statistics those that say something of the parameters, each by the curve that suits it."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    curved : Transformed
        Of rows of all, in which those that are left out have no part, as if they did not vary.
    """

    kept: np.ndarray
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
        fitted = kept.copy()
        fitted[kept] = depend_on(statistics[:, kept], parameters)
        if not fitted.any():
            raise ValueError(
                f"none of the {len(kept)} statistics is found to depend on a parameter: by this table they "
                "say nothing of them; simulate more rows, or take scale=True, which leaves none out"
            )
        return cls(kept, _curves(fitted, statistics, parameters))

    def of_rows(self, statistics: np.ndarray, parameters: np.ndarray) -> Dependent:
        """The same statistics, by curves that are chosen on other rows (n, d), with parameters (n, p)."""
        return Dependent(Scaler.fit(statistics).kept, _curves(self.fitted, statistics, parameters))

    @property
    def fitted(self) -> np.ndarray:
        """Which statistics are not left out, shape (d,)."""
        return self.curved.kept

    @property
    def columns(self) -> np.ndarray:
        """Numbers of those, shape (m,)."""
        return np.flatnonzero(self.fitted)

    @property
    def size(self) -> int:
        """Number of statistics, d, with those that are left out."""
        return len(self.kept)

    def of_columns(self, columns: np.ndarray) -> Dependent:
        """The same for some of the statistics, by their numbers."""
        return Dependent(self.kept[columns], self.curved.of_columns(columns))

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) as coordinates (k, m): see `Transformed`."""
        return self.curved.transform(statistics)


def _curves(fitted: np.ndarray, statistics: np.ndarray, parameters: np.ndarray) -> Transformed:
    """Of the statistics that are not left out, by their places among all."""
    found, kept = Transformed.fit(statistics[:, fitted], parameters), fitted.copy()
    kept[fitted] = found.kept
    return replace(found, kept=kept, constants=statistics[0].astype(float))
