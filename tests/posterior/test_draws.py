"""From signed weights to draws, step by step."""

import numpy as np
import pytest

from pymc_kbr.arrays.bijections import Interval, Simplex
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.arrays.weighted import weighted_quantile
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.embedding import mode as mode_of
from pymc_kbr.embedding.projection import project_to_simplex
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior, herd

N = 40
POINTS = np.random.default_rng(0).normal(size=(N, 2))
SIGNED = np.random.default_rng(1).normal(1 / N, 0.03, N)
EVEN = np.full(N, 1 / N)
UNEVEN = np.random.default_rng(2).dirichlet(np.full(N, 0.5))


def make(points=POINTS, weights=SIGNED, support=None, units=None, **settings):
    bandwidth = 0.8 if units is None else tuple(0.8 * units)
    points = points if units is None else points * units
    return Posterior.of(
        Atoms(points, Gaussian(bandwidth)), weights, support or Support.unbounded(points.shape[1]), **settings
    )


def test_moments_of_signed_weights():
    posterior = make()
    np.testing.assert_allclose(posterior.mean(), SIGNED @ POINTS)
    np.testing.assert_allclose(posterior.expectation(lambda t: t**2), SIGNED @ POINTS**2)
    v = project_to_simplex(Embedding(Atoms(POINTS, Gaussian(0.8)), SIGNED))
    np.testing.assert_allclose(posterior.simplex_weights, v)
    centre = v @ POINTS
    expected = sum(w * np.outer(y - centre, y - centre) for w, y in zip(v, POINTS, strict=True))
    np.testing.assert_allclose(posterior.cov(), expected, atol=1e-12)
    np.testing.assert_allclose(posterior.cov(), posterior.cov().T)
    assert np.linalg.eigvalsh(posterior.cov()).min() > 0
    assert posterior.total_weight == pytest.approx(SIGNED.sum())
    assert posterior.negative_share == pytest.approx(-SIGNED[SIGNED < 0].sum() / np.abs(SIGNED).sum())
    assert posterior.effective_sample_size == pytest.approx(SIGNED.sum() ** 2 / (SIGNED**2).sum())


def test_quantiles_of_signed_weights_are_those_of_the_projected_ones():
    posterior = make()
    for q in ([0.1, 0.5, 0.9], np.array([0.0, 1.0])):
        expected = [weighted_quantile(c, posterior.simplex_weights, np.asarray(q)) for c in POINTS.T]
        np.testing.assert_array_equal(posterior.quantile(q), np.column_stack(expected))
    np.testing.assert_array_equal(posterior.quantile(0.3), posterior.quantile([0.3])[0])
    for bad in (-0.1, 1.1, np.nan, [0.5, 2.0]):
        with pytest.raises(ValueError, match=r"lie in \[0, 1\]"):
            posterior.quantile(bad)


@pytest.mark.parametrize("weights", [EVEN, UNEVEN, UNEVEN * (1 + 1e-9)])
def test_probabilities_are_their_own_projection(weights):
    np.testing.assert_allclose(make(weights=weights).simplex_weights, weights / weights.sum(), rtol=1e-14)


@pytest.mark.parametrize("weights", [0.8 * UNEVEN, 1.3 * UNEVEN, np.append(UNEVEN[1:], -1e-3)])
def test_what_is_no_probability_is_projected_in_rkhs_norm(weights):
    posterior = make(weights=weights)
    np.testing.assert_allclose(posterior.simplex_weights, project_to_simplex(posterior.embedding))
    assert not np.allclose(posterior.simplex_weights, np.maximum(weights, 0) / np.maximum(weights, 0).sum())


@pytest.mark.parametrize("draws", [1, 7, 100, 1003])
def test_every_atom_is_resampled_as_often_as_its_weight_says_within_one(draws):
    posterior = make(weights=UNEVEN)
    counts = np.bincount(posterior.resample(draws, np.random.default_rng(3)), minlength=N)
    assert counts.sum() == draws
    assert np.abs(counts - draws * UNEVEN).max() < 1 + 1e-9


def test_resampled_rows_come_in_no_order():
    """Each place of the draws has the posterior's distribution, not only all of them together."""
    posterior = make(weights=UNEVEN)
    rows = np.array([posterior.resample(50, np.random.default_rng(seed)) for seed in range(800)])
    mean = UNEVEN @ np.arange(N)
    deviation = np.sqrt(UNEVEN @ (np.arange(N) - mean) ** 2)
    for place in (0, 24, 49):
        assert abs(rows[:, place].mean() - mean) < 4 * deviation / np.sqrt(800)


def test_the_last_atom_takes_what_rounding_leaves_of_the_sum():
    posterior = make(weights=EVEN)
    vars(posterior)["simplex_weights"] = EVEN * 0.9
    assert posterior.resample(200, np.random.default_rng(0)).max() == N - 1


def test_herded_draws_are_those_of_kernel_herding():
    posterior = make()
    rows = herd(Embedding(Atoms(POINTS, Gaussian(0.8)), posterior.simplex_weights), 15)
    np.testing.assert_array_equal(posterior.herd(15), rows)
    np.testing.assert_array_equal(posterior.draw(15, 0, smoothing="none", herding=True), POINTS[rows])
    resampled = posterior.draw(15, 0, smoothing="none")
    np.testing.assert_array_equal(resampled, POINTS[posterior.resample(15, np.random.default_rng(0))])


def test_a_posterior_is_smoothed_as_it_says_unless_another_way_is_asked_for():
    local, none = make(), make(smoothing="none")
    np.testing.assert_array_equal(local.draw(30, 5), none.draw(30, 5, smoothing="local"))
    np.testing.assert_array_equal(none.draw(30, 5), local.draw(30, 5, smoothing="none"))
    assert not np.array_equal(local.draw(30, 5), local.draw(30, 5, smoothing="global"))
    assert local.settings == {}
    assert local.names is None
    assert make(names=("a", "b")).names == ("a", "b")
    assert local.draw(1, 5).shape == (1, 2)
    assert make(settings={"ridge": 2.0}).settings == {"ridge": 2.0}


@pytest.mark.parametrize("smoothing", ["local", "global"])
def test_draws_have_the_units_of_the_parameters(smoothing):
    units = 2.0 ** np.array([600, -600])  # others turn the noise, whose distribution stays
    plain, scaled = (make(units=u).draw(50, 5, smoothing=smoothing) for u in (None, units))
    np.testing.assert_allclose(scaled / units, plain, rtol=1e-8)


@pytest.mark.parametrize("smoothing", ["local", "global"])
def test_discrete_columns_and_atoms_on_an_edge_stay_what_they_were(smoothing):
    rng = np.random.default_rng(4)
    bounded = rng.uniform(0.1, 0.9, N)
    bounded[:6], bounded[6:9] = 0.0, 1.0
    points = np.column_stack([rng.poisson(3, N), bounded, rng.normal(size=N), np.arange(N)])
    support = Support(4, (Block((0, 3), smooth=False), Block((1,), (Interval((0.0,), (1.0,)),)), Block((2,))))
    posterior = make(points, EVEN, support)
    rows = np.arange(N).repeat(3)
    drawn = posterior.smooth(rows, rng, smoothing)
    np.testing.assert_array_equal(drawn[:, [0, 3]], points[rows][:, [0, 3]])
    edge = np.isin(points[rows, 1], [0.0, 1.0])
    np.testing.assert_array_equal(drawn[edge], points[rows][edge])
    assert (drawn[~edge][:, [1, 2]] != points[rows][~edge][:, [1, 2]]).all()
    assert support.contains(drawn).all()
    # Covariances are those of the atoms inside, as if there were no others.
    inner = make(points[9:], np.full(N - 9, 1 / (N - 9)), support)
    one = posterior.smooth(np.arange(9, N), np.random.default_rng(5), smoothing)
    other = inner.smooth(np.arange(N - 9), np.random.default_rng(5), smoothing)
    np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("smoothing", ["local", "global"])
def test_atoms_inside_are_left_as_they_are_where_all_weight_is_on_the_edges(smoothing):
    support = Support.from_bounds({"a": (0, 1)}, ["a"])
    posterior = make(np.array([[0.0], [0.5], [0.75], [1.0]]), np.array([0.5, 0, 0, 0.5]), support)
    drawn = posterior.smooth(np.array([0, 1, 2, 2]), np.random.default_rng(0), smoothing)
    np.testing.assert_allclose(drawn[:, 0], [0, 0.5, 0.75, 0.75])


def test_discrete_columns_only_are_left_as_they_are():
    points = np.arange(N, dtype=float)[:, None]
    posterior = make(points, EVEN, Support(1, (Block((0,), smooth=False),)))
    np.testing.assert_array_equal(posterior.smooth(np.arange(N), np.random.default_rng(0)), points)


def test_a_simplex_is_smoothed_on_itself():
    points = np.random.default_rng(5).dirichlet(np.ones(3), 200)
    draws = make(points, np.full(200, 1 / 200), Support(3, (Block((0, 1, 2), (Simplex(),)),))).draw(500, 1)
    np.testing.assert_allclose(draws.sum(axis=1), 1)
    assert draws.min() >= 0
    assert not np.isin(draws[:, 0], points[:, 0]).any()


def test_the_mode_is_that_of_a_kernel_of_half_a_deviation():
    posterior = make(weights=UNEVEN)
    for share in (0.5, 2.0):
        width = share * np.sqrt(np.diag(posterior.cov()))
        expected = mode_of(Embedding(Atoms(POINTS, Gaussian(tuple(width))), UNEVEN))
        chosen = posterior.mode() if share == 0.5 else posterior.mode(bandwidth=share)
        np.testing.assert_allclose(chosen, expected, rtol=1e-10)
    starts = posterior.mode(starts=40, bandwidth=0.05)
    seen = Embedding(Atoms(POINTS, Gaussian(tuple(0.05 * np.sqrt(np.diag(posterior.cov()))))), UNEVEN)
    assert seen(starts[None])[0] >= seen(posterior.mode(starts=1, bandwidth=0.05)[None])[0]


def test_without_a_bandwidth_the_mode_is_that_of_the_embedding():
    posterior = make()
    np.testing.assert_array_equal(posterior.mode(bandwidth=None), mode_of(posterior.embedding))


def test_a_mode_outside_the_support_is_replaced_by_the_heaviest_atom():
    """Two peaks on the circle's ends, and a support that leaves out what is between them."""
    points = np.array([[-1.0], [-0.9], [1.0]])
    holes = Support.unbounded(1)
    posterior = make(points, np.array([0.3, 0.3, 0.4]), holes)
    inside = posterior.mode()
    object.__setattr__(posterior, "support", Support.from_bounds({"a": (0.5, None)}, ["a"]))
    assert not posterior.support.contains(inside[None])[0]
    assert posterior.mode().tolist() == [1.0]


def test_the_covariance_of_huge_parameters_is_in_their_units():
    units = np.array([1e150, 1e-150])
    np.testing.assert_allclose(make(units=units).cov() / np.outer(units, units), make().cov(), rtol=1e-9)


def test_draws_beyond_all_numbers_are_counted_and_refused():
    points = POINTS.copy()
    points[:6, 0], points[6, 1] = np.inf, np.nan
    with pytest.raises(ValueError, match=r"^7 of 40 atoms that carry weight are infinite or no numbers"):
        make(points, EVEN).draw(500, 0)
    without = np.where(np.arange(N) < 7, 0, EVEN * N / (N - 7))
    assert np.isfinite(make(points, without).draw(50, 0, smoothing="none")).all()
    # Atoms at 1e308 are numbers, and what noise makes of some of them is none.
    positive = Support.from_bounds({"a": (0, None)}, ["a"])
    far = np.exp(np.linspace(700, 709.7, N))[:, None]
    with np.errstate(over="ignore"):
        broken = np.isinf(make(far, EVEN, positive).smooth(np.arange(N).repeat(12), np.random.default_rng(0)))
    assert 0 < broken.sum() < len(broken)
    with pytest.raises(ValueError, match=r"^[1-9]\d* of 500 draws are infinite or no numbers.*zoom"):
        make(far, EVEN, positive).draw(500, 0)


def test_covariances_that_no_float_holds_are_refused_by_the_columns():
    wide = make(units=np.array([1.0, 1e160]))
    with pytest.raises(ValueError, match=r"^parameters in columns \[1\] go up to .*e\+160, .*larger units"):
        wide.cov()
    assert np.isfinite(wide.quantile([0.1, 0.9])).all()
    assert np.isfinite(wide.mode()).all()
