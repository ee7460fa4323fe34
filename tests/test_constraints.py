"""Conditions among parameters: no draw of any estimator breaks them."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk


def frame_of(n=1500, whole=False, seed=1):
    rng = np.random.default_rng(seed)
    times = np.sort(rng.uniform(10, 1000, (n, 2)), axis=1)
    times = times.astype(int) + np.array([0, 1]) if whole else times
    noise = rng.normal(0, 0.5, (n, 2))
    frame = pd.DataFrame(times, columns=["ta", "ts"])
    frame[["s", "t"]] = np.log(times) + noise
    return frame


def table_of(**kwargs):
    return pk.ReferenceTable.from_dataframe(
        frame_of(**kwargs),
        parameters=["ta", "ts"],
        statistics=["s", "t"],
        bounds={"ta": (10, 1000), "ts": (10, 1001)},
        constraints=["ta < ts"],
    )


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("adjusted", False),
        ("adjusted", True),
        ("localised", False),
        ("kernel_likelihood", True),
        ("kbr", True),
    ],
)
def test_no_draw_of_any_estimator_breaks_a_constraint(name, whole):
    table = table_of(whole=whole, n=600)
    estimator = pk.ESTIMATORS[name]().fit(table, random_seed=1)
    for x in ([5.5, 5.6], [6.5, 4.5]):  # on the edge, and where no row is
        posterior = estimator.condition(x)
        for smoothing in (None, "global"):
            draws = posterior.draw(2000, 1, smoothing=smoothing)
            assert np.all(draws[:, 0] < draws[:, 1])
        assert posterior.mode()[0] < posterior.mode()[1]


def test_what_an_adjustment_moves_outside_is_counted():
    posterior = pk.Adjusted().fit(table_of(), random_seed=1).condition([6.0, 5.0])
    assert 0.05 < posterior.settings["share_outside_support"] < 1
    assert np.all(posterior.atoms[:, 0] < posterior.atoms[:, 1])
    with pytest.warns(pk.PosteriorWarning, match="brought back inside"):
        idata = pk.sample_abc(
            100,
            reference_table=table_of().with_observed([6.0, 5.0]),
            estimator="adjusted",
            random_seed=1,
            progressbar=False,
        )
    assert idata["posterior"].attrs["share_outside_support"] > 0.05
    drawn = idata["posterior"]
    assert np.all(drawn["ta"].values < drawn["ts"].values)


def test_rows_and_contradictions_are_refused_where_the_table_is_made():
    asked = {"parameters": ["ta", "ts"], "statistics": ["s", "t"]}
    with pytest.raises(ValueError, match="1500 of 1500 rows of parameters break the constraint 'ts < ta'"):
        pk.ReferenceTable.from_dataframe(frame_of(), **asked, constraints=["ts < ta"])
    with pytest.raises(ValueError, match="contradict"):
        pk.ReferenceTable.from_dataframe(frame_of(), **asked, constraints=["ts < ta", "ta < ts"])
    with pytest.raises(ValueError, match="'tx'"):
        pk.ReferenceTable.from_dataframe(frame_of(), **asked, constraints=["ts < tx"])


def test_orders_that_many_rows_never_break_are_proposed():
    asked = {"parameters": ["ta", "ts"], "statistics": ["s", "t"]}
    many = frame_of(n=100_000)
    with pytest.warns(UserWarning, match=r"constraints=\['ta < ts'\]"):
        table = pk.ReferenceTable.from_dataframe(many, **asked)
    assert not table.support.constraints  # it is the user who knows the prior
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pk.ReferenceTable.from_dataframe(many, **asked, constraints=[])
        pk.ReferenceTable.from_dataframe(many, **asked, constraints=["ta < ts"])
        pk.ReferenceTable.from_dataframe(frame_of(), **asked)


def test_constraints_survive_files_and_pickles(tmp_path):
    table = table_of()
    back = pk.ReferenceTable.load(table.save(tmp_path / "table.nc"))
    assert back.support == table.support
    assert back.support.constraints
    estimator = pickle.loads(pickle.dumps(pk.Adjusted().fit(table)))
    draws = estimator.condition([6.0, 5.0]).draw(1000, 1)
    assert np.all(draws[:, 0] < draws[:, 1])


def test_a_posterior_on_the_edge_agrees_with_the_exact_one():
    # A uniform prior where a < b, and normal noise: the posterior is a truncated normal distribution.
    rng = np.random.default_rng(1)
    theta = np.sort(rng.uniform(-3, 3, (20_000, 2)), axis=1)
    frame = pd.DataFrame(
        np.column_stack([theta, theta + rng.normal(0, 0.5, theta.shape)]), columns=list("abst")
    )
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], constraints=["a < b"]
    )
    exact = rng.normal([0.2, 0.0], 0.5, (400_000, 2))
    exact = exact[exact[:, 0] < exact[:, 1]].mean(axis=0)
    deviation = 0.5
    for estimator in (pk.Rejection(0.01), pk.Adjusted(pk.Rejection(0.01), "local_linear")):
        mean = estimator.fit(table).condition([0.2, 0.0]).draw(4000, 1).mean(axis=0)
        # 200 rows are accepted: two standard errors, and as much for their distance.
        assert np.all(np.abs(mean - exact) < 4 * deviation / np.sqrt(200))


@pytest.mark.parametrize("kind", ["potential", "ordered", "bound"])
def test_constraints_of_a_pymc_model_are_found(kind):
    with pm.Model() as model:
        if kind == "potential":
            a, b = pm.Uniform("a", 0, 1), pm.Uniform("b", 0, 1)
            pm.Potential("order", pm.math.switch(a < b, 0.0, -np.inf))
        elif kind == "ordered":
            ab = pm.Uniform(
                "ab", 0, 1, shape=2, transform=pm.distributions.transforms.ordered, initval=[0.2, 0.8]
            )
            a, b = ab[0], ab[1]
        else:
            b = pm.Uniform("b", 0, 1)
            a = pm.Uniform("a", 0, b)
        pk.vector_simulator(
            "y",
            lambda rng, a, b, size=None: np.array([a, b]) + rng.normal(0, 0.3, 2),
            a,
            b,
            observed=[0.7, 0.5],
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pk.sample_abc(
            500, model=model, simulations=500, estimator="adjusted", random_seed=1, progressbar=False
        )
    drawn = idata["posterior"]
    a, b = (
        (drawn["ab"].values[..., i] for i in (0, 1))
        if kind == "ordered"
        else (drawn["a"].values, drawn["b"].values)
    )
    assert np.all(a < b)
