"""What a filter, a smoother or a prediction says about the state at each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr
from scipy.stats import norm

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.plotting import BAND, OBSERVED, POSTERIOR, TRUTH, drawn_on, once_axes
from pymc_kbr.arrays.refusals import generator_of, whole
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.embedding.projection import project_rows_to_simplex
from pymc_kbr.filtering.gaussian import Moments, roots_of
from pymc_kbr.filtering.recursion import AtTimes, Belief, OnDemand
from pymc_kbr.filtering.validation import Point, as_it_is
from pymc_kbr.posterior.posterior import Posterior, check_levels


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class FilteredStates(AtTimes):
    """What is known of the state at each of T times: weights of the training states, or moments.

    Parameters
    ----------
    weights : ndarray of shape (T, N)
        Of either sign, as the rule gave them; may be a function that makes them when they are asked for.
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
    moments : tuple of ndarray, (T, p) and (T, p, p), optional
        Means and covariances of the corrected belief: where they are there, means, covariances, quantiles
        and draws are those of normal distributions with these moments; otherwise those of the weights.
    flags : mapping of str to ndarray of bool, shape (T,)
        Unreliable steps: "outside" (the observation, or the belief's mean, is beyond the training rows),
        "effective_sample_size" (below one, which no probabilities have: negative weights cancel), "edge"
        (for two steps one outermost training state has most of the weight).
    warnings : tuple of str
        The warnings about these steps.
    paths : callable, optional
        Of smoothed states: from a number of draws and a generator to draws of whole paths, see `draw_paths`.
    """

    weights: np.ndarray
    atoms: Atoms
    support: Support
    kind: str = "filtered"
    point: Point = as_it_is
    names: tuple[str, ...] = ()
    times: np.ndarray = field(default_factory=lambda: np.empty(0))
    moments: tuple[np.ndarray, np.ndarray] | None = None
    flags: Mapping[str, np.ndarray] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    paths: Callable[[int, np.random.Generator], np.ndarray] | None = None

    def __post_init__(self) -> None:
        if not len(self.times):
            object.__setattr__(self, "times", np.arange(len(self.weights)))
        if not self.names:
            columns = self.atoms.points.shape[1]
            object.__setattr__(self, "names", tuple(f"state_{i}" for i in range(columns)))
        if self.moments is not None and len(self.moments[0]) != len(self.times):
            raise ValueError(
                f"there are moments of {len(self.moments[0])} times, and {len(self.times)} times; give those "
                "of the same times"
            )

    def __len__(self) -> int:
        return len(self.times)

    def __repr__(self) -> str:
        steps, states = len(self), len(self.atoms.points)
        named = ", ".join(self.names)
        return f"<FilteredStates: {self.kind}, {steps} times, {states} training states of {named}>"

    def __getitem__(self, t: int) -> Belief:
        moments = None if self.moments is None else Moments(self.moments[0][t], self.moments[1][t])
        # Made when it is asked for, as the weights of all times are.
        weights: Any = self.weights[t] if moments is None else lambda: self.weights[t]
        return Belief(weights, self.atoms, self.support, self.point, self.names, moments)

    @property
    def last(self) -> Belief:
        """The belief at the last time, from which a stream or a prediction continues."""
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
        means = self.weights @ self.atoms.points if self.moments is None else self.moments[0]
        return np.array([self.point(mean) for mean in means])

    def cov(self) -> np.ndarray:
        """Covariances: the moments', or those of the weights projected onto the simplex.

        Returns
        -------
        ndarray of shape (T, p, p)
        """
        if self.moments is not None:
            return self.moments[1].copy()
        return np.array([posterior.cov() for posterior in self._posteriors()])

    def mode(self) -> np.ndarray:
        """Modes: the moments' means, or see `Posterior.mode`.

        Returns
        -------
        ndarray of shape (T, p)
        """
        if self.moments is not None:
            return self.moments[0].copy()
        return np.array([posterior.mode() for posterior in self._posteriors()])

    def quantile(self, q: float | list[float] | np.ndarray) -> np.ndarray:
        """Marginal quantiles: the moments', or those of the weights projected onto the simplex.

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
        if self.moments is None:
            return np.array([posterior.quantile(q) for posterior in self._posteriors()])
        levels = check_levels(q)
        means, covariances = self.moments
        deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
        found = means[:, None] + norm.ppf(levels)[:, None] * deviations[:, None]
        return found[:, 0] if np.ndim(q) == 0 else found

    def draw(self, draws: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Equally weighted draws, each time by itself: see `draw_paths` for whole paths.

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
        if self.moments is not None:
            means, covariances = self.moments
            noise = rng.normal(size=(len(self), draws, means.shape[1]))
            return means[:, None] + noise @ np.swapaxes(roots_of(covariances), 1, 2)
        return np.array([posterior.draw(draws, rng) for posterior in self._posteriors()])

    def draw_paths(self, draws: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of whole paths given all observations: forward filtering, backward sampling.

        Of moments, each state is drawn from the normal distributions that the smoother has of it given the
        next one; of weights, among the training states, with those of the step back from the next one.

        Parameters
        ----------
        draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of shape (draws, T, p)

        Raises
        ------
        TypeError, ValueError
            If the number of draws is not whole, or below one, or the states are not smoothed ones.

        Warns
        -----
        PosteriorWarning
            If no held-out steps show that the step back does better than the filter.

        References
        ----------
        .. [1] S. Godsill, A. Doucet, M. West, Monte Carlo smoothing for nonlinear time series, JASA 99
           (2004), 156-168.
        """
        whole("draws", draws)
        if self.paths is None:
            raise ValueError(
                f"the states are {self.kind} ones, each time by itself; paths are drawn given all "
                "observations: take `smooth(...)` of the filter"
            )
        return self.paths(draws, generator_of(random_seed))

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
        return replace(self, weights=self.__dict__["weights"], names=tuple(names))

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
        interval = self.interval(probability)
        variances = np.diagonal(self.cov(), axis1=1, axis2=2)
        side = ("time", "state")
        return xr.Dataset(
            {
                "mean": (side, self.mean()),
                "sd": (side, np.sqrt(variances)),
                "lower": (side, interval[:, 0]),
                "upper": (side, interval[:, 1]),
                "effective_sample_size": ("time", self.effective_sample_size),
                "total_weight": ("time", self.total_weight),
                "weight": (("time", "atom"), self.weights),
                "atoms": (("atom", "state"), self.atoms.points),
            },
            coords={"time": self.times, "state": list(self.names)},
            attrs={"kind": self.kind, "probability": probability},
        )

    def to_arviz(
        self,
        draws: int = 500,
        *,
        chains: int = 2,
        random_seed: int | np.random.Generator | None = None,
        paths: bool = False,
    ) -> Any:
        """Draws and weights for ArviZ.

        Parameters
        ----------
        draws : int
            Of each chain.
        chains : int
        random_seed : int or numpy.random.Generator, optional
        paths : bool
            Whether draws are whole paths (`draw_paths`); otherwise those of each time are independent.

        Returns
        -------
        arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)

        Raises
        ------
        TypeError, ValueError
            If a number is not whole, or below one, or there are no paths.
        """
        from pymc_kbr.posterior.arviz import WEIGHTED_ATOMS, pack

        whole("draws", draws)
        whole("chains", chains)
        # Draws first, which are then cut into chains.
        if paths:
            drawn = self.draw_paths(draws * chains, random_seed)
        else:
            drawn = self.draw(draws * chains, random_seed).transpose(1, 0, 2)
        shape = (chains, draws, *drawn.shape[1:])
        dims = ("chain", "draw", "time", "state_dim")
        coords = {"time": self.times, "state_dim": list(self.names)}
        attrs = {
            "inference_library": "pymc_kbr",
            "kind": self.kind,
            "note": "draws are whole paths"
            if paths
            else "draws are independent at each time: they are no paths",
        }
        posterior = xr.Dataset(
            {"state": (dims, drawn.reshape(shape))},
            coords={"chain": np.arange(chains), "draw": np.arange(draws), **coords},
            attrs=attrs,
        )
        weighted = xr.Dataset(
            {"state": (("atom", "state_dim"), self.atoms.points), "weight": (("time", "atom"), self.weights)},
            coords=coords,
            attrs=attrs,
        )
        return pack({"posterior": posterior, WEIGHTED_ATOMS: weighted})

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
        return plot_states(self, truth, ax=ax, **options)

    @cached_property
    def _probabilities(self) -> np.ndarray:
        """Weights (T, N) projected onto the simplex: means, intervals and covariances share them."""
        # All at once would hold several arrays of the weights' size.
        rows = [self.weights[i : i + 256] for i in range(0, len(self), 256)]
        return np.vstack([project_rows_to_simplex(self.atoms, part) for part in rows])

    def _posteriors(self) -> list[Posterior]:
        return [self[t].projected(row) for t, row in enumerate(self._probabilities)]


FilteredStates.weights = OnDemand()  # type: ignore[assignment]


# --- the plot ---


@once_axes
def plot_states(
    states: FilteredStates,
    truth: np.ndarray | None = None,
    *,
    observations: np.ndarray | None = None,
    probability: float = 0.9,
    ax: Any = None,
) -> np.ndarray:
    """Means and bands of each column of the state over time, with the truth where it is known."""
    # Shapes: truth (T, p); observations (T, p); returned: (p,).
    means, bands = states.mean(), states.interval(probability)
    p = means.shape[1]
    for name, given in (("truth", truth), ("observations", observations)):
        if given is not None and np.shape(given) != means.shape:
            raise ValueError(f"{name} has shape {np.shape(given)}; the states have {means.shape}")
    axes = drawn_on(ax, p, (8, 2 * p), below=True)
    for i, axis in enumerate(axes):
        label = f"{probability:.0%} band, {states.kind}"
        axis.fill_between(states.times, bands[:, 0, i], bands[:, 1, i], color=BAND, label=label)
        axis.plot(states.times, means[:, i], color=POSTERIOR, label="mean")
        if observations is not None:
            axis.plot(states.times, observations[:, i], ".", color=OBSERVED, markersize=3, label="observed")
        if truth is not None:
            axis.plot(states.times, truth[:, i], color=TRUTH, linewidth=0.8, label="truth")
        axis.set(ylabel=states.names[i])
    axes[-1].set(xlabel="time")
    axes[0].legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(0, 1))
    return axes
