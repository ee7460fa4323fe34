"""Kernel Bayes' rule."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigvalsh
from scipy.optimize import brentq

from pymc_kbr.arrays.subsample import ROWS_FOR_CHOICES, spread_out
from pymc_kbr.embedding.rules import bayes_rule
from pymc_kbr.estimators.prior_weights import PriorWeights
from pymc_kbr.estimators.with_prior import WithPrior
from pymc_kbr.gram import Auto, Gram, Operator, Solver
from pymc_kbr.gram.dense import centred_gram

AUTO = Auto(memory=1.28e8)
"""What "auto" is here: exact up to 4,000 rows, where the complex factorisation takes some seconds."""


class KernelBayes(WithPrior):
    """Fukumizu's kernel Bayes' rule: two regressions, with signed weights of the prior.

    Parameters
    ----------
    prior, prior_regularisation, parameter_kernel, parameter_bandwidth
        See `WithPrior`.
    bandwidth, kernel, solver, centred, scale
        See `WithPrior`; "auto" is exact up to 4,000 rows, and incomplete Cholesky above.
    regularisation : float, optional
        delta. Where left out, that with as many degrees of freedom as the best regression weighted with
        the positive part of the prior's weights has: of an eigenvalue a of D G the rule keeps a^2 /
        (a^2 + delta), that regression a / (a + lambda).

    Notes
    -----
    w = D G ((D G)^2 + delta I)^-1 D k(x) with D = diag(gamma), gamma = (G_theta + n eta I)^-1 g_prior of sum
    about one: eq. 11 to 13 of Fukumizu 2013, where the weights sum to n and delta is n^2 times as
    large.

    `centred`, the default, is as in `ImportanceWeightedKernelBayes`.

    References
    ----------
    .. [1] K. Fukumizu, L. Song, A. Gretton, Kernel Bayes' rule, JMLR 14 (2013), 3753-3783.
    """

    def _solver(self) -> Solver:
        return AUTO if self.solver == "auto" else super()._solver()

    def _ridge_of(self, regularisation: float) -> float:
        return float(np.sqrt(regularisation))

    def _factored(self, gram: Gram, prior: PriorWeights) -> Operator:
        n = len(self.statistics_)
        gamma = np.full(n, 1 / n) if prior.gamma is None else prior.gamma
        self.regularisation_ = (  # that of this rule is delta
            self._matched(np.maximum(gamma, 0)) if self.regularisation is None else float(self.regularisation)
        )
        return bayes_rule(gram, gamma, self.regularisation_)

    def _matched(self, gamma: np.ndarray) -> float:
        """The delta with as many degrees of freedom as lambda, by the spectrum of at most 1000 rows."""
        x = self._tuning[0]
        gamma = np.full(len(x), 1 / len(x)) if self._chunked else gamma
        rows = spread_out(len(x), ROWS_FOR_CHOICES)
        root = np.sqrt(gamma[rows] / gamma[rows].sum())
        gram = self.kernel_(x[rows])
        if self._centre is not None:
            gram = centred_gram(gram, root**2)
        values = np.maximum(eigvalsh(root[:, None] * gram * root), 0)
        degrees = np.sum(values / (values + self.regularisation_))

        def excess(log_delta: float) -> float:
            return float(np.sum(values**2 / (values**2 + np.exp(log_delta))) - degrees)

        largest = 2 * np.log(values[-1])
        return float(np.exp(brentq(excess, largest - 120, largest + 120)))
