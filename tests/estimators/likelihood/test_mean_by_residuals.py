"""The mean by the law of its residuals: its formulas, and what it gains and leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from pymc_kbr.estimators.likelihood import location_scale as mean_by_residuals
from pymc_kbr.estimators.likelihood.basis import Landmarks, make_basis
from pymc_kbr.estimators.likelihood.conditional_mean import BasisRegression, regress
from pymc_kbr.estimators.likelihood.location_scale import (
    ResidualDensity,
    fit_location_scale,
    regress_by_residuals,
)
from pymc_kbr.estimators.likelihood.normal_mixture import NormalMixture

NARROW, WIDE = 0.02, 0.5


def mixture_of(rng: np.random.Generator, parts: int = 3, e: int = 2) -> NormalMixture:
    factors = np.tril(rng.normal(size=(parts, e, e)))
    factors[:, np.arange(e), np.arange(e)] = rng.uniform(0.5, 2.0, (parts, e))
    return NormalMixture(rng.dirichlet(np.ones(parts)), rng.normal(size=(parts, e)), factors)


def test_slopes_are_those_of_the_log_density() -> None:
    rng = np.random.default_rng(1)
    law = ResidualDensity(rng.normal(size=(5, 2, 2)) + 2 * np.eye(2), mixture_of(rng))
    residuals = rng.normal(size=(5, 2))
    values, slopes = law.slopes(residuals)
    np.testing.assert_allclose(values, law.log_density(residuals), rtol=1e-12)
    for i in range(5):
        one = law.rows(np.array([i]))
        numeric = approx_fprime(residuals[i], lambda c, one=one: float(one.log_density(c[None])[0]), 1e-6)
        np.testing.assert_allclose(slopes[i], numeric, rtol=1e-4, atol=1e-4)


def rows(noise: str, n: int = 1500) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Parameters, the mean and points about it."""
    rng = np.random.default_rng(2)
    theta = rng.uniform(-1, 1, (n, 1))
    mean = np.sin(3 * theta)
    scale = np.where(rng.random((n, 1)) < 0.3, WIDE, NARROW) if noise == "peaked" else WIDE
    return theta, mean, mean + scale * rng.standard_normal((n, 1))


def by_law(noise: str) -> tuple[np.ndarray, BasisRegression, BasisRegression | None, np.ndarray, np.ndarray]:
    """Features, least squares, the regression by the true law, the mean and the points."""
    theta, mean, points = rows(noise)
    basis, features = make_basis(theta, [Landmarks(theta[:100], np.full((100, 1), 1 / 0.3**2))])
    least = regress(features, basis.penalties, points)
    scales = np.array([NARROW, WIDE]) if noise == "peaked" else np.array([WIDE])
    shares = np.array([0.7, 0.3]) if noise == "peaked" else np.ones(1)
    mixture = NormalMixture(shares, np.zeros((len(scales), 1)), 1 / scales[:, None, None])
    law = ResidualDensity(np.ones((len(theta), 1, 1)), mixture)
    held_out = np.arange(len(theta)) % 5 == 0
    found = regress_by_residuals(
        features, basis.penalties, points, least, law, held_out, np.random.default_rng(3)
    )
    return features, least, found, mean, points


def test_a_narrow_peak_with_wide_tails_tells_more_of_the_mean() -> None:
    features, least, found, mean, points = by_law("peaked")
    assert found is not None
    before, after = (np.sqrt(np.mean((features @ f.coefficients - mean) ** 2)) for f in (least, found))
    # Asymptotically errors are in the ratio of the roots of information and of inverse variance, about nine.
    assert after < before / 3
    # Residuals are by fits to other rows, so they are no smaller than the noise, but for chance.
    size = np.sqrt(np.mean((points - mean) ** 2))
    assert np.sqrt(np.mean(found.residuals**2)) > size * (1 - 3 / np.sqrt(2 * len(points)))


def test_under_a_normal_distribution_least_squares_stay() -> None:
    assert by_law("normal")[2] is None


@pytest.mark.parametrize(
    ("of_held_out", "of_all", "asked", "taken"),
    [
        (0.3, 0.3, True, True),
        (0.3, -0.3, True, False),  # held-out rows were lucky
        (-0.005, 0.3, True, True),  # they gain nothing, but their error is .02
        (-0.2, 0.3, False, False),  # they lose for sure, and nobody else is asked
    ],
)
def test_all_rows_decide_unless_held_out_rows_lose_for_sure(
    of_held_out: float, of_all: float, asked: bool, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    n, held_out = 1000, np.arange(1000) < 200
    noise, calls = 0.28 * (-1.0) ** np.arange(n), []  # over the root of 200 it is .02
    points, features = np.linspace(0, 1, n)[:, None], np.ones((n, 1))

    def left_out(self: object, others: np.ndarray, shrink: float) -> np.ndarray:
        """Residuals whose log density is higher by so much, of the rows that are left out."""
        calls.append(others)
        gain = of_held_out if others is held_out else of_all
        rougher = 0.1 if shrink < 1 and others is held_out else 0.0
        return (gain - rougher + noise[others])[:, None]

    law = ResidualDensity(np.ones((n, 1, 1)), NormalMixture(np.ones(1), np.zeros((1, 1)), np.ones((1, 1, 1))))
    monkeypatch.setattr(ResidualDensity, "log_density", lambda self, residuals: residuals[:, 0])
    monkeypatch.setattr(mean_by_residuals._PenalisedRegression, "left_out", left_out)
    before = BasisRegression(np.ones((1, 1)), np.zeros((n, 1)), np.ones(1))
    given = features, np.zeros(1), points, before, law, held_out, np.random.default_rng(0)
    found = mean_by_residuals.regress_by_residuals(*given)
    assert (found is not None) == taken
    assert sum(rows is held_out for rows in calls) == 2  # a smaller ridge is worse, and ends it
    folds = [rows for rows in calls if rows is not held_out]
    assert len(folds) == (5 if asked else 0)
    if asked:
        np.testing.assert_array_equal(np.sum(folds, axis=0), 1)


@pytest.mark.parametrize("noise", ["peaked", "normal"])
def test_the_form_takes_it_where_it_helps(noise: str) -> None:

    theta, mean, points = rows(noise, 800)

    def error(turns: int) -> float:
        form = fit_location_scale(theta, points, np.random.default_rng(4), residual_turns=turns)
        return float(np.std(form.describe(theta)[:, :1] - mean))  # a constant may be the mixture's

    by_residuals, without = error(4), error(0)
    assert by_residuals < without / 2 if noise == "peaked" else by_residuals == without
