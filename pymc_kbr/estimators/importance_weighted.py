"""Importance-weighted kernel Bayes' rule."""

from __future__ import annotations

from pymc_kbr.embedding.rules import ImportanceWeighted
from pymc_kbr.estimators.with_prior import WithPrior


class ImportanceWeightedKernelBayes(WithPrior):
    """Kernel ridge regression weighted with the ratio of the prior to the table's parameters.

    Parameters
    ----------
    prior, prior_regularisation, parameter_kernel, parameter_bandwidth
        See `WithPrior`.
    bandwidth, kernel, solver, centred, scale
        See `WithPrior`.
    regularisation : float, optional
        lambda.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range, and for a prior of other parameters than the table's.

    Notes
    -----
    Algorithm 1 of Xu 2022 [1]_, step by step in `embedding.rules.ImportanceWeighted`: gamma = (G_theta +
    n eta I)^-1 g_prior, D = diag(max(gamma, 0)), w = D^(1/2) (D^(1/2) G D^(1/2) + lambda I)^-1 D^(1/2) k(x).
    With gamma = 1 / n this is `ConditionalMean`. What is cut off is in `prior_negative_share_`.

    `centred`, the default, regularises the ratio towards one, divides gamma by its sum, and regresses
    features about the prior's embedding, so that without information in the statistics the posterior is
    the prior, with the mean of `shrunk_mean`; bandwidth and lambda have the smallest leave-one-out error,
    weighted with the ratio. With
    ``centred=False, scale=False, bandwidth="median"``, a `parameter_kernel` and both regularisations
    given it is the algorithm as published, in the scale of its authors' code: weights of sum one. The printed
    algorithm has weights of mean one, so that its lambda is `regularisation` times n.

    References
    ----------
    .. [1] L. Xu, Y. Chen, A. Doucet, A. Gretton, Importance weighting approach in kernel Bayes' rule,
       arXiv:2202.02474 (2022).
    """

    rule = ImportanceWeighted()
