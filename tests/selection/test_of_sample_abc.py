"""What `sample_abc` is told of the choice of an estimator."""

import numpy as np
import pymc as pm
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
def test_candidates_are_those_of_select(cast):
    few = cast(["rejection", pk.Rejection(20)])
    found = pk.sample_abc(20, reference_table=TABLE, candidates=few, random_seed=1, progressbar=False)
    assert set(found["selection"]["candidate"].values) == {"Rejection()", "Rejection(accepted=20)"}


@pytest.mark.parametrize(
    ("candidates", "error", "words"),
    [
        ([], ValueError, "there are no candidates"),
        ("localised", TypeError, "give a list of names"),
        ({"candidates": ["localised"]}, TypeError, "give a list of names"),
        (["localized"], ValueError, "localized"),
    ],
)
def test_what_are_no_candidates_is_refused_before_any_work(candidates, error, words):
    with pytest.raises(error, match=words):
        pk.sample_abc(20, simulations=10**12, candidates=candidates, random_seed=1, progressbar=False)


@pytest.mark.parametrize("estimator", ["localised", pk.Rejection(20)])
def test_candidates_beside_an_estimator_are_refused(estimator):
    with pytest.raises(ValueError, match="is given, and candidates, of which one would be chosen"):
        pk.sample_abc(20, reference_table=TABLE, estimator=estimator, candidates=["rejection"])


@pytest.mark.coarse
@pytest.mark.parametrize(("coarse", "half"), [(False, True), (True, False)])
def test_what_was_chosen_on_the_first_half_is_fitted_to_all_simulations(coarse, half):
    """Unless this half is too coarse: then it is chosen anew, of simulations near the observation."""
    adjusted, scale = pk.Adjusted(pk.Rejection(400), "local_linear"), 0.02 if coarse else 2.0
    with pm.Model():
        mean = pm.Normal("mean", 0, 1)
        pk.vector_simulator(
            "y",
            lambda rng, mean, size: rng.normal(np.asarray(mean)[..., None], scale, (*size, 2)),
            mean,
            observed=[0.7, 0.7],
        )
        few = [pk.Rejection(100), pk.Rejection(200) if coarse else adjusted]
        idata = pk.sample_abc(
            100, simulations=2000, rounds="auto", candidates=few, random_seed=1, progressbar=False
        )
    assert ("round(s) of 1000" in idata["posterior"].attrs["rounds"]) is coarse
    fitted = pk.estimator_of(idata)
    # In rounds only rows near the observation have weight.
    assert len(fitted.table_) > (1000 if coarse else 1800)
    compared = len(fitted.selection_.chosen.fitted.table_)
    assert (compared < 0.55 * len(fitted.table_)) is half
