"""What kernel Bayes' rules share: a prior of their own, known by draws."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import pinvh

from pymc_kbr.density_ratio import REGULARISATIONS, candidate_kernels, choose_ratio, kulsif
from pymc_kbr.embedding import Atoms, Embedding
from pymc_kbr.estimators.checks import positive
from pymc_kbr.estimators.conditional_mean import ConditionalMean, PriorWeights
from pymc_kbr.gram import Auto, DivideAndConquer, Solver, Subsample
from pymc_kbr.kernels import Kernel, check_kernel
from pymc_kbr.summaries import Summary

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


def shrunk_mean(
    draws: np.ndarray, weights: np.ndarray, theta: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The prior's mean (p,), moved towards the table's as far as both are unsure; and these shares (p,).

    Parameters
    ----------
    draws, weights : ndarray of shape (l, p), (l,)
        Of the prior; of sum one.
    theta, own : ndarray of shape (n, p), (n,)
        The table's parameters, and their weights, not negative and of sum one.

    Notes
    -----
    With squared standard errors a of the prior's mean and b of the table's, and with D their squared
    difference, each parameter's mean is moved by the share a / (a + b) / max(1, T), T the average of
    D / (a + b) over parameters: James and Stein's estimator in units of each parameter's own error, which
    moves little where means differ by more than chance. None is moved by more than its standard error [1]_,
    so that what is known well of one parameter is not given up for the others' sake. All vanishes as draws
    grow in number.

    References
    ----------
    .. [1] B. Efron, C. Morris, Limiting the risk of Bayes and empirical Bayes estimators, part II: the
       empirical Bayes case, Journal of the American Statistical Association 67 (1972), 130-139.
    """
    ours, mean = own @ theta, weights @ draws
    concentration = float(weights @ weights)
    if concentration >= 1:  # of one draw nothing is known, not even how unsure it is
        return ours, np.ones(len(ours))
    a = np.maximum(weights @ (draws - mean) ** 2, 0) * concentration / (1 - concentration)
    b = own @ (theta - ours) ** 2 * float(own @ own)
    apart, varies = np.abs(mean - ours), a + b > 0
    excess = max(1.0, float(np.mean(apart[varies] ** 2 / (a + b)[varies]))) if np.any(varies) else 1.0
    share = np.divide(a, a + b, out=np.zeros_like(a), where=varies) / excess
    limit = np.divide(np.sqrt(a), apart, out=np.ones_like(a), where=apart > 0)
    share = np.minimum(share, limit)
    return mean + share * (ours - mean), share


def with_mean(base: np.ndarray, theta: np.ndarray, near: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Weights (n,) changed so that parameters (n, p) have that mean (p,), by a linear tilt of weights `near`.

    Those are not negative and of sum one. A parameter that is constant where they are positive is left alone.
    """
    apart, same = theta - near @ theta, np.ptp(theta[near > 0], axis=0) == 0
    apart[:, same] = 0.0
    covariance = apart.T @ (near[:, None] * apart)
    unit = np.sqrt(np.diag(covariance))
    unit[same] = 1.0
    inverse = pinvh(covariance / np.outer(unit, unit), rtol=1e-8)
    moved: np.ndarray = base + near * ((apart / unit) @ inverse @ ((mean - base @ theta) / unit))
    return moved


def refuse_both(prior: Any) -> None:
    """Refuse a prior beside a density ratio, which says what the prior is as well."""
    if prior is not None:
        raise ValueError("the estimator has a prior and `fit` was given a density ratio; give one of the two")


def check_columns(draws: np.ndarray, parameters: np.ndarray) -> None:
    """Refuse a prior over another number of parameters than the table's."""
    if draws.shape[1] != parameters.shape[1]:
        raise ValueError(
            f"the prior has {draws.shape[1]} parameters; the table has {parameters.shape[1]}, and both must "
            "be the same"
        )


def weighted_draws(prior: Any) -> tuple[np.ndarray, np.ndarray]:
    """Draws (l, p) and weights (l,), from draws or from a pair of both.

    Raises
    ------
    ValueError
        If shapes do not fit, values are not finite or weights do not sum to more than zero.
    """
    draws, weights = prior if isinstance(prior, tuple) and len(prior) == 2 else (prior, None)
    draws = np.asarray(draws, dtype=float)
    if draws.ndim != 2 or 0 in draws.shape:
        raise ValueError(
            f"the prior's draws have shape {draws.shape}; they must be rows (l, p), or a pair of such rows "
            "and of weights (l,)"
        )
    weights = np.full(len(draws), 1 / len(draws)) if weights is None else np.asarray(weights, dtype=float)
    if weights.shape != (len(draws),):
        raise ValueError(f"the prior has {len(draws)} draws and weights of shape {weights.shape}")
    if not (np.all(np.isfinite(draws)) and np.all(np.isfinite(weights))):
        raise ValueError("the prior's draws or weights hold NaN or infinity")
    if not weights.sum() > 0:
        raise ValueError(f"the prior's weights sum to {weights.sum():.3g}; their sum must be above zero")
    return draws, weights
