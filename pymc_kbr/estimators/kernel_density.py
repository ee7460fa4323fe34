"""Kernel density estimation of the likelihood, with importance weights of the prior's draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from pymc_kbr.arrays.refusals import positive, squarable_or
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.estimators.estimator import Estimator, RowWeights
from pymc_kbr.estimators.prior_weights import check_prior, weighted_draws
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.kernels import squared_distances

NEGATIVE = "the prior has negative weights; importance weights need a probability"


class KernelDensity(Estimator):
    """The classical rival: a kernel estimate of the likelihood weights the prior's draws.

    Parameters
    ----------
    bandwidth : float or "bayesian", optional
        Of both Gaussian kernels, in standard deviations of each column; that of the maximum marginal
        likelihood of the joint embedding, or given. Where left out, that of the
        smallest least squares cross-validation score of the joint density, on at most 1000 rows.
    prior : ndarray of shape (l, p), or pair of such and of weights of shape (l,), optional
        Draws of the prior, which are the posterior's atoms, with weights that are not negative. Where
        left out, `particles` of the table's own parameters.
    particles : int
    scale : bool, str or Summary
        As in `ConditionalMean`; whether parameters are divided by their standard deviation in the table.
    parameter_bandwidth : float, optional
        See `ConditionalMean`.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range and a prior with negative weights; by `condition`, where the
        estimated likelihood is zero at every draw of the prior.

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

    takes_draws = True

    def __init__(
        self,
        bandwidth: float | str | None = None,
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

    def _check(self, n: int, streamed: bool) -> None:
        if self.bandwidth is not None:
            squarable_or(("bayesian",), "bandwidth", self.bandwidth)
        positive("particles", self.particles)
        if self.prior is not None and np.any(weighted_draws(self.prior)[1] < 0):
            raise ValueError(NEGATIVE)

    def _fit(self, rng: np.random.Generator) -> None:
        table = self.table_
        p = table.parameters.shape[1]
        self._unit = unit_deviations(table.parameters) if self.scale else np.ones(p)
        theta = table.parameters / self._unit
        chosen = self.bandwidth is None or self.bandwidth == "bayesian"
        self.bandwidth_ = self._bandwidth(theta) if chosen else float(self.bandwidth)  # type: ignore[arg-type]
        draws = self._draws()
        if draws is None:
            self._rows = spread_out(len(theta), int(self.particles))
            self._points = table.parameters[self._rows]
            weights = np.ones(len(theta)) if table.ratio is None else table.ratio
            weights = weights[self._rows]
        else:
            self._points, weights = draws
        self._particles = self._points / self._unit
        with np.errstate(divide="ignore"):
            self._log_prior = np.log(weights)

    @property
    def weighs_rows(self) -> bool:
        """Whether the weights are those of the table's rows."""
        return self.prior is None and self.table_.draws is None

    def _bandwidth(self, theta: np.ndarray) -> float:
        """The one of the smallest cross-validation score of the joint density, or the learnt one."""
        joint = np.hstack([theta, self.table_.statistics])
        if self.bandwidth == "bayesian":
            return float(learn_lengthscale(joint).lengthscale[0])
        tried = 2.0 ** np.arange(-4, 2.1, 0.5)
        return float(min(tried, key=lambda h: least_squares_score(joint, h)))

    def _draws(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Draws of another prior with their weights, given to `fit` or to the constructor."""
        draws = (
            self.table_.draws if self.prior is None else weighted_draws(self.prior, self.names_.parameters)
        )
        if draws is None:
            return None
        if self.prior is not None:
            check_prior(*draws, self.table_.parameters)
        if np.any(draws[1] < 0):
            raise ValueError(NEGATIVE)
        success = self.table_.success
        return draws if success is None else success.seen(draws)

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        """Logarithms throughout: far from all rows every kernel value is zero in double precision."""
        theta = self.table_.parameters / self._unit
        # The largest exponents, of each observation and each draw, are factors that cancel in the end.
        near = -squared_distances(self.table_.statistics, x) / (2 * self.bandwidth_**2)
        shift = near.max(axis=0)
        near = np.exp(near - shift)
        logs = np.empty((len(x), len(self._particles)))
        for j in range(0, len(self._particles), 256):  # all draws by all rows would fill the memory
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
        values = np.exp(logs - total)
        if not self.weighs_rows:
            return RowWeights(values, points=self._points)
        return RowWeights(values, np.broadcast_to(self._rows, logs.shape))


def least_squares_score(points: np.ndarray, bandwidth: float, most: int = 1000) -> float:
    """The integrated squared error of a kernel density estimate, but for a constant, by leaving one out."""
    z = points[spread_out(len(points), most)]
    n, d = z.shape
    squares = squared_distances(z)
    wide = np.exp(-squares / (4 * bandwidth**2)).sum() * (4 * np.pi * bandwidth**2) ** (-d / 2)
    narrow = np.exp(-squares / (2 * bandwidth**2)).sum() - n  # without the diagonal, of ones
    return float(wide / n**2 - 2 * narrow * (2 * np.pi * bandwidth**2) ** (-d / 2) / (n * (n - 1)))
