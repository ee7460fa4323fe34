"""Statistics that others determine, such as the last of some shares: the density is that of the others."""

import warnings

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.linear_statistics import LinearStatistics

N = 600
RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(N, 1))
GAMMA = RNG.gamma(2 * np.exp(THETA * [0.5, 0.0, -0.5]))
SHARES = GAMMA / GAMMA.sum(axis=1, keepdims=True)
AT = np.array([[-1.0], [0.0], [1.0]])


@pytest.fixture(scope="module")
def learnt():
    with pytest.warns(UserWarning, match="in column 2 is in every simulation a linear function"):
        return pk.KernelLikelihood("autoregressive", 100).fit(THETA, SHARES, random_seed=1)


@pytest.mark.parametrize("digits", [None, 6, "float32"])
def test_shares_are_found_whatever_rounds_them(digits):
    x = SHARES.astype(np.float32).astype(float) if digits == "float32" else SHARES
    x = np.round(x, digits) if isinstance(digits, int) else x
    found = LinearStatistics.of(x)
    assert found.columns.tolist() == [2]
    np.testing.assert_allclose(found.constants, 1, atol=1e-5)
    np.testing.assert_allclose(found.coefficients[:, 0], [-1, -1, 0], atol=1e-5)


def test_several_functions_and_their_members_are_found():
    x = np.column_stack([GAMMA, RNG.normal(size=N), GAMMA.sum(axis=1), np.zeros(N), 3 * GAMMA[:, 0] + 1])
    found = LinearStatistics.of(x)
    assert found.columns.tolist() == [4, 6]
    np.testing.assert_allclose(found.coefficients[:, 0], [1, 1, 1, 0, 0, 0, 0], atol=1e-8)
    np.testing.assert_allclose(found.coefficients[:, 1], [3, 0, 0, 0, 0, 0, 0], atol=1e-8)
    np.testing.assert_allclose(found.filled(x), x, atol=1e-8)
    assert LinearStatistics.of(x, apart={4, 6}) is None
    some = found.of_columns(np.array([6, 0]))
    assert some.columns.tolist() == [0]


def test_what_is_no_function_is_not_found():
    tail = RNG.standard_cauchy(N) ** 3  # beside whose variance noise is nothing
    for x in (GAMMA, np.round(SHARES, 3), np.column_stack([tail, tail + RNG.normal(size=N)]), SHARES[:5]):
        assert LinearStatistics.of(x) is None


def test_density_is_that_of_the_others(learnt):
    others = pk.KernelLikelihood("autoregressive", 100).fit(THETA, SHARES[:, :2], random_seed=1)
    found = learnt.log_likelihoods(AT, SHARES[:5])
    np.testing.assert_array_equal(found, others.log_likelihoods(AT, SHARES[:5, :2]))
    np.testing.assert_array_equal(learnt.condition(SHARES[3]).atoms, others.condition(SHARES[3, :2]).atoms)


def test_draws_satisfy_the_function(learnt):
    drawn = learnt.draw_statistics(np.repeat(AT, 50, axis=0), 1)
    np.testing.assert_allclose(drawn.sum(axis=1), 1, atol=1e-12)


def test_an_observation_off_the_function_is_impossible_and_a_rounded_one_is_not(learnt):
    with pytest.raises(ValueError, match="linear function of the other statistics"):
        learnt.condition(100 * SHARES[3])
    assert np.all(learnt.log_likelihood(AT, 2 * SHARES[0]) == -np.inf)
    assert np.isfinite(learnt.condition(np.round(SHARES[3], 2)).mean()).all()


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_share_is_what_the_others_leave(learnt, missing):
    row = SHARES[3].copy()
    row[missing] = np.nan
    np.testing.assert_allclose(
        learnt.log_likelihood(AT, row), learnt.log_likelihood(AT, SHARES[3]), atol=1e-9
    )


def test_what_is_known_of_several_together_is_refused(learnt):
    with pytest.raises(ValueError, match="leave it out, too"):
        learnt.log_likelihood(AT, np.array([np.nan, np.nan, 0.2]))
    assert learnt.marginal(np.array([0, 2])) is None
    assert learnt.marginal(np.array([0])) is not None
    with pytest.raises(ValueError, match="censored"):
        learnt.condition(SHARES[:3], trials=True, censored={0: (None, 0.9)})


def test_another_posterior_of_a_sum_beside_its_terms():
    """Normal terms and their sum: the exact posterior is that of the terms."""
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(1000, 1))
    terms = theta + rng.normal(size=(1000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learnt = pk.KernelLikelihood("location_scale", 1000).fit(
            theta, np.column_stack([terms, terms.sum(axis=1)]), random_seed=1
        )
    posterior = learnt.condition(np.array([1.0, 0.2, 1.2]))
    assert abs(posterior.mean()[0] - 0.4) < 0.2 * np.sqrt(1 / 3)
    assert posterior.draw(2000, 1).std() == pytest.approx(np.sqrt(1 / 3), rel=0.12)
