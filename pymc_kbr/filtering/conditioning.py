"""From a prior's weights to a posterior's: a rule on some rows, given what they are conditioned on."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.rules import ImportanceWeighted, Rule, SquaredRule
from pymc_kbr.gram import Gram
from pymc_kbr.gram.kept import part_of

RULES: dict[str, Rule] = {"iw_kbr": ImportanceWeighted(), "kbr": SquaredRule()}
"""The name of each rule."""


def conditioned(
    rule: Rule,
    gram: Gram,
    gamma: np.ndarray,
    values: np.ndarray,
    regularisation: float,
    centred: bool,
    total: float = 1.0,
) -> np.ndarray:
    """Weights of rows (z_i, x_i) under a prior, given a point of x or an embedding on x.

    Parameters
    ----------
    rule : Rule
    gram : Gram
        G_x, without centring.
    gamma : ndarray of shape (n,)
        The prior's weights of the rows, of sum about one.
    values : ndarray of shape (n,)
        Kernel values between the rows and the point, or the embedding at the rows.
    regularisation : float
        lambda or delta, for weights of sum one.
    centred : bool
        Whether features are regressed about their means under the prior; the weights then sum to `total`.
    total : float
        Of the embedding's weights; one for a point.

    Returns
    -------
    ndarray of shape (n,)

    Notes
    -----
    For "iw_kbr" rows whose weight is not positive are left out before anything is factored: their
    posterior weight is zero. That is exact, and the factorisation is of the others alone.
    """
    weights = np.zeros(len(gamma))
    rows = np.arange(len(gamma))
    if isinstance(rule, ImportanceWeighted):
        rows = np.flatnonzero(gamma > 0)
        if not len(rows):
            return weights
    part = gram if len(rows) == len(gamma) else part_of(gram, rows)
    prior, at = gamma[rows], values[rows]
    if not centred:
        weights[rows] = rule.operator(part, prior, regularisation).solve(at)
        return weights
    # A mean under signed weights may lie outside of all features: the centre is that of the positive ones.
    positive = np.maximum(prior, 0)
    if not positive.any():
        return weights
    centre, prior = positive / positive.sum(), prior / prior.sum()
    mean = part.apply(centre)
    about = at - total * mean - (centre @ at - total * (centre @ mean))
    found = rule.operator(part.centred(centre), prior, regularisation).solve(about)
    # The coefficients of centred features: the mean is taken out, and the prior put back.
    weights[rows] = found - found.sum() * centre + total * prior
    return weights
