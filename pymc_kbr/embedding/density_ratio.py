"""The ratio of a prior's density to that of a table's parameters, by KuLSIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.arrays.weighted import spread_out, spread_out_by_weight
from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.embedding.rules import sum_rule
from pymc_kbr.gram import Gram
from pymc_kbr.kernels import Gaussian, Kernel, parameter_kernel

RATIO_REGULARISATIONS = tuple(10.0 ** np.arange(-5, 2.1, 0.5))
"""eta that are tried."""


@dataclass(frozen=True)
class RatioChoice:
    """A kernel, a regularisation eta, and the leave-one-out score that they reached."""

    kernel: Kernel
    regularisation: float
    score: float


def kulsif(gram: Gram, prior: Embedding, regularisation: float, centred: bool = False) -> np.ndarray:
    """Values of the density ratio at a table's rows, divided by their number, shape (n,)."""
    return sum_rule(gram, prior, gram.size * regularisation, centred)


def relative_ratio(
    kernel: Kernel, parameters: np.ndarray, prior: Embedding, regularisation: float, share: float
) -> np.ndarray:
    """The prior's density over that of a mixture of prior and table, at a table's rows: at most 1 / share."""
    # Shapes: parameters (n, p); returned: (n,).
    # The least-squares fit of r = pi / (share pi + (1 - share) p) in the kernel's space, by draws of both: M.
    # Yamada et al., NIPS (2011); L. Xu et al., arXiv:2202.02474 (2022), section 6. Share 0: n times `kulsif`.
    if not 0 <= share < 1:
        raise ValueError(f"share is {shown(share)}; it is a share of the prior, from 0 to below 1")
    draws, weights, n = prior.atoms.points, prior.weights, len(parameters)
    if np.any(weights < 0):
        raise ValueError("the prior's weights are negative in part; the mixture needs a distribution")
    # The operator sum_i b_i k(., w_i) k(., w_i)' of the mixture, on draws of both.
    points = np.vstack([parameters, draws])
    b = np.concatenate([np.full(n, (1 - share) / n), share * weights])
    gram = kernel(points)
    system = b[:, None] * gram + regularisation * np.eye(len(points))
    # r = (sum_i b_i k_i k_i' + eta I)^-1 sum_j a_j k_j has the coefficients (B K + eta I)^-1 c.
    return gram[:n] @ np.linalg.solve(system, np.concatenate([np.zeros(n), weights]))


def leave_one_out_scores(
    kernel: Kernel,
    parameters: np.ndarray,
    prior: np.ndarray,
    regularisations: Sequence[float],
    centred: bool = False,
    weights: np.ndarray | None = None,
) -> np.ndarray:
    """KuLSIF's leave-one-out scores in closed form, one for each regularisation; low is good."""
    # Shapes: parameters (n, p); prior (l, p); weights (l,).
    n, pairs = len(parameters), min(len(parameters), len(prior))
    a = np.full(len(prior), 1 / len(prior)) if weights is None else weights
    gram, cross, own = kernel(parameters), kernel(parameters, prior), kernel(prior)
    values, vectors = eigh(gram, driver="evd")
    first = np.arange(pairs)
    kept = 1 - a[:pairs]  # what the other draws' weights sum to
    at_rows = ((cross @ a)[:, None] - cross[:, :pairs] * a[:pairs]) / kept
    at_draws = ((a @ own)[:pairs] - own[first, first] * a[:pairs]) / kept
    if centred:
        at_rows -= (gram.sum(axis=1)[:, None] - gram[:, :pairs]) / (n - 1)
        at_draws -= (cross.sum(axis=0)[:pairs] - cross[first, first]) / (n - 1)
    share = a[:pairs] / a[:pairs].sum()
    scores = []
    for eta in regularisations:
        inverse = (vectors / (np.maximum(values, 0) + (n - 1) * eta)) @ vectors.T
        solved = inverse @ at_rows
        k_inverse = cross[:, :pairs].T @ inverse
        left_out = solved[first, first] / np.diag(inverse)[:pairs]
        r_rows = left_out / eta
        through = np.einsum("ij,ji->i", k_inverse, at_rows)
        r_draws = (at_draws - through + k_inverse[first, first] * left_out) / eta
        if centred:
            r_rows, r_draws = 1 + r_rows, 1 + r_draws
        scores.append(float(np.mean(0.5 * r_rows**2) - share @ r_draws))
    return np.array(scores)


def choose_ratio(
    parameters: np.ndarray,
    prior: np.ndarray,
    kernels: Sequence[Kernel],
    regularisations: Sequence[float] = RATIO_REGULARISATIONS,
    centred: bool = False,
    weights: np.ndarray | None = None,
    # Rows of the table and draws of the prior on which the choice is made.
    most: int = 500,
) -> RatioChoice:
    """The kernel and eta with the lowest leave-one-out score, on at most `most` rows and draws."""
    theta, u, a = parameters[spread_out(len(parameters), most)], prior, weights
    if weights is None:
        u = prior[spread_out(len(prior), most)]
    else:
        prior, weights = prior[weights != 0], weights[weights != 0]
        rows, counts = spread_out_by_weight(np.abs(weights), most)
        # How often a row was taken stands for its size.
        a = np.sign(weights[rows]) * counts
        if not a.sum() > 0:
            raise ValueError(
                f"the prior's weights are negative as often as positive (their sum is {weights.sum():.3g}, "
                f"that of their sizes {np.abs(weights).sum():.3g}); no regularisation can be chosen on them: "
                "give `prior_regularisation` and `parameter_bandwidth`"
            )
        u, a = prior[rows], a / a.sum()

    def best(kernel: Kernel) -> RatioChoice:
        scores = leave_one_out_scores(kernel, theta, u, regularisations, centred, a)
        lowest = int(np.argmin(scores))
        return RatioChoice(kernel, float(regularisations[lowest]), float(scores[lowest]))

    with parallel_map(len(kernels)) as each:
        return min(each(best, kernels), key=lambda choice: choice.score)


def candidate_kernels(
    parameters: np.ndarray,
    *,
    # Bandwidths on the parameters that are tried, as multiples of the median heuristic.
    ratio_scales: tuple[float, ...] = tuple(2.0 ** np.arange(-1, 4)),
) -> list[Kernel]:
    """Gaussian kernels on parameters (n, p) at multiples of the median heuristic, to choose among."""
    median = np.array(parameter_kernel(parameters).bandwidth)
    return [Gaussian(tuple((scale * median).tolist())) for scale in ratio_scales]
