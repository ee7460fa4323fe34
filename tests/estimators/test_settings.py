"""How bandwidths and ridges are chosen, against choices that are written out."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import eigvalsh
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators import abc, embedding
from pymc_kbr.estimators.abc import least_squares_score
from pymc_kbr.gram import Nystroem, Subsample
from pymc_kbr.kernels import Gaussian, Laplace, Linear, median_heuristic
from pymc_kbr.regression.choose_ridge import SCALES, choose_kernel_and_ridge

N = 60


@pytest.fixture
def arrays(rng):
    theta = rng.normal(size=(N, 2)) * [1.0, 30.0]
    x = np.column_stack([np.sin(theta[:, 0]), theta[:, 1], theta[:, 0] * theta[:, 1]])
    return theta, x + 0.3 * rng.normal(size=x.shape) * x.std(axis=0)


@pytest.fixture
def ratio(arrays):
    return np.exp(-0.5 * (arrays[0][:, 0] - 1) ** 2)


# Nadaraya-Watson


def error_without_the_row(theta, x, bandwidth, kernel):
    """Squared errors of standardised parameters, each predicted by the others, in a double loop."""
    targets, error = (theta - theta.mean(axis=0)) / theta.std(axis=0), 0.0
    for i in range(len(x)):
        total, predicted = 0.0, np.zeros(theta.shape[1])
        for j in range(len(x)):
            if j != i:
                weight = kernel(np.linalg.norm(x[i] - x[j]) / bandwidth)
                total, predicted = total + weight, predicted + weight * targets[j]
        error += np.sum((targets[i] - (predicted / total if total else 0)) ** 2)
    return error


@pytest.mark.parametrize(
    ("name", "kernel"), [("gaussian", lambda u: np.exp(-(u**2) / 2)), ("top_hat", lambda u: float(u <= 1))]
)
def test_nadaraya_watsons_bandwidth_predicts_rows_left_out_best(name, kernel, arrays):
    theta, x = arrays
    fitted = pk.NadarayaWatson(kernel=name).fit(theta, x)
    scaled = Scaler.fit(x).transform(x)
    grid = median_heuristic(scaled) * 2.0 ** np.arange(-4, 2.5, 0.5)
    errors = [error_without_the_row(theta, scaled, h, kernel) for h in grid]
    assert fitted.bandwidth_ == pytest.approx(grid[int(np.argmin(errors))])
    assert 0 < np.argmin(errors) < len(grid) - 1


def test_nadaraya_watson_tries_three_hundred_rows_against_all(rng, monkeypatch):
    theta, tried = rng.normal(size=(700, 1)), []
    monkeypatch.setattr(abc, "cdist", lambda a, b: tried.append((a[0, 0], len(b))) or np.ones((1, len(b))))
    pk.NadarayaWatson(scale=False).fit(theta, theta)
    expected = (theta - theta.mean(axis=0))[spread_out(700, 300), 0]
    np.testing.assert_allclose([row for row, _ in tried], expected)
    assert {count for _, count in tried} == {700}


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_nadaraya_watsons_weights_are_kernel_values_times_the_ratio(kernel, arrays, ratio):
    theta, x = arrays
    scaled, observed = Scaler.fit(x).transform(x), x[:2] * 1.1
    squares = ((scaled[None] - Scaler.fit(x).transform(observed)[:, None]) ** 2).sum(axis=-1) / 1.5**2
    values = np.exp(-squares / 2) if kernel == "gaussian" else np.maximum(1 - squares, 0)
    for given in (None, ratio):
        expected = values * (1 if given is None else given)
        expected /= expected.sum(axis=1, keepdims=True)
        fitted = pk.NadarayaWatson(1.5, kernel=kernel).fit(theta, x, ratio=given)
        np.testing.assert_allclose(fitted.weights(observed), expected, atol=1e-12)


def test_an_observation_far_off_does_not_change_anothers_weights(arrays):
    theta, x = arrays
    far = np.stack([x[0], x[0] + 100 * x.std(axis=0)])
    fitted = pk.NadarayaWatson(0.3).fit(theta, x)
    together = fitted.weights(far)
    for one, weights in zip(far, together, strict=True):
        np.testing.assert_allclose(fitted.weights(one), weights, atol=1e-12)
        assert weights.sum() == pytest.approx(1)


# Kernel density


def test_the_score_of_a_density_is_its_integrated_squared_error(rng):
    z, h = rng.normal(size=(12, 1)), 0.4

    def density(u, points):
        return norm.pdf(u, points[:, 0], h).mean()

    square = quad(lambda u: density(u, z) ** 2, -8, 8, limit=200)[0]
    left_out = np.mean([density(z[i, 0], np.delete(z, i, axis=0)) for i in range(12)])
    assert least_squares_score(z, h) == pytest.approx(square - 2 * left_out, abs=1e-7)


def test_the_score_in_more_dimensions_is_a_double_loop(rng):
    z, h = rng.normal(size=(15, 3)), 0.7

    def gaussian(apart, width):
        return np.prod(norm.pdf(apart, scale=width))

    square = np.mean([[gaussian(a - b, np.sqrt(2) * h) for a in z] for b in z])
    pairs = [gaussian(z[i] - z[j], h) for i in range(15) for j in range(15) if i != j]
    assert least_squares_score(z, h) == pytest.approx(square - 2 * np.mean(pairs))
    assert least_squares_score(z, h, most=6) == pytest.approx(least_squares_score(z[spread_out(15, 6)], h))
    many = rng.normal(size=(1500, 2))
    assert least_squares_score(many, h) == least_squares_score(many[spread_out(1500, 1000)], h)


def test_the_densitys_bandwidth_is_in_deviations_and_has_the_lowest_score(arrays):
    theta, x = arrays
    joint = np.hstack([theta / theta.std(axis=0), (x - x.mean(axis=0)) / x.std(axis=0)])
    grid = 2.0 ** np.arange(-4, 2.5, 0.5)
    scores = [least_squares_score(joint, h) for h in grid]
    assert pk.KernelDensity().fit(theta, x).bandwidth_ == grid[int(np.argmin(scores))]
    raw = [least_squares_score(np.hstack([theta, x]), h) for h in grid]
    assert pk.KernelDensity(scale=False).fit(theta, x).bandwidth_ == grid[int(np.argmin(raw))]


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("prior", ["table", "ratio", "draws", "weighted"])
def test_density_weights_are_the_likelihoods_estimate(scale, prior, rng):
    theta = rng.normal(size=(300, 2)) * [1.0, 2.0]
    x, ratio = theta + rng.normal(size=theta.shape), rng.uniform(0.2, 2, size=300)
    draws, shares = rng.normal(size=(270, 2)), rng.uniform(size=270)
    given = {"ratio": {"ratio": ratio}, "draws": {"prior": draws}, "weighted": {"prior": (draws, shares)}}
    fitted = pk.KernelDensity(0.4, scale=scale, particles=280).fit(theta, x, **given.get(prior, {}))
    rows = spread_out(300, 280)
    points, weights = {
        "table": (theta[rows], np.ones(280)),
        "ratio": (theta[rows], ratio[rows]),
        "draws": (draws, np.ones(270)),
        "weighted": (draws, shares),
    }[prior]
    unit, units = (theta.std(axis=0), x.std(axis=0)) if scale else (1.0, 1.0)
    near = np.exp(-(((points[:, None] - theta[None]) / unit) ** 2).sum(axis=-1) / (2 * 0.4**2))
    observed = np.array([[0.5, -1.0], [0.0, 0.3]])
    similar = np.exp(-(((x[:, None] - observed[None]) / units) ** 2).sum(axis=-1) / (2 * 0.4**2))
    expected = (weights[:, None] * (near @ similar) / near.sum(axis=1)[:, None]).T
    expected /= expected.sum(axis=1, keepdims=True)
    found = fitted.weights(observed)
    on_rows = prior in ("table", "ratio")
    np.testing.assert_allclose(found[:, rows] if on_rows else found, expected, rtol=1e-6, atol=1e-12)
    assert fitted.weighs_rows == on_rows
    assert found.shape == (2, 300 if on_rows else 270)
    np.testing.assert_array_equal(fitted.condition(observed[0]).atoms, points)


def test_draws_of_the_constructor_are_those_of_fit(rng):
    theta, draws = rng.normal(size=(50, 2)), (rng.normal(size=(9, 2)), rng.uniform(size=9))
    one = pk.KernelDensity(0.5, prior=draws).fit(theta, theta)
    two = pk.KernelDensity(0.5).fit(theta, theta, prior=draws)
    np.testing.assert_array_equal(one.weights(theta[0]), two.weights(theta[0]))
    assert not one.weighs_rows
    with pytest.raises(ValueError, match="negative weights"):
        pk.KernelDensity(0.5).fit(theta, theta, prior=(draws[0], draws[1] - 0.2))


def test_a_likelihood_of_zero_everywhere_is_refused(rng):
    # Every particle but those of no weight is so far off that its nearest row has no likelihood either.
    theta = np.array([[0.0], [100.0]])
    with pytest.raises(ValueError, match="is zero at every draw"):
        pk.KernelDensity(0.01, prior=[[100.0], [99.9]]).fit(theta, theta).condition([0.0])
    assert pk.KernelDensity(particles=1).fit(theta, theta).weights([0.0]).tolist() == [1.0, 0.0]


# Kernel and ridge of the rules


def test_bandwidth_and_ridge_are_those_of_the_lowest_left_out_error(arrays):
    theta, x = arrays
    scaled = Scaler.fit(x).transform(x)
    median = median_heuristic(scaled)
    for kernel, family, centred in (("gaussian", Gaussian, True), ("laplace", Laplace, False)):
        kernels = [family(scale * median) for scale in SCALES]
        kernels += [Linear()] if family is Gaussian else []
        choice = choose_kernel_and_ridge(scaled, theta, kernels, centred=centred, near=0.5)
        fitted = pk.ConditionalMean(kernel=kernel, centred=centred).fit(theta, x)
        assert fitted.kernel_ == choice.kernel
        assert fitted.regularisation_ == pytest.approx(choice.ridge / N)
    assert pk.ConditionalMean("median").fit(theta, x).bandwidth_ == pytest.approx(median)
    assert pk.ConditionalMean(kernel=Laplace(1.0)).fit(theta, x).kernel_ == Laplace(1.0)
    assert not hasattr(pk.ConditionalMean(kernel=Laplace(1.0)).fit(theta, x), "bandwidth_")


@pytest.fixture
def asked(monkeypatch):
    """What the choice was asked, the last time."""
    seen = {}

    def spy(*args, **kwargs):
        seen.update(kwargs, args=args)
        return choose_kernel_and_ridge(*args, **kwargs)

    monkeypatch.setattr(embedding, "choose_kernel_and_ridge", spy)
    return seen


def test_the_choice_is_made_under_the_new_prior(arrays, ratio, asked, rng):
    pk.ConditionalMean().fit(*arrays, ratio=ratio)
    np.testing.assert_allclose(asked["weights"], ratio / ratio.mean())
    assert asked["score_weights"] is None
    assert asked["centred"] is True
    draws = rng.normal(1, 0.5, size=(50, 2)) * [1, 30]
    fitted = pk.ImportanceWeightedKernelBayes(prior=draws).fit(*arrays)
    prior = fitted._prior
    np.testing.assert_allclose(asked["weights"], N * np.maximum(prior.gamma, 0))
    np.testing.assert_allclose(asked["score_weights"], N * prior.score)
    assert asked["near"] == 0.5
    pk.ConditionalMean(regularisation=1e-3, centred=False).fit(*arrays)
    assert asked["weights"] is None
    assert asked["centred"] is False
    np.testing.assert_allclose(asked["args"][3], [1e-3 * N])
    pk.KernelBayes(regularisation=1e-4).fit(*arrays)
    np.testing.assert_allclose(asked["args"][3], [1e-2 * N])
    pk.Localised(20, regularisation=1e-3).fit(*arrays)
    np.testing.assert_allclose(asked["args"][3], [1e-3 * 20])


def test_another_prior_changes_what_is_chosen(rng):
    # Statistics tell about parameters above zero alone: below, nothing but a wide kernel will do.
    theta = rng.normal(size=(300, 1))
    x = np.where(theta > 0, 20 * np.sin(6 * theta), 0) + 0.1 * rng.normal(size=theta.shape)
    sides = [
        pk.ConditionalMean().fit(theta, x, ratio=np.where(s * theta[:, 0] > 0, 1, 1e-3)) for s in (1, -1)
    ]
    assert sides[0].settings() != sides[1].settings()


@pytest.mark.parametrize("centred", [True, False])
def test_delta_has_the_regressions_degrees_of_freedom(centred, arrays, rng):
    theta, x = arrays
    draws = rng.normal(0.5, 0.5, size=(40, 2)) * [1, 30]
    settings = {"bandwidth": 2.0, "prior": draws, "prior_regularisation": 1e-2, "centred": centred}
    regression = pk.ImportanceWeightedKernelBayes(**settings).fit(theta, x)
    squared = pk.KernelBayes(**settings).fit(theta, x)
    gamma = np.maximum(squared._prior.gamma, 0)
    gamma, about = gamma / gamma.sum(), np.eye(N)
    if centred:
        about -= np.outer(np.ones(N), gamma)
    gram = about @ Gaussian(2.0)(Scaler.fit(x).transform(x)) @ about.T
    spectrum = np.maximum(eigvalsh(np.sqrt(gamma)[:, None] * gram * np.sqrt(gamma)), 0)
    expected = np.sum(spectrum / (spectrum + regression.regularisation_))
    found = np.sum(spectrum**2 / (spectrum**2 + squared.regularisation_))
    assert found == pytest.approx(expected, rel=1e-6)
    assert 1 < expected < N / 2


def test_delta_of_a_table_that_is_a_sample_of_the_prior(arrays):
    theta, x = arrays
    squared = pk.KernelBayes(2.0, centred=True).fit(theta, x)
    regression = pk.ConditionalMean(2.0).fit(theta, x)
    about = np.eye(N) - 1 / N
    spectrum = np.maximum(eigvalsh(about @ Gaussian(2.0)(Scaler.fit(x).transform(x)) @ about) / N, 0)
    kept = np.sum(spectrum**2 / (spectrum**2 + squared.regularisation_))
    assert kept == pytest.approx(np.sum(spectrum / (spectrum + regression.regularisation_)), rel=1e-6)
    assert pk.KernelBayes(2.0, 1e-7).fit(theta, x).regularisation_ == 1e-7


def test_a_ridge_is_chosen_for_the_rows_of_one_regression(arrays):
    theta, x = arrays
    whole, some = pk.ConditionalMean(2.0).fit(theta, x), pk.ConditionalMean(2.0, solver=Subsample(20))
    assert some.fit(theta, x).regularisation_ * 20 == pytest.approx(whole.regularisation_ * N)
    local = pk.Localised(20, 2.0).fit(theta, x)
    assert local.regularisation_ * 20 == pytest.approx(whole.regularisation_ * N)
    assert local.settings()["neighbours"] == 20
    assert pk.ConditionalMean(2.0, 1e-3, solver=Nystroem(15)).fit(theta, x).settings()["rank"] == 15


@pytest.mark.parametrize("ratio_given", [True, False])
def test_a_subsample_is_the_estimator_on_these_rows(ratio_given, arrays, ratio):
    theta, x = arrays
    settings = {"bandwidth": 40.0, "regularisation": 1e-3, "centred": False, "scale": False}
    given = ratio if ratio_given else np.ones(N)
    some = pk.ConditionalMean(**settings, solver=Subsample(20)).fit(theta, x, ratio=given, random_seed=3)
    weights = some.weights(x[:2])
    rows = np.flatnonzero(weights[0])
    assert len(rows) == 20
    settings["regularisation"] *= given.mean() / given[rows].mean()
    exact = pk.ConditionalMean(**settings).fit(theta[rows], x[rows], ratio=given[rows])
    np.testing.assert_allclose(weights[:, rows], exact.weights(x[:2]), rtol=1e-6, atol=1e-9)
