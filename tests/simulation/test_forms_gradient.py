"""Forms written with PyTensor: the same numbers as with NumPy, and their gradient."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pymc_kbr.estimators.likelihood.autoregressive import fit_autoregressive
from pymc_kbr.estimators.likelihood.conditional_mixture import ConditionalMixture
from pymc_kbr.estimators.likelihood.diagonal_scale import fit_diagonal_scale
from pymc_kbr.estimators.likelihood.exchangeable import fit_exchangeable
from tests.models import AS_WRITTEN


@pytest.fixture(scope="module", params=[2, 8, 9, 11])
def fitted(request):
    """Shapes that move with a parameter, of two conditionals and of eight at once; then draws of one law.

    These have heavy tails, or are censored at both ends.
    """
    rng = np.random.default_rng(5)
    if request.param > 8:
        theta = rng.uniform(-1, 1, size=(600, 2))
        noise = rng.standard_cauchy(size=(600, 9)) if request.param == 9 else rng.normal(size=(600, 10))
        x = theta[:, :1] + np.exp(theta[:, 1:]) * noise
        if request.param == 11:
            form = fit_exchangeable(theta, np.sort(np.clip(x, -1, 2), axis=1), rng)
            assert form.masses.size == 2
            return form, theta[:2], np.sort(np.clip(x, -1, 2), axis=1)[:6].reshape(2, 3, -1)
        form = fit_exchangeable(theta, x, rng)
        assert form.units.bent
        return form, theta[:2], x[:6].reshape(2, 3, -1)
    if request.param == 8:
        theta = rng.uniform(-1, 1, size=(600, 2))
        shapes = np.exp(-2 * theta[:, :1])
        x = theta @ rng.normal(size=(2, 8)) + (rng.gamma(shapes, size=(600, 8)) - shapes) / np.sqrt(shapes)
        form = fit_diagonal_scale(theta, x, rng, landmarks=50)
        assert isinstance(form.law, ConditionalMixture)
        return form, theta[:2], rng.normal(size=(2, 3, 8))
    theta, x = rng.uniform(-1, 1, size=(600, 2)), np.zeros((600, 2))
    for j in range(2):
        x[:, j] = theta[:, 1] + np.where(rng.random(600) < 0.5, -1, 1) * (1 + theta[:, 0])
        x[:, j] += 0.3 * rng.normal(size=600)
    return fit_autoregressive(theta, x, rng), theta[:2], rng.normal(size=(2, 3, request.param))


def test_both_namespaces_agree(fitted):
    form, theta, points = fitted
    symbols = pt.dmatrix("theta"), pt.dtensor3("points")
    logs = form.log_density(form.describe(symbols[0], pt), symbols[1], pt)
    expected = form.log_density(form.describe(theta), points)
    found = logs.eval({symbols[0]: theta, symbols[1]: points}, mode=AS_WRITTEN)
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    fixed = form.log_density(form.describe(symbols[0], pt), points[:1], pt).eval(
        {symbols[0]: theta}, mode=AS_WRITTEN
    )
    np.testing.assert_allclose(
        fixed, form.log_density(form.describe(theta), points[:1]), rtol=1e-8, atol=1e-8
    )


def test_the_gradient_is_that_of_finite_differences(fitted):
    form, theta, points = fitted
    symbol = pt.dmatrix("theta")
    total = form.log_density(form.describe(symbol, pt), points, pt).sum()
    found = pytensor.grad(total, symbol).eval({symbol: theta}, mode=AS_WRITTEN)
    step = 1e-5
    for i in range(theta.shape[1]):
        up, down = theta.copy(), theta.copy()
        up[:, i] += step
        down[:, i] -= step
        higher, lower = (form.log_density(form.describe(at), points).sum(axis=1) for at in (up, down))
        numeric = (higher - lower) / (2 * step)
        np.testing.assert_allclose(found[:, i], numeric, rtol=1e-5, atol=1e-5)
