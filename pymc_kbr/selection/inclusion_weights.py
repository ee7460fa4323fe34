"""Weights of held-out rows that are not draws of the prior, however few of them are looked at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

LOG_TINY = -40.0
"""Of a rate that is its probability, to the last digit."""


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
        if not 0 < len(ratio) < len(self.ratio):
            return ratio / ratio.mean() if len(ratio) else ratio
        rates = self._log_rates(len(ratio))[first]
        # In logarithms: a ratio near zero and its probability may both be below all floats.
        log_weights = rates - _log_reached(rates)
        weights = np.exp(log_weights - log_weights.max())
        return weights / weights.mean()

    def _log_rates(self, count: int) -> np.ndarray:
        """Logarithms of c times the ratio, of all rows, with c such that `count` are expected to be first."""
        unit = np.log(self.ratio) - np.log(self.ratio.mean())

        def beyond(log_time: float) -> float:
            return float(np.exp(_log_reached(log_time + unit)).sum()) - count

        low = np.log(count / len(unit))  # 1 - exp(-x) is at most x
        high = low + 1.0
        while beyond(high) < 0:
            high += 1.0
        rates: np.ndarray = brentq(beyond, low, high) + unit
        return rates


def _log_reached(log_rates: np.ndarray) -> np.ndarray:
    """Logarithm of 1 - exp(-x), of log x."""
    # Where x is tiny both are alike, and where it is huge the probability is one.
    rates = np.exp(np.clip(log_rates, LOG_TINY, -LOG_TINY))
    reached: np.ndarray = np.where(log_rates < LOG_TINY, log_rates, np.log(-np.expm1(-rates)))
    return reached
