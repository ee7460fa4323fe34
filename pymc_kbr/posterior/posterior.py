"""A posterior as weighted atoms, and what the weights say of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.scaling import nonzero, units_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.weighted import covariance, weighted_quantile
from pymc_kbr.embedding import preimage
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.shown import shown_posterior
from pymc_kbr.posterior.weighted_atoms import WeightedAtoms

if TYPE_CHECKING:
    import pymc as pm

    from pymc_kbr.tables.reference_table import ReferenceTable


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Posterior(WeightedAtoms):
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
        """The posterior of weighted atoms.

        Parameters
        ----------
        atoms : Atoms
            m of them, with the kernel in which the posterior is embedded.
        weights : ndarray of shape (m,)
            Of either sign.
        support : Support
        settings : dict of str to float, optional
        smoothing : {"local", "global", "none"}
        names : tuple of str, length p, optional
            As of `Posterior`.

        Returns
        -------
        Posterior
        """
        return cls(Embedding(atoms, weights), support, settings or {}, smoothing, names)

    def __repr__(self) -> str:
        return shown_posterior(self).text()

    def _repr_html_(self) -> str:
        return shown_posterior(self).html()

    def expectation(self, f: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Estimate of E[f(theta)] under the posterior.

        Parameters
        ----------
        f : callable
            From parameters (m, p) to values (m,) or (m, q).

        Returns
        -------
        ndarray of shape () or (q,)

        Raises
        ------
        TypeError
            If `f` cannot be called.

        Notes
        -----
        sum_i w_i f(theta_i), eq. 2 of the localised draft, with the weights as they are: where their
        `total_weight` is not one, expectations shrink or grow with it.
        """
        if not callable(f):
            raise TypeError(f"f is {shown(f)}; give a function of parameters (m, p)")
        return self.weights @ np.asarray(f(self.atoms))

    def mean(self) -> np.ndarray:
        """Posterior mean: the `expectation` of the parameters.

        Returns
        -------
        ndarray of shape (p,)
        """
        return self.expectation(lambda theta: theta)

    def cov(self) -> np.ndarray:
        """Posterior covariance, of the weights projected onto the simplex.

        Signed weights can have a negative variance; their projection cannot.

        Returns
        -------
        ndarray of shape (p, p)

        Raises
        ------
        ValueError
            If a variance is beyond 1e308, the largest float.
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

        Raises
        ------
        ValueError
            If one is no probability.
        """
        levels = np.atleast_1d(as_rows("q", q))
        if levels.ndim != 1 or not len(levels):
            raise ValueError(f"q has the shape {levels.shape}; give a probability, or several (k,)")
        if np.any((levels < 0) | (levels > 1)) or np.any(np.isnan(levels)):
            raise ValueError(f"quantiles are asked for at {q}; probabilities lie in [0, 1]")
        found = np.column_stack([weighted_quantile(a, self.simplex_weights, levels) for a in self.atoms.T])
        return found[0] if np.ndim(q) == 0 else found

    def mode(self, starts: int = 5, bandwidth: float | None = 0.5) -> np.ndarray:
        """Posterior mode: see `pymc_kbr.embedding.preimage`.

        Parameters
        ----------
        starts : int
            Fixed-point iterations, of which the highest end is taken.
        bandwidth : float, optional
            Of the Gaussian kernel, as a share of each parameter's posterior standard deviation. The
            mode is that of the posterior seen through this kernel. None takes the embedding's own kernel.

        Returns
        -------
        ndarray of shape (p,)
            Inside the prior's support.

        Raises
        ------
        ValueError
            If a parameter's variance is beyond 1e308.

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
        whole = self.support.lattices()
        if np.any(whole):
            mode[whole] = self.support.backward(self.support.forward(mode[None]))[0, whole]
        if self.support.contains(mode[None])[0]:
            return mode
        return self.atoms[int(np.argmax(self.simplex_weights))]

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
        """Pack the posterior and its draws for ArviZ.

        Parameters
        ----------
        draws : int or ndarray of shape (chains * draws, p)
            Draws of each chain, or those of all chains, one chain after the other.
        chains : int
            Parts into which the draws, which are independent, are split.
        random_seed : int or numpy.random.Generator, optional
            For draws that are made here.
        table : ReferenceTable, optional
            Gives names, shapes, the observation and the account of the simulations.
        model : pymc.Model, optional
            Gives dims and coords, and the deterministic variables.
        prior : NewPrior, optional
            Another prior than the table's.
        store : str or Path, optional
            Where the table stays: its path is kept in place of its rows.
        estimator : str
            Which estimator made it.
        timings : dict of str to float
            Seconds of the stages after the simulation.
        notes : dict, optional
            More attributes of the result.

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
            Its groups are described in `pymc_kbr.posterior.arviz`.

        Raises
        ------
        TypeError, ValueError
            If chains is no whole number above zero, or the draws given are no chains of one length.
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
