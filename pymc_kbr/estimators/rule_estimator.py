"""One kernel, one solver, one rule: what the conditional mean embedding and kernel Bayes' rules share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigvalsh

from pymc_kbr.arrays.chunks import physical_memory
from pymc_kbr.arrays.refusals import flag, positive, shown, squarable_or
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.embedding.rules import Rule
from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.prior_weights import PriorWeights, check_prior, ratio_settings, weighted_draws
from pymc_kbr.estimators.row_weights import RowWeights
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import Exact, Gram, Operator, RandomFeatures, Solver, make_solver
from pymc_kbr.gram.dense import centred_gram
from pymc_kbr.gram.solvers import solver_for, streams
from pymc_kbr.kernels import FAMILIES, Gaussian, Kernel, Linear, check_kernel, median_heuristic
from pymc_kbr.regression.choose_ridge import SCALES, KernelAndRidge, choose_kernel_and_ridge

NAMED = ("median", "bayesian")
"""Bandwidths that are chosen from the statistics alone."""


class RuleEstimator(Estimator):
    """A `rule` of `embedding.rules` on the Gram matrix of a `kernel`, which a `solver` makes."""

    rule: ClassVar[Rule]
    streams = True
    on_all_threads = True
    bandwidth: float | str | None
    regularisation: float | None
    kernel: str | Kernel
    solver: str | Solver
    centred: bool

    def _check(self, n: int, streamed: bool) -> None:
        check_kernel("kernel", self.kernel)
        flag("centred", self.centred)
        if self.bandwidth is not None:
            squarable_or(NAMED, "bandwidth", self.bandwidth)
            if not isinstance(self.kernel, str):
                raise ValueError(
                    f"bandwidth is {shown(self.bandwidth)} and kernel is {shown(self.kernel)}; a kernel "
                    "has its own bandwidth: give one of the two"
                )
            if self.bandwidth == "bayesian" and self.kernel != "gaussian":
                raise ValueError(
                    f"bandwidth is 'bayesian', which is for the Gaussian kernel, and kernel is "
                    f"{self.kernel!r}"
                )
        if self.regularisation is not None:
            positive("regularisation", self.regularisation)
        self._check_memory(n, streamed)

    def _check_memory(self, n: int, streamed: bool) -> None:
        solver = solver_for(self._solver(), n)
        if streamed and streams(solver):
            return
        if streamed and not isinstance(solver, Exact):
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

    def _fit(self, rng: np.random.Generator) -> None:
        table, n, solver = self.table_, len(self.table_), self._solver()
        self._prior = self._prior_weights(rng)
        for name, value in self._prior.settings.items():
            setattr(self, f"{name}_", value)
        choice = self._choose(solver.rows(n), self._prior)
        self.kernel_ = choice.kernel
        ridge = choice.ridge / solver.rows(n)  # from m lambda, of m rows that meet in a regression
        gram = solver.gram(self.kernel_, table.points_for(solver), rng, n * ridge)
        self._centre = self._base = None
        if self.centred:
            self._centre = np.full(n, 1 / n)
            if self._prior.gamma is not None:
                self._centre = np.maximum(self._prior.gamma, 0) / np.maximum(self._prior.gamma, 0).sum()
            self._base = self._centre if self._prior.base is None else self._prior.base
            gram = gram.centred(self._centre)
        self.regularisation_ = self._regularisation(ridge)
        self._operator = self._factored(gram)
        if (rank := getattr(gram, "rank", None)) is not None:
            self.rank_ = rank
        self.ridge_raised_ = self._operator.raised

    def _factored(self, gram: Gram) -> Operator:
        return self.rule.operator(gram, self._prior.gamma, self.regularisation_)

    def _solver(self) -> Solver:
        return make_solver(self.solver)

    def _prior_weights(self, rng: np.random.Generator) -> PriorWeights:
        """How the rows represent the prior."""
        ratio = self.table_.ratio
        return PriorWeights() if ratio is None else PriorWeights.of_ratio(ratio)

    def _choose(
        self,
        rows: int,
        prior: PriorWeights,
        *,
        # Standard errors by which a simpler setting's leave-one-out error may exceed the lowest one. More
        # than for columns: on nine problems of 200 rows errors are the same to .2% on average as with 0.25,
        # and distances from the exact means, where these are linear, a tenth lower.
        near_best_rule: float = 0.5,
    ) -> KernelAndRidge:
        """Kernel and ridge, the given ones or the best ones, for regressions on so many rows."""
        kernels = self._kernels()
        ridges = None if self.regularisation is None else (self.rule.ridge(self.regularisation) * rows,)
        if ridges is not None and len(kernels) == 1:
            choice = KernelAndRidge(kernels[0], ridges[0], float("nan"))
        else:
            n = len(self.table_)
            choice = choose_kernel_and_ridge(
                *self.table_.tuning,
                kernels,
                ridges,
                weights=None if prior.gamma is None else n * np.maximum(prior.gamma, 0),
                score_weights=None if prior.score is None else n * prior.score,
                centred=self.centred,
                near=near_best_rule,
            )
        if isinstance(self.kernel, str):
            self.bandwidth_ = float(getattr(choice.kernel, "bandwidth", np.inf))
        return choice

    def _kernels(self) -> list[Kernel]:
        """The kernels among which is chosen."""
        if not isinstance(self.kernel, str):
            return [self.kernel]
        family = FAMILIES[self.kernel]
        if self.bandwidth == "bayesian":
            return [learn_lengthscale(self.table_.tuning[0]).kernel]
        if self.bandwidth is not None and self.bandwidth != "median":
            return [family(float(self.bandwidth))]
        median = median_heuristic(self.table_.tuning[0])
        if self.bandwidth == "median":
            return [family(median)]
        kernels: list[Kernel] = [family(s * median) for s in SCALES]
        # Centred and with its ridge, this is what a Gaussian kernel tends to as its bandwidth grows.
        limit = family is Gaussian and self.centred and not isinstance(self._solver(), RandomFeatures)
        return [*kernels, Linear()] if limit else kernels

    def _regularisation(self, ridge: float) -> float:
        """The given one, or that of the rule which corresponds to the ridge that was chosen."""
        if self.regularisation is not None:
            return float(self.regularisation)
        return self.rule.regularisation(ridge, self._spectrum())

    def _spectrum(
        self,
        *,
        # Rows from which the spectrum is known.
        most: int = 1000,
    ) -> np.ndarray:
        """Eigenvalues of D^(1/2) G D^(1/2), of at most 1000 rows."""
        x, gamma = self.table_.tuning[0], self._prior.gamma
        rows = spread_out(len(x), most)
        share = np.ones(len(rows)) if gamma is None else np.maximum(gamma, 0)[rows]
        root = np.sqrt(share / share.sum())
        gram = self.kernel_(x[rows])
        if self.centred:
            gram = centred_gram(gram, root**2)
        return np.maximum(eigvalsh(root[:, None] * gram * root), 0)

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        self.table_.check_weights(len(x))
        weights = self._operator.weights(x)
        if self._centre is not None:
            # Centred features leave the sum of weights open: it is taken off, and the base has sum one.
            weights = weights - weights.sum(axis=1, keepdims=True) * self._centre + self._base
        return RowWeights(weights)

    def means(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Conditional means of values, without the weights of all rows.

        Parameters
        ----------
        x : ndarray of shape (k, q)
            Statistics in the scale of the table.
        values : ndarray of shape (n, t)
            Of the fitted rows.

        Returns
        -------
        ndarray of shape (k, t)
        """
        with self._threads():
            found = self._operator.means(x, np.column_stack([values, np.ones(len(values))]))
        means, total = found[:, :-1], found[:, -1:]
        if self._centre is not None:
            means = means - total * (self._centre @ values) + self._base @ values
        return means


# --- estimators with a prior given by draws ---


class WithPrior(RuleEstimator):
    """A conditional mean under a prior that is given by draws."""

    # Shapes: prior (l, p), or pair of such and of weights of shape (l,).

    takes_draws = True

    def __init__(
        self,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        prior: Any = None,
        prior_regularisation: float | None = None,
        kernel: str | Kernel = "gaussian",
        solver: str | Solver = "auto",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_kernel: Kernel | None = None,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.kernel = kernel
        self.solver = solver
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth
        self.prior = prior
        self.prior_regularisation = prior_regularisation
        self.parameter_kernel = parameter_kernel

    def _check(self, n: int, streamed: bool) -> None:
        super()._check(n, streamed)
        if self.prior_regularisation is not None:
            positive("prior_regularisation", self.prior_regularisation)
        if self.parameter_kernel is not None:
            check_kernel("parameter_kernel", self.parameter_kernel)
            if isinstance(self.parameter_kernel, str):
                raise TypeError(
                    f"parameter_kernel is {shown(self.parameter_kernel)}; give a kernel with its "
                    "bandwidth, or a parameter_bandwidth"
                )
        if self.prior is not None:
            weighted_draws(self.prior)
        if streamed and (self.prior is not None or not self.centred):
            raise ValueError(
                "weights of a prior need the table in memory, and these rows are read a part at a time; load "
                "some of them (`stored.load(20_000)`), or leave `prior` out and `centred` on"
            )

    def _parameter_kernel(self) -> Kernel:
        return super()._parameter_kernel() if self.parameter_kernel is None else self.parameter_kernel

    def _prior_weights(self, rng: np.random.Generator) -> PriorWeights:
        if self.table_.ratio is not None:
            return super()._prior_weights(rng)
        given = self._draws()
        # A ratio that is regularised towards one is one where the prior is the table's own.
        if given is None and self.centred:
            return PriorWeights()
        return self._estimated_weights(given, rng)

    def _draws(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Draws of the prior with their weights, given to `fit` or to the constructor."""
        if self.table_.draws is not None or self.prior is None:
            return self.table_.draws
        draws, weights = weighted_draws(self.prior, self.names_.parameters)
        check_prior(draws, weights, self.table_.parameters)
        return draws, weights

    def _estimated_weights(
        self, given: tuple[np.ndarray, np.ndarray] | None, rng: np.random.Generator
    ) -> PriorWeights:
        """Weights of the rows by the kernel sum rule."""
        theta, n, success = self.table_.parameters, len(self.table_), self.table_.success
        draws, weights = (theta, np.full(n, 1 / n)) if given is None else given
        if given is not None and success is not None:
            draws, weights = success.seen(given)
        fixed = self.parameter_kernel is not None or self.parameter_bandwidth is not None
        kernel = self.parameter_kernel_ if fixed else None
        choice = ratio_settings(theta, draws, weights, self.centred, kernel, self.prior_regularisation)
        support = self.table_.support
        return PriorWeights.of_draws(
            draws, weights, theta, support, choice, self.centred, self._solver(), rng
        )
