"""Joint transforms are uniform where the joint posterior is right, and tell each way to be wrong."""

import matplotlib
import numpy as np
import pandas as pd
import pytest
from scipy.stats import kstest

import pymc_kbr as pk
from pymc_kbr.checking.calibration import Calibration, ball_transform, density_transform
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.tables.columns import Columns

matplotlib.use("Agg")
SHARE, VARIANCE = 0.8, 0.2
"""Of a statistic in the posterior mean, and the posterior's variance, where its noise has variance 1/4."""


class Drawn:
    """A posterior by its draws alone: a transformation of standard normal ones."""

    def __init__(self, x, errors):
        self.x, self.errors = x, errors

    def draw(self, count, rng):
        normal = np.random.default_rng(rng).normal(size=(count, len(self.x)))
        return SHARE * self.x + np.sqrt(VARIANCE) * self.errors(normal, self.x)


class Known(pk.Rejection):
    """The exact posterior of the table below, or a wrong one."""

    errors = staticmethod(lambda normal, x: normal)

    def fit(self, parameters, statistics, support=None, **how):
        self.fitted = len(parameters), how.get("ratio")
        return self

    def condition(self, observed):
        posteriors = [Drawn(row, self.errors) for row in np.atleast_2d(observed)]
        return posteriors if np.ndim(observed) == 2 else posteriors[0]


class Wide(Known):
    errors = staticmethod(lambda normal, x: 1.4 * normal)


class Prior(Known):
    """The prior in place of the posterior: marginal transforms do not see it."""

    errors = staticmethod(lambda normal, x: (normal - SHARE * x) / np.sqrt(VARIANCE))


class Correlated(Known):
    """Each parameter by itself is right; together they are not."""

    errors = staticmethod(lambda normal, x: normal @ np.linalg.cholesky([[1, 0.7], [0.7, 1]]).T)


class WrongOnTheRight(Known):
    errors = staticmethod(lambda normal, x: normal + (x[0] > 0.5))


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(4000, 2))
    x = theta + 0.5 * rng.normal(size=(4000, 2))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=["s", "t"])


def calibrated(kind, table, **how):
    given = {"rows": 800, "draws": 100, "random_seed": 2, "progressbar": False}
    return pk.calibrate(kind(), table, **(given | how))


@pytest.fixture(scope="module")
def exact(table):
    return calibrated(Known, table)


def test_both_coverages_of_an_exact_posterior_are_flat(exact):
    levels = np.linspace(0.1, 0.9, 9)
    band = exact.band(levels, 0.999)
    for covered in exact.joint_coverage(levels).T:
        assert np.all((band[:, 0] <= covered) & (covered <= band[:, 1]))
    assert min(line["uniformity_p"] for line in exact.joint_summary()) > 1e-3


@pytest.mark.parametrize(
    ("kind", "seen_by"),
    [(Wide, ["highest_density", "tarp"]), (Prior, ["tarp"]), (Correlated, ["highest_density"])],
)
def test_a_wrong_one_is_seen(kind, seen_by, table):
    found = {line["region"]: line["uniformity_p"] for line in calibrated(kind, table).joint_summary()}
    assert all(found[region] < 1e-6 for region in seen_by)


@pytest.mark.parametrize("kind", [Prior, Correlated])
def test_transforms_of_single_parameters_do_not_see_these(kind, table):
    assert calibrated(kind, table).uniformity().min() > 1e-3


def test_marginal_transforms_do_not_depend_on_the_joint_ones(table):
    """They have a random stream of their own: the draws of a seed are what they were without them."""
    rng = np.random.default_rng(2)
    held_out = rng.choice(4000, 800, replace=False)
    first = Drawn(table.statistics[held_out[0]], Known.errors).draw(100, rng)
    below = np.sum(first < table.parameters[held_out[0]], axis=0)
    expected = (below + rng.random(2)) / 101
    np.testing.assert_array_equal(calibrated(Known, table).pit[0], expected)


@pytest.mark.parametrize("p", [1, 3])
def test_transforms_of_one_more_draw_are_uniform(p):
    rng = np.random.default_rng(0)
    points = [rng.exponential(size=(21, p)) for _ in range(2000)]
    by_density = [density_transform(x[1:], x[0], rng) for x in points]
    by_ball = [ball_transform(x[1:], x[0], np.ones(p), rng) for x in points]
    assert kstest(by_density, "uniform").pvalue > 1e-3
    assert kstest(by_ball, "uniform").pvalue > 1e-3


def test_where_all_draws_are_one_point_transforms_are_drawn():
    rng = np.random.default_rng(0)
    found = [density_transform(np.ones((20, 2)), np.ones(2), rng) for _ in range(500)]
    assert kstest(found, "uniform").pvalue > 1e-3


def test_a_truth_far_from_all_draws_lies_in_no_region():
    rng = np.random.default_rng(0)
    draws, far = rng.normal(size=(100, 2)), np.full(2, 50.0)
    assert density_transform(draws, far, rng) > 0.98
    assert ball_transform(draws, far, np.zeros(2), rng) > 0.98


def test_rows_near_an_observation_are_draws_of_the_prior_times_its_density(table):
    """Held out and fitted under the same prior: an estimator that uses the weights is calibrated."""
    linear = pk.Adjusted(pk.Rejection(400, kernel="epanechnikov"), "local_linear")
    found = pk.calibrate(linear, table, rows=500, around=[1.5, 1.5], random_seed=1, progressbar=False)
    truths = found.recovery.truths
    assert np.all(np.abs(truths.mean(axis=0) - 1.0) < 0.3)  # between the posterior's mean and the prior's
    assert np.all(truths.std(axis=0) < 0.6)
    assert found.uniformity().min() > 1e-3
    assert min(line["uniformity_p"] for line in found.joint_summary()) > 1e-3
    assert np.array_equal(found.around, [1.5, 1.5])
    assert "near one observation" in repr(found)


def test_what_is_fitted_near_an_observation_has_the_weights(table):
    estimator = Known()
    pk.calibrate(estimator, table, rows=100, draws=10, around=[0.0, 0.0], random_seed=1, progressbar=False)
    assert not hasattr(estimator, "fitted")  # the one that is given stays as it is
    seen = []

    class Noted(Known):
        def fit(self, parameters, statistics, support=None, **how):
            seen.append((len(parameters), how["ratio"]))
            return self

    calibrated(Noted, table, rows=100, draws=10, around=[0.0, 0.0])
    (first, none), (second, ratio) = seen
    assert first == second == len(ratio) == 2000
    assert none is None
    assert np.ptp(ratio) > 0


class ShiftedOnTheRight(pk.Rejection):
    """Rejection whose atoms are half a unit too high where the first statistic is above average."""

    def _atoms(self, x, found):
        return [
            Atoms(atoms.points + 0.5 * (row[0] > 0), self.parameter_kernel_)
            for row, atoms in zip(x, super()._atoms(x, found), strict=True)
        ]


def test_a_fault_elsewhere_is_not_seen_near_the_observation(table):
    near, there = (
        pk.calibrate(
            ShiftedOnTheRight(50), table, draws=50, around=[x, 0.0], random_seed=1, progressbar=False
        ).uniformity()
        for x in (-2.0, 2.0)
    )
    assert near[0] > 1e-3
    assert there[0] < 1e-6


@pytest.mark.parametrize("name", ["prior_sbc", "posterior_sbc"])
def test_groups_for_arviz(name, exact, table):
    found = exact if name == "prior_sbc" else calibrated(Known, table, rows=60, around=[0.0, 0.0])
    result = found.to_arviz()
    np.testing.assert_array_equal(result[name]["a"].to_numpy()[0], found.pit[:, 0])
    np.testing.assert_array_equal(result["joint_sbc"]["tarp"].to_numpy()[0], found.joint.tarp)


def test_a_classifier_tells_what_is_wrong_at_the_observation(table):
    here, there = (
        pk.local_classifier_test(WrongOnTheRight(), table, x, rows=600, permutations=99, random_seed=1)
        for x in ([-1.5, 0.0], [1.5, 0.0])
    )
    assert there.pvalue == 0.01
    assert here.pvalue > 0.05
    assert 50 < here.effective_rows < 600
    assert "small p-values" in repr(here)


@pytest.mark.parametrize("kind", [Wide, Prior, Correlated])
def test_a_classifier_sees_each_way_to_be_wrong(kind, table):
    found = pk.local_classifier_test(kind(), table, [0.5, 0], rows=600, permutations=99, random_seed=1)
    assert found.pvalue == 0.01


def test_a_classifier_sees_a_shape_among_five_parameters():
    """Exponential draws of the right mean and deviation in the place of the last of them."""

    def skewed(normal, x):
        return np.column_stack([normal[:, :-1], np.random.default_rng(1).exponential(size=len(normal)) - 1])

    rng = np.random.default_rng(5)
    theta = rng.normal(size=(1400, 5))
    names = [f"{side}{j}" for side in "ts" for j in range(5)]
    frame = pd.DataFrame(np.hstack([theta, theta + 0.5 * rng.normal(size=theta.shape)]), columns=names)
    wide = pk.ReferenceTable.from_dataframe(frame, parameters=names[:5], statistics=names[5:])
    wrong = type("Skewed", (Known,), {"errors": staticmethod(skewed)})
    found = pk.local_classifier_test(wrong(), wide, np.zeros(5), rows=700, permutations=99, random_seed=1)
    assert found.pvalue == 0.01


def test_the_classifiers_level_is_exact(table):
    """Fifty data sets of an exact posterior: p-values are uniform."""
    how = {"rows": 60, "permutations": 39}
    found = [
        pk.local_classifier_test(Known(), table, [0.3, 0.2], random_seed=s, **how).pvalue for s in range(60)
    ]
    assert kstest(found, "uniform").pvalue > 1e-3


def test_refusals(table, exact):
    marginal = Calibration(exact.pit, exact.contraction, exact.energy_scores, Columns.scalars(["a", "b"]), 9)
    with pytest.raises(ValueError, match="single parameters only"):
        marginal.joint_coverage()
    with pytest.raises(ValueError, match="no true values"):
        pk.plot_recovery(marginal)
    with pytest.raises(ValueError, match="probabilities lie in"):
        exact.joint_coverage(1.2)
    with pytest.raises(ValueError, match="at least 10"):
        calibrated(Known, table, draws=5)
    with pytest.raises(ValueError, match="lie where the posterior of `around` is"):
        pk.calibrate(Known(), table, around=[9.0, 9.0], random_seed=1, progressbar=False)
    with pytest.raises(ValueError, match="permutations is 0"):
        pk.local_classifier_test(Known(), table, [0.0, 0.0], permutations=0)
    with pytest.raises(ValueError, match="no observation"):
        pk.local_classifier_test(Known(), table)
    for wrong in ([1.0, 2.0, 3.0], [[1.0, 2.0]]):
        with pytest.raises(ValueError, match="observation has shape"):
            pk.local_classifier_test(Known(), table, wrong)
        with pytest.raises(ValueError, match="observation has shape"):
            pk.calibrate(Known(), table, around=wrong)
    with pytest.raises(ValueError, match="NaN or infinite"):
        pk.local_classifier_test(Known(), table, [np.nan, 0.0])


def test_one_statistic_and_one_discrete_parameter():
    rng = np.random.default_rng(0)
    z = (rng.random((1000, 1)) < 0.5).astype(float)
    frame = pd.DataFrame(np.hstack([z, z + rng.normal(size=(1000, 1))]), columns=["z", "s"])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["z"], statistics=["s"], observed=[0.4])
    found = pk.local_classifier_test("rejection", table, rows=100, permutations=39, random_seed=1)
    assert 0 < found.pvalue <= 1
    near = pk.calibrate("rejection", table, rows=300, around=[0.4], random_seed=1, progressbar=False)
    assert set(near.recovery.truths.ravel()) == {0.0, 1.0}
