"""Which inputs move the shape of residuals, and how well the moving shape is fitted."""

import numpy as np
import pytest
from scipy.optimize import minimize

from pymc_kbr.estimators.likelihood.conditional_mixture import _maximised, _objective, surprises
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


@pytest.mark.parametrize("seed", range(3))
def test_steps_in_units_of_the_information_come_nearer_to_the_highest_likelihood(seed):
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (3000, 2))
    bumps = 6 * np.exp(-4 * (u[:, :1] - np.linspace(-1, 1, 12)) ** 2)
    phi = np.column_stack([u, bumps])
    upper = rng.random(3000) < 1 / (1 + np.exp(-3 * u[:, 0]))
    noise = rng.normal(size=3000)
    z = np.where(upper, 1 + 0.3 * np.exp(u[:, 1]) * noise, -1 + 0.8 * noise)
    x = np.concatenate([np.zeros(3), [-1, 0, 1], np.log([0.5, 0.5, 0.5]), np.zeros(9 * phi.shape[1])])
    plain = minimize(
        _objective, x, args=(phi, z, 1.0), jac=True, method="L-BFGS-B", options={"maxiter": 60}
    ).fun
    found, best = (_objective(_maximised(x, phi, z, 1.0, iterations=k), phi, z, 1.0)[0] for k in (60, 5000))
    assert best <= found < plain
