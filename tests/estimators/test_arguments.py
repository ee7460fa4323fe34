"""What arguments are refused, in which words, and what is taken in many forms."""

import itertools
import warnings

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.estimator import scan_table
from tests.estimators.parts import Parts

THETA = np.random.default_rng(2).normal(size=(40, 2))
X = np.column_stack([THETA, THETA[:, 0]]) + np.random.default_rng(3).normal(size=(40, 3))


def with_entry(array, row, value):
    changed = np.array(array)
    changed[row, 1] = value
    return changed


FIT = [
    (np.ma.masked_greater(THETA, 1), X, ValueError, "masked entries in the parameters"),
    (THETA, np.ma.masked_greater(X, 1), ValueError, "masked entries in the statistics"),
    (THETA + 0j, X, TypeError, "imaginary part"),
    (THETA, X + 1j, TypeError, "imaginary part"),
    (THETA.astype(str), X, TypeError, "parameters"),
    (THETA, [[1.0, 2.0], [1.0]], ValueError, "rows of one length"),
    (with_entry(THETA, 4, 1e307), X, ValueError, r"beyond 1e\+300 in the parameters, columns \[1\]"),
    (with_entry(THETA, 4, -1.1e300), X, ValueError, r"beyond 1e\+300 in the parameters, columns \[1\]"),
    (with_entry(THETA, 4, np.nan), X, ValueError, r"1 row\(s\) of parameters .* row 4"),
    (THETA, with_entry(with_entry(X, 7, np.inf), 9, np.nan), ValueError, r"2 row\(s\) of stat.* row 7"),
    (THETA[:, 0], X, ValueError, r"parameters have shape \(40,\)"),
    (THETA, X[:, 0], ValueError, r"statistics have shape \(40,\)"),
    (THETA[:, :0], X, ValueError, r"parameters have shape \(40, 0\)"),
    (THETA, X[:, :0], ValueError, r"statistics have shape \(40, 0\)"),
    (THETA[None], X, ValueError, r"parameters have shape \(1, 40, 2\)"),
    (THETA[:-1], X, ValueError, "39 rows of parameters and 40 rows of statistics"),
    (THETA[:1], X[:1], ValueError, "there is 1 row; an estimator needs at least two"),
    (THETA[:0], X[:0], ValueError, "there is 0 row"),
    (THETA, np.ones_like(X), ValueError, "all statistics are constant"),
]


@pytest.mark.parametrize(("parameters", "statistics", "error", "words"), FIT)
@pytest.mark.parametrize("estimator", [pk.Rejection(10)])
def test_tables_are_refused_with_a_reason(estimator, parameters, statistics, error, words):
    with pytest.raises(error, match=words):
        estimator.fit(parameters, statistics)


GIVEN = [
    ({"support": Support.unbounded(3)}, "support is one of 3 parameters; there are 2"),
    ({"ratio": np.ones(39)}, r"shape \(39,\); there are 40 rows"),
    ({"ratio": np.ones((40, 1))}, r"shape \(40, 1\)"),
    ({"ratio": np.where(np.arange(40) == 6, -1e-9, 1)}, r"infinite in 1 row\(s\), the first of them row 6"),
    ({"ratio": np.where(np.arange(40) > 37, np.nan, 1)}, r"infinite in 2 row\(s\), the first of them row 38"),
    ({"ratio": np.where(np.arange(40) == 0, np.inf, 1)}, r"infinite in 1 row\(s\), the first of them row 0"),
    ({"ratio": np.eye(40)[3]}, "density at 1 of the table's 40 rows"),
    ({"ratio": np.zeros(40)}, "density at 0 of the table's 40 rows"),
    ({"prior": np.ones((4, 3))}, "3 parameters; the table has 2"),
    ({"prior": np.ones((4, 2)), "ratio": np.ones(40)}, "one of the two"),
]


@pytest.mark.parametrize(("given", "words"), GIVEN)
def test_what_goes_with_a_table_is_refused_with_a_reason(given, words):
    with pytest.raises(ValueError, match=words):
        pk.Rejection(10).fit(THETA, X, **given)


@pytest.mark.parametrize("name", pk.ESTIMATORS)
@pytest.mark.parametrize("prior", [[[0.1, 0.2]], [[0.1, 0.2], [0.1, 0.2]], (THETA[:3], [1.0, 0.0, 0.0])])
def test_a_prior_of_one_point_is_refused(name, prior):
    with pytest.raises(ValueError, match="less than two different ones of them carry weight"):
        pk.ESTIMATORS[name]().fit(THETA, X, prior=prior)


@pytest.mark.parametrize("name", pk.ESTIMATORS)
def test_a_prior_beyond_all_rows_is_refused_with_the_parameter(name):
    lowest, highest = THETA[:, 1].min(), THETA[:, 1].max()
    words = f"100% of the prior .* parameter of column 1, which are between {lowest:.4g} and {highest:.4g}"
    for side in (-30.0, 30.0):
        with pytest.raises(ValueError, match=words):
            pk.ESTIMATORS[name]().fit(THETA, X, prior=np.add(THETA, [0.0, side]))


def test_a_prior_partly_beyond_the_rows_is_warned_about_with_its_share():
    estimator = pk.Rejection(10)
    far = np.where(np.arange(40)[:, None] < 10, np.add(THETA, [30.0, 0.0]), THETA)
    with pytest.warns(UserWarning, match="25% of the prior lies beyond the table's rows .* column 0"):
        estimator.fit(THETA, X, prior=far)
    weights = np.where(np.arange(40) < 10, 0.0, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimator.fit(THETA, X, prior=(far, weights))  # what carries no weight is no part of the prior
        estimator.fit(THETA, X, prior=np.random.default_rng(9).normal(size=(300, 2)))  # the table's own


@pytest.mark.parametrize("parts", [True, False])
@pytest.mark.parametrize("row", [0, 7, 299])
def test_an_outlier_is_named_wherever_the_rows_are_read_from(parts, row, set_default):
    set_default(scan_table, sampled=60)
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(300, 2))
    x = theta + rng.normal(size=(300, 2))
    source = Parts if parts else np.asarray
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pk.Rejection(10).fit(source(theta), source(x))
    x[row, 1] = 1e12
    with pytest.warns(UserWarning, match="the statistic in column 1 is that of") as found:
        pk.Rejection(10).fit(source(theta), source(x))
    (message,) = [str(one.message) for one in found]
    assert f"({row})" in message or (parts and "not among the 60 looked at" in message)
    assert f"({row})" in message or row == 7  # the first and the last row are in every sample


def test_the_number_of_an_outlier_is_that_of_its_row_under_another_prior():
    x = np.random.default_rng(4).normal(size=(60, 1))
    x[50] = 1e12
    with pytest.warns(UserWarning, match=r"1 of 50 rows \(50\)"):
        pk.Rejection(10).fit(x % 2, x, ratio=np.where(np.arange(60) < 10, 0.0, 1.0))


def test_two_rows_with_density_are_enough():
    fitted = pk.Rejection(1.0).fit(THETA, X, ratio=np.eye(40)[3] + np.eye(40)[8])
    assert np.flatnonzero(fitted.weights(X[0])).tolist() == [3, 8]


OBSERVED = [
    (np.zeros((0, 3)), ValueError, r"no observation: the shape is \(0, 3\)"),
    ([], ValueError, r"shape \(0,\)"),
    (1.0, ValueError, r"shape \(\); the estimator was fitted on 3 statistics"),
    ([1.0, 2.0], ValueError, r"shape \(2,\)"),
    (np.zeros((2, 2, 3)), ValueError, r"shape \(2, 2, 3\)"),
    ([1.0, np.nan, np.inf], ValueError, r"infinite in statistics \[(1, )?2\]"),
    ([[1.0, 1, 1], [1, 1, np.inf]], ValueError, r"infinite in statistics \[2\]"),
    ([0.0, 1e300, 0.0], ValueError, r"1e\+300 in statistic 1, more than"),
    ([[0.0, 0.0, 0.0], [0.0, 0.0, -1e200]], ValueError, r"-1e\+200 in statistic 2, more than"),
    ([1j, 0, 0], TypeError, "imaginary part"),
    (["a", "b", "c"], TypeError, "observation"),
]


def test_what_is_masked_in_an_observation_is_missing():
    fitted = pk.Rejection(10).fit(THETA, X)
    one = fitted.condition(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]))
    two = fitted.condition([1.0, np.nan, 3.0])
    np.testing.assert_array_equal(one.atoms, two.atoms)
    with pytest.raises(ValueError, match="masked entries in the observation"):
        fitted.weights(np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]))


@pytest.mark.parametrize(("observed", "error", "words"), OBSERVED)
@pytest.mark.parametrize("estimator", [pk.Rejection(10), pk.ConditionalMean(1.0, 1e-2)])
def test_observations_are_refused_with_a_reason(estimator, observed, error, words):
    fitted = estimator.fit(THETA, X)
    for asked in (fitted.condition, fitted.weights):
        with pytest.raises(error, match=words):
            asked(observed)


def test_an_observation_just_near_enough_is_taken():
    fitted = pk.Rejection(10, scale=False).fit(THETA, X)
    assert fitted.weights([9e99, 0.0, 0.0]).sum() == pytest.approx(1)
    with pytest.raises(ValueError, match="look at its units"):
        fitted.weights([1.1e100, 0.0, 0.0])


def test_lists_are_tables_too():
    plain = pk.Rejection(10).fit(THETA, X).condition(X[:2])
    listed = pk.Rejection(10).fit(THETA.tolist(), X.tolist()).condition(X[:2].tolist())
    for one, two in zip(plain, listed, strict=True):
        np.testing.assert_array_equal(one.atoms, two.atoms)


def test_one_observation_gives_one_posterior_and_a_row_of_one_gives_a_list():
    fitted = pk.Rejection(10).fit(THETA, X)
    assert isinstance(fitted.condition(X[:1]), list)
    assert isinstance(fitted.condition(X[0]), pk.Posterior)
    assert fitted.weights(X[:1]).shape == (1, 40)
    assert fitted.weights(X[0]).shape == (40,)


def test_a_given_prior_may_be_of_any_form_for_every_estimator():
    draws = np.random.default_rng(4).normal(0.5, 0.5, size=(30, 2))
    for estimator in (pk.Rejection(10), pk.ImportanceWeightedKernelBayes(1.0, 1e-2)):
        one = estimator.fit(THETA, X, prior=draws).weights(X[0])
        two = estimator.fit(THETA.tolist(), X.tolist(), prior=draws.tolist()).weights(X[0])
        np.testing.assert_allclose(one, two, atol=1e-12)
        assert not np.allclose(one, estimator.fit(THETA, X).weights(X[0]))


@pytest.mark.parametrize(
    ("scale", "words"),
    [("magic", "'relevance'"), (3, "a fitted summary"), (None, "scale is None"), (2.0, "True, False")],
)
def test_scales_are_refused_with_the_names(scale, words):
    with pytest.raises(ValueError, match=words):
        pk.Rejection(10, scale=scale).fit(THETA, X)
    assert pk.Rejection(10, scale=np.True_).fit(THETA, X).accepted_ == 10


def test_a_kernel_is_refused_by_its_argument_and_with_the_names():
    for kernel, error in (("gausian", ValueError), (1.0, TypeError)):
        with pytest.raises(error, match=r"kernel is .*names.* gaussian"):
            pk.ConditionalMean(kernel=kernel).fit(THETA, X)


@pytest.mark.parametrize(
    "estimator", [pk.Rejection(10), pk.ConditionalMean(), pk.Adjusted(adjustment="none")]
)
def test_a_statistic_that_is_measured_by_one_row_is_warned_about(estimator):
    with pytest.warns(UserWarning, match=r"column 1 is that of 1 of 40 rows \(4\)"):
        estimator.fit(THETA, with_entry(X, 4, 1e12))


@pytest.mark.parametrize(
    ("ratio", "error", "words"),
    [(np.ones(40) + 1j, TypeError, "imaginary"), (np.ma.masked_less(THETA[:, 0], 0), ValueError, "masked")],
)
def test_a_ratio_is_refused_as_rows_are(ratio, error, words):
    with pytest.raises(error, match=words):
        pk.Rejection(10).fit(THETA, X, ratio=ratio)


def test_a_prior_beyond_sums_is_refused():
    with pytest.raises(ValueError, match="beyond 1e\\+300"):
        pk.KernelBayes().fit(THETA, X, prior=THETA * 1e307)


def test_a_fitted_estimator_does_not_follow_its_arrays():
    theta, x = THETA.copy(), X.copy()
    fitted = pk.Localised(20).fit(theta, x)
    before = fitted.condition(X[0]).mean()
    theta[:], x[:] = 0.0, 0.0
    np.testing.assert_array_equal(fitted.condition(X[0]).mean(), before)


CONSTANT = np.column_stack([np.random.default_rng(4).normal(size=(60, 1)), np.full(60, 0.3)])

SCALES = [False, "transformed", "relevance", "linear_posterior_mean"]
SCALED = [(name, "transformed" if "likelihood" in name else True) for name in [*pk.ESTIMATORS, "streamed"]]
SCALED += itertools.product(["rejection", "streamed"], SCALES)


@pytest.mark.filterwarnings("ignore:the statistics in columns")
@pytest.mark.parametrize(("name", "scale"), SCALED)
def test_data_that_no_simulation_makes_are_warned_of(name, scale):
    theta = CONSTANT[:, :1] + np.random.default_rng(5).normal(size=(60, 1))
    if name == "streamed":
        fitted = pk.Rejection(20, scale=scale).fit(Parts(theta), Parts(CONSTANT))
    else:
        fitted = pk.ESTIMATORS[name]()
        inner = {"estimator": pk.Rejection(40, scale=scale)} if name == "adjusted" else {"scale": scale}
        fitted = fitted.set_params(**inner | ({"particles": 20} if "likelihood" in name else {}))
        fitted = fitted.fit(theta, CONSTANT, random_seed=1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        same = fitted.condition([0.1, 0.3 * (1 + 1e-12)])
        assert not [w for w in seen if issubclass(w.category, pk.PosteriorWarning)]
    with pytest.warns(pk.PosteriorWarning, match=r"column 1 is 0\.3 in every simulation and 5 in the data"):
        other = fitted.condition([[0.1, 0.3], [0.1, 5.0]])[1]
    np.testing.assert_allclose(other.weights, same.weights, rtol=1e-6, atol=1e-9)


@pytest.mark.filterwarnings("ignore:the statistics in columns")
def test_the_likelihood_of_data_that_no_simulation_makes_is_zero():
    theta = CONSTANT[:, :1] + np.random.default_rng(5).normal(size=(60, 1))
    likelihood = pk.KernelLikelihood(particles=20).fit(theta, CONSTANT, random_seed=1)
    assert np.all(np.isfinite(likelihood.log_likelihood(theta[:3], [0.1, 0.3])))
    with pytest.warns(pk.PosteriorWarning, match="the model cannot make the data"):
        found = likelihood.log_likelihood(theta[:3], [[0.1, 0.3], [0.1, 0.4]])
    assert found.tolist() == [-np.inf] * 3
