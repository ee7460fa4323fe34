"""What is told instead of being taken in silence: wide parameters, collinear statistics, single outliers."""

import warnings

import numpy as np
import pytest

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators import Adjusted, KernelLikelihood, Rejection
from pymc_kbr.estimators.adjustments import LocalLinearAdjustment
from pymc_kbr.estimators.checks import warn_of_outliers
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.summaries import Transformed
from pymc_kbr.estimators.summaries.transformed import Curve
from pymc_kbr.posterior.posterior import PosteriorWarning

POSITIVE = Support.from_bounds({"rate": (0, None)}, ["rate"])


def a_wide_table(rng, deviation=3.0):
    """A rate over many orders of magnitude, seen with a relative error of 30%."""
    rate = np.exp(deviation * rng.normal(size=(1000, 1)))
    return rate, rate * np.exp(0.3 * rng.normal(size=rate.shape))


def adjusted(adjustment="kernel_ridge"):
    return Adjusted(Rejection(0.3, kernel="epanechnikov", scale="transformed"), adjustment)


def test_a_wide_positive_parameter_is_told_of_unless_it_has_its_bound(rng):
    rate, x = a_wide_table(rng)
    with pytest.warns(UserWarning, match=r"in column 0 is positive in all rows.*lower bound"):
        adjusted("local_linear").fit(rate, x)
    posterior = adjusted().fit(rate, x, POSITIVE, random_seed=1).condition([1.0])
    # The logarithm's posterior is normal of deviation .3 about zero, but for the wide prior.
    np.testing.assert_allclose(np.log(posterior.quantile([0.16, 0.5, 0.84])[:, 0]), [-0.3, 0, 0.3], atol=0.1)


@pytest.mark.parametrize(
    "change",
    [
        lambda rate: rate - 1e-9 - rate.min(),  # one of them is not positive
        lambda rate: np.log(rate),
        lambda rate: rate ** (1 / 3),  # of deviation one
    ],
)
def test_parameters_that_are_not_wide_and_positive_are_not_told_of(change, rng):
    rate, x = a_wide_table(rng)
    adjusted("local_linear").fit(change(rate), x)
    Adjusted(Rejection(0.3), "none").fit(rate, x)  # nothing is moved


def test_only_the_column_that_is_wide_and_unbounded_is_told_of(rng):
    rate, x = a_wide_table(rng)
    both = np.hstack([rate, rate])
    for support, named in (
        (Support.unbounded(2), ["0", "1"]),
        (Support.from_bounds({"a": (0, None)}, ["a", "b"]), ["1"]),
        (Support.from_bounds({"a": (0, None)}, ["a", "b"], ["b"]), []),
    ):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            adjusted("local_linear").fit(both, x, support)
        assert [str(one.message).split("column ")[1][0] for one in told] == named


def test_a_regression_far_from_all_rows_is_told_of_and_its_spread_stays_that_of_some_row(rng):
    """Forty statistics that are sums of four up to rounding, and an observation that is none."""
    theta = rng.normal(size=(300, 2))
    four = theta @ rng.normal(size=(2, 4)) + 0.3 * rng.normal(size=(300, 4))
    x = np.hstack([four, four @ rng.normal(size=(4, 36))]) * (1 + 1e-13 * rng.normal(size=(300, 40)))
    fitted = LocalLinearAdjustment(heteroscedastic=True).fit(x, theta, None, rng)
    weights = np.full(300, 1 / 300)
    with pytest.warns(PosteriorWarning, match=r"uncertain at the observation by .* collinear"):
        moved = fitted.move(x[0] + rng.normal(size=40), np.arange(300), weights)
    plain = LocalLinearAdjustment().fit(x, theta, None, rng)
    with pytest.warns(PosteriorWarning):
        as_they_are = plain.move(x[0] + rng.normal(size=40), np.arange(300), weights)
    assert np.all(np.isfinite(moved))
    spread, without = (part.std(axis=0) for part in (moved, as_they_are))
    assert np.all(spread < 30 * without)
    fitted.move(x[0], np.arange(300), weights)  # among the rows: no word


def test_spreads_are_those_at_the_observation_where_rows_are(rng):
    """Residuals grow with the statistic: exp(x / 2) times as wide here as there."""
    x = rng.uniform(-1, 1, size=(4000, 1))
    theta = np.exp(0.5 * x) * rng.normal(size=(4000, 1))
    fitted = LocalLinearAdjustment(heteroscedastic=True).fit(x, theta, None, rng)
    found = [
        fitted.move(np.array([at]), np.arange(4000), np.full(4000, 1 / 4000)).std() for at in (-0.8, 0.8)
    ]
    np.testing.assert_allclose(found, np.exp([-0.4, 0.4]), rtol=0.1)


def test_one_outlier_that_is_not_looked_at_does_not_make_all_others_one_point(rng):
    theta = rng.normal(size=(2500, 1))
    x = theta + 0.5 * rng.normal(size=(2500, 1))
    with_one = x.copy()
    with_one[7] = 1e12
    fitted = Transformed.fit(with_one, theta)
    assert fitted.curves[0].kind == "asinh"
    assert fitted.transform(x).std() > 0.5
    assert Transformed.fit(x, theta).curves[0].kind == "linear"
    assert KernelLikelihood().scale_of_statistics() == "transformed"
    found = Rejection(0.05, scale="transformed").fit(theta, with_one).condition([1.0])
    expected = Rejection(0.05, scale="transformed").fit(theta, x).condition([1.0])
    np.testing.assert_allclose(found.mean(), expected.mean(), atol=0.15)


def test_curves_that_leave_a_deviation_to_one_row_are_told_of(rng):
    x = rng.normal(size=(200, 2))
    x[3, 1] = 1e12
    kept = np.array([True, False, True])
    curves = (Curve("linear", 0.0, 1.0), Curve("linear", 0.0, 1.0))
    summary = Transformed(kept, np.zeros(3), (None, None), curves, Scaler.fit(x))
    table = FittedTable(summary, Scaler.fit(x).transform(x), x, Support.unbounded(2), 200)
    with pytest.warns(UserWarning, match=r"statistic in column 2 is that of 1 of 200 rows \(3\)"):
        warn_of_outliers(table)


def test_copies_of_rows_are_counted_and_told_of(rng):
    theta = rng.normal(size=(60, 2))
    x = theta + rng.normal(size=theta.shape)
    twice = np.r_[np.arange(60), [3, 3, 8]]
    with pytest.warns(PosteriorWarning, match=r"^3 of 63 rows are copies of others"):
        Rejection(10).fit(theta[twice], x[twice])
    other = x.copy()
    other[0] += 1e-9  # another simulation with the same parameters is none
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Rejection(10).fit(theta, x)
        Rejection(10).fit(theta[[0, *range(60)]], np.vstack([x[:1], other]))
        counts = Support.from_bounds({}, ["n", "m"], discrete=["n", "m"])
        Rejection(10).fit(np.round(theta[twice]), np.round(x[twice]), counts)  # agree by chance


@pytest.mark.parametrize("positive", [False, True])
def test_a_parameter_that_went_wrong_in_a_row_is_told_of_and_heavy_tails_are_not(positive, rng):
    theta = rng.standard_cauchy((1000, 2))
    theta = np.abs(theta) if positive else theta
    x = theta + rng.normal(size=theta.shape)
    support = Support.from_bounds({"a": (0, None), "b": (0, None)} if positive else None, ["a", "b"])
    scale = "transformed"  # so that nothing is said of the statistics
    Rejection(50, scale=scale).fit(theta, x, support)  # warnings are errors
    theta[7, 1] = 1e12
    with pytest.warns(UserWarning, match=r"parameter in column 1 is far .* 1 of 1000 rows \(7\)"):
        fitted = Rejection(50, scale=scale).fit(theta, x, support)
    assert len(fitted.table_) == 1000  # told of, and not refused
    ratio = np.where(np.arange(1000) < 5, 0.0, 1.0)
    with pytest.warns(UserWarning, match=r"1 of 995 rows \(7\)"):
        Rejection(50, scale=scale).fit(theta, x, support, ratio=ratio)
    ratio[7] = 0.0
    Rejection(50, scale=scale).fit(theta, x, support, ratio=ratio)
