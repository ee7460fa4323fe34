"""The filtering study's dynamics, rivals and bookkeeping."""

import csv

import numpy as np
import pandas as pd
import pytest

from case_studies.filtering import (
    camera,
    circles,
    convergence,
    images,
    kalman,
    maze,
    recurrent,
    room,
    sprite,
    surveys,
)
from case_studies.filtering.dynamics import DYNAMICS
from case_studies.filtering.lines import add_lines
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


def test_the_surveys_counts_have_the_density_that_particles_are_given(rng):
    counts = surveys.hauls(np.zeros((4000, 1)), rng)
    from scipy.stats import nbinom

    law = nbinom(surveys.DISPERSION, surveys.DISPERSION / (surveys.DISPERSION + surveys.CATCHABILITY))
    share = np.mean(counts == 0)
    assert abs(share - law.pmf(0)) < 4 * np.sqrt(law.pmf(0) / counts.size)
    assert abs(counts.mean() - law.mean()) < 4 * law.std() / np.sqrt(counts.size)


def test_the_camera_sees_the_wall_before_it():
    ahead = np.array([[[1.0, 0, 0]]])
    light = 0.8 + 0.2 * room.EYE[2] + 0.1 * np.sin(2 * 1 + room.EYE[1])
    np.testing.assert_allclose(room.colours(ahead)[0, 0], np.clip(room.WALLS[0, 1] * light, 0, 1))
    walk = room.walk(30, np.random.default_rng(0))
    np.testing.assert_allclose(
        walk @ walk.transpose(0, 2, 1), np.broadcast_to(np.eye(3), (30, 3, 3)), atol=1e-12
    )
    seen = room.frames(walk)
    assert seen.shape == (30, 20, 20, 3)
    one = room.colours(room.rays() @ walk[3].T)
    np.testing.assert_allclose(seen[3, 5, 7], one[10:12, 14:16].mean(axis=(0, 1)))


def test_rays_of_the_maze_end_at_walls():
    blocks, colours = maze.walls()
    far, place, tint = maze.hits(np.array([0.0, np.pi]))
    x, y = maze.EYE
    row = maze.PLAN[int(y)]
    first = next(column for column in range(int(x), 9) if row[column] == "#")
    last = next(column for column in range(int(x), -1, -1) if row[column] == "#")
    np.testing.assert_allclose(far, [first - x, x - last - 1])
    np.testing.assert_allclose(place, y % 1)
    np.testing.assert_allclose(tint[0], colours[np.all(blocks == [first, int(y)], axis=1)][0])


def test_the_sprite_is_where_the_observation_is():
    places = np.array([[0.0, 0.0], [1.2, -0.7]])
    frames = sprite.frames(places)
    line = (2 * (np.arange(64) + 0.5) / 64 - 1) * sprite.REACH
    total = frames.sum(axis=(1, 2))
    centres = np.column_stack([(frames.sum(axis=1) @ line) / total, (frames.sum(axis=2) @ -line) / total])
    np.testing.assert_allclose(centres[1] - centres[0], places[1] - places[0], atol=0.01)


def test_kalmans_filter_of_frames_is_the_one_of_their_gains(rng):
    states = np.cumsum(rng.normal(size=(60, 2)), axis=0)
    seen = states @ rng.normal(size=(2, 5)) + 0.3 * rng.normal(size=(60, 5))
    z, x = states - states.mean(axis=0), seen - seen.mean(axis=0)
    step = np.linalg.lstsq(z[:-1], z[1:], rcond=None)[0].T
    noise = np.cov((z[1:] - z[:-1] @ step.T).T)
    image = np.linalg.lstsq(z, x, rcond=None)[0].T
    spread = camera.ledoit_wolf(x - z @ image.T)[0]
    mean, covariance, expected = np.zeros(2), np.cov(z.T), []
    for t, row in enumerate(x):
        if t:
            mean, covariance = step @ mean, step @ covariance @ step.T + noise
        gain = covariance @ image.T @ np.linalg.inv(image @ covariance @ image.T + spread)
        mean, covariance = mean + gain @ (row - image @ mean), covariance - gain @ image @ covariance
        expected.append(mean)
    np.testing.assert_allclose(camera.kalman(states, seen, seen), expected + states.mean(axis=0), rtol=1e-6)


def test_the_sign_of_a_quaternion_is_one_of_the_rotation_and_not_of_the_time():
    walk = room.walk(2000, np.random.default_rng(1)).reshape(-1, 9)
    found = camera.quaternions(walk)
    shuffled = np.random.default_rng(2).permutation(len(walk))
    again = camera.quaternions(walk[shuffled])
    again *= np.sign(again[0] @ found[shuffled[0]])
    np.testing.assert_allclose(again, found[shuffled], atol=1e-9)
    # On one side: signs by chance, or those of a long walk, have a mean near nil.
    assert np.linalg.norm(found.mean(axis=0)) > 0.4
    turned = camera.Rotation.from_quat(found).as_matrix().reshape(-1, 9)
    np.testing.assert_allclose(turned, walk, atol=1e-12)


@pytest.mark.parametrize("method", ["iw_kbr gaussian", "kbr trace"])
def test_a_quick_run_of_the_camera(method):
    found = camera.run(1e-3, 0, method, 80)
    assert 0 < found["error_of_rotation"] < np.sqrt(8)  # the largest distance between two rotations


def test_a_run_through_images(tmp_path):
    table = tmp_path / "images.csv"
    add_lines(table, images.COLUMNS, images.jobs(1, 40, ["importance_weighted"]), images.line)
    lines = pd.read_csv(table)
    assert lines["problem"].tolist() == ["maze", "sprite"]
    assert (lines["error"] < 1).all()  # of the training's mean it is one
    add_lines(table, images.COLUMNS, images.jobs(1, 40, ["importance_weighted"]), None)
    assert len(pd.read_csv(table)) == 2


@pytest.mark.statistical
@pytest.mark.usefixtures("torch")
def test_the_recurrent_network_reads_windows(rng, monkeypatch):
    monkeypatch.setattr(recurrent, "STEPS", 45)
    state = np.cumsum(rng.normal(size=(90, 1)), axis=0)
    seen = state + 0.1 * rng.normal(size=(90, 3))
    found = recurrent.predicted(state[:70], seen[:70], seen[70:], None, 0)
    assert np.mean((found - state[70:]) ** 2) < np.mean((state[70:] - state[:70].mean()) ** 2)


def test_the_expectation_of_the_study_of_convergence_is_exact():
    theta, x = np.linspace(-6, 6, 4001), np.array([[-1.0], [0.2], [2.0]])
    logs = -0.5 * ((theta - convergence.PRIOR_MEAN) / convergence.PRIOR_DEVIATION) ** 2
    logs = logs - 0.5 * ((x - theta) / convergence.NOISE) ** 2
    weights = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(convergence.exact(x), weights @ np.exp(-0.5 * theta**2), rtol=1e-12)
    errors = {name: convergence.line(100, 0, name)["error"] for name in convergence.METHODS}
    assert errors["chosen"] < errors["theorem_3_6"] < 1


@pytest.mark.parametrize(
    ("page", "table"),
    [
        ("smoothers", lambda: pd.read_csv(convergence.HERE / "steps_back.csv").iloc[:, 1:]),
        ("convergence", lambda: convergence.means(pd.read_csv(convergence.HERE / "convergence.csv"))),
    ],
)
def test_pages_have_the_figures_of_their_files(page, table):
    lines = (convergence.HERE / f"{page}.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][
        2:
    ]
    values = table().to_numpy()
    assert len(rows) == len(values)
    for row, line in zip(rows, values, strict=True):
        for cell, value in zip(row[1:], line, strict=True):
            # As many decimals as the cell has, of values that were rounded once before.
            assert abs(float(cell) - value) <= 0.55 * 10.0 ** -len(cell.partition(".")[2])
