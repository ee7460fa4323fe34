"""A row whose statistic has no logarithm, among others that have one: the result says what was done."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.checking.coarseness import REMEDIES, remedy_of, rounds_ended
from pymc_kbr.estimators.summaries import Dependent, Transformed, make_summary
from pymc_kbr.estimators.summaries.transformed import Cells

OBSERVED = {"y": 1.3, "z": 0.2}
QUIET = {"random_seed": 1, "progressbar": False}


def frame_with_zero(nearest, n=2000, value=0.0):
    """A table in which the row that is so many rows from the observation has a zero."""
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=n), rng.uniform(0.05, 1, n)
    y, z = np.exp(a + b * rng.normal(size=n)), a + 0.05 * rng.normal(size=n)
    away = (z - 0.2) ** 2 + (np.log(y) - np.log(1.3)) ** 2
    y[np.argsort(away)[nearest]] = value
    return pd.DataFrame({"a": a, "b": b, "y": y, "z": z})


def table_of(frame):
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["y", "z"], observed=OBSERVED, bounds={"b": (0.05, 1)}
    )


@pytest.fixture(scope="module")
def table():
    return table_of(frame_with_zero(3))  # held out when an estimator is chosen with seed 1


def test_a_logarithm_is_not_taken_where_other_rows_have_none():
    frame = frame_with_zero(3)
    rows = frame[frame["y"] > 0]
    x, theta = rows[["y", "z"]].to_numpy(), rows[["a", "b"]].to_numpy()
    alone = Transformed.fit(x, theta)
    assert alone.curves[0].kind == "log"
    assert alone.refused == ()
    for lowest in (0.0, -1.0):
        zero = np.array([[lowest, 0.2]])
        with pytest.raises(ValueError, match="enter by their log"):
            alone.transform(zero)
        other = Transformed.fit(x, theta, lowest=zero[0])
        assert other.curves[0].kind in ("linear", "asinh")
        assert other.refused == ((0, "log"),)
        assert np.all(np.isfinite(other.transform(zero)))
        assert other.of_columns(np.array([1])).refused == ()
        assert other.of_columns(np.array([1, 0])).refused == ((1, "log"),)
        assert Dependent.fit(x, theta, zero[0]).curved.refused == ((0, "log"),)
        assert make_summary("transformed", x, theta, zero[0]).refused == ((0, "log"),)
    # What is above all the same changes nothing.
    same = Transformed.fit(x, theta, lowest=x.min(axis=0) / 2)
    np.testing.assert_array_equal(same.transform(x), alone.transform(x))
    assert same.refused == ()


def test_sample_abc_goes_on_and_says_which_statistic_fell_back(table):
    result = pk.sample_abc(100, reference_table=table, **QUIET)["posterior"]
    words = result.attrs["refused_curves"]
    assert words.startswith("the statistic 'y' does not enter by its log")


def test_calibration_goes_over_a_zero():
    table = table_of(frame_with_zero(3, 120))
    found = pk.calibrate(pk.KernelLikelihood("location_scale", 50), table, rows=60, random_seed=1)
    assert np.all(np.isfinite(found.pit))


@pytest.mark.parametrize(
    ("words", "proposed", "name"),
    [
        ("none: all 9 are draws of the prior, since y is 0", False, "prior"),
        (
            "none: all 9 are draws of the prior, and the table of the first 4 was too coarse, but y is 0",
            False,
            "prior",
        ),
        (
            "2 round(s) of 4, 5 simulations, 1 of them at draws of the posterior; ended early, since y is 0",
            True,
            "ended",
        ),
        ("2 round(s) of 4, 5 simulations, 1 of them at draws of the posterior", True, "refined"),
        (
            "none: all 9 are draws of the prior, and the table of the first 4 was not found too coarse",
            False,
            "forced",
        ),
    ],
)
def test_a_warning_does_not_advise_rounds_that_have_just_failed(table, words, proposed, name):
    import dataclasses

    origin = dataclasses.replace(table.origin, rounds=words, from_proposal=proposed)
    found = dataclasses.replace(table, origin=origin)
    assert remedy_of(found) == name
    if name in ("prior", "ended"):
        assert "round" not in REMEDIES[name]
        assert rounds_ended(found) == "y is 0"
    else:
        assert rounds_ended(found) == ""


def test_values_that_differ_by_rounding_are_one():
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 40, 2000)
    exact = 1 - counts / 473
    rounded = exact + rng.choice([-1e-16, 0.0, 1e-16], 2000)
    cells = Cells.of(rounded)
    assert cells.spacing == pytest.approx(1 / 473, rel=1e-9)
    assert np.all(cells.possible(exact))
    assert np.all(cells.possible(rounded))
    # Of listed values, too: no lattice, and fewer than a quarter of the rows.
    values = np.array([0.1, 0.25, 0.7, 0.7 + 0.01 * np.pi])[rng.integers(4, size=2000)]
    some = Cells.of(values + rng.choice([0.0, 1e-16], 2000))
    assert len(some.values) == 4
    lower, upper = some.ends(values)
    assert np.all(upper > lower)


def test_a_diversity_of_counts_is_a_lattice_whose_far_values_are_possible():
    rng = np.random.default_rng(1)
    squares = rng.choice(np.arange(473, 4000, 2), 3000) * 1.0
    squares[:5] = [30_001, 60_001, 90_001, 120_001, 200_001]
    diversity = 1 - squares / 473**2
    cells = Cells.of(diversity)
    assert cells.spacing == pytest.approx(2 / 473**2, rel=1e-6)
    assert np.all(cells.possible(diversity))
    assert np.all(cells.possible(1 - np.array([473.0, 5_001.0, 150_001.0]) / 473**2))
    assert not np.any(cells.possible(1 - np.array([474.0, 5_002.0]) / 473**2))
