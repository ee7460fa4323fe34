"""The form for independent draws of one distribution: formula, known densities, exact posteriors."""

import warnings

import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import approx_fprime
from scipy.special import gammaln, logsumexp
from scipy.stats import cauchy, chi2, gamma, kstest, norm

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood import conditional_mixture as mixture_functions
from pymc_kbr.estimators.likelihood.basis import Landmarks
from pymc_kbr.estimators.likelihood.conditional_mixture import fit_functions, parts_of_numbers
from pymc_kbr.estimators.likelihood.evaluation import Evaluation, integrated_out
from pymc_kbr.estimators.likelihood.exchangeable import ElementUnits, Exchangeable, fit_exchangeable, measured
from pymc_kbr.estimators.summaries.transformed import CommonScale

E = 30


def of_two_normals(theta, rng):
    """Shares and centres are functions of the parameters; the deviation is 0.4."""
    share = 1 / (1 + np.exp(-theta[:, 1:2]))
    first = rng.random((len(theta), E)) < share
    return np.where(first, theta[:, :1], theta[:, :1] + 2) + 0.4 * rng.normal(size=(len(theta), E))


def of_two_normals_log(theta, x):
    share = 1 / (1 + np.exp(-theta[:, 1:2]))
    return np.log(share * norm.pdf(x, theta[:, :1], 0.4) + (1 - share) * norm.pdf(x, theta[:, :1] + 2, 0.4))


def of_cauchy(theta, rng):
    return 3 * theta[:, :1] + np.exp(theta[:, 1:2]) * rng.standard_cauchy((len(theta), E))


def of_cauchy_log(theta, x):
    return cauchy.logpdf(x, 3 * theta[:, :1], np.exp(theta[:, 1:2]))


def of_gamma(theta, rng):
    return np.exp(theta[:, 1:2]) * rng.gamma(np.exp(0.5 * theta[:, :1]), size=(len(theta), E))


def of_gamma_log(theta, x):
    return gamma.logpdf(x, np.exp(0.5 * theta[:, :1]), 0, np.exp(theta[:, 1:2]))


LAWS = {
    "two_normals": (of_two_normals, of_two_normals_log),
    "cauchy": (of_cauchy, of_cauchy_log),
    "gamma": (of_gamma, of_gamma_log),
}


def rows(name, n, seed, ordered=False):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n, 2))
    x = LAWS[name][0](theta, rng)
    return theta, np.sort(x, axis=1) if ordered else x


@pytest.fixture(scope="module", params=list(LAWS))
def of_law(request):
    return request.param, fit_exchangeable(*rows(request.param, 800, 0), np.random.default_rng(1))


def known_form(units, in_order=False):
    """One of four elements, with functions that are written down: m = t, s = log 2, two parts that move."""
    level = np.zeros((3, 2))
    level[1, 0], level[0, 1] = 1.0, np.log(2.0)
    law = np.zeros((3, 6))
    law[0] = [0.2, -0.2, -1.0, 1.5, -0.5, 0.3]
    law[1] = [0.5, -0.5, 0.1, 0.0, 0.2, -0.1]
    nothing = Landmarks(np.zeros((1, 1)), np.zeros((1, 1)))
    return Exchangeable(4, in_order, units, nothing, level, nothing, law)


def density_of_known(units, t, x):
    """Of one number x at the parameter t, by the change of variables."""
    y = np.log(x) if units.logarithm else x
    z = (y - t) / 2.0
    value = np.arcsinh(z) if units.bent else z
    shares = np.exp([0.2 + 0.5 * t, -0.2 - 0.5 * t])
    shares /= shares.sum()
    deviations = np.exp([-0.5 + 0.2 * t, 0.3 - 0.1 * t])
    means = [-1.0 + 0.1 * t, 1.5]
    density = sum(s * norm.pdf(value, m, d) for s, m, d in zip(shares, means, deviations, strict=True))
    slope = 0.5 * (1 / np.sqrt(1 + z**2) if units.bent else 1.0)
    return density * slope * (1 / x if units.logarithm else 1.0)


KINDS = [
    ElementUnits(False, True, False),
    ElementUnits(False, True, True),
    ElementUnits(True, True, False),
    ElementUnits(True, True, True),
]


@pytest.mark.parametrize("units", KINDS)
@pytest.mark.parametrize("in_order", [False, True])
def test_density_is_that_of_its_formula(units, in_order):
    form, points = known_form(units, in_order), np.array([[[0.3, 0.9, 2.0, 7.0], [1.0, 1.5, 3.0, 4.0]]])
    theta = np.array([[0.4], [-1.2], [2.0]])
    found = form.log_density(form.describe(theta), points)
    expected = [[np.log(density_of_known(units, t, x)).sum() for x in points[0]] for (t,) in theta]
    # Sorted draws are as dense as all their orders together.
    np.testing.assert_allclose(found, np.array(expected) + (gammaln(5) if in_order else 0), rtol=1e-12)
    each = form.log_density(form.describe(theta[:2]), points.reshape(2, 1, 4))
    np.testing.assert_allclose(each[:, 0], found[[0, 1], [0, 1]], rtol=1e-12)


@pytest.mark.parametrize("units", KINDS[:3])  # of the fourth much lies beyond the largest number
def test_density_integrates_to_one(units):
    form = known_form(units)
    lone = Exchangeable(
        1, False, form.units, form.level, form.level_coefficients, form.law, form.law_coefficients
    )
    v = np.linspace(-40, 40, 400_001)
    x = np.exp(v) if units.logarithm else np.sinh(v)
    logs = lone.log_density(lone.describe(np.array([[0.7]])), x[None, :, None])[0]
    slopes = v if units.logarithm else np.log(np.cosh(v))
    assert trapezoid(np.exp(logs + slopes), v) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("units", KINDS[:3])
def test_draws_have_its_density_and_are_sorted_where_data_are(units):
    form, sorted_form = known_form(units), known_form(units, in_order=True)
    theta = np.full((4000, 1), 0.4)
    drawn = form.draw(form.describe(theta), np.random.default_rng(2))
    grid = np.linspace(-12, 12, 200_001)
    x = np.exp(grid) if units.logarithm else np.sinh(grid)
    density = density_of_known(units, 0.4, x) * (x if units.logarithm else np.cosh(grid))
    below = np.cumsum(density) * (grid[1] - grid[0])
    ranks = np.interp(np.log(drawn) if units.logarithm else np.arcsinh(drawn), grid, below)
    assert kstest(ranks.ravel(), "uniform").pvalue > 1e-3
    again = sorted_form.draw(form.describe(theta), np.random.default_rng(2))
    np.testing.assert_array_equal(again, np.sort(drawn, axis=1))


@pytest.mark.parametrize("in_order", [False, True])
def test_transforms_are_uniform_and_independent(in_order):
    form = known_form(ElementUnits(False, True, True), in_order)
    theta = np.random.default_rng(3).normal(size=(5000, 1))
    described = form.describe(theta)
    u = form.transforms(described, form.draw(described, np.random.default_rng(4)))
    assert u.shape == (5000, 4)
    for column in u.T:
        assert kstest(column, "uniform").pvalue > 1e-3
    correlations = np.corrcoef(norm.ppf(u).T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 4 / np.sqrt(5000)
    # Draws that are one another's copies are no independent ones, though each has the right law.
    lone = known_form(ElementUnits(False, True, True)).draw(described, np.random.default_rng(5))[:, :1]
    copies = np.repeat(lone, 4, axis=1)
    assert kstest(form.transforms(described, copies)[:, 0], "uniform").pvalue < 1e-6


def test_held_out_rows_are_nearly_as_dense_as_under_the_distribution(of_law):
    name, form = of_law
    theta, x = rows(name, 800, 5)
    found = form.log_density(form.describe(theta), x[:, None])[:, 0]
    lost = LAWS[name][1](theta, x).sum(axis=1) - found
    # Of 30 draws: a fraction of a nat.
    assert np.median(lost) < 0.25
    assert np.mean(lost) < 1.0
    assert np.median(lost) > -0.1  # nothing is denser on average than the truth


def test_posterior_weights_are_nearly_those_of_the_distribution(of_law):
    """Deviation of the log ratio of learned and exact likelihood, where the exact one is not negligible."""
    name, form = of_law
    theta, x = rows(name, 800, 6)
    described, apart = form.describe(theta), []
    for data in x[:20]:
        exact = LAWS[name][1](theta, data[None]).sum(axis=1)
        near = exact > exact.max() - 6
        found = form.log_density(described[near], data[None, None])[:, 0]
        apart.append(np.std(exact[near] - found))
    assert np.median(apart) < 0.5


def test_units_are_those_of_the_distribution(of_law):
    name, form = of_law
    assert form.units.bent is (name == "cauchy")
    assert form.units.logarithm is (name == "gamma")
    assert not form.in_order
    assert form.parts > 1 or name == "gamma"


def test_sorting_changes_nothing_but_the_count_of_orders():
    theta, x = rows("two_normals", 500, 7)
    settings = {"tried": (100.0,), "numbers": 0}
    plain = fit_exchangeable(theta, x, np.random.default_rng(1), **settings)
    ordered = fit_exchangeable(theta, np.sort(x, axis=1), np.random.default_rng(1), **settings)
    assert ordered.in_order
    assert (plain.units, plain.parts) == (ordered.units, ordered.parts)
    at, data = rows("two_normals", 300, 8)
    without = plain.log_density(plain.describe(at), data[:, None])
    with_orders = ordered.log_density(ordered.describe(at), np.sort(data, axis=1)[:, None])
    # Which sixteen numbers of a row are looked at differs: the fits are two estimates of one law.
    apart = with_orders - without - gammaln(E + 1)
    assert abs(np.median(apart)) < 0.3


def test_what_was_compared_leaves_its_units_parts_and_kernels():
    theta, x = rows("two_normals", 500, 9)
    first = fit_exchangeable(theta[:300], x[:300], np.random.default_rng(1), tried=(100.0,), numbers=0)
    second = fit_exchangeable(theta, x, np.random.default_rng(2), compared=first, tried=(100.0,), numbers=0)
    assert (second.units, second.parts) == (first.units, first.parts)
    np.testing.assert_array_equal(second.law.directions, first.law.directions)
    assert second.law.precisions[0, 0] == first.law.precisions[0, 0]


def test_a_measure_and_its_slope():
    x = np.array([[0.5, 2.0, 40.0]])
    for units in KINDS:
        value, slope = measured(x, np.array([[0.3]]), np.array([[-0.7]]), units)
        higher, _ = measured(x * (1 + 1e-6), np.array([[0.3]]), np.array([[-0.7]]), units)
        np.testing.assert_allclose(
            np.log((higher - value) / (x * 1e-6)), np.broadcast_to(slope, x.shape), atol=1e-5
        )


def test_the_gradient_of_the_functions():
    rng = np.random.default_rng(10)
    z, numbers = rng.normal(size=(3, 5)), rng.normal(size=(3, 6))
    numbers[0, 4] = 7.0  # a deviation that is cut off, which the density does not feel

    def value(flat):
        return mixture_functions._likelihood(flat.reshape(3, 6), z)[0]

    found, slopes = mixture_functions._likelihood(numbers, z)
    parts = parts_of_numbers(numbers, 2)
    exact = mixture_functions.log_densities(parts, z).sum()
    # Up to the constant of the normal law, which no slope sees.
    assert found - exact == pytest.approx(15 * 0.5 * np.log(2 * np.pi))
    np.testing.assert_allclose(slopes.ravel(), approx_fprime(numbers.ravel(), value, 1e-7), atol=1e-4)


def test_the_penalty_is_that_of_the_densest_held_out_rows():
    rng = np.random.default_rng(11)
    theta = rng.normal(size=(300, 1))
    z = theta + rng.normal(size=(300, 8))
    noise = rng.normal(size=(300, 30))  # functions that say nothing
    features = np.column_stack([np.ones(300), theta / theta.std(), noise])
    penalties, start = np.repeat([0.0, 50.0], [2, 30]), np.zeros((32, 2))
    out = np.arange(300) < 60

    def of(tried):
        return fit_functions(z, features, penalties, start, out, np.random.default_rng(1), tried, 0)

    single = {one: of((one,)).held_out for one in (100.0, 1e-4)}
    both = of((100.0, 1e-4))
    assert single[100.0] > single[1e-4]
    assert both.held_out == pytest.approx(max(single.values()), abs=1e-9)
    # What says nothing is held near zero; the slope is found.
    np.testing.assert_allclose(both.coefficients[1, 1], theta.std(), atol=0.1)
    assert np.abs(both.coefficients[2:, 1]).max() < 0.05
    whole = fit_functions(z, features, penalties, start, out, np.random.default_rng(1), (100.0,), 10**6)
    assert np.any(whole.coefficients != both.coefficients)


@pytest.fixture(scope="module")
def of_sorted_normals():
    rng = np.random.default_rng(27)
    theta = rng.normal(size=(800, 1))
    x = np.sort(theta + rng.normal(size=(800, 20)), axis=1)
    return pk.KernelLikelihood("exchangeable", 1000).fit(theta, x, random_seed=1)


def test_the_posterior_is_the_exact_one(of_sorted_normals):
    """Means of normal data: mean and deviation against the conjugate posterior."""
    learnt = of_sorted_normals
    data = np.sort(0.6 + np.random.default_rng(12).normal(size=20))
    assert learnt.form_.in_order
    posterior = learnt.condition(data)
    deviation = 1 / np.sqrt(21)
    assert abs(posterior.mean()[0] - 20 * data.mean() / 21) < 0.2 * deviation
    assert 0.85 < posterior.draw(2000, 3).std() / deviation < 1.15
    assert learnt.transforms_pvalue_ > 1e-3
    evidence = norm.logpdf(data).sum() + 0.5 * (20 * data.mean()) ** 2 / 21 - 0.5 * np.log(21)
    assert posterior.settings["log_evidence"] == pytest.approx(evidence + gammaln(21), abs=0.4)


def test_trials_of_data_sets_multiply(of_sorted_normals):
    learnt, rng = of_sorted_normals, np.random.default_rng(13)
    two, at = np.sort(rng.normal(size=(2, 20)), axis=1), rng.normal(size=(4, 1))
    apart = [learnt.log_likelihood(at, one) for one in two]
    np.testing.assert_allclose(learnt.log_likelihood(at, two), np.sum(apart, axis=0), rtol=1e-10)


def test_units_of_the_user_do_not_matter():
    rng = np.random.default_rng(16)
    theta = rng.normal(size=(250, 1))
    x = theta + rng.normal(size=(250, 9))
    one, larger, moved = (
        pk.KernelLikelihood("exchangeable", 50).fit(theta, a + b * x, random_seed=1)
        for a, b in ((0, 1), (0, 1024), (-3e3, 1e3))
    )
    # By a power of two every number is the same number.
    known = one.log_likelihood(theta, x[7])
    volume = 9 * np.log(1024)
    np.testing.assert_allclose(larger.log_likelihood(theta, 1024 * x[7]) + volume, known, rtol=1e-9)
    # Rounding may end a search at another mixture of the same data, which is as good.
    new, rows = rng.normal(size=(400, 1)), np.arange(400)
    y = new + rng.normal(size=(400, 9))
    gains = [
        moved.log_likelihood(new[i : i + 1], -3e3 + 1e3 * y[i])[0]
        + 9 * np.log(1e3)
        - one.log_likelihood(new[i : i + 1], y[i])[0]
        for i in rows
    ]
    assert abs(np.mean(gains)) < 4 * np.std(gains) / np.sqrt(len(gains)) + 1e-3


def test_what_it_refuses():
    rng = np.random.default_rng(16)
    theta = rng.normal(size=(200, 1))
    with pytest.raises(ValueError, match=r"7 statistics.*at least 8"):
        pk.KernelLikelihood("exchangeable").fit(theta, theta + rng.normal(size=(200, 7)))
    uneven = rng.choice(np.append(np.arange(25.0), np.pi), size=(200, 12))  # more than have probabilities
    with pytest.raises(ValueError, match=r"% of the neighbours .* are equal"):
        pk.KernelLikelihood("exchangeable").fit(theta, uneven)
    mostly_zeros = np.zeros((200, 12))
    mostly_zeros[:3] = rng.normal(size=(3, 12))
    with pytest.raises(ValueError, match="takes at least 50"):
        pk.KernelLikelihood("exchangeable").fit(theta, mostly_zeros)
    for scale in (False, "joint_posterior_mean"):
        with pytest.raises(ValueError, match="leave it at True"):
            pk.KernelLikelihood("exchangeable", scale=scale).fit(theta, theta + rng.normal(size=(200, 9)))


def test_observations_that_no_row_is_like_are_refused():
    rng = np.random.default_rng(21)
    theta = rng.normal(size=(300, 1))
    x = np.sort(np.exp(theta + rng.normal(size=(300, 9))), axis=1)
    learnt = pk.KernelLikelihood("exchangeable", 50).fit(theta, x, random_seed=1)
    assert learnt.form_.units.logarithm
    with pytest.raises(ValueError, match="sort them as the simulator does"):
        learnt.condition(x[0, ::-1])
    with pytest.raises(ValueError, match=r"positive.*numbered 0 of observation 0"):
        learnt.condition(np.concatenate([[-1.0], x[0, 1:]]))


@pytest.mark.parametrize("kind", ["series", "quantiles", "one law, sorted"])
def test_columns_that_are_not_of_one_distribution_are_warned_of(kind):
    rng = np.random.default_rng(22)
    theta, noise = rng.normal(size=(300, 1)), rng.normal(size=(300, 9))
    series = np.cumsum(noise, axis=1)
    x = (
        theta
        + {
            "series": series,
            "quantiles": np.quantile(rng.normal(size=(300, 40)), np.linspace(0.1, 0.9, 9), axis=1).T,
            "one law, sorted": np.sort(noise, axis=1),
        }[kind]
    )
    learnt = pk.KernelLikelihood("exchangeable", 50)
    if "one law" in kind:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            learnt.fit(theta, x, random_seed=1)
        assert hasattr(learnt, "transforms_worst_")  # those of the order are of no column
    else:
        with pytest.warns(UserWarning, match="do not look like independent draws of one distribution"):
            learnt.fit(theta, x, random_seed=1)


def test_draws_may_be_more_than_a_fifth_of_the_rows_and_hardly_noisy():
    rng = np.random.default_rng(23)
    theta = 100 * rng.normal(size=(450, 1))
    x = np.sort(theta + rng.normal(size=(450, 120)), axis=1)
    learnt = pk.KernelLikelihood("exchangeable", 500).fit(theta, x, random_seed=1)
    data = np.sort(32 + rng.normal(size=120))
    posterior = learnt.condition(data)
    assert abs(posterior.mean()[0] - data.mean()) < 0.5 / np.sqrt(120)
    assert 0.6 < posterior.draw(500, 3).std() * np.sqrt(120) < 1.6


def test_the_order_of_the_rows_does_not_matter_for_what_is_seen():
    """A law of two modes at one end of a table in the order of its parameter."""
    rng = np.random.default_rng(24)
    theta = np.sort(rng.uniform(-2, 2, size=(2600, 1)), axis=0)
    centre = np.where(rng.random((2600, 16)) < 0.5, -1, 1) * np.where(theta > 1.1, 2.0, 0.0)
    x = centre + 0.3 * rng.normal(size=(2600, 16))
    form = fit_exchangeable(theta, x, np.random.default_rng(1), tried=(100.0,), numbers=0)
    assert form.parts > 1


def test_a_scale_far_beyond_the_table_stays_finite(of_law):
    _, form = of_law
    far = np.array([[0.0, -3000.0], [50.0, 3000.0]])
    assert np.isfinite(form.log_density(form.describe(far), np.linspace(1, 2, E)[None, None])).all()


def test_missing_raw_draws_are_left_out():
    form, theta = known_form(ElementUnits(False, True, True)), np.array([[0.4], [-1.0]])
    points = np.array([[[0.3, 0.9, 2.0, 7.0]]])
    kept = np.array([0, 2])
    found = marginal_of(form, kept).log_density(form.describe(theta), points[:, :, kept])
    expected = [[np.log(density_of_known(form.units, t, points[0, 0, kept])).sum()] for (t,) in theta]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("kept", [[0, 1, 2, 3], [1, 2], [0, 3], [3], [0, 2, 3]])
def test_missing_sorted_draws_are_integrated_out(kept):
    """By quadrature over those that are missing, each between its neighbours."""
    form, theta = known_form(ElementUnits(False, True, False), in_order=True), np.array([[0.4]])
    data, kept = np.array([-1.0, 0.3, 1.1, 4.0]), np.array(kept)
    alone = marginal_of(form, kept)
    found = alone.log_density(form.describe(theta), data[None, None, kept])[0, 0]
    grid = np.linspace(-25, 25, 20_001)
    density = density_of_known(form.units, 0.4, grid)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2) * (grid[1] - grid[0])])
    ends = [0.0, *np.interp(data[kept], grid, below), 1.0]
    missing = np.diff([-1, *kept, 4]) - 1
    expected = np.log(density_of_known(form.units, 0.4, data[kept])).sum() + np.log(24)
    expected += np.sum(missing * np.log(np.diff(ends)) - gammaln(missing + 1))
    assert found == pytest.approx(expected, abs=1e-5)
    described = form.describe(np.random.default_rng(25).normal(size=(4000, 1)))
    u = alone.transforms(described, alone.draw(described, np.random.default_rng(26)))
    assert all(kstest(column, "uniform").pvalue > 1e-3 for column in u.T)
    with pytest.raises(NotImplementedError, match="NumPy alone"):
        alone.log_density(None, None, xp=pytest)


def marginal_of(form, kept):
    summary = CommonScale(np.zeros(4), np.ones(4), np.ones(4, dtype=bool))
    return integrated_out(Evaluation(form, None, summary), kept).form


def test_a_sorted_observation_with_gaps_has_the_posterior_of_what_is_left(of_sorted_normals):
    """The lower half of normal draws is missing: wider than with all of them, and about where it is."""
    learnt = of_sorted_normals
    data = np.sort(0.5 + np.random.default_rng(28).normal(size=20))
    gaps = np.where(np.arange(20) < 10, np.nan, data)
    whole, rest = (learnt.condition(one).draw(1000, 3) for one in (data, gaps))
    grid = np.linspace(-2, 3, 2001)
    logs = norm.logpdf(grid) + norm.logpdf(data[10:, None], grid).sum(axis=0)
    logs += 10 * norm.logcdf(data[10], grid)
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    mean = weights @ grid
    deviation = np.sqrt(weights @ (grid - mean) ** 2)
    assert abs(rest.mean() - mean) < 0.25 * deviation
    assert 0.8 < rest.std() / deviation < 1.25
    assert rest.std() > whole.std() * 0.97


@pytest.mark.statistical
def test_calibration_by_ranks():
    """Ranks of the truth among draws of a grid of parameters weighted by the learned likelihood."""
    theta, x = rows("two_normals", 1200, 18, ordered=True)
    form = fit_exchangeable(theta, x, np.random.default_rng(1))
    truths, data = rows("two_normals", 200, 19, ordered=True)
    grid = np.random.default_rng(20).normal(size=(2000, 2))
    logs = form.log_density(form.describe(grid), data[None])
    weights = np.exp(logs - logsumexp(logs, axis=0))
    for j in range(2):
        below = np.sum(weights * (grid[:, j, None] < truths[:, j]), axis=0)
        counts = np.histogram(below, bins=10, range=(0, 1))[0]
        assert chi2.sf(np.sum((counts - 20) ** 2 / 20), 9) > 1e-3
