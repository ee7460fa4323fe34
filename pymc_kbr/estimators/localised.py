"""The conditional mean embedding on the nearest rows of each observation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np
from scipy.linalg.lapack import dpotrs
from threadpoolctl import threadpool_limits

from pymc_kbr.estimators.base import whole
from pymc_kbr.estimators.conditional_mean import ConditionalMean
from pymc_kbr.gram.gram import RAISE, warn_raised
from pymc_kbr.kernels import Gaussian, Kernel
from pymc_kbr.neighbours import neighbours_of
from pymc_kbr.summaries import Summary


class Localised(ConditionalMean):
    """`ConditionalMean` on the m rows nearest to the observation.

    Parameters
    ----------
    neighbours : int, optional
        m; 500, or all rows where there are fewer.
    bandwidth, regularisation, kernel, centred, scale, parameter_bandwidth
        As in `ConditionalMean`; lambda is that of m rows, and `centred` is about the means of the
        nearest rows.

    Notes
    -----
    Algorithm 1 of the localised draft: the nearest rows of x, then w = (G_m + m lambda I)^-1 k_m(x),
    its eq. 4. Nearest in a kernel that falls with distance is nearest in distance, so a tree finds
    them. With m = n this is `ConditionalMean`.

    `centred` in the form of an unpenalised intercept: with K = G_m + m lambda I, what w lacks of one is
    added in proportion to K^-1 1, which is the same as centring the features of both sides.
    """

    def __init__(
        self,
        neighbours: int | None = None,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        kernel: str | Kernel = "gaussian",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        super().__init__(
            bandwidth,
            regularisation,
            kernel=kernel,
            centred=centred,
            scale=scale,
            parameter_bandwidth=parameter_bandwidth,
        )
        self.neighbours = neighbours

    def _check(self, n: int) -> None:
        super()._check(n)
        if self.neighbours is not None:
            whole("neighbours", self.neighbours, n)

    def _check_memory(self, n: int) -> None:
        super()._check_memory(self.neighbours or 1)

    def _fit(self) -> None:
        n = len(self.statistics_)
        self.neighbours_ = min(500, n) if self.neighbours is None else int(self.neighbours)
        choice = self._choose(self.neighbours_, self._prior_weights())
        self.kernel_, self._ridge = choice.kernel, choice.ridge
        self.regularisation_ = self._ridge / self.neighbours_
        self.ridge_raised_ = 0
        self._nearest = neighbours_of(self.statistics_)

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m = self.neighbours_
        _, rows = self._nearest.query(x, m)
        points, places = self.statistics_, rows
        if self._chunked:
            read, places = np.unique(rows, return_inverse=True)
            points, places = self.statistics_[read], places.reshape(rows.shape)
        weights, raised = np.empty(rows.shape), np.zeros(len(x), dtype=int)

        def solve(numbers: np.ndarray) -> None:
            gram = np.empty((m, m))  # used again for every observation: new memory costs more than filling it
            for k in numbers:
                ratio = None if self.ratio_ is None else self.ratio_[rows[k]]
                weights[k], raised[k] = self._local_weights(x[k], points[places[k]], ratio, gram)

        # Each system is small: observations run side by side, each on one BLAS thread.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cpu_count()) as threads:
            list(threads.map(solve, np.array_split(np.arange(len(x)), min(len(x), 4 * (cpu_count() or 1)))))
        if raised.any():
            self.ridge_raised_ = int(raised.max())
            warn_raised(self._ridge, self._raised(self.ridge_raised_), self.ridge_raised_)
        return rows, weights

    def _raised(self, times: int) -> float:
        """The ridge, or what it becomes when it is raised."""
        least = self.neighbours_ * np.finfo(float).eps
        return self._ridge if times == 0 else max(self._ridge * RAISE, least) * RAISE ** (times - 1)

    def _local_weights(
        self, x: np.ndarray, near: np.ndarray, ratio: np.ndarray | None, gram: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Weights of the nearest rows (m, d), and how many times the ridge was raised."""
        shifted, origin = near - x, np.zeros((1, len(x)))
        scale = 1.0 if ratio is None else np.sqrt(ratio / ratio.mean())
        right = np.ones((len(near), 2), order="F")
        stationary = isinstance(self.kernel_, Gaussian)
        right[:, :1] = self.kernel_(shifted, origin) if stationary else self.kernel_(near, x[None])
        right *= np.reshape(scale, (-1, 1))
        for raised in range(40):
            if stationary:
                self.kernel_.upper_triangle(shifted, out=gram)  # type: ignore[attr-defined]
            else:
                gram[:] = self.kernel_(near)
            if ratio is not None:
                gram *= np.outer(scale, scale)
            gram.flat[:: len(near) + 1] += self._raised(raised)
            try:  # NumPy's factorisation lets other threads run, SciPy's does not
                factor = np.linalg.cholesky(gram.T)
                break
            except np.linalg.LinAlgError:
                continue
        solved = dpotrs(factor.T, right, lower=False)[0] * np.reshape(scale, (-1, 1))
        weights, intercept = solved.T
        if self.centred:
            weights = weights + intercept * ((1 - weights.sum()) / intercept.sum())
        return weights, raised
