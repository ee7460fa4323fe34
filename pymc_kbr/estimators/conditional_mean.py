"""The conditional mean embedding on all rows."""

from __future__ import annotations

from pymc_kbr.embedding.rules import ImportanceWeighted
from pymc_kbr.estimators.rule_estimator import RuleEstimator
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import Solver
from pymc_kbr.kernels import Kernel


class ConditionalMean(RuleEstimator):
    """Kernel ridge regression of the parameters' features on the statistics.

    Parameters
    ----------
    bandwidth : float, "median" or "bayesian", optional
        Of the kernel on the scaled statistics; by the median heuristic, or the maximum marginal likelihood of
        the statistics' embedding. Where left out, the multiple of the median heuristic
        with the smallest leave-one-out error; or infinity, the linear kernel, which a wide Gaussian one
        tends to, unless a multiple is better by two standard errors.
    regularisation : float, optional
        lambda. Where left out, n * lambda is chosen together with the bandwidth.
    kernel : str or Kernel
        "gaussian", "laplace" or "matern", of the bandwidth above; or a kernel on the scaled
        statistics, ours or one of scikit-learn's Gaussian processes, which is taken as it is.
    solver : str or Solver
        How the regression is solved, see `pymc_kbr.gram`: "auto" is exact up to 4 GB.
    centred : bool
        Whether features on both sides are regressed about their means over the rows, so that the
        weights sum to one and shrink towards the prior; otherwise they are those of the equation, and
        shrink towards zero.
    scale : bool, str or Summary
        Whether statistics are divided by their standard deviation in the table (they are centred in either
        case, which a kernel of differences does not see); or "relevance",
        "posterior_mean", or this after ``linear_``, ``curved_`` or ``joint_``, learnt from the table: see
        `estimators.summaries`.
    parameter_bandwidth : float, optional
        Of the kernel on the parameters in which weights are projected onto the simplex, in standard
        deviations of each parameter over the table; the median heuristic where left out.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range and tables of one row; by `condition`, for observations with
        another number of statistics or infinite ones.
    MemoryError
        By `fit`, where an exact solver would need more than there is.

    Notes
    -----
    w = (G + n lambda I)^-1 k(x), eq. 1 of the localised draft; `centred`, the same with centred kernels,
    and what the weights lack of one in equal parts. Bandwidth and ridge are chosen on at most 1000
    rows by the leave-one-out error in closed form. Under another prior, whose density ratio r is given
    to `fit`, w = D^(1/2) (D^(1/2) G D^(1/2) + lambda I)^-1 D^(1/2) k(x) with D = diag(r / n), Algorithm 1
    of Xu 2022.

    References
    ----------
    .. [1] L. Song, K. Fukumizu, A. Gretton, Kernel embeddings of conditional distributions, IEEE
       Signal Processing Magazine 30 (2013), 98-111.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(300, 1))
    >>> posterior = ConditionalMean(2.0, 1e-3).fit(theta, theta + rng.normal(size=(300, 1))).condition([1.0])
    >>> second_moment = posterior.expectation(lambda points: points[:, 0] ** 2)  # exact: 0.75
    >>> bool(abs(second_moment - 0.75) < 0.2)
    True
    """

    rule = ImportanceWeighted()

    def __init__(
        self,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        kernel: str | Kernel = "gaussian",
        solver: str | Solver = "auto",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.kernel = kernel
        self.solver = solver
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth
