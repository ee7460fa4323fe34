"""Missing and censored trials of a `LearnedSimulator`."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest

import pymc_kbr as pk
from tests.models import AS_WRITTEN, densities_and_gradient, relative_errors

QUICK = {"mode": AS_WRITTEN}
N = 150
RNG = np.random.default_rng(4)
RATE, START = RNG.uniform(1, 4, N), RNG.uniform(0, 0.6, N)
RT = START + RNG.gamma(3, 1 / RATE)
PARAMETERS = pd.DataFrame({"rate": RATE, "t0": START})
TRIALS = pd.DataFrame({"rt": RT, "choice": (RNG.random(N) < 0.2 + 0.1 * RATE).astype(float)})
TWO = pd.DataFrame({"rt": RT, "second": RT + RNG.gamma(2, 0.3, N)})
KNOWN = {"shift": {"rt": "t0"}, "lower": {"rt": "t0"}}
DEADLINE = {"rt": (None, 1.5)}
NAN = np.nan
DATA = {
    "rt, choice": np.array([[0.9, 1.0], [1.5, 0.0], [1.5, NAN], [1.5, NAN], [1.1, NAN]]),
    "rt": np.array([[0.9], [1.5], [1.5], [1.2]]),
    "two": np.array([[0.9, 1.4], [1.5, 2.0], [1.5, NAN], [1.1, NAN]]),
}
AT = {"rate_interval__": np.log(1.5 / 1.5), "t0_interval__": np.log(0.2 / 0.4)}
THETA = np.array([[2.5, 0.2]])


def learn(form, table, known):
    return pk.KernelLikelihood(form, **known).for_scores().fit(PARAMETERS, table, random_seed=1)


@pytest.fixture(scope="module")
def learnt():
    return {
        "rt, choice": learn("autoregressive", TRIALS, KNOWN),
        "rt": learn("location_scale", TRIALS[["rt"]], KNOWN),
        "two": learn("location_scale", TWO, {}),
    }


def model_of(likelihood, data, **more):
    with pm.Model() as model:
        rate, t0 = pm.Uniform("rate", 1, 4), pm.Uniform("t0", 0, 0.6)
        pk.LearnedSimulator("y", likelihood, rate, t0, observed=data, **more)
    return model


def densities(model):
    return model.compile_logp([model["y"]], sum=False, **QUICK)(AT)[0]


def each_alone(likelihood, data, censored=None):
    """Log-likelihoods of rows by themselves; zero of those that are missing altogether."""
    return np.array(
        [
            0.0
            if np.all(np.isnan(row))
            else likelihood.log_likelihood(THETA, row[None], censored=censored)[0]
            for row in data
        ]
    )


@pytest.mark.parametrize("name", [pytest.param("rt", marks=pytest.mark.versions), "rt, choice", "two"])
def test_log_densities_are_those_of_the_likelihood_and_gradients_are_right(learnt, name):
    model = model_of(learnt[name], DATA[name], censored=DEADLINE)
    expected = each_alone(learnt[name], DATA[name], DEADLINE)
    at = densities_and_gradient(model)
    np.testing.assert_allclose(at(AT)[0], expected, rtol=1e-6)
    assert relative_errors(at, AT).max() < 1e-5


@pytest.mark.versions
def test_what_is_missing_by_a_mask_is_integrated_out(learnt):
    gaps = np.vstack([DATA["rt, choice"], [[NAN, NAN]]])
    masked = np.ma.MaskedArray(np.where(np.isnan(gaps), 0.0, gaps), np.isnan(gaps))
    model = model_of(learnt["rt, choice"], masked)
    assert [variable.name for variable in model.free_RVs] == ["rate", "t0"]  # nothing is imputed
    expected = each_alone(learnt["rt, choice"], gaps)
    np.testing.assert_allclose(densities(model), expected, rtol=1e-6)


@pytest.mark.versions
def test_data_that_change_may_be_censored(learnt):
    first = np.array([[0.9, 1.0], [1.5, 0.0], [0.7, 0.0]])
    second = np.array([[1.5, 1.0], [1.5, 1.0]])
    likelihood = learnt["rt, choice"]
    with pm.Model() as model:
        data = pm.Data("data", first)
        rate, t0 = pm.Uniform("rate", 1, 4), pm.Uniform("t0", 0, 0.6)
        pk.LearnedSimulator("y", likelihood, rate, t0, observed=data, censored=DEADLINE, lapse=0.1)
        compiled = model.compile_logp([model["y"]], sum=False, **QUICK)
        for rows in (first, second):
            pm.set_data({"data": rows})
            own = np.exp(each_alone(likelihood, rows, DEADLINE))
            width = RT.max() - RT.min()
            share = np.where(rows[:, 0] == 1.5, (RT.max() - 1.5) / width, 1 / width) / 2
            np.testing.assert_allclose(np.exp(compiled(AT)[0]), 0.9 * own + 0.1 * share, rtol=1e-6)
        pm.set_data({"data": np.array([[1.6, 1.0]])})
        with pytest.raises(ValueError, match="beyond its limit"):
            compiled(AT)


@pytest.mark.versions
def test_lapses_of_censored_and_missing_trials(learnt):
    data, likelihood = DATA["rt, choice"], learnt["rt, choice"]
    model = model_of(likelihood, data, censored=DEADLINE, lapse=(0.1, {"rt": (0.0, 4.0)}))
    own = np.exp(each_alone(likelihood, data, DEADLINE))
    time, choice = np.array([1 / 4, 2.5 / 4, 2.5 / 4, 2.5 / 4, 1 / 4]), np.array([0.5, 0.5, 1, 1, 1])
    np.testing.assert_allclose(np.exp(densities(model)), 0.9 * own + 0.1 * time * choice, rtol=1e-6)


def test_draws_beyond_a_deadline_are_at_it(learnt):
    model = model_of(learnt["rt"], np.tile(DATA["rt"], (100, 1)), censored={"rt": (0.5, 1.5)})
    with model:
        drawn = pm.sample_prior_predictive(1, random_seed=1)["prior"]
    at = np.array([[float(drawn["rate"][0, 0]), float(drawn["t0"][0, 0])]])
    y = pm.draw(model["y"], random_seed=1, draws=5)
    assert y.min() >= 0.5
    assert y.max() == 1.5
    with pm.Model():
        fixed = pk.LearnedSimulator(
            "y", learnt["rt"], *at[0], observed=np.tile(DATA["rt"], (100, 1)), censored=DEADLINE
        )
        late = np.mean(pm.draw(fixed, random_seed=1) == 1.5)
    expected = np.exp(learnt["rt"].log_likelihood(at, np.array([[1.5]]), censored=DEADLINE)[0])
    assert late == pytest.approx(expected, abs=4 * 0.5 / np.sqrt(400))


@pytest.mark.versions
def test_sampling_and_what_follows(learnt):
    data = DATA["rt"]
    with pytensor.config.change_flags(mode=AS_WRITTEN), model_of(learnt["rt"], data, censored=DEADLINE):
        given = {"tune": 5, "draws": 5, "chains": 1, "cores": 1, "random_seed": 1, "progressbar": False}
        # Deep trees of steps that are not tuned would take all the time.
        idata = pm.sample(**given, nuts={"max_treedepth": 2}, compute_convergence_checks=False)
        pm.compute_log_likelihood(idata, progressbar=False)
        predicted = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    logs = idata["log_likelihood"]["y"].to_numpy()
    assert logs.shape == (1, 5, len(data))
    assert np.isfinite(logs).all()
    y = predicted["posterior_predictive"]["y"].to_numpy()
    assert y.shape == (1, 5, *data.shape)
    assert np.isfinite(y).all()
    assert y[..., 0].max() <= 1.5


@pytest.mark.versions
@pytest.mark.parametrize(
    ("data", "censored", "error", "words"),
    [
        (np.full((3, 2), np.nan), None, ValueError, "NaN throughout"),
        ([[np.inf, 1.0]], None, ValueError, "censored="),
        ([[1.6, 1.0]], DEADLINE, ValueError, "beyond its limit"),
        ([[NAN, 1.0]], DEADLINE, ValueError, "given as the limit"),
        ([[1.0, 1.0]], {"speed": (None, 2.0)}, ValueError, "speed"),
        ([[1.0, 1.0]], {"rt": 2.0}, TypeError, "pair"),
        ([[NAN, 0.5]], None, ValueError, "discrete"),
        ([[-0.5, NAN]], None, ValueError, "edge"),
    ],
)
def test_what_cannot_be_is_refused(learnt, data, censored, error, words):
    with pm.Model():
        inputs = pm.Uniform("rate", 1, 4), pm.Uniform("t0", 0, 0.6)
        with pytest.raises(error, match=words):
            pk.LearnedSimulator(
                "y", learnt["rt, choice"], *inputs, observed=np.array(data), censored=censored
            )
