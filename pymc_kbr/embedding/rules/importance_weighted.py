"""Importance-weighted kernel Bayes' rule, and the conditional mean embedding, which is its special case."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_kbr.gram import Gram, Operator


@dataclass(frozen=True)
class ImportanceWeighted:
    """Ridge regression of the parameters' features, each row weighted with the prior's density ratio.

    Notes
    -----
    Algorithm 1 of Xu 2022 [1]_, from rows (theta_i, x_i), the prior's embedding and an observation x:

    1. gamma = (G_theta + n eta I)^-1 g, g_i = sum_j a_j k(theta_i, u_j): the density ratio (`sum_rule`).
    2. D = diag(max(gamma, 0)).
    3. w = D^(1/2) (D^(1/2) G_x D^(1/2) + lambda I)^-1 D^(1/2) k_x; the posterior is sum_i w_i k(., theta_i).

    Here gamma has the sum one. In print it is the ratio itself, n times as large: its lambda is n times the
    one here for the same weights. With gamma = 1 / n this is the conditional mean embedding, w = (G_x + n
    lambda I)^-1 k_x, eq. 1 of the localised draft.

    References
    ----------
    .. [1] L. Xu, Y. Chen, A. Doucet, A. Gretton, Importance weighting approach in kernel Bayes' rule,
       arXiv:2202.02474 (2022).
    """

    def operator(self, gram: Gram, gamma: np.ndarray | None, regularisation: float) -> Operator:
        """Step 3, factored: n G_x beside n lambda, so that rows of equal weight need no scale."""
        n = gram.size
        if gamma is None:
            return gram.regularised(n * regularisation)
        return gram.regularised(n * regularisation, np.sqrt(n * np.maximum(gamma, 0)))

    def ridge(self, regularisation: float) -> float:
        """Lambda itself."""
        return regularisation

    def regularisation(self, ridge: float, spectrum: np.ndarray) -> float:
        """Lambda itself."""
        return ridge
