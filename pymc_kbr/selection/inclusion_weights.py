"""Weights of held-out rows that are not draws of the prior, however few of them are looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq


@dataclass(frozen=True, eq=False)
class InclusionWeights:
    """Weights of the first rows of a weighted order, which depend on how many these are.

    Parameters
    ----------
    ratio : ndarray of shape (n,)
        In that order.

    Notes
    -----
    ``weights[:k]`` are those of Horvitz and Thompson: the ratio over the probability of being among the first
    k, which is 1 - exp(-c ratio), with c such that k rows are expected there. Few rows have nearly equal
    weights; all rows have their ratios.
    """

    ratio: np.ndarray

    def __len__(self) -> int:
        """Number of all rows."""
        return len(self.ratio)

    def __getitem__(self, first: slice) -> np.ndarray:
        """Weights of mean one of the first rows, as many as a slice from the beginning has."""
        ratio = self.ratio[first]
        weights = ratio if len(ratio) == len(self.ratio) else ratio / self._reached(len(ratio))[first]
        return weights / weights.mean() if len(weights) else weights

    def _reached(self, count: int) -> np.ndarray:
        """Probabilities of being among the first `count` rows, of all."""
        if count == 0:
            return np.ones(len(self.ratio))
        unit = self.ratio / self.ratio.mean()

        def beyond(log_time: float) -> float:
            return float(np.sum(-np.expm1(-np.exp(log_time) * unit))) - count

        low = np.log(count / len(unit))  # 1 - exp(-x) is at most x
        high = low + 1.0
        while beyond(high) < 0:
            high += 1.0
        return -np.expm1(-np.exp(brentq(beyond, low, high)) * unit)
