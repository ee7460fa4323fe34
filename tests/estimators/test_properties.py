"""What holds for any table: shapes, orders, duplicates, units, and next to no rows."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

import pymc_kbr as pk

# A likelihood takes fifty rows at least; what these tests ask of few rows, others ask of it with many.
ANY = {name: made() for name, made in pk.ESTIMATORS.items() if name != "kernel_likelihood"}
FIXED = {
    "rejection": pk.Rejection(5),
    "nadaraya_watson": pk.NadarayaWatson(1.0),
    "conditional_mean": pk.ConditionalMean(1.0, 1e-2),
    "localised": pk.Localised(7, 1.0, 1e-2),
    "kbr": pk.KernelBayes(1.0, 1e-3, prior_regularisation=1e-2, parameter_bandwidth=1.0),
    "iw_kbr": pk.ImportanceWeightedKernelBayes(1.0, 1e-2, prior_regularisation=1e-2, parameter_bandwidth=1.0),
    "adjusted": pk.Adjusted(pk.Rejection(15), "local_linear"),
}
quick = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 2**32 - 1)


def rows(seed, n=20, p=2, d=3):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, p))
    return theta, theta @ rng.normal(size=(p, d)) + 0.3 * rng.normal(size=(n, d)), rng.normal(size=d)


def fitted(estimator, theta, x, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return clone(estimator).fit(theta, x, random_seed=0, **kwargs)


def few_rows(estimator, n):
    """The estimator, with no more neighbours than there are rows."""
    if isinstance(estimator, pk.Rejection):
        return pk.Rejection(min(5, n))
    return (
        pk.Adjusted(pk.Rejection(min(8, n)), estimator.adjustment)
        if isinstance(estimator, pk.Adjusted)
        else estimator
    )


@pytest.mark.parametrize("name", ANY)
@quick
@given(seed=seeds, n=st.integers(2, 12), p=st.integers(1, 3), d=st.integers(1, 4), k=st.integers(1, 3))
def test_any_shape_gives_weights_and_draws(name, seed, n, p, d, k):
    theta, x, _ = rows(seed, n, p, d)
    observed = np.random.default_rng(seed).normal(size=(k, d))
    made = fitted(few_rows(ANY[name], n), theta, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        if name not in ("adjusted", "kde"):
            weights = made.weights(observed)
            assert weights.shape == (k, n)
            assert np.isfinite(weights).all()
        posteriors = made.condition(observed)
    assert len(posteriors) == k
    for posterior in posteriors:
        assert posterior.mean().shape == (p,)
        assert np.isfinite(posterior.draw(7, 0)).all()
        assert posterior.draw(7, 0).shape == (7, p)


@pytest.mark.parametrize("name", FIXED)
@given(seed=seeds)
@quick
def test_the_order_of_rows_does_not_matter(name, seed):
    theta, x, observed = rows(seed)
    order = np.random.default_rng(seed).permutation(len(x))
    one = fitted(FIXED[name], theta, x).condition(observed)
    two = fitted(FIXED[name], theta[order], x[order]).condition(observed)
    np.testing.assert_allclose(two.mean(), one.mean(), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(two.total_weight, one.total_weight, rtol=1e-6)


@pytest.mark.parametrize("name", ["nadaraya_watson", "conditional_mean", "iw_kbr"])
@given(seed=seeds)
@quick
def test_a_table_twice_over_says_the_same(name, seed):
    theta, x, observed = rows(seed)
    one = fitted(FIXED[name], theta, x).weights(observed)
    two = fitted(FIXED[name], np.vstack([theta, theta]), np.vstack([x, x])).weights(observed)
    np.testing.assert_allclose(two[:20] + two[20:], one, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(two[:20], two[20:], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ANY)
@given(seed=seeds, powers=st.lists(st.integers(-300, 300), min_size=3, max_size=3))
@quick
def test_units_of_the_statistics_do_not_matter(name, seed, powers):
    theta, x, observed = rows(seed)
    units = 10.0 ** np.array(powers)
    one = fitted(FIXED.get(name, ANY[name]), theta, x).condition(observed)
    two = fitted(FIXED.get(name, ANY[name]), theta, x * units).condition(observed * units)
    np.testing.assert_allclose(two.mean(), one.mean(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ANY)
@given(seed=seeds, powers=st.lists(st.integers(-300, 299), min_size=2, max_size=2))
@quick
def test_units_of_the_parameters_do_not_matter(name, seed, powers):
    theta, x, observed = rows(seed)
    units = 10.0 ** np.array(powers)
    one = fitted(FIXED.get(name, ANY[name]), theta, x).condition(observed)
    two = fitted(FIXED.get(name, ANY[name]), theta * units, x).condition(observed)
    np.testing.assert_allclose(two.mean() / units, one.mean(), rtol=1e-5, atol=1e-5)
    assert np.isfinite(two.draw(5, 0)).all()


@pytest.mark.parametrize("name", ANY)
@given(seed=seeds, constant=st.floats(-1e300, 1e300))
@quick
def test_constant_statistics_are_left_out_and_said(name, seed, constant):
    theta, x, observed = rows(seed)
    wider = np.column_stack([x, np.full(len(x), constant)])
    estimator = FIXED.get(name, ANY[name])
    with pytest.warns(UserWarning, match=r"columns \[3\] are constant"):
        made = clone(estimator).fit(theta, wider, random_seed=0)
    one = fitted(estimator, theta, x).condition(observed)
    np.testing.assert_allclose(
        made.condition(np.append(observed, 7.0)).mean(), one.mean(), rtol=1e-9, atol=1e-12
    )
    with pytest.raises(ValueError, match="all statistics are constant"):
        fitted(estimator, theta, np.full_like(x, constant))
