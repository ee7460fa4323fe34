"""Observed variables whose density is known, beside a simulator: they weight rows and are not matched."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.simulation import ForwardModel, Proposal, SimulationOptions, simulate_table
from pymc_kbr.simulation.prior.density import known_densities

Y = np.array([0.9, 1.3, 0.7, 1.6])
Z = np.array([1.2, 0.8, 1.1])
PRIOR, SD = 2.0, 0.7


def draw(rng, mean, size):
    return rng.normal(mean, SD, size)


def model_of(known="normal"):
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, PRIOR)
        if known == "normal":
            pm.Normal("y", mean, SD, observed=Y)
        if known == "potential":
            pm.Potential("y", pm.logp(pm.Normal.dist(mean, SD), Y).sum())
        pk_simulator = pm.Simulator("z", draw, mean, sum_stat="mean", observed=Z)
        if known == "after":
            pm.Normal("y", pk_simulator.mean(), SD, observed=Y)
    return model


def log_known(parameters):
    return stats.norm.logpdf(Y, parameters, SD).sum(axis=1)


def check_weights(table):
    found, expected = np.log(table.prior_ratio), log_known(table.parameters)
    np.testing.assert_allclose(found - found.max(), expected - expected.max(), rtol=1e-6, atol=1e-9)


def exact(data):
    precision = 1 / PRIOR**2 + len(data) / SD**2
    return data.sum() / SD**2 / precision, precision**-0.5


@pytest.fixture(scope="module")
def simulated():
    """A model and its table."""
    model = model_of()
    return model, pk.simulate(2000, model=model, random_seed=2, progressbar=False)


@pytest.mark.versions
@pytest.mark.parametrize("known", ["normal", "potential"])
def test_rows_carry_the_likelihood_and_its_variable_is_no_statistic(known):
    table = pk.simulate(300, model=model_of(known), random_seed=1, progressbar=False)
    assert table.statistic_names == ["z"]
    assert table.provenance["known_densities"] == "y"
    check_weights(table)
    parameters = pk.simulate(300, model=model_of(None), random_seed=1, progressbar=False).parameters
    np.testing.assert_array_equal(table.parameters, parameters)


@pytest.mark.versions
def test_a_learned_likelihood_is_multiplied_with_all_that_is_known():
    model = model_of()
    table = pk.simulate(20, model=model, random_seed=1, progressbar=False)
    found, theta = known_densities(model, table, model), table.parameters
    prior = stats.norm.logpdf(theta[:, 0], 0, PRIOR)
    np.testing.assert_allclose(found.prior(theta), prior)
    np.testing.assert_allclose(found.likelihood(theta), log_known(theta))
    np.testing.assert_allclose(found.log_prior(theta), prior + log_known(theta))
    assert known_densities(model, table, None).log_prior is None  # of the data nothing is known then


def test_draws_of_a_proposal_carry_the_likelihood_over_their_own_density():
    forward = ForwardModel.read(model_of())
    proposal = Proposal(np.ones(1), np.array([[0.5]]), np.array([[[0.8]]]), forward.support, 0.25)
    options = SimulationOptions(40, random_seed=1, proposal=proposal, progressbar=False)
    table = simulate_table(options, forward)
    theta = table.parameters[:, 0]
    prior = stats.norm.pdf(theta, 0, PRIOR)
    drawn = 0.25 * prior + 0.75 * stats.norm.pdf(theta, 0.5, 0.8**0.5)
    expected = prior * np.exp(log_known(table.parameters)) / drawn
    np.testing.assert_allclose(table.prior_ratio, expected / expected.max())


@pytest.mark.versions
@pytest.mark.statistical
@pytest.mark.parametrize("estimator", ["rejection", "kernel_likelihood"])
def test_the_posterior_is_that_of_all_data(estimator, simulated):
    model, table = simulated
    given = pk.Rejection(0.1) if estimator == "rejection" else estimator

    result = pk.sample_abc(
        1000, reference_table=table, model=model, estimator=given, random_seed=3, progressbar=False
    )
    mean, deviation = exact(np.concatenate([Y, Z]))
    drawn = result["posterior"]["mean"].values.ravel()
    # Without the known values the deviation is 1.5 times as large; rows accepted alike widen it a little.
    assert abs(drawn.mean() - mean) < 0.3 * deviation
    assert 0.85 < drawn.std() / deviation < 1.25
    assert set(result["observed_data"].data_vars) == {"y", "z"}


def test_a_store_keeps_the_weights_and_is_extended_with_them(tmp_path):
    given = {"model": model_of(), "random_seed": 4, "progressbar": False}
    pk.simulate_to_store(200, store=tmp_path / "rows.zarr", **given)
    longer = pk.simulate_to_store(400, store=tmp_path / "rows.zarr", **given)
    check_weights(longer.load())
    assert len(longer.load()) == 400
    assert pk.StoredTable.open(tmp_path / "rows.zarr").load().origin.known == ("y",)


def test_rounds_weight_their_rows_by_what_is_known():
    model = model_of()
    boxes = pk.zoom(1500, model=model, random_seed=5, progressbar=False)
    check_weights(boxes)
    refined = pk.refine(800, model=model, rounds=2, estimator="adjusted", random_seed=5, progressbar=False)
    # The target over what the rows were drawn from: a weighted mean of rows is the posterior's given y alone.
    mean, deviation = exact(Y)
    weights = refined.prior_ratio / refined.prior_ratio.sum()
    error = deviation / np.sqrt(1 / np.sum(weights**2))
    assert abs(weights @ refined.parameters[:, 0] - mean) < 4 * error


@pytest.mark.versions
def test_what_hangs_together_with_a_simulator_is_simulated():
    table = pk.simulate(50, model=model_of("after"), random_seed=1, progressbar=False)
    assert sorted(table.parameter_names + table.statistic_names) == [
        "mean",
        *[f"y[{i}]" for i in range(4)],
        "z",
    ]
    assert table.prior_ratio is None


@pytest.mark.versions
def test_a_potential_of_what_is_simulated_is_refused():
    with model_of(None) as model:
        pm.Potential("push", -(model["z"] ** 2).sum())
    with pytest.raises(ValueError, match="'push' depends on what is simulated"):
        pk.simulate(50, model=model, random_seed=1, progressbar=False)


@pytest.mark.versions
def test_impossible_data_are_refused():
    with model_of(None) as model:
        pm.Uniform("y", 100, 101, observed=3.0)
    with pytest.raises(ValueError, match="impossible at the parameters of every simulation"):
        pk.simulate(50, model=model, random_seed=1, progressbar=False)


@pytest.mark.versions
def test_a_density_that_is_no_number_is_refused_with_its_parameters():
    with model_of(None) as model:
        pm.Potential("broken", pm.math.log(model["mean"]))
    with pytest.raises(ValueError, match="the log density of \\['broken'\\] is nan at the parameters"):
        pk.simulate(50, model=model, random_seed=1, progressbar=False)
