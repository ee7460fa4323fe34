"""The conditional mean embedding on all rows."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.memory import physical_memory
from pymc_kbr.arrays.refusals import positive
from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.prior_weights import PriorWeights
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import (
    Exact,
    Gram,
    LowRankGram,
    Operator,
    RandomFeatures,
    Solver,
    StreamedGram,
    make_solver,
)
from pymc_kbr.gram.solvers import solver_for, streams
from pymc_kbr.kernels import FAMILIES, Gaussian, Kernel, Linear, check_kernel, median_heuristic
from pymc_kbr.regression.leave_one_out import SCALES, Choice, choose_kernel_and_ridge

NEAR = 0.5
"""Standard errors by which a simpler setting's leave-one-out error may exceed the lowest one.

More than for columns: on nine problems of 200 rows errors are the same to .2% on average as with 0.25, and
distances from the exact means, where these are linear, a tenth lower.
"""


class ConditionalMean(Estimator):
    """Kernel ridge regression of the parameters' features on the statistics.

    Parameters
    ----------
    bandwidth : float or "median", optional
        Of the kernel on the scaled statistics. Where left out, the multiple of the median heuristic
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
        Whether statistics are divided by their standard deviation in the table; or "relevance",
        "posterior_mean" or "linear_posterior_mean", learnt from the table: see `estimators.summaries`.
    parameter_bandwidth : float, optional
        Of the kernel on the parameters in which weights are projected onto the simplex, in standard
        deviations of each parameter over the table; the median heuristic where left out.

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
    """

    streams = True

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

    def _check(self, n: int) -> None:
        check_kernel("kernel", self.kernel)
        if self.bandwidth is not None:
            if self.bandwidth != "median":
                positive("bandwidth", self.bandwidth)  # type: ignore[arg-type]
            if not isinstance(self.kernel, str):
                raise ValueError(
                    f"bandwidth is {self.bandwidth!r} and kernel is {self.kernel!r}; a kernel has its own "
                    "bandwidth: give one of the two"
                )
        if self.regularisation is not None:
            positive("regularisation", self.regularisation)
        self._check_memory(n)

    def _check_memory(self, n: int) -> None:
        solver = solver_for(self._solver(), n)
        if getattr(self, "_chunked", False):
            if streams(solver):
                return
            if not isinstance(solver, Exact):
                raise ValueError(
                    f"the solver {solver!r} works on tables in memory, and these rows are read a part at a "
                    "time; take solver='incomplete_cholesky', 'nystroem' or 'random_features'"
                )
        needed, there = solver.bytes(n), physical_memory()
        if needed > 0.8 * there:
            raise MemoryError(
                f"the Gram matrix of {n} rows needs {needed / 1e9:.1f} GB and this machine has "
                f"{there / 1e9:.1f} GB; take solver='auto' or 'nystroem', Localised, or fewer rows"
            )

    def _fit(self) -> None:
        prior = self._prior_weights()
        n = len(self.statistics_)
        solver = self._solver()
        choice = self._choose(solver.rows(n), prior)
        self.kernel_ = choice.kernel
        self.regularisation_ = choice.ridge / solver.rows(n)
        points = self.statistics_
        if self._chunked and not streams(solver_for(solver, n)):
            points = points[0:n]  # few enough for the exact solver
        gram = solver.gram(self.kernel_, points, self._rng, n * self.regularisation_)
        self._centre = self._base = None
        if self.centred:
            self._centre = np.full(n, 1 / n)
            if prior.gamma is not None:
                self._centre = np.maximum(prior.gamma, 0) / np.maximum(prior.gamma, 0).sum()
            self._base = self._centre if prior.base is None else prior.base
            gram = gram.centred(self._centre)
        if isinstance(gram, LowRankGram):
            self.rank_ = gram.features.shape[1]
        elif isinstance(gram, StreamedGram):
            self.rank_ = gram.rank
        self._operator = self._factored(gram, prior)
        self.ridge_raised_ = self._operator.raised

    def _solver(self) -> Solver:
        return make_solver(self.solver)

    def _prior_weights(self) -> PriorWeights:
        if self.ratio_ is None:
            return PriorWeights()
        gamma = self.ratio_ / self.ratio_.sum()
        return PriorWeights(gamma, gamma)

    def _factored(self, gram: Gram, prior: PriorWeights) -> Operator:
        """The factored regression, for weights of sum one: lambda stands beside G / n."""
        n = len(self.statistics_)
        scale = None if prior.gamma is None else np.sqrt(n * np.maximum(prior.gamma, 0))
        return gram.regularised(n * self.regularisation_, scale)

    def _choose(self, rows: int, prior: PriorWeights) -> Choice:
        """Kernel and ridge, the given ones or the best ones, for regressions on so many rows."""
        kernels = self._kernels()
        ridges = None if self.regularisation is None else (self._ridge_of(self.regularisation) * rows,)
        if ridges is not None and len(kernels) == 1:
            choice = Choice(kernels[0], ridges[0], float("nan"))
        else:
            n = len(self.statistics_)
            choice = choose_kernel_and_ridge(
                *self._tuning,
                kernels,
                ridges,
                weights=None if prior.gamma is None else n * np.maximum(prior.gamma, 0),
                score_weights=None if prior.score is None else n * prior.score,
                centred=self.centred,
                near=NEAR,
            )
        if isinstance(self.kernel, str):
            self.bandwidth_ = float(getattr(choice.kernel, "bandwidth", np.inf))
        return choice

    def _ridge_of(self, regularisation: float) -> float:
        """The lambda to which a given regularisation corresponds."""
        return regularisation

    def _kernels(self) -> list[Kernel]:
        """The kernels among which is chosen."""
        if not isinstance(self.kernel, str):
            return [self.kernel]
        family = FAMILIES[self.kernel]
        if self.bandwidth is not None and self.bandwidth != "median":
            return [family(float(self.bandwidth))]
        median = median_heuristic(self._tuning[0])
        if self.bandwidth == "median":
            return [family(median)]
        kernels: list[Kernel] = [family(s * median) for s in SCALES]
        # Centred and with its ridge, this is what a Gaussian kernel tends to as its bandwidth grows.
        limit = family is Gaussian and self.centred and not isinstance(self._solver(), RandomFeatures)
        return [*kernels, Linear()] if limit else kernels

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        needed, there = 16.0 * len(x) * self._size, physical_memory()
        if self._chunked and needed > 0.8 * there:
            raise MemoryError(
                f"the weights of {self._size} rows for {len(x)} observations need {needed / 1e9:.1f} GB and "
                f"this machine has {there / 1e9:.1f} GB; condition on fewer observations at once, or take "
                "Localised"
            )
        weights = self._operator.weights(x)
        if self._centre is not None:
            weights = weights - weights.sum(axis=1, keepdims=True) * self._centre + self._base
        return None, weights
