"""Kernel Bayes' rule, with signed weights of the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from pymc_kbr.gram import Gram, Operator


@dataclass(frozen=True)
class SquaredRule:
    """Fukumizu's rule: the inverse of a covariance operator that need not be positive, by its square.

    Notes
    -----
    With D = diag(gamma), gamma from `sum_rule` and of either sign, eq. 13 of [1]_:

    w = D G_x ((D G_x)^2 + delta I)^-1 D k_x.

    Here gamma has the sum one; in print the weights sum to n, and delta is n^2 times as large for the same
    weights.

    On the prior's own points u_j, with Omega (n, l) of `chain_rule`, whose row sums are gamma:

    v = Omega' ((G_x D)^2 + delta I)^-1 G_x D k_x,

    which is w where Omega is D. It frees the posterior's atoms from the table's rows.

    References
    ----------
    .. [1] K. Fukumizu, L. Song, A. Gretton, Kernel Bayes' rule, JMLR 14 (2013), 3753-3783, eq. 11 to 13.
    """

    def operator(self, gram: Gram, gamma: np.ndarray | None, regularisation: float) -> Operator:
        """Eq. 13, factored: the square is not formed (see `gram`)."""
        n = gram.size
        return gram.squared(np.full(n, 1 / n) if gamma is None else gamma, regularisation)

    def ridge(self, regularisation: float) -> float:
        """The square root of delta."""
        return float(np.sqrt(regularisation))

    def regularisation(self, ridge: float, spectrum: np.ndarray) -> float:
        """Delta: of an eigenvalue a the rule keeps a^2 / (a^2 + delta), a regression a / (a + lambda)."""
        degrees = np.sum(spectrum / (spectrum + ridge))

        def excess(log_delta: float) -> float:
            return float(np.sum(spectrum**2 / (spectrum**2 + np.exp(log_delta))) - degrees)

        # At either end delta keeps all degrees of freedom or none: a root lies between.
        largest = 2 * np.log(spectrum.max())
        return float(np.exp(brentq(excess, largest - 120, largest + 120)))
