"""An embedding of draws moved towards another one."""

from __future__ import annotations

import numpy as np

from pymc_kbr.embedding.embedding import Atoms, Embedding


def shrunk(embedding: Embedding, target: Embedding) -> tuple[Embedding, float]:
    """The embedding of equally weighted draws moved towards another one."""
    size = embedding.weights.sum() ** 2 / (embedding.weights @ embedding.weights)
    norm = embedding.inner(embedding)
    diagonal = float(embedding.weights @ embedding.atoms.kernel.diag(embedding.atoms.points))
    # E|m - mu|^2 = (E k(x, x) - E k(x, x')) / size; the diagonal that `norm` holds makes it one less.
    error = max(diagonal - norm, 0.0) / (size - 1) if size > 1 else np.inf
    # Where the two coincide nothing is lost by taking the target.
    apart = norm - 2 * embedding.inner(target) + target.inner(target)
    share = float(min(1.0, error / apart)) if apart > 0 else 1.0
    atoms = Atoms(np.vstack([embedding.atoms.points, target.atoms.points]), embedding.atoms.kernel)
    weights = np.concatenate([(1 - share) * embedding.weights, share * target.weights])
    return Embedding(atoms, weights), share
