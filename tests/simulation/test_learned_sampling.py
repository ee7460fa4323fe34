"""What PyMC does with a model, done with one that has learned simulators."""

import arviz as az
import numpy as np
import pymc as pm
import pytensor
import pytest
import xarray
from pytensor.graph.fg import FunctionGraph
from scipy.stats import multivariate_normal

import pymc_kbr as pk
from tests.models import LinearLikelihood

pytestmark = pytest.mark.versions

GROUP = np.array([0, 1, 1, 0, 1])
COORDS = {"trial": range(5), "statistic": ["first", "second", "third"]}


@pytest.fixture(autouse=True)
def nothing_is_compiled_to_machine_code():
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture(scope="module")
def likelihood():
    return LinearLikelihood()


@pytest.fixture
def model(likelihood):
    theta = np.array([[0.5, -0.5], [-0.5, 1.0]])
    observed = likelihood.draw_statistics(theta[GROUP], np.random.default_rng(3))
    with pm.Model(coords=COORDS) as model:
        t = pm.Normal("t", shape=(2, 2))
        pk.LearnedSimulator("y", likelihood, t, observed=observed, group=GROUP, dims=("trial", "statistic"))
    return model


def exact(model, likelihood):
    """Means and deviations of the posterior: theta of each group, with a standard normal prior."""
    precision = np.linalg.inv(likelihood.factor @ likelihood.factor.T)
    slopes, observed = likelihood.slopes, model.rvs_to_values[model["y"]].data
    means, deviations = [], []
    for group in (0, 1):
        x = observed[group == GROUP]
        cov = np.linalg.inv(np.eye(2) + len(x) * slopes.T @ precision @ slopes)
        means.append(cov @ slopes.T @ precision @ x.sum(axis=0))
        deviations.append(np.sqrt(np.diag(cov)))
    return np.array(means), np.array(deviations)


def test_the_mode(model, likelihood):
    mean, deviation = exact(model, likelihood)
    found = pm.find_MAP(model=model, progressbar=False)
    assert np.abs((found["t"] - mean) / deviation).max() < 1e-3


def test_nuts_and_what_follows(model, likelihood):
    mean, deviation = exact(model, likelihood)
    with model:
        idata = pm.sample(250, tune=100, chains=2, cores=1, random_seed=1, progressbar=False)
        pm.compute_log_likelihood(idata, progressbar=False)
        predicted = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    draws = idata["posterior"]["t"].values.reshape(-1, 2, 2)
    # 500 draws, of at least 200 effective ones: five Monte Carlo errors.
    assert np.abs((draws.mean(axis=0) - mean) / deviation).max() < 5 / np.sqrt(200)
    densities = idata["log_likelihood"]["y"]
    assert densities.dims == ("chain", "draw", "trial")
    observed = model.rvs_to_values[model["y"]].data
    at = idata["posterior"]["t"].values[1, 7]
    assert densities.values[1, 7] == pytest.approx(likelihood.exact(at[GROUP], observed))
    y = predicted["posterior_predictive"]["y"]
    assert y.dims == ("chain", "draw", "trial", "statistic")
    centre = mean[GROUP] @ likelihood.slopes.T
    spread = y.values.reshape(-1, 5, 3).std(axis=0)
    assert np.abs((y.values.mean(axis=(0, 1)) - centre) / spread).max() < 5 / np.sqrt(200)


def test_leave_one_out_is_exact(likelihood):
    """Of 40 trials of one parameter set: the density of each under the posterior of the others."""
    observed = likelihood.draw_statistics(np.tile([0.5, -0.5], (40, 1)), np.random.default_rng(5))
    slopes, cov = likelihood.slopes, likelihood.factor @ likelihood.factor.T
    precision = slopes.T @ np.linalg.inv(cov)
    exact = 0.0
    for i, x in enumerate(observed):
        spread = np.linalg.inv(np.eye(2) + 39 * precision @ slopes)
        mean = spread @ precision @ np.delete(observed, i, axis=0).sum(axis=0)
        exact += multivariate_normal(slopes @ mean, cov + slopes @ spread @ slopes.T).logpdf(x)
    with pm.Model():
        pk.LearnedSimulator("y", likelihood, pm.Normal("t", shape=2), observed=observed)
        idata = pm.sample(500, tune=150, chains=2, cores=1, random_seed=1, progressbar=False)
        pm.compute_log_likelihood(idata, progressbar=False)
        found = az.loo(idata, var_name="y")
    elpd = found.elpd if hasattr(found, "elpd") else found.elpd_loo  # of ArviZ 1.x and of 0.x
    assert abs(float(elpd) - exact) < 0.3  # of two effective parameters, from 1,000 draws
    assert not found["warning"]


def test_a_model_compiles_after_predictive_draws_and_changed_data(likelihood, monkeypatch):
    """Predictive draws are of `idata["posterior"]`: of all of `idata` PyMC 5 lists every observed twice."""
    data = likelihood.draw_statistics(np.zeros((6, 2)), np.random.default_rng(3))
    with pm.Model() as model:
        t = pm.Normal("t", shape=2)
        trials = pm.Data("trials", data)
        pk.LearnedSimulator("y", likelihood, t, observed=trials)
        at = {"t": np.array([0.3, -0.2])}
        log_density, gradient = model.compile_logp(), model.compile_dlogp()
        idata = pm.sample(5, tune=5, chains=1, cores=1, progressbar=False, compute_convergence_checks=False)
        posterior = xarray.Dataset(idata["posterior"].data_vars)
        pm.sample_posterior_predictive(posterior, random_seed=1, progressbar=False)
        again = model.compile_logp()(at)
        assert again == pytest.approx(float(log_density(at)))

        with monkeypatch.context() as patch:
            patch.setattr(FunctionGraph, "__init__", None)  # what is compiled needs one
            pm.set_data({"trials": data[:4]})
            fewer, slope = float(log_density(at)), gradient(at)
        prior = -0.5 * np.sum(at["t"] ** 2) - np.log(2 * np.pi)
        exact = likelihood.exact(np.tile(at["t"], (4, 1)), data[:4])
        assert fewer == pytest.approx(exact.sum() + prior)
        assert float(model.compile_logp()(at)) == pytest.approx(fewer)
        assert model.compile_dlogp()(at) == pytest.approx(slope)
        pm.compute_log_likelihood(idata, progressbar=False)
        assert idata["log_likelihood"]["y"].shape == (1, 5, 4)
        predicted = pm.sample_posterior_predictive(posterior, random_seed=1, progressbar=False)
        assert predicted["posterior_predictive"]["y"].shape == (1, 5, 4, 3)
        assert model.compile_logp()(at) == pytest.approx(fewer)


def test_prior_predictive(model, likelihood):
    with model:
        idata = pm.sample_prior_predictive(500, random_seed=1)
    y = idata["prior_predictive"]["y"].values.reshape(-1, 5, 3)
    cov = likelihood.slopes @ likelihood.slopes.T + likelihood.factor @ likelihood.factor.T
    assert np.cov(y[:, 2].T) == pytest.approx(cov, abs=6 * np.abs(cov).max() / np.sqrt(500))
    # Trials of one group share its parameters, those of another do not.
    shared = np.corrcoef(y[:, 1, 0], y[:, 2, 0])[0, 1]
    expected = (likelihood.slopes @ likelihood.slopes.T)[0, 0] / cov[0, 0]
    assert shared == pytest.approx(expected, abs=0.2)
    assert abs(np.corrcoef(y[:, 0, 0], y[:, 1, 0])[0, 1]) < 0.2


def test_smc(model, likelihood):
    mean, deviation = exact(model, likelihood)
    with model:
        idata = pm.sample_smc(400, chains=2, cores=1, random_seed=1, progressbar=False)
    draws = idata["posterior"]["t"].values.reshape(-1, 2, 2)
    assert np.abs((draws.mean(axis=0) - mean) / deviation).max() < 0.5


def test_where_the_simulated_range_is_narrow_sampling_starts_at_the_initial_point_or_not_at_all():
    narrow = LinearLikelihood(lowest=-0.01, highest=0.01)
    with pm.Model():
        t = pm.Normal("t", 0, 0.004, shape=2)
        pk.LearnedSimulator("y", narrow, t, observed=np.zeros((2, 3)))
        given = {"tune": 5, "draws": 5, "chains": 1, "random_seed": 1, "progressbar": False}
        given["compute_convergence_checks"] = False
        with pytest.raises(pm.exceptions.SamplingError, match=r"(?i)initial"):
            pm.sample(**given)
        draws = pm.sample(init="adapt_diag", **given)["posterior"]["t"].to_numpy()
    assert np.abs(draws).max() < 0.01
