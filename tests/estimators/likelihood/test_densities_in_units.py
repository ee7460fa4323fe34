"""Densities in the user's units, evidence of weighted rows, and moves that keep a law of several columns."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats

import pymc_kbr as pk
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.kernel_likelihood import Start, _in_groups, weighted_rows
from pymc_kbr.estimators.likelihood import evaluation as evaluation_module
from pymc_kbr.estimators.likelihood.conditional_mixture import ConditionalMixture
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.tempered import FREEDOM, LocalMixture, Streams, propose_within


class Normal:
    """Independent standard normals about the parameters."""

    def describe(self, theta, xp=np):
        return theta

    def log_density(self, described, points, xp=np):
        return stats.norm.logpdf(points - described[:, None, :]).sum(axis=2)


def test_densities_are_in_the_statistics_own_units(rng):
    """The form is standard normal in the scaler's units: densities are those of the scaled normal."""
    centre, scale = np.array([3.0, -1.0, 7.0]), np.array([10.0, 0.01, 5.0])
    scaler = Scaler(centre, scale, np.array([True, True, False]))  # the last column is constant
    evaluation = Evaluation(Normal(), lambda theta, xp=np: theta, scaler)
    rows = centre + scale * rng.normal(size=(6, 3))
    prepared = evaluation.prepare(rows)
    expected = stats.norm.logpdf(rows[:, :2], centre[:2], scale[:2]).sum(axis=1)
    described = evaluation.describe(np.zeros((6, 2)))
    np.testing.assert_allclose(evaluation.log_density(described, prepared), expected)
    trials = evaluation.log_likelihood(evaluation.describe(np.zeros((2, 2))), prepared)
    np.testing.assert_allclose(trials, np.full(2, expected.sum()))


def data_of(kind, rng):
    """Parameters and statistics for a form."""
    theta = rng.normal(size=(250 if kind == "series" else 500, 2))
    noise = rng.normal(size=(len(theta), 30)) * np.exp(0.3 * theta[:, :1])
    if kind == "series":
        return theta, np.cumsum(noise, axis=1) + theta[:, 1:]
    if kind == "moving":  # which of two modes the second is in is told by the first
        first = theta[:, 0] + noise[:, 0]
        side = np.where(rng.random(500) < 1 / (1 + np.exp(-3 * first)), -1.5, 1.5)
        return theta, np.column_stack([first, theta[:, 1] + side + 0.3 * noise[:, 1]])
    x = theta @ rng.normal(size=(2, 3)) + noise[:, :3]
    return theta, np.round(x) if kind == "counts" else x


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("plain", "location_scale"),
        ("counts", "location_scale"),
        ("moving", "autoregressive"),
        ("series", "autoregressive"),
        ("plain", "diagonal_scale"),
    ],
)
def test_data_sets_that_are_evaluated_together_have_the_likelihoods_that_they_have_alone(kind, form, rng):
    theta, x = data_of(kind, rng)
    fitted = pk.KernelLikelihood(form).fit(theta, x, random_seed=1)
    evaluation = fitted._evaluation
    if form == "autoregressive":
        assert (fitted.form_.series is not None) == (kind == "series")
        assert isinstance(fitted.form_.conditionals[-1].shape, ConditionalMixture) == (kind == "moving")
    at = evaluation.describe(rng.normal(size=(24, 2))).reshape(4, 6, -1)
    for trials in (1, 3):
        sets = [evaluation.prepare(x[i : i + trials]) for i in (0, 10, 20, 30)]
        assert (sets[0].points.shape[1] > 1) == (kind == "counts")
        alone = [evaluation.log_likelihood(rows, data) for rows, data in zip(at, sets, strict=True)]
        np.testing.assert_allclose(evaluation.log_likelihoods(at, sets), alone, rtol=1e-9, atol=1e-9)
        rows = at.reshape(24, -1)
        alone_at_rows = [evaluation.log_likelihood(rows, data) for data in sets]
        np.testing.assert_allclose(evaluation.at_rows(rows, sets), alone_at_rows, rtol=1e-9, atol=1e-9)
        # Nor does it matter how many residuals are held at once.
        with patch.object(evaluation_module, "RESIDUALS_AT_ONCE", 100):
            np.testing.assert_allclose(evaluation.at_rows(rows, sets), alone_at_rows, rtol=1e-9, atol=1e-9)
    uneven = [*sets[:3], evaluation.prepare(x[:5])]
    alone[3] = evaluation.log_likelihood(at[3], uneven[3])
    np.testing.assert_allclose(evaluation.log_likelihoods(at, uneven), alone, rtol=1e-9, atol=1e-9)


def test_data_sets_of_one_size_begin_in_groups_and_others_alone():
    alike = [Prepared(np.zeros((2, 1, 3)), np.zeros((2, 1)))] * 123
    assert [len(group) for group in _in_groups(alike)] == [50, 50, 23]
    uneven = [*alike[:2], Prepared(np.zeros((1, 1, 3)), np.zeros((1, 1)))]
    assert [group[0] is data for group, data in zip(_in_groups(uneven), uneven, strict=True)] == [True] * 3


class Discrete:
    """Known log-likelihoods of rows."""

    def log_likelihood(self, described, data):
        return described[:, int(data.points[0, 0, 0])]


@pytest.mark.parametrize("shift", [0.0, 700.0, -700.0])
def test_evidence_of_weighted_rows_is_their_mean_likelihood_whatever_the_weights_sum_to(shift, rng):
    logs, weights = rng.normal(size=(9, 2)), rng.random(9)
    columns = [Prepared(np.full((1, 1, 1), column), np.zeros((1, 1))) for column in (0, 1)]
    for given, w in ((None, np.ones(9)), (np.log(weights) + shift, weights)):
        found = weighted_rows(Discrete(), Start(np.zeros((9, 1)), logs, given, 0), columns)
        for column, (posterior, noted) in enumerate(found):
            products = w * np.exp(logs[:, column])
            np.testing.assert_allclose(posterior, products / products.sum())
            assert noted["log_evidence"] == pytest.approx(np.log(products.sum() / w.sum()))
            assert noted["ancestors"] == pytest.approx(products.sum() ** 2 / np.sum(products**2))


@pytest.mark.parametrize("fresh", [True, False])
def test_moves_in_several_dimensions_keep_the_students_distribution_and_its_tails(fresh, rng):
    """Squared distances over q are F distributed with q and FREEDOM degrees of freedom, before and after."""
    n, q = 4000, 6
    root = np.tril(rng.normal(size=(q, q))) + 2 * np.eye(q)
    mixture = LocalMixture(
        np.zeros((1, 1)), rng.normal(size=(1, 1, q)), root[None, None], np.linalg.inv(root)[None, None]
    )
    scales = np.sqrt(FREEDOM / rng.chisquare(FREEDOM, size=(n, 1)))
    points = mixture.means[0, 0] + (scales * rng.normal(size=(n, q))) @ root.T
    proposed, _ = propose_within(
        mixture, points[None], np.full((1, n), fresh), np.full((1, n), 0.7), Streams([rng])
    )
    for cloud in (points, proposed[0]):
        squares = np.sum(((cloud - mixture.means[0, 0]) @ mixture.inverses[0, 0].T) ** 2, axis=1)
        assert stats.kstest(squares / q, stats.f(q, FREEDOM).cdf).pvalue > 1e-4


def test_prepared_observations_are_each_by_itself(rng):
    prepared = Prepared(rng.normal(size=(3, 2, 1)), rng.normal(size=(3, 2)))
    for i, one in enumerate(prepared.each()):
        np.testing.assert_array_equal(one.points, prepared.points[i : i + 1])
        np.testing.assert_array_equal(one.log_volume, prepared.log_volume[i : i + 1])
