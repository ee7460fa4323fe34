"""What users of PyMC are used to: seeds of chains, all cores, some variables, arguments of samplers."""

import time

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk

FAST = {"simulations": 200, "estimator": "rejection", "progressbar": False}


@pytest.fixture(scope="module")
def model():
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        pm.Normal("other", 0, 1, shape=2)
        pm.Deterministic("double", 2 * mean)
        pm.Simulator("y", lambda rng, m, size: rng.normal(m, 1, size), mean, observed=[0.3])
    return made


def draws(model, **given):
    return pk.sample_abc(20, model=model, **FAST, **given)["posterior"]


def test_seeds_of_chains_are_one_seed(model):
    one, again, other = (
        draws(model, random_seed=seed)["mean"] for seed in ([1, 2], np.array([1, 2]), [1, 3])
    )
    np.testing.assert_array_equal(one, again)
    assert not np.array_equal(one, other)
    table = pk.simulate(20, model=model, random_seed=[1, 2], progressbar=False)
    np.testing.assert_array_equal(
        table.parameters, pk.simulate(20, model=model, random_seed=table.seed, progressbar=False).parameters
    )


def test_several_numbers_are_a_seed_where_a_store_or_several_models_take_one(model, tmp_path):
    both = [pk.simulate_models({"one": model}, 20, random_seed=[1, 2], progressbar=False) for _ in range(2)]
    np.testing.assert_array_equal(both[0]["one"].parameters, both[1]["one"].parameters)
    rounds = {"rounds": 1, "model": model, "progressbar": False}
    for name, call in {
        "refine": lambda **given: pk.refine(100, estimator=pk.Rejection(20), **rounds, **given),
        "zoom": lambda **given: pk.zoom(2_000, **rounds, **given),
    }.items():
        made = [call(random_seed=[1, 2], store=tmp_path / name) for _ in range(2)]
        np.testing.assert_array_equal(made[0].parameters, made[1].parameters)
        with pytest.raises(ValueError, match="whole number, or several"):
            call(random_seed=np.random.default_rng(1), store=tmp_path / name)


def test_some_variables(model):
    found = draws(model, random_seed=1, var_names=["double", "other"])
    assert set(found.data_vars) == {"double", "other"}
    table = pk.simulate(200, model=model, random_seed=1, progressbar=False)
    some = pk.sample_abc(20, reference_table=table, estimator="rejection", var_names=["mean"], random_seed=1)
    assert set(some["posterior"].data_vars) == {"mean"}


@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ("mean", TypeError, "give a list"),
        (["mena"], ValueError, "'mena'.*'mean', 'other', 'double'"),
        ([], ValueError, "give some"),
    ],
)
def test_names_that_are_none_are_refused_before_any_simulation(model, names, error, words):
    with pytest.raises(error, match=words):
        pk.sample_abc(20, model=model, simulations=10**9, var_names=names)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ({"tune": 1000}, "nothing is tuned"),
        ({"threshold": 0.5}, "`simulations`, `estimator`, `rounds`"),
        ({"drows": 10}, "unexpected keyword argument 'drows'"),
    ],
)
def test_what_there_is_no_use_for_is_answered(model, argument, words):
    with pytest.raises(TypeError, match=words):
        pk.sample_abc(20, model=model, simulations=10**9, **argument)


def test_at_the_priors_own_edge_a_posterior_is_right_and_has_a_note():
    with pm.Model() as model:
        rate = pm.Uniform("rate", 0, 1)
        pm.Simulator("y", lambda rng, r, size: rng.normal(r, 0.02, size), rate, observed=[0.0])
    found = pk.sample_abc(200, model=model, **FAST | {"simulations": 4_000}, random_seed=1)["posterior"]
    assert found.attrs["notes"].startswith("edge: ")
    assert "edge" not in found.attrs["warnings"]


def test_seconds_are_those_of_all_stages(model):
    few = {"candidates": ["rejection"], "simulations": 2_000, "progressbar": False, "random_seed": 1}
    pk.sample_abc(20, model=model, **few)  # imports, and compiles
    begun = time.perf_counter()
    attrs = pk.sample_abc(20, model=model, **few)["posterior"].attrs
    wall = time.perf_counter() - begun
    stages = {name.removeprefix("seconds_") for name in attrs if name.startswith("seconds_")}
    assert {"simulate", "rounds", "fit", "condition", "draw", "diagnose"} <= stages
    # What is left reads the model, and packs the result.
    assert wall / 2 < attrs["sampling_time"] < wall
    of_table = pk.simulate(500, model=model, random_seed=1, progressbar=False)
    del few["simulations"]
    attrs = pk.sample_abc(20, reference_table=of_table, **few)["posterior"].attrs
    assert attrs["seconds_choose"] > 0
