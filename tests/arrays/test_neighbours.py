import numpy as np
import pytest

from pymc_kbr.arrays.neighbours import Tree, nearest


@pytest.mark.parametrize("count", [1, 40, 700, 3999, 4000])
def test_the_nearest_are_those_of_a_full_sort(count):
    squares = np.random.default_rng(0).gamma(2.0, size=4000)
    found = nearest(squares, count)
    assert sorted(squares[found]) == sorted(squares)[:count]
    assert len(set(found.tolist())) == count


def test_an_edge_that_is_guessed_too_near_is_found_among_all():
    """Every sixteenth number is small, so the guess is far too small for a thousand of them."""
    squares = 1 + np.random.default_rng(0).random(8000)
    squares[::16] = 0.0
    assert set(squares[nearest(squares, 1000)]) == {0.0, *np.sort(squares[squares > 0])[:500]}


def test_many_and_few_neighbours_are_the_same_ones():
    """Few are asked of the tree, many are measured."""
    rng = np.random.default_rng(1)
    points, x = rng.normal(size=(4000, 3)), rng.normal(size=(5, 3))
    tree = Tree(points)
    few = 4000 // 20
    distances, rows = tree.query(x, few)
    measured, all_rows = tree.query(x, 4000)
    np.testing.assert_array_equal(all_rows[:, :few], rows)
    np.testing.assert_allclose(measured[:, :few], distances, rtol=1e-12)


def test_of_many_columns_neighbours_are_those_of_the_tree():
    """A tree of many columns looks at every row: distances by one product of matrices are the same ones."""
    rng = np.random.default_rng(4)
    points = np.round(rng.normal(size=(2000, 40)), 1)
    points[100:140] = points[:40]  # ties, of which the first row counts
    x = np.vstack([points[:5], rng.normal(size=(5, 40))])
    by_product, by_tree = Tree(points, 9), Tree(points, 9, most_for_a_tree=40)
    assert by_product._tree is None
    distances, rows = by_product.query(x, 9)
    expected, same = by_tree.query(x, 9)
    np.testing.assert_allclose(distances, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(np.sort(rows[5:]), np.sort(same[5:]))
    np.testing.assert_array_equal(rows[:5, :2], np.column_stack([np.arange(5), np.arange(100, 105)]))


def test_what_is_too_far_for_its_square_is_at_infinity_in_any_number_of_columns():
    points = np.random.default_rng(5).normal(size=(400, 20))
    x = points[:2].copy()
    x[0, 0] = 1e200
    distances, rows = Tree(points, 6).query(x, 6)
    assert np.isinf(distances[0]).all()
    assert len(set(rows[0].tolist())) == 6
    assert rows[1, 0] == 1
