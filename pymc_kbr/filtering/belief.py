"""What is known of the state at one time."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.filtering.points import Point
from pymc_kbr.posterior.posterior import Posterior


@dataclass(frozen=True, eq=False)
class Belief:
    """Weighted training states: the embedding of the state's distribution at one time.

    Parameters
    ----------
    weights : ndarray of shape (N,)
        Of either sign, as the rule gave them.
    atoms : Atoms
        The training states and the kernel in which weights are projected.
    support : Support
    point : callable
        From a weighted mean (p,) to the point that is reported.
    names : tuple of str, length p
    """

    weights: np.ndarray
    atoms: Atoms
    support: Support
    point: Point
    names: tuple[str, ...] = field(default=())

    def mean(self) -> np.ndarray:
        """The weighted mean (p,), moved to a point of the state space where the filter has one."""
        return self.point(self.weights @ self.atoms.points)

    def posterior(self) -> Posterior:
        """The belief as a `Posterior`: covariance, quantiles, mode, draws.

        All times share the training states and the factor of their Gram matrix.
        """
        return Posterior.of(self.atoms, self.weights, self.support, names=self.names or None)
