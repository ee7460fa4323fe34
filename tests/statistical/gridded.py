"""Twenty-four small models with exact posteriors: ``python -m tests.statistical.gridded [names] [--record]``.

Hard bounds, heavy tails, counts, periodic and discrete parameters, limits and compositions, as a user's first
model has them. Each is run by the defaults of `sample_abc` with one seed; exact means and standard deviations
are sums over a grid, or known. With ``--record`` lines are written into gridded.csv.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from scipy import stats
from scipy.special import gammaln, hyp1f1, i0

import pymc_kbr as pk
from tests.statistical.models.problem import Exact, moments
from tests.statistical.models.scores import MOST_ERROR, MOST_RATIO

RECORDED = Path(__file__).with_suffix(".csv")
HEAD = ["model", "parameter", "error", "ratio", "verdict", "warnings", "notes", "seconds", "estimator"]

MODELS: dict[str, Callable[[], Exact]] = {}
"""Functions that add a model's variables to the one that is open, and return its exact moments."""


def enter(write: Callable[[], Exact]) -> Callable[[], Exact]:
    MODELS[write.__name__] = write
    return write


def simulated(simulator: Any, *parameters: Any, observed: Any) -> None:
    """A simulator of independent draws."""
    pm.Simulator("y", simulator, *parameters, observed=np.asarray(observed, dtype=float))


def vector(simulator: Any, *parameters: Any, observed: Any) -> None:
    pk.vector_simulator("y", simulator, *parameters, observed=np.asarray(observed, dtype=float))


def over(log_density: Callable[..., np.ndarray], **axes: np.ndarray) -> Exact:
    """Moments of a density of parameters that are given on axes."""
    return moments(log_density(*np.meshgrid(*axes.values(), indexing="ij")), **axes)


def of_logs(low: float, high: float, count: int = 601) -> np.ndarray:
    """Values whose logarithms are evenly spaced: a density of these is one of the logarithm."""
    return np.exp(np.linspace(low, high, count))


@enter
def direction() -> Exact:
    """Sums of sine and cosine of five angles around pi, where the prior's ends meet"""
    x = np.array([3.0, -2.9, 2.6, 3.1, -3.0])
    mu, k = pm.Uniform("mu", -np.pi, np.pi), pm.Gamma("k", 2, 0.5)
    s, c = np.sin(x).sum(), np.cos(x).sum()

    def simulate(rng, mu, k, size):
        angles = rng.vonmises(mu, k, 5)
        return np.array([np.sin(angles).sum(), np.cos(angles).sum()])

    def log(mu, k):
        prior = stats.gamma(2, scale=2).logpdf(k)
        return k * (s * np.sin(mu) + c * np.cos(mu)) - 5 * np.log(i0(k)) + prior

    vector(simulate, mu, k, observed=[s, c])
    found = over(log, mu=np.linspace(-np.pi, np.pi, 801), k=np.linspace(0.01, 30, 600))
    return {"k": found["k"]}  # the mean of an angle around pi says nothing


@enter
def telegraph() -> Exact:
    """Eight counts of a gene that is on and off: Poisson with a beta share of 20"""
    x = np.array([0, 3, 14, 1, 0, 8, 2, 0])
    a, b = pm.LogNormal("a", 0, 1), pm.LogNormal("b", 0, 1)
    simulated(lambda rng, a, b, size: rng.poisson(20 * rng.beta(a, b, size)), a, b, observed=x)

    def log(a, b):
        each = [
            gammaln(a + v)
            - gammaln(a)
            + gammaln(a + b)
            - gammaln(a + b + v)
            + np.log(hyp1f1(a + v, a + b + v, -20))
            for v in x
        ]
        return sum(each) + stats.norm.logpdf(np.log(a)) + stats.norm.logpdf(np.log(b))

    return over(log, a=of_logs(-4, 4, 161), b=of_logs(-4, 4, 161))


@enter
def extremes() -> Exact:
    """Twenty largest values of a year"""
    x = stats.genextreme(-0.2, 3, 1).rvs(20, random_state=3)
    mu, s, xi = pm.Normal("mu", 2, 2), pm.HalfNormal("s", 2), pm.Normal("xi", 0, 0.3)

    def simulate(rng, mu, s, xi, size):
        return mu + s * (((-np.log(rng.random(size))) ** (-xi) - 1) / xi)

    def log(mu, s, xi):
        prior = stats.norm.logpdf(mu, 2, 2) + stats.norm.logpdf(s, 0, 2) + stats.norm.logpdf(xi, 0, 0.3)
        return prior + sum(stats.genextreme.logpdf(v, -xi, mu, s) for v in x)

    simulated(simulate, mu, s, xi, observed=x)
    axes = np.linspace(1.5, 5, 90), np.linspace(0.2, 3.5, 90), np.linspace(-0.8, 1.1, 96)
    return over(log, mu=axes[0], s=axes[1], xi=axes[2])


@enter
def mutants() -> Exact:
    """Eight counts of Luria and Delbrück, some of them jackpots"""
    x = np.array([1, 0, 3, 30, 2, 5, 0, 1])
    m = pm.LogNormal("m", 0, 1)

    def simulate(rng, m, size):
        clones = rng.poisson(m, size)
        return np.array([np.sum(np.minimum(np.floor(1 / rng.random(n)), 1e6)) for n in clones])

    values = of_logs(-3, 3)
    chances = np.zeros((x.max() + 1, len(values)))
    chances[0] = np.exp(-values)
    for k in range(1, len(chances)):
        chances[k] = values / k * sum(chances[k - i] / (i + 1) for i in range(1, k + 1))
    simulated(simulate, m, observed=x)
    return moments(sum(np.log(chances[v]) for v in x) + stats.norm.logpdf(np.log(values)), m=values)


@enter
def selection() -> Exact:
    """Counts of an allele of 30 at three times, under selection"""
    x, size_of_all = [15, 20, 26], 30
    s = pm.Normal("s", 0, 0.5)

    def share(n, s):
        return n * np.exp(s) / (n * np.exp(s) + (size_of_all - n))

    def simulate(rng, s, size):
        n, seen = 15, []
        for _ in range(9):
            n = rng.binomial(size_of_all, share(n, s))
            seen.append(n)
        return np.array(seen[2::3])

    values, n = np.linspace(-2, 2, 401), np.arange(size_of_all + 1)
    logs = stats.norm.logpdf(values, 0, 0.5)
    for i, value in enumerate(values):
        once = stats.binom.pmf(n[None], size_of_all, share(n, value)[:, None])
        thrice = np.linalg.matrix_power(once, 3)
        logs[i] += sum(np.log(thrice[a, b] + 1e-300) for a, b in zip([15, *x], x, strict=False))
    vector(simulate, s, observed=x)
    return moments(logs, s=values)


@enter
def households() -> Exact:
    """Of forty households of three: with none, one, or more infected"""
    x = np.array([14, 6, 20])
    q = pm.Uniform("q", 0, 1)

    def shares(q):
        return np.array([q**2, 2 * q**2 * (1 - q), 1 - q**2 - 2 * q**2 * (1 - q)])

    vector(lambda rng, q, size: rng.multinomial(40, shares(q) / shares(q).sum()), q, observed=x)
    values = np.linspace(0.001, 0.999, 999)
    return moments((x[:, None] * np.log(shares(values))).sum(axis=0), q=values)


@enter
def species() -> Exact:
    """Sizes of five clades of a birth process: geometric"""
    x = np.array([3, 7, 1, 4, 12])
    rate = pm.Exponential("rate", 1)
    simulated(lambda rng, r, size: rng.geometric(np.exp(-r), size), rate, observed=x)
    values = np.linspace(0.001, 6, 2000)
    return moments(-6 * values + (x - 1).sum() * np.log1p(-np.exp(-values)), rate=values)


@enter
def window() -> Exact:
    """Five uniform data in an interval of length one: hard bounds that move"""
    x = np.array([2.3, 2.9, 2.45, 2.7, 3.0])
    a = pm.Uniform("a", 0, 5)
    simulated(lambda rng, a, size: rng.uniform(a, a + 1, size), a, observed=x)
    return {"a": ((x.max() - 1 + x.min()) / 2, (x.min() - x.max() + 1) / np.sqrt(12))}


@enter
def incomes() -> Exact:
    """Ten Pareto data"""
    x = np.array([1.1, 3.2, 1.7, 15.0, 1.02, 2.2, 1.4, 60.0, 1.3, 1.9])
    tail = pm.Gamma("tail", 2, 1)
    simulated(lambda rng, a, size: rng.random(size) ** (-1 / a), tail, observed=x)
    shape, rate = 2 + len(x), 1 + np.log(x).sum()
    return {"tail": (shape / rate, np.sqrt(shape) / rate)}


@enter
def wild() -> Exact:
    """Five Cauchy data"""
    x = np.array([-2.0, 1.1, 1.3, 0.7, 9.0])
    mu = pm.Normal("mu", 0, 5)
    simulated(lambda rng, mu, size: mu + rng.standard_cauchy(size), mu, observed=x)
    values = np.linspace(-15, 15, 3001)
    return moments(
        stats.norm.logpdf(values, 0, 5) + sum(stats.cauchy.logpdf(v, values) for v in x), mu=values
    )


@enter
def absences() -> Exact:
    """Twelve counts with more zeros than Poisson's"""
    x = np.array([0, 0, 3, 0, 1, 4, 0, 2, 0, 0, 5, 3])
    p, rate = pm.Beta("p", 1, 1), pm.Exponential("rate", 0.3)
    simulated(lambda rng, p, r, size: rng.poisson(r, size) * (rng.random(size) < p), p, rate, observed=x)

    def log(p, r):
        return -0.3 * r + sum(np.log(p * stats.poisson.pmf(v, r) + (1 - p) * (v == 0)) for v in x)

    return over(log, p=np.linspace(0.002, 0.998, 250), rate=np.linspace(0.02, 15, 750))


@enter
def how_many() -> Exact:
    """Three binomial counts of an unknown number: a discrete parameter"""
    x = np.array([6, 9, 4])
    count = pm.DiscreteUniform("count", 1, 50)
    simulated(lambda rng, n, size: rng.binomial(n, 0.3, size), count, observed=x)
    values = np.arange(1, 51.0)
    return moments(sum(stats.binom.logpmf(v, values, 0.3) for v in x), count=values)


@enter
def deadline() -> Exact:
    """Ten exponential times, those after five recorded as five"""
    x = np.minimum([0.3, 7, 2.2, 9, 0.8, 4.0, 5.5, 1.1, 3.0, 12.0], 5.0)
    rate = pm.LogNormal("rate", 0, 1)
    simulated(lambda rng, r, size: np.minimum(rng.exponential(1 / r, size), 5.0), rate, observed=x)
    values = of_logs(-5, 3, 2001)
    logs = np.sum(x < 5) * np.log(values) - values * x.sum() + stats.norm.logpdf(np.log(values))
    return moments(logs, rate=values)


@enter
def censored() -> Exact:
    """Ten normal data, those above five recorded as five"""
    x = np.minimum(np.random.default_rng(5).normal(4, 2, 10), 5)
    mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 3)
    simulated(lambda rng, mu, s, size: np.minimum(rng.normal(mu, s, size), 5.0), mu, s, observed=x)

    def log(mu, s):
        each = [stats.norm.logsf(5, mu, s) if v == 5 else stats.norm.logpdf(v, mu, s) for v in x]
        return sum(each) + stats.norm.logpdf(mu, 0, 3) + stats.halfnorm.logpdf(s, 0, 3)

    return over(log, mu=np.linspace(-6, 12, 500), s=np.linspace(0.02, 12, 500))


@enter
def scale_of_answers() -> Exact:
    """Twelve normal data between zero and three, those beyond recorded as the end"""
    x = np.clip(np.random.default_rng(6).normal(1, 2, 12), 0, 3)
    mu, s = pm.Normal("mu", 0, 3), pm.HalfNormal("s", 3)
    simulated(lambda rng, mu, s, size: np.clip(rng.normal(mu, s, size), 0, 3.0), mu, s, observed=x)

    def log(mu, s):
        each = [
            stats.norm.logsf(3, mu, s)
            if v == 3
            else stats.norm.logcdf(0, mu, s)
            if v == 0
            else stats.norm.logpdf(v, mu, s)
            for v in x
        ]
        return sum(each) + stats.norm.logpdf(mu, 0, 3) + stats.halfnorm.logpdf(s, 0, 3)

    return over(log, mu=np.linspace(-9, 9, 500), s=np.linspace(0.02, 12, 500))


@enter
def rain() -> Exact:
    """Ten days, some of them dry, the others log-normal"""
    x = np.array([0, 0, 1.3, 0.7, 0, 4.1, 2.2, 0, 0.4, 1.9])
    p, m = pm.Beta("p", 1, 1), pm.Normal("m", 0, 1)
    simulated(
        lambda rng, p, m, size: np.where(rng.random(size) < p, np.exp(rng.normal(m, 0.8, size)), 0.0),
        p,
        m,
        observed=x,
    )

    def log(p, m):
        each = [np.log1p(-p) if v == 0 else np.log(p) + stats.norm.logpdf(np.log(v), m, 0.8) for v in x]
        return sum(each) + stats.norm.logpdf(m)

    return over(log, p=np.linspace(0.001, 0.999, 400), m=np.linspace(-4, 4, 400))


@enter
def correlation() -> Exact:
    """The correlation of fifteen pairs"""
    rho, n, seen = pm.Uniform("rho", -1, 1), 15, 0.82

    def simulate(rng, rho, size):
        z, rho = rng.normal(size=(2, n)), float(np.ravel(rho)[0])
        return np.corrcoef(z[0], rho * z[0] + np.sqrt(1 - rho**2) * z[1])[0, 1]

    values, t = np.linspace(-0.999, 0.999, 1999), np.linspace(0, 40, 8001)
    integral = [np.trapezoid((np.cosh(t) - v * seen) ** (1 - n), t) for v in values]
    simulated(simulate, rho, observed=seen)
    return moments((n - 1) / 2 * np.log(1 - values**2) + np.log(integral), rho=values)


@enter
def largest() -> Exact:
    """The largest of twenty uniform data: an end that is the statistic"""
    end = pm.Uniform("end", 0, 10)
    simulated(lambda rng, end, size: end * rng.random(size) ** (1 / 20), end, observed=6.2)
    values = np.linspace(6.2, 10, 4000)
    return moments(-20 * np.log(values), end=values)


@enter
def two_signs() -> Exact:
    """Three data around plus or minus the mean: two modes"""
    x = np.array([-2.1, 1.8, 2.2])
    m = pm.Normal("m", 0, 3)
    simulated(
        lambda rng, m, size: np.where(rng.random(size) < 0.5, m, -m) + 0.3 * rng.normal(size=size),
        m,
        observed=x,
    )
    values = np.linspace(-8, 8, 4001)
    each = [np.logaddexp(stats.norm.logpdf(v, values, 0.3), stats.norm.logpdf(v, -values, 0.3)) for v in x]
    return moments(stats.norm.logpdf(values, 0, 3) + sum(each), m=values)


@enter
def sum_and_product() -> Exact:
    """Sum and product of two numbers, with noise of .002"""
    a, b = pm.Uniform("a", 0, 1), pm.Uniform("b", 0, 1)
    vector(
        lambda rng, a, b, size: np.array([a + b, a * b]) + 0.002 * rng.normal(size=2),
        a,
        b,
        observed=[1.1, 0.3],
    )
    values = np.linspace(0, 1, 4001)
    return over(lambda a, b: -((a + b - 1.1) ** 2 + (a * b - 0.3) ** 2) / 2 / 0.002**2, a=values, b=values)


@enter
def rounded() -> Exact:
    """Five normal data, rounded"""
    x = np.array([2.0, 3, 3, 5, 4])
    m, s = pm.Normal("m", 0, 5), pm.HalfNormal("s", 3)
    simulated(lambda rng, m, s, size: np.round(rng.normal(m, s, size)), m, s, observed=x)

    def log(m, s):
        each = [
            np.log(stats.norm.cdf((v + 0.5 - m) / s) - stats.norm.cdf((v - 0.5 - m) / s) + 1e-300) for v in x
        ]
        return sum(each) + stats.norm.logpdf(m, 0, 5) - s**2 / 18

    return over(log, m=np.linspace(-5, 12, 400), s=np.linspace(0.05, 12, 400))


@enter
def composition() -> Exact:
    """Four shares of a Dirichlet distribution, which sum to one"""
    x = np.random.default_rng(1).dirichlet([2, 3, 1.0, 4])
    c, w = pm.LogNormal("c", 1, 0.7), pm.Normal("w", 0, 1)

    def sizes(c, w):
        return np.array([c, c * np.exp(w), c * 0.5, c * 1.5])

    def log(c, w):
        alpha = sizes(c, w)
        density = gammaln(alpha.sum(axis=0)) - gammaln(alpha).sum(axis=0)
        density += np.tensordot(np.log(x), alpha - 1, axes=1)
        return density + stats.norm.logpdf(np.log(c), 1, 0.7) + stats.norm.logpdf(w)

    vector(lambda rng, c, w, size: rng.dirichlet(sizes(c, w)), c, w, observed=x)
    return over(log, c=of_logs(-2, 4, 300), w=np.linspace(-4, 4, 300))


@enter
def bursts() -> Exact:
    """Ten negative binomial counts"""
    x = np.array([3, 0, 12, 5, 1, 1, 24, 2, 8, 0])
    m, k = pm.LogNormal("m", 1.5, 1), pm.LogNormal("k", 0, 1)
    simulated(lambda rng, m, k, size: rng.poisson(rng.gamma(k, m / k, size)), m, k, observed=x)

    def log(m, k):
        each = [stats.nbinom.logpmf(v, k, k / (m + k)) for v in x]
        return sum(each) + stats.norm.logpdf(np.log(m), 1.5, 1) + stats.norm.logpdf(np.log(k))

    return over(log, m=of_logs(-2.5, 5.5, 400), k=of_logs(-4, 4, 400))


@enter
def sum_of_three() -> Exact:
    """Three normal data and their sum: a statistic that is a function of the others"""
    x = np.array([1.2, 0.4, -0.7])
    mu, t = pm.Normal("mu", 0, 1), pm.Normal("t", 0, 1)

    def simulate(rng, mu, t, size):
        y = rng.normal([mu, t, mu - t], 0.8)
        return np.append(y, y.sum())

    vector(simulate, mu, t, observed=np.append(x, x.sum()))
    covariance = np.linalg.inv(np.eye(2) + np.array([[2, -1], [-1, 2]]) / 0.64)
    means = covariance @ np.array([x[0] + x[2], x[1] - x[2]]) / 0.64
    widths = np.sqrt(np.diag(covariance))
    return {"mu": (means[0], widths[0]), "t": (means[1], widths[1])}


# --- the defaults on each ---


def line(name: str, seed: int = 1) -> list[Any]:
    """What `sample_abc` finds for a model: the line of its worst parameter."""
    with pm.Model() as model:
        exact = MODELS[name]()
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pk.sample_abc(model=model, random_seed=seed, progressbar=False)["posterior"]
    seconds, scored = time.process_time() - started, []
    for parameter, (mean, width, *_) in exact.items():
        draws = found[parameter].values
        error, ratio = (draws.mean() - mean) / width, draws.std() / width
        badness = max(abs(error) / MOST_ERROR, abs(np.log(ratio)) / np.log(MOST_RATIO))
        scored.append((badness, parameter, error, ratio))
    worst, parameter, error, ratio = max(scored)
    kinds = (
        " ".join(sorted({one.split(":")[0] for one in found.attrs[kind].splitlines()}))
        for kind in ("warnings", "notes")
    )
    doubts, notes = kinds
    verdict = "right" if worst <= 1 else "warned" if doubts else "silent"
    chosen = found.attrs["chosen"].split(": ")[0]
    return [name, parameter, f"{error:.2f}", f"{ratio:.2f}", verdict, doubts, notes, f"{seconds:.0f}", chosen]


def main() -> None:
    """Run the models that are named, or all."""
    names = [word for word in sys.argv[1:] if word != "--record"] or list(MODELS)
    lines = {}
    if RECORDED.exists():
        with RECORDED.open(newline="") as file:
            lines = {one[0]: one for one in list(csv.reader(file))[1:]}
    for name in names:
        lines[name] = line(name)
        print(*lines[name], sep=" | ", flush=True)
        if "--record" in sys.argv:
            with RECORDED.open("w", newline="") as file:
                writer = csv.writer(file, lineterminator="\n")
                writer.writerows([HEAD, *(lines[one] for one in MODELS if one in lines)])


if __name__ == "__main__":
    main()
