"""Independent draws of which some have values with probabilities: exact densities, posteriors, gaps."""

import warnings

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import kstest, norm

import pymc_kbr as pk
from pymc_kbr.arrays.exchangeable import Atoms
from pymc_kbr.estimators.likelihood import conditional_mixture
from pymc_kbr.estimators.likelihood.basis import Landmarks
from pymc_kbr.estimators.likelihood.exchangeable import ElementUnits, Exchangeable, Masses, OrderStatistics
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation

E = 10


def clipped(theta, rng):
    """Normal draws with mean theta, censored at -0.5 and 1."""
    return np.clip(theta[:, :1] + 0.7 * rng.normal(size=(len(theta), E)), -0.5, 1.0)


def clipped_log(theta, x):
    middle = theta[:, :1]
    logs = np.where(x == 1.0, norm.logsf(1.0, middle, 0.7), norm.logpdf(x, middle, 0.7))
    return np.where(x == -0.5, norm.logcdf(-0.5, middle, 0.7), logs)


def hurdle(theta, rng):
    """Log-normal draws, or zeros with a logit that is theta."""
    positive = np.exp(0.5 * theta[:, :1] + 0.6 * rng.normal(size=(len(theta), E)))
    return np.where(rng.random((len(theta), E)) < 1 / (1 + np.exp(-theta[:, :1])), 0.0, positive)


def hurdle_log(theta, x):
    middle, y = theta[:, :1], np.log(np.where(x > 0, x, 1.0))
    zero = -np.logaddexp(0.0, -middle)
    rest = -np.logaddexp(0.0, middle) + norm.logpdf(y, 0.5 * middle, 0.6) - y
    return np.where(x == 0, zero, rest)


def graded(theta, rng):
    """Rounded and clipped normal draws: four values, and no density."""
    return np.clip(np.round(theta[:, :1] + rng.normal(size=(len(theta), E))), 0, 3)


def graded_log(theta, x):
    middle = theta[:, :1]
    upper = np.where(x == 3, 1.0, norm.cdf(x + 0.5, middle))
    return np.log(upper - np.where(x == 0, 0.0, norm.cdf(x - 0.5, middle)))


LISTED = np.array([-2.5, -1.1, -0.2, 0.3, 1.2, 2.4])
BETWEEN = np.concatenate([[-np.inf], (LISTED[1:] + LISTED[:-1]) / 2, [np.inf]])


def heaped(theta, rng):
    """Normal draws, of which a share with the logit theta are the nearest of six uneven values."""
    y = rng.normal(size=(len(theta), E))
    near = LISTED[np.abs(y[:, :, None] - LISTED).argmin(axis=2)]
    return np.where(rng.random(y.shape) < 1 / (1 + np.exp(-theta[:, :1])), near, y)


def heaped_log(theta, x):
    place = np.searchsorted(LISTED, x).clip(0, len(LISTED) - 1)
    there, share = LISTED[place] == x, -np.logaddexp(0.0, -theta[:, :1])
    return np.where(
        there, share + np.log(np.diff(norm.cdf(BETWEEN)))[place], share - theta[:, :1] + norm.logpdf(x)
    )


LAWS = {
    "clipped": (clipped, clipped_log),
    "hurdle": (hurdle, hurdle_log),
    "graded": (graded, graded_log),
    "heaped": (heaped, heaped_log),
}


@pytest.fixture(scope="module", params=LAWS)
def learnt(request):
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(800, 1))
    x = LAWS[request.param][0](theta, rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return request.param, pk.KernelLikelihood("exchangeable", 500).fit(theta, x, random_seed=1)


def test_density_is_near_the_exact_one(learnt):
    """In the units of the user: probabilities have none."""
    name, fitted = learnt
    rng = np.random.default_rng(4)
    theta = rng.normal(size=(400, 1))
    x = LAWS[name][0](theta, rng)
    found = fitted.log_likelihoods(theta, x).diagonal()
    exact = LAWS[name][1](theta, x).sum(axis=1)
    # A row costs a tenth of a nat at most, of its ten numbers together.
    assert abs(np.mean(exact - found)) < 0.1
    assert np.std(exact - found) < 0.5


def test_posterior_is_the_exact_one(learnt):
    name, fitted = learnt
    data = LAWS[name][0](np.array([[0.4]]), np.random.default_rng(5))[0]
    grid = np.linspace(-4, 4, 2001)[:, None]
    logs = norm.logpdf(grid[:, 0]) + LAWS[name][1](grid, data[None]).sum(axis=1)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid[:, 0]
    deviation = np.sqrt(weights @ (grid[:, 0] - mean) ** 2)
    posterior = fitted.condition(data)
    # Of 500 draws the mean is off by 0.05 deviations by chance.
    assert abs(posterior.mean()[0] - mean) < 0.25 * deviation
    assert 0.85 < posterior.draw(2000, 3).std() / deviation < 1.15


def test_draws_and_transforms_agree_with_the_simulator(learnt):
    name, fitted = learnt
    theta = np.random.default_rng(6).normal(size=(2000, 1))
    x = LAWS[name][0](theta, np.random.default_rng(7))
    drawn = fitted.draw_statistics(theta, 8)
    atoms = fitted.form_.masses.atoms.values
    for value in np.unique(x)[[0, -1]] if name != "hurdle" else [0.0]:
        assert np.mean(drawn == value) == pytest.approx(np.mean(x == value), abs=0.02)
    if name == "graded":
        assert len(atoms) == 4
        assert set(np.unique(drawn)) == {0.0, 1.0, 2.0, 3.0}
    else:
        assert x.min() - 1e-9 <= drawn.min()
    described = fitted.form_.describe(fitted._evaluation.of_parameters(theta))
    for rows in (x, drawn):
        u = fitted.form_.transforms(described, fitted.table_.scaler.transform(rows))
        # Ten columns, none below the usual one in a thousand.
        assert min(kstest(column, "uniform").pvalue for column in u.T) > 1e-4
    assert fitted.transforms_pvalue_ > 1e-3


def test_missing_draws_are_left_out(learnt):
    name, fitted = learnt
    data = LAWS[name][0](np.array([[0.4]]), np.random.default_rng(9))[0]
    at = np.array([[-0.5], [0.3], [1.0]])
    every = np.arange(E)
    apart = sum(
        fitted.log_likelihood(at, np.where(np.isin(every, part), data, np.nan))
        for part in (every[:3], every[3:])
    )
    np.testing.assert_allclose(apart, fitted.log_likelihood(at, data), rtol=1e-10)


def test_values_that_no_simulation_can_have_are_refused(learnt):
    name, fitted = learnt
    data = LAWS[name][0](np.array([[0.4]]), np.random.default_rng(10))[0]
    if name == "heaped":
        pytest.skip("of these every value is possible")
    for beyond in {"clipped": (1.2, -0.7), "hurdle": (-1.0,), "graded": (1.5, 4.0)}[name]:
        with pytest.raises(ImpossibleObservation):
            fitted.condition(np.append(data[1:], beyond))


# --- formulas that are known ---


class Constant:
    """A logit that does not depend on the parameters."""

    def __init__(self, value):
        self.value = value

    def __call__(self, theta, past, xp=np, *, shared=False):
        return self.value + 0 * theta[:, :1]


def known_form(units=ElementUnits(False, True, False), size=4):  # noqa: B008
    """Values -1, 0.5 and 2, of which the first and last are ends, and two parts of a mixture."""
    nothing = Landmarks(np.zeros((1, 1)), np.zeros((1, 1)))
    law = np.zeros((3, 6))
    law[0] = [0.2, -0.2, -1.0, 1.5, -0.5, 0.3]
    law[1, 0] = 0.7
    values = np.array([-1.0, 0.5, 2.0])
    masses = Masses(Atoms(values, 1e-12), tuple(map(Constant, (1.0, 0.7, 1.2))), (-1.0, 2.0), 0.2)
    return Exchangeable(size, True, units, nothing, np.zeros((3, 2)), nothing, law, masses)


@pytest.mark.parametrize("bent", [False, True])
def test_masses_and_density_sum_to_one(bent):
    form = known_form(ElementUnits(False, True, bent), 1)
    described = form.describe(np.array([[0.3]]))
    grid = np.linspace(-1, 2, 20_002)[1:-1]
    logs = form.log_density(described, grid[None, :, None])[0]
    masses = form.log_density(described, np.array([[-1.0, 0.5, 2.0]])[..., None])[0]
    assert np.exp(logs).sum() * (grid[1] - grid[0]) + np.exp(masses).sum() == pytest.approx(1, abs=1e-4)
    beyond = form.log_density(described, np.array([[-1.1, 2.1]])[..., None])[0]
    assert np.all(beyond == -np.inf)


@pytest.mark.parametrize(
    ("kept", "data"),
    [([0, 3], [-1.0, 0.5]), ([1, 2], [0.5, 0.5]), ([0, 2], [-1.0, 2.0]), ([1, 3], [-0.3, 0.7])],
)
def test_missing_sorted_draws_are_integrated_out(kept, data):
    """Two of four, by sums over their values and a fine grid between."""
    form = known_form()
    described = form.describe(np.array([[0.3], [1.0]]))
    found = OrderStatistics(form, np.array(kept)).log_density(described, np.array([[data, data]]))
    grid = np.linspace(-1, 2, 401)[1:-1]
    grid = grid[np.abs(grid - 0.5) > 1e-9]
    values = np.concatenate([[-1.0, 0.5, 2.0], grid])
    widths = np.concatenate([np.ones(3), np.full(len(grid), grid[1] - grid[0])])
    first, second = np.meshgrid(values, values, indexing="ij")
    rows = np.empty((first.size, 4))
    rows[:, kept] = data
    missing = np.setdiff1d(np.arange(4), kept)
    rows[:, missing[0]], rows[:, missing[1]] = first.ravel(), second.ravel()
    ordered = np.all(np.diff(rows, axis=1) >= 0, axis=1)
    # Of two in one cell of the grid half are in order.
    same = (first == second).ravel() & ~np.isin(first.ravel(), values[:3])
    weights = np.outer(widths, widths).ravel() * ordered * np.where(same, 0.5, 1.0)
    densities = np.exp(form.log_density(described, rows[None]))
    np.testing.assert_allclose(found, np.log(densities @ weights)[:, None] * [1, 1], atol=0.01)


def test_the_gradient_of_a_density_between_ends():
    rng = np.random.default_rng(10)
    z, numbers = rng.normal(size=(3, 5)), rng.normal(size=(3, 6))
    ends = np.column_stack([np.full(3, -2.5), [2.0, 3.0, 1e8]])
    some = conditional_mixture.Observed(rng.random((3, 5)) < 0.7, ends)

    def value(flat):
        return conditional_mixture._likelihood(flat.reshape(3, 6), z, some)[0]

    found = conditional_mixture._likelihood(numbers, z, some)[1]
    np.testing.assert_allclose(found.ravel(), approx_fprime(numbers.ravel(), value, 1e-7), atol=1e-4)


def halved(theta, rng, least):
    """Draws censored at zero, which half of all are; the least of the others is that far above it."""
    raw = theta + 0.7 * rng.normal(size=(len(theta), E))
    shift = np.sort(raw.ravel())[raw.size // 2] - least
    return np.clip(raw - shift, 0.0, 1.0), shift


def test_the_unit_is_that_of_draws_that_have_a_density():
    """Of all draws the median is half of `least`, and so is the median distance from it."""
    least = 1e-12
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(600, 1))
    x, shift = halved(theta, rng, least)
    fitted = pk.KernelLikelihood("exchangeable", 500).fit(theta, x, random_seed=1)
    assert 0.1 < fitted.table_.scaler.scale[0] < 1.0
    theta = rng.normal(size=(100, 1))
    x = np.clip(theta + 0.7 * rng.normal(size=(100, E)) - shift, 0.0, 1.0)
    middle = theta - shift
    exact = np.where(x == 1.0, norm.logsf(1.0, middle, 0.7), norm.logpdf(x, middle, 0.7))
    exact = np.where(x == 0.0, norm.logcdf(0.0, middle, 0.7), exact).sum(axis=1)
    found = [fitted.log_likelihood(theta[[i]], x[i])[0] for i in range(100)]
    assert np.abs(found - exact).mean() < 0.5


def test_logarithms_are_taken_also_where_most_draws_are_zero():
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(300, 1))
    positive = np.exp(0.5 * theta + 0.8 * rng.normal(size=(300, E)))
    x = np.where(rng.random((300, E)) < 1 / (1 + np.exp(-1.0 - theta)), 0.0, positive)
    fitted = pk.KernelLikelihood("exchangeable", 50).fit(theta, x, random_seed=1)
    assert fitted.form_.units.logarithm
