"""What summaries share: the columns that they read, and the table's own rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np


class StatisticColumns(Protocol):
    """What knows the columns of the statistics that a summary reads."""

    @property
    def size(self) -> int:
        """Number of statistics, d."""

    @property
    def kept(self) -> np.ndarray:
        """Columns that vary, shape (d,)."""


class ByColumns:
    """A summary that reads statistics through its `scaler`."""

    scaler: StatisticColumns

    @property
    def columns(self) -> StatisticColumns:
        """What reads the statistics first."""
        return self.scaler

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return self.columns.size

    @property
    def kept(self) -> np.ndarray:
        """Columns that vary."""
        return self.columns.kept


class Estimates(ByColumns, ABC):
    """A summary that estimates the parameters by a regression, which has seen those of the table's rows."""

    fitted_on: np.ndarray
    left_out: np.ndarray

    @abstractmethod
    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Scaled estimates of the parameters given rows of statistics (k, d), shape (k, p)."""

    def coordinates(self, statistics: np.ndarray) -> np.ndarray:
        """As `transform`; `left_out` of the very rows that the regression was fitted on."""
        # By value, as rows are copied on the way.
        return self.left_out if np.array_equal(statistics, self.fitted_on) else self.transform(statistics)
