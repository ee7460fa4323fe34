"""The kernel sum rule: weights of a table's rows that stand for a prior."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.gram import Gram


def sum_rule(gram: Gram, prior: Embedding, ridge: float, centred: bool = False) -> np.ndarray:
    """Weights of the table's rows for which they have the embedding that follows from a prior.

    Parameters
    ----------
    gram : Gram
        G_theta.
    prior : Embedding
        sum_j a_j k(., u_j), in the kernel of `gram`.
    ridge : float
        n * eta.
    centred : bool
        Whether the weights' difference from 1 / n is what is regularised: as eta grows they then tend to 1 /
        n, otherwise to zero.

    Returns
    -------
    ndarray of shape (n,)
        gamma = (G_theta + n eta I)^-1 g, with g_i = sum_j a_j k(theta_i, u_j); `centred`, the same of g less
        the table's own embedding, plus 1 / n. On the statistics, sum_i gamma_i l(., x_i) embeds what the
        prior predicts.

    References
    ----------
    .. [1] K. Fukumizu, L. Song, A. Gretton, Kernel Bayes' rule, JMLR 14 (2013), 3753-3783, eq. 11
       (there n times as large).
    """
    if not centred:
        return gram.regularised(ridge).solve(prior_values(gram, prior))
    own = np.full(gram.size, 1 / gram.size)
    return own + gram.regularised(ridge).solve(prior_values(gram, prior) - gram.apply(own))


def prior_values(gram: Gram, prior: Embedding, block: int = 1024) -> np.ndarray:
    """The prior's embedding at the rows, g_i = sum_j a_j k(theta_i, u_j), shape (n,)."""
    points, weights = prior.atoms.points, prior.weights
    return sum(  # type: ignore[return-value]
        gram.cross(points[j : j + block]) @ weights[j : j + block] for j in range(0, len(points), block)
    )
