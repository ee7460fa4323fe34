"""The benchmark's priors and simulators are what their definitions say; sbibm is not needed."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.special import expit

from case_studies.sbi_benchmark.tasks import TASKS, bernoulli_glm, lotka_volterra, sir, slcp

N = 20_000


def close_in_mean(values, wanted, deviations=5.0):
    """Whether column means are the wanted ones, within so many of their standard errors."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return np.all(np.abs(values.mean(axis=0) - wanted) <= deviations * error + 1e-12)


def at(task, theta, rng):
    return TASKS[task].simulate(np.repeat(np.atleast_2d(theta), N, axis=0), rng)


def solved(slope, start, times, rates):
    precise = {"rtol": 1e-10, "atol": 1e-13}
    return solve_ivp(slope, (0, times[-1]), start, "LSODA", times, args=tuple(rates), **precise).y


@pytest.mark.parametrize("name", sorted(TASKS))
def test_shapes_and_supports(name, rng):
    task = TASKS[name]
    theta = task.prior(200, rng)
    x = task.simulate(theta, rng)
    assert theta.shape == (200, task.parameters_size)
    assert x.shape == (200, task.statistics_size)
    assert np.isfinite(x).all()
    assert np.isfinite(task.log_prior(theta)).all()
    np.testing.assert_allclose(task.support.backward(task.support.forward(theta)), theta)
    if task.law.bounds is not None:
        outside = theta.copy()
        outside[:, -1] = task.law.bounds[0] - 1
        assert (task.log_prior(outside) == -np.inf).all()


@pytest.mark.parametrize("name", ["gaussian_linear", "slcp", "bernoulli_glm", "sir"])
def test_a_prior_draws_from_its_density_also_in_pymc(name, rng):
    import pymc as pm

    task = TASKS[name]
    theta = task.prior(2, rng)
    with pm.Model():
        variable = task.law.variable("theta")
        expected = [float(pm.logp(variable, row).sum().eval()) for row in theta]
    np.testing.assert_allclose(task.log_prior(theta), expected, rtol=1e-6)
    others = pm.draw(variable, 4_000, random_seed=1)
    ours = task.law.draw(4_000, rng)
    for value in (lambda t: t, np.abs, lambda t: t[:, :1] * t[:, 1:], lambda t: task.log_prior(t)[:, None]):
        one, other = value(ours), value(others)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / len(one))
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 5 * error + 1e-12)


def test_linear_noise_has_the_variance_given(rng):
    theta = np.linspace(-1, 1, 10)
    x = at("gaussian_linear", theta, rng)
    assert close_in_mean(x, theta)
    assert close_in_mean((x - theta) ** 2, 0.1)


def test_a_mixtures_columns_share_their_part(rng):
    squares = (at("gaussian_mixture", [3.0, -4.0], rng) - [3.0, -4.0]) ** 2
    assert close_in_mean(squares, (1 + 0.01) / 2)
    # With the part drawn for each column alone the mean of the product would be 0.505 squared.
    assert close_in_mean(squares[:, :1] * squares[:, 1:], (1 + 0.0001) / 2)


def test_moons_are_half_a_circle_and_blind_to_a_sign(rng):
    theta = np.array([0.3, 0.5])
    x = at("two_moons", theta, rng)
    shift = np.array([-np.abs(theta.sum()), theta[1] - theta[0]]) / np.sqrt(2)
    noise = x - shift - [0.25, 0.0]
    radius = np.linalg.norm(noise, axis=1)
    assert noise[:, 0].min() > -1e-12
    assert close_in_mean(radius[:, None], 0.1)
    assert close_in_mean((radius[:, None] - 0.1) ** 2, 1e-4)
    assert close_in_mean(noise[:, 1:], 0.0)
    again = TASKS["two_moons"].simulate(np.repeat(-theta[None, ::-1], N, axis=0), np.random.default_rng(0))
    same = TASKS["two_moons"].simulate(np.repeat(theta[None], N, axis=0), np.random.default_rng(0))
    np.testing.assert_allclose(again, same)


def test_slcp_is_four_points_of_a_normal(rng):
    theta = np.array([0.5, -1.0, 1.2, -0.8, 0.7])
    points = at("slcp", theta, rng).reshape(-1, 2)
    first, second = 1.2**2, 0.8**2
    assert close_in_mean(points, theta[:2])
    away = points - theta[:2]
    products = np.column_stack([away[:, 0] ** 2, away[:, 1] ** 2, away[:, 0] * away[:, 1]])
    assert close_in_mean(products, [first**2, second**2, np.tanh(0.7) * first * second])
    x = at("slcp", theta, rng)
    assert close_in_mean((x[:, :2] - theta[:2]) * (x[:, 2:4] - theta[:2]), 0.0)


def test_distractors_hide_the_points_and_know_nothing_of_the_parameters(rng):
    centres, roots, order = slcp.distractors()
    assert sorted(order) == list(range(100))
    assert (np.diagonal(roots, axis1=1, axis2=2) != 0).all()
    one = TASKS["slcp_distractors"].simulate(np.full((300, 5), 0.5), np.random.default_rng(1))
    other = TASKS["slcp_distractors"].simulate(np.full((300, 5), 2.0), np.random.default_rng(1))
    differs = np.any(one != other, axis=0)
    np.testing.assert_array_equal(np.flatnonzero(differs), np.flatnonzero(order < 8))
    # Medians of a part's noise are its centre's.
    noise = at("slcp_distractors", np.ones(5), rng)[:, np.argsort(order)[8:]]
    share = (noise[:, 0] < np.median(centres[:, 0])).mean()
    assert 0.3 < share < 0.7


def test_spikes_follow_the_filter_and_statistics_are_sums_over_spikes(rng):
    theta = np.array([0.5, 1.0, -1.0, 0.5, 0.2, 0.0, 0.1, -0.3, 0.4, 0.6])
    spikes = at("bernoulli_glm_raw", theta, rng)
    assert set(np.unique(spikes)) == {0.0, 1.0}
    stimulus = bernoulli_glm.DESIGN[:, 1]
    by_hand = [
        0.5 + sum(theta[1 + lag] * stimulus[t - lag] for lag in range(min(t, 8) + 1)) for t in range(100)
    ]
    assert close_in_mean(spikes, expit(np.array(by_hand)))
    x = TASKS["bernoulli_glm"].simulate(theta[None], np.random.default_rng(3))[0]
    raw = TASKS["bernoulli_glm_raw"].simulate(theta[None], np.random.default_rng(3))[0]
    assert x[0] == raw.sum()
    assert x[3] == pytest.approx(sum(raw[t] * stimulus[t - 2] for t in range(2, 100)))


def test_predators_and_prey_are_scipys_solution(rng):
    theta = TASKS["lotka_volterra"].prior(40, rng)
    corners = np.array([[1, 1, 1, 1], [1, -1, 1, 1], [-1, 1, -1, 1], [1, 1, -1, 1]])
    theta[:4] = np.exp([-0.125, -3.0, -0.125, -3.0] + 1.25 * corners)  # 2.5 deviations out
    found = lotka_volterra.log_medians(theta)
    times = np.arange(10) * 2.1

    def slope(_, z, a, b, c, d):
        return [a - b * np.exp(z[1]), -c + d * np.exp(z[0])]

    for rates, logs in zip(theta, found, strict=True):
        exact = solved(slope, np.log([30.0, 1.0]), times, rates)
        wanted = np.clip(exact.ravel(), np.log(1e-10), np.log(1e4))
        # The noise of the statistics' logarithms is 0.1.
        np.testing.assert_allclose(logs, wanted, atol=1e-3)


def test_epidemics_are_scipys_solution(rng):
    theta = np.vstack([TASKS["sir"].prior(40, rng), [[2.5, 0.07], [0.1, 0.25]]])
    found = sir.infected(theta)
    times = np.arange(10) * 17.0

    def slope(_, z, contact, recovery):
        infection = contact * z[0] * z[1]
        return [-infection, infection - recovery * z[1]]

    for rates, share in zip(theta, found, strict=True):
        exact = solved(slope, [1 - 1e-6, 1e-6], times, rates)
        # A share of 1,000 tested has a deviation of at least 1e-3 where one is expected.
        np.testing.assert_allclose(share, exact[1], atol=1e-5, rtol=1e-4)
    counts = at("sir", [0.5, 0.125], rng)
    assert close_in_mean(counts, 1000 * sir.infected(np.array([[0.5, 0.125]])))
    assert (counts == np.round(counts)).all()
