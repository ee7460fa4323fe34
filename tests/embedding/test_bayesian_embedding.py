"""The embedding's posterior by conditioning a joint normal, its shrinkage, and what is learnt."""

from functools import partial

import numpy as np
import pytest
from scipy.stats import norm

from pymc_kbr.embedding import bayesian_embedding as conditioned
from pymc_kbr.embedding.bayesian_embedding import BayesianKernelEmbedding
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.embedding.marginal_likelihood import GaussianMeasure, MarginalLikelihood
from pymc_kbr.kernels import Gaussian, median_heuristic


class KernelItself:
    """A covariance r = k, under which the posterior mean is the spectral shrinkage estimator."""

    def covariance(self, a, b, lengthscale):
        return Gaussian(tuple(lengthscale))(a, b)

    def variance(self, a, lengthscale):
        return np.ones(len(a))

    def slopes(self, a, b, lengthscale, weighted):
        raise NotImplementedError


@pytest.fixture
def sample(rng):
    return rng.normal(size=(20, 2)) + 1.0


@pytest.mark.parametrize("measure", [None, GaussianMeasure(2.0, 1.0)])
def test_posterior_is_the_conditional_of_a_joint_normal(sample, measure, rng):
    found = BayesianKernelEmbedding((0.8, 1.5), 0.3, measure).fit(sample)
    at = rng.normal(size=(4, 2))
    everywhere = np.vstack([sample, at])
    joint = found.measure_.covariance(everywhere, everywhere, np.array([0.8, 1.5]))
    observed = joint[:20, :20] + 0.3 * np.eye(20)
    scaled = (sample[:, None] - sample[None]) / [0.8, 1.5]
    empirical = np.exp(-0.5 * np.sum(scaled**2, axis=2)).mean(axis=1)
    gain = joint[20:, :20] @ np.linalg.inv(observed)
    covariance = joint[20:, 20:] - gain @ joint[:20, 20:]
    np.testing.assert_allclose(found.empirical(sample), empirical)
    np.testing.assert_allclose(found.mean(at), gain @ empirical, atol=1e-12)
    np.testing.assert_allclose(found.covariance(at), covariance, atol=1e-12)
    np.testing.assert_allclose(found.deviation(at), np.sqrt(np.diag(covariance)), atol=1e-7)
    lower, upper = found.interval(at, 0.9).T
    np.testing.assert_allclose((lower + upper) / 2, gain @ empirical, atol=1e-12)
    np.testing.assert_allclose(norm.cdf((upper - lower) / 2 / found.deviation(at)), 0.95)


def test_posterior_mean_is_the_spectral_shrinkage_estimator(sample):
    n, penalty = len(sample), 0.05
    found = BayesianKernelEmbedding(0.9, n * penalty, KernelItself()).fit(sample)
    gram = Gaussian(0.9)(sample)
    weights = np.linalg.solve(gram + n * penalty * np.eye(n), gram @ np.ones(n)) / n
    at = sample[:5] + 0.3
    np.testing.assert_allclose(found.mean(at), Gaussian(0.9)(at, sample) @ weights, atol=1e-12)


def test_draws_have_the_moments(sample):
    found = BayesianKernelEmbedding(0.9, 0.1).fit(sample)
    at, draws = sample[:3] + 0.5, 20_000
    for drawn, mean, covariance in (
        (found.draw(at, draws, 1), found.mean(at), found.covariance(at)),
        (found.draw_prior(at, draws, 2), np.zeros(3), found.measure_.covariance(at, at, found.lengthscale_)),
    ):
        variance = np.diag(covariance)
        # Five standard errors: of means, and of covariances of normal draws.
        assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(variance / draws))
        error = np.sqrt((np.outer(variance, variance) + covariance**2) / draws)
        assert np.all(np.abs(np.cov(drawn.T) - covariance) < 5 * error)
    np.testing.assert_array_equal(found.draw(at, 2, 1), found.draw(at, 2, 1))
    assert not np.array_equal(found.draw(at, 2, 1), found.draw(at, 2, 2))


def test_all_rows_as_landmarks_give_the_posterior(sample, rng):
    at = rng.normal(size=(6, 2))
    exact = BayesianKernelEmbedding(0.9, 0.1).fit(sample)
    low = BayesianKernelEmbedding(0.9, 0.1, landmarks=20).fit(sample)
    np.testing.assert_allclose(low.mean(at), exact.mean(at), atol=1e-5)
    np.testing.assert_allclose(low.covariance(at), exact.covariance(at), atol=1e-5)


def test_few_landmarks_stand_between_all_other_points(sample, rng):
    at = rng.normal(size=(6, 2))
    few = BayesianKernelEmbedding(0.9, 0.1, landmarks=8).fit(sample)
    covariance, length = few.measure_.covariance, few.lengthscale_
    landmarks = few._solved.landmarks
    inverse = np.linalg.inv(covariance(landmarks, landmarks, length))
    through = covariance(at, landmarks, length) @ inverse @ covariance(landmarks, sample, length)
    between = covariance(sample, landmarks, length) @ inverse @ covariance(landmarks, sample, length)
    gain = through @ np.linalg.inv(between + 0.1 * np.eye(20))
    assert len(landmarks) == 8
    np.testing.assert_allclose(few.mean(at), gain @ few.empirical(sample), atol=1e-5)
    wanted = covariance(at, at, length) - gain @ through.T
    np.testing.assert_allclose(few.covariance(at), wanted, atol=1e-5)
    np.testing.assert_allclose(few.deviation(at), np.sqrt(np.diag(wanted)), atol=1e-4)


@pytest.mark.parametrize("noise", [1e-3, 1e-6])
def test_many_rows_have_a_posterior_at_the_noise_that_fits_them(noise, set_default):
    x = np.random.default_rng(5).normal(size=(6_000, 1))
    set_default(conditioned.ThroughLandmarks.on, entries_at_once=150_000)  # in parts that are not of one size
    found = BayesianKernelEmbedding(1.0, noise).fit(x)
    at = np.linspace(-2, 2, 9)
    # With far more rows than dimensions the mean is the empirical embedding but for the jitter.
    np.testing.assert_allclose(found.mean(at), found.empirical(at), atol=1e-4)
    assert np.all(found.deviation(at) < 3 * np.sqrt(noise / 1000 + 1e-7))


@pytest.fixture(scope="module")
def mixture():
    """Nine normal clouds on a grid of spacing 14, 20 points each."""
    centres = 14.0 * np.array([(i, j) for i in range(3) for j in range(3)])
    return np.repeat(centres, 20, axis=0) + np.random.default_rng(4).normal(size=(180, 2))


def test_both_maxima_of_a_mixture_are_found(mixture):
    learnt = learn_lengthscale(mixture)
    likelihood = MarginalLikelihood(mixture)
    assert len(learnt.maxima) >= 2
    assert learnt.maxima[0].log_likelihood == max(m.log_likelihood for m in learnt.maxima)
    for maximum in learnt.maxima:
        value, slopes = likelihood(maximum.lengthscale)
        assert value == pytest.approx(maximum.log_likelihood)
        assert not maximum.at_edge
        # Of a function of curvature about n the slope at the end of the search is small beside n.
        assert abs(slopes.sum()) < 0.01 * len(mixture)
    within = min(m.lengthscale[0] for m in learnt.maxima)
    across = max(m.lengthscale[0] for m in learnt.maxima)
    assert within < 3.0
    assert 10.0 < across < 25.0
    assert learnt.kernel == Gaussian(float(learnt.lengthscale[0]))


def test_no_lengthscale_of_a_fine_grid_is_better(mixture):
    learnt, likelihood = learn_lengthscale(mixture), MarginalLikelihood(mixture)
    grid = [likelihood(np.full(2, length))[0] for length in np.geomspace(0.1, 60, 60)]
    assert learnt.maxima[0].log_likelihood >= max(grid) - 1e-6


def test_rounded_data_have_a_lengthscale_where_the_embedding_is_not_flat():
    counts = np.random.default_rng(2).integers(0, 30, size=60).astype(float)[:, None]
    learnt, likelihood = learn_lengthscale(counts), MarginalLikelihood(counts)
    with pytest.raises(ValueError, match="the empirical embedding is flat at"):
        likelihood(learnt.scanned[:1])
    assert learnt.likelihoods[0] == -np.inf
    assert not learnt.maxima[0].at_edge
    grid = [likelihood(np.array([length]))[0] for length in np.geomspace(1.0, 60, 30)]
    assert learnt.maxima[0].log_likelihood >= max(grid) - 1e-6
    with pytest.raises(ValueError, match="flat at 1 of 3 rows"):
        learn_lengthscale([-1.0, 0.0, 1.0])


def test_units_do_not_matter(sample):
    one = learn_lengthscale(sample)
    for unit in (1e-3, 1e3):
        other = learn_lengthscale(unit * sample)
        np.testing.assert_allclose(other.lengthscale, unit * one.lengthscale, rtol=1e-3)
        np.testing.assert_allclose(other.scanned, unit * one.scanned, rtol=1e-9)
    apart = learn_lengthscale(sample * [1.0, 50.0], separate=True).lengthscale / [1.0, 50.0]
    np.testing.assert_allclose(apart, learn_lengthscale(sample, separate=True).lengthscale, rtol=1e-3)


def test_lengthscales_by_name(sample):
    learnt = BayesianKernelEmbedding().fit(sample)
    np.testing.assert_array_equal(learnt.lengthscale_, learn_lengthscale(sample).lengthscale)
    median = BayesianKernelEmbedding("median").fit(sample)
    np.testing.assert_array_equal(median.lengthscale_, np.full(2, median_heuristic(sample)))


@pytest.mark.parametrize(
    ("arguments", "points", "words"),
    [
        ({}, [[1.0, 2.0]], "there are 1 rows in the points; at least 2"),
        ({}, [[1.0, 2.0], [2.0, 2.0]], r"columns \[1\] in the points are the same"),
        ({}, [[1.0, 2.0]] * 3, "are the same point"),
        ({}, [1.0, np.nan, 2.0], r"1 row\(s\) of the points hold NaN"),
        ({"lengthscale": -1.0}, [1.0, 2.0, 4.0], "lengthscale is .*-1.0.*; it must be a finite number above"),
        ({"lengthscale": (1.0, 2.0)}, [1.0, 2.0, 4.0], "there are 2 lengthscales; give one"),
        ({"lengthscale": "mean"}, [1.0, 2.0, 4.0], "may be 'bayesian', 'median', or numbers"),
        ({"noise": 0.0}, [1.0, 2.0, 4.0], "noise is 0.0"),
        ({"landmarks": 0}, [1.0, 2.0, 4.0], "^landmarks is 0; it must be at least 1"),
    ],
)
def test_refusals(arguments, points, words):
    with pytest.raises(ValueError, match=words):
        BayesianKernelEmbedding(**arguments).fit(points)


def test_a_lengthscale_is_not_learnt_from_a_constant_column():
    with pytest.raises(ValueError, match=r"columns \[1\] in the points are the same"):
        learn_lengthscale([[1.0, 2.0], [2.0, 2.0], [4.0, 2.0]])


def test_points_nearly_all_of_which_coincide_have_a_lengthscale():
    rare = np.zeros(3000)
    rare[[1, 2]] = 5.0
    assert learn_lengthscale(rare, most=400).rows <= 400
    assert 1.0 < learn_lengthscale(rare).lengthscale[0] < 25.0
    with pytest.raises(ValueError, match="squares of their distances are no floats"):
        learn_lengthscale(1e-200 * np.arange(5.0) ** 2)


@pytest.mark.versions
def test_columns_of_a_frame_are_put_in_the_order_of_those_it_was_fitted_to(sample):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(sample, columns=["a", "b"])
    found = BayesianKernelEmbedding((0.5, 2.0), 0.1).fit(frame)
    np.testing.assert_allclose(found.mean(frame[["b", "a"]]), found.mean(sample))
    with pytest.raises(ValueError, match=r"\['a', 'b'\] in those it was fitted to and \['a', 'c'\] in"):
        found.mean(frame.rename(columns={"b": "c"}))


@pytest.mark.parametrize(
    ("measure", "error", "words"),
    [
        (GaussianMeasure, TypeError, "measure is <class .*give a LebesgueMeasure"),
        (
            GaussianMeasure(1.0, (0.0, 0.0, 0.0)),
            ValueError,
            "centre has 3 columns and the points 2; give one",
        ),
    ],
)
def test_refusals_of_measures(measure, error, words, sample):
    for fit in (
        BayesianKernelEmbedding(1.0, measure=measure).fit,
        partial(learn_lengthscale, measure=measure),
    ):
        with pytest.raises(error, match=words):
            fit(sample)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [((-1.0,), "deviation is -1.0"), ((0.0,), "deviation is 0.0"), ((1.0, np.nan), "centre is nan")],
)
def test_refusals_of_gaussian_measures(arguments, words):
    with pytest.raises(ValueError, match=words):
        GaussianMeasure(*arguments)


def test_noise_below_rounding_is_refused(sample):
    twice = np.vstack([sample, sample])
    for lengthscale in (50.0, "bayesian"):
        with pytest.raises(ValueError, match="not positive definite with noise 1e-300; take a larger one"):
            BayesianKernelEmbedding(lengthscale, 1e-300).fit(twice)


def test_refusals_of_what_is_asked(sample):
    with pytest.raises(ValueError, match="not fitted"):
        BayesianKernelEmbedding().mean([0.0])
    found = BayesianKernelEmbedding(1.0).fit(sample)
    with pytest.raises(ValueError, match="have 1 columns; it was fitted to 2"):
        found.mean([0.0])
    with pytest.raises(ValueError, match="probability is 80"):
        found.interval(sample, 80)
    with pytest.raises(ValueError, match="of the points at which it is evaluated hold NaN"):
        found.mean([[0.0, np.nan]])
    for draw in (found.draw, found.draw_prior):
        with pytest.raises(ValueError, match=r"^draws is 0; it must be at least 1"):
            draw(sample, 0)
