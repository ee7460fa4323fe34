"""The conditional mean embedding on the nearest rows of each observation."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs
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

    def _fit(self) -> None:
        n = len(self.statistics_)
        self.neighbours_ = min(500, n) if self.neighbours is None else int(self.neighbours)
        self.bandwidth_, self._ridge = self._choose(self.neighbours_)
        self.regularisation_ = self._ridge / self.neighbours_
        self._kernel = Gaussian(self.bandwidth_)
        self._tree = KDTree(self.statistics_)

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, rows = self._tree.query(x, k=[*range(1, self.neighbours_ + 1)], workers=-1)
        # Each system is small: observations run side by side, each on one BLAS thread.
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cpu_count()) as threads:
            weights = np.array(list(threads.map(self._local_weights, x, rows)))
        return rows, centre(weights) if self.centred else weights

    def _local_weights(self, x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        nearest = self.statistics_[rows]
        gram = self._kernel(nearest)
        gram.flat[:: len(rows) + 1] += self._ridge
        factor, failed = dpotrf(gram.T, lower=True, overwrite_a=True, clean=False)
        if failed:
            raise too_small_a_ridge(self.regularisation_)
        weights, _ = dpotrs(factor, self._kernel(nearest, x[None]), lower=True)
        return weights[:, 0]
