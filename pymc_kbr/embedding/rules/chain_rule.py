"""The kernel chain rule: a prior and a conditional embedding become a joint one."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.gram import Gram


def chain_rule(gram: Gram, prior: Embedding, ridge: float, centred: bool = False) -> np.ndarray:
    """Weights of pairs (x_i, u_j) for which they have the embedding of the joint distribution.

    Parameters
    ----------
    gram : Gram
        G_theta.
    prior : Embedding
        sum_j a_j k(., u_j), in the kernel of `gram`.
    ridge : float
        n * eta.
    centred : bool
        See `sum_rule`.

    Returns
    -------
    ndarray of shape (n, l)
        Omega = (G_theta + n eta I)^-1 K diag(a), with K_ij = k(theta_i, u_j); `centred`, the same of K less
        the table's own embedding at each row, plus a_j / n. Its row sums are the weights of `sum_rule`.

    References
    ----------
    .. [1] L. Song, K. Fukumizu, A. Gretton, Kernel embeddings of conditional distributions, IEEE
       Signal Processing Magazine 30 (2013), 98-111.
    """
    cross = gram.cross(prior.atoms.points)
    if not centred:
        return gram.regularised(ridge).solve(cross) * prior.weights
    own = np.full(gram.size, 1 / gram.size)
    return (own[:, None] + gram.regularised(ridge).solve(cross - gram.apply(own)[:, None])) * prior.weights
