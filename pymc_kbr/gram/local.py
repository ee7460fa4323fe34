"""Small regressions side by side: one for each observation, on the rows nearest to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrs

from pymc_kbr.kernels import Gaussian, Kernel


@dataclass(frozen=True, eq=False)
class LocalRegressions:
    """(G + ridge I)^-1 k(x) on the m nearest rows of each of some observations."""

    kernel: Kernel
    ridge: float
    neighbours: int
    centred: bool
    # Of Gram matrices that are made at once: as many as stay in the cache.
    entries_at_once: int = 2**20

    @property
    def batch(self) -> int:
        """Observations to take at once."""
        return max(1, self.entries_at_once // self.neighbours**2)

    def raised(
        self,
        times: int,
        *,
        # As `raising` does.
        by: float = 10.0,
    ) -> float:
        """The ridge, or what it becomes when it is raised."""
        least = self.neighbours * float(np.finfo(float).eps)
        return self.ridge if times == 0 else max(self.ridge * by, least) * by ** (times - 1)

    def scratch(self) -> np.ndarray:
        """Memory for a batch's Gram matrices: used again, since new memory costs more than filling it."""
        return np.empty((self.batch, self.neighbours, self.neighbours))

    def weights(
        self, x: np.ndarray, near: np.ndarray, ratio: np.ndarray | None, scratch: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights (b, m) of rows `near` (b, m, d) for observations x (b, d), and how often a ridge rose."""
        try:
            return self._solved(x, near, ratio, scratch[: len(x)], 0), np.zeros(len(x), dtype=int)
        except np.linalg.LinAlgError:  # one of them at least: each by itself
            single = [self._raising(*one, scratch[:1]) for one in _apart(x, near, ratio)]
            return np.concatenate([weights for weights, _ in single]), np.array(
                [times for _, times in single]
            )

    def _raising(
        self,
        x: np.ndarray,
        near: np.ndarray,
        ratio: np.ndarray | None,
        scratch: np.ndarray,
        *,
        # As `raising` does.
        most: int = 40,
    ) -> tuple[np.ndarray, int]:
        for times in range(most):
            try:
                return self._solved(x, near, ratio, scratch, times), times
            except np.linalg.LinAlgError:
                continue
        raise np.linalg.LinAlgError("the Gram matrix is not positive definite with any ridge")

    def _solved(
        self, x: np.ndarray, near: np.ndarray, ratio: np.ndarray | None, gram: np.ndarray, times: int
    ) -> np.ndarray:
        cross = self._gram(x, near, gram)
        scale: np.ndarray | None = None
        if ratio is not None:
            # Of mean one among these rows, since the ridge m lambda is one for m rows of weight one.
            scale = np.sqrt(ratio / ratio.mean(axis=1, keepdims=True))
            gram *= scale[:, :, None]
            gram *= scale[:, None, :]
        diagonal = np.arange(self.neighbours)
        gram[:, diagonal, diagonal] += self.raised(times)
        factors = np.linalg.cholesky(gram)  # of many at once, without holding the interpreter's lock
        weights = np.empty(near.shape[:2])
        for k, factor in enumerate(factors):
            # Two right sides at once: the kernel's values, and ones for the intercept.
            right: np.ndarray = np.ones((self.neighbours, 2), order="F")
            right[:, 0] = cross[k]
            if scale is not None:
                right *= scale[k][:, None]
            # LAPACK counts by columns: the transpose of a lower factor is its upper one without a copy.
            solved = dpotrs(factor.T, right, lower=False)[0]
            if scale is not None:
                solved *= scale[k][:, None]
            weights[k], intercept = solved.T
            if self.centred:
                # The intercept that is not penalised, by elimination: its equation is that the weights sum to
                # one.
                weights[k] += intercept * ((1 - weights[k].sum()) / intercept.sum())
        return weights

    def _gram(
        self,
        x: np.ndarray,
        near: np.ndarray,
        out: np.ndarray,
        *,
        # Of a triangle, exponentiated together.
        triangle_rows: int = 64,
    ) -> np.ndarray:
        """Gram matrices in the lower triangles of `out` (b, m, m); k(near, x), shape (b, m)."""
        if not isinstance(self.kernel, Gaussian):
            for k, rows in enumerate(near):
                out[k] = self.kernel(rows)
            return np.stack([self.kernel(rows, one[None])[:, 0] for rows, one in zip(near, x, strict=True)])
        # Shifted to the observation, distances of nearest rows lose no digits in the product.
        scaled = (near - x[:, None]) / np.asarray(self.kernel.bandwidth)
        half = -0.5 * np.einsum("kij,kij->ki", scaled, scaled)[..., None]
        ones = np.ones_like(half)
        left, right = (
            np.concatenate([scaled, half, ones], axis=2),
            np.concatenate([scaled, ones, half], axis=2),
        )
        np.matmul(left, right.transpose(0, 2, 1), out=out)
        for first in range(
            0, self.neighbours, triangle_rows
        ):  # the exponentials cost most: half of them will do
            block = out[:, first : first + triangle_rows, : first + triangle_rows]
            np.exp(block, out=block)
        return np.exp(half[..., 0])


def _apart(
    x: np.ndarray, near: np.ndarray, ratio: np.ndarray | None
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    parts = [slice(k, k + 1) for k in range(len(x))]
    return [(x[part], near[part], None if ratio is None else ratio[part]) for part in parts]
