"""The prior's covariance by quadrature, the marginal likelihood by loops, its gradient by differences."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from pymc_kbr.embedding.marginal_likelihood import (
    GaussianMeasure,
    Jacobian,
    LebesgueMeasure,
    MarginalLikelihood,
    weighted_squares,
)

MEASURES = [
    LebesgueMeasure(),
    LebesgueMeasure(normalised=False),
    GaussianMeasure(1.5, (0.2, -0.4, 1.0)),
    GaussianMeasure(0.4),
]
LENGTHSCALE = np.array([0.8, 1.3, 2.1])


@pytest.fixture
def points(rng):
    """Shifted, so that a missing centre shows; two rows coincide, and one is far from the others."""
    x = rng.normal((4.0, 0.0, -2.0), size=(30, 3))
    x[7] = x[3]
    x[11] += 20.0
    return x


def integral(a, b, lengthscale, measure):
    """r by one quadrature a dimension: kernel and measure are products."""
    total = 1.0
    for d, length in enumerate(lengthscale):

        def integrand(u, d=d, length=length):
            inside = (a[d] - u) ** 2 / (2 * length**2) + (b[d] - u) ** 2 / (2 * length**2)
            if isinstance(measure, GaussianMeasure):
                centre = np.broadcast_to(measure.centre, len(lengthscale))[d]
                inside += (u - centre) ** 2 / (2 * measure.deviation**2)
            return np.exp(-inside)

        total *= quad(integrand, -30, 30, points=[a[d], b[d]], limit=200, epsabs=1e-13)[0]
    return total


@pytest.mark.parametrize("measure", MEASURES[1:], ids=repr)
def test_covariance_is_the_integral(measure, rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    wanted = [[integral(x, y, LENGTHSCALE, measure) for y in b] for x in a]
    np.testing.assert_allclose(measure.covariance(a, b, LENGTHSCALE), wanted, rtol=1e-9)
    own = [integral(x, x, LENGTHSCALE, measure) for x in a]
    np.testing.assert_allclose(measure.variance(a, LENGTHSCALE), own, rtol=1e-9)


def test_normalised_covariance_is_a_correlation(rng):
    a, b = rng.normal(size=(2, 3)), rng.normal(size=(3, 3))
    plain = LebesgueMeasure(normalised=False)
    of_unit = LebesgueMeasure().covariance(a, b, LENGTHSCALE)
    constant = plain.variance(a, LENGTHSCALE)[0]
    np.testing.assert_allclose(of_unit, plain.covariance(a, b, LENGTHSCALE) / constant)
    np.testing.assert_allclose(LebesgueMeasure().variance(a, LENGTHSCALE), 1.0)


def test_wide_gaussian_measure_tends_to_lebesgues(rng):
    a = rng.normal(size=(4, 3))
    wide = GaussianMeasure(1e4).covariance(a, a, LENGTHSCALE)
    np.testing.assert_allclose(wide, LebesgueMeasure(False).covariance(a, a, LENGTHSCALE), rtol=1e-6)


def by_loops(x, lengthscale, noise, measure):
    """Eq. 13, entry by entry, with the derivative of the empirical embedding by differences."""
    n, d = x.shape

    def empirical(at):
        return np.mean([np.exp(-0.5 * np.sum(((at - row) / lengthscale) ** 2)) for row in x])

    covariance = measure.covariance(x, x, lengthscale) + noise * np.eye(n)
    value = multivariate_normal(np.zeros(n), covariance).logpdf([empirical(row) for row in x])
    for row in x:
        steps = 1e-5 * np.eye(d)
        slopes = [(empirical(row + step) - empirical(row - step)) / 2e-5 for step in steps]
        value += 0.5 * np.log(np.sum(np.square(slopes)))
    return value


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
def test_value_is_the_equation(measure, rng):
    x = rng.normal(size=(15, 3)) + 4.0
    x[7] = x[3]
    value, _ = MarginalLikelihood(x, 0.2, measure)(LENGTHSCALE)
    # Differences of step h are off by h^2 of the third derivative over the first: 1e-7 with these points.
    assert value == pytest.approx(by_loops(x, LENGTHSCALE, 0.2, measure), abs=1e-5)


def differences(f, lengthscale):
    """The gradient in log l by central differences of fourth order."""
    h = 2e-3
    found = []
    for e in np.eye(len(lengthscale)):
        at = {k: f(lengthscale * np.exp(k * h * e))[0] for k in (-2, -1, 1, 2)}
        found.append((8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h))
    return np.array(found)


@pytest.mark.parametrize("measure", MEASURES, ids=repr)
def test_gradient_is_that_of_differences(measure, points):
    likelihood = MarginalLikelihood(points, 0.1, measure)
    _, slopes = likelihood(LENGTHSCALE)
    np.testing.assert_allclose(slopes, differences(likelihood, LENGTHSCALE), rtol=1e-8)


def test_gradient_where_blocks_of_rows_are_not_whole(rng):
    likelihood = MarginalLikelihood(rng.normal(size=(150, 2)), 0.1)
    length = np.array([0.5, 0.9])
    np.testing.assert_allclose(likelihood(length)[1], differences(likelihood, length), rtol=1e-8)


def test_where_the_points_are_does_not_matter(points):
    of_both = (MarginalLikelihood(x)(LENGTHSCALE) for x in (points, points + 1e7))
    (value, slopes), (moved, moved_slopes) = of_both
    # 1e7 leaves 2e-9 of each coordinate, whose kernel values at other points change by as little.
    assert moved == pytest.approx(value, rel=1e-7)
    np.testing.assert_allclose(moved_slopes, slopes, rtol=1e-6)


def test_a_row_whose_kernel_values_underflow_counts_by_its_exponent():
    near = np.random.default_rng(0).normal(size=(12, 1))
    length = np.array([0.5])

    def volume(x):
        kernel = np.exp(-0.5 * ((x - x.T) / length) ** 2)
        return Jacobian(x)(kernel, x / length, length).log

    far = 60.0  # exp(-0.5 * 120^2) is no float
    x = np.vstack([near, [[far]]])
    exponents = -0.5 * ((far - near[:, 0]) / length) ** 2
    largest = exponents.max()
    weights = np.exp(exponents - largest)
    wanted = largest + np.log(abs(weights @ (near[:, 0] - far)) / length[0] ** 2 / len(x))
    assert volume(x) - wanted == pytest.approx(volume(near) + 12 * np.log(12 / 13), rel=1e-10)


def test_weighted_squares_is_the_double_sum(rng):
    a, b, weights = rng.normal(size=(5, 2)), rng.normal(size=(4, 2)), rng.normal(size=(5, 4))
    wanted = np.einsum("ij,ijq->q", weights, (a[:, None] - b[None]) ** 2)
    np.testing.assert_allclose(weighted_squares(weights, a, b), wanted)


def test_a_flat_point_is_refused():
    with pytest.raises(ValueError, match="flat at 1 of 3 rows, the first of them row 1"):
        MarginalLikelihood(np.array([[-1.0], [0.0], [1.0]]))(np.array([1.0]))
