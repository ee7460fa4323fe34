import dataclasses

import arviz as az
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, norm

import pymc_kbr as pk
from pymc_kbr.arrays.support import Block
from pymc_kbr.checking.calibration import Calibration
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.posterior.arviz import ARVIZ_MAJOR
from pymc_kbr.tables.columns import Columns

LINEAR = pk.Adjusted(pk.Rejection(400, kernel="epanechnikov"), "local_linear")


class TooWide(pk.Rejection):
    """Rejection whose atoms are twice as far from their mean as they should be."""

    def _atoms(self, x, found):
        all_points = [atoms.points for atoms in super()._atoms(x, found)]
        return [
            Atoms(points.mean(axis=0) + 2 * (points - points.mean(axis=0)), self.parameter_kernel_)
            for points in all_points
        ]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(3000, 2))
    x = theta + 0.5 * rng.normal(size=(3000, 2))
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=["s", "t"])


@pytest.fixture(scope="module")
def good(table):
    return pk.calibrate(LINEAR, table, rows=600, random_seed=1, progressbar=False)


def made(transform, rows=2000):
    """A calibration whose transforms are those of uniform ones under a map."""
    u = np.random.default_rng(0).random((rows, 1))
    return Calibration(transform(u), np.zeros((rows, 1)), np.zeros(rows), Columns.scalars(["a"]), 500)


@pytest.mark.statistical
def test_a_calibrated_estimator_has_uniform_transforms(good):
    assert good.pit.shape == (600, 2)
    assert good.pit.min() >= 0
    assert good.pit.max() <= 1
    assert good.uniformity().min() > 1e-3
    lower, upper = good.band(0.9, 0.999)
    assert np.all((good.coverage() >= lower) & (good.coverage() <= upper))
    # Posterior variance over the prior's: 0.25 / 1.25.
    np.testing.assert_allclose(np.median(good.contraction, axis=0), 0.8, atol=0.02)


def test_intervals_that_are_too_wide_are_found(table):
    wide = pk.calibrate(TooWide(50), table, rows=400, random_seed=1, progressbar=False)
    assert wide.uniformity().max() < 1e-6
    assert np.all(wide.coverage(0.5) > wide.band(0.5, 0.999)[1])


def test_the_estimator_that_is_given_stays_as_it_is(table):
    estimator = pk.Rejection(50).fit(table.parameters[:100], table.statistics[:100])
    pk.calibrate(estimator, table, rows=20, random_seed=1, progressbar=False)
    assert len(estimator.table_) == 100


def test_the_same_seed_gives_the_same(table):
    one, two = (pk.calibrate("rejection", table, rows=30, random_seed=2, progressbar=False) for _ in range(2))
    np.testing.assert_array_equal(one.pit, two.pit)


def test_each_posterior_is_drawn_from_again(table):
    """All posteriors are the prior, and no two sets of draws of it have the same variance."""
    found = pk.calibrate(pk.NadarayaWatson(1e6), table, rows=30, draws=20, random_seed=1, progressbar=False)
    assert len(np.unique(found.contraction)) == found.contraction.size


def test_the_estimator_has_not_seen_the_rows_that_are_held_out(table):
    """The nearest row of one that it had seen would be that row, whose score is zero."""
    nearest = pk.Adjusted(pk.Rejection(1), "none", smoothing="none")
    found = pk.calibrate(nearest, table, rows=100, random_seed=1, progressbar=False)
    assert found.energy_scores.min() > 0
    assert found.contraction.min() == found.contraction.max() == 1.0


def test_a_truth_that_all_draws_equal_is_anywhere_among_them():
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.arange(200) < 2, rng.normal(size=200)])
    t = pk.ReferenceTable.from_dataframe(
        pd.DataFrame(rows, columns=["a", "s"]), parameters=["a"], statistics=["s"]
    )
    pit = pk.calibrate(pk.Rejection(5), t, rows=60, draws=20, random_seed=1, progressbar=False).pit[:, 0]
    # Of 60 uniform numbers not one in either tenth: once in 600 times each, and it is one seed.
    assert pit.min() < 0.1
    assert pit.max() > 0.9


@pytest.mark.statistical
def test_transforms_of_a_parameter_with_ties_are_uniform():
    """Zero or one, of which a continuous statistic tells something."""
    rng = np.random.default_rng(0)
    theta = (rng.random((4000, 1)) < 0.4).astype(float)
    frame = pd.DataFrame(np.hstack([theta, theta + rng.normal(size=(4000, 1))]), columns=["a", "s"])
    t = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s"])
    t = dataclasses.replace(t, support=pk.Support(1, (Block((0,), (), smooth=False),)))
    found = pk.calibrate(pk.Rejection(200), t, rows=800, random_seed=1, progressbar=False)
    assert found.uniformity()[0] > 1e-3
    assert len(np.unique(found.pit)) == 800


@pytest.mark.parametrize(("level", "probability"), [(0.5, 0.95), (0.9, 0.95), (0.3, 0.8)])
def test_a_band_holds_its_probability_and_no_more(level, probability):
    """Each side has at most half of what is left outside, and more than that with one row further in."""
    rows, tail = 400, (1 - probability) / 2
    lower, upper = np.rint(made(lambda u: u, rows).band(level, probability) * rows)
    counts = binom(rows, level)
    assert counts.cdf(lower - 1) <= tail < counts.cdf(lower)
    assert counts.sf(upper) <= tail < counts.sf(upper - 1)


def test_a_band_for_all_levels_holds_whole_curves():
    """As often as it says; that of each level by itself holds far fewer."""
    rows, curves, levels = 300, 1000, np.linspace(0, 1, 26)
    u = np.random.default_rng(1).random((curves, rows))
    shares = np.stack([np.mean(u <= level, axis=1) for level in levels], axis=1)
    found = {}
    for together in (True, False):
        low, high = made(lambda u: u, rows).band(levels, 0.9, together=together).T
        found[together] = np.mean(np.all((low <= shares) & (shares <= high), axis=1))
    # The standard error of either share, and of the level that 2,000 simulated curves give.
    assert abs(found[True] - 0.9) < 4 * np.sqrt(0.09 / curves + 0.09 / 2000)
    assert found[False] < 0.7


def test_recalibrated_draws_have_the_right_width():
    # The posterior's deviation is 1.5 times what it should be: z = 1.5 q has the transform Phi(q / 1.5).
    calibration = made(lambda u: norm.cdf(norm.ppf(u) / 1.5))
    draws = 1.5 * np.random.default_rng(1).normal(size=(4000, 1))
    assert calibration.recalibrated(draws).std() == pytest.approx(1.0, abs=4 / np.sqrt(2 * 2000))
    shifted = made(lambda u: norm.cdf(norm.ppf(u) + 0.5))  # truths lie higher than the draws by one half
    assert shifted.recalibrated(draws / 1.5).mean() == pytest.approx(0.5, abs=4 / np.sqrt(2000))


def test_recalibration_keeps_joint_order_and_range():
    calibration = made(lambda u: u**2)
    draws = np.random.default_rng(1).normal(size=(500, 1))
    moved = calibration.recalibrated(draws)
    np.testing.assert_array_equal(
        np.argsort(moved[:, 0], kind="stable"), np.argsort(draws[:, 0], kind="stable")
    )
    assert draws.min() <= moved.min() <= moved.max() <= draws.max()
    with pytest.raises(ValueError, match="calibration is of 1 parameters"):
        calibration.recalibrated(np.zeros((5, 2)))


def test_calibrated_draws_are_left_nearly_alone():
    draws = np.random.default_rng(1).normal(size=(2000, 1))
    moved = made(lambda u: u).recalibrated(draws)
    assert np.abs(moved.std() - draws.std()) < 4 / np.sqrt(2 * 2000)


def test_coverage_is_counted_from_the_middle():
    calibration = made(lambda u: u, 5000)
    levels = np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(calibration.coverage(levels)[:, 0], levels, atol=4 * 0.5 / np.sqrt(5000))
    with pytest.raises(ValueError, match="probabilities lie in"):
        calibration.coverage(1.5)


def test_arviz_draws_the_transforms(good):
    import matplotlib.pyplot as plt

    idata = good.to_arviz()
    pit = idata["prior_sbc"]["a"]
    assert pit.dims == ("chain", "draw")
    assert 0 <= float(pit.min()) <= float(pit.max()) <= 1
    if ARVIZ_MAJOR == 0:
        az.plot_ecdf(np.asarray(pit).ravel(), pit=True, cdf=lambda x: x)
    else:
        az.plot_ecdf_pit(idata)
    plt.close("all")


@pytest.mark.parametrize("rows", [5, 2000])
def test_too_few_or_too_many_rows_are_refused(table, rows):
    with pytest.raises(ValueError, match="between 10 and 1500"):
        pk.calibrate("rejection", table, rows=rows, progressbar=False)


def test_a_band_is_refused_at_what_is_no_probability(good):
    with pytest.raises(ValueError, match=r"levels are 1\.5"):
        good.band(1.5)
    with pytest.raises(ValueError, match="probability is 95"):
        good.band(0.9, 95)
