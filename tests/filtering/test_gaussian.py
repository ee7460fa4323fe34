"""The belief by its moments, its choice, doubt by time, and a bounded step back."""

import pickle
import warnings

import numpy as np
import pytest

from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.filtering.fitted import Surroundings
from pymc_kbr.filtering.gaussian import Moments, as_step, merged, normal_atoms, sigma_points
from pymc_kbr.posterior.posterior import PosteriorWarning
from tests.filtering.problems import fixed, kalman, scalar_model, turning

pytestmark = pytest.mark.filterwarnings("ignore::pymc_kbr.posterior.posterior.PosteriorWarning")
N, STEPS = 400, 200


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(5)
    z, x = scalar_model(N, rng)
    fresh, seen = scalar_model(STEPS, rng)
    return KernelBayesFilter().fit(z, x, random_seed=0), fresh[:, 0], seen


@pytest.mark.parametrize(("kind", "place"), [("filter", 0), ("smooth", 1)])
def test_errors_and_bands_are_those_of_kalmans_filter(kind, place, linear):
    kbf, truth, seen = linear
    exact = kalman(seen)[place]
    found = getattr(kbf, kind)(seen)
    error, least = (np.mean((means - truth) ** 2) for means in (found.mean()[:, 0], exact[:, 0]))
    # some six coefficients of N rows, and their share of the error
    assert error < least * (1 + 2 * np.sqrt(6 / N))
    width = np.ptp(found.interval(0.9)[:, :, 0], axis=1) / (2 * 1.6449 * np.sqrt(exact[:, 1]))
    # two deviations, of N errors each
    assert abs(width.mean() - 1) < 4 / np.sqrt(2 * N)


def test_the_smoother_is_better_than_the_filter_and_ends_where_it_does(linear):
    kbf, truth, seen = linear
    filtered, smoothed = kbf.filter(seen), kbf.smooth(seen)
    assert np.mean((smoothed.mean()[:, 0] - truth) ** 2) < np.mean((filtered.mean()[:, 0] - truth) ** 2)
    np.testing.assert_allclose(smoothed.mean()[-1], filtered.mean()[-1])


def test_streams_predictions_and_gaps_are_steps_of_the_same_recursion(linear):
    kbf, _, seen = linear
    gaps = seen[:12].copy()
    gaps[8:] = np.nan
    found = kbf.filter(gaps)
    np.testing.assert_allclose(found.mean()[8:], kbf.predict(4, found[7]).mean())
    np.testing.assert_allclose(found.cov()[8:], kbf.predict(4, found[7]).cov())
    belief = None
    for row in gaps[:8]:
        belief = kbf.step(belief, row)
    np.testing.assert_allclose(belief.mean(), found[7].mean())
    ahead = kbf.filter(gaps[4:8], initial=found[3])
    np.testing.assert_allclose(ahead.mean(), found.mean()[4:8])


def test_weights_are_still_those_of_the_equations(linear):
    kbf, _, seen = linear
    z, x = scalar_model(N, np.random.default_rng(5))
    plain = KernelBayesFilter(correction=False).fit(z, x, random_seed=0)
    assert kbf.filter(seen).moments is not None
    assert plain.filter(seen).moments is None
    np.testing.assert_array_equal(kbf.filter(seen[:20]).weights, plain.filter(seen[:20]).weights)


@pytest.mark.parametrize("value", [3.0, 5.0, 8.0, 50.0])
def test_beyond_the_training_means_go_on_bands_widen_and_a_warning_says_so(value, linear):
    kbf, _, seen = linear
    far = np.full((30, 1), value)
    with pytest.warns(PosteriorWarning, match=r"of 30 steps \(\d+%\) are unreliable"):
        found = kbf.filter(far)
    exact = kalman(far)[0][-1]
    low, high = found.interval(0.9)[-1, :, 0]
    assert low < exact[0] < high
    assert high - low > np.ptp(kbf.filter(seen).interval(0.9)[-1])
    assert found.flags["outside"][-1]
    assert len(found.warnings) == 1


def test_weights_beyond_the_training_are_those_of_the_prediction_where_they_were_chosen(linear, monkeypatch):
    monkeypatch.setattr("pymc_kbr.filtering.filter.applies", lambda training: False)
    z, x = scalar_model(N, np.random.default_rng(5))
    kbf = KernelBayesFilter().fit(z, x, random_seed=0)
    assert kbf.filter(x[:3]).moments is None
    monkeypatch.undo()
    monkeypatch.setattr("pymc_kbr.filtering.smoothing.is_better", lambda squares, than: True)
    chosen = KernelBayesFilter().fit(z, x, random_seed=0)
    rows = x[:4].copy()
    rows[3] = 50.0
    found = chosen.filter(rows)
    assert found.moments is None
    np.testing.assert_array_equal(found.weights[3], chosen.predict(1, found[2]).weights[0])


@pytest.mark.parametrize(("ridge", "correction"), [(1e-6, None), (1e-9, False)])
def test_a_step_back_cannot_grow_and_a_smoother_is_not_worse(ridge, correction):
    rng = np.random.default_rng(2)
    z, x = scalar_model(N, rng)
    fresh, seen = scalar_model(STEPS, rng)
    kbf = KernelBayesFilter(backward_regularisation=ridge, correction=correction).fit(z, x)
    errors = [np.mean((f(seen).mean() - fresh) ** 2) for f in (kbf.filter, kbf.smooth)]
    assert errors[1] <= errors[0]
    small = fixed(backward_regularisation=ridge).fit(z[:40], x[:40]).smooth(seen)
    assert np.abs(small.mean()).max() < 10 * np.abs(z).max()


def test_controls_and_known_transitions_have_moments_too(rng):
    u = rng.normal(size=(200, 1))
    z = np.zeros((200, 1))
    for t in range(199):
        z[t + 1] = 0.5 * z[t] + u[t] + 0.1 * rng.normal()
    x = z + 0.5 * rng.normal(size=z.shape)

    def step(states, controls, rng):
        return 0.5 * states + controls + 0.1 * rng.normal(size=states.shape)

    for transition in (None, step):
        kbf = KernelBayesFilter(transition=transition, correction=True)
        found = kbf.fit(z[:150], x[:150], controls=u[:150]).filter(x[150:], controls=u[150:])
        error = np.mean((found.mean() - z[150:]) ** 2)
        # An exact filter has .013; a raw observation .25.
        assert error < 2 * 0.013
    pairs = KernelBayesFilter(
        transition=lambda s, rng: 0.9 * s + 0.3 * rng.normal(size=s.shape), correction=True
    )
    smoothed = pairs.fit(pairs=scalar_model(150, rng)).smooth(scalar_model(30, rng)[1])
    assert np.isfinite(smoothed.mean()).all()


def test_moments_are_kept_by_points_mixtures_atoms_and_pickles(linear, rng):
    root = rng.normal(size=(3, 3))
    moments = Moments(rng.normal(size=3), root @ root.T)
    for points in (sigma_points(moments.mean[None], moments.covariance[None])[0], normal_atoms(moments)):
        np.testing.assert_allclose(points.mean(axis=0), moments.mean)
        np.testing.assert_allclose(np.cov(points.T, bias=True), moments.covariance)
    step = as_step(moments)
    np.testing.assert_allclose(
        merged(step.shares, step.means, step.covariances).covariance, moments.covariance
    )
    kbf, _, seen = linear
    found = kbf.filter(seen[:4])
    again = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(again.weights, found.weights)
    quantiles = found.posterior(2).quantile([0.05, 0.95])[:, 0]
    np.testing.assert_allclose(quantiles, found.interval(0.9)[2, :, 0], atol=0.02)


def test_rows_are_outside_beyond_twice_the_distance_of_almost_all_to_the_others():
    # Distances 1, 1 and 2, of which the 99% quantile is 1.98; what is there twice is not nearer to others.
    around = Surroundings(np.array([[0.0], [1.0], [1.0], [3.0]]))
    edge = 2 * 1.98
    rows = np.array([[3 + edge - 0.1], [3 + edge + 0.1], [0.1 - edge], [-0.1 - edge], [np.nan]])
    np.testing.assert_array_equal(around.outside(rows), [False, True, False, True, False])


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_heavy_tails_of_the_training_hide_nothing_that_is_far_outside(columns):
    rng = np.random.default_rng(columns)
    trained, fresh = rng.standard_t(2, size=(2, 500, columns))
    around = Surroundings(trained)
    # A binomial share of .6% on average has a deviation of .4%.
    assert around.outside(fresh).mean() < 0.02
    radius = np.quantile(np.linalg.norm(trained, axis=1), 0.99)
    directions = rng.normal(size=(50, columns))
    far = 3 * radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert around.outside(far).mean() > 0.9


def test_neighbours_in_time_do_not_make_training_rows_look_dense():
    """A slow walk in five columns has its nearest row next to it: fresh rows are farther from all."""
    rng = np.random.default_rng(7)
    z = np.zeros((1000, 5))
    for t in range(1, len(z)):
        z[t] = 0.97 * z[t - 1] + 0.24 * rng.normal(size=5)
    assert Surroundings(z[:500]).outside(z[500:]).mean() < 0.02


def test_what_cannot_be_smoothed_or_corrected_is_refused(linear, rng):
    kbf, *_ = linear
    with pytest.raises(ValueError, match="NaN in all columns"):
        kbf.smooth(np.full((5, 1), np.nan))
    with pytest.raises(ValueError, match="rows"):
        kbf.smooth(np.empty((0, 1)))
    z, x = turning(40, rng)
    pairs = KernelBayesFilter(transition=lambda s, rng: s).fit(pairs=(z, x))
    with pytest.raises(ValueError, match="pairs alone"):
        pairs.smooth(x[:3])
    with pytest.raises(ValueError, match="ten rows for each column"):
        KernelBayesFilter(correction=True).fit(z, np.hstack([x] * 10))
    with pytest.raises(TypeError, match="correction"):
        KernelBayesFilter(correction="yes").fit(z, x)


def test_ordinary_steps_are_silent(rng):
    z, x = turning(400, rng)
    kbf = KernelBayesFilter().fit(z[:300], x[:300], random_seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = kbf.filter(x[300:])
    assert found.warnings == ()
    assert not any(flag.any() for flag in found.flags.values())
