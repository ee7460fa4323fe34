"""What PyMC does with a model, done with one that has learned simulators."""

import numpy as np
import pymc as pm
import pytensor
import pytest

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
        idata = pm.sample(400, tune=150, chains=2, cores=1, random_seed=1, progressbar=False)
        pm.compute_log_likelihood(idata, progressbar=False)
        predicted = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    draws = idata["posterior"]["t"].values.reshape(-1, 2, 2)
    # 800 draws, of at least 200 effective ones: five Monte Carlo errors.
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
