"""Kernel density estimation of the likelihood, with importance weights of the prior's draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.arrays.refusals import positive
from pymc_kbr.arrays.scaling import deviations
from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.prior_weights import check_columns, refuse_both, weighted_draws
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.kernels import squared_distances

BANDWIDTHS = tuple(2.0 ** np.arange(-4, 2.1, 0.5))
"""Bandwidths that are tried, in standard deviations."""


class KernelDensity(Estimator):
    """The classical rival: a kernel estimate of the likelihood weights the prior's draws.

    Parameters
    ----------
    bandwidth : float, optional
        Of both Gaussian kernels, in standard deviations of each column. Where left out, that of the
        smallest least squares cross-validation score of the joint density, on at most 1000 rows.
    prior : ndarray of shape (l, p), or pair of such and of weights of shape (l,), optional
        Draws of the prior, which are the posterior's atoms, with weights that are not negative. Where
        left out, `particles` of the table's own parameters.
    particles : int
    scale : bool, str or Summary
        As in `ConditionalMean`; whether parameters are divided by their standard deviation in the table.
    parameter_bandwidth : float, optional
        See `ConditionalMean`.

    Notes
    -----
    p(x | u) is estimated by sum_i K(u - theta_i) K(x - x_i) / sum_i K(u - theta_i), and the draw u_j of the
    prior has the weight p(x | u_j) / sum_j p(x | u_j): section 5.1 of Fukumizu 2013. `weights` are those
    of the prior's draws where a prior is given.

    References
    ----------
    .. [1] M. Rudemo, Empirical choice of histograms and kernel density estimators, Scand. J. Statist. 9
       (1982), 65-78.
    """

    def __init__(
        self,
        bandwidth: float | None = None,
        *,
        prior: Any = None,
        particles: int = 2000,
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.prior = prior
        self.particles = particles
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def _check(self, n: int) -> None:
        if self.bandwidth is not None:
            positive("bandwidth", self.bandwidth)
        positive("particles", self.particles)
        if self.prior is not None and np.any(weighted_draws(self.prior)[1] < 0):
            raise ValueError("the prior has negative weights; importance weights need a probability")

    def _fit(self) -> None:
        deviation = deviations(self.parameters_) if self.scale else np.ones(self.parameters_.shape[1])
        self._unit = np.where(deviation > 0, deviation, 1.0)
        theta = self.parameters_ / self._unit
        if self.bandwidth is None:
            joint = np.hstack([theta, self.statistics_])
            scores = [least_squares_score(joint, h) for h in BANDWIDTHS]
            self.bandwidth_ = float(BANDWIDTHS[int(np.argmin(scores))])
        else:
            self.bandwidth_ = float(self.bandwidth)
        if self.ratio_ is not None:
            refuse_both(self.prior)
        if self.prior is None:
            self._rows = spread_out(len(theta), int(self.particles))
            self._particles = theta[self._rows]
            ratio = np.ones(len(theta)) if self.ratio_ is None else self.ratio_
            self._log_prior = np.log(ratio[self._rows])
        else:
            draws, weights = weighted_draws(self.prior)
            check_columns(draws, self.parameters_)
            self._particles = draws / self._unit
            with np.errstate(divide="ignore"):
                self._log_prior = np.log(weights)
            self.atoms_ = Atoms(draws, self.parameter_kernel_)
            self.rows_ = self._rows = np.arange(len(draws))
            self._size = len(draws)

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms throughout: far from all rows every kernel value is zero in double precision."""
        theta = self.parameters_ / self._unit
        near = -squared_distances(self.statistics_, x) / (2 * self.bandwidth_**2)
        shift = near.max(axis=0)
        near = np.exp(near - shift)
        logs = np.empty((len(x), len(self._particles)))
        for j in range(0, len(self._particles), 256):
            apart = -squared_distances(self._particles[j : j + 256], theta) / (2 * self.bandwidth_**2)
            apart = np.exp(apart - apart.max(axis=1, keepdims=True))
            with np.errstate(divide="ignore"):
                logs[:, j : j + 256] = np.log((apart @ near / apart.sum(axis=1, keepdims=True)).T)
        logs += self._log_prior
        total = logsumexp(logs, axis=1, keepdims=True)
        empty = np.flatnonzero(~np.isfinite(total[:, 0]))
        if len(empty):
            raise ValueError(
                f"the estimated likelihood of observation {empty[0]} is zero at every draw of the prior; "
                f"take a larger bandwidth than {self.bandwidth_:.3g}"
            )
        return np.broadcast_to(self._rows, logs.shape), np.exp(logs - total)


def least_squares_score(points: np.ndarray, bandwidth: float, most: int = 1000) -> float:
    """The integrated squared error of a kernel density estimate, but for a constant, by leaving one out.

    The mean of N(z_i - z_j; 0, 2 h^2) less twice that of N(z_i - z_j; 0, h^2) over different i and j
    (Rudemo 1982, Bowman 1984).
    """
    z = points[spread_out(len(points), most)]
    n, d = z.shape
    squares = squared_distances(z)
    wide = np.exp(-squares / (4 * bandwidth**2)).sum() * (4 * np.pi * bandwidth**2) ** (-d / 2)
    narrow = np.exp(-squares / (2 * bandwidth**2)).sum() - n
    return float(wide / n**2 - 2 * narrow * (2 * np.pi * bandwidth**2) ** (-d / 2) / (n * (n - 1)))
