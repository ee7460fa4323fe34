"""Where parameters were simulated, beyond the range of each by itself."""

import numpy as np
import pytest

from pymc_kbr.arrays.simulated_region import ROWS_AT_ONCE, SimulatedRegion

N = 2_000


def correlated(rng, n):
    return rng.normal(size=(n, 2)) @ np.linalg.cholesky([[1, 0.99], [0.99, 1]]).T


def in_ten_dimensions(rng, n):
    return np.column_stack([correlated(rng, n), rng.normal(size=(n, 8))])


def ordered(rng, n):
    return np.sort(rng.uniform(size=(n, 2)), axis=1)


def heavy_tails(rng, n):
    scale = np.abs(rng.standard_cauchy(size=n))
    return np.column_stack([scale, scale * rng.normal(size=n)])


def bent(rng, n):
    x = rng.normal(size=n)
    return np.column_stack([x, x**2 + 0.1 * rng.normal(size=n)])


def uniform(rng, n):
    return rng.uniform(size=(n, 5))


FAR = {  # within the range of each parameter, and far from all rows
    correlated: [[-2.0, 2.0], [1.0, -1.0]],
    in_ten_dimensions: [[-2.0, 2.0, *8 * [0.0]], [2.0, -1.0, *8 * [0.5]]],
    ordered: [[0.9, 0.1], [0.8, 0.3]],
    heavy_tails: [[0.01, 50.0], [0.02, -20.0]],
    bent: [[0.0, 4.0], [2.0, 0.1]],
}


@pytest.mark.parametrize("law", FAR, ids=lambda law: law.__name__)
def test_what_no_row_is_near_is_not_held(rng, law):
    region = SimulatedRegion.of(law(rng, N))
    far = np.array(FAR[law])
    assert np.all((far > region.ends[0]) & (far < region.ends[1]))
    assert not region.holds(far).any()


@pytest.mark.parametrize("law", [*FAR, uniform], ids=lambda law: law.__name__)
def test_what_was_drawn_as_the_rows_were_is_held(rng, law):
    rows = law(rng, N)
    region = SimulatedRegion.of(rows)
    assert region.holds(rows).all()
    new = law(rng, 5_000)
    # A new draw is the farthest of all, or beyond an end of p parameters, once in (2 p + 1) / (N + 1).
    expected = 5_000 * (2 * rows.shape[1] + 1) / (N + 1)
    assert np.sum(~region.holds(new)) < expected + 5 * (expected + expected**2 / 5) ** 0.5


def test_of_a_single_parameter_and_of_few_values(rng):
    one = SimulatedRegion.of(rng.normal(size=(100, 1)))
    assert one.holds(np.array([[0.0], [9.0], [-9.0]])).tolist() == [True, False, False]
    coin = np.column_stack([rng.integers(0, 2, size=500), rng.normal(size=500), np.full(500, 3.0)])
    region = SimulatedRegion.of(coin)
    assert region.holds(coin).all()
    others = np.array([[0, 0.3, 3.0], [2, 0.3, 3.0], [0, 0.3, 3.1]])
    assert region.holds(others).tolist() == [True, False, False]


def test_a_parameter_that_is_a_function_of_another(rng):
    theta = rng.uniform(1, 2, size=(500, 1))
    region = SimulatedRegion.of(np.hstack([theta, theta**3]))
    new = np.linspace(1.05, 1.95, 20)[:, None]
    assert region.holds(np.hstack([new, new**3])).all()
    assert not region.holds(np.hstack([new, new**3 + 0.8])).any()


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_units_do_not_matter(rng, unit):
    rows, new = correlated(rng, 300), rng.normal(size=(200, 2))
    expected = SimulatedRegion.of(rows).holds(new)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(SimulatedRegion.of(rows * unit).holds(new * unit), expected)


def test_of_more_rows_than_are_held_at_once(rng):
    region = SimulatedRegion.of(bent(rng, 200))
    new = rng.uniform(-3, 3, size=(2 * ROWS_AT_ONCE + 3, 2))
    expected = np.concatenate([region.holds(part) for part in np.array_split(new, 50)])
    np.testing.assert_array_equal(region.holds(new), expected)
