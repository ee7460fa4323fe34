"""Where parameters were simulated, beyond the range of each by itself."""

import numpy as np
import pytest

from pymc_kbr.estimators.kernel_likelihood import SimulatedRegion

N = 4_000


def correlated(rng, n):
    return rng.normal(size=(n, 2)) @ np.linalg.cholesky([[1, 0.99], [0.99, 1]]).T


def in_ten_dimensions(rng, n):
    return np.column_stack([correlated(rng, n), rng.normal(size=(n, 8))])


def ordered(rng, n):
    return np.sort(rng.uniform(size=(n, 2)), axis=1)


def five_ordered(rng, n):
    return np.sort(rng.uniform(size=(n, 5)), axis=1)


def heavy_tails(rng, n):
    scale = np.abs(rng.standard_cauchy(size=n))
    return np.column_stack([scale, scale * rng.normal(size=n)])


def bent(rng, n):
    x = rng.normal(size=n)
    return np.column_stack([x, x**2 + 0.1 * rng.normal(size=n)])


def with_outliers(rng, n):
    rows = correlated(rng, n)
    rows[: n // 2000] *= [1, -1]
    return rows


def uniform(rng, n):
    return rng.uniform(size=(n, 5))


def ten_normals(rng, n):
    return rng.normal(size=(n, 10))


def simplex(rng, n):
    return rng.dirichlet(np.ones(4), size=n)


def switch(rng, n):
    return np.column_stack([rng.integers(0, 2, size=n), rng.normal(size=n)])


FAR = {  # within the range of each parameter, and far from all rows
    correlated: [[-2.0, 2.0], [1.0, -1.0]],
    in_ten_dimensions: [[-2.0, 2.0, *8 * [0.0]], [2.0, -1.0, *8 * [0.5]]],
    ordered: [[0.9, 0.1], [0.8, 0.3]],
    five_ordered: [[0.7, 0.6, 0.5, 0.4, 0.3], [0.2, 0.3, 0.8, 0.4, 0.9]],
    heavy_tails: [[0.01, 50.0], [0.02, -20.0]],
    bent: [[0.0, 4.0], [2.0, 0.1]],
    with_outliers: [[1.5, -1.0], [-1.0, 1.0]],
}
LAWS = [*FAR, uniform, ten_normals, simplex, switch]


def name(law):
    return law.__name__


@pytest.mark.parametrize("law", FAR, ids=name)
def test_what_no_row_is_near_is_not_held(rng, law):
    region = SimulatedRegion.of(law(rng, N))
    far = np.array(FAR[law])
    assert np.all((far > region.ends[0]) & (far < region.ends[1]))
    assert not region.holds(far).any()


@pytest.mark.parametrize("law", LAWS, ids=name)
def test_what_was_drawn_as_the_rows_were_is_held(rng, law):
    n = 200 if law in (ordered, uniform, switch) else N
    rows = law(rng, n)
    region = SimulatedRegion.of(rows)
    assert region.holds(rows).mean() >= 0.999
    new = law(rng, 5_000)
    in_range = np.all((new >= region.ends[0]) & (new <= region.ends[1]), axis=1)
    # What is beyond one row in a thousand and, of few rows, beyond the farthest of them.
    share = 1 - 0.999 + 2 / n
    refused = np.sum(in_range & ~region.holds(new))
    assert refused <= 5_000 * share + 4 * np.sqrt(5_000 * share)


def test_several_simulations_of_the_same_parameters(rng):
    once = rng.normal(size=(400, 2))
    region = SimulatedRegion.of(np.repeat(once, 10, axis=0))
    inside = once.mean(axis=0) + rng.uniform(-1, 1, size=(500, 2))
    assert region.holds(inside).all()


@pytest.mark.parametrize(("p", "times"), [(1, 10), (2, 1), (3, 10)])
def test_between_the_points_of_a_grid(rng, p, times):
    points = np.stack(np.meshgrid(*p * [np.linspace(0, 4, 6)]), axis=-1).reshape(-1, p)
    region = SimulatedRegion.of(np.repeat(points, times, axis=0))
    assert region.holds(rng.uniform(0, 4, size=(500, p))).all()


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_discrete_parameters_that_depend_on_each_other(seed):
    k = np.random.default_rng(seed).integers(0, 4, size=(2000, 1))
    rows = np.column_stack([k, 3 - k, k / 10])
    region = SimulatedRegion.of(rows)
    assert region.holds(rows).all()
    assert all(region.holds(row[None])[0] for row in np.unique(rows, axis=0))


def test_of_a_single_parameter_and_of_few_values(rng):
    one = SimulatedRegion.of(rng.normal(size=(100, 1)))
    assert one.holds(np.array([[0.0], [9.0], [-9.0]])).tolist() == [True, False, False]
    coin = np.column_stack([rng.integers(0, 2, size=500), rng.normal(size=500), np.full(500, 3.0)])
    region = SimulatedRegion.of(coin)
    others = np.array([[0, 0.3, 3.0], [2, 0.3, 3.0], [0, 0.3, 3.1], [0, np.nan, 3.0]])
    assert region.holds(others).tolist() == [True, False, False, False]


@pytest.mark.parametrize("p", [1, 3])
def test_of_parameters_that_are_all_constant(p):
    region = SimulatedRegion.of(np.full((100, p), 2.0))
    assert region.holds(np.array([p * [2.0], p * [2.1]])).tolist() == [True, False]


def test_units_do_not_matter(rng):
    rows, new = correlated(rng, 300), rng.normal(size=(200, 2))
    expected = SimulatedRegion.of(rows).holds(new)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(SimulatedRegion.of(1e8 * rows).holds(1e8 * new), expected)


def test_of_more_rows_than_are_held_at_once(rng):
    region = SimulatedRegion.of(bent(rng, 200))
    new = rng.uniform(-3, 3, size=(20_003, 2))
    expected = np.concatenate([region.holds(part) for part in np.array_split(new, 50)])
    np.testing.assert_array_equal(region.holds(new), expected)
