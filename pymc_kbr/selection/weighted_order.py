"""Held-out rows that are not draws of the prior, in an order in which few of them stand for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq


def weighted_order(ratio: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Row numbers as they are drawn one after the other, each with a probability in proportion to its ratio.

    Parameters
    ----------
    ratio : ndarray of shape (n,)
        Positive: the prior's density over that of which the rows were drawn.
    rng : numpy.random.Generator

    Notes
    -----
    Each row waits for an exponential time of rate `ratio`, and the shortest times come first [1]_. In the
    rows' own order the first twenty may have the weight of two or three, where most were simulated near an
    observation and the prior is wide.

    References
    ----------
    .. [1] P. S. Efraimidis, P. G. Spirakis, Weighted random sampling with a reservoir, Information Processing
       Letters 97 (2006), 181-185.
    """
    return np.argsort(rng.exponential(size=len(ratio)) / ratio)


@dataclass(frozen=True, eq=False)
class FirstRows:
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
