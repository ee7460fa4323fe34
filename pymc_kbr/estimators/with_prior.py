"""What kernel Bayes' rules share: a prior of their own, known by draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import positive, shown
from pymc_kbr.estimators.prior_weights import PriorWeights, check_prior, ratio_settings, weighted_draws
from pymc_kbr.estimators.rule_estimator import RuleEstimator
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import Solver
from pymc_kbr.kernels import Kernel, check_kernel


class WithPrior(RuleEstimator):
    """A conditional mean under a prior that is given by draws.

    Parameters
    ----------
    prior : ndarray of shape (l, p), or pair of such and of weights of shape (l,), optional
        Draws of the prior, or draws with weights of either sign; the table's own parameters where left
        out.
    bandwidth, kernel, solver, centred, scale
        As in `ConditionalMean`; `centred` also regularises the density ratio towards one instead of zero.
    regularisation : float, optional
        lambda, or delta: see the rule. Chosen with the bandwidth where left out.
    prior_regularisation : float, optional
        eta, of the prior's weights. Where left out, that of `choose_ratio`, by leave-one-out scores.
    parameter_kernel : Kernel, optional
        On the parameters, for the prior's weights and the posterior's embedding.
    parameter_bandwidth : float, optional
        Of a Gaussian kernel in its place, in standard deviations of each parameter over the table.
        Where both are left out, the prior's weights take a multiple of the median heuristic, chosen with
        eta.
    """

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
        """Weights of the rows by the kernel sum rule.

        Of the table's own parameters where no draws are given.
        """
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
