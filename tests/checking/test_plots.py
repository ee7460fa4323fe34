import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt
import xarray as xr
from matplotlib.patches import Polygon, Rectangle

import pymc_kbr as pk
from pymc_kbr.checking.calibration import Calibration, JointTransforms, Recovery
from pymc_kbr.checking.statistic_contributions import StatisticContributions, StatisticRelevance
from pymc_kbr.tables.columns import Columns

LEVELS = np.linspace(0, 1, 51)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_the_observations_place_is_drawn(small_table):
    axes = pk.plot_observation_support(small_table)
    assert [label.get_text() for label in axes[1].get_yticklabels()] in (["s", "t"], ["t", "s"])
    with pytest.raises(ValueError, match="1 axes were given; 2 are needed"):
        pk.plot_observation_support(small_table, ax=plt.figure().gca())


DIMS = ("chain", "draw", "d")


def bars_of(axis):
    return [patch for patch in axis.patches if isinstance(patch, Rectangle)]


# --- posteriors ---


def two_columns(deviation=1.0, rows=500):
    return np.random.default_rng(rows).normal([1.0, 20.0], [0.1 * deviation, 3.0 * deviation], (rows, 2))


@pytest.mark.parametrize("width", [0.1, 2.0])
def test_posterior_and_prior_are_drawn_as_densities_over_all_draws_with_the_interval(width):
    draws, prior = two_columns(), two_columns(width, 700)
    axes = pk.plot_posterior(draws, prior=prior, names=["a", "b"], truth={"b": 19.0}, probability=0.8)
    for i, axis in enumerate(axes):
        bars, (area,) = bars_of(axis), [patch for patch in axis.patches if isinstance(patch, Polygon)]
        assert sum(bar.get_width() * bar.get_height() for bar in bars) == pytest.approx(1)
        edges = [*[bar.get_x() for bar in bars], bars[-1].get_x() + bars[-1].get_width()]
        inside = (prior[:, i] >= edges[0]) & (prior[:, i] <= edges[-1])
        shares = [bar.get_width() * bar.get_height() for bar in bars[:20]]
        assert sum(shares) == pytest.approx(np.mean(prior[inside, i] < edges[20]))
        assert bars[0].get_x() <= draws[:, i].min()
        assert bars[-1].get_x() + bars[-1].get_width() >= draws[:, i].max() - 1e-9
        x, y = area.get_xy().T
        edges = np.unique(x)
        assert len(edges) == 31
        np.testing.assert_allclose(edges[[0, -1]], [draws[:, i].min(), draws[:, i].max()], atol=1e-9)
        assert abs(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)) == pytest.approx(1)
        (interval,) = axis.collections
        np.testing.assert_allclose(
            interval.get_segments()[0].T, [np.quantile(draws[:, i], [0.1, 0.9]), [0, 0]]
        )
    assert not axes[0].lines
    assert list(axes[1].lines[0].get_xdata()) == [19.0, 19.0]


def test_a_posterior_without_names_has_numbers_and_its_draws_use_the_seed(linear):
    posterior = pk.Rejection(40).fit(*linear).condition([0.5, -1.0, 0.3])
    one, same, other = (pk.plot_posterior(posterior, random_seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(one[0].patches[0].get_xy(), same[0].patches[0].get_xy())
    assert not np.array_equal(one[0].patches[0].get_xy(), other[0].patches[0].get_xy())


@pytest.mark.parametrize("has_prior", [True, False])
def test_a_result_has_a_panel_an_entry_and_its_own_prior(has_prior):
    draws = np.random.default_rng(1).normal(size=(2, 30, 3))
    groups = {"posterior": xr.Dataset({"m": (DIMS, draws), "s": (DIMS[:2], draws[..., 0])})}
    if has_prior:
        groups["prior"] = xr.Dataset({"m": (DIMS, 9 + draws)})
    axes = pk.plot_posterior(groups, truth=[0.1, 0.2, 0.3, 0.4])
    assert [axis.get_xlabel() for axis in axes] == ["m[0]", "m[1]", "m[2]", "s"]
    assert [axis.lines[0].get_xdata()[0] for axis in axes] == [0.1, 0.2, 0.3, 0.4]
    assert [bool(bars_of(axis)) for axis in axes] == [has_prior] * 3 + [False]
    (one,) = pk.plot_posterior(groups, names=["m[1]"])
    left, right = np.sort(one.patches[-1].get_xy()[:, 0])[[0, -1]]
    np.testing.assert_allclose([left, right], [draws[..., 1].min(), draws[..., 1].max()], atol=1e-9)
    matrix = xr.Dataset({"k": ((*DIMS, "j"), draws[..., None])})
    axes = pk.plot_posterior({"posterior": matrix})
    assert [axis.get_xlabel() for axis in axes] == ["k[0, 0]", "k[1, 0]", "k[2, 0]"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"truth": [1.0]}, "the truth has 1 values for the 2 parameters"),
        ({"truth": {"c": 1.0}}, r"\['c'\] are not parameters; there are \['parameter 0', 'parameter 1'\]"),
        ({"names": ["a"]}, "1 names were given for 2 columns"),
        ({"prior": np.ones((4, 3))}, "the prior has 3 columns; the posterior has 2"),
        ({"prior": np.ones(4)}, "the prior has 1 columns; the posterior has 2"),
        ({"probability": 1.0}, "must lie between 0 and 1"),
        ({"probability": 0.0}, "must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_drawn_of_a_posterior_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        pk.plot_posterior(two_columns(), **given)


# --- calibration ---


def calibration(rows=60):
    rng = np.random.default_rng(1)
    truths = rng.normal(size=(rows, 2))
    quantiles = truths[:, None] + rng.normal(size=(rows, 1, 2)) + np.array([-1.0, 0.0, 1.0])[:, None]
    return Calibration(
        rng.beta(2, 2, (rows, 2)),
        np.zeros((rows, 2)),
        np.zeros(rows),
        Columns.scalars(["a", "b"]),
        100,
        JointTransforms(rng.random(rows), rng.beta(2, 1, rows)),
        Recovery(truths, quantiles),
    )


def assert_holds(axis, band):
    """The band is drawn, and with the curves it lies within the picture, which has room for words below."""
    drawn = axis.collections[0].get_paths()[0].vertices
    for probability, low, high in zip(LEVELS[1:-1:10], *band[1:-1:10].T, strict=True):
        at = drawn[np.isclose(drawn[:, 0], probability), 1]
        np.testing.assert_allclose([at.min(), at.max()], [low - probability, high - probability])
    low, high = axis.get_ylim()
    shown = np.abs(np.concatenate([drawn[:, 1], *[line.get_ydata() for line in axis.lines]])).max()
    if axis.get_legend():
        assert (low, high) == pytest.approx((-2 * shown, 1.2 * shown))


def test_curves_of_calibration_are_of_coverage_and_of_transforms_beside_bands():
    found = calibration()
    axes = pk.plot_calibration(found, probability=0.8)
    band = found.band(LEVELS, 0.8, together=True)
    for axis in axes:
        assert_holds(axis, band)
        assert len({line.get_color() for line in axis.lines}) == 3
    for i in range(2):
        np.testing.assert_allclose(axes[0].lines[i].get_ydata(), found.coverage(LEVELS)[:, i] - LEVELS)
        at, above = axes[1].lines[i].get_data()
        np.testing.assert_array_equal(at, np.sort(found.pit[:, i]))
        np.testing.assert_allclose(above + at, (np.arange(60) + 0.5) / 60)


def test_curves_of_joint_regions_are_their_coverage():
    found = calibration()
    axis = pk.plot_joint_calibration(found, probability=0.8)
    assert_holds(axis, found.band(LEVELS, 0.8, together=True))
    for i in range(2):
        np.testing.assert_allclose(axis.lines[i].get_ydata(), found.joint_coverage(LEVELS)[:, i] - LEVELS)


def test_recovery_tells_intervals_that_hold_the_truth_from_others():
    found = calibration()
    axes = pk.plot_recovery(found, most=40)
    for i, axis in enumerate(axes):
        truths, (low, middle, high) = found.recovery.truths[:40, i], found.recovery.quantiles[:40, :, i].T
        held = (low <= truths) & (truths <= high)
        assert 0 < held.sum() < 40
        for container, those in zip(axis.containers, (held, ~held), strict=True):
            points, _, (bars,) = container.lines
            np.testing.assert_array_equal(points.get_xdata(), truths[those])
            np.testing.assert_array_equal(points.get_ydata(), middle[those])
            ends = np.array(bars.get_segments())[:, :, 1]
            np.testing.assert_allclose(ends, np.column_stack([low, high])[those])
        diagonal = axis.lines[-1]
        np.testing.assert_array_equal(diagonal.get_xdata(), [truths.min(), truths.max()])
        np.testing.assert_array_equal(diagonal.get_ydata(), [truths.min(), truths.max()])


# --- observations and statistics ---


def test_the_picture_of_an_observation_has_its_distance_and_each_statistics_share(small_table):
    support = pk.observation_support(small_table)
    axes = pk.plot_observation_support(small_table)
    assert sum(bar.get_height() for bar in bars_of(axes[0])) == len(support.references)
    limit, observation = axes[0].lines
    assert limit.get_xdata()[0] == np.quantile(support.references, 0.995)
    assert observation.get_xdata()[0] == support.distance
    order = np.argsort(support.contributions)
    np.testing.assert_array_equal([bar.get_width() for bar in bars_of(axes[1])], support.contributions[order])
    assert [label.get_text() for label in axes[1].get_yticklabels()] == [support.names[i] for i in order]
    assert [text.get_text() for text in axes[1].texts] == [
        f"{support.position[i]:.1%} of the simulations are smaller" for i in order
    ]
    many = pd.DataFrame(np.random.default_rng(1).normal(size=(30, 18)), columns=[f"c{i}" for i in range(18)])
    table = pk.ReferenceTable.from_dataframe(
        many, parameters=["c0"], statistics=list(many)[1:], observed=np.zeros(17)
    )
    axes = pk.plot_observation_support(table)
    assert len(bars_of(axes[1])) == 15


def test_dependences_are_a_map_from_zero_with_crosses_where_nothing_is_shown():
    dependence = np.array([[0.9, 0.5], [0.4, np.nan], [0.3, 0.6]])
    pvalue = np.array([[1e-9, 1e-3], [0.004, np.nan], [0.001, 0.5]])
    found = StatisticRelevance(dependence, pvalue, ["s", "t", "u"], ["a", "b"])
    given = plt.figure().gca()
    axis = found.plot(level=0.012, ax=given)  # over six pairs 0.002
    assert axis is given
    (image,) = axis.images
    np.testing.assert_array_equal(np.ma.filled(image.get_array(), np.nan), dependence)
    assert image.get_clim() == (0, 0.9)
    crosses = {tuple(map(int, place)) for place in axis.collections[0].get_offsets()}
    assert crosses == {(0, 1), (1, 1), (1, 2)}
    assert [label.get_text() for label in axis.get_xticklabels()] == ["a", "b"]
    assert [label.get_text() for label in axis.get_yticklabels()] == ["s", "t", "u"]
    assert list(found.to_dataframe()["statistic"]) == ["s", "s", "t", "t", "u", "u"]
    np.testing.assert_array_equal(found.to_dataframe()["pvalue"], pvalue.ravel())


def test_distances_of_simulated_data_are_drawn_beside_that_of_the_data():
    simulated = {"y": np.linspace(0, 1, 40), "z": np.linspace(2, 3, 40)}
    found = pk.PredictiveCheck({"y": 0.03, "z": 0.5}, {"y": 1.5, "z": 2.5}, simulated, {})
    axes = found.plot()
    for axis, name in zip(axes, "yz", strict=True):
        bars = bars_of(axis)
        assert sum(bar.get_height() for bar in bars) == 40
        assert bars[0].get_x() == pytest.approx(simulated[name].min())
        assert axis.lines[0].get_xdata()[0] == found.observed[name]


def contributions(rises, errors):
    count = len(rises)
    names = tuple(f"s{i}" for i in range(count))
    return StatisticContributions(
        names, np.array(rises), np.array(errors), np.full((count, 1), 0.5), np.full(1, 0.8), ("a",), 1200
    )


def test_statistics_are_drawn_in_the_order_in_which_they_are_missed_with_two_errors():
    found = contributions([0.1, 0.4, 0.0], [0.01, 0.02, 0.03])
    axis = found.plot()
    np.testing.assert_array_equal([bar.get_width() for bar in bars_of(axis)], [0.0, 0.1, 0.4])
    assert [label.get_text() for label in axis.get_yticklabels()] == ["s2", "s0", "s1"]
    reach = [np.ptp(segment[:, 0]) for segment in axis.collections[0].get_segments()]
    np.testing.assert_allclose(reach, 4 * np.array([0.03, 0.01, 0.02]))
    assert list(axis.lines[-1].get_xdata()) == [0, 0]
    many = contributions(np.arange(30.0), np.ones(30)).plot()
    assert len(bars_of(many)) == 20
