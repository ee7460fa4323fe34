"""Some of the sorted draws of one law, the others missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betainc, gammaln

from pymc_kbr.estimators.likelihood.elements import measured
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable
from pymc_kbr.estimators.likelihood.mixture_functions import distribution, log_densities, parts_of_numbers

LEAST_BETWEEN = 1e-300
"""Of a law between two of its draws, of which a logarithm is taken."""


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """The density of some of e sorted draws, by their places among all.

    Parameters
    ----------
    whole : Exchangeable
        Of e sorted draws.
    kept : ndarray of int, shape (m,)
        Places of those that are left, ascending.

    Notes
    -----
    Of draws between two that are known it is known that they lie there: for each such gap of g draws a factor
    (F(upper) - F(lower))^g / g!, with F zero below the first and one above the last. See H. David and
    H. Nagaraja, Order statistics (2003), equation 2.2.2.
    """

    whole: Exchangeable
    kept: np.ndarray

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """As of the whole form."""
        return self.whole.describe(theta, xp)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points (k, r, m) or (1, r, m): see `Form`.

        Raises
        ------
        NotImplementedError
            With arrays of PyTensor: gaps are in observations that are conditioned on here.
        """
        if xp is not np:
            raise NotImplementedError("missing draws are integrated out with NumPy alone")
        k, r, m = len(described), points.shape[1], len(self.kept)
        flat = np.broadcast_to(points, (k, r, m)).reshape(k, r * m)
        values, slopes = measured(flat, described[:, :1], described[:, 1:2], self.whole.units)
        parts = parts_of_numbers(described[:, 2:], self.whole.parts)
        each = (log_densities(parts, values) + slopes).reshape(k, r, m)
        below = distribution(parts, values).reshape(k, r, m)
        shares = np.diff(below, axis=2, prepend=0.0, append=1.0)
        gaps = self._gaps()
        between = np.sum(gaps * np.log(np.maximum(shares, LEAST_BETWEEN)), axis=2)
        orders = gammaln(self.whole.size + 1) - gammaln(gaps + 1).sum()
        return each.sum(axis=2) + between + orders

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, m) for each of k parameters."""
        return self.whole.draw(described, rng)[:, self.kept]

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Each given those before it, (k, m): see `Form`."""
        values, _ = measured(points, described[:, :1], described[:, 1:2], self.whole.units)
        below = distribution(parts_of_numbers(described[:, 2:], self.whole.parts), values)
        before = np.concatenate([np.zeros((len(below), 1)), below[:, :-1]], axis=1)
        share = np.clip((below - before) / np.maximum(1 - before, LEAST_BETWEEN), 0.0, 1.0)
        # The b-th smallest of the n draws that are left has a beta law of b and n + 1 - b.
        ahead = np.diff(self.kept, prepend=-1)
        return betainc(ahead, self.whole.size - self.kept, share)

    def check(self, points: np.ndarray) -> None:
        """Refuse observations (k, m) that no row is like: see `Exchangeable.check`."""
        self.whole.check(points)

    def _gaps(self) -> np.ndarray:
        """Numbers of draws missing before each that is kept, and after the last, (m + 1,)."""
        return np.diff(self.kept, prepend=-1, append=self.whole.size) - 1
