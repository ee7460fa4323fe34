"""Another prior for a table: the weights with which its rows represent it.

The only place that estimates a density ratio. A prior comes as a ratio known at each row, or as draws.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.linalg import pinvh

from pymc_kbr.arrays.names import parameters_by_name
from pymc_kbr.arrays.rows import as_rows, check_range
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.embedding.density_ratio import (
    RATIO_REGULARISATIONS,
    RatioChoice,
    candidate_kernels,
    choose_ratio,
    kulsif,
)
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.gram import Auto, DivideAndConquer, Gram, Solver, Subsample
from pymc_kbr.kernels import Kernel


@dataclass(frozen=True, eq=False)
class PriorWeights:
    """How the rows represent the prior; each of shape (n,), or None where they are a sample of it."""

    gamma: np.ndarray | None = None
    base: np.ndarray | None = None
    score: np.ndarray | None = None
    settings: dict[str, float] = field(default_factory=dict)
    gram: Gram | None = None
    prior: Embedding | None = None

    @classmethod
    def of_ratio(cls, ratio: np.ndarray) -> PriorWeights:
        """From the density ratio (n,) at each row."""
        gamma = ratio / ratio.sum()
        return cls(gamma, gamma)

    @classmethod
    def of_draws(
        cls,
        draws: np.ndarray,
        weights: np.ndarray,
        theta: np.ndarray,
        support: Support,
        choice: RatioChoice,
        centred: bool,
        solver: Solver,
        rng: np.random.Generator,
        *,
        # eta of the weights of the prior itself: small, since what they weight is averaged.
        regularisation_of_prior: float = 1e-5,
    ) -> PriorWeights:
        """From draws (l, p) with weights (l,) of either sign: the kernel sum rule."""
        # Shapes: draws, weights (l, p), (l,); theta (n, p).
        kernel, eta = choice.kernel, choice.regularisation
        if isinstance(solver, Subsample | DivideAndConquer):  # the ratio is one for all rows
            solver = Auto()
        gram = solver.gram(kernel, theta, rng, len(theta) * eta)
        prior = Embedding(Atoms(draws, kernel), weights / weights.sum() if centred else weights)
        inside = support.contains(theta)
        gamma: np.ndarray = np.where(inside, kulsif(gram, prior, eta, centred), 0.0)
        settings = {
            "prior_regularisation": eta,
            "prior_total": float(gamma.sum()),
            "prior_negative_share": float(np.maximum(-gamma, 0).sum() / np.abs(gamma).sum()),
            "ratio_effective_sample_size": float(gamma.sum() ** 2 / (gamma @ gamma)),
        }
        if not centred:
            return cls(gamma, settings=settings, gram=gram, prior=prior)
        least = min(eta, regularisation_of_prior)
        nearest: np.ndarray = np.where(inside, kulsif(gram, prior, least, centred), 0.0)
        own = inside / inside.sum()
        mean, share = shrunk_mean(draws, weights / weights.sum(), theta, own)
        settings["prior_shrinkage"] = float(share.max())
        near = np.maximum(gamma, 0)
        base = with_mean(nearest / nearest.sum(), theta, near / near.sum(), mean)
        # The less a ratio is regularised the nearer errors weighted with it are to those under the prior, and
        # the noisier: between the two is flattened importance weighting.
        score = np.sqrt(np.maximum(gamma, 0) * np.maximum(nearest, 0))
        return cls(gamma / gamma.sum(), base, score, settings, gram, prior)


def ratio_settings(
    theta: np.ndarray,
    draws: np.ndarray,
    weights: np.ndarray,
    centred: bool,
    kernel: Kernel | None = None,
    regularisation: float | None = None,
) -> RatioChoice:
    """Kernel and eta of the prior's weights: the given ones, and those with the best leave-one-out score."""
    if kernel is not None and regularisation is not None:
        return RatioChoice(kernel, float(regularisation), float("nan"))
    kernels: Sequence[Kernel] = candidate_kernels(theta) if kernel is None else [kernel]
    etas = RATIO_REGULARISATIONS if regularisation is None else (regularisation,)
    share = None if np.ptp(weights) == 0 else weights / weights.sum()
    return choose_ratio(theta, draws, kernels, etas, centred, share)


def ratio_of_draws(theta: np.ndarray, prior: Any, support: Support, rng: np.random.Generator) -> np.ndarray:
    """The density ratio of a prior, known by draws, at rows theta (n, p), of mean about one: (n,)."""
    draws, weights = weighted_draws(prior)
    check_prior(draws, weights, theta)
    choice = ratio_settings(theta, draws, weights, centred=True)
    n = len(theta)
    gram = Auto().gram(choice.kernel, theta, rng, n * choice.regularisation)
    embedded = Embedding(Atoms(draws, choice.kernel), weights / weights.sum())
    ratio = n * np.maximum(kulsif(gram, embedded, choice.regularisation, centred=True), 0)
    return np.where(support.contains(theta), ratio, 0.0)


def shrunk_mean(
    draws: np.ndarray, weights: np.ndarray, theta: np.ndarray, own: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The prior's mean (p,), moved towards the table's as far as both are unsure; and these shares (p,)."""
    # Shapes: draws, weights (l, p), (l,); theta, own (n, p), (n,).
    ours, mean = own @ theta, weights @ draws
    concentration = float(weights @ weights)  # one over the number of equal draws
    if concentration >= 1:  # of one draw nothing is known, not even how unsure it is
        return ours, np.ones(len(ours))
    # s^2 / l with the unbiased variance; weights of either sign may make it negative.
    a = np.maximum(weights @ (draws - mean) ** 2, 0) * concentration / (1 - concentration)
    b = own @ (theta - ours) ** 2 * float(own @ own)
    # Of a constant column's squared errors rounding leaves something, which says nothing of the others.
    rounding = 16 * np.finfo(float).eps * np.maximum(np.abs(ours), np.abs(mean))
    apart, varies = np.abs(mean - ours), a + b > rounding**2
    excess = max(1.0, float(np.mean(apart[varies] ** 2 / (a + b)[varies]))) if np.any(varies) else 1.0
    share = np.divide(a, a + b, out=np.zeros_like(a), where=varies) / excess
    limit = np.divide(np.sqrt(a), apart, out=np.ones_like(a), where=apart > 0)
    share = np.minimum(share, limit)
    return mean + share * (ours - mean), share


def with_mean(base: np.ndarray, theta: np.ndarray, near: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Weights (n,) tilted linearly so that parameters (n, p) have that mean (p,)."""
    apart, same = theta - near @ theta, np.ptp(theta[near > 0], axis=0) == 0
    apart[:, same] = 0.0
    covariance = apart.T @ (near[:, None] * apart)
    unit = np.sqrt(np.diag(covariance))
    unit[same] = 1.0
    inverse = pinvh(covariance / np.outer(unit, unit), rtol=1e-8)
    # Weights that add up to nothing, and whose mean is what the base's mean lacks.
    return base + near * ((apart / unit) @ inverse @ ((mean - base @ theta) / unit))


def check_prior(
    draws: np.ndarray,
    weights: np.ndarray,
    parameters: np.ndarray,
    *,
    # Share of a prior beyond the table's rows, in one parameter, from which a warning is given.
    beyond_rows: float = 0.1,
) -> None:
    """Refuse a prior that is no other prior of the table's parameters."""
    # Shapes: draws, weights (l, p), (l,); parameters (n, p).
    if draws.shape[1] != parameters.shape[1]:
        raise ValueError(
            f"the prior has {draws.shape[1]} parameters; the table has {parameters.shape[1]}, and both must "
            "be the same"
        )
    if not np.any(np.ptp(draws[weights != 0], axis=0) > 0):
        raise ValueError(
            f"the prior has {len(draws)} draw(s), and less than two different ones of them carry weight; one "
            "point tells nothing of a density: give more draws, a few hundred at best"
        )
    beyond = (draws < parameters.min(axis=0)) | (draws > parameters.max(axis=0))
    share = np.abs(weights) @ beyond / np.abs(weights).sum()
    column = int(np.argmax(share))
    # Of the table's own prior two draws in n + 1 lie beyond n rows.
    if share[column] <= beyond_rows + 2 / (len(parameters) + 1):
        return
    where = (
        f"{share[column]:.0%} of the prior lies beyond the table's rows in the parameter of column {column}, "
        f"which are between {parameters[:, column].min():.4g} and {parameters[:, column].max():.4g}"
    )
    if np.all(beyond[weights != 0, column]):
        raise ValueError(f"{where}; nothing was simulated there: simulate a table from this prior")
    warnings.warn(
        f"{where}: little was simulated there, and this part of the prior plays next to no part in the "
        "posterior; simulate a table from this prior, or narrow it",
        UserWarning,
        stacklevel=users_line(),
    )


def weighted_draws(prior: Any, names: Sequence[str] | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Draws (l, p) and weights (l,), from draws or from a pair of both."""
    # Shapes: prior (l, p), or pair of such and of weights of shape (l,).
    draws, weights = prior if isinstance(prior, tuple) and len(prior) == 2 else (prior, None)
    draws = parameters_by_name(draws, names, "the prior's draws")
    if draws.ndim != 2 or 0 in draws.shape:
        raise ValueError(
            f"the prior's draws have shape {draws.shape}; they must be rows (l, p), or a pair of such rows "
            "and of weights (l,)"
        )
    weights = (
        np.full(len(draws), 1 / len(draws)) if weights is None else as_rows("the prior's weights", weights)
    )
    if weights.shape != (len(draws),):
        raise ValueError(f"the prior has {len(draws)} draws and weights of shape {weights.shape}")
    if not (np.all(np.isfinite(draws)) and np.all(np.isfinite(weights))):
        raise ValueError("the prior's draws or weights hold NaN or infinity")
    check_range("the prior's draws", draws)
    if not weights.sum() > 0:
        raise ValueError(f"the prior's weights sum to {weights.sum():.3g}; their sum must be above zero")
    return draws, weights
