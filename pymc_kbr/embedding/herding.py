"""Few draws that stand for an embedding."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Embedding


def herd(embedding: Embedding, draws: int) -> np.ndarray:
    """Row numbers of atoms whose equally weighted sum is near to an embedding, shape (draws,).

    Kernel herding: each draw is the atom at which the embedding exceeds that of the draws before
    it most [1]_.

    References
    ----------
    .. [1] Y. Chen, M. Welling, A. Smola, Super-samples from kernel herding, UAI (2010).
    """
    points, kernel = embedding.atoms.points, embedding.atoms.kernel
    target = embedding.atoms.apply_gram(embedding.weights)
    half_norms = 0.5 * kernel.diag(points)
    drawn = np.zeros(draws, dtype=int)
    total = np.zeros(len(points))
    for t in range(draws):
        # t + 1 times the gain in distance when this atom is added: the factor changes no maximum.
        drawn[t] = int(np.argmax((t + 1) * target - total - half_norms))
        total += kernel(points, points[drawn[t] : drawn[t] + 1])[:, 0]
    return drawn
