"""Weighted atoms, and draws from them by three named steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.embedding.embedding import Embedding
from pymc_kbr.embedding.herding import herd
from pymc_kbr.embedding.projection import project_to_simplex
from pymc_kbr.posterior.smoothing import check_smoothing, refuse_infinite, smoothed


@dataclass(frozen=True, eq=False, repr=False)
class WeightedAtoms:
    """What a `Posterior` is made of; its parameters are the first ones there."""

    embedding: Embedding
    support: Support
    settings: dict[str, float] = field(default_factory=dict)
    smoothing: str = "local"

    @property
    def atoms(self) -> np.ndarray:
        """Parameters of the simulations that carry weight, shape (m, p)."""
        return self.embedding.atoms.points

    @property
    def weights(self) -> np.ndarray:
        """The estimator's weights, of either sign, shape (m,)."""
        return self.embedding.weights

    @property
    def total_weight(self) -> float:
        """Sum of the weights as the estimator computed them."""
        return float(self.weights.sum())

    @property
    def effective_sample_size(self) -> float:
        """Kish's effective sample size of the weights."""
        return effective_sample_size(self.weights)

    @property
    def negative_share(self) -> float:
        """Share of the absolute weight that is negative."""
        return float(np.maximum(-self.weights, 0).sum() / np.abs(self.weights).sum())

    @cached_property
    def simplex_weights(self) -> np.ndarray:
        """First step to draws: non-negative weights of sum one, nearest in RKHS norm, shape (m,).

        Weights that are on the simplex already are returned as they are.
        """
        if np.all(self.weights >= 0) and np.isclose(self.total_weight, 1):
            return self.weights / self.total_weight
        return project_to_simplex(self.embedding)

    def resample(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Second step to draws: systematic resampling of the atoms by `simplex_weights`.

        Parameters
        ----------
        draws : int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of int, shape (draws,)
            Row numbers of atoms, in no order.
        """
        positions = (rng.random() + np.arange(draws)) / draws
        rows = np.searchsorted(np.cumsum(self.simplex_weights), positions)
        # Rounding may leave the sum below one. In no order: any few of the draws stand for the posterior.
        return rng.permutation(np.minimum(rows, len(self.atoms) - 1))

    def herd(self, draws: int) -> np.ndarray:
        """Another second step: kernel herding, without randomness, see `pymc_kbr.embedding.herding`.

        Parameters
        ----------
        draws : int

        Returns
        -------
        ndarray of int, shape (draws,)
            Row numbers of atoms, in the order in which they were chosen.
        """
        return herd(Embedding(self.embedding.atoms, self.simplex_weights), draws)

    def draw(
        self,
        draws: int,
        rng: np.random.Generator | int | None = None,
        *,
        smoothing: str | None = None,
        herding: bool = False,
    ) -> np.ndarray:
        """Equally weighted draws from the posterior.

        Parameters
        ----------
        draws : int
        rng : numpy.random.Generator, int or None
        smoothing : {"local", "global", "none"}, optional
            See `pymc_kbr.posterior.smoothing`; that of the posterior where left out.
        herding : bool
            Whether atoms are chosen by kernel herding instead of resampling: few draws then stand for the
            posterior better, at a cost that grows with draws times atoms.

        Returns
        -------
        ndarray of shape (draws, p)
            Inside the prior's support.

        Raises
        ------
        ValueError
            If an argument is out of range, or some draws or the atoms that they are made of are not finite.

        Notes
        -----
        Three steps: the weights are projected onto the simplex (`simplex_weights`), atoms are
        resampled (`resample`) or herded (`herd`), and these are smoothed in the unconstrained space
        (`smooth`). Whole numbers are rounded after that; those of few values are not smoothed.
        """
        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise ValueError(f"draws is {shown(draws)}; it must be a whole number of at least 1")
        whole("draws", draws)
        if smoothing is not None:
            check_smoothing(smoothing)
        rng = generator_of(rng, "rng")
        refuse_infinite("atoms that carry weight", self.atoms[self.weights != 0])
        rows = self.herd(draws) if herding else self.resample(draws, rng)
        return refuse_infinite("draws", self.smooth(rows, rng, smoothing))

    def smooth(self, rows: np.ndarray, rng: np.random.Generator, smoothing: str | None = None) -> np.ndarray:
        """Third step to draws: Gaussian noise in the unconstrained space.

        Parameters
        ----------
        rows : ndarray of int, shape (draws,)
            Row numbers of atoms, which `resample` or `herd` has chosen.
        rng : numpy.random.Generator
        smoothing : {"local", "global", "none"}, optional
            See `pymc_kbr.posterior.smoothing`; that of the posterior where left out.

        Returns
        -------
        ndarray of shape (draws, p)
            Inside the prior's support; discrete parameters of few values as they were.
        """
        how = smoothing or self.smoothing
        return smoothed(self.atoms, self.simplex_weights, self.support, rows, rng, how)
