"""Whether two samples can be told from each other."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from pymc_kbr.arrays.scaling import unit_deviations

PERMUTATIONS, ALIKE_LEVEL = 200, 0.95
"""How often two samples are mixed at random, and the share of these times that they may be nearer."""


def alike(one: np.ndarray, other: np.ndarray, rng: np.random.Generator) -> bool:
    """Whether the energy distance of two samples (m, q) is one that halves of their union often have.

    Notes
    -----
    2 E|X - Y| - E|X - X'| - E|Y - Y'|, over the deviations of the union [1]_. Of m draws each it sees a
    shift by about four deviations over the root of m.

    References
    ----------
    .. [1] G. J. Szekely, M. L. Rizzo, Energy statistics: a class of statistics based on distances, Journal
       of Statistical Planning and Inference 143 (2013), 1249-1272.
    """
    both = np.vstack([one, other])
    both = both / unit_deviations(both)
    distances = cdist(both, both)
    # With signs 1 / m and -1 / m the quadratic form of distances is minus the energy distance.
    signs = np.where(np.arange(len(both)) < len(one), 1 / len(one), -1 / len(other))
    mixed = np.array([rng.permutation(signs) for _ in range(PERMUTATIONS)])
    found = -signs @ distances @ signs
    by_chance = -np.einsum("bi,bi->b", mixed @ distances, mixed)
    return bool(found <= np.quantile(by_chance, ALIKE_LEVEL))
