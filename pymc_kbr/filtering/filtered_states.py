"""What a filter, a smoother or a prediction says about the state at each time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.filtering.belief import Belief
from pymc_kbr.filtering.points import Point, as_it_is
from pymc_kbr.posterior.posterior import Posterior

if TYPE_CHECKING:
    import xarray as xr


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class FilteredStates:
    """Weights of the training states at each of T times.

    Parameters
    ----------
    weights : ndarray of shape (T, N)
        Of either sign, as the rule gave them.
    atoms : Atoms
        Training states (N, p), and the kernel on them in which weights are projected.
    support : Support
    kind : {"filtered", "smoothed", "predicted"}
    point : callable
        From a weighted mean (p,) to the point that is reported.
    names : tuple of str, length p
        Of the states' columns.
    times : ndarray of shape (T,), optional
        0, 1, ... where left out.
    """

    weights: np.ndarray
    atoms: Atoms
    support: Support
    kind: str = "filtered"
    point: Point = as_it_is
    names: tuple[str, ...] = ()
    times: np.ndarray = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        if not len(self.times):
            object.__setattr__(self, "times", np.arange(len(self.weights)))
        if not self.names:
            columns = self.atoms.points.shape[1]
            object.__setattr__(self, "names", tuple(f"state_{i}" for i in range(columns)))

    def __len__(self) -> int:
        return len(self.weights)

    def __repr__(self) -> str:
        steps, states = self.weights.shape
        named = ", ".join(self.names)
        return f"<FilteredStates: {self.kind}, {steps} times, {states} training states of {named}>"

    def __getitem__(self, t: int) -> Belief:
        return Belief(self.weights[t], self.atoms, self.support, self.point, self.names)

    @property
    def last(self) -> Belief:
        """The belief at the last time, from which a stream or a prediction goes on."""
        return self[-1]

    def posterior(self, t: int) -> Posterior:
        """The belief at one time as a posterior.

        Parameters
        ----------
        t : int
            Its place among the T times; from the end where negative.

        Returns
        -------
        Posterior

        Raises
        ------
        IndexError
            If there is no such time.
        """
        return self[t].posterior()

    def mean(self) -> np.ndarray:
        """Means, or where the filter has another `point`, the point nearest to each.

        Returns
        -------
        ndarray of shape (T, p)
        """
        means = self.weights @ self.atoms.points
        return np.array([self.point(mean) for mean in means])

    def cov(self) -> np.ndarray:
        """Covariances of the weights projected onto the simplex.

        Returns
        -------
        ndarray of shape (T, p, p)
        """
        return np.array([posterior.cov() for posterior in self._posteriors()])

    def mode(self) -> np.ndarray:
        """Modes: see `Posterior.mode`.

        Returns
        -------
        ndarray of shape (T, p)
        """
        return np.array([posterior.mode() for posterior in self._posteriors()])

    def quantile(self, q: float | list[float] | np.ndarray) -> np.ndarray:
        """Marginal quantiles of the weights projected onto the simplex.

        Parameters
        ----------
        q : float or array_like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (T, p) or (T, k, p)

        Raises
        ------
        ValueError
            If one is no probability.
        """
        return np.array([posterior.quantile(q) for posterior in self._posteriors()])

    def interval(self, probability: float = 0.9) -> np.ndarray:
        """Central intervals of each column.

        Parameters
        ----------
        probability : float, between 0 and 1

        Returns
        -------
        ndarray of shape (T, 2, p)

        Raises
        ------
        ValueError
            If the probability is not between zero and one.
        """
        if not 0 < probability < 1:
            raise ValueError(f"probability is {shown(probability)}; it lies between zero and one")
        return self.quantile([(1 - probability) / 2, (1 + probability) / 2])

    def draw(self, draws: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Equally weighted draws, each time by itself: not draws of whole paths.

        Parameters
        ----------
        draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of shape (T, draws, p)

        Raises
        ------
        TypeError, ValueError
            If the number of draws is not whole, or below one.
        """
        whole("draws", draws)
        rng = generator_of(random_seed)
        return np.array([posterior.draw(draws, rng) for posterior in self._posteriors()])

    @property
    def total_weight(self) -> np.ndarray:
        """Sum of the weights at each time, shape (T,)."""
        return self.weights.sum(axis=1)

    @property
    def effective_sample_size(self) -> np.ndarray:
        """Kish's effective sample size of the weights at each time, shape (T,); zero where all are zero."""
        squares = np.sum(self.weights**2, axis=1)
        # Where a prediction is positive at no observed state all weights are zero.
        return np.divide(self.total_weight**2, squares, out=np.zeros(len(self)), where=squares > 0)

    def renamed(self, names: tuple[str, ...]) -> FilteredStates:
        """The same with other names of the columns.

        Parameters
        ----------
        names : tuple of str, length p

        Returns
        -------
        FilteredStates

        Raises
        ------
        ValueError
            If there are more or fewer names than columns.
        """
        if len(names) != self.atoms.points.shape[1]:
            raise ValueError(
                f"{len(names)} names are given for {self.atoms.points.shape[1]} columns of the states"
            )
        return replace(self, names=tuple(names))

    def to_xarray(self, probability: float = 0.9) -> xr.Dataset:
        """Means, deviations, intervals and weights, with labels.

        Parameters
        ----------
        probability : float, between 0 and 1
            Of the intervals.

        Returns
        -------
        xarray.Dataset

        Raises
        ------
        ValueError
            If the probability is out of range.
        """
        from pymc_kbr.filtering.labelled import to_xarray

        return to_xarray(self, probability)

    def to_arviz(
        self, draws: int = 500, *, chains: int = 2, random_seed: int | np.random.Generator | None = None
    ) -> Any:
        """Draws and weights for ArviZ.

        Parameters
        ----------
        draws : int
            Of each chain.
        chains : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)

        Raises
        ------
        TypeError, ValueError
            If a number is not whole, or below one.
        """
        from pymc_kbr.filtering.labelled import to_arviz

        return to_arviz(self, draws, chains, random_seed)

    def plot(self, truth: np.ndarray | None = None, *, ax: Any = None, **options: Any) -> np.ndarray:
        """Bands of the states, and the truth where it is given.

        Parameters
        ----------
        truth : array_like of shape (T, p), optional
        ax : matplotlib Axes, or several, optional
        **options
            Of `filtering.plots.plot_states`.

        Returns
        -------
        ndarray of matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If the truth has another shape, or there are too few axes.
        """
        from pymc_kbr.filtering.plots import plot_states

        return plot_states(self, truth, ax=ax, **options)

    def _posteriors(self) -> list[Posterior]:
        return [self.posterior(t) for t in range(len(self))]
