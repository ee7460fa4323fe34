"""Which inputs move the shape of residuals."""

import numpy as np

from pymc_kbr.estimators.likelihood.conditional_mixture import surprises
from pymc_kbr.estimators.likelihood.normal_mixture import fit_parts
from pymc_kbr.estimators.likelihood.smooth_function import Inputs


def test_what_moves_two_groups_in_opposite_directions_shows():
    rng = np.random.default_rng(2)
    n = 4000
    group, u, other = (rng.random(n) < 0.5).astype(float), rng.normal(size=n), rng.normal(size=n)
    skewed = rng.gamma(2, size=n)
    sign = np.where((group > 0) == (u > 0), 1.0, -1.0)
    z = sign * (skewed - 2) / np.sqrt(2)
    inputs = Inputs(np.column_stack([u, other]), group[:, None])
    found = surprises(fit_parts(z, 3, rng), inputs, z)
    assert found[0] > 5.0
    assert found[2] > 5.0
    assert found[1] < 5.0
