"""Exact posteriors of the three questions are those of their models."""

import numpy as np
import pytest
from scipy.stats import gamma, multivariate_normal, truncnorm

from case_studies.gallery.asked_problems import ASKED, POINTS, ROOT, WAITS, _mean


def moments(problem, data):
    weights, grid = problem.exact(data), problem.grid
    mean = weights @ grid
    return mean, np.sqrt(weights @ (grid - mean) ** 2)


def test_an_autoregressions_posterior_is_a_normal_cut_at_the_priors_ends(rng):
    problem = ASKED["4,096 points"]
    data = problem.data(rng, np.array([[0.93]]))[0]
    before, after = data[:-1], data[1:]
    centre, width = before @ after / (before @ before), 1 / np.sqrt(before @ before)
    law = truncnorm((-0.95 - centre) / width, (0.95 - centre) / width, centre, width)
    mean, deviation = moments(problem, data)
    assert len(data) == POINTS
    np.testing.assert_allclose([mean[0], deviation[0]], [law.mean(), law.std()], rtol=1e-3)


def test_a_scales_posterior_is_the_prior_times_the_likelihood(rng):
    problem = ASKED["exponential"]
    data = problem.data(rng, np.array([[0.05]]))[0]
    draws = np.exp(rng.normal(0, 3, 400_000))
    # The mean of exponential numbers is a gamma's.
    weights = gamma.pdf(data.mean(), WAITS, scale=draws / WAITS)
    weights /= weights.sum()
    mean, deviation = moments(problem, data)
    effective = 1 / np.sum(weights**2)
    assert mean[0] == pytest.approx(weights @ draws, abs=4 * deviation[0] / np.sqrt(effective))


def test_a_hundred_statistics_density_is_a_normals(rng):
    problem = ASKED["a hundred statistics"]
    data = problem.data(rng, np.array([[0.5, -1.0]]))[0]
    points = rng.normal(size=(6, 2))
    means = _mean(points)
    exact = [multivariate_normal(mean, ROOT @ ROOT.T).logpdf(data) for mean in means]
    exact += multivariate_normal(np.zeros(2)).logpdf(points)
    found = problem.log_density(points, data)
    np.testing.assert_allclose(found - found[0], exact - exact[0], atol=1e-8)


@pytest.mark.parametrize("name", ASKED)
def test_statistics_and_models_fit_together(name, rng):
    problem = ASKED[name]
    data = problem.data(rng, problem.draw_prior(rng, 2))
    for summarised in problem.statistics.values():
        assert len(summarised(data)) == 2
    observed = summarised(data)[0]
    model = problem.model(observed, np.ones(len(observed)), 1.0)
    assert [rv.name for rv in model.free_RVs] == list(problem.bounds)
