"""How fast the empirical embedding changes at its own points: the Jacobian of the change of variables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

FAR_SUM = 1e-60
"""Sum of a point's kernel values with all others below which they are formed over again, by their ratios."""

FLAT_DERIVATIVE = 1e3 * np.finfo(float).eps
"""Of the sum of the summands' sizes: a derivative below that is what rounding leaves of zero."""


class FlatEmbedding(ValueError):
    """The gradient is zero at a point, and the marginal likelihood with it."""


class Volume(NamedTuple):
    """The empirical embedding (n,) at its points, the sum of log gamma, and what its gradient is made of.

    Beside `slopes` (D,) the gradient has sum_i<j k_ij (left_i . right_j + left_j . right_i) |i - j|_q^2.
    """

    embedding: np.ndarray
    log: float
    slopes: np.ndarray
    left: np.ndarray
    right: np.ndarray


class Jacobian:
    """gamma_i = |gradient of the empirical embedding| at its points, for a Gaussian kernel.

    Parameters
    ----------
    points : ndarray of shape (n, D)

    Notes
    -----
    Eq. 16 and 17 of Flaxman et al. 2016, with one lengthscale a dimension: the derivative in dimension d at
    x_i is a_id / (n l_d), with a_id = sum_j k_ij (x_jd - x_id) / l_d. Only pairs that are apart count.
    """

    def __init__(self, points: np.ndarray) -> None:
        _, self._group, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
        self._group = self._group.reshape(-1)  # NumPy 2.0 gives a column
        self._alike = counts[self._group]

    def __call__(self, kernel: np.ndarray, scaled: np.ndarray, lengthscale: np.ndarray) -> Volume:
        """The volume at points over their lengthscales (n, D); overwrites their Gram matrix (n, n)."""
        return self.of_rows(np.arange(len(scaled)), kernel, scaled, lengthscale)

    def of_rows(
        self, rows: np.ndarray, kernel: np.ndarray, scaled: np.ndarray, lengthscale: np.ndarray
    ) -> Volume:
        """The same of some points alone, whose numbers are `rows` (b,), from their rows (b, n) of it."""
        n = len(scaled)
        self._take_out_coincident(rows, kernel)
        # Both sums over j of k_ij (x_j - x_i) by one product.
        sums = kernel @ np.hstack([scaled, np.ones((n, 1))])
        total = sums[:, -1]
        embedding = (total + self._alike[rows]) / n
        towards = sums[:, :-1] - scaled[rows] * total[:, None]
        logs = np.zeros(len(rows))
        far = np.flatnonzero(total < FAR_SUM)
        of_far = [self._by_ratios(int(rows[i]), scaled) for i in far]
        for i, (weights, exponent) in zip(far, of_far, strict=True):
            towards[i], total[i], logs[i] = weights @ (scaled - scaled[rows[i]]), weights.sum(), -exponent
        size = np.sqrt(np.sum((towards / lengthscale) ** 2, axis=1))
        summands = total * np.max(np.abs(scaled).max(axis=0) / lengthscale)
        _refuse_flat(rows[~(size > FLAT_DERIVATIVE * summands)], n)
        pull = towards / (lengthscale * size[:, None]) ** 2
        slopes = -2 * np.sum((towards / (lengthscale * size[:, None])) ** 2, axis=0)
        for i, (weights, _) in zip(far, of_far, strict=True):
            apart = scaled - scaled[rows[i]]
            slopes += (weights * (apart @ pull[i])) @ apart**2
        # Their pairs were summed just now, by ratios: not once more through `left` and `right`.
        pull[far] = 0.0
        left = np.hstack([pull, -np.einsum("ij,ij->i", pull, scaled[rows])[:, None]])
        right = np.hstack([scaled, np.ones((n, 1))])
        return Volume(embedding, float(np.sum(logs + np.log(size / n))), slopes, left, right)

    def _take_out_coincident(self, rows: np.ndarray, kernel: np.ndarray) -> None:
        """Set the kernel of pairs that coincide to zero, which else rounding would put in the place of it."""
        kernel[np.arange(len(rows)), rows] = 0.0
        for i in np.flatnonzero(self._alike[rows] > 1):
            kernel[i, self._group == self._group[rows[i]]] = 0.0

    def _by_ratios(self, i: int, scaled: np.ndarray) -> tuple[np.ndarray, float]:
        """Kernel values of row i with the others over the largest of them, and minus that one's logarithm."""
        exponents = 0.5 * np.sum((scaled - scaled[i]) ** 2, axis=1)
        exponents[self._group == self._group[i]] = np.inf
        nearest = float(np.min(exponents))
        return np.exp(nearest - exponents), nearest


def _refuse_flat(rows: np.ndarray, n: int) -> None:
    if len(rows):
        raise FlatEmbedding(
            f"the empirical embedding is flat at {len(rows)} of {n} rows, the first of them row {rows[0]}: "
            "the others lie symmetrically about it, and the marginal likelihood is zero; give points "
            "that are not on a symmetric grid, or take bandwidth='median'"
        )
