"""Simulations that are no rows of a table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Failures:
    """The simulations that gave no usable statistics.

    Parameters
    ----------
    rows : ndarray of shape (f,)
        Number of the draw that failed, counted from 0 over all draws asked for.
    parameters : ndarray of shape (f, p)
        The parameters of these draws.
    messages : tuple of str, length f
        What went wrong.
    """

    rows: np.ndarray
    parameters: np.ndarray
    messages: tuple[str, ...]

    @classmethod
    def none(cls, size: int) -> Failures:
        """No failures, of draws with `size` parameters."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, size)), ())

    def __len__(self) -> int:
        return len(self.rows)
