"""Densities fitted to draws, against those that the draws come from."""

import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from pymc_kbr.arrays.bijections import Circular, Interval, Simplex
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.estimators.likelihood.prior_density import fit_prior_density, free_log_density


def boxes(p):
    names = [f"p{i}" for i in range(p)]
    return Support.from_bounds(dict.fromkeys(names, (-3, 7)), names)


@pytest.mark.parametrize(("p", "n"), [(1, 1000), (10, 1000), (3, 10_000)])
def test_uniform_priors_are_found_as_such(p, n, rng):
    fitted = fit_prior_density(rng.uniform(-3, 7, size=(n, p)), boxes(p), rng)
    points = rng.uniform(-3, 7, size=(50, p))
    np.testing.assert_allclose(fitted.log_density(points), -p * np.log(10), atol=1e-9)
    assert fitted.form == "uniform; columns independent"
    edges = np.full((2, p), [[-3.0], [7.0]])
    np.testing.assert_allclose(fitted.log_density(edges), -p * np.log(10), atol=1e-9)
    assert fitted.log_density(edges + 0.1)[1] == -np.inf


@pytest.mark.parametrize("concentration", [0.0, 2.0])
def test_angles_are_found_uniform_or_about_their_direction(concentration, rng):
    law = stats.uniform(-np.pi, 2 * np.pi) if concentration == 0 else stats.vonmises(concentration)
    support = Support(1, (Block((0,), (Circular(),)),))
    fitted = fit_prior_density(law.rvs(size=(3000, 1), random_state=rng), support, rng)
    points = law.rvs(size=(5000, 1), random_state=rng)
    gap = law.logpdf(points[:, 0]) - fitted.log_density(points)
    assert gap.mean() < 23 / 3000 + 4 * gap.std() / np.sqrt(len(gap))
    if concentration == 0:
        np.testing.assert_allclose(gap, 0, atol=1e-9)


CASES = {
    "normal": (stats.norm(3, 2), (None, None)),
    "student": (stats.t(3), (None, None)),
    "exponential": (stats.expon(), (0, None)),
    "beta": (stats.beta(2, 5), (0, 1)),
    "log-uniform": (stats.loguniform(0.01, 100), (0.01, 100)),
}


@pytest.mark.parametrize("name", CASES)
def test_densities_are_close_to_those_of_the_draws(name, rng):
    law, bounds = CASES[name]
    support = Support.from_bounds({"a": bounds}, ["a"])
    fitted = fit_prior_density(law.rvs(size=(3000, 1), random_state=rng), support, rng)
    points = law.rvs(size=(20_000, 1), random_state=rng)
    gap = law.logpdf(points[:, 0]) - fitted.log_density(points)
    # Eight normals have 23 parameters: half a nat each over the rows, and as much for the choice of form.
    assert gap.mean() < 23 / 3000 + 4 * gap.std() / np.sqrt(len(gap))


def test_dependence_is_found_and_independence_too(rng):
    law = stats.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]])
    fitted = fit_prior_density(law.rvs(3000, random_state=rng), None, rng)
    points = law.rvs(5000, random_state=rng)
    gap = law.logpdf(points) - fitted.log_density(points)
    assert gap.mean() < 0.02
    assert fitted.dependence is not None
    assert fit_prior_density(rng.normal(size=(3000, 2)), None, rng).dependence is None


def test_weights_count_as_so_many_draws(rng):
    draws = rng.normal(size=(4000, 1)) * 2
    log_weights = stats.norm.logpdf(draws[:, 0], 1, 0.7) - stats.norm.logpdf(draws[:, 0], 0, 2)
    fitted = fit_prior_density(draws, None, rng, log_weights=log_weights)
    points = rng.normal(1, 0.7, size=(5000, 1))
    gap = stats.norm.logpdf(points[:, 0], 1, 0.7) - fitted.log_density(points)
    assert gap.mean() < 0.02


def test_a_bound_that_depends_on_another_parameter_stays_uniform(rng):
    slope = Interval((0.0,), (0.0,), None, ((1.0, 0.0),))
    support = Support(2, (Block((0,), (Interval((1.0,), (5.0,)),)), Block((1,), (slope,))))
    first = rng.uniform(1, 5, size=2000)
    draws = np.column_stack([first, rng.uniform(0, first)])
    fitted = fit_prior_density(draws, support, rng)
    np.testing.assert_allclose(fitted.log_density(draws), -np.log(4 * first), atol=1e-9)
    with_jacobian = free_log_density(support, lambda x: -np.log(4 * x[:, 0]))
    free = support.forward(draws)
    np.testing.assert_allclose(with_jacobian(free), free_log_density(support, fitted.log_density)(free))


def test_flat_simplexes_and_counts(rng):
    support = Support(4, (Block((0, 1, 2), (Simplex(),)), Block((3,), smooth=False)))
    draws = np.column_stack([rng.dirichlet(np.ones(3), 2000), rng.poisson(2, 2000)])
    fitted = fit_prior_density(draws, support, rng)
    share = np.mean(draws[:, 3] == 1)
    row = np.array([[0.2, 0.3, 0.5, 1.0], [0.2, 0.3, 0.5, 1.5]])
    np.testing.assert_allclose(fitted.log_density(row), [np.log(2 * share), -np.inf])


def test_where_a_density_is_undefined_there_is_none(rng):
    fitted = fit_prior_density(rng.normal(size=(200, 2)), None, rng)
    free = np.array([[0.0, 0.5], [np.nan, 0.5]])
    found = fitted.free_log_density(free)
    assert np.isfinite(found[0])
    assert found[1] == -np.inf


def test_values_that_are_rounded_to_an_end_of_infinite_density_have_none():
    support = Support.from_bounds({"share": (0, 1)}, ["share"])
    density = free_log_density(support, lambda x: stats.beta(0.5, 0.05).logpdf(x[:, 0]))
    free = np.array([[2.0], [60.0], [-2000.0]])  # the second is exactly one, the third zero
    expected = stats.beta(0.5, 0.05).logpdf(expit(2.0)) + np.log(expit(2.0) * expit(-2.0))
    np.testing.assert_allclose(density(free), [expected, -np.inf, -np.inf])


def test_fitted_densities_can_be_pickled(rng):
    fitted = fit_prior_density(rng.normal(size=(500, 2)), None, rng)
    points = rng.normal(size=(5, 2))
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.log_density(points), fitted.log_density(points))


def test_bad_draws_are_refused(rng):
    draws = rng.uniform(size=(100, 2))
    for wrong, words in (
        (draws[:10], "needs 20 or more"),
        (np.column_stack([draws[:, 0], np.ones(100)]), "same value in every draw"),
        (np.where(draws > 0.9, np.nan, draws), "outside its support"),
    ):
        with pytest.raises(ValueError, match=words):
            fit_prior_density(wrong, None, rng)
    blocks = Support(2, (Block((0, 1), smooth=False),))
    with pytest.raises(ValueError, match="may not be smoothed and has 100 values"):
        fit_prior_density(draws, blocks, rng)
    with pytest.raises(ValueError, match="log_weights has shape"):
        fit_prior_density(draws, None, rng, log_weights=np.zeros(3))
