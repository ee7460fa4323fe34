import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.arrays.weighted import weighted_quantile
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.projection import onto_simplex, project_to_simplex
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior


def make(points, weights, bandwidth=0.5, support=None):
    points = np.asarray(points, dtype=float)
    support = support or Support.unbounded(points.shape[1])
    return Posterior.of(Atoms(points, Gaussian(bandwidth)), np.asarray(weights, dtype=float), support)


@pytest.fixture
def signed(rng):
    """Signed weights of sum one whose embedding is that of a normal sample, but for noise."""
    points = rng.normal(size=(150, 2))
    weights = rng.normal(scale=0.01, size=150) + 1 / 150
    return make(points, weights / weights.sum())


def test_expectations_are_weighted_sums_of_signed_weights():
    posterior = make([[1.0], [2.0], [4.0]], [0.5, 0.75, -0.25])
    assert posterior.mean() == pytest.approx([1.0])
    assert posterior.expectation(lambda t: t[:, 0] ** 2) == pytest.approx(-0.5)
    assert posterior.negative_share == pytest.approx(0.25 / 1.5)
    assert posterior.effective_sample_size == pytest.approx(1 / 0.875)
    assert posterior.total_weight == pytest.approx(1.0)


def test_weights_are_never_changed(signed):
    before = signed.weights.copy()
    signed.draw(10, 0), signed.quantile(0.5), signed.mode()
    np.testing.assert_array_equal(signed.weights, before)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=30))
def test_projection_onto_the_simplex_is_the_nearest_point(values):
    w = np.array(values)
    v = onto_simplex(w)
    assert v.min() >= 0
    assert v.sum() == pytest.approx(1.0)
    # Optimality: w - v - t is at most 0, and 0 where v is positive, for one number t.
    gap = w - v
    t = gap[v > 0].mean()
    np.testing.assert_allclose(gap[v > 0], t, atol=1e-9)
    assert np.all(gap[v == 0] <= t + 1e-9)


def test_projection_in_rkhs_norm_is_optimal(rng):
    points, weights = rng.normal(size=(12, 2)), rng.normal(size=12)
    embedding = Embedding(Atoms(points, Gaussian(0.7)), weights / weights.sum())
    gram = Gaussian(0.7)(points)

    def distance(v):
        return (v - embedding.weights) @ gram @ (v - embedding.weights)

    v = project_to_simplex(embedding, iterations=5000, tolerance=0)
    best = minimize(
        distance,
        np.full(12, 1 / 12),
        bounds=[(0, None)] * 12,
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert v.min() >= 0
    assert v.sum() == pytest.approx(1.0)
    assert distance(v) <= best.fun * (1 + 1e-5)


def test_projection_leaves_a_probability_vector_alone(rng):
    v = rng.dirichlet(np.ones(30))
    embedding = Embedding(Atoms(rng.normal(size=(30, 1)), Gaussian(0.3)), v)
    np.testing.assert_allclose(project_to_simplex(embedding), v, atol=1e-12)


def test_large_and_small_sets_of_atoms_have_the_same_projections(rng):
    points, weights = rng.normal(size=(150, 2)), rng.normal(scale=0.02, size=150) + 1 / 150
    exact = project_to_simplex(Embedding(Atoms(points, Gaussian(0.8)), weights), 2000, 0)
    factored = project_to_simplex(Embedding(Atoms(points, Gaussian(0.8), most_exact=10), weights), 2000, 0)
    gram = Gaussian(0.8)(points)
    distances = [(v - weights) @ gram @ (v - weights) for v in (exact, factored)]
    assert distances[1] == pytest.approx(distances[0], rel=0.02)


def test_the_mode_of_a_normal_sample_is_its_centre():
    rng = np.random.default_rng(3)
    points = rng.normal([1.0, -2.0], [1.0, 2.0], size=(4000, 2))
    mode = make(points, np.full(4000, 1 / 4000), bandwidth=(1.0, 2.0)).mode()
    # A kernel estimate's mode has a deviation of about n^(-1/2) at a bandwidth of one deviation.
    assert np.abs(mode - [1.0, -2.0]).max() < 0.25


def test_the_mode_takes_the_higher_of_two_peaks(rng):
    points = np.concatenate([rng.normal(-3, 0.3, 300), rng.normal(3, 0.3, 300)])[:, None]
    weights = np.repeat([0.4, 0.6], 300) / 300
    assert make(points, weights, 0.3).mode() == pytest.approx([3.0], abs=0.15)
    assert make(points, weights[::-1], 0.3).mode() == pytest.approx([-3.0], abs=0.15)


def test_quantiles_of_equal_weights_are_those_of_the_sample():
    values = np.arange(101.0)
    levels = np.array([0.05, 0.5, 0.95])
    expected = np.quantile(values, levels, method="hazen")
    np.testing.assert_allclose(weighted_quantile(values, np.full(101, 1 / 101), levels), expected)


def test_a_quantile_skips_atoms_without_weight():
    posterior = make([[0.0], [1.0], [100.0]], [0.5, 0.5, 0.0])
    assert posterior.quantile(0.99)[0] <= 1.0
    assert posterior.quantile([0.1, 0.9]).shape == (2, 1)
    with pytest.raises(ValueError, match=r"probabilities lie in \[0, 1\]"):
        posterior.quantile(1.5)


def test_draws_keep_mean_and_covariance(rng):
    points = rng.multivariate_normal([1.0, 2.0], [[1.0, 0.8], [0.8, 1.0]], size=300)
    posterior = make(points, np.full(300, 1 / 300))
    draws = posterior.draw(100_000, 5)
    # Monte Carlo deviation of a variance of one from 100,000 draws is 0.0045.
    np.testing.assert_allclose(draws.mean(axis=0), posterior.mean(), atol=0.02)
    np.testing.assert_allclose(np.cov(draws.T), posterior.cov(), atol=0.02)


def test_draws_stay_inside_the_support_and_discrete_ones_stay_whole(rng):
    support = Support(2, (Block((0,), (Interval((0.0,), (1.0,)),)), Block((1,), smooth=False)))
    points = np.column_stack([rng.beta(0.3, 0.3, 200), rng.poisson(2, 200)])
    draws = make(points, np.full(200, 1 / 200), support=support).draw(5000, rng)
    assert draws[:, 0].min() >= 0
    assert draws[:, 0].max() <= 1
    assert len(np.unique(draws[:, 0])) == 5000
    np.testing.assert_array_equal(draws[:, 1], np.rint(draws[:, 1]))


def test_one_atom_gives_draws_of_that_atom():
    assert np.unique(make([[2.0]], [1.0]).draw(7, 0)).tolist() == [2.0]


def test_the_seed_decides_the_draws(signed):
    np.testing.assert_array_equal(signed.draw(50, 1), signed.draw(50, np.random.default_rng(1)))
    assert not np.array_equal(signed.draw(50, 1), signed.draw(50, 2))


@pytest.mark.parametrize("draws", [0, -1, 2.5, "many", True])
def test_bad_numbers_of_draws_are_refused(signed, draws):
    with pytest.raises(ValueError, match="whole number of at least 1"):
        signed.draw(draws)
