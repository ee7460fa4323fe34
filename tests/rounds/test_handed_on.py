"""What rounds hand on to the simulations and to the bounds that they rest on."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.rounds import bounds as rounds_bounds
from pymc_kbr.rounds import sequence, zoom
from pymc_kbr.rounds.bounds import narrower, narrower_with_noise
from pymc_kbr.sample import validate_arguments
from pymc_kbr.simulation import simulate_table

QUIET = {"progressbar": False}
LINEAR = pk.Adjusted(pk.Rejection(60), "local_linear")


def normal(rng, mean, size):
    return rng.normal(mean, 0.1, size)


def a_model():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", normal, mean, observed=[0.3])
    return model


def refined(**given):
    return pk.refine(300, rounds=3, estimator=LINEAR, **given)


def zoomed(**given):
    return pk.zoom(480, rounds=2, **given)


@pytest.fixture
def asked(monkeypatch):
    """Options of each round that is simulated, in a pool of which nothing is asked."""
    kept = []

    def remembered(options, forward):
        kept.append(options)
        plain = dataclasses.replace(
            options, executor=None, cores=1, timeout=None, batched=None, progressbar=False
        )
        return simulate_table(plain, forward)

    for module in (sequence, zoom):
        monkeypatch.setattr(module, "simulate_table", remembered)
    return kept


@pytest.mark.parametrize("rounds", [refined, zoomed])
@pytest.mark.parametrize("in_a_pool", [True, False])
def test_each_round_is_simulated_as_the_call_says(rounds, in_a_pool, asked):
    how = {"on_failure": "drop", "batched": False, "progressbar": False}
    with ThreadPoolExecutor(1) as pool:
        how |= {"executor": pool} if in_a_pool else {"cores": 3, "timeout": 7.5}
        rounds(model=a_model(), random_seed=1, **how)
    assert len(asked) == 3
    for options in asked:
        assert {name: getattr(options, name) for name in how} == how
        assert options.to_be_extended is False
        assert options.store is None
    assert len({options.random_seed for options in asked}) == 3


@pytest.mark.parametrize("rounds", [refined, zoomed])
def test_each_round_has_a_store_of_its_own(rounds, asked, tmp_path):
    rounds(model=a_model(), random_seed=np.int64(1), store=str(tmp_path / "rounds"), **QUIET)
    assert [options.store.name for options in asked] == [f"round_{i}.zarr" for i in range(3)]
    assert {options.store.parent for options in asked} == {tmp_path / "rounds"}


def decay(rng, rate, size=None):
    return np.exp(-rate * np.arange(1, 6))


def decay_model(prior="normal"):
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", 1)
        other = pm.Uniform("other", 0, rate) if prior == "dependent" else 0.0
        pk.vector_simulator("y", decay, rate + 0 * other, observed=np.exp(-0.5 * np.arange(1, 6)))
    return model


@pytest.mark.parametrize(("noise", "sizes"), [(None, [120, 120, 240]), (0.01, [160, 160, 160])])
def test_the_last_table_takes_half_or_with_noise_as_many_as_each_other_one(noise, sizes, asked):
    pk.zoom(480, model=decay_model(), rounds=2, noise=noise, random_seed=1, **QUIET)
    assert [options.draws for options in asked] == sizes


def test_rounds_share_out_all_simulations(asked):
    pk.refine(305, model=a_model(), rounds=3, estimator=LINEAR, random_seed=1, **QUIET)
    assert [options.draws for options in asked] == [101, 101, 103]
    assert [options.proposal is None for options in asked] == [True, False, False]
    assert [options.proposal.prior_share for options in asked[1:]] == [0.1, 0.1]


def a_table(n, parameters=1, statistics=1):
    """Statistics that are all the first parameter."""
    theta = np.random.default_rng(1).uniform(-1, 1, (n, parameters))
    names, of_data = [f"a{i}" for i in range(parameters)], [f"s{i}" for i in range(statistics)]
    columns = np.hstack([theta, *[theta[:, :1]] * statistics])
    return pk.ReferenceTable.from_dataframe(
        pd.DataFrame(columns, columns=[*names, *of_data]),
        parameters=names,
        statistics=of_data,
        observed=np.full(statistics, 0.1),
        bounds=dict.fromkeys(names, (-1, 1)),
    )


@pytest.mark.parametrize("parameters", [1, 3])
def test_a_round_needs_twice_the_rows_that_are_kept(parameters):
    least = 2 * (10 + 2 * parameters)
    narrower(a_table(least, parameters), None, True)
    with pytest.raises(ValueError, match=rf"has {least - 1} rows without failures, and {least} are needed"):
        narrower(a_table(least - 1, parameters), None, True)


@pytest.mark.parametrize("error", [0.4, 15.0])
@pytest.mark.parametrize("narrows", [True, False])
def test_likely_bounds_are_taken_where_they_narrow_or_predictions_are_within_the_noise(
    error, narrows, monkeypatch
):
    """Else, and where nothing is predicted well, bounds go by rows with noise."""
    table, noise = a_table(400), np.array([0.5])
    old = {"a0": (np.array(-0.9), np.array(0.8))}
    emulator = SimpleNamespace(error=error)
    monkeypatch.setattr(rounds_bounds.Emulator, "fit", lambda *_, **__: emulator)
    monkeypatch.setattr(rounds_bounds, "likely_bounds", lambda *given: (narrows, given))
    monkeypatch.setattr(rounds_bounds, "narrower", lambda *given: (True, given))
    forward = object()
    narrowed, found, last = narrower_with_noise(table, old, "relevance", forward, noise, 5)
    if narrows or error < 1:
        assert (narrowed, last) == (narrows, error < 1)
        assert found == (emulator, table, forward, 5, old, noise)
        return
    assert (narrowed, last) == (True, False)
    noisy, bounds, scale = found
    assert bounds is old
    assert scale == "relevance"
    assert noisy.parameters is table.parameters
    assert np.std(noisy.statistics - table.statistics) == pytest.approx(0.5, rel=4 / np.sqrt(2 * 400))


def test_only_rows_drawn_between_bounds_need_a_prior_that_has_them():
    """A prior whose bounds depend on another parameter can be drawn from, but not between other bounds."""
    model = decay_model("dependent")
    table = pk.simulate(60, model=model, random_seed=1, **QUIET)
    assert len(pk.emulate(table, 50, model=model, random_seed=1)) == 50
    with pytest.raises(ValueError, match=r"the prior of \['other'\] cannot be drawn between bounds"):
        pk.emulate(table, 50, model=model, noise=0.01, random_seed=1)


def together(**given):
    nothing = dict.fromkeys(
        ("estimator", "prior", "calibration", "reference_table", "store", "rounds", "statistics")
    )
    validate_arguments(**(nothing | given))


DRAWS = np.zeros((5, 1))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"estimator": pk.KernelBayes(prior=DRAWS), "prior": DRAWS}, "both the estimator and `prior`"),
        ({"reference_table": a_table(30), "store": "folder"}, "both a reference table and a store"),
        ({"statistics": ["s0"], "rounds": "auto"}, "leave rounds out"),
        ({"rounds": 2, "reference_table": a_table(30)}, "of which nothing is simulated"),
        ({"rounds": 2, "store": "folder"}, "which holds one table"),
        ({"rounds": "auto", "prior": DRAWS}, "another prior is given"),
    ],
)
def test_what_is_refused_together_is_taken_apart(given, words):
    with pytest.raises(ValueError, match=words):
        together(**given)
    for name, value in given.items():
        together(**{name: value})
