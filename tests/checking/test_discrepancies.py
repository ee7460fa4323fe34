"""Discrepancies between sets of a predictive check, against double sums."""

import numpy as np
import pytest

from pymc_kbr.checking.predictive_check import squared_discrepancies
from pymc_kbr.kernels import Gaussian, median_heuristic

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("unit", [1.0, 1e200])
def test_squared_discrepancies_are_double_sums_of_scaled_sets(unit):
    sets = [RNG.normal(shift, 1, size=(m, 2)) for shift, m in ((0.0, 8), (1.0, 11), (0.3, 5))]
    made = squared_discrepancies([points * [unit, 3.0] for points in sets])
    together = np.vstack(sets)
    scaled = [points / together.std(axis=0) for points in sets]
    kernel = Gaussian(median_heuristic(together / together.std(axis=0)))
    for i, one in enumerate(scaled):
        for j, other in enumerate(scaled):
            expected = kernel(one).mean() + kernel(other).mean() - 2 * kernel(one, other).mean()
            assert made[i, j] == pytest.approx(expected, abs=1e-10)


def test_columns_that_do_not_vary_add_nothing_to_a_discrepancy():
    sets = [RNG.normal(size=(6, 1)) for _ in range(2)]
    widened = [np.column_stack([points, np.full(6, 9.0)]) for points in sets]
    np.testing.assert_allclose(squared_discrepancies(widened), squared_discrepancies(sets))
