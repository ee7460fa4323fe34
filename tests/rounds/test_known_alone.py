"""Rounds where known densities decide, and evidence under the whole prior of tables that leave some out."""

import dataclasses

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.rounds import sequence
from pymc_kbr.rounds.sequence import draws_of_known, few_effective
from pymc_kbr.simulation import ForwardModel
from pymc_kbr.tables.origin import Origin

QUIET = {"random_seed": 1, "progressbar": False}


def beside(data, spread=10.0):
    """So many ordinary data of a level, and a simulator that tells of a shift from it."""
    y = np.random.default_rng(3).normal(2.0, 1.0, data)

    def shifted(rng, level, shift, size=None):
        level, shift = np.broadcast_arrays(level, shift)
        return (level + shift + 0.3 * rng.normal(size=level.shape))[..., None]

    with pm.Model() as model:
        level, shift = pm.Normal("level", 0, spread), pm.Normal("shift", 0, 1)
        pm.Normal("y", level, 1, observed=y)
        pk.vector_simulator("z", shifted, level, shift, observed=[2.5])
    precision = np.diag([1 / spread**2 + data, 1.0]) + np.ones((2, 2)) / 0.09
    covariance = np.linalg.inv(precision)
    return model, covariance @ (np.array([y.sum(), 0.0]) + 2.5 / 0.09), covariance


def test_draws_of_what_is_known_are_exact():
    model, *_ = beside(200)
    forward = ForwardModel.read(model)
    drawn = draws_of_known(forward, 1000, np.random.default_rng(1))
    y = np.random.default_rng(3).normal(2.0, 1.0, 200)
    deviation = 1 / np.sqrt(200 + 1 / 100)
    z = (drawn[:, 0] - y.sum() * deviation**2) / deviation
    # Particles of few ancestors, moved: worth at least a fifth of as many draws.
    assert abs(z.mean()) < 4 / np.sqrt(200)
    assert abs(z.std() - 1) < 4 / np.sqrt(400)
    assert abs(drawn[:, 1].mean()) < 4 / np.sqrt(200)


def test_known_densities_that_leave_few_rows_lead_to_rounds_and_not_to_a_fine_table():
    model, mean, covariance = beside(1000)
    with model:
        idata = pk.sample_abc(1000, simulations=2000, estimator="adjusted", rounds="auto", **QUIET)
    words = idata["posterior"].attrs["rounds"]
    assert "y leave an effective" in words
    assert "at draws of the posterior" in words
    drawn = np.stack([idata["posterior"][name].to_numpy().ravel() for name in ("level", "shift")])
    deviation = np.sqrt(np.diag(covariance))
    # A tenth of a deviation is what a likelihood of some thousand rows may be off by.
    assert np.all(np.abs(drawn.mean(axis=1) - mean) < 0.25 * deviation)
    assert np.all(np.abs(np.log(drawn.std(axis=1) / deviation)) < np.log(1.25))


def test_few_are_those_below_the_limit_where_something_is_known():
    model, *_ = beside(3, spread=2.0)
    table = pk.simulate(600, model=model, **QUIET)
    assert few_effective(table) == 0
    narrow = pk.simulate(600, model=beside(1000)[0], **QUIET)
    assert 1 <= few_effective(narrow) < 100
    posterior = pk.Rejection(0.5).fit(table.parameters, table.statistics).condition(table.observed)
    posterior = dataclasses.replace(posterior, settings={"log_evidence": 1.0, "ridge": 2.0})
    assert Origin(known=("y",)).of_whole_prior(posterior).settings == {"ridge": 2.0}
    assert Origin(prior_mass=None).of_whole_prior(posterior).settings == {"ridge": 2.0}
    half = Origin(prior_mass=0.5).of_whole_prior(posterior).settings
    assert half == {"log_evidence": pytest.approx(1 - np.log(2)), "ridge": 2.0}
    # Another prior has all its mass where the table has rows, or is refused before.
    assert Origin(prior_mass=0.5).of_whole_prior(posterior, "another").settings == posterior.settings


def test_only_the_second_round_is_drawn_by_what_is_known_alone(monkeypatch):
    """Of many parameters few rows are effective in every round, and they must close in all the same."""
    asked = []

    def draws(*given):
        asked.append(given[1])
        return draws_of_known(*given)

    monkeypatch.setattr(sequence, "few_effective", lambda table: 1)
    monkeypatch.setattr(sequence, "draws_of_known", draws)
    pk.refine(600, rounds=3, model=beside(20)[0], estimator="rejection", **QUIET)
    assert asked == [sequence.DRAWS_FOR_PROPOSAL]


def narrow_model():
    """Two parameters of wide priors, and statistics that tell them to a twentieth."""

    def both(rng, a, b, size=None):
        a, b = np.broadcast_arrays(a, b)
        return np.stack([a, b], axis=-1) + 0.05 * rng.normal(size=(*a.shape, 2))

    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.Uniform("b", -2, 2)
        pk.vector_simulator("y", both, a, b, observed=[0.4, 0.3])
    return model, stats.norm(0, np.sqrt(1.0025)).logpdf(0.4) - np.log(4)


@pytest.mark.parametrize("how", ["prior", "refine", "zoom"])
def test_the_evidence_is_that_of_the_whole_prior(how):
    model, exact = narrow_model()
    likelihood = pk.KernelLikelihood("location_scale")
    table = {
        "prior": lambda: pk.simulate(1500, model=model, **QUIET),
        "refine": lambda: pk.refine(900, rounds=3, model=model, estimator=likelihood, **QUIET),
        "zoom": lambda: pk.zoom(1500, model=model, **QUIET),
    }[how]()
    mass = table.origin.prior_mass
    assert (mass == 1.0) == (how == "prior")
    idata = pk.sample_abc(200, reference_table=table, model=model, estimator=likelihood, **QUIET)
    # Some hundred rows near the observation give the prior's mass there to a tenth, and the likelihood its
    # scale to as much; without the mass it is off by 4.
    assert abs(idata["posterior"].attrs["log_evidence"] - exact) < 0.5


@pytest.mark.parametrize("how", ["refine", "zoom", "known"])
def test_models_are_not_compared_by_tables_that_leave_some_of_the_prior_out(how):
    model, _ = narrow_model()
    whole = pk.simulate(300, model=model, **QUIET)
    if how == "known":
        model = beside(3)[0]
        other = pk.simulate(300, model=model, **QUIET)
        whole = pk.simulate(300, model=beside(4)[0], **QUIET)
    else:
        other = (
            pk.refine(400, rounds=2, model=model, estimator="rejection", **QUIET)
            if how == "refine"
            else pk.zoom(1500, model=model, **QUIET)
        )
    with pytest.raises(ValueError, match=r"not one of draws of the whole prior alone"):
        pk.compare_models({"other": other, "one": whole}, random_seed=1)


@pytest.mark.parametrize(("one", "other", "both"), [(1.0, 1.0, 1.0), (None, 1.0, None), (0.2, 0.3, None)])
def test_appended_tables_know_their_share_of_the_prior_where_it_is_one(one, other, both):
    found = Origin.from_documents({"provenance": {}, "origin": Origin(prior_mass=one, seeds=(1,)).to_json()})
    assert found.prior_mass == one
    tables = []
    for seed, mass in ((1, one), (2, other)):
        rng = np.random.default_rng(seed)
        table = pk.ReferenceTable.from_dataframe(
            pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "x"]), parameters=["a"], statistics=["x"]
        )
        tables.append(dataclasses.replace(table, origin=dataclasses.replace(table.origin, prior_mass=mass)))
    assert tables[0].append(tables[1]).origin.prior_mass == both


def test_the_evidence_does_not_depend_on_the_scale_of_a_prior_or_on_what_was_asked_before():
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(600, 1))
    x = theta + 0.5 * rng.normal(size=(600, 1))
    likelihood = pk.KernelLikelihood("location_scale", particles=1000).fit(theta, x, random_seed=1)

    def scaled(points):
        return stats.norm.logpdf(points[:, 0]) + 100

    new = likelihood.under(scaled).condition([0.7]).settings["log_evidence"]
    before = likelihood.condition([0.7]).settings["log_evidence"]
    again = likelihood.under(scaled).condition([0.7]).settings["log_evidence"]
    assert again == new
    # A thousand weighted draws give each to a few hundredths.
    assert new == pytest.approx(before, abs=0.1)
    assert new == pytest.approx(stats.norm(0, np.sqrt(1.25)).logpdf(0.7), abs=0.15)
