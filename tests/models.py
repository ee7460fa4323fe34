"""Models and simulators that the tests share; in a module, so that workers can import them."""

import numpy as np
import pymc as pm
import pytensor
from pytensor.compile.mode import Mode
from scipy.stats import multivariate_normal

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.form import Prepared

DATA = np.array([0.3, 1.2, -0.4, 0.8])

AS_WRITTEN = Mode(linker="py", optimizer=None)
"""Of PyTensor: neither compilers nor rewriting, which take longer than all else in tests of densities."""


def densities_and_gradient(model, name="y"):
    """From a point: log-densities of the data of a variable, and the gradient of their sum."""
    values = model.value_vars
    (logs,) = model.logp([model[name]], sum=False)
    gradient = pytensor.grad(logs.sum(), values, disconnected_inputs="ignore")
    both = pytensor.function(values, [logs, *gradient], mode=AS_WRITTEN, on_unused_input="ignore")

    def at(point):
        found, *slopes = both(*(np.asarray(point[value.name], dtype=float) for value in values))
        return found, {value.name: slope for value, slope in zip(values, slopes, strict=True)}

    return at


def relative_errors(at, point):
    """Of a gradient at a point, against central differences of fourth order in each entry."""
    errors = []
    for name, slopes in at(point)[1].items():
        for place in np.ndindex(np.shape(point[name])):
            sums = []
            for step in (-2e-4, -1e-4, 1e-4, 2e-4):
                moved = np.array(point[name], dtype=float)
                moved[place] += step
                sums.append(at({**point, name: moved})[0].sum())
            numerical = (sums[0] - 8 * sums[1] + 8 * sums[2] - sums[3]) / 12e-4
            errors.append(abs(slopes[place] - numerical) / max(abs(numerical), 1e-3))
    return np.array(errors)


def normal(rng, mean, scale, size=None):
    """Broadcasts."""
    return rng.normal(mean, scale, size=size)


def normal_by_hand(rng, mean, scale, size=None):
    """One row at a time: takes its parameters for numbers."""
    mean, scale = np.asarray(mean).item(), np.asarray(scale).item()
    return np.array([rng.normal(mean, scale) for _ in range(size[-1])])


def two_statistics(rng, mean, scale, size=None):
    """A vector of statistics, in batches too."""
    y = np.asarray(mean)[..., None] + np.asarray(scale)[..., None] * rng.standard_normal((*(size or ()), 20))
    return np.stack([y.mean(axis=-1), y.std(axis=-1)], axis=-1)


def two_statistics_by_hand(rng, mean, scale, size=None):
    """A vector of statistics, one simulation at a time."""
    y = [rng.normal(float(mean), float(scale)) for _ in range(20)]
    return np.array([np.mean(y), np.std(y)])


def fails_when_high(rng, mean, scale, size=None):
    """Raises for a mean above one, returns NaN below minus one."""
    mean = float(np.asarray(mean).item())
    if mean > 1:
        raise RuntimeError("the population died out")
    return np.full(size, np.nan) if mean < -1 else rng.normal(mean, 1.0, size=size)


def nan_when_high(rng, mean, scale, size=None):
    """NaN for a mean above one, in batches too."""
    y = rng.normal(mean, scale, size=size)
    return np.where(mean > 1, np.nan, y)


def model(fn=normal, observed=DATA, **kwargs):
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Simulator("y", fn, mean, scale, observed=observed, **kwargs)
    return made


def vector_model(fn=two_statistics, observed=(0.1, 1.0), **kwargs):
    with pm.Model(coords={"statistic": ["centre", "spread"]}) as made:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pk.vector_simulator("y", fn, mean, scale, observed=np.array(observed), **kwargs)
    return made


def table(draws, made, **kwargs):
    return pk.simulate(draws, model=made, **{"random_seed": 1, "progressbar": False, **kwargs})


def same(one, two):
    """Both tables have the same rows, bit for bit."""
    np.testing.assert_array_equal(one.parameters, two.parameters)
    np.testing.assert_array_equal(one.statistics, two.statistics)


class LinearLikelihood:
    """A likelihood that is known: statistics are normal about a linear function of the parameters."""

    def __init__(self, parameters=2, statistics=3, lowest=-10.0, highest=10.0, seed=0):
        rng = np.random.default_rng(seed)
        self.slopes = rng.normal(size=(statistics, parameters))
        self.factor = np.tril(0.3 * rng.normal(size=(statistics, statistics)), -1) + np.eye(statistics)
        self.parameters_size, self.statistics_size = parameters, statistics
        self.simulated_range_ = np.array([[lowest] * parameters, [highest] * parameters])
        self.described = []

    def prepare(self, observed):
        return Prepared(observed[:, None, :], np.zeros((len(observed), 1)))

    def describe(self, parameters, xp=np):
        self.described.append(parameters)
        return parameters @ self.slopes.T

    def log_density(self, described, prepared, xp=np):
        white = np.linalg.inv(self.factor)
        z = (prepared.points - described[:, None, :]) @ white.T
        constant = np.log(np.diag(white)).sum() - 0.5 * self.statistics_size * np.log(2 * np.pi)
        return constant + xp.sum(prepared.log_volume - 0.5 * xp.sum(z**2, axis=2), axis=1)

    def draw_statistics(self, parameters, rng):
        means = parameters @ self.slopes.T
        return means + rng.standard_normal(means.shape) @ self.factor.T

    def exact(self, theta, observed):
        """Log densities (n,) of observations (n, d) at parameters (n, p), by SciPy."""
        cov = self.factor @ self.factor.T
        means = np.broadcast_to(theta, (len(observed), self.parameters_size)) @ self.slopes.T
        return multivariate_normal(np.zeros(len(cov)), cov).logpdf(observed - means).reshape(-1)
