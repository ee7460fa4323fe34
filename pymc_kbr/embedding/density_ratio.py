"""The ratio of a prior's density to that of a table's parameters, by KuLSIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.rules import prior_values, sum_rule
from pymc_kbr.gram import Auto, Gram
from pymc_kbr.kernels import Gaussian, Kernel, parameter_kernel

REGULARISATIONS = tuple(10.0 ** np.arange(-5, 2.1, 0.5))
"""eta that are tried."""

SCALES = tuple(2.0 ** np.arange(-1, 4))
"""Bandwidths on the parameters that are tried, as multiples of the median heuristic."""

MOST_ROWS = 500
"""Rows of the table and draws of the prior on which the choice is made."""


@dataclass(frozen=True)
class RatioChoice:
    """A kernel, a regularisation eta, and the leave-one-out score that they reached."""

    kernel: Kernel
    regularisation: float
    score: float


def kulsif(gram: Gram, prior: Embedding, regularisation: float, centred: bool = False) -> np.ndarray:
    """Values of the density ratio at a table's rows, divided by their number, shape (n,).

    Parameters
    ----------
    gram : Gram
        G, of the parameters.
    prior : Embedding
        Of the new prior, in the same kernel.
    regularisation : float
        eta.
    centred : bool
        Whether the ratio's difference from one is what is regularised: the weights then tend to 1 / n
        as eta grows, otherwise to zero.

    Notes
    -----
    gamma = (G + n eta I)^-1 g, of either sign, the kernel sum rule's weights; `centred`, that of g
    less the table's own embedding, plus 1 / n.

    References
    ----------
    .. [1] T. Kanamori, T. Suzuki, M. Sugiyama, Statistical analysis of kernel-based least-squares
       density-ratio estimation, Machine Learning 86 (2012), 335-367.
    """
    n = gram.size
    if not centred:
        return sum_rule(gram, prior, n * regularisation)
    own = np.full(n, 1 / n)
    return own + gram.regularised(n * regularisation).solve(prior_values(gram, prior) - gram.apply(own))


def leave_one_out_scores(
    kernel: Kernel,
    parameters: np.ndarray,
    prior: np.ndarray,
    regularisations: Sequence[float],
    centred: bool = False,
) -> np.ndarray:
    """KuLSIF's leave-one-out scores in closed form, one for each regularisation; low is good.

    Parameters
    ----------
    kernel : Kernel
    parameters : ndarray of shape (n, p)
    prior : ndarray of shape (l, p)
        Equally weighted draws.
    regularisations : sequence of float
    centred : bool
        See `kulsif`.

    Notes
    -----
    The mean over pairs i of r(theta_i)^2 / 2 - r(u_i), with r estimated without the pair (theta_i,
    u_i). With M = (G + (n - 1) eta I)^-1 and h the embeddings' difference at the rows without that
    pair, eta r(theta_i) = (M h)_i / M_ii and eta r(u_i) = h(u_i) - k_i' M h + (M k_i)_i (M h)_i / M_ii.
    """
    n, pairs = len(parameters), min(len(parameters), len(prior))
    gram, cross, own = kernel(parameters), kernel(parameters, prior), kernel(prior)
    values, vectors = eigh(gram, driver="evd")
    first = np.arange(pairs)
    at_rows = (cross.sum(axis=1)[:, None] - cross[:, :pairs]) / (len(prior) - 1)
    at_draws = (own.sum(axis=0)[:pairs] - own[first, first]) / (len(prior) - 1)
    if centred:
        at_rows -= (gram.sum(axis=1)[:, None] - gram[:, :pairs]) / (n - 1)
        at_draws -= (cross.sum(axis=0)[:pairs] - cross[first, first]) / (n - 1)
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
        scores.append(float(np.mean(0.5 * r_rows**2 - r_draws)))
    return np.array(scores)


def choose_ratio(
    parameters: np.ndarray,
    prior: np.ndarray,
    kernels: Sequence[Kernel],
    regularisations: Sequence[float] = REGULARISATIONS,
    centred: bool = False,
    most: int = MOST_ROWS,
) -> RatioChoice:
    """The kernel and eta with the lowest leave-one-out score, on at most `most` rows and draws."""
    theta, u = parameters[spread_out(len(parameters), most)], prior[spread_out(len(prior), most)]

    def best(kernel: Kernel) -> RatioChoice:
        scores = leave_one_out_scores(kernel, theta, u, regularisations, centred)
        lowest = int(np.argmin(scores))
        return RatioChoice(kernel, float(regularisations[lowest]), float(scores[lowest]))

    with side_by_side(len(kernels)) as each:
        return min(each(best, kernels), key=lambda choice: choice.score)


def candidate_kernels(parameters: np.ndarray) -> list[Kernel]:
    """Gaussian kernels on parameters (n, p) at multiples of the median heuristic, to choose among."""
    median = np.array(parameter_kernel(parameters).bandwidth)
    return [Gaussian(tuple((scale * median).tolist())) for scale in SCALES]


def estimated_ratio(parameters: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The density ratio of a prior, known by draws (l, p), at a table's rows, of mean about one: (n,).

    KuLSIF towards one, with kernel and regularisation chosen by leave-one-out; where the estimate is
    negative it is cut off at zero.
    """
    choice = choose_ratio(parameters, draws, candidate_kernels(parameters), centred=True)
    n = len(parameters)
    gram = Auto().gram(choice.kernel, parameters, rng, n * choice.regularisation)
    prior = Embedding(Atoms(draws, choice.kernel), np.full(len(draws), 1 / len(draws)))
    return n * np.maximum(kulsif(gram, prior, choice.regularisation, centred=True), 0)
