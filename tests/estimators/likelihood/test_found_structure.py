"""Shifts and scales that a table shows: found by the fit itself, and none where there are none."""

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.structure import candidates

NAMES = ("v", "w", "t0")


def race(rng, n):
    """Time and winner of two log-normal times that run side by side, after the time t0."""
    theta = np.c_[rng.normal(0, 0.5, (n, 2)), rng.uniform(0, 1, n)]
    times = np.exp(0.5 * rng.normal(size=(n, 2)) - theta[:, :2] - 0.5)
    return theta, np.c_[theta[:, 2] + times.min(axis=1), times.argmin(axis=1)]


def frames(theta, x):
    return dict(zip(NAMES, theta.T, strict=True)), dict(zip(("rt", "choice"), x.T, strict=True))


@pytest.fixture(scope="module")
def found():
    return pk.KernelLikelihood().fit(*frames(*race(np.random.default_rng(1), 1000)), random_seed=1)


@pytest.fixture(scope="module")
def declared():
    likelihood = pk.KernelLikelihood(shift={"rt": "t0"})
    return likelihood.fit(*frames(*race(np.random.default_rng(1), 1000)), random_seed=1)


def test_a_shift_is_found_and_the_fit_is_that_of_the_declaration(found, declared):
    theta, x = race(np.random.default_rng(2), 50)
    assert found.found_structure_ == {"shift": {"rt": "t0"}}
    assert declared.found_structure_ == {}
    np.testing.assert_array_equal(found.log_likelihoods(theta, x), declared.log_likelihoods(theta, x))
    np.testing.assert_array_equal(found.draw_statistics(theta, 3), declared.draw_statistics(theta, 3))
    np.testing.assert_array_equal(found.condition(x[0]).mean(), declared.condition(x[0]).mean())
    assert found.transforms_pvalue_ == declared.transforms_pvalue_


def test_density_moves_with_the_parameter_and_ends_at_it(found):
    assert found.log_likelihood([[0.0, 0.0, 0.5]], [[0.49, 0.0]])[0] == -np.inf
    theta, x = gamma(np.random.default_rng(1), 1000)
    likelihood = pk.KernelLikelihood().fit(theta, x, random_seed=1)
    assert likelihood.found_structure_ == {"shift": {0: 1}}
    at, seen, step = theta[:50], x[:50], np.array([0, 0.3])
    one, other = (
        np.diag(likelihood.log_likelihoods(*each)) for each in ((at, seen), (at + step, seen + 0.3))
    )
    np.testing.assert_allclose(one, other, rtol=1e-7)


def test_it_is_said(found, declared):
    assert repr(found) == "KernelLikelihood() with shift={'rt': 't0'} found in the table"
    assert "found" not in repr(declared)
    assert found.settings()["structure_found"] == 1.0
    assert "structure_found" not in declared.settings()
    assert repr(pk.KernelLikelihood()) == "KernelLikelihood()"


@pytest.mark.parametrize("further", [{"shift": {}}, {"form": "autoregressive"}])
def test_it_is_not_looked_for_where_the_user_says_so(further):
    table = frames(*race(np.random.default_rng(1), 200))
    likelihood = pk.KernelLikelihood(**further).fit(*table, random_seed=1)
    assert likelihood.found_structure_ == {}


def test_it_is_kept_by_a_file_and_by_marginals(found, tmp_path):
    pk.save(found, tmp_path / "found.kbr")
    loaded = pk.load(tmp_path / "found.kbr")
    theta, x = race(np.random.default_rng(2), 5)
    assert loaded.found_structure_ == found.found_structure_
    np.testing.assert_array_equal(loaded.log_likelihoods(theta, x), found.log_likelihoods(theta, x))
    assert found.marginal(np.array([1])).found_structure_ == {}


def test_columns_without_names_have_numbers_and_a_second_fit_forgets_the_first():
    likelihood = pk.KernelLikelihood().fit(*race(np.random.default_rng(1), 1000), random_seed=1)
    assert likelihood.found_structure_ == {"shift": {0: 2}}
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(300, 1))
    likelihood.fit(theta, theta + rng.normal(size=(300, 1)), random_seed=1)
    assert likelihood.found_structure_ == {}
    assert likelihood.structure_ is None


# --- what is a candidate ---


def gamma(rng, n, slope=1.0, offset=0.0, spread=0.0):
    theta = np.c_[rng.uniform(1, 5, n), rng.uniform(0, 2, n)]
    scale = (1 + spread * theta[:, 1]) / theta[:, 0]
    return theta, (offset + slope * theta[:, 1] + rng.gamma(3, scale))[:, None]


@pytest.mark.parametrize("seed", range(2))
def test_a_slope_and_a_spread_that_are_others_are_no_shift(seed):
    rng = np.random.default_rng(seed)
    theta, x = gamma(rng, 4000)
    assert candidates(x, theta).shift == {0: 1}
    assert not candidates(*gamma(rng, 4000, slope=0.8, offset=0.5)[::-1])
    assert not candidates(*gamma(rng, 4000, spread=0.5)[::-1])


def test_an_upper_edge_and_a_scale_are_candidates():
    rng = np.random.default_rng(0)
    theta, x = gamma(rng, 2000)
    assert candidates(-x, -theta).shift == {0: 1}
    assert candidates(rng.gamma(theta[:, :1]) * theta[:, 1:], theta).scale == {0: 1}


def numbers(rng, n, bend=0.0, power=1.0):
    """A number by its mean and its standard deviation, of a third parameter, too."""
    theta = np.c_[rng.normal(0, 2, n), rng.uniform(0.3, 3, n), rng.uniform(-1, 1, n)]
    noise = rng.normal(size=n) + theta[:, 2] * rng.exponential(size=n)
    return theta, (theta[:, 0] + bend * theta[:, 0] ** 2 + theta[:, 1] ** power * noise)[:, None]


def test_a_shift_and_a_scale_of_one_statistic_are_found_together():
    rng = np.random.default_rng(0)
    theta, x = numbers(rng, 4000)
    found = candidates(x, theta)
    assert (found.shift, found.scale) == ({0: 0}, {0: 1})
    for further in ({"bend": 0.2}, {"power": 0.7}):
        assert not candidates(*numbers(rng, 4000, **further)[::-1])
    # With an edge they are preferred to the shift alone, which no row contradicts either.
    waiting = theta[:, :1] + theta[:, 1:2] * rng.exponential(size=(4000, 1))
    found = candidates(waiting, theta)
    assert (found.shift, found.scale) == ({0: 0}, {0: 1})


def test_many_normal_numbers_have_the_exact_posterior():
    """Of mean and standard deviation, as far as 10,000 simulations tell those of their own numbers."""
    rng = np.random.default_rng(0)
    theta = np.c_[rng.uniform(-3, 3, 10_000), rng.uniform(0.3, 3, 10_000)]
    x = rng.normal(theta[:, :1], theta[:, 1:])
    likelihood = pk.KernelLikelihood().fit(theta, x, random_seed=1)
    assert likelihood.found_structure_ == {"shift": {0: 0}, "scale": {0: 1}}
    trials = rng.normal(1.0, 2.0, (500, 1))
    posterior = likelihood.condition(trials, trials=True)
    exact = np.array([trials.mean(), trials.std()])
    errors = (posterior.mean() - exact) / (trials.std() / np.sqrt([500, 1000]))
    # Mean and spread of the simulated residuals have errors of sqrt(500 / 10,000) such deviations.
    assert np.all(np.abs(errors) < 4 * np.sqrt(500 / 10_000))


def test_ordinary_tables_have_no_candidates():
    """Neither where a statistic lies above a parameter that it does not depend on, nor of counts."""
    rng = np.random.default_rng(0)
    theta = rng.uniform(1, 3, (2000, 2))
    independent = 4 + rng.gamma(theta[:, :1])
    counts = theta[:, :1].round() + rng.poisson(3, (2000, 1))
    mean = theta[:, :1] + rng.normal(size=(2000, 1))
    averages = rng.gamma(theta[:, 1:], 1 / theta[:, :1], (2000, 50)).mean(axis=1, keepdims=True)
    for x in (independent, counts, mean, averages):
        assert not candidates(x, theta)
