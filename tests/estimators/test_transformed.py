"""Statistics by their curves and cells: there and back, and what their densities stand for."""

import numpy as np
import pytest
from scipy.stats import kstest, norm

from pymc_kbr.estimators.summaries.transformed import Transformed, spread_over

N = 600


@pytest.fixture(scope="module")
def mixed():
    """Parameters; and a log-normal statistic, a constant one, counts, and one that is zero or above."""
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(N, 1))
    y = theta[:, 0] + 0.5 * rng.normal(size=N)
    counts = rng.poisson(np.exp(1 + 0.5 * theta[:, 0]))
    return theta, np.column_stack([np.exp(y), np.full(N, 7.0), counts, np.maximum(y, 0)])


@pytest.fixture(scope="module")
def summary(mixed):
    with pytest.warns(UserWarning, match=r"columns \[1\] are constant"):
        return Transformed.fit(mixed[1], mixed[0])


def test_a_table_is_known_by_its_columns(summary, mixed):
    assert summary.size == 4
    assert summary.kept.tolist() == [True, False, True, True]
    assert [cell is not None for cell in summary.cells] == [False, True, True]
    assert summary.discrete
    assert summary.curves[0].kind == "log"
    theta, x = mixed
    with pytest.warns(UserWarning, match="constant"):
        again = Transformed.fit(x, theta)
    assert again.curves == summary.curves
    np.testing.assert_array_equal(again.scaler.scale, summary.scaler.scale)


def test_coordinates_are_standardised_curves_at_the_middles_of_cells(summary, mixed):
    x = mixed[1]
    found = summary.transform(x)
    np.testing.assert_allclose(
        found[:, 0], (np.log(x[:, 0]) - np.log(x[:, 0]).mean()) / np.log(x[:, 0]).std()
    )
    for j, column in ((1, x[:, 2]), (2, x[:, 3])):
        lower, upper = summary.cells[j].ends(column)
        values = summary.curves[j].forward((lower + upper) / 2)
        np.testing.assert_allclose(found[:, j], (values - summary.scaler.centre[j]) / summary.scaler.scale[j])
    # Spread over their cells, as the scaler saw them, they have about the deviation one.
    spread = summary.dequantised(found, np.random.default_rng(0))
    np.testing.assert_allclose(spread.std(axis=0), 1, atol=4 / np.sqrt(2 * N))
    np.testing.assert_allclose(spread.mean(axis=0), 0, atol=4 / np.sqrt(N))


def test_coordinates_lead_back_to_the_statistics(summary, mixed):
    x = mixed[1]
    found = summary.complete(summary.backward(summary.transform(x)))
    np.testing.assert_allclose(found, x, rtol=1e-9, atol=1e-9)
    assert found.shape == x.shape


def test_discrete_statistics_are_spread_evenly_over_their_cells(summary, mixed):
    x, rng = mixed[1], np.random.default_rng(1)
    at = summary.transform(x)
    spread = summary.dequantised(at, rng)
    np.testing.assert_allclose(spread[:, 0], at[:, 0])  # which has no cells
    np.testing.assert_allclose(summary.backward(spread), x[:, [0, 2, 3]], atol=1e-9)
    values = spread * summary.scaler.scale + summary.scaler.centre
    places = summary.curves[1].backward(values[:, 1]) - (x[:, 2] - 0.5)
    assert kstest(places, "uniform").pvalue > 1e-3
    apart = np.corrcoef(places[:-1], places[1:])[0, 1]
    assert abs(apart) < 4 / np.sqrt(N)  # each row by itself
    positive = x[:, 3] > 0
    np.testing.assert_allclose(spread[positive, 2], at[positive, 2])
    assert len(np.unique(spread[~positive, 2])) == np.sum(~positive)


def test_without_cells_there_is_one_point_and_its_volume_is_the_slope():
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(N, 1))
    x = np.column_stack([np.exp(theta[:, 0]), theta[:, 0]]) + 0.1 * rng.uniform(size=(N, 2))
    summary = Transformed.fit(x, theta)
    assert not summary.discrete
    at = summary.transform(x)
    assert summary.dequantised(at, rng) is at
    points, log_volume = summary.points(x[:20])
    assert points.shape == (20, 1, 2)
    np.testing.assert_array_equal(points[:, 0], at[:20])
    step = 1e-6
    slopes = (summary.transform(x[:20] + step) - summary.transform(x[:20] - step)) / (2 * step)
    np.testing.assert_allclose(log_volume[:, 0], np.log(slopes).sum(axis=1), atol=1e-5)


def test_points_lie_in_their_cells(summary, mixed):
    x = mixed[1][:50]
    points, log_volume = summary.points(x)
    assert points.shape == (50, 8, 3)
    assert log_volume.shape == (50, 8)
    back = summary.backward(points.reshape(-1, 3)).reshape(points.shape)
    np.testing.assert_allclose(back, np.repeat(x[:, None, [0, 2, 3]], 8, axis=1), atol=1e-9)
    assert len(np.unique(points[0, :, 1])) == 8


def test_probabilities_of_all_values_of_a_count_add_up_to_one(summary):
    """With any density of the coordinates, here a normal one in each."""
    observed = np.column_stack([np.full(60, 1.3), np.full(60, 7.0), np.arange(60), np.full(60, 0.4)])
    points, log_volume = summary.points(observed)
    density = norm(0.2, 0.7).pdf(points).prod(axis=2)
    found = np.mean(density * np.exp(log_volume), axis=1).sum()
    # What is left are densities of the two others, each in its own units.
    step, expected = 1e-6, 1.0
    for j in (0, 2):
        column = 3 if j == 2 else 0
        value = observed[0, column]
        ends = [
            (summary.curves[j].forward(np.array([value + s])) - summary.scaler.centre[j])
            / summary.scaler.scale[j]
            for s in (-step, step)
        ]
        slope = (ends[1] - ends[0])[0] / (2 * step)
        expected *= norm(0.2, 0.7).pdf((ends[0] + ends[1])[0] / 2) * slope
    below = norm(0.2, 0.7).cdf(lowest_coordinate(summary))
    # Eight points a cell integrate a smooth density to within a hundredth.
    assert found == pytest.approx(expected * (1 - below), rel=0.02)


def lowest_coordinate(summary):
    """Where the cell of no count at all begins."""
    first = summary.curves[1].forward(np.array([-0.5]))[0]
    return (first - summary.scaler.centre[1]) / summary.scaler.scale[1]


def test_an_atom_has_the_probability_of_its_stretch(summary):
    observed = np.array([[1.3, 7.0, 3, 0.0]])
    with_atom, log_volume = summary.points(observed)
    cell, curve = summary.cells[2], summary.curves[2]
    ends = (curve.forward(np.array([cell.lower[0], cell.upper[0]])) - summary.scaler.centre[2]) / (
        summary.scaler.scale[2]
    )
    assert np.all((with_atom[..., 2] > ends[0]) & (with_atom[..., 2] < ends[1]))
    # Volume over the slopes of the other two, averaged over the cell, is the length of the stretch.
    others = summary.curves[0].log_slope(np.array([1.3]))[0] - np.log(summary.scaler.scale[0])
    x = summary.curves[1].backward(with_atom[0, :, 1] * summary.scaler.scale[1] + summary.scaler.centre[1])
    others = others + summary.curves[1].log_slope(x) - np.log(summary.scaler.scale[1])
    assert np.mean(np.exp(log_volume[0] - others)) == pytest.approx(ends[1] - ends[0], rel=0.05)


def test_a_value_that_has_no_logarithm_is_named(summary, mixed):
    x = mixed[1][:3].copy()
    x[2, 0] = -1.5
    with pytest.raises(
        ValueError, match=r"statistic 0 has the value -1.5 in row 2, and all .* above 0 and"
    ) as found:
        summary.transform(x)
    assert "enter by their log:" in str(found.value)


def test_of_points_in_cells_the_row_and_the_value_that_were_given_are_named(summary, mixed):
    x = mixed[1][:3].copy()
    x[2, 2] = -20.0  # counts
    with pytest.raises(ValueError, match="statistic 2 has the value -20 in row 2,"):
        summary.points(x)


def test_values_are_spread_at_a_share_of_the_way_through_their_cells(summary):
    x = np.array([[1.3, 3, 0.0], [0.2, 5, 0.7]])
    for share in (0.25, np.array([0.9, 0.25, 0.25]), np.full((2, 3), 0.25)):
        found = spread_over(x, summary.cells, share)
        np.testing.assert_array_equal(found[:, 0], x[:, 0])
        np.testing.assert_allclose(found[:, 1], x[:, 1] - 0.25)
        atom = summary.cells[2]
        np.testing.assert_allclose(found[:, 2], [atom.lower[0] + 0.25 * (atom.upper[0] - atom.lower[0]), 0.7])
    assert spread_over(x.astype(int), summary.cells, 0.5).dtype == float


@pytest.mark.parametrize("root_of_squares", [False, True])
def test_uneven_values_stay_within_their_curves(root_of_squares):
    # The gap above the lowest value is wider than most: its cell reaches further down than the usual one.
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(3000, 1))
    counts = rng.poisson(
        np.exp((1.5 if root_of_squares else 1) * theta + rng.normal(size=(3000, 1))), (3000, 6)
    )
    x = np.sqrt(np.sum(counts**2, axis=1)) if root_of_squares else counts.std(axis=1)
    summary = Transformed.fit(x[:, None], theta)
    assert summary.curves[0].kind in ("log", "root")
    coordinates = summary.transform(x[:, None])
    for seed in range(20):
        spread = summary.dequantised(coordinates, np.random.default_rng(seed))
        assert np.isfinite(spread).all()
        np.testing.assert_allclose(summary.backward(spread), x[:, None], rtol=1e-9, atol=1e-9)
