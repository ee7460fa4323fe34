"""The filtering study's dynamics, rivals and bookkeeping."""

import csv

import numpy as np
import pandas as pd
import pytest

from case_studies.filtering import circles, kalman, surveys
from case_studies.filtering.dynamics import DYNAMICS
from case_studies.filtering.rivals import extended_kalman, particles
from case_studies.filtering.summary import cells, stars


@pytest.mark.parametrize("name", DYNAMICS)
def test_jacobians_are_the_slopes_of_the_dynamics(name, rng):
    dynamics = DYNAMICS[name]
    for state in rng.normal(size=(5, 2)):
        steps = 1e-6 * np.eye(2)
        slopes = [(dynamics.mean(state + e) - dynamics.mean(state - e)) / 2e-6 for e in steps]
        np.testing.assert_allclose(dynamics.jacobian(state), np.transpose(slopes), rtol=1e-5, atol=1e-6)


def test_the_radius_is_that_of_the_next_angle():
    found = DYNAMICS["oscillation"].mean(np.array([2.0, 0.0]))
    assert np.arctan2(found[1], found[0]) == pytest.approx(0.4)
    assert np.hypot(*found) == pytest.approx(1 + 0.4 * np.sin(8 * 0.4))


def test_filters_that_know_the_rotation_agree(rng):
    dynamics = DYNAMICS["rotation"]
    states, observations = dynamics.simulate(150, rng)
    extended = extended_kalman(dynamics, observations)
    exact = particles(dynamics, observations, rng, 3000)
    apart = np.mean(np.sum((extended - exact) ** 2, axis=1))
    assert apart < 0.1 * np.mean(np.sum((exact - states) ** 2, axis=1))


def test_lines_that_are_there_are_not_made_again(tmp_path, monkeypatch):
    path = tmp_path / "circles.csv"
    jobs = [("rotation", 50, 0, "ekf"), ("rotation", 50, 0, "observation")]
    circles.add_lines(path, jobs[:1])
    first = path.read_text()
    circles.add_lines(path, jobs)
    assert path.read_text().startswith(first)
    monkeypatch.setattr(circles, "line", None)  # nothing is left to do
    circles.add_lines(path, jobs)
    with path.open() as file:
        assert [row["method"] for row in csv.DictReader(file)] == ["ekf", "observation"]


def test_cells_compare_runs_that_all_methods_have():
    methods = ("default", "ekf", "original", "importance_weighted")
    rows = [
        {"dynamics": "rotation", "n": 9, "run": run, "method": method, "error": run + 0.1 * place}
        for run in range(6)
        for place, method in enumerate(methods)
    ]
    line = cells(pd.DataFrame(rows[:-1])).iloc[0]
    assert line["runs"] == 5
    assert line["default"] == pytest.approx(2)
    assert line["p_ekf"] == pytest.approx(2 / 2**5)  # always below: two of all sign patterns
    assert (stars(0.04), stars(0.2), stars(1e-4)) == ("*", "", "***")


def test_the_exact_smoother_is_the_normal_distributions_conditional(rng):
    _, seen = kalman.simulate(6, rng)
    times = np.arange(6)
    prior = kalman.DEVIATION**2 * kalman.SLOPE ** np.abs(times[:, None] - times)
    gain = prior @ np.linalg.inv(prior + kalman.NOISE**2 * np.eye(6))
    found = kalman.kalman(seen)["smooth"]
    np.testing.assert_allclose(found[:, 0], gain @ seen[:, 0])
    np.testing.assert_allclose(found[:, 1] ** 2, np.diag(prior - gain @ prior))


def test_the_surveys_counts_have_the_density_that_particles_are_told(rng):
    counts = surveys.hauls(np.zeros((4000, 1)), rng)
    from scipy.stats import nbinom

    law = nbinom(surveys.DISPERSION, surveys.DISPERSION / (surveys.DISPERSION + surveys.CATCHABILITY))
    share = np.mean(counts == 0)
    assert abs(share - law.pmf(0)) < 4 * np.sqrt(law.pmf(0) / counts.size)
    assert abs(counts.mean() - law.mean()) < 4 * law.std() / np.sqrt(counts.size)
