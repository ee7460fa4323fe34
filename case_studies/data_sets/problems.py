"""Ten simulators of raw data, of 50 to 500 rows, and the statistics that their fields take of these."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msprime
import numpy as np
from scipy import stats

OCTILES = np.arange(1, 8) / 8
CHROMOSOMES = 50


@dataclass(frozen=True)
class Problem:
    """A prior, a simulator of rows and statistics of a data set.

    Parameters
    ----------
    bounds : dict of str to (lower, upper)
        Of a uniform prior.
    simulate : callable
        From a generator, parameters and a number of rows to a data set (m, q).
    statistics : callable
        From a data set to its statistics (d,).
    words : str
        What these statistics are.
    """

    bounds: dict[str, tuple[float, float]]
    simulate: Callable[..., np.ndarray]
    statistics: Callable[[np.ndarray], np.ndarray]
    words: str


def g_and_k(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Place, width, skewness and tails of a quantile function."""
    a, b, g, k = theta
    z = rng.standard_normal(size)
    return (a + b * (1 + 0.8 * np.tanh(g * z / 2)) * (1 + z**2) ** k * z)[:, None]


def octiles(data: np.ndarray) -> np.ndarray:
    """Seven quantiles."""
    return np.quantile(data[:, 0], OCTILES)


def normal(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Mean and deviation."""
    return rng.normal(theta[0], theta[1], (size, 1))


def mean_and_deviation(data: np.ndarray) -> np.ndarray:
    """Sufficient."""
    return np.array([data.mean(), np.log(data.std())])


def waiting(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Shape and scale of a gamma distribution."""
    return rng.gamma(theta[0], theta[1], (size, 1))


def mean_logarithms(data: np.ndarray) -> np.ndarray:
    """Sufficient: logarithm of the mean, mean of the logarithms."""
    return np.array([np.log(data.mean()), np.log(data).mean()])


def student(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Place, scale and logarithm of the degrees of freedom."""
    return theta[0] + theta[1] * rng.standard_t(np.exp(theta[2]), (size, 1))


def moments(data: np.ndarray) -> np.ndarray:
    """Mean, deviation, skewness, kurtosis."""
    y = data[:, 0]
    return np.array([y.mean(), np.log(y.std()), stats.skew(y), stats.kurtosis(y)])


def mixture(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Share, place of the first, distance of two normal distributions of deviation one."""
    first = rng.uniform(size=size) < theta[0]
    return (theta[1] + np.where(first, 0, theta[2]) + rng.standard_normal(size))[:, None]


def correlated(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Two deviations and a correlation."""
    x = rng.standard_normal((size, 2))
    return np.column_stack([theta[0] * x[:, 0], theta[1] * (theta[2] * x[:, 0] + _rest(theta[2]) * x[:, 1])])


def _rest(correlation: float) -> float:
    return float(np.sqrt(1 - correlation**2))


def second_moments(data: np.ndarray) -> np.ndarray:
    """Sufficient: both root mean squares, and the correlation about zero."""
    roots = np.sqrt((data**2).mean(axis=0))
    return np.array([*np.log(roots), (data[:, 0] * data[:, 1]).mean() / roots.prod()])


def clayton(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Dependence of a Clayton copula with normal margins, and their common deviation."""
    u, v = rng.uniform(size=(2, size))
    a = theta[0]
    w = (u ** (-a) * (v ** (-a / (1 + a)) - 1) + 1) ** (-1 / a)
    return theta[1] * stats.norm.ppf(np.clip(np.column_stack([u, w]), 1e-12, 1 - 1e-12))


def tau_and_deviations(data: np.ndarray) -> np.ndarray:
    """Kendall's tau, and both deviations."""
    return np.array([stats.kendalltau(*data.T).statistic, *np.log(data.std(axis=0))])


def counts(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Mean and dispersion of negative binomial counts."""
    mean, dispersion = theta
    return rng.poisson(rng.gamma(dispersion, mean / dispersion, (size, 1))).astype(float)


def mean_variance_zeros(data: np.ndarray) -> np.ndarray:
    """Mean, variance, share of zeros."""
    return np.array([data.mean(), np.log1p(data.var()), (data == 0).mean()])


def ring(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Radius of a noisy ring in the plane, its noise, and how much of it is there."""
    angle = rng.uniform(0, theta[2], size)
    points = theta[0] * np.column_stack([np.cos(angle), np.sin(angle)])
    return points + theta[1] * rng.standard_normal((size, 2))


def means_and_covariances(data: np.ndarray) -> np.ndarray:
    """First and second moments."""
    covariance = np.cov(data.T)
    return np.array([*data.mean(axis=0), covariance[0, 0], covariance[1, 1], covariance[0, 1]])


def regression(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Pairs: intercept, slope, and how fast the noise grows with the input."""
    x = rng.uniform(-1, 1, size)
    return np.column_stack([x, theta[0] + theta[1] * x + np.exp(theta[2] * x) * rng.standard_normal(size)])


def least_squares(data: np.ndarray) -> np.ndarray:
    """Coefficients, and those of the squared residuals' logarithms."""
    x, y = data.T
    line = np.polyfit(x, y, 1)
    return np.array([*line, *np.polyfit(x, np.log((y - np.polyval(line, x)) ** 2 + 1e-6), 1)])


def sites(rng: np.random.Generator, theta: np.ndarray, size: int) -> np.ndarray:
    """Sites of 50 chromosomes of a growing population: place, and share of the rarer allele.

    Chance decides on how many there are; `size` is not looked at.
    """
    demography = msprime.Demography()
    demography.add_population(initial_size=1, growth_rate=float(theta[1]))
    seeds = rng.integers(1, 2**31, 2)
    trees = msprime.sim_ancestry(
        CHROMOSOMES, ploidy=1, demography=demography, sequence_length=1, discrete_genome=False,
        recombination_rate=2.0, random_seed=seeds[0],
    )  # fmt: skip
    mutated = msprime.sim_mutations(trees, rate=theta[0] / 2, discrete_genome=False, random_seed=seeds[1])
    copies = mutated.genotype_matrix().sum(axis=1)
    places = np.array([site.position for site in mutated.sites()])
    return np.column_stack([places, np.minimum(copies, CHROMOSOMES - copies) / CHROMOSOMES])


def spectrum(data: np.ndarray) -> np.ndarray:
    """Sites, mean share of the rarer allele, and how many have one to ten copies of it."""
    copies = np.rint(data[:, 1] * CHROMOSOMES).astype(int)
    return np.array([len(data), data[:, 1].mean(), *np.bincount(copies, minlength=11)[1:11]])


PROBLEMS = {
    "g-and-k": Problem({"a": (0, 10), "b": (0.1, 5), "g": (0, 5), "k": (0, 1)}, g_and_k, octiles, "octiles"),
    "normal": Problem(
        {"mean": (-3, 3), "deviation": (0.2, 3)}, normal, mean_and_deviation, "mean, deviation (sufficient)"
    ),
    "gamma": Problem(
        {"shape": (0.3, 5), "scale": (0.2, 3)}, waiting, mean_logarithms, "mean, mean logarithm (sufficient)"
    ),
    "Student t": Problem(
        {"place": (-3, 3), "scale": (0.2, 3), "log_degrees": (0, 3)}, student, octiles, "octiles"
    ),
    "mixture": Problem(
        {"share": (0.1, 0.9), "first": (-3, 3), "apart": (1, 5)}, mixture, moments, "four moments"
    ),
    "correlated": Problem(
        {"deviation_x": (0.2, 3), "deviation_y": (0.2, 3), "correlation": (-0.95, 0.95)},
        correlated,
        second_moments,
        "second moments (sufficient)",
    ),
    "Clayton": Problem(
        {"dependence": (0.2, 6), "deviation": (0.3, 3)}, clayton, tau_and_deviations, "tau, deviations"
    ),
    "counts": Problem(
        {"mean": (0.5, 15), "dispersion": (0.3, 6)}, counts, mean_variance_zeros, "mean, variance, zeros"
    ),
    "ring": Problem(
        {"radius": (0.5, 3), "noise": (0.05, 0.6), "arc": (1, 2 * np.pi)},
        ring,
        means_and_covariances,
        "means, covariances",
    ),
    "regression": Problem(
        {"intercept": (-3, 3), "slope": (-3, 3), "noise_slope": (-1.5, 1.5)},
        regression,
        least_squares,
        "two regressions",
    ),
    "sites": Problem({"theta": (5, 20), "growth": (0, 10)}, sites, spectrum, "spectrum of the rarer allele"),
}
"""Ten, and the sites of a coalescent."""
