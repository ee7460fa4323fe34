"""Whole numbers of many values: moved as numbers, rounded to what was simulated, against exact posteriors."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_kbr as pk
from pymc_kbr.arrays.bijections import Lattice
from pymc_kbr.arrays.support import Block, Support

ROWS = 4000
ESTIMATORS = {
    "local_linear": lambda: pk.Adjusted(pk.Rejection(0.1), "local_linear"),
    "kernel_ridge": lambda: pk.Adjusted(),
    "heteroscedastic": lambda: pk.Adjusted(pk.Rejection(0.1), "heteroscedastic_kernel_ridge"),
    "kernel_likelihood": lambda: pk.KernelLikelihood(),
}


def table_of(whole, deviation, seed=1):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"N": whole, "x": whole + rng.normal(0, deviation, len(whole))})
    return pk.ReferenceTable.from_dataframe(frame, parameters=["N"], statistics=["x"])


def exact(values, observed, deviation):
    weights = np.exp(-0.5 * ((observed - values) / deviation) ** 2)
    weights /= weights.sum()
    mean = weights @ values
    return mean, np.sqrt(weights @ (values - mean) ** 2)


@pytest.mark.parametrize(
    ("name", "count", "deviation"),
    [
        ("local_linear", 8, 0.5),
        ("local_linear", 9901, 400.0),
        ("kernel_ridge", 201, 0.5),
        ("kernel_ridge", 21, 3.0),
        ("heteroscedastic", 201, 20.0),
        ("kernel_likelihood", 8, 0.5),
        ("kernel_likelihood", 201, 20.0),
    ],
)
def test_posteriors_are_exact_in_mean_and_deviation(name, count, deviation):
    rng = np.random.default_rng(0)
    table = table_of(rng.integers(0, count, ROWS), deviation)
    observed = (count - 1) / 2 + 0.2 * min(deviation, 1)
    mean, spread = exact(np.arange(count), observed, deviation)
    draws = ESTIMATORS[name]().fit(table).condition([observed]).draw(4000, 1)[:, 0]
    assert np.array_equal(draws, np.rint(draws))
    # Means of 400 accepted rows are off by 0.05 deviations, deviations by a share of 0.04.
    assert abs(draws.mean() - mean) < 0.2 * spread
    assert abs(draws.std() / spread - 1) < 0.15


@pytest.mark.parametrize("name", ["local_linear", "kernel_ridge"])
def test_whole_numbers_of_a_skewed_prior_are_regressed_as_floats_are(name):
    """Sizes from 100 to 10,000 that are even in logarithms, beside another parameter."""
    rng = np.random.default_rng(0)
    size, time = np.rint(10 ** rng.uniform(2, 4, 10_000)), rng.integers(10, 501, 10_000)
    x, y = size + rng.normal(0, 400, 10_000), time + rng.normal(0, 20, 10_000)
    frame = pd.DataFrame({"N": size.astype(int), "t": time, "x": x, "y": y})
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["N", "t"], statistics=["x", "y"])
    draws = ESTIMATORS[name]().fit(table).condition([3000.0, 200.0]).draw(4000, 1)[:, 0]
    values = np.arange(100, 10_001)
    weights = np.exp(-0.5 * ((3000 - values) / 400) ** 2) / values
    weights /= weights.sum()
    mean = weights @ values
    spread = np.sqrt(weights @ (values - mean) ** 2)
    assert abs(draws.mean() - mean) < 0.2 * spread
    assert abs(draws.std() / spread - 1) < 0.1


@pytest.mark.parametrize(("deviation", "at"), [(0.2, 0.3), (0.4, 0.45)])
def test_a_posterior_narrower_than_a_step_keeps_its_probabilities(deviation, at):
    """Nine in ten draws at one value and the others beside it are not all put at the first."""
    rng = np.random.default_rng(0)
    table = table_of(rng.integers(-20, 21, ROWS), deviation)
    mean, spread = exact(np.arange(-20, 21), 5 + at, deviation)
    draws = pk.KernelLikelihood().fit(table).condition([5 + at]).draw(4000, 1)[:, 0]
    assert abs(draws.mean() - mean) < 0.06
    assert abs(draws.std() - spread) < 0.06


SETS = {
    "even": lambda rng, n: 2 * rng.integers(0, 60, n),
    "tens": lambda rng, n: 10 * rng.integers(-20, 20, n),
    "irregular": lambda rng, n: rng.choice([1, 2, 5, 10, 20, 50, 100, 1000], n),
    "negative": lambda rng, n: -rng.poisson(30, n),
    "uint8": lambda rng, n: rng.integers(0, 256, n).astype("uint8"),
    "int32": lambda rng, n: rng.integers(-500, 500, n).astype("int32"),
    "Int64": lambda rng, n: pd.array(rng.integers(0, 100, n), dtype="Int64"),
    "truth values": lambda rng, n: rng.random(n) < 0.3,
}


@pytest.mark.parametrize("name", SETS)
def test_draws_stay_in_the_support(name):
    smoothing = "global" if name in ("tens", "negative", "uint8") else "local"
    rng = np.random.default_rng(3)
    column = SETS[name](rng, 1000)
    values = np.asarray(column, dtype=float)
    x = values + rng.normal(0, 0.3 * values.std(), 1000)
    frame = pd.DataFrame({"N": column, "x": x})
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["N"], statistics=["x"])
    estimator = pk.Adjusted(pk.Rejection(0.3), "local_linear", smoothing=smoothing).fit(table)
    for observed in np.quantile(x, [0.01, 0.5, 0.99]):
        posterior = estimator.condition([observed])
        allowed = np.unique(values)
        if name not in ("irregular", "truth values"):
            step = np.gcd.reduce(np.diff(allowed).astype(int))
            allowed = np.arange(allowed[0], allowed[-1] + step, step)
        assert set(posterior.draw(500, 1)[:, 0]) <= set(allowed)
        assert set(posterior.atoms[:, 0]) <= set(allowed)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(-(10**6), 10**6), min_size=6, max_size=40, unique=True),
    st.integers(1, 12),
    st.integers(0, 2**32 - 1),
)
def test_any_lattice_is_closed(values, repeats, seed):
    """Points anywhere are rounded to the lattice of the values, within them; what was spread comes back."""
    rng = np.random.default_rng(seed)
    column = np.repeat(np.array(values, dtype=float), repeats)
    support = Support(1, (Block((0,), smooth=False),)).of_rows(column[:, None])
    (block,) = support.blocks
    assert isinstance(block.steps[0], Lattice)
    step = np.gcd.reduce(np.diff(np.unique(column)).astype(int))
    anywhere = rng.normal(0, 3 * np.ptp(column), (200, 1)) + column.mean()
    found = block.steps[0].nearest(anywhere)
    assert found.min() >= column.min()
    assert found.max() <= column.max()
    assert np.all((found - column.min()) % step == 0)
    assert np.array_equal(support.backward(support.forward(column[:, None], rng))[:, 0], column)
    assert support.contains(column[:, None]).all()
    assert Support.from_json(support.to_json()) == support


def test_few_values_labels_and_counts_that_hang_together_stay_as_they_are():
    rng = np.random.default_rng(0)
    few, many = rng.integers(0, 5, (100, 1)).astype(float), rng.integers(0, 9, (100, 1)).astype(float)
    free, tied = Block((0,), smooth=False), Block((0,), smooth=False, numbers=False)
    assert Support(1, (free,)).of_rows(few).blocks == (free,)
    assert Support(1, (tied,)).of_rows(many).blocks == (tied,)
    assert Support.from_json(Support(1, (tied,)).to_json()).blocks == (tied,)
    assert Support(1, (free,)).of_rows(many).blocks != (free,)


def test_support_of_discrete_priors_is_read_from_the_model():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        pm.Poisson("poisson", 50)
        pm.Geometric("geometric", 0.1)
        pm.Categorical("label", p=np.ones(9) / 9)
        trials = pm.DiscreteUniform("trials", 5, 30)
        pm.Binomial("successes", trials, 0.5)
        pm.Multinomial("parts", 20, p=np.ones(3) / 3)
        mean = pm.Normal("mean")
        pm.Simulator("x", lambda rng, a, size=None: rng.normal(a, 1), mean, observed=0.0)
    table = pk.simulate(300, model=model, random_seed=1, progressbar=False)
    moved = table.support.of_rows(table.parameters).lattices()
    assert [name for name, whole in zip(table.parameter_names, moved, strict=True) if whole] == [
        "poisson",
        "geometric",
    ]
    with pytest.raises(ValueError, match="discrete"):
        pk.refine(400, model=model, estimator="rejection", random_seed=1, progressbar=False)


def test_a_narrow_posterior_of_a_wide_prior():
    """The exact deviation is half a unit."""
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        number = pm.DiscreteUniform("number", 0, 200)
        pm.Simulator("x", lambda rng, n, size=None: rng.normal(n, 0.5), number, observed=100.2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = {"estimator": "kernel_likelihood", "simulations": 1000, "random_seed": 1}
        result = pk.sample_abc(model=model, progressbar=False, **given)
    draws = np.asarray(result.posterior["number"])
    assert draws.dtype.kind == "i"
    mean, spread = exact(np.arange(201), 100.2, 0.5)
    assert abs(draws.mean() - mean) < 0.1
    assert abs(draws.std() - spread) < 0.06
