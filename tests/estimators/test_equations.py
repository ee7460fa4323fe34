"""Estimators against their equations, and against each other where they are the same."""

import numpy as np
import pytest
from scipy.linalg import solve

import pymc_kbr as pk
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.kernels import Gaussian
from pymc_kbr.regression.choose_ridge import LeaveOneOut

OBSERVED = np.array([[0.5, -1.0, 0.3], [0.0, 0.2, -0.1], [2.0, 1.0, 1.0]])


@pytest.mark.parametrize("centred", [True, False])
def test_localised_on_all_rows_is_the_conditional_mean(linear, centred):
    settings = {"bandwidth": 1.5, "regularisation": 1e-4, "centred": centred}
    whole = pk.ConditionalMean(**settings).fit(*linear)
    local = pk.Localised(600, **settings).fit(*linear)
    np.testing.assert_allclose(local.weights(OBSERVED), whole.weights(OBSERVED), atol=1e-10)


def test_localised_on_all_rows_chooses_as_the_conditional_mean_does(linear):
    whole, local = pk.ConditionalMean().fit(*linear), pk.Localised(600).fit(*linear)
    assert (local.bandwidth_, local.regularisation_) == (whole.bandwidth_, whole.regularisation_)


def test_conditional_mean_is_the_equation(linear):
    theta, x = linear
    scaled = (x - x.mean(axis=0)) / x.std(axis=0)
    observed = (OBSERVED - x.mean(axis=0)) / x.std(axis=0)

    def k(a, b):
        return np.exp(-((a[:, None, :] - b[None, :, :]) ** 2).sum(-1) / (2 * 1.5**2))

    expected = solve(k(scaled, scaled) + 600 * 1e-3 * np.eye(600), k(scaled, observed)).T
    fitted = pk.ConditionalMean(1.5, 1e-3, centred=False).fit(theta, x)
    np.testing.assert_allclose(fitted.weights(OBSERVED), expected, atol=1e-10)


def test_localised_is_the_equation_on_the_nearest_rows(linear):
    theta, x = linear
    scaler = Scaler.fit(x)
    scaled, observed = scaler.transform(x), scaler.transform(OBSERVED[:1])
    nearest = np.argsort(((scaled - observed) ** 2).sum(axis=1))[:50]
    kernel = Gaussian(1.5)
    gram = kernel(scaled[nearest]) + 50 * 1e-3 * np.eye(50)
    expected = np.zeros(600)
    expected[nearest] = solve(gram, kernel(scaled[nearest], observed))[:, 0]
    fitted = pk.Localised(50, 1.5, 1e-3, centred=False).fit(theta, x)
    np.testing.assert_allclose(fitted.weights(OBSERVED[0]), expected, atol=1e-10)


def test_nadaraya_watson_with_a_top_hat_is_rejection(linear):
    rejection = pk.Rejection(80).fit(*linear)
    scaled = rejection.table_.statistics - rejection.table_.scaler.transform(OBSERVED[:1])
    tolerance = np.sort(np.linalg.norm(scaled, axis=1))[79]
    top_hat = pk.NadarayaWatson(tolerance * (1 + 1e-12), kernel="top_hat").fit(*linear)
    np.testing.assert_allclose(top_hat.weights(OBSERVED[0]), rejection.weights(OBSERVED[0]), atol=1e-15)


def test_nadaraya_watson_far_from_all_rows(linear):
    far = np.full(3, 1e3)
    weights = pk.NadarayaWatson(0.1).fit(*linear).weights(far)
    assert weights.sum() == pytest.approx(1.0)
    with pytest.raises(ValueError, match="no row of the table lies within the bandwidth"):
        pk.NadarayaWatson(0.1, kernel="epanechnikov").fit(*linear).weights(far)


def test_an_accepted_share_is_a_share_of_the_rows(linear):
    assert pk.Rejection(0.05).fit(*linear).accepted_ == 30
    assert pk.Rejection(1.0).fit(*linear).accepted_ == 600
    assert pk.Rejection(1).fit(*linear).accepted_ == 1
    assert pk.Rejection(0.05, most=20).fit(*linear).accepted_ == 20
    assert pk.Rejection(0.05, most=40).fit(*linear).accepted_ == 30


def test_leave_one_out_in_closed_form_is_refitting(linear):
    theta, x = linear[0][:40], linear[1][:40]
    gram = Gaussian(1.5)(x)
    closed = LeaveOneOut(gram, theta).residuals(0.3)
    for i in range(40):
        others = np.arange(40) != i
        w = solve(gram[np.ix_(others, others)] + 0.3 * np.eye(39), gram[others, i])
        np.testing.assert_allclose(closed[i], theta[i] - w @ theta[others], atol=1e-9)
