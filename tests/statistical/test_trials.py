"""The study of many trials: its problems' densities, and what its recorded rows say."""

import csv

import numpy as np
import pytest

from tests.statistical.trial_problems import PROBLEMS
from tests.statistical.trials import BIASES, SIZES, on_grid, summary

ROWS = list(csv.DictReader(BIASES.open()))


def test_of_forty_fits_those_that_are_off_are_warned_of_and_fine_ones_are_not():
    assert {(row["problem"], int(row["rows"])) for row in ROWS} == {(p, n) for p in PROBLEMS for n in SIZES}
    assert len(ROWS) == 40
    assert summary(ROWS).startswith("40 fits: warned of 8 of 9 that are off by more than a deviation")
    assert "of 0 of 4 within a third" in summary(ROWS)


@pytest.mark.parametrize("name", ["gamma", "g_and_k", "negative_binomial"])
def test_draws_of_a_problem_have_its_density(name):
    """The score of the density, by differences, has mean zero at draws of it."""
    problem, rng = PROBLEMS[name], np.random.default_rng(1)
    theta = (problem.lower + problem.upper) / 2
    x = problem.draw(np.repeat(theta[None], 2000, axis=0), rng)
    for step in 1e-5 * np.eye(len(theta)):
        up, down = (problem.log_density((theta + sign * step)[None], x)[0] for sign in (1, -1))
        score = (up - down) / 2e-5
        assert abs(score.mean()) < 4 * score.std() / np.sqrt(len(x))


def test_a_posterior_on_the_grid_has_the_moments_of_a_normal():
    mean, deviations = on_grid(
        lambda points: -0.5 * np.sum(((points - 0.2) / 0.05) ** 2, axis=1),
        np.array([-3.0, -3.0]),
        np.array([3.0, 3.0]),
    )
    np.testing.assert_allclose(mean, 0.2, atol=1e-3)
    np.testing.assert_allclose(deviations, 0.05, rtol=0.01)
