"""Priors with values of a probability of their own, against quadrature."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support

ROWS, NOISE = 6000, 0.5
GRID = np.linspace(-12, 15, 100_001)


def spike(rng):
    return np.where(rng.random(ROWS) < 0.7, 0.0, rng.normal(0, 2, ROWS))


def censored(rng):
    return np.maximum(rng.normal(0, 2, ROWS), 0)


def hurdle(rng):
    return np.where(rng.random(ROWS) < 0.6, 0.0, rng.gamma(2, 1, ROWS))


PRIORS = {
    "spike": (spike, 0.7, 0.3 * stats.norm.pdf(GRID, 0, 2)),
    "censored": (censored, 0.5, stats.norm.pdf(GRID, 0, 2) * (GRID > 0)),
    "hurdle": (hurdle, 0.6, 0.4 * stats.gamma.pdf(GRID, 2)),
}
ESTIMATORS = {
    "local_linear": lambda: pk.Adjusted(pk.Rejection(0.1), "local_linear"),
    "kernel_ridge": lambda: pk.Adjusted(),
    "kernel_likelihood": lambda: pk.KernelLikelihood(),
    "localised": lambda: pk.Localised(),
}


def exact(name, observed):
    """Probability of the mass at zero, mean and deviation."""
    _, mass, density = PRIORS[name]
    step = GRID[1] - GRID[0]
    weights = density * stats.norm.pdf(observed, GRID, NOISE) * step
    at_zero = mass * stats.norm.pdf(observed, 0, NOISE)
    total = at_zero + weights.sum()
    mean = GRID @ weights / total
    return at_zero / total, mean, np.sqrt(GRID**2 @ weights / total - mean**2)


@pytest.mark.parametrize(
    ("prior", "estimator"),
    [
        ("spike", "kernel_ridge"),
        ("censored", "local_linear"),
        ("hurdle", "localised"),
        ("hurdle", "kernel_likelihood"),
    ],
)
def test_the_mass_keeps_its_probability(prior, estimator):
    rng = np.random.default_rng(0)
    theta = np.column_stack([PRIORS[prior][0](rng), rng.normal(size=ROWS)])
    x = theta + rng.normal(0, NOISE, (ROWS, 2))
    draws = ESTIMATORS[estimator]().fit(theta, x).condition([1.0, 0.4]).draw(4000, 1)
    at_zero, mean, deviation = exact(prior, 1.0)
    # What is not adjusted is blurred a little by rows that are farther off.
    times = 2 if estimator == "localised" else 1
    assert abs(np.mean(draws[:, 0] == 0) - at_zero) < 0.06 * times
    assert abs(draws[:, 0].mean() - mean) < 0.1 * times
    assert abs(draws[:, 0].std() - deviation) < 0.08 * times
    # The other parameter is moved, too, whether the first is at its mass or not.
    assert abs(draws[:, 1].mean() - 0.4 / (1 + NOISE**2)) < 0.1
    assert abs(draws[:, 1].std() - NOISE / np.sqrt(1 + NOISE**2)) < 0.06
    if prior != "spike":
        assert draws[:, 0].min() >= 0


@pytest.mark.parametrize(
    ("prior", "accepted", "observed"), [("spike", 0.3, 0.8), ("censored", 0.1, 1.2), ("hurdle", 0.3, 2.0)]
)
def test_the_mass_of_a_single_parameter_is_that_at_the_observation(prior, accepted, observed):
    """Among rows that are accepted far off it is not: 0.4 too much at worst, without the regression."""
    rng = np.random.default_rng(0)
    theta = PRIORS[prior][0](rng)[:, None]
    x = theta + rng.normal(0, NOISE, (ROWS, 1))
    fitted = pk.Adjusted(pk.Rejection(accepted), "local_linear").fit(theta, x)
    posterior = fitted.condition([observed])
    at_zero, mean, _ = exact(prior, observed)
    # The logit is not straight over so many rows: 0.04 on average at worst, and 0.01 by chance.
    assert abs(posterior.weights[posterior.atoms[:, 0] == 0].sum() - at_zero) < 0.07
    assert abs(posterior.mean()[0] - mean) < 0.12


def test_rounded_columns_have_no_masses():
    """A file writer's three decimals tie rows everywhere: they are treated as they were."""
    rng = np.random.default_rng(0)
    for column in (rng.normal(size=ROWS), rng.exponential(size=ROWS), rng.random(ROWS)):
        for decimals in (1, 2, 3):
            support = Support.unbounded(1)
            assert support.of_rows(np.round(column, decimals)[:, None]) is support


def test_a_mass_in_a_rounded_column_is_seen():
    rounded = np.round(spike(np.random.default_rng(0)), 2)[:, None]
    (block,) = Support.unbounded(1).of_rows(rounded).blocks
    assert block.atoms == ((0.0,),)


def test_two_masses_and_rows_of_a_frame():
    rng = np.random.default_rng(1)
    share = np.clip(rng.normal(0.5, 0.5, ROWS), 0, 1)  # a mass at either end
    frame = pd.DataFrame({"share": share, "x": share + rng.normal(0, 0.3, ROWS)})
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["share"], statistics=["x"])
    draws = pk.Adjusted(pk.Rejection(0.2), "local_linear").fit(table).condition([0.9]).draw(4000, 1)[:, 0]
    t = np.linspace(0, 1, 10_001)
    inner = (stats.norm.pdf(t, 0.5, 0.5) * stats.norm.pdf(0.9, t, 0.3)).mean()
    ends = stats.norm.cdf(-1) * stats.norm.pdf(0.9, [0, 1], 0.3)
    total = inner + ends.sum()
    assert abs(np.mean(draws == 1) - ends[1] / total) < 0.06
    assert abs(np.mean(draws == 0) - ends[0] / total) < 0.03
    assert draws.min() >= 0
    assert draws.max() <= 1


def test_masses_beside_each_other_are_seen():
    rng = np.random.default_rng(0)
    column = np.where(rng.random(ROWS) < 0.5, rng.integers(0, 3, ROWS), rng.uniform(4, 5, ROWS))
    (block,) = Support.unbounded(1).of_rows(column[:, None]).blocks
    assert block.atoms == ((0.0, 1.0, 2.0),)


WITHOUT_DENSITY = {
    "switch": lambda pm: pm.CustomDist(
        "effect",
        dist=lambda size: pm.math.switch(
            pm.Bernoulli.dist(0.7, size=size), 0.0, pm.Normal.dist(0, 2, size=size)
        ),
    ),
    "simulator": lambda pm: pm.Simulator(
        "effect", lambda rng, a, size=None: np.where(rng.random(size) < 0.7, 0, rng.normal(0, a, size)), 2.0
    ),
}


@pytest.mark.parametrize(("name", "estimator"), [("switch", "adjusted"), ("simulator", "kernel_likelihood")])
def test_masses_of_priors_without_a_density(name, estimator):
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        effect = WITHOUT_DENSITY[name](pm)
        pm.Simulator("x", lambda rng, a, size=None: rng.normal(a, NOISE), effect, observed=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = pk.sample_abc(
            model=model, simulations=1500, random_seed=1, progressbar=False, estimator=estimator
        )
    draws = np.asarray(result["posterior"]["effect"])
    at_zero, mean, deviation = exact("spike", 1.0)
    assert abs(np.mean(draws == 0) - at_zero) < 0.08
    assert abs(draws.mean() - mean) < 0.15
    assert abs(draws.std() - deviation) < 0.1


@pytest.mark.versions
@pytest.mark.parametrize("name", PRIORS)
def test_priors_of_pymc_with_masses(name):
    pm = pytest.importorskip("pymc")
    with warnings.catch_warnings(), pm.Model() as model:
        warnings.simplefilter("ignore")  # of PyMC, about transforms of mixtures
        if name == "spike":
            parts = [pm.DiracDelta.dist(0.0), pm.Normal.dist(0, 2)]
            effect = pm.Mixture("effect", w=[0.7, 0.3], comp_dists=parts)
        elif name == "censored":
            effect = pm.Censored("effect", pm.Normal.dist(0, 2), lower=0, upper=None)
        else:
            effect = pm.HurdleGamma("effect", psi=0.4, alpha=2, beta=1)
        pm.Simulator("x", lambda rng, a, size=None: rng.normal(a, NOISE), effect, observed=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {"model": model, "simulations": 1500, "random_seed": 1, "progressbar": False}
        result = pk.sample_abc(estimator="adjusted", **given)
        with pytest.raises(ValueError, match="point masses"):
            pk.refine(2000, model=model, random_seed=1, progressbar=False)
        with pytest.raises(ValueError, match="point masses"):
            pk.zoom(2000, model=model, random_seed=1, progressbar=False)
    draws = np.asarray(result.posterior["effect"])
    at_zero, mean, deviation = exact(name, 1.0)
    assert abs(np.mean(draws == 0) - at_zero) < 0.06
    assert abs(draws.mean() - mean) < 0.1
    assert abs(draws.std() - deviation) < 0.08
    assert name == "spike" or draws.min() >= 0
