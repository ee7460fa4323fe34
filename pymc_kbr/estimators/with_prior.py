"""What kernel Bayes' rules share: a prior of their own, known by draws."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import positive
from pymc_kbr.embedding.density_ratio import REGULARISATIONS, candidate_kernels, choose_ratio, kulsif
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.estimators.conditional_mean import ConditionalMean
from pymc_kbr.estimators.prior_weights import (
    PriorWeights,
    check_columns,
    refuse_both,
    shrunk_mean,
    weighted_draws,
    with_mean,
)
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import Auto, DivideAndConquer, Solver, Subsample
from pymc_kbr.kernels import Kernel, check_kernel

LEAST_REGULARISATION = 1e-5
"""eta of the weights that stand for the prior itself: small, since what they weight is averaged."""


class WithPrior(ConditionalMean):
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
        super().__init__(
            bandwidth,
            regularisation,
            kernel=kernel,
            solver=solver,
            centred=centred,
            scale=scale,
            parameter_bandwidth=parameter_bandwidth,
        )
        self.prior = prior
        self.prior_regularisation = prior_regularisation
        self.parameter_kernel = parameter_kernel

    def _check(self, n: int) -> None:
        super()._check(n)
        if self.prior_regularisation is not None:
            positive("prior_regularisation", self.prior_regularisation)
        if self.parameter_kernel is not None:
            check_kernel("parameter_kernel", self.parameter_kernel)
            if isinstance(self.parameter_kernel, str):
                raise TypeError(
                    f"parameter_kernel is {self.parameter_kernel!r}; give a kernel with its bandwidth, or a "
                    "parameter_bandwidth"
                )
        if self.prior is not None:
            weighted_draws(self.prior)

    def _parameter_kernel(self) -> Kernel:
        return super()._parameter_kernel() if self.parameter_kernel is None else self.parameter_kernel

    def _prior_weights(self) -> PriorWeights:
        if self.ratio_ is not None:
            refuse_both(self.prior)
            return super()._prior_weights()
        if self.prior is None and self.centred:
            return PriorWeights()
        if self._chunked:
            raise ValueError(
                "weights of a prior need the table in memory, and these rows are read a part at a time; load "
                "some of them (`stored.load(20_000)`), or leave `prior` out and `centred` on"
            )
        theta, n = self.parameters_, len(self.parameters_)
        draws, weights = (theta, np.full(n, 1 / n)) if self.prior is None else weighted_draws(self.prior)
        check_columns(draws, theta)
        kernel, eta = self._ratio_settings(draws, weights)
        self.prior_regularisation_ = eta
        solver = self._solver()
        if isinstance(solver, Subsample | DivideAndConquer):  # the ratio is one for all rows
            solver = Auto()
        gram = solver.gram(kernel, theta, self._rng, n * eta)
        prior = Embedding(Atoms(draws, kernel), weights)
        inside = self.support_.contains(theta)
        gamma: np.ndarray = np.where(inside, kulsif(gram, prior, eta, self.centred), 0.0)
        self.prior_total_ = float(gamma.sum())
        self.prior_negative_share_ = float(np.maximum(-gamma, 0).sum() / np.abs(gamma).sum())
        self.ratio_effective_sample_size_ = float(gamma.sum() ** 2 / (gamma @ gamma))
        if not self.centred:
            return PriorWeights(gamma)
        least: np.ndarray = np.where(
            inside, kulsif(gram, prior, min(eta, LEAST_REGULARISATION), self.centred), 0.0
        )
        own = inside / inside.sum()
        mean, share = shrunk_mean(draws, weights / weights.sum(), theta, own)
        self.prior_shrinkage_ = float(share.max())
        near = np.maximum(gamma, 0)
        base = with_mean(least / least.sum(), theta, near / near.sum(), mean)
        # The less a ratio is regularised the nearer errors weighted with it are to those under the prior, and
        # the noisier: between the two is flattened importance weighting.
        score = np.sqrt(np.maximum(gamma, 0) * np.maximum(least, 0))
        return PriorWeights(gamma / gamma.sum(), base, score)

    def _ratio_settings(self, draws: np.ndarray, weights: np.ndarray) -> tuple[Kernel, float]:
        """The kernel and regularisation of the prior's weights, the given ones or the best ones."""
        given = self.parameter_kernel is not None or self.parameter_bandwidth is not None
        if given and self.prior_regularisation is not None:
            return self.parameter_kernel_, float(self.prior_regularisation)
        kernels = [self.parameter_kernel_] if given else candidate_kernels(self.parameters_)
        etas = REGULARISATIONS if self.prior_regularisation is None else (self.prior_regularisation,)
        if np.ptp(weights) > 0:  # the score is one of equally weighted draws
            positive_part = np.maximum(weights, 0)
            rows = self._rng.choice(len(draws), len(draws), p=positive_part / positive_part.sum())
            draws = draws[rows]
        choice = choose_ratio(self.parameters_, draws, kernels, etas, self.centred)
        return choice.kernel, choice.regularisation
