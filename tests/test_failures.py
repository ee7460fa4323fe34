"""Failures that depend on the parameters, in every stage that PyMC models go through."""

import numpy as np
import pymc as pm
import pytest
from scipy.special import logit
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.success import weighting_of
from tests.models import AS_WRITTEN

pytestmark = pytest.mark.filterwarnings("ignore")

OBSERVED, NOISE, EDGE = 0.4, 0.3, 0.3
GRID = np.linspace(0, 1, 20_001)[1:-1]
CHANCES = {"square": lambda th: th**2, "edge": lambda th: 1.0 * (th > EDGE)}


def model_of(where):
    chance = CHANCES[where]

    def fails(rng, th, size=None):
        x = rng.normal(th, NOISE, size=size)
        return np.where(rng.random(np.shape(x)) < chance(np.asarray(th)), x, np.nan)

    with pm.Model() as model:
        pm.Simulator("x", fails, pm.Uniform("th", 0, 1), observed=np.array(OBSERVED))
    return model


def mean_of(where, meaning="drop", lowest=0.0):
    """Exact, by quadrature; of parameters from the lowest one at which a simulation succeeded."""
    chance = CHANCES[where](GRID) * (lowest <= GRID)
    weights = norm.pdf(OBSERVED, GRID, NOISE) * (chance if meaning == "drop" else chance > 0)
    return GRID @ weights / weights.sum()


def check(result, where, meaning="drop", error=0.03, lowest=0.0):
    drawn = np.asarray(result["posterior"]["th"]).ravel()
    assert abs(drawn.mean() - mean_of(where, meaning, lowest)) < error
    if where == "edge":
        assert np.mean(drawn < EDGE) < 0.01


def sampled(model, **given):
    return pk.sample_abc(1000, model=model, random_seed=1, progressbar=False, **given)


@pytest.fixture(scope="module", params=CHANCES)
def simulated(request, tmp_path_factory):
    model, path = model_of(request.param), tmp_path_factory.mktemp("failures") / "table.zarr"
    how = {"model": model, "random_seed": 1, "on_failure": "drop", "progressbar": False, "store": path}
    return request.param, model, pk.simulate(1500, **how), path


def test_the_posterior_is_the_exact_one(simulated):
    where, model, table, _ = simulated
    meaning = {"square": "drop", "edge": "condition"}[where]
    result = sampled(
        model, reference_table=table.with_on_failure(meaning), estimator=pk.KernelLikelihood("location_scale")
    )
    check(result, where, meaning)


def test_a_store_has_the_same_failures_whole_and_in_part(simulated):
    where, model, table, path = simulated
    stored = pk.StoredTable.open(path)
    assert len(stored.failures) == len(table.failures)
    assert weighting_of(stored.with_observed([0.3])).success is weighting_of(stored).success  # learnt once
    check(sampled(model, reference_table=stored, estimator="adjusted"), where)
    part = stored.load(500)
    share = len(part.failures) / (len(part) + len(part.failures))
    assert share == pytest.approx(len(table.failures) / 1500, abs=0.002)
    condition = stored.with_on_failure("condition")
    assert condition.load().origin.on_failure == "condition"
    with pytest.raises(ValueError, match="load"):
        sampled(model, reference_table=condition, estimator="adjusted")


def test_a_store_keeps_the_meaning_of_the_last_call(tmp_path):
    how = {"model": model_of("square"), "random_seed": 1, "progressbar": False, "store": tmp_path / "t.zarr"}
    assert pk.simulate(50, on_failure="condition", **how).origin.on_failure == "condition"
    assert pk.StoredTable.open(tmp_path / "t.zarr").origin.on_failure == "condition"
    assert pk.simulate(60, on_failure="drop", **how).origin.on_failure == "drop"
    with pytest.raises(ValueError, match="'raise', 'drop', 'condition'"):
        pk.simulate(60, on_failure="leave", **how)


def in_rounds(where, make, draws):
    model = model_of(where)
    how = {"model": model, "random_seed": 1, "on_failure": "drop", "progressbar": False}
    table = make(draws, rounds=2, **how)
    result = sampled(model, reference_table=table, estimator=pk.KernelLikelihood("location_scale"))
    # Over eight seeds of two rounds the error has a mean of 0.003 and a deviation of 0.016.
    check(result, where, error=4 * 0.016)
    return model, table


def test_rounds_have_failures_too():
    model, refined = in_rounds("square", pk.refine, 2000)
    assert len(refined.failures.prior_ratio) == len(refined.failures)
    condition = refined.with_on_failure("condition")
    result = sampled(model, reference_table=condition, estimator=pk.KernelLikelihood("location_scale"))
    # Next to zero no simulation succeeds, and nothing is known of parameters there.
    check(result, "square", "condition", lowest=refined.parameters.min())


def test_warnings_say_what_a_failure_means():
    for meaning, words in (
        ("drop", "become less probable"),
        ("condition", "say nothing about the parameters"),
    ):
        with pytest.warns(UserWarning, match=words):
            pk.simulate(100, model=model_of("square"), random_seed=1, on_failure=meaning, progressbar=False)


def test_a_model_of_pymc_has_it(simulated):
    where, _, table, _ = simulated
    trials = {"square": 3, "edge": 1}[where]
    fitted = pk.KernelLikelihood("location_scale").fit(table, random_seed=1)
    data = np.full((trials, 1), OBSERVED)
    with pm.Model() as model:
        pk.LearnedSimulator("x", fitted, pm.Uniform("th", 0, 1), observed=data if trials > 1 else data[0])
    density = model.compile_logp(vars=model.observed_RVs, mode=AS_WRITTEN)
    for th in (0.6, 0.8):
        found, there = density({"th_interval__": logit(th)}), fitted.log_likelihood(np.array([[th]]), data)
        np.testing.assert_allclose(found, there, rtol=1e-10)
    if where == "edge":
        assert density({"th_interval__": logit(0.9 * EDGE)}) == -np.inf


def test_emulated_rows_fail_as_simulations_do():
    def curve(rng, th, size=None):
        values = np.stack([np.asarray(th), np.asarray(th) ** 2], axis=-1)
        return np.where(rng.random(np.shape(th))[..., None] < np.asarray(th)[..., None] ** 2, values, np.nan)

    with pm.Model() as model:
        pk.vector_simulator("x", curve, pm.Uniform("th", 0, 1), observed=[0.5, 0.25])
    table = pk.simulate(1500, model=model, random_seed=1, on_failure="drop", progressbar=False)
    many = pk.emulate(table, 4000, model=model, random_seed=1, progressbar=False)
    assert len(many) + len(many.failures) == 4000
    assert len(many) / 4000 == pytest.approx(1 / 3, abs=0.03)
    assert many.parameters.mean() == pytest.approx(3 / 4, abs=0.02)
