"""Approximate Bayesian computation: rejection, Nadaraya-Watson and kernel density of the likelihood."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from pymc_kbr.arrays.refusals import one_of, positive, shown, squarable_or, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.estimators.estimator import Estimator, RowWeights
from pymc_kbr.estimators.prior_weights import check_prior, weighted_draws
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.kernels import PROFILES, median_heuristic, squared_distances


class Rejection(Estimator):
    """Accept the nearest rows, as in rejection ABC with a tolerance set by its quantile.

    Parameters
    ----------
    accepted : float or int
        Share of the rows, above 0 and up to 1.0, which is all of them; or their number: 1 is one row.
    most : int, optional
        Rows that are accepted at most, where `accepted` is a share.
    kernel : {"top_hat", "epanechnikov", "gaussian"}
        How the weights of accepted rows fall with distance, in units of that of the first row that is not
        accepted: equal weights, or those of Beaumont et al. 2002.
    scale : bool, str or Summary
        Whether statistics are divided by their standard deviation in the table; or "relevance",
        "posterior_mean", or this after ``linear_``, ``curved_`` or ``joint_``, learnt from the table: see
        `estimators.summaries`.
    parameter_bandwidth : float, optional
        See `ConditionalMean`.

    Raises
    ------
    ValueError
        By `fit`, for a kernel that there is not, and more accepted rows than the table has or none.

    Notes
    -----
    Distance is Euclidean on the scaled statistics.

    References
    ----------
    .. [1] J. K. Pritchard et al., Population growth of human Y chromosomes, Mol. Biol. Evol. 16
       (1999), 1791-1798.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(1000, 1))
    >>> posterior = Rejection(accepted=50).fit(theta, theta + rng.normal(size=(1000, 1))).condition([1.0])
    >>> len(posterior.atoms)
    50
    """

    streams = True
    picks = True

    def __init__(
        self,
        accepted: float = 0.01,
        *,
        most: int | None = None,
        kernel: str = "top_hat",
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.accepted = accepted
        self.most = most
        self.kernel = kernel
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def _check(self, n: int, streamed: bool) -> None:
        if self.kernel not in PROFILES:
            raise ValueError(f"kernel is {shown(self.kernel)}; it may be one of {sorted(PROFILES)}")
        if isinstance(self.accepted, float | np.floating):
            if not 0 < self.accepted <= 1:
                raise ValueError(
                    f"accepted is {self.accepted}; as a share it must be above 0 and at most 1.0, which is "
                    "all rows; a whole number is a count"
                )
            if self.most is not None:
                whole("most", self.most)
        else:
            whole("accepted", self.accepted, n)
            if self.most is not None:
                raise ValueError(
                    f"accepted is {self.accepted}, a number of rows, and most is {self.most}; most limits a "
                    "share of the rows: leave it out, or give accepted as a share such as 0.3"
                )

    def _count(self, n: int) -> int:
        """How many of n rows are accepted."""
        if isinstance(self.accepted, float | np.floating):
            return min(max(1, round(self.accepted * n)), n if self.most is None else self.most)
        return int(self.accepted)

    def _fit(self, rng: np.random.Generator) -> None:
        self.accepted_ = self._count(len(self.table_))
        self.table_.nearest(self.accepted_ + 1)  # the tree is grown here, not at the first observation

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        n = len(self.table_)
        wanted = min(self.accepted_ + 1, n)  # one more, at whose distance a kernel ends
        distances, rows = self.table_.nearest(wanted).query(x, wanted)
        weights = np.ones((len(x), self.accepted_))
        if self.kernel != "top_hat":
            edge = distances[:, -1:]
            # Of all rows none is beyond: the farthest one keeps some weight.
            if n == self.accepted_:
                edge = edge * (1 + 1 / n)
            relative = distances[:, : self.accepted_] / np.where(edge > 0, edge, 1.0)
            weights = PROFILES[self.kernel](relative)
            weights[weights.sum(axis=1) == 0] = 1.0  # all accepted rows are as far as the first one beyond
        rows = rows[:, : self.accepted_]
        if self.table_.ratio is not None:
            weights = weights * self.table_.ratio[rows]
        return RowWeights(weights / weights.sum(axis=1, keepdims=True), rows)


# --- Nadaraya-Watson ---


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


# --- kernel density ---


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
