"""What `sample_abc` is told of the choice of an estimator."""

import json

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.origin import Failures

RNG = np.random.default_rng(1)
THETA = RNG.normal(size=(150, 1))
TABLE = pk.ReferenceTable(
    THETA,
    THETA + RNG.normal(size=(150, 1)),
    np.array([0.3]),
    Columns.scalars(["a"]),
    Columns.scalars(["s"]),
    pk.Support.unbounded(1),
    Failures.none(1),
)


@pytest.mark.parametrize("cast", [list, tuple])
def test_candidates_and_work_are_those_of_select(cast):
    few = cast(["rejection", pk.Rejection(20)])
    found = pk.sample_abc(
        20,
        reference_table=TABLE,
        selection={"candidates": few, "work": 5},
        random_seed=1,
        progressbar=False,
    )
    lines = json.loads(found["posterior"].attrs["selection"])
    assert {line["candidate"] for line in lines} == {"Rejection()", "Rejection(accepted=20)"}
    little = pk.sample_abc(
        20,
        reference_table=TABLE,
        selection={"candidates": few, "work": 1e-6},
        random_seed=1,
        progressbar=False,
    )
    assert "no work was left" in little["posterior"].attrs["selection"]


@pytest.mark.parametrize(
    ("selection", "error", "words"),
    [
        ({"works": 1}, ValueError, r"unknown \['works'\]; it may have 'candidates', 'work', 'time_budget'"),
        ([1], TypeError, "give a dict"),
        ({"work": 0}, ValueError, "work is 0"),
        ({"work": "much"}, TypeError, "work is 'much'"),
        ({"time_budget": -1}, ValueError, "time_budget is -1"),
        ({"candidates": []}, ValueError, "there are no candidates"),
        ({"candidates": "localised"}, TypeError, "give a list of names"),
        ({"candidates": ["localized"]}, ValueError, "localized"),
    ],
)
def test_what_a_choice_does_not_have_is_refused_before_any_work(selection, error, words):
    with pytest.raises(error, match=words):
        pk.sample_abc(20, simulations=10**12, selection=selection, random_seed=1, progressbar=False)


@pytest.mark.parametrize("estimator", ["localised", pk.Rejection(20)])
def test_a_choice_beside_an_estimator_is_refused(estimator):
    with pytest.raises(ValueError, match="is given, and a selection, which would choose one"):
        pk.sample_abc(20, reference_table=TABLE, estimator=estimator, selection={"work": 1})
