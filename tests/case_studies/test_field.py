"""The study of the field: its exact posteriors, and what is not there."""

import numpy as np
import pytest

from case_studies.field.methods import METHODS, Work, answer
from case_studies.field.picture import style
from case_studies.field.problems import PROBLEMS, normal_moments, waiting_moments
from case_studies.population_genetics.in_r import NoR
from tests.statistical.waiting_times import EXACT, OBSERVED


def test_waiting_times_have_the_posterior_of_the_first_pages():
    """2,236 rows have an error of 2.1% of a width in a mean and 1.5% in a width, the other one 1.1%."""
    mean, width = (found[0] for found in waiting_moments(OBSERVED[None], 0.05))
    for place, name in enumerate(PROBLEMS["waiting times"].priors):
        exact_mean, exact_width = EXACT[name]
        assert abs(mean[place] - exact_mean) < 4 * 0.024 * exact_width
        assert width[place] == pytest.approx(exact_width, rel=4 * 0.019)


def test_normal_numbers_have_the_posterior_of_their_data():
    """As the page on other packages prints it, from a grid of densities of the numbers."""
    data = np.random.default_rng(1).normal(1, 2, 50)
    mean, width = normal_moments(np.array([[data.mean(), data.std()]]))
    np.testing.assert_allclose(mean[0], [0.92, 1.82], atol=0.006)
    np.testing.assert_allclose(width[0], [0.26, 0.19], atol=0.006)


@pytest.mark.parametrize("name", PROBLEMS)
def test_all_packages_are_told_the_models_prior(name):
    problem = PROBLEMS[name]
    low, high = problem.corners()
    drawn = problem.table(2_000, 3).parameters
    assert np.all((drawn > low) & (drawn < high))
    assert np.isfinite(problem.log_prior(drawn)).all()
    areas = np.linspace(low, high, 2_001)
    middle = np.tile(drawn[:1], (len(areas), 1))
    for place in range(len(low)):
        line = middle.copy()
        line[:, place] = areas[:, place]
        density = np.exp(problem.log_prior(line))
        mean = np.average(areas[:, place], weights=density)
        assert abs(mean - drawn[:, place].mean()) < 4.5 * drawn[:, place].std() / np.sqrt(2_000)


def test_without_r_its_methods_say_so():
    problem = PROBLEMS["normal numbers"]
    table = problem.table(20, 1)
    for method in METHODS:
        if method.startswith("R "):
            with pytest.raises(NoR, match="no Rscript"):
                answer(method, Work(problem, table, table.statistics[:2], 1))


def test_points_of_methods_can_be_told_apart():
    assert len({(one["marker"], one["color"], one["markerfacecolor"]) for one in map(style, METHODS)}) == len(
        METHODS
    )
