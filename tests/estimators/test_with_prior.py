"""A prior of their own, of kernel Bayes' rules: its mean, and the weights that stand for it."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.prior_weights import shrunk_mean, with_mean
from pymc_kbr.kernels import Linear

N = 400
RULES = (pk.KernelBayes, pk.ImportanceWeightedKernelBayes)


@pytest.fixture
def theta(rng):
    return rng.normal(size=(N, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 100.0]])


OWN = np.full(N, 1 / N)


def test_weights_are_moved_to_the_mean_and_keep_their_sum(theta, rng):
    base = rng.dirichlet(np.ones(N))
    moved = with_mean(base, theta, OWN, np.array([0.3, -0.2, 7.0]))
    np.testing.assert_allclose(moved @ theta, [0.3, -0.2, 7.0], rtol=1e-9)
    assert moved.sum() == pytest.approx(1)
    np.testing.assert_allclose(with_mean(base, theta, OWN, base @ theta), base, atol=1e-15)


def test_no_smaller_change_of_the_weights_has_that_mean(theta, rng):
    mean = np.array([0.3, -0.2, 7.0])
    change = with_mean(OWN, theta, OWN, mean) - OWN
    constraints = np.column_stack([np.ones(N), theta])
    other = rng.normal(size=N)
    other -= constraints @ np.linalg.lstsq(constraints, other, rcond=None)[0]
    assert np.sum((change + 1e-3 * other) ** 2) > np.sum(change**2)
    assert change @ other == pytest.approx(0, abs=1e-9)


def test_a_parameter_that_is_constant_is_left_alone(theta):
    theta[:, 1] = 4.0
    moved = with_mean(OWN, theta, OWN, np.array([0.3, 4.0, 7.0]))
    np.testing.assert_allclose(moved @ theta, [0.3, 4.0, 7.0], rtol=1e-9)


def test_equal_means_are_averaged_as_their_errors_ask(theta):
    draws = theta[: N // 2] - theta[: N // 2].mean(axis=0) + theta.mean(axis=0)
    mean, share = shrunk_mean(draws, np.full(N // 2, 2 / N), theta, OWN)
    np.testing.assert_allclose(mean, theta.mean(axis=0))
    variance, of_table = draws.var(axis=0) / (N // 2 - 1), theta.var(axis=0) / N
    np.testing.assert_allclose(share, variance / (variance + of_table))


@pytest.mark.parametrize(("shift", "count"), [(5.0, 200), (0.0, 200_000)])
def test_the_prior_keeps_its_mean_where_that_is_known_or_far_from_the_tables(theta, rng, shift, count):
    draws = rng.normal(size=(count, 3)) * theta.std(axis=0) + shift * theta.std(axis=0)
    mean, share = shrunk_mean(draws, np.full(count, 1 / count), theta, OWN)
    assert np.all((share > 0) & (share < 0.01))
    np.testing.assert_allclose(mean, draws.mean(axis=0) + share * (theta.mean(axis=0) - draws.mean(axis=0)))


def test_no_mean_is_moved_by_more_than_its_standard_error(theta, rng):
    for shift in (0.05, 0.1, 0.2, 0.5):
        # The second parameter is known well; that the others are not is no reason to move it.
        draws = (rng.normal(size=(100, 3)) * [1, 0.01, 1] + shift) * theta.std(axis=0)
        mean, _ = shrunk_mean(draws, np.full(100, 0.01), theta, OWN)
        assert np.all(np.abs(mean - draws.mean(axis=0)) <= draws.std(axis=0) / np.sqrt(99))


def test_of_many_parameters_one_that_differs_is_moved_by_its_standard_error_at_most(rng):
    theta = rng.normal(size=(N, 64))
    theta -= theta.mean(axis=0)
    draws = rng.normal(size=(100, 64))
    draws -= draws.mean(axis=0)
    draws[:, 0] += 0.6  # six standard errors of that mean, five of the difference
    mean, share = shrunk_mean(draws, np.full(100, 0.01), theta, OWN)
    error = draws.std(axis=0) / np.sqrt(99)
    assert 0.6 - mean[0] == pytest.approx(error[0])
    a, b = error**2, theta.var(axis=0) / N
    np.testing.assert_allclose(share[1:], (a / (a + b))[1:])  # T is below one


def test_shrinking_lowers_the_expected_error_of_equal_means(rng):
    apart = []
    for _ in range(400):
        theta, draws = rng.normal(size=(100, 4)), rng.normal(size=(50, 4))
        mean, _ = shrunk_mean(draws, np.full(50, 0.02), theta, np.full(100, 0.01))
        apart.append(np.sum(draws.mean(axis=0) ** 2) - np.sum(mean**2))
    assert np.mean(apart) > 4 * np.std(apart) / np.sqrt(len(apart))


def test_a_table_without_spread_moves_nothing():
    mean, share = shrunk_mean(np.full((5, 2), 3.0), np.full(5, 0.2), np.full((9, 2), 3.0), np.full(9, 1 / 9))
    np.testing.assert_allclose(mean, 3.0)
    assert np.all(share <= 1)


def test_of_one_draw_the_mean_is_not_known(theta):
    mean, share = shrunk_mean(theta[:1] + 3, np.ones(1), theta, OWN)
    assert np.all(share == 1)
    np.testing.assert_allclose(mean, theta.mean(axis=0))


@pytest.mark.parametrize("cls", RULES)
def test_without_information_the_posterior_has_the_priors_mean(cls, theta, rng):
    draws = rng.normal(1.0, 0.5, (100, 3)) * theta.std(axis=0)
    fitted = cls(1.0, 1e9, prior=draws).fit(theta, rng.normal(size=(N, 2)))
    mean, share = shrunk_mean(draws, np.full(100, 0.01), theta, OWN)
    assert fitted.prior_shrinkage_ == pytest.approx(share.max())
    np.testing.assert_allclose(fitted.weights(np.zeros((1, 2)))[0] @ theta, mean, rtol=1e-6)


def test_the_linear_kernel_is_chosen_where_it_is_right_and_only_where_it_can_be(rng):
    theta = rng.normal(size=(10, 100, 2))
    x = theta + 2 * rng.normal(size=theta.shape)

    def bandwidths(scale=1.0, **settings):
        pairs = zip(theta, x, strict=True)
        return np.array([pk.ConditionalMean(**settings).fit(t, scale * s).bandwidth_ for t, s in pairs])

    assert np.sum(np.isinf(bandwidths())) >= 3
    assert np.array_equal(np.isinf(bandwidths(1e6)), np.isinf(bandwidths()))
    for settings in ({"solver": "random_features"}, {"centred": False}, {"kernel": "laplace"}):
        assert np.all(np.isfinite(bandwidths(**settings)))
    bent = pk.ConditionalMean().fit(np.sin(2 * theta[0]), theta[0] + 0.1 * rng.normal(size=(100, 2)))
    assert np.isfinite(bent.bandwidth_)


def test_the_linear_kernel_is_linear_regression(rng):
    theta, x = rng.normal(size=(60, 2)), rng.normal(size=(60, 3))
    theta += x[:, :2]
    fitted = pk.ConditionalMean(kernel=Linear(), regularisation=1e-9).fit(theta, x)
    design = np.column_stack([np.ones(60), x])
    observed = rng.normal(size=(5, 3))
    slopes = np.linalg.lstsq(design, theta, rcond=None)[0]
    expected = np.column_stack([np.ones(5), observed]) @ slopes
    np.testing.assert_allclose(fitted.weights(observed) @ theta, expected, atol=1e-6)


def test_a_prior_that_is_narrow_in_one_parameter_stays_so_on_a_skewed_table():
    rng = np.random.default_rng(0)
    theta = rng.lognormal(0, 0.7, (1000, 2))
    width = 0.1 * theta[:, 0].std()
    draws = np.column_stack([rng.normal(1.2, width, 200), rng.choice(theta[:, 1], 200)])
    fitted = pk.ImportanceWeightedKernelBayes(1.0, 1e9, prior=draws).fit(theta, rng.normal(size=(1000, 2)))
    weights = fitted.weights(np.zeros((1, 2)))[0]
    mean = weights @ theta
    assert abs(mean[0] - 1.2) < 0.25 * width  # its standard error from 200 draws is 0.07 of that
    # A tilt of all rows would triple the deviation.
    assert weights @ (theta[:, 0] - mean[0]) ** 2 < (1.5 * width) ** 2
    assert weights @ (theta[:, 1] - mean[1]) ** 2 == pytest.approx(theta[:, 1].var(), rel=0.3)
