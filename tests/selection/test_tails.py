"""Which statistics have heavy tails."""

import numpy as np
import pytest

from pymc_kbr.selection.select import heavy_tailed

RNG = np.random.default_rng(3)
DRAWS = {
    "normal": (RNG.normal(size=4000), False),
    "uniform": (RNG.random(4000), False),
    "Student with five degrees": (RNG.standard_t(5, size=4000), False),
    "log-normal": (np.exp(RNG.normal(size=4000)), True),
    "its mirror image": (-np.exp(RNG.normal(size=4000)), True),
    "Cauchy": (RNG.standard_cauchy(4000), True),
    "constant": (np.full(4000, 3.0), False),
    "mostly one value": (np.where(RNG.random(4000) < 0.1, 9.0, 0.0), False),
}


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_tails_are_heavy_in_any_unit(name, unit):
    column, heavy = DRAWS[name]
    assert heavy_tailed((column * unit)[:, None]).tolist() == [heavy]


@pytest.mark.parametrize("side", [1, -1])
def test_the_limit_is_that_of_either_side(side):
    """Of 1001 rows in even steps quantiles are rows; the width is then 340 steps."""
    rows = np.arange(1001.0)
    for factor, heavy in ((1 + 1e-9, True), (1 - 1e-9, False)):
        moved = rows.copy()
        moved[rows >= 995] = 500 + 6.0 * factor * 340
        assert heavy_tailed((side * moved)[:, None]).tolist() == [heavy]
