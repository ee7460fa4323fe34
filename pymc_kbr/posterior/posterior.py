"""A posterior as weighted atoms: expectations from the weights, draws by named steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.scaling import nonzero, units_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.weighted import covariance, effective_sample_size, weighted_quantile
from pymc_kbr.embedding import preimage
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.herding import herd
from pymc_kbr.embedding.projection import project_to_simplex
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.shown import shown_posterior
from pymc_kbr.posterior.smoothing import check_smoothing, refuse_infinite, smoothed

if TYPE_CHECKING:
    import pymc as pm

    from pymc_kbr.tables.reference_table import ReferenceTable


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """What an estimator says about the parameters, given one observation.

    Parameters
    ----------
    embedding : Embedding
        Parameters as atoms, the estimator's weights, and the kernel in which these are projected.
    support : Support
        The prior's support.
    settings : dict of str to float
        The estimator's chosen settings, such as its bandwidth and ridge.
    smoothing : {"local", "global", "none"}
        How resampled atoms become draws, see `pymc_kbr.posterior.smoothing`.
    names : tuple of str, length p, optional
        Of the parameters, where the table that the estimator was fitted to has names.
    statistics : tuple of str, optional
        Names, or numbers, of the statistics that were used, where not all of them were there.

    Examples
    --------
    >>> from pymc_kbr.estimators import Rejection
    >>> rows = np.arange(9.0)[:, None]
    >>> Rejection(3).fit(rows, rows).condition([4.0]).quantile([0.5])
    array([[4.]])
    """

    embedding: Embedding
    support: Support
    settings: dict[str, float] = field(default_factory=dict)
    smoothing: str = "local"
    names: tuple[str, ...] | None = None
    statistics: tuple[str, ...] | None = None

    @classmethod
    def of(
        cls,
        atoms: Atoms,
        weights: np.ndarray,
        support: Support,
        settings: dict[str, float] | None = None,
        smoothing: str = "local",
        names: tuple[str, ...] | None = None,
    ) -> Posterior:
        """The posterior of weighted atoms."""
        return cls(Embedding(atoms, weights), support, settings or {}, smoothing, names)

    def __repr__(self) -> str:
        return shown_posterior(self).text()

    def _repr_html_(self) -> str:
        return shown_posterior(self).html()

    @property
    def atoms(self) -> np.ndarray:
        """Parameters of the simulations that carry weight, shape (m, p)."""
        return self.embedding.atoms.points

    @property
    def weights(self) -> np.ndarray:
        """The estimator's weights, of either sign, shape (m,)."""
        return self.embedding.weights

    def expectation(self, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Estimate of E[f(theta)] under the posterior.

        Parameters
        ----------
        f : callable
            From parameters (m, p) to values (m,) or (m, q).

        Returns
        -------
        ndarray of shape () or (q,)

        Notes
        -----
        sum_i w_i f(theta_i), eq. 2 of the localised draft, with the weights as they are: where their
        `total_weight` is not one, expectations shrink or grow with it.
        """
        return self.weights @ np.asarray(f(self.atoms))

    def mean(self) -> np.ndarray:
        """Posterior mean, shape (p,)."""
        return self.expectation(lambda theta: theta)

    def cov(self) -> np.ndarray:
        """Posterior covariance, shape (p, p), of the weights projected onto the simplex.

        Signed weights can have a negative variance; their projection cannot. Refused beyond 1e308.
        """
        return covariance(self.atoms, self.simplex_weights)

    def quantile(self, q: float | np.ndarray | list[float]) -> np.ndarray:
        """Marginal quantiles of the weights projected onto the simplex.

        Parameters
        ----------
        q : float or array_like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (p,) or (k, p)
        """
        levels = np.atleast_1d(np.asarray(q, dtype=float))
        if np.any((levels < 0) | (levels > 1)) or np.any(np.isnan(levels)):
            raise ValueError(f"quantiles are asked for at {q}; probabilities lie in [0, 1]")
        found = np.column_stack([weighted_quantile(a, self.simplex_weights, levels) for a in self.atoms.T])
        return found[0] if np.ndim(q) == 0 else found

    def mode(self, starts: int = 5, bandwidth: float | None = 0.5) -> np.ndarray:
        """Posterior mode, shape (p,): see `pymc_kbr.embedding.preimage`.

        Parameters
        ----------
        starts : int
            Fixed-point iterations, of which the highest end is taken.
        bandwidth : float, optional
            Of the Gaussian kernel, as a share of each parameter's posterior standard deviation. The
            mode is that of the posterior seen through this kernel. None takes the embedding's own kernel.

        Notes
        -----
        Eq. 3 of the localised draft with another kernel; the draft takes the embedding's own, which is
        ``bandwidth=None`` here. That one is as wide as the prior (see `kernels.parameter_kernel`); seen
        through it the mode is little else than the mean. Half a posterior deviation still averages over
        many atoms, and tells a skewed posterior's mode from its mean.

        Where signed weights lead the fixed point out of the prior's support, the heaviest atom of the
        weights projected onto the simplex is returned.
        """
        embedding = self.embedding
        if bandwidth is not None:
            units = units_of(self.atoms)
            # Over powers of two: a deviation may be a float where its square is none.
            variance = np.diag(covariance(self.atoms / units, self.simplex_weights))
            width = bandwidth * nonzero(np.sqrt(variance) * units)
            embedding = Embedding(Atoms(self.atoms, Gaussian(tuple(width.tolist()))), self.weights)
        mode = preimage.mode(embedding, starts)
        if self.support.contains(mode[None])[0]:
            return mode
        return self.atoms[int(np.argmax(self.simplex_weights))]

    @cached_property
    def simplex_weights(self) -> np.ndarray:
        """First step to draws: non-negative weights of sum one, nearest in RKHS norm, shape (m,).

        Weights that are on the simplex already are returned as they are.
        """
        if np.all(self.weights >= 0) and np.isclose(self.total_weight, 1):
            return self.weights / self.total_weight
        return project_to_simplex(self.embedding)

    def resample(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Second step to draws: row numbers of atoms, drawn by systematic resampling, shape (draws,)."""
        positions = (rng.random() + np.arange(draws)) / draws
        rows = np.searchsorted(np.cumsum(self.simplex_weights), positions)
        # Rounding may leave the sum below one. In no order: any few of the draws stand for the posterior.
        return rng.permutation(np.minimum(rows, len(self.atoms) - 1))

    def herd(self, draws: int) -> np.ndarray:
        """Another second step: row numbers of atoms by kernel herding, shape (draws,), without randomness."""
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
        (`smooth`). Discrete parameters are not smoothed.
        """
        if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1:
            raise ValueError(f"draws is {draws!r}; it must be a whole number of at least 1")
        if smoothing is not None:
            check_smoothing(smoothing)
        rng = np.random.default_rng(rng)
        refuse_infinite("atoms that carry weight", self.atoms[self.weights != 0])
        rows = self.herd(draws) if herding else self.resample(draws, rng)
        return refuse_infinite("draws", self.smooth(rows, rng, smoothing))

    def smooth(self, rows: np.ndarray, rng: np.random.Generator, smoothing: str | None = None) -> np.ndarray:
        """Third step to draws: Gaussian noise in the unconstrained space, shape (len(rows), p).

        Notes
        -----
        See `posterior.smoothing`.
        """
        how = smoothing or self.smoothing
        return smoothed(self.atoms, self.simplex_weights, self.support, rows, rng, how)

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

    def to_arviz(
        self,
        draws: int | np.ndarray = 1000,
        *,
        chains: int = 2,
        random_seed: int | np.random.Generator | None = None,
        table: ReferenceTable | None = None,
        model: pm.Model | None = None,
        prior: Any = None,
        store: str | Path | None = None,
        estimator: str = "",
        timings: dict[str, float] | None = None,
        notes: dict[str, Any] | None = None,
    ) -> Any:
        """Pack the posterior and its draws for ArviZ; arguments are those of `posterior.arviz.to_arviz`.

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        """
        # Imported here: whoever stays with arrays needs no ArviZ.
        from pymc_kbr.posterior.arviz import to_arviz

        return to_arviz(
            self,
            draws,
            chains=chains,
            random_seed=random_seed,
            table=table,
            model=model,
            prior=prior,
            store=store,
            estimator=estimator,
            timings=timings,
            notes=notes,
        )
