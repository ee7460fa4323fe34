"""Kernel sum, chain and Bayes rules: from embeddings and a table's Gram matrices to embeddings.

Rows i of a table are simulations (theta_i, x_i); G_theta and G_x are the Gram matrices of both sides.
"""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.embedding.preimage import mode
from pymc_kbr.gram import Gram, Operator


def sum_rule(gram: Gram, prior: Embedding, ridge: float, raised: list[int] | None = None) -> np.ndarray:
    """Weights of the table's rows for which they have the embedding that follows from a prior.

    Parameters
    ----------
    gram : Gram
        G_theta.
    prior : Embedding
        sum_j a_j k(., u_j), in the kernel of `gram`.
    ridge : float
        n * eta.
    raised : list of int, optional
        Receives how many times the ridge was raised.

    Returns
    -------
    ndarray of shape (n,)
        gamma = (G_theta + n eta I)^-1 g, with g_i = sum_j a_j k(theta_i, u_j). On the statistics,
        sum_i gamma_i l(., x_i) embeds what the prior predicts.

    References
    ----------
    .. [1] K. Fukumizu, L. Song, A. Gretton, Kernel Bayes' rule, JMLR 14 (2013), 3753-3783, eq. 11
       (there n times as large).
    """
    operator = gram.regularised(ridge)
    if raised is not None:
        raised.append(operator.raised)
    return operator.solve(prior_values(gram, prior))


def chain_rule(gram: Gram, prior: Embedding, ridge: float) -> np.ndarray:
    """Weights of pairs (x_i, u_j) for which they have the embedding of the joint distribution.

    Returns
    -------
    ndarray of shape (n, l)
        (G_theta + n eta I)^-1 K diag(a), with K_ij = k(theta_i, u_j); its row sums are those of
        `sum_rule`.

    References
    ----------
    .. [1] L. Song, K. Fukumizu, A. Gretton, Kernel embeddings of conditional distributions, IEEE
       Signal Processing Magazine 30 (2013), 98-111.
    """
    return gram.regularised(ridge).solve(gram.cross(prior.atoms.points)) * prior.weights


def bayes_rule(gram: Gram, gamma: np.ndarray, delta: float) -> Operator:
    """Kernel Bayes' rule: from an observation's kernel values to weights of the rows.

    Parameters
    ----------
    gram : Gram
        G_x.
    gamma : ndarray of shape (n,)
        Weights of the prior (see `sum_rule`), of either sign.
    delta : float

    Notes
    -----
    w = D G_x ((D G_x)^2 + delta I)^-1 D k_x with D = diag(gamma), eq. 13 of Fukumizu 2013 for weights
    of sum one; there they sum to n, and delta is n^2 times as large.
    """
    return gram.squared(gamma, delta)


def importance_weighted_bayes_rule(gram: Gram, gamma: np.ndarray, regularisation: float) -> Operator:
    """Importance-weighted kernel Bayes' rule.

    Notes
    -----
    w = D^(1/2) (D^(1/2) G_x D^(1/2) + lambda I)^-1 D^(1/2) k_x with D = diag(max(gamma, 0)), Algorithm
    1 of Xu 2022 for weights of sum one.
    """
    return gram.regularised(regularisation, np.sqrt(np.maximum(gamma, 0)))


def bayes_average(function: Embedding, posterior: Embedding) -> float:
    """The posterior expectation of a function of the kernel's space: sum_ij b_i w_j k(y_i, theta_j)."""
    return function.inner(posterior)


def posterior_decoding(posterior: Embedding, starts: int = 5) -> np.ndarray:
    """The point y that minimises k(y, y) - 2 sum_i w_i k(theta_i, y), shape (p,): see `preimage`."""
    return mode(posterior, starts)


def prior_values(gram: Gram, prior: Embedding, block: int = 1024) -> np.ndarray:
    """The prior's embedding at the rows, g_i = sum_j a_j k(theta_i, u_j), shape (n,)."""
    points, weights = prior.atoms.points, prior.weights
    return sum(  # type: ignore[return-value]
        gram.cross(points[j : j + block]) @ weights[j : j + block] for j in range(0, len(points), block)
    )


__all__ = [
    "bayes_average",
    "bayes_rule",
    "chain_rule",
    "importance_weighted_bayes_rule",
    "posterior_decoding",
    "prior_values",
    "sum_rule",
]
