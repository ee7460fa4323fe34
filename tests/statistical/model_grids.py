"""Posteriors of some of the models on grids, with SciPy's densities: another way than their references'."""

import numpy as np
from scipy import stats
from scipy.special import betaln

from tests.statistical.models import counts, discrete, heavy_tails, hierarchical, raw, series, truncated
from tests.statistical.models.problem import PROBLEMS, moments

GRIDS = {}
"""From a model's name to a function that gives moments of some of its parameters."""


def on_a_grid(compute):
    GRIDS[compute.__name__] = compute
    return compute


def observed(name):
    """Of the first observed variable of a model's twin."""
    model = PROBLEMS[name].model(simulated=False)
    return model.rvs_to_values[model.observed_RVs[0]].data


def between(low, high, n):
    """The middles of n equal parts."""
    return low + (high - low) * (np.arange(n) + 0.5) / n


def two(log, prior, **axes):
    """Of two parameters: sums of `log` over the data, a row of the first parameter at a time."""
    (_, first), (_, second) = axes.items()
    grid = np.stack([log(one, second[:, None]).sum(axis=-1) for one in first])
    return moments(grid + prior(first[:, None], second), **axes)


@on_a_grid
def eight_groups():
    """Of mu and tau: group means are normal with both variances."""
    y, mu, tau = observed("eight_groups"), between(-2, 2.5, 150), between(0, 2.5, 250)
    prior = stats.norm.logpdf, stats.halfnorm.logpdf
    scale = np.hypot(tau, hierarchical.WITHIN)
    log = sum(stats.norm.logpdf(one, mu[:, None], scale) for one in y)
    return moments(log + prior[0](mu)[:, None] + prior[1](tau), mu=mu, tau=tau)


@on_a_grid
def change_point():
    y, early, late = discrete.COUNTS, between(1.5, 7, 200), between(0.4, 4, 200)
    first, second = (stats.poisson.logpmf(y[:, None], rate) for rate in (early, late))
    before = np.vstack([np.zeros(200), np.cumsum(first, axis=0)[:-1]])
    after = np.cumsum(second[::-1], axis=0)[::-1]
    log = before[:, :, None] - 0.3 * early[:, None] + (after - 0.3 * late)[:, None, :]
    return moments(log, change=discrete.YEARS, early=early, late=late)


@on_a_grid
def population_size():
    """Of the population: its share has a beta distribution given that."""
    population = np.arange(116, 801)
    at_half = discrete.log_captures(population, 0.5) + 2 * population * np.log(2)
    both = discrete.CAPTURED[:2].sum()
    return moments(at_half + betaln(2 + both, 4 + 2 * population - both), population=population)


@on_a_grid
def wet_days():
    dry, begins, remains = series.DAYS
    p = between(0, 1, 1000)
    rains = stats.binom.logpmf(begins, dry, p) + stats.beta(1, 3).logpdf(p)
    stays = stats.binom.logpmf(remains, 120 - dry, p) + stats.beta(2, 2).logpdf(p)
    return moments(rains, rains=p) | moments(stays, stays=p)


@on_a_grid
def raw_normal():
    y = observed("raw_normal")

    def prior(m, s):
        return stats.norm(0, 2).logpdf(m) + stats.halfnorm(scale=2).logpdf(s)

    return two(
        lambda m, s: stats.norm.logpdf(y, m, s),
        prior,
        mean=between(0, 1.6, 150),
        deviation=between(0.8, 2, 150),
    )


@on_a_grid
def sinusoid():
    """Least squares are quadratic in the amplitude."""
    y, frequency = raw.WAVE, between(0, 10, 1000)
    amplitude, sigma = between(0, 2, 50), between(0.8, 1.8, 50)
    wave = np.sin(2 * np.pi * frequency[:, None] * raw.TIMES)
    products, squares = (one[:, None] for one in (wave @ y, (wave**2).sum(axis=1)))
    squares = y @ y - 2 * amplitude * products + amplitude**2 * squares
    log = (
        -squares[:, :, None] / (2 * sigma**2)
        - 200 * np.log(sigma)
        - sigma**2 / 2
        - (amplitude**2 / 2)[:, None]
    )
    return moments(log, frequency=frequency, amplitude=amplitude, sigma=sigma)


@on_a_grid
def beside_normal():
    y, m, s = observed("beside_normal"), between(0, 1.2, 150), between(0.3, 1, 150)
    log = stats.norm.logpdf(y[:, None, None], m[:, None], s).sum(axis=0)
    of_m = stats.norm.logpdf(m) + stats.norm.logpdf(0.45, m, 1 / np.sqrt(10))
    return moments(log + of_m[:, None] + stats.halfnorm.logpdf(s), m=m, s=s)


@on_a_grid
def raw_series():
    x, phi, s = series.RAW, between(0.1, 0.95, 200), between(0.7, 1.4, 200)
    squares = ((x[1:] - phi[:, None] * x[:-1]) ** 2).sum(axis=1) + (1 - phi**2) * x[0] ** 2
    log = 0.5 * np.log1p(-(phi**2))[:, None] - 200 * np.log(s) - squares[:, None] / (2 * s**2) - s**2 / 2
    return moments(log, phi=phi, s=s)


@on_a_grid
def local_level():
    """Independent in the eigenvectors of the walk's covariance."""
    values, vectors = np.linalg.eigh(series.WALK)
    step, noise = between(0, 2, 200), between(0, 2, 200)
    variance = step[:, None, None] ** 2 * values + noise[:, None] ** 2
    log = stats.norm.logpdf(vectors.T @ series.LEVELS, 0, np.sqrt(variance)).sum(axis=-1)
    return moments(log - step[:, None] ** 2 / 2 - noise**2 / 2, step=step, noise=noise)


@on_a_grid
def lighthouse():
    x = heavy_tails.FLASHES

    def prior(_, s):
        return stats.halfnorm(scale=5).logpdf(s)

    axes = {"position": between(-2, 5, 200), "distance": between(0.3, 6, 200)}
    return two(lambda m, s: stats.cauchy.logpdf(x, m, s), prior, **axes)


@on_a_grid
def detection_limit():
    y = truncated.LOG_AMOUNTS
    above, below = y[y > truncated.LIMIT], np.sum(y <= truncated.LIMIT)

    def log(mu, sigma):
        seen = stats.norm.logpdf(above, mu, sigma).sum(axis=-1, keepdims=True)
        return seen + below * stats.norm.logcdf(truncated.LIMIT, mu, sigma)

    def prior(m, s):
        return stats.norm.logpdf(m) + stats.halfnorm.logpdf(s)

    return two(log, prior, mu=between(-1.5, 0.6, 150), sigma=between(0.3, 2, 150))


@on_a_grid
def overdispersed():
    y = counts.PARASITES

    def prior(m, a):
        return -0.1 * m - 0.5 * a

    axes = {"mean": between(1, 15, 150), "alpha": between(0.1, 4, 150)}
    return two(lambda m, a: stats.nbinom.logpmf(y, a, a / (a + m)), prior, **axes)


@on_a_grid
def count_regression():
    x, y = np.linspace(-1, 1, 30), observed("count_regression")

    def prior(a, b):
        return -(a**2) / 2 - b**2 / 2

    axes = {"intercept": between(0, 2, 150), "slope": between(-0.5, 2, 150)}
    return two(lambda a, b: stats.poisson.logpmf(y, np.exp(a + b * x)), prior, **axes)


@on_a_grid
def zero_inflated():
    y = counts.EGGS
    zeros, others = np.sum(y == 0), y[y > 0]

    def log(empty, mean):
        counted = (np.log1p(-empty) + stats.poisson.logpmf(others, mean)).sum(axis=-1, keepdims=True)
        return counted + zeros * np.log(empty + (1 - empty) * np.exp(-mean))

    def prior(e, m):
        return stats.beta(2, 2).logpdf(e) + stats.gamma(2, scale=2).logpdf(m)

    return two(log, prior, empty=between(0, 0.9, 150), mean=between(0.8, 5, 150))
