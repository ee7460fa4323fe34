"""Scores, central intervals and mean errors, column by column."""

import numpy as np

from pymc_kbr.posterior.scores import covered, crps, energy_score, rmse

DRAWS = np.column_stack([np.arange(101.0), 1000 + 10 * np.arange(101.0)])


def test_the_central_interval_leaves_as_much_out_below_as_above():
    """Quantiles of 0, 1, ..., 100 are the hundredths themselves."""
    for probability, lower, upper in ((0.9, 5, 95), (0.5, 25, 75), (0.98, 1, 99)):
        for place in (lower + 0.01, upper - 0.01, 50.0):
            truth = np.array([place, 1000 + 10 * place])
            assert covered(DRAWS, truth, probability).tolist() == [True, True]
        for place in (lower - 0.01, upper + 0.01):
            truth = np.array([place, 1500.0])
            assert covered(DRAWS, truth, probability).tolist() == [False, True]
    np.testing.assert_array_equal(covered(DRAWS, np.array([5.01, 1049.0])), [True, False])


def test_draws_that_are_all_the_same_cover_themselves():
    assert covered(np.ones((7, 2)), np.array([1.0, 1.1])).tolist() == [True, False]


def test_the_root_mean_squared_error_is_of_each_column():
    estimates, truth = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[0.0, 2.0], [0.0, 2.0]])
    np.testing.assert_allclose(rmse(estimates, truth), [np.sqrt(5), 2])


def test_scores_are_their_double_sums_and_plain_unless_asked():
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(6, 2)) * [1.0, 5.0], np.array([0.3, -1.0])
    pairs = np.abs(draws[:, None] - draws[None]).sum(axis=(0, 1)) / 2
    to_truth = np.abs(draws - truth).mean(axis=0)
    np.testing.assert_allclose(crps(draws, truth), to_truth - pairs / 36)
    np.testing.assert_allclose(crps(draws, truth, fair=True), to_truth - pairs / 30)
    apart = np.linalg.norm(draws[:, None] - draws[None], axis=2).sum() / 2
    near = np.linalg.norm(draws - truth, axis=1).mean()
    np.testing.assert_allclose(energy_score(draws, truth), near - apart / 36)
    np.testing.assert_allclose(energy_score(draws, truth, fair=True), near - apart / 30)
