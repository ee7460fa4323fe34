"""Each observation given those before it: its distribution, scores of it, and a check of the filter by it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest, norm, spearmanr

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, whole
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.filtering.gaussian import Mixture, merged, roots_of
from pymc_kbr.filtering.recursion import AtTimes, OnDemand
from pymc_kbr.filtering.training import of_columns
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.posterior.posterior import check_levels

# --- predictions as mixtures ---


def smoothed_atoms(points: np.ndarray, shares: np.ndarray) -> Mixture:
    """Weighted points (n, d) under normal noise, with their mean and variances kept (West 1993)."""
    d, few = points.shape[1], np.flatnonzero(shares > 0)
    points, shares = points[few], shares[few] / shares[few].sum()
    mean = shares @ points
    variances = shares @ (points - mean) ** 2
    # Silverman's rule.
    squared = (4 / ((d + 2) * effective_sample_size(shares))) ** (2 / (d + 4))
    squared = min(squared, 1.0)
    means = mean + np.sqrt(1 - squared) * (points - mean)
    # A column in which all these points are the same has a density of zero width: rounding is left of it.
    least = 1e-9 * np.maximum(np.abs(mean), 1.0)
    return Mixture(np.log(shares), means, np.maximum(squared * variances, least**2)[None])


def variances_of(mixture: Mixture) -> np.ndarray:
    """Variances of each column, (k, d) or (1, d): covariances that are given by these alone are diagonal."""
    covariances = mixture.covariances
    return covariances if covariances.ndim == 2 else np.diagonal(covariances, axis1=1, axis2=2)


def log_density(mixture: Mixture, row: np.ndarray) -> float:
    """At the columns of a row (d,) that are not NaN; NaN where all are."""
    there = np.flatnonzero(~np.isnan(row))
    if not len(there):
        return float("nan")
    apart = row[there] - mixture.means[:, there]
    if mixture.covariances.ndim == 2:
        variances = mixture.covariances[:, there]
        logs = -0.5 * np.sum(apart**2 / variances + np.log(variances), axis=1)
    else:
        covariances = mixture.covariances[:, there][:, :, there]
        solved = np.linalg.solve(covariances, apart[:, :, None])[:, :, 0]
        logs = -0.5 * (np.sum(solved * apart, axis=1) + np.linalg.slogdet(covariances)[1])
    return float(logsumexp(mixture.shares + logs) - 0.5 * len(there) * np.log(2 * np.pi))


def distribution(mixture: Mixture, rows: np.ndarray) -> np.ndarray:
    """Marginal distribution functions at rows (m, d): (m, d), with NaN where these have it."""
    deviations = np.sqrt(variances_of(mixture))
    at = norm.cdf((rows[:, None] - mixture.means) / deviations)
    return np.einsum("k,mkd->md", np.exp(mixture.shares), at)


def quantiles(mixture: Mixture, levels: np.ndarray) -> np.ndarray:
    """Marginal quantiles (m, d) at levels (m,), by bisection between those of the components."""
    deviations = np.sqrt(variances_of(mixture))
    of_components = mixture.means + norm.ppf(levels)[:, None, None] * deviations
    low, high = of_components.min(axis=1), of_components.max(axis=1)
    # Each step halves the interval: 60 leave rounding alone.
    for _ in range(60):
        middle = (low + high) / 2
        below = distribution(mixture, middle) < levels[:, None]
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return high


def draws_of(mixture: Mixture, draws: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (draws, d)."""
    shares = np.exp(mixture.shares)
    k = rng.choice(len(shares), size=draws, p=shares / shares.sum())
    noise = rng.normal(size=(draws, mixture.means.shape[1]))
    if mixture.covariances.ndim == 2:
        return mixture.means[k] + noise * np.sqrt(mixture.covariances)
    return mixture.means[k] + (roots_of(mixture.covariances)[k] @ noise[:, :, None])[:, :, 0]


class KernelScore:
    """The kernel score of predictions, in a Gaussian kernel of median bandwidth on the training rows."""

    # Shapes: trained (n, d).
    def __init__(self, trained: np.ndarray) -> None:
        self._trained, self._kernel = trained, Gaussian(median_heuristic(trained))
        self._of_columns: dict[bytes, Atoms] = {}

    def _atoms(self, there: np.ndarray) -> Atoms:
        key = there.tobytes()
        if key not in self._of_columns:
            kernel = of_columns(self._kernel, np.flatnonzero(there))
            self._of_columns[key] = Atoms(self._trained[:, there], kernel)
        return self._of_columns[key]

    def of_weights(self, weights: np.ndarray, row: np.ndarray) -> float:
        """Of weights (n,) of the training rows, at the columns of a row (d,) that are not NaN."""
        there = ~np.isnan(row)
        if not there.any():
            return float("nan")
        atoms = self._atoms(there)
        at = atoms.kernel(atoms.points, row[None, there])[:, 0]
        return float(0.5 * weights @ atoms.apply_gram(weights) - weights @ at)

    def of_mixture(self, mixture: Mixture, row: np.ndarray) -> float:
        """Of a mixture, in closed form: a Gaussian kernel's mean under a normal distribution is known."""
        there = np.flatnonzero(~np.isnan(row))
        if not len(there):
            return float("nan")
        means, covariances = mixture.means[:, there], mixture.covariances[:, there][:, :, there]
        shares, k = np.exp(mixture.shares), len(mixture.means)
        to_row = self._mean(row[there] - means, covariances)
        pairs = self._mean(
            (means[:, None] - means).reshape(k * k, -1),
            (covariances[:, None] + covariances).reshape(k * k, len(there), len(there)),
        )
        return float(0.5 * shares @ pairs.reshape(k, k) @ shares - shares @ to_row)

    def _mean(self, apart: np.ndarray, covariances: np.ndarray) -> np.ndarray:
        squared = float(self._kernel.bandwidth) ** 2  # type: ignore[arg-type]
        wide = covariances / squared + np.eye(apart.shape[1])
        solved = np.linalg.solve(wide, apart[:, :, None])[:, :, 0]
        return np.exp(-0.5 * np.sum(solved * apart, axis=1) / squared) / np.sqrt(np.linalg.det(wide))


# --- the result ---


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class PredictedObservations(AtTimes):
    """The distribution of each observation given those before it.

    Of a filter by moments, what it expects of the observation; of one by weights, the training observations
    with the weights of the embedding, projected onto the simplex, under normal noise (Silverman's rule).

    Parameters
    ----------
    mixtures : tuple of Mixture, length T
        Logarithms of shares, means and covariances of normal components.
    observed : ndarray of shape (T, d)
        With NaN where nothing was seen.
    weights : ndarray of shape (T, n)
        Of either sign, of the training observations: the embedding of each prediction (Fukumizu 2013,
        section 4.3). May be a function that makes them when they are asked for.
    atoms : Atoms
        The training observations, and the filter's kernel on them, both in its scale.
    kernel_score : ndarray of shape (T,)
        Of what is reported; low is good. The kernel is a Gaussian one of median bandwidth on scaled
        observations, the same for all settings.
    names : tuple of str, length d
    times : ndarray of shape (T,)
    flags : dict of str to ndarray of shape (T,)
        "outside", whether an observation, or what was expected of it, lies beyond those of the training.
    warnings : tuple of str
        The warning about these steps.
    """

    mixtures: tuple[Mixture, ...]
    observed: np.ndarray
    weights: np.ndarray
    atoms: Atoms
    kernel_score: np.ndarray
    names: tuple[str, ...] = ()
    times: np.ndarray = field(default_factory=lambda: np.empty(0))
    flags: Mapping[str, np.ndarray] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.mixtures)

    def __repr__(self) -> str:
        scores = self.log_score[~np.isnan(self.log_score)]
        said = f"log score {scores.mean():.4g} a time" if len(scores) else "nothing observed"
        return f"<PredictedObservations: {len(self)} times, {', '.join(self.names)}, {said}>"

    def embedding(self, t: int) -> Embedding:
        """The kernel mean of the observation at one time given those before it.

        Parameters
        ----------
        t : int
            Its place among the T times; from the end where negative.

        Returns
        -------
        Embedding
            In the filter's kernel on scaled observations.
        """
        return Embedding(self.atoms, self.weights[t])

    def mean(self) -> np.ndarray:
        """Means.

        Returns
        -------
        ndarray of shape (T, d)
        """
        return np.array([np.exp(one.shares) @ one.means for one in self.mixtures])

    def cov(self) -> np.ndarray:
        """Covariances.

        Returns
        -------
        ndarray of shape (T, d, d)
        """
        found = []
        for one in self.mixtures:
            within = one.covariances
            if within.ndim == 2:
                within = np.broadcast_to(np.diag(within[0]), (len(one.means), *2 * within.shape[1:]))
            found.append(merged(one.shares, one.means, within).covariance)
        return np.array(found)

    def quantile(self, q: float | list[float] | np.ndarray) -> np.ndarray:
        """Marginal quantiles.

        Parameters
        ----------
        q : float or array_like of shape (k,)
            Probabilities in [0, 1].

        Returns
        -------
        ndarray of shape (T, d) or (T, k, d)

        Raises
        ------
        ValueError
            If one is no probability.
        """
        levels = check_levels(q)
        found = np.array([quantiles(one, levels) for one in self.mixtures])
        return found[:, 0] if np.ndim(q) == 0 else found

    def draw(self, draws: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws of each observation given those before it.

        Parameters
        ----------
        draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of shape (T, draws, d)

        Raises
        ------
        TypeError, ValueError
            If the number of draws is not whole, or below one.
        """
        whole("draws", draws)
        rng = generator_of(random_seed)
        return np.array([draws_of(one, draws, rng) for one in self.mixtures])

    @property
    def log_score(self) -> np.ndarray:
        """Log density of what was observed, shape (T,), in its units; NaN where nothing was.

        The sum is the log density of the whole sequence: filters are compared by it without known states.
        """
        rows = zip(self.mixtures, self.observed, strict=True)
        return np.array([log_density(one, row) for one, row in rows])

    @property
    def pit(self) -> np.ndarray:
        """Each column's distribution function at what was observed, shape (T, d); NaN where nothing was.

        Under a right model they are uniform and independent of each other in time.
        """
        rows = zip(self.mixtures, self.observed, strict=True)
        return np.array([distribution(one, row[None])[0] for one, row in rows])

    def check(self) -> dict[str, np.ndarray]:
        """P-values, one a column, of whether `pit` is uniform and independent in time.

        Returns
        -------
        dict
            "uniform", by Kolmogorov and Smirnov's test, and "independent", by Spearman's correlation of
            neighbours; NaN where fewer than three values are there.
        """
        uniform, independent = [], []
        for column in self.pit.T:
            there = column[~np.isnan(column)]
            both = ~np.isnan(column[1:]) & ~np.isnan(column[:-1])
            uniform.append(kstest(there, "uniform").pvalue if len(there) > 2 else np.nan)
            pairs = column[:-1][both], column[1:][both]
            independent.append(spearmanr(*pairs).pvalue if both.sum() > 2 else np.nan)
        return {"uniform": np.array(uniform), "independent": np.array(independent)}

    def to_xarray(self, probability: float = 0.9) -> Any:
        """Means, intervals and scores, with labels.

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
        import xarray as xr

        interval, side = self.interval(probability), ("time", "observation")
        return xr.Dataset(
            {
                "mean": (side, self.mean()),
                "lower": (side, interval[:, 0]),
                "upper": (side, interval[:, 1]),
                "observed": (side, self.observed),
                "pit": (side, self.pit),
                "log_score": ("time", self.log_score),
                "kernel_score": ("time", self.kernel_score),
            },
            coords={"time": self.times, "observation": list(self.names)},
            attrs={"probability": probability},
        )


PredictedObservations.weights = OnDemand()  # type: ignore[assignment]
