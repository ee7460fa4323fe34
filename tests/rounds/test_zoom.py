"""Priors between bounds, and rounds that close in on an observation."""

import dataclasses

import numpy as np
import pymc as pm
import pytest
from scipy.stats import kstest, norm, truncnorm

import pymc_kbr as pk

QUIET = {"progressbar": False}


def normal(rng, mean, scale, size):
    return rng.normal(mean, scale, size)


def narrow_model(observed=0.3, scale=0.003):
    """A posterior 300 times narrower than the prior."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", normal, mean, scale, observed=[observed])
    return model


@pytest.mark.parametrize(
    ("bounds", "how"), [((0.2, 0.5), "uniform candidates"), ((-1.0, 4.0), "of the prior's draws")]
)
def test_rows_are_draws_of_the_prior_between_the_bounds(bounds, how):
    table = pk.simulate(4000, model=narrow_model(), within={"mean": bounds}, random_seed=1, **QUIET)
    assert kstest(table.parameters[:, 0], truncnorm(*bounds).cdf).pvalue > 1e-3
    assert how in table.provenance["prior_truncated"]
    assert float(table.provenance.get("prior_above_bound", 0)) < 1e-3
    assert table.support.contains(table.parameters).all()
    assert not table.support.contains(np.array([[bounds[0] - 0.01], [bounds[1] + 0.01]])).any()


def test_parameters_that_depend_on_each_other_keep_their_joint_prior():
    with pm.Model() as model:
        centre = pm.Normal("centre", 0, 1)
        group = pm.Normal("group", centre, 0.3, shape=2)
        pm.Simulator("y", normal, group, 1.0, observed=[0.0, 0.0])
    within = {"centre": (-0.5, 1.0), "group": (0.2, [0.6, 0.9])}
    table = pk.simulate(4000, model=model, within=within, random_seed=2, **QUIET)
    centre = np.linspace(-0.5, 1.0, 2001)
    density = norm.pdf(centre)
    for upper in (0.6, 0.9):
        density *= norm.cdf(upper, centre, 0.3) - norm.cdf(0.2, centre, 0.3)
    share = np.cumsum(density) / density.sum()
    assert kstest(table.parameters[:, 0], lambda x: np.interp(x, centre, share)).pvalue > 1e-3
    assert table.parameters[:, 1].max() < 0.6 < table.parameters[:, 2].max() < 0.9


def test_a_longer_table_begins_with_the_shorter_one_in_batches_and_row_by_row():
    settings = {"model": narrow_model(), "within": {"mean": (0.2, 0.5)}, "random_seed": 3, **QUIET}
    short, long = pk.simulate(1000, **settings), pk.simulate(3000, **settings)
    assert np.array_equal(short.statistics, long.statistics[:1000])
    rows = pk.simulate(40, batched=False, **settings)
    assert np.array_equal(rows.parameters, short.parameters[:40])


def test_a_store_of_other_bounds_is_refused(tmp_path):
    settings = {"model": narrow_model(), "random_seed": 3, "store": tmp_path / "t.zarr", **QUIET}
    table = pk.simulate(50, within={"mean": (0.2, 0.5)}, **settings)
    assert np.array_equal(
        table.statistics, pk.simulate(50, within={"mean": (0.2, 0.5)}, **settings).statistics
    )
    with pytest.raises(ValueError, match="other support of the prior"):
        pk.simulate(50, within={"mean": (0.2, 0.6)}, **settings)
    with pytest.raises(ValueError, match="other support of the prior"):
        pk.simulate(50, **settings)


@pytest.mark.parametrize(
    ("within", "error", "words"),
    [
        ([(0, 1)], TypeError, "must be a mapping"),
        ({"meen": (0, 1)}, ValueError, r"the parameters are \['mean'\]"),
        ({}, ValueError, "each needs its bounds"),
        ({"mean": 1.0}, ValueError, "a pair of lower and upper"),
        ({"mean": (1, 0)}, ValueError, "below its upper bound"),
        ({"mean": (0, np.inf)}, ValueError, "finite"),
        ({"mean": (0, [1, 2])}, ValueError, r"has shape \(2,\)"),
        ({"mean": (50, 200)}, ValueError, "take other bounds"),
    ],
)
def test_bounds_that_cannot_be_are_refused(within, error, words):
    with pytest.raises(error, match=words):
        pk.simulate(10, model=narrow_model(), within=within, **QUIET)


def test_bounds_outside_the_support_and_priors_that_cannot_be_truncated_are_refused():
    with pm.Model() as model:
        a = pm.Uniform("a", 0, 1)
        pm.Simulator("y", normal, a, 1.0, observed=[0.0])
    with pytest.raises(ValueError, match="leaves nothing of the prior's support in"):
        pk.simulate(10, model=model, within={"a": (2, 3)}, **QUIET)
    with pm.Model() as model:
        a = pm.Poisson("a", 3)
        pm.Simulator("y", normal, a, 1.0, observed=[0.0])
    with pytest.raises(ValueError, match="they are discrete"):
        pk.simulate(10, model=model, within={"a": (2, 3)}, **QUIET)


def test_a_density_that_is_infinite_at_an_edge_leaves_draws_of_the_prior():
    with pm.Model() as model:
        a = pm.Gamma("a", 0.5, 1)
        pm.Simulator("y", normal, a, 1.0, observed=[0.0])
    table = pk.simulate(500, model=model, within={"a": (0, 1)}, random_seed=1, **QUIET)
    assert "of the prior's draws" in table.provenance["prior_truncated"]
    assert table.parameters.max() < 1


def test_zooming_finds_a_posterior_that_one_table_cannot():
    table = pk.zoom(2000, model=narrow_model(), random_seed=1, **QUIET)
    drawn = pk.Adjusted(pk.Rejection(400), "local_linear").fit(
        table.parameters, table.statistics, table.support
    )
    draws = drawn.condition(table.observed).draw(4000, 1)[:, 0]
    # The regression rests on about 400 rows, and its mean on as many residuals.
    assert abs(draws.mean() - 0.3) < 4 * 0.003 / np.sqrt(400)
    assert abs(np.log(draws.std() / 0.003)) < 4 / np.sqrt(2 * 400)
    assert np.ptp(table.parameters) < 0.06
    assert table.simulations == 2000
    assert len(table) >= 1000


@pytest.mark.filterwarnings("ignore::pymc_kbr.PosteriorWarning")
@pytest.mark.parametrize(("bounds", "cut"), [((0.297, 0.32), True), ((0.28, 0.32), False)])
def test_bounds_that_cut_a_posterior_off_are_warned_of(bounds, cut):
    table = pk.simulate(2000, model=narrow_model(), within={"mean": bounds}, random_seed=1, **QUIET)
    result = pk.sample_abc(1000, reference_table=table, estimator="adjusted", random_seed=1, **QUIET)
    assert ("may cut the posterior off" in result["posterior"].attrs["warnings"]) == cut


def test_rounds_end_where_nothing_narrows_and_no_simulation_is_left_out():
    with pm.Model() as model:
        mean = pm.Uniform("mean", 0, 1)
        pm.Simulator("y", normal, 0 * mean, 1.0, observed=[0.0])
    table = pk.zoom(2000, model=model, random_seed=2, **QUIET)
    assert table.provenance["zoomed"].count(";") < 5
    assert len(table) > 0.9 * 2000


def test_an_observation_that_no_simulation_reaches_narrows_to_the_nearest_edge():
    with pm.Model() as model:
        mean = pm.Uniform("mean", 0, 1)
        pm.Simulator("y", normal, mean, 0.01, observed=[8.0])
    table = pk.zoom(1200, model=model, random_seed=3, **QUIET)  # a regression would have moved rows to 8
    assert 0.5 < table.parameters.min() < table.parameters.max() <= 1


def test_a_store_for_each_round_is_gone_on_with(tmp_path):
    settings = {"model": narrow_model(), "random_seed": 5, "rounds": 2, **QUIET}
    alone = pk.zoom(480, **settings)
    folder = tmp_path / "rounds"
    first = pk.zoom(480, store=folder, **settings)
    again = pk.zoom(480, store=folder, **settings)
    assert sorted(path.name for path in folder.glob("*.zarr")) == [f"round_{i}.zarr" for i in range(3)]
    assert np.array_equal(first.statistics, alone.statistics)
    assert np.array_equal(again.statistics, alone.statistics)


def test_a_round_is_not_extended_since_its_batches_are_its_own(tmp_path):
    settings = {"model": narrow_model(), "random_seed": 5, **QUIET}
    pk.zoom(480, rounds=2, store=tmp_path, **settings)
    before = pk.StoredTable.open(tmp_path / "round_0.zarr").load()
    with pytest.raises(ValueError, match="made with other fixed number of rows: 120, and now 150"):
        pk.zoom(600, rounds=2, store=tmp_path, **settings)
    settings["random_seed"] = None  # the store's
    with pytest.raises(ValueError, match="made with other fixed number of rows: 120, and now None"):
        pk.simulate(1000, store=tmp_path / "round_0.zarr", **settings)
    after = pk.StoredTable.open(tmp_path / "round_0.zarr").load()
    assert np.array_equal(before.statistics, after.statistics)


def sometimes_fails(rng, mean, size):
    return np.full(1, np.nan) if rng.random() < 0.1 else rng.normal(mean, 0.003, 1)


def test_failures_of_all_rounds_are_kept_and_told_once():
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", sometimes_fails, mean, observed=[0.3])
    with pytest.warns(UserWarning, match="dropped") as told:
        table = pk.zoom(480, model=model, rounds=2, random_seed=1, batched=False, on_failure="drop", **QUIET)
    failed = table.failures
    words = [str(one.message) for one in told if "dropped" in str(one.message)]
    assert [text.split(" (")[0] for text in words] == [f"{len(failed)} of 480 simulations"]
    assert told[0].filename == __file__
    assert len(np.unique(failed.rows)) == len(failed.rows) == len(failed.messages) == len(failed.parameters)
    # 120, 120 and 240 rows, a tenth of which fails: a part without failures has a probability of 3e-6.
    assert np.unique(failed.rows // 120).tolist() == [0, 1, 2, 3]
    assert failed.rows.max() < 480
    assert table.simulations == 480
    twice = table.append(dataclasses.replace(table, seed=7, statistics=table.statistics + 0.25))
    assert twice.simulations == 960


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"draws": 1000}, ValueError, "more draws, or fewer rounds"),
        ({"draws": 0}, ValueError, "draws is 0"),
        ({"draws": 1e3}, TypeError, "draws is 1000.0"),
        ({"draws": 1000, "rounds": 0}, ValueError, "rounds is 0"),
        ({"draws": 1000, "rounds": 1.5}, TypeError, "rounds is 1.5"),
        ({"draws": 1000, "scale": "all"}, ValueError, "scale is 'all'"),
        ({"draws": 1000, "store": "t"}, ValueError, "random_seed is None; with a store"),
        ({"draws": 1000, "random_seed": -1}, ValueError, "must not be negative"),
        ({"draws": 2000, "cores": 0}, ValueError, "cores is 0"),
    ],
)
def test_rounds_that_cannot_be_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        pk.zoom(model=narrow_model(), **settings, **QUIET)


def test_what_cannot_be_narrowed_is_refused_before_anything_is_simulated():
    calls = []

    def counted(rng, a, b, size):
        calls.append(1)
        return rng.normal(a + b, 1, size)

    with pm.Model() as model:
        a = pm.Uniform("a", 0, 1)
        b = pm.Uniform("b", 0, a)
        pm.Simulator("y", counted, a, b, observed=[0.0])
    with pytest.raises(ValueError, match=r"the prior of \['b'\] cannot be drawn between bounds"):
        pk.zoom(1000, model=model, **QUIET)
    assert not calls
