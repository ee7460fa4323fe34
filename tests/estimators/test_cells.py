"""Stretches of the line that stand for the values of a discrete statistic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_kbr.estimators.summaries.transformed import Cells

PLACES = st.lists(st.integers(-20, 20), min_size=2, max_size=8, unique=True)


def twice(values):
    """A column in which every value comes twice."""
    return np.repeat(np.asarray(values, dtype=float), 2)


@given(PLACES, st.sampled_from([1.0, 0.1, 1 / 3, 250.0]), st.sampled_from([0.0, 0.7, -1000.0]))
def test_a_lattice_has_cells_of_its_spacing_around_its_points(places, spacing, origin):
    low = min(places)
    column = twice(origin + spacing * np.array([*places, low + 1]))  # two neighbours show the spacing
    cells = Cells.of(column)
    assert cells.spacing == pytest.approx(spacing)
    lower, upper = cells.ends(column)
    np.testing.assert_allclose(column - lower, spacing / 2)
    np.testing.assert_allclose(upper - column, spacing / 2)
    assert cells.first_edge(column.min()) == pytest.approx(origin + spacing * (low - 0.5))
    for share in (0.01, 0.5, 0.99):
        within = lower + share * (upper - lower)
        np.testing.assert_allclose(cells.nearest(within), column, atol=1e-9 * (spacing + abs(origin)))
        edges = [cells.first_edge(point) for point in within]
        np.testing.assert_allclose(edges, lower, atol=1e-9 * (spacing + abs(origin)))
    # Of a point that no row has, too.
    beyond = origin + spacing * (max(places) + np.array([2.6, 3.4]))
    expected = np.full(2, origin + spacing * (max(places) + 3))
    np.testing.assert_allclose(cells.nearest(beyond), expected, atol=1e-9 * (spacing + abs(origin)))


@given(PLACES)
def test_uneven_values_share_out_the_line_between_them(places):
    values = np.sort(np.asarray(places, dtype=float)) ** 3 + np.sqrt(2) * (np.sort(places) > 0)
    column = np.repeat(values, 5)
    cells = Cells.of(column)
    if cells.spacing:  # two or three of them may be a lattice after all
        steps = np.diff(values) / cells.spacing
        np.testing.assert_allclose(steps, np.round(steps), atol=1e-5)
        return
    np.testing.assert_array_equal(cells.values, values)
    np.testing.assert_allclose(cells.upper[:-1], (values[1:] + values[:-1]) / 2)
    np.testing.assert_array_equal(cells.upper[:-1], cells.lower[1:])
    # The outermost cells reach as far out as in.
    assert values[0] - cells.lower[0] == pytest.approx(cells.upper[0] - values[0])
    assert cells.upper[-1] - values[-1] == pytest.approx(values[-1] - cells.lower[-1])
    lower, upper = cells.ends(column)
    for share in (0.01, 0.5, 0.99):
        np.testing.assert_array_equal(cells.nearest(lower + share * (upper - lower)), column)


def test_values_between_and_beyond_those_of_a_table_represent_themselves():
    cells = Cells.of(np.repeat([0.0, 1.0, 2.7, 10.0], 5))
    strange = np.array([-5.0, 0.4, 3.0, 100.0])
    for end in cells.ends(strange):
        np.testing.assert_array_equal(end, strange)
    # A draw beyond all values is the outermost one, which has the mass that lies there.
    np.testing.assert_array_equal(cells.nearest(np.array([-5.0, 100.0])), [0.0, 10.0])
    np.testing.assert_array_equal(cells.nearest(np.array([0.4, 3.0, 10.1])), [0.0, 2.7, 10.0])


@pytest.mark.parametrize(("tied", "discrete"), [(2, False), (4, False), (5, True), (20, True)])
def test_a_statistic_is_discrete_from_one_row_in_twenty_that_shares_its_value(tied, discrete):
    column = np.random.default_rng(1).normal(size=100)
    column[:tied] = column.min() - 1
    assert (Cells.of(column) is not None) is discrete


def test_a_constant_has_no_cells():
    assert Cells.of(np.full(10, 3.0)) is None
    assert Cells.of(np.repeat([3.0, 4.0], 5)).spacing == 1


def test_ties_in_the_middle_of_a_continuous_statistic_make_no_cells():
    column = np.random.default_rng(1).normal(size=100)
    column[:20] = 0.1
    assert Cells.of(column) is None
    column[20:22] = column.min() - 1  # two rows, and one in a hundred: an atom at the lower end
    assert len(Cells.of(column).values) == 1


@pytest.mark.parametrize(("rows", "atom"), [(9, False), (10, True)])
def test_an_atom_is_at_an_end_where_one_row_in_a_hundred_lies(rows, atom):
    column = np.random.default_rng(1).normal(size=1000)
    column[:60] = 0.1
    column[60 : 60 + rows] = 50.0
    assert (Cells.of(column) is not None) is atom


@pytest.mark.parametrize("sides", [(0,), (-1,), (0, -1)])
def test_censored_values_represent_a_stretch_outwards_as_wide_as_the_middle_of_the_rest(sides):
    column = np.random.default_rng(1).uniform(0, 1, size=400)
    rest = column[80:] if len(sides) == 2 else column[40:]
    if 0 in sides:
        column[:40] = -0.5
    if -1 in sides:
        column[(40 if len(sides) == 2 else 0) :][:40] = 2.0
    width = np.quantile(rest, 0.75) - np.quantile(rest, 0.25)
    cells = Cells.of(column)
    expected = [(-0.5 - width, -0.5)] * (0 in sides) + [(2.0, 2.0 + width)] * (-1 in sides)
    np.testing.assert_allclose(np.column_stack([cells.lower, cells.upper]), expected)
    np.testing.assert_array_equal(cells.ends(rest)[0], rest)
    np.testing.assert_array_equal(cells.nearest(rest), rest)
    for atom, (lower, upper) in zip(cells.values, expected, strict=True):
        assert cells.nearest(np.array([(lower + upper) / 2]))[0] == atom
        for end, found in zip((lower, upper), cells.ends(np.array([atom])), strict=True):
            assert found[0] == pytest.approx(end)


def test_an_atom_beside_a_rest_that_is_mostly_one_value_is_as_wide_as_the_whole():
    column = np.concatenate([np.zeros(8), np.linspace(1, 4, 18), np.full(55, 5.0), np.geomspace(6, 10, 19)])
    cells = Cells.of(column)
    assert (cells.lower[0], cells.upper[0]) == (-np.ptp(column), 0)
