"""Nadaraya-Watson: every row weighted by its similarity to the observation."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.spatial.distance import cdist

from pymc_kbr.arrays.refusals import one_of, shown, squarable_or
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.estimators.estimator import Estimator, RowWeights
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.kernels import PROFILES, median_heuristic


class NadarayaWatson(Estimator):
    """Kernel regression of the parameters' features on the statistics.

    Parameters
    ----------
    bandwidth : float, "median" or "bayesian", optional
        In units of the scaled statistics; by the median heuristic or, of the Gaussian kernel, the maximum
        marginal likelihood of their embedding. Where left out, the multiple of the median heuristic
        with the smallest leave-one-out error of the posterior mean, on 300 rows.
    kernel : {"gaussian", "epanechnikov", "top_hat"}
    scale : bool, str or Summary
        Whether statistics are divided by their standard deviation in the table; or "relevance",
        "posterior_mean", or this after ``linear_``, ``curved_`` or ``joint_``, learnt from the table: see
        `estimators.summaries`.
    parameter_bandwidth : float, optional
        See `ConditionalMean`.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range; by `condition`, where no row is within the kernel's reach.

    Notes
    -----
    w = k(x) / ||k(x)||_1, section 4.3 of the localised draft. With the top-hat kernel this is
    rejection at a tolerance of one bandwidth.

    On a table that is read a part at a time the nearest 25,000 rows carry the weight; the share of the
    others is `left_out` in the posterior's settings, with a warning where it is above 1%. The bandwidth is
    then that of 20,000 rows.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(500, 1))
    >>> fitted = NadarayaWatson(0.3).fit(theta, theta + rng.normal(size=(500, 1)))
    >>> fitted.weights([1.0]).min() >= 0
    np.True_
    """

    streams = True
    picks = True

    def __init__(
        self,
        bandwidth: float | str | None = None,
        *,
        kernel: str = "gaussian",
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def _check(self, n: int, streamed: bool) -> None:
        one_of("kernel", self.kernel, sorted(PROFILES))
        if isinstance(self.bandwidth, str) and self.bandwidth == "bayesian" and self.kernel != "gaussian":
            raise ValueError(
                "bandwidth is 'bayesian', which is for the Gaussian kernel, and kernel is "
                f"{shown(self.kernel)}"
            )
        if self.bandwidth is not None:
            squarable_or(("median", "bayesian"), "bandwidth", self.bandwidth)

    def _fit(self, rng: np.random.Generator) -> None:
        if self.bandwidth == "bayesian":
            self.bandwidth_ = float(learn_lengthscale(self.table_.sample.statistics).lengthscale[0])
        elif self.bandwidth == "median":
            self.bandwidth_ = median_heuristic(self.table_.sample.statistics)
        else:
            self.bandwidth_ = self._choose_bandwidth() if self.bandwidth is None else float(self.bandwidth)

    def _choose_bandwidth(self) -> float:
        """The candidate that predicts some rows' parameters best from all the other rows."""
        x, theta, _ = self.table_.sample
        targets = (theta - theta.mean(axis=0)) / unit_deviations(theta)
        candidates = [scale * median_heuristic(x) for scale in 2.0 ** np.arange(-4, 2.1, 0.5)]
        errors = np.zeros(len(candidates))
        for row in spread_out(len(x), 300):
            distances = cdist(x[row : row + 1], x)[0]
            distances[row] = np.inf  # no row predicts itself
            for k, bandwidth in enumerate(candidates):
                weights = PROFILES[self.kernel](distances / bandwidth)
                total = weights.sum()
                # A row without neighbours is predicted by the mean of the table, which is zero here.
                predicted = weights @ targets / total if total > 0 else 0.0
                errors[k] += np.sum((targets[row] - predicted) ** 2)
        return float(candidates[int(np.argmin(errors))])

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        if self.table_.streamed:
            return self._nearest_weights(x)
        distances = cdist(x, self.table_.statistics) / self.bandwidth_
        if self.kernel == "gaussian":  # the nearest row has weight one, so that no sum is ever zero
            similar = np.exp(0.5 * (distances.min(axis=1, keepdims=True) ** 2 - distances**2))
        else:
            similar = PROFILES[self.kernel](distances)
        if self.table_.ratio is not None:
            similar = similar * self.table_.ratio
        total = similar.sum(axis=1, keepdims=True)
        self._refuse_empty(total[:, 0], distances.min(axis=1))
        return RowWeights(similar / total)

    def _nearest_weights(
        self,
        x: np.ndarray,
        *,
        # Distances that are held at once.
        pairs: int = 2**22,
        # Rows that get weight.
        most_atoms: int = 25_000,
    ) -> RowWeights:
        """The weights of the nearest rows only, with the share of what is left out as `left_out`."""
        most = min(most_atoms, len(self.table_))
        distances, rows = self.table_.nearest(most).query(x, most)
        distances /= self.bandwidth_
        squares = distances[:, :1] ** 2 if self.kernel == "gaussian" else np.zeros((len(x), 1))

        def similarity(d: np.ndarray) -> np.ndarray:
            if self.kernel == "gaussian":
                return np.exp(0.5 * (squares - d**2))
            return PROFILES[self.kernel](d)

        similar = similarity(distances)
        kept, total = similar.sum(axis=1), np.zeros(len(x))
        step = max(1, pairs // len(x))
        for _, block in self.table_.statistics.blocks():
            for first in range(0, len(block), step):
                total += similarity(cdist(x, block[first : first + step]) / self.bandwidth_).sum(axis=1)
        self._refuse_empty(kept, distances[:, 0])
        # The two sums round differently: a share is not below zero.
        left_out = float(np.max(1 - kept / np.maximum(total, kept)))
        if left_out > 0.01:
            warnings.warn(
                f"the {rows.shape[1]} nearest rows hold all but {left_out:.1%} of the weight, and the "
                "others are left out: take a smaller bandwidth, or Localised",
                UserWarning,
                stacklevel=users_line(),
            )
        return RowWeights(similar / kept[:, None], rows, settings={"left_out": left_out})

    def _refuse_empty(self, total: np.ndarray, nearest: np.ndarray) -> None:
        empty = np.flatnonzero(total == 0)
        if len(empty):
            raise ValueError(
                f"no row of the table lies within the bandwidth {self.bandwidth_:.4g} of observation "
                f"{empty[0]}; its nearest row is {nearest[empty[0]] * self.bandwidth_:.4g} away; "
                "take a larger bandwidth, or the Gaussian kernel"
            )
