"""The conditional mean embedding on the nearest rows of each observation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np
from scipy.linalg.lapack import dpotrs
from scipy.spatial import KDTree
from threadpoolctl import threadpool_limits

from pymc_kbr.estimators.base import whole
from pymc_kbr.estimators.conditional_mean import ConditionalMean, centre, too_small_a_ridge
from pymc_kbr.kernels import Gaussian


class Localised(ConditionalMean):
    """`ConditionalMean` on the m rows nearest to the observation.

    Parameters
    ----------
    neighbours : int, optional
        m; 500, or all rows where there are fewer.
    bandwidth, regularisation, centred, scale, parameter_bandwidth
        As in `ConditionalMean`; lambda is that of m rows, and `centred` is about the mean of the
        nearest rows.

    Notes
    -----
    Algorithm 1 of the localised draft: the nearest rows of x, then w = (G_m + m lambda I)^-1 k_m(x),
    its eq. 4. Nearest in the kernel is nearest in distance, so a tree finds them. With m = n this is
    `ConditionalMean`.
    """

    def __init__(
        self,
        neighbours: int | None = None,
        bandwidth: float | None = None,
        regularisation: float | None = None,
        *,
        centred: bool = True,
        scale: bool = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        super().__init__(
            bandwidth,
            regularisation,
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
        self.bandwidth_, self._ridge = self._choose(self.neighbours_)
        self.regularisation_ = self._ridge / self.neighbours_
        self._kernel = Gaussian(self.bandwidth_)
        self._tree = KDTree(self.statistics_)

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        m = self.neighbours_
        _, rows = self._tree.query(x, k=[*range(1, m + 1)], workers=-1)
        weights = np.empty(rows.shape)

        def solve(numbers: np.ndarray) -> None:
            gram = np.empty((m, m))  # used again for every observation: new memory costs more than filling it
            for k in numbers:
                weights[k] = self._local_weights(x[k], rows[k], gram)

        # Each system is small: observations run side by side, each on one BLAS thread.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cpu_count()) as threads:
            list(threads.map(solve, np.array_split(np.arange(len(x)), min(len(x), 4 * (cpu_count() or 1)))))
        return rows, centre(weights) if self.centred else weights

    def _local_weights(self, x: np.ndarray, rows: np.ndarray, gram: np.ndarray) -> np.ndarray:
        nearest = self.statistics_[rows] - x
        self._kernel.upper_triangle(nearest, out=gram)
        gram.flat[:: len(rows) + 1] += self._ridge
        similar = self._kernel(nearest, np.zeros((1, nearest.shape[1])))
        try:  # NumPy's factorisation lets other threads run, SciPy's does not
            factor = np.linalg.cholesky(gram.T)
        except np.linalg.LinAlgError:
            raise too_small_a_ridge(self.regularisation_) from None
        return dpotrs(factor.T, similar, lower=False)[0][:, 0]
