"""The studies' problems are what they say: their exact answers are checked against other ways to get them."""

import numpy as np
import pandas as pd
import pytest

from case_studies import embedding_errors as errors
from case_studies.embedding_sizes import shares_of_exact
from case_studies.gaussian_ground_truth import localised_5_1
from case_studies.nonlinear_regression import bumps
from case_studies.nonlinear_regression.cross_validation import curves
from case_studies.simulators import models
from pymc_kbr.embedding.embedding import Atoms, Embedding


@pytest.mark.parametrize(
    ("draw", "mean_of_y"), [(localised_5_1.draw, 0.0), (localised_5_1.draw_of_sizes, 1.0)]
)
def test_the_gaussian_problems_means_are_the_regression_of_y_on_x(rng, draw, mean_of_y):
    trial = draw(3, 50_000, rng)
    slopes = np.linalg.lstsq(trial.x, trial.y - mean_of_y, rcond=None)[0]
    residuals = trial.y - mean_of_y - trial.x @ slopes
    deviation = np.sqrt(np.diag(trial.covariance))
    gaps = np.abs(trial.at @ slopes + mean_of_y - trial.means) / deviation
    # A prediction's error is the deviation times sqrt(leverage): the mean leverage is 3 / n.
    leverage = np.einsum("kd,de,ke->k", trial.at, np.linalg.inv(trial.x.T @ trial.x), trial.at)
    assert np.all(gaps < 5 * np.sqrt(leverage)[:, None])
    np.testing.assert_allclose(
        np.cov(residuals.T), trial.covariance, rtol=0.05, atol=0.02 * deviation.max() ** 2
    )


def test_entries_of_the_experiment_of_sizes_are_about_three(rng):
    variances = [localised_5_1.draw_of_sizes(2, 2_000, rng).x.var(axis=0) for _ in range(200)]
    # Of four squares of N(3, 1) entries: 4 (9 + 1) = 40, with a deviation of 2 sqrt(4 x 9 + 2) = 12.3.
    assert np.mean(variances) == pytest.approx(40, abs=4 * 12.3 / np.sqrt(200))


def test_the_bumps_noise_is_what_is_left(rng):
    trial = bumps.draw(2, 5_000, rng)
    left = trial.drawn - trial.means
    assert np.abs(left).max() < 5 * bumps.NOISE
    assert np.ptp(trial.y) > 5 * bumps.NOISE  # there is something to be estimated
    assert trial.x.min() > -1
    assert trial.x.max() < 1


def test_errors_of_weights_are_those_of_the_embedding(rng, monkeypatch):
    trial = localised_5_1.draw(2, 300, rng)
    weights = rng.normal(size=(10, 300)) / 30
    found = errors.Errors(trial, modes=False).of(weights)
    expected = [
        np.sqrt(
            Embedding(Atoms(trial.y, errors.OUTPUT_KERNEL), w).squared_error_to_gaussian(
                mean, trial.covariance
            )
        )
        for w, mean in zip(weights, trial.means, strict=True)
    ]
    assert found["rkhs_error"] == pytest.approx(np.mean(expected), rel=1e-9)
    monkeypatch.setattr(errors, "FACTOR_ABOVE", 100)
    assert errors.Errors(trial, modes=False).of(weights)["rkhs_error"] == pytest.approx(
        np.mean(expected), rel=1e-5
    )


def test_an_embedding_of_nothing_has_the_samples_mean_as_its_mode(rng):
    trial = localised_5_1.draw(2, 50, rng)
    found = errors.Errors(trial).of(np.zeros((10, 50)))
    expected = np.mean(np.sum((trial.y.mean(axis=0) - trial.drawn) ** 2, axis=1))
    assert found["squared_error_of_mode"] == pytest.approx(expected)


def test_shares_of_the_exact_error_are_those_of_the_trials_that_both_have():
    lines = pd.DataFrame(
        {
            "n": 10,
            "trial": [0, 0, 1],
            "method": ["exact", "localised", "localised"],
            "rkhs_error": [2.0, 3.0, 9.0],
        }
    )
    found = shares_of_exact(lines, errors.averaged(lines, ["n", "method"])).set_index("method")
    assert found.loc["localised", "share_of_exact"] == 1.5
    assert found.loc["localised", "rkhs_error"] == 6.0


def test_cross_validation_prefers_a_bandwidth_near_the_functions_own():
    table = curves(11, 4)
    for _, part in table[table["varied"] == "x"].groupby("method"):
        best = part.sort_values("squared_distance").iloc[0]
        assert 0.01 <= best["bandwidth"] <= 10
        assert best["rmse_to_exact_mean"] < 2  # f has a deviation of about 7


def test_the_normals_exact_posterior():
    mean, deviation = models.normal_exact()
    n = len(models.DATA)
    assert mean[0] == pytest.approx(models.DATA.mean() * 25 / (25 + models.DATA.var() / n), abs=1e-3)
    assert deviation[0] == pytest.approx(models.DATA.std() / np.sqrt(n), rel=0.02)
    assert mean[1] == pytest.approx(models.DATA.std(), rel=0.01)
    assert deviation[1] == pytest.approx(models.DATA.std() / np.sqrt(2 * n), rel=0.02)


def test_populations_keep_what_the_equations_keep():
    a, b = 1.0, 0.1
    prey, predators = models.path(a, b).reshape(-1, 2).T
    kept = models.GROWTH * b * prey - models.DEATH * np.log(prey) + b * predators - a * np.log(predators)
    # The gallery solves them to a relative tolerance of 0.01.
    assert np.ptp(kept) < 0.05 * abs(kept.mean())


def test_the_noise_is_the_gallerys_epsilon(rng):
    apart = [
        models.competition_with_noise(rng, 1.0, 0.1) - models.competition(rng, 1.0, 0.1) for _ in range(50)
    ]
    assert np.std(apart) == pytest.approx(models.TOLERANCE, rel=4 / np.sqrt(2 * 50 * 200))
    mean, deviation = models.lotka_volterra_exact(33)
    assert np.all(np.abs(mean - [1.0, 0.1]) < 3 * deviation)
