"""Kernel sum, chain and Bayes rules: from embeddings and a table's Gram matrices to embeddings.

Rows i of a table are simulations (theta_i, x_i); G_theta and G_x are the Gram matrices of both sides. A rule
is a value: what it makes of a Gram matrix, of the prior's weights and of its regularisation. All of them are
in `pymc_kbr.rules`.

Examples
--------
A table of parameters and statistics, another prior by draws, and the posterior's mean at an observation:

>>> import numpy as np
>>> from pymc_kbr.gram import DenseGram
>>> from pymc_kbr.kernels import Gaussian
>>> rng = np.random.default_rng(0)
>>> theta = rng.normal(size=(400, 1))
>>> x = theta + 0.5 * rng.normal(size=(400, 1))
>>> prior = Embedding(Atoms(0.5 + 0.6 * rng.normal(size=(300, 1)), Gaussian(1.0)), np.full(300, 1 / 300))
>>> gamma = sum_rule(DenseGram(Gaussian(1.0), theta), prior, 400 * 1e-3)
>>> w = bayes_rule(DenseGram(Gaussian(1.0), x), gamma, np.array([[1.0]]), 1e-4)
>>> bool(abs((w @ theta)[0, 0] - 0.8) < 0.1)  # the exact mean is .795
True
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from pymc_kbr.embedding.embedding import Atoms, Embedding, mode
from pymc_kbr.gram import Gram, Operator


class Rule(Protocol):
    """From the Gram matrix of the statistics and weights of the prior to weights of the posterior.

    Weights of the prior have the sum one; None means 1 / n each, a table that is a sample of the prior.
    """

    def operator(self, gram: Gram, gamma: np.ndarray | None, regularisation: float) -> Operator:
        """The rule, factored once; its `weights` at observations x (k, d) are those of the rows, (k, n)."""

    def ridge(self, regularisation: float) -> float:
        """The lambda of a ridge regression to which the rule's regularisation corresponds."""

    def regularisation(self, ridge: float, spectrum: np.ndarray) -> float:
        """The regularisation with as many degrees of freedom as a ridge regression of this lambda has.

        Parameters
        ----------
        ridge : float
            lambda.
        spectrum : ndarray of shape (n,)
            Eigenvalues of D^(1/2) G_x D^(1/2), none negative, with D = diag(max(gamma, 0)) of sum one.
        """


# --- weights that are shrunk ---


def shrunk_mean_embedding(gram: Gram, ridge: float) -> np.ndarray:
    """Weights of a sample's own points for the spectral kernel mean shrinkage estimator (S-KMSE).

    Parameters
    ----------
    gram : Gram
        G, of the sample's points.
    ridge : float
        n * lambda.

    Returns
    -------
    ndarray of shape (n,)
        (G + n lambda I)^-1 G 1 / n: the `sum_rule` of the sample's empirical embedding. The operator form is
        C (C + lambda I)^-1 mu, with the empirical covariance operator C and embedding mu; the posterior mean
        of a `BayesianKernelEmbedding` is the same with another kernel on the left.

    References
    ----------
    .. [1] S. Flaxman, D. Sejdinovic, J. Cunningham, S. Filippi, Bayesian learning of kernel embeddings, UAI
       (2016), eq. 9; K. Muandet et al., Kernel mean estimation and Stein effect (2013), proposition 12.
    """
    return gram.regularised(ridge).solve(gram.apply(np.full(gram.size, 1 / gram.size)))


# --- expectations and a point estimate ---


def bayes_average(function: Embedding, posterior: Embedding) -> float:
    """The posterior expectation of a function of the kernel's space: sum_ij b_i w_j k(y_i, theta_j)."""
    return function.inner(posterior)


def posterior_decoding(posterior: Embedding, starts: int = 5) -> np.ndarray:
    """The point y that minimises k(y, y) - 2 sum_i w_i k(theta_i, y), shape (p,): see `embedding.mode`."""
    return mode(posterior, starts)


# --- the kernel sum rule ---


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


# --- the kernel chain rule ---


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


# --- kernel Bayes' rule ---


def bayes_rule(
    gram: Gram,
    gamma: np.ndarray | None,
    observations: np.ndarray,
    regularisation: float,
    rule: Rule | None = None,
) -> np.ndarray:
    """Weights of the table's rows for which they have the posterior's embedding on the parameters.

    Parameters
    ----------
    gram : Gram
        G_x, of the statistics.
    gamma : ndarray of shape (n,) or None
        The prior's weights of the rows, of sum one, as `sum_rule` makes them; None where the table is a
        sample of the prior.
    observations : ndarray of shape (k, d)
    regularisation : float
        lambda or delta of the rule.
    rule : Rule, optional
        `ImportanceWeighted()` where left out, or `SquaredRule()`, that of Fukumizu 2013 and Song et al. 2013.

    Returns
    -------
    ndarray of shape (k, n)
    """
    rule = ImportanceWeighted() if rule is None else rule
    return rule.operator(gram, gamma, regularisation).weights(observations)


# --- importance-weighted kernel Bayes' rule ---


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


# --- kernel Bayes' rule with signed weights ---


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


__all__ = [
    "Atoms",
    "Embedding",
    "ImportanceWeighted",
    "Rule",
    "SquaredRule",
    "bayes_average",
    "bayes_rule",
    "chain_rule",
    "posterior_decoding",
    "prior_values",
    "shrunk_mean_embedding",
    "sum_rule",
]
