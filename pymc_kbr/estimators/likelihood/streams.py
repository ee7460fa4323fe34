"""One stream of random numbers for each observation, so that none depends on which others run beside it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


class Streams:
    """Generators side by side: each call draws the same shape from every one of them.

    Parameters
    ----------
    generators : sequence of numpy.random.Generator, length b
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self.generators = list(generators)

    def rows(self, which: Sequence[int] | np.ndarray) -> Streams:
        """The streams of some observations; they go on where these are."""
        return Streams([self.generators[i] for i in which])

    def uniform(self, *shape: int) -> np.ndarray:
        """Shape (b, *shape), from zero to one."""
        return np.stack([g.random(shape) for g in self.generators])

    def normal(self, *shape: int) -> np.ndarray:
        """Shape (b, *shape), standard normal."""
        return np.stack([g.standard_normal(shape) for g in self.generators])

    def exponential(self, *shape: int) -> np.ndarray:
        """Shape (b, *shape), exponential of mean one."""
        return np.stack([g.standard_exponential(shape) for g in self.generators])

    def gamma(self, shapes: np.ndarray) -> np.ndarray:
        """One draw for each entry of shapes (b, ...), of scale one."""
        return np.stack([g.standard_gamma(s) for g, s in zip(self.generators, shapes, strict=True)])
