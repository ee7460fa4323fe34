"""Statistics that are integrated out of a learned likelihood."""

import numpy as np
import pytest
from scipy.integrate import simpson

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.evaluation import MarginalLocationScale

LOADINGS = np.array([[1.0, 0.0], [0.3, 1.0], [1.0, 1.0]])
N = 700


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    theta = rng.normal(size=(N, 2))
    spread = np.exp(0.3 * theta[:, :1])
    noise = rng.normal(size=(N, 3)) @ np.array([[1.0, 0.4, 0.0], [0.0, 0.7, -0.3], [0.0, 0.0, 0.6]])
    skewed = noise[:, [2]] + 0.5 * rng.exponential(size=(N, 1))
    return theta, theta @ LOADINGS.T + spread * np.hstack([noise[:, :2], skewed])


@pytest.fixture(scope="module")
def fitted(rows):
    return pk.KernelLikelihood("location_scale", particles=300, scale=False).fit(*rows, random_seed=1)


@pytest.mark.parametrize("kept", [[1], [0, 2], [1, 2]])
def test_density_is_the_integral_of_the_whole_one(fitted, kept):
    """By Simpson's rule over the statistics that are left out."""
    form = fitted.form_
    described = form.describe(np.array([[0.3, -0.5], [-1.0, 0.8]]))
    at = np.array([0.4, -0.2, 0.7])
    missing = [i for i in range(3) if i not in kept]
    axis = np.linspace(-30, 30, 401)
    grid = np.stack(np.meshgrid(*[axis] * len(missing), indexing="ij"), axis=-1).reshape(-1, len(missing))
    points = np.tile(at, (len(grid), 1))
    points[:, missing] = grid
    densities = np.exp(form.log_density(described, points[None])).reshape(2, *[401] * len(missing))
    for _ in missing:
        densities = simpson(densities, x=axis, axis=-1)
    found = MarginalLocationScale(form, np.array(kept)).log_density(described, at[kept][None, None])
    np.testing.assert_allclose(np.exp(found[:, 0]), np.ravel(densities), rtol=1e-5)


def test_draws_are_distributed_as_it_says(fitted):
    marginal = MarginalLocationScale(fitted.form_, np.array([2, 0]))
    described = np.repeat(marginal.describe(np.array([[0.5, 0.2]])), 20_000, axis=0)
    drawn = marginal.draw(described, np.random.default_rng(3))
    uniform = marginal.transforms(described, drawn)
    # Means, variances and the covariance of uniform numbers, within five standard errors.
    np.testing.assert_allclose(uniform.mean(axis=0), 0.5, atol=5 * np.sqrt(1 / 12 / 20_000))
    np.testing.assert_allclose(uniform.var(axis=0), 1 / 12, atol=5 * np.sqrt(1 / 180 / 20_000))
    assert abs(np.cov(uniform.T)[0, 1]) < 5 / 12 / np.sqrt(20_000)


def test_gaps_are_integrated_out_and_nothing_is_fitted(rows, monkeypatch):
    counts = np.random.default_rng(1).poisson(np.exp(0.3 * rows[0][:, :1] + 1)).astype(float)
    constant = np.full((N, 1), 3.0)
    x = np.hstack([rows[1], counts, constant])
    with pytest.warns(UserWarning, match="constant"):
        fitted = pk.KernelLikelihood("location_scale", particles=1000).fit(rows[0], x, random_seed=1)
    monkeypatch.setattr(pk.KernelLikelihood, "_fit", None)
    observed = x[7].copy()
    observed[[0, 4]] = np.nan
    posterior = fitted.condition(observed)
    assert posterior.statistics == ("1", "2", "3")
    alone = fitted.marginal(np.array([1, 2, 3]))
    np.testing.assert_array_equal(alone.condition(observed[[1, 2, 3]]).atoms, posterior.atoms)
    # Which statistic holds least of all is a number among all.
    assert hasattr(fitted, "transforms_worst_")
    assert not hasattr(alone, "transforms_worst_")
    # The weights of rows, by the density itself.
    logs = np.array([alone.log_likelihood(rows[0], observed[[1, 2, 3]])])[0]
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean, error = weights @ rows[0], np.sqrt(weights @ rows[0] ** 2 / np.sum(1 / np.sum(weights**2)))
    assert np.all(np.abs(posterior.mean() - mean) < 5 * error)


@pytest.fixture(scope="module")
def autoregressive(rows):
    fitted = pk.KernelLikelihood("autoregressive", particles=300, scale=False)
    return fitted.fit(rows[0][:300], rows[1][:300], random_seed=1)


@pytest.mark.parametrize("kept", [[0], [0, 1]])
def test_last_ones_of_an_autoregression_are_integrated_out(autoregressive, kept):
    """By Simpson's rule over the statistics that are left out, which come after."""
    form = autoregressive.form_
    theta = form.describe(np.array([[0.3, -0.5], [-1.0, 0.8]]))
    at, axis = np.array([0.4, -0.2, 0.7]), np.linspace(-15, 15, 101)
    grid = np.stack(np.meshgrid(*[axis] * (3 - len(kept)), indexing="ij"), axis=-1)
    points = np.tile(at, (grid[..., 0].size, 1))
    points[:, len(kept) :] = grid.reshape(len(points), -1)
    densities = np.exp(form.log_density(theta, points[None])).reshape(2, *grid.shape[:-1])
    for _ in range(3 - len(kept)):
        densities = simpson(densities, x=axis, axis=-1)
    alone = autoregressive.marginal(np.array(kept))
    found = alone.form_.log_density(theta, at[kept][None, None])
    np.testing.assert_allclose(np.exp(found[:, 0]), np.ravel(densities), rtol=1e-4)
    missing = np.where(np.isin(np.arange(3), kept), at, np.nan)
    np.testing.assert_array_equal(alone.condition(at[kept]).atoms, autoregressive.condition(missing).atoms)
    assert alone.draw_statistics(np.zeros((2, 2)), 1).shape == (2, len(kept))


def test_a_series_ends_sooner(rows):
    rng = np.random.default_rng(2)
    x = np.cumsum(rows[0][:300, :1] + rng.normal(size=(300, 8)), axis=1)
    fitted = pk.KernelLikelihood("autoregressive", scale=False).for_scores()
    fitted.fit(rows[0][:300], x, random_seed=1)
    assert fitted.form_.series is not None
    alone = fitted.marginal(np.arange(6)).form_
    theta, points = fitted.form_.describe(rows[0][:20]), x[:20]
    # Its distribution functions of the first values are those of the whole.
    np.testing.assert_allclose(
        alone.transforms(theta, points[:, :6]), fitted.form_.transforms(theta, points)[:, :6], rtol=1e-12
    )
    assert fitted.marginal(np.array([0, 1, 2, 4])) is None


def test_others_are_fitted_again(autoregressive, rows):
    assert autoregressive.marginal(np.array([1, 2])) is None
    of_summaries = pk.KernelLikelihood("location_scale", particles=100, scale="posterior_mean")
    assert of_summaries.fit(rows[0][:300], rows[1][:300]).marginal(np.array([0, 1])) is None
