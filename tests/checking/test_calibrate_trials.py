"""Calibration of posteriors of sets of trials."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk


def table_of(rows, spread=1.0, seed=5):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=rows)
    frame = pd.DataFrame({"a": theta, "x": theta + spread * rng.normal(size=rows)})
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["x"])


def model_of(names=("a",)):
    with pm.Model() as model:
        inputs = [pm.Normal(name) for name in names]
        pm.Simulator("x", lambda rng, *given: rng.normal(given[0], 1.0, given[-1]), *inputs, observed=0.0)
    return model


def calibrate(table, **more):
    return pk.calibrate(
        pk.KernelLikelihood("location_scale"), table, draws=200, random_seed=1, progressbar=False, **more
    )


def test_sets_that_the_model_simulates():
    found = calibrate(table_of(3000), rows=80, trials=10, model=model_of())
    assert found.trials == 10
    assert found.spread is None
    assert found.uniformity()[0] > 1e-3
    low, high = found.band(0.9, 0.999)
    assert low <= found.coverage(0.9)[0] <= high
    # The variance of ten trials over that of the prior: 1 / 11.
    assert np.median(found.contraction) == pytest.approx(1 - 1 / 11, abs=0.02)
    assert "sets of 10 trials" in repr(found)


def test_too_little_noise_in_the_table_is_seen_by_sets():
    found = calibrate(table_of(2000, spread=0.4), rows=60, trials=10, model=model_of())
    assert found.coverage(0.9)[0] < found.band(0.9, 0.999)[0]


def test_rows_with_similar_parameters_stand_for_trials():
    # What a table's likelihood is off by chance is the same in all of its sets: so there are three tables.
    each = [calibrate(table_of(4000, seed=seed), rows=150, trials=10) for seed in (5, 6, 7)]
    for found in each:
        assert found.spread < 0.2
        low, high = found.band(0.9, 0.999)
        assert low <= found.coverage(0.9)[0] <= high
    # The median of three p-values that are uniform is lower once in a thousand times: 3 p^2 - 2 p^3 = 0.001.
    assert np.median([found.uniformity()[0] for found in each]) > 0.018


def test_sets_share_no_rows():
    """Half of 3,000 rows has 37 sets of 40, however many are asked for."""
    found = calibrate(table_of(3000), rows=300, trials=40)
    assert len(found.pit) == 37
    assert found.uniformity()[0] > 1e-3


def test_a_model_that_fails_is_refused():
    def fails(rng, a, size):
        x = rng.normal(a, 1.0, size)
        return np.where(x > 1.5, np.nan, x)

    with pm.Model() as model:
        pm.Simulator("x", fails, pm.Normal("a"), observed=0.0)
    with pytest.raises(ValueError, match="leave model out"):
        calibrate(table_of(400), rows=20, trials=10, model=model)


def test_it_is_said_where_the_parameters_of_a_set_differ():
    with pytest.warns(pk.PosteriorWarning, match="posterior deviations: what is found may be due"):
        found = calibrate(table_of(1200, spread=0.3), rows=20, trials=60)
    assert f"differ by {found.spread:.2g}" in repr(found)


def test_single_observations_are_as_before():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = calibrate(table_of(600), rows=20)
    assert found.trials is None
    assert "held-out rows" in repr(found)


@pytest.mark.parametrize(
    ("estimator", "more", "words"),
    [
        ("adjusted", {"trials": 5}, "KernelLikelihood"),
        (pk.KernelLikelihood(), {"trials": 1}, "at least 2"),
        (pk.KernelLikelihood(), {"trials": 100}, "half of the table has ten sets"),
        (pk.KernelLikelihood(conditions=["a"]), {"trials": 5}, "has conditions"),
        (pk.KernelLikelihood(), {"trials": 5, "around": [0.0]}, "around"),
        (pk.KernelLikelihood(), {"model": True}, "trials is not"),
        (pk.KernelLikelihood(), {"trials": 5, "model": True}, "simulated from"),
    ],
)
def test_what_cannot_be_is_refused(estimator, more, words):
    if "model" in more:
        more = more | {"model": model_of(("a", "b"))}
    with pytest.raises(ValueError, match=words):
        pk.calibrate(estimator, table_of(200), rows=20, progressbar=False, **more)
