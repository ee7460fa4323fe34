"""The case study's problems are what they say, and every warning is demonstrated."""

import numpy as np
import pytest

from case_studies.posterior_draws import doubts
from case_studies.posterior_draws.problems import GAUSSIAN_LINEAR, PROBLEMS, TWO_MOONS, c2st


def marked(mistake):
    """The check that takes longer, where it is what is demonstrated."""
    looks_for_coarse = doubts.MISTAKES[mistake][0] == "coarse"
    return pytest.param(mistake, marks=[pytest.mark.coarse] if looks_for_coarse else [])


@pytest.mark.parametrize("mistake", [marked(mistake) for mistake in sorted(doubts.MISTAKES)])
@pytest.mark.filterwarnings("ignore")
def test_each_mistake_gets_its_warning(mistake):
    expected, run = doubts.MISTAKES[mistake]
    names = [concern["name"] for concern in run()]
    assert names == [] if not expected else expected in names


def test_exact_draws_of_the_moons_explain_the_observation(rng):
    observed = TWO_MOONS.simulator(rng, TWO_MOONS.prior(rng, 1))[0]
    draws = TWO_MOONS.posterior(rng, observed, 5000)
    shift = np.column_stack([-np.abs(draws.sum(axis=1)), draws[:, 1] - draws[:, 0]]) / np.sqrt(2)
    noise = observed - shift - [0.25, 0.0]
    radius = np.linalg.norm(noise, axis=1)
    assert radius.mean() == pytest.approx(0.1, abs=4 * 0.01 / np.sqrt(5000) + 1e-3)
    assert radius.std() == pytest.approx(0.01, rel=0.1)
    assert noise[:, 0].min() > -1e-9
    assert np.abs(draws).max() <= 1


def test_exact_draws_of_the_gaussian_are_conjugate(rng):
    draws = GAUSSIAN_LINEAR.posterior(rng, np.full(10, 0.4), 20_000)
    np.testing.assert_allclose(draws.mean(axis=0), 0.2, atol=4 * np.sqrt(0.05 / 20_000))
    np.testing.assert_allclose(draws.var(axis=0), 0.05, rtol=4 * np.sqrt(2 / 20_000))


@pytest.mark.statistical
def test_the_two_sample_test_tells_what_differs(rng):
    one, two = rng.normal(size=(800, 2)), rng.normal(size=(800, 2))
    # 1,600 guesses of a fair coin have a deviation of 0.0125.
    assert c2st(one, two) == pytest.approx(0.5, abs=0.05)
    # Nine in ten can be told; of 400 guesses that share has a deviation of 0.015.
    assert c2st(one[:200] + 2.0, two[:200]) > 0.85


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_tables_are_in_the_priors_support(name):
    table = PROBLEMS[name].table(200, np.random.default_rng(0))
    assert len(table) == 200
    assert table.support.contains(table.parameters).all()
