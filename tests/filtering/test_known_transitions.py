"""A transition as a function or a PyMC model of one step."""

import numpy as np
import pymc as pm
import pytest

from pymc_kbr.simulation.one_step import OneStep
from tests.filtering.problems import SETTINGS, conditioned, fixed, gram, turning

N = 40


def shifted(states, rng):
    return 0.9 * states + 0.1


@pytest.fixture
def sequence(rng):
    z, x = turning(N + 6, rng)
    return z[:N], x[:N], x[N:]


@pytest.mark.parametrize("solver", ["exact", "incomplete_cholesky"])
def test_draws_go_through_the_sum_rule(solver, sequence):
    z, x, observed = sequence
    kbf = fixed(transition=shifted, transition_draws=2, solver=solver).fit(pairs=(z, x))
    w = kbf.filter(observed[:1]).weights[0]
    g = gram(z, z, SETTINGS["state_bandwidth"])
    own = np.full(N, 1 / N)
    values = gram(z, shifted(z, None), SETTINGS["state_bandwidth"]) @ w
    ridge = N * SETTINGS["prior_regularisation"] * np.eye(N)
    gamma = own + np.linalg.inv(g + ridge) @ (values - g @ own)
    gx = gram(x, x, SETTINGS["observation_bandwidth"])
    k = gram(x, observed[1:2], SETTINGS["observation_bandwidth"])[:, 0]
    expected = conditioned(gx, gamma, k, 1e-2, "iw_kbr", True)
    tolerance = (
        1e-8 if solver == "exact" else 2e-2
    )  # incomplete Cholesky leaves out a thousandth of the trace
    np.testing.assert_allclose(kbf.filter(observed[:2]).weights[1], expected, atol=tolerance)


def test_noise_is_that_of_the_seed(sequence):
    z, x, observed = sequence

    def noisy(states, rng):
        return states + 0.3 * rng.normal(size=states.shape)

    def means(seed):
        return fixed(transition=noisy).fit(z, x, random_seed=seed).filter(observed).mean()

    np.testing.assert_array_equal(means(1), means(1))
    assert np.abs(means(1) - means(2)).max() > 1e-6


def test_functions_see_the_users_units(sequence):
    z, x, observed = sequence
    seen = []

    def step(states, controls, rng):
        seen.append((states.copy(), controls.copy()))
        return states

    u = np.linspace(5, 9, N)[:, None]
    kbf = fixed(transition=step, transition_draws=2, scale=True).fit(z * 100, x, controls=u)
    seen.clear()
    kbf.filter(observed, controls=u[:6])
    states, controls = seen[0]
    np.testing.assert_allclose(states, np.repeat(z * 100, 2, axis=0), rtol=1e-9)
    np.testing.assert_allclose(controls, 5)
    np.testing.assert_allclose(seen[3][1], u[3, 0])


def one_step(noise=0.2):
    with pm.Model() as model:
        previous = pm.Data("previous", np.zeros(2))
        pm.Normal("state", 0.5 * previous + 1, noise, shape=2)
    return model


def test_a_model_of_one_step_draws_as_its_distribution_says(rng):
    states = np.column_stack([np.linspace(-1, 1, 4000), np.zeros(4000)])
    found = OneStep(one_step())(states, rng)
    residual = found - 0.5 * states - 1
    # four standard errors of a mean, a deviation and a correlation of 4,000
    assert np.abs(residual.mean(axis=0)).max() < 4 * 0.2 / np.sqrt(4000)
    assert np.abs(residual.std(axis=0) - 0.2).max() < 4 * 0.2 / np.sqrt(8000)
    assert abs(np.corrcoef(residual.T)[0, 1]) < 4 / np.sqrt(4000)
    assert abs(np.corrcoef(residual[1:, 0], residual[:-1, 0])[0, 1]) < 4 / np.sqrt(4000)


def test_a_model_serves_as_a_function_does(sequence):
    z, x, observed = sequence
    kbf = fixed(transition=one_step(1e-9)).fit(z, x)
    same = fixed(transition=lambda states, rng: 0.5 * states + 1).fit(z, x)
    np.testing.assert_allclose(kbf.filter(observed).weights, same.filter(observed).weights, atol=1e-5)


def test_a_model_that_does_not_batch_is_drawn_row_by_row(rng, monkeypatch):
    from pymc_kbr.simulation import one_step as module

    rows_given = module.rows_given

    def refusing(wanted, given, batched):
        if batched:
            raise module.CannotBatch("not today")
        return rows_given(wanted, given, batched)

    monkeypatch.setattr(module, "rows_given", refusing)
    states = rng.normal(size=(20, 2))
    found = OneStep(one_step(1e-9))(states, rng)
    np.testing.assert_allclose(found, 0.5 * states + 1, atol=1e-7)


@pytest.mark.parametrize(
    ("make", "controlled", "words"),
    [
        (lambda: pm.Normal("state", shape=2), False, "no variable 'previous'"),
        (lambda: pm.Data("previous", np.zeros(2)), False, "no variable 'state'"),
        (lambda: [pm.Data("previous", np.zeros(2)), pm.Normal("state")], False, "'state' .* 0 dimensions"),
        (lambda: [pm.Normal("previous", shape=2), pm.Normal("state", shape=2)], False, "no pm.Data"),
        (lambda: [pm.Data("previous", np.zeros(2)), pm.Normal("state", shape=2)], True, "'controls'"),
    ],
)
def test_models_that_are_no_step_are_refused(make, controlled, words):
    with pm.Model() as model:
        make()
    with pytest.raises((TypeError, ValueError), match=words):
        OneStep(model, controlled)


@pytest.mark.parametrize(
    ("transition", "error", "words"),
    [
        (3, TypeError, "give a function"),
        (lambda states: states, TypeError, "2 arguments"),
        (lambda states, rng: np.full(states.shape, np.nan), ValueError, "NaN or infinity for 80 of 80"),
        (lambda states, rng: states[:, :1], ValueError, r"shape \(80, 1\)"),
    ],
)
def test_functions_that_are_no_transition_are_refused(transition, error, words, sequence):
    z, x, _ = sequence
    with pytest.raises(error, match=words):
        fixed(transition=transition, transition_draws=2).fit(z, x)
