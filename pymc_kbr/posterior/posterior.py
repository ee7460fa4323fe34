"""A posterior as weighted atoms, and what the weights say of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.scaling import nonzero, units_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.weighted import covariance, effective_sample_size, weighted_quantile
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.embedding import mode as mode_of
from pymc_kbr.embedding.projection import project_to_simplex
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.smoothing import check_smoothing, refuse_infinite, smoothed

if TYPE_CHECKING:
    import pymc as pm

    from pymc_kbr.tables.reference_table import ReferenceTable


class PosteriorWarning(UserWarning):
    """A posterior that should not be trusted as it is."""


# --- display in a notebook ---


@dataclass(frozen=True)
class Shown:
    """What is shown of a value."""

    heading: str
    lines: Sequence[dict[str, Any]]
    count: int
    notes: Sequence[str] = ()
    most_lines: int = 10

    def text(self) -> str:
        """For `__repr__`."""
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        # Names to the left, numbers to the right.
        table = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        return "\n".join([self.heading, *[f"  {line}" for line in (*table, *self._after())]])

    def html(self) -> str:
        """For `_repr_html_`."""
        head, *rows = self._cells() or [[]]
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        after = "".join(f"<p>{escape(note)}</p>" for note in self._after())
        return (
            f"<p><b>{escape(self.heading)}</b></p>"
            f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{after}"
        )

    def _cells(self) -> list[list[str]]:
        if not self.lines:
            return []
        rows = [[_cell(value) for value in line.values()] for line in self.lines[: self.most_lines]]
        return [list(self.lines[0]), *rows]

    def _after(self) -> list[str]:
        hidden = self.count - min(len(self.lines), self.most_lines)
        return [*([f"... and {hidden:,} more"] if hidden > 0 else []), *map(str, self.notes)]


def _cell(
    value: Any,
    *,
    # Letters that are shown.
    most: int = 48,
) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    words = " ".join(str(value).split())
    return words if len(words) <= most else f"{words[: most - 3]}..."


class Display:
    """What is shown of itself as text, and in a notebook."""

    _shown: Any

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()


# --- herding ---


def herd(embedding: Embedding, draws: int) -> np.ndarray:
    """Row numbers of atoms whose equally weighted sum is near to an embedding, shape (draws,)."""
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


# --- the posterior ---


def check_levels(q: float | np.ndarray | list[float]) -> np.ndarray:
    """Probabilities (k,) at which quantiles are asked for."""
    levels = np.atleast_1d(as_rows("q", q))
    if levels.ndim != 1 or not len(levels):
        raise ValueError(f"q has the shape {levels.shape}; give a probability, or several (k,)")
    if np.any((levels < 0) | (levels > 1)) or np.any(np.isnan(levels)):
        raise ValueError(f"quantiles are asked for at {q}; probabilities lie in [0, 1]")
    return levels


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Posterior(Display):
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

    def _shown(self) -> Shown:
        atoms, mean = self.atoms, self.mean()
        p = atoms.shape[1]
        lines = [
            {
                "parameter": i if self.names is None else self.names[i],
                "mean": float(mean[i]),
                "least atom": float(atoms[:, i].min()),
                "largest atom": float(atoms[:, i].max()),
            }
            for i in range(p)
        ]
        settings = ", ".join(f"{name} {value:.4g}" for name, value in self.settings.items())
        return Shown(
            f"Posterior of {p} parameter(s): {len(atoms):,} atoms with weights",
            lines,
            p,
            [
                f"total weight {self.total_weight:.4g}, effective sample size "
                f"{self.effective_sample_size:.1f}, {self.negative_share:.0%} of the weight negative",
                *([f"settings: {settings}"] if settings else []),
            ],
        )

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
        """Another second step: kernel herding, without randomness, see `pymc_kbr.posterior.posterior`.

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
            Whether atoms are chosen by kernel herding instead of resampling: few draws then represent the
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
        levels = check_levels(q)
        found = np.column_stack([weighted_quantile(a, self.simplex_weights, levels) for a in self.atoms.T])
        return found[0] if np.ndim(q) == 0 else found

    def mode(self, starts: int = 5, bandwidth: float | None = 0.5) -> np.ndarray:
        """Posterior mode: see `pymc_kbr.embedding.embedding`.

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
        many atoms, and separates a skewed posterior's mode from its mean.

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
        mode = mode_of(embedding, starts)
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
