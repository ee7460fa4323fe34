"""Declared structure of a learned likelihood: parameters that shift, scale or bound statistics."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_kbr as pk

RNG = np.random.default_rng(3)
N = 500
K, T, S = RNG.uniform(1, 4, N), RNG.uniform(0, 2, N), RNG.uniform(0.5, 2, N)
U = T + RNG.uniform(1, 3, N)
THETA = {"k": K, "t": T, "s": S, "u": U}
X = {
    "choice": (RNG.random(N) < 0.2 * K).astype(float),
    "time": T + S * RNG.gamma(K),
    "place": T + (U - T) * RNG.beta(K, 2.0),
    "size": S * RNG.gamma(K),
}


def some(columns, names):
    """Some columns by their names."""
    return {name: columns[name] for name in names}


def numbers(columns):
    return np.column_stack(list(columns.values()))


def fitted(columns, names=("k", "t", "s", "u"), **declared):
    """A likelihood of some of the statistics."""
    likelihood = pk.KernelLikelihood(**declared).for_scores()
    return likelihood.fit(some(THETA, names), some(X, columns), random_seed=1)


@pytest.fixture(scope="module")
def moved():
    """Of a time that is shifted and scaled."""
    return fitted(["time"], ("k", "t", "s"), shift={"time": "t"}, scale={"time": "s"}, lower={"time": "t"})


@pytest.fixture(scope="module")
def whole():
    return fitted(
        ["choice", "time", "place"],
        shift={"time": "t"},
        scale={"time": "s"},
        lower={"time": "t", "place": "t"},
        upper={"place": "u"},
    )


def mass(likelihood, theta, grid):
    densities = np.exp(likelihood.log_likelihoods([theta], grid[:, None])[0])
    return float(np.sum((densities[1:] + densities[:-1]) / 2 * np.diff(grid)))


@settings(max_examples=25, deadline=None)
@given(
    st.floats(1.1, 3.9), st.floats(0.0, 2.0), st.floats(0.5, 2.0), st.floats(-3.0, 3.0), st.floats(0.3, 3.0)
)
def test_a_shift_and_a_scale_move_the_density_exactly(moved, k, t, s, by, factor):
    x = t + s * np.array([0.3, 1.0, 4.0])
    before = moved.log_likelihoods([[k, t, s]], x[:, None])[0]
    after = moved.log_likelihoods([[k, t + by, s]], x[:, None] + by)[0]
    np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-9)
    stretched = moved.log_likelihoods([[k, t * factor, s * factor]], factor * x[:, None])[0]
    np.testing.assert_allclose(stretched, before - np.log(factor), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("theta", [[1.5, 0.2, 0.6], [3.0, 1.9, 1.8]])
def test_the_density_has_mass_one_and_none_beyond_its_edge(moved, theta):
    edge = theta[1]
    above = edge + np.exp(np.linspace(np.log(1e-9), np.log(80.0), 40_001))
    assert mass(moved, theta, above) == pytest.approx(1, abs=1e-4)
    assert np.all(moved.log_likelihoods([theta], np.array([[edge], [edge - 0.1], [-50.0]])) == -np.inf)
    drawn = moved.draw_statistics(np.tile(theta, (2000, 1)), 1)[:, 0]
    assert drawn.min() > edge
    # The distribution function at the median of draws, by the density.
    below = above[above < np.median(drawn)]
    assert mass(moved, theta, below) == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(2000))


def test_between_two_edges_that_are_parameters():
    likelihood = fitted(["place"], lower={"place": "t"}, upper={"place": "u"})
    theta = np.array([2.0, 0.5, 1.0, 2.5])
    inside = 0.5 + 2 * (0.5 + 0.5 * np.tanh(np.linspace(-12, 12, 20_001)))
    assert mass(likelihood, theta, inside) == pytest.approx(1, abs=1e-4)
    assert np.all(likelihood.log_likelihoods([theta], np.array([[0.4], [0.5], [2.5], [2.6]])) == -np.inf)
    assert np.isfinite(likelihood.log_likelihood([theta], [[1.0]])[0])
    drawn = likelihood.draw_statistics(np.tile(theta, (500, 1)), 1)
    assert np.all((drawn > 0.5) & (drawn < 2.5))


def test_an_edge_that_is_a_number_and_one_from_above():
    likelihood = fitted(["size"], ("k", "s"), lower={"size": 0}, scale={"size": "s"})
    assert mass(likelihood, [2.0, 1.0], np.linspace(1e-6, 60, 60_001)) == pytest.approx(1, abs=1e-3)
    assert likelihood.log_likelihood([[2.0, 1.0]], [[-0.1]])[0] == -np.inf
    turned = pk.KernelLikelihood(upper={"x": "t"}).for_scores()
    turned.fit(some(THETA, ["k", "t"]), {"x": T - RNG.gamma(K)}, random_seed=1)
    assert mass(turned, [2.0, 1.0], 1 - np.geomspace(80, 1e-7, 40_001)) == pytest.approx(1, abs=1e-3)
    assert turned.log_likelihood([[2.0, 1.0]], [[1.01]])[0] == -np.inf
    assert turned.draw_statistics(np.tile([2.0, 1.0], (300, 1)), 1).max() < 1


def test_columns_have_numbers_where_they_have_no_names():
    by_name = fitted(["time"], ("k", "t"), shift={"time": "t"})
    by_number = pk.KernelLikelihood(shift={0: 1}).for_scores()
    by_number.fit(numbers(some(THETA, ["k", "t"])), X["time"][:, None], random_seed=1)
    at = [[2.0, 0.5]], [[1.5]]
    np.testing.assert_array_equal(by_name.log_likelihood(*at), by_number.log_likelihood(*at))


def test_a_distribution_that_no_parameter_moves():
    """All that there is to learn then is one distribution."""
    mean = RNG.normal(size=500)
    x = mean + RNG.standard_t(5, size=500)
    likelihood = pk.KernelLikelihood(shift={0: 0}).for_scores().fit(mean[:, None], x[:, None], random_seed=1)
    found = likelihood.log_likelihoods([[0.0], [3.0]], np.array([[0.5], [3.5]]))
    assert found[0, 0] == pytest.approx(found[1, 1], abs=1e-12)
    assert mass(likelihood, [1.0], np.linspace(-60, 60, 40_001)) == pytest.approx(1, abs=1e-3)


def test_the_likelihood_of_trials_is_the_sum_and_the_posterior_knows_the_edge(whole):
    theta = np.array([[2.0, 0.5, 1.0, 2.5], [3.0, 1.0, 0.8, 2.2]])
    trials = np.array([[1.0, 1.9, 1.2], [0.0, 3.0, 2.0], [1.0, 1.3, 1.4]])
    each = [whole.log_likelihood(theta, row) for row in trials]
    np.testing.assert_allclose(whole.log_likelihood(theta, trials), np.sum(each, axis=0), rtol=1e-10)
    np.testing.assert_allclose(whole.log_likelihoods(theta, trials), np.array(each).T, rtol=1e-10)
    drawn = whole.condition(trials, trials=True).draw(200, 1)
    assert np.all(drawn[:, 1] < 1.2)
    assert np.all(drawn[:, 3] > 2.0)
    assert whole.condition(trials[0]).draw(200, 1)[:, 1].max() < 1.2


def test_what_was_saved_conditions_as_before(whole, tmp_path):
    theta, row = [[2.0, 0.5, 1.0, 2.5]], [[1.0, 1.9, 1.2]]
    for other in (pk.load(pk.save(whole, tmp_path / "fitted.npz")), pickle.loads(pickle.dumps(whole))):
        np.testing.assert_array_equal(other.log_likelihood(theta, row), whole.log_likelihood(theta, row))
        assert other.shift == {"time": "t"}
        np.testing.assert_array_equal(other.draw_statistics(theta, 1), whole.draw_statistics(theta, 1))


def test_others_are_integrated_out(whole):
    alone = whole.marginal(np.array([0, 1]))
    theta = np.array([[2.0, 0.5, 1.0, 2.5]])
    assert np.isfinite(alone.log_likelihood(theta, [[1.0, 0.6]])[0])
    assert alone.log_likelihood(theta, [[1.0, 0.4]])[0] == -np.inf


@pytest.mark.parametrize(
    ("declared", "error", "says"),
    [
        ({"shift": {"time": "q"}}, ValueError, "'q', which the table lacks"),
        ({"shift": {"rt": "t"}}, ValueError, "'rt', which the table lacks"),
        ({"shift": {"time": ["t", "s"]}}, TypeError, "one of each kind"),
        ({"shift": {"time": "t", 1: "s"}}, ValueError, "two entries in shift"),
        ({"shift": {"time": True}}, TypeError, "the name, or the column"),
        ({"shift": {"time": 7}}, ValueError, "from 0 to 3"),
        ({"shift": "time"}, TypeError, "must be a dict"),
        ({"lower": {"time": 3.0}}, ValueError, "on or beyond its edge"),
        ({"lower": {"time": "u"}}, ValueError, "on or beyond its edge"),
        ({"upper": {"place": np.inf}}, ValueError, "infinite"),
        ({"lower": {"place": "u"}, "upper": {"place": "t"}}, ValueError, "upper edge is not above"),
        ({"lower": {"place": 3}, "upper": {"place": 2}}, ValueError, "is not below"),
        ({"lower": {"place": "t"}, "upper": {"place": "t"}}, ValueError, "same parameter"),
        ({"shift": {"time": "t"}, "lower": {"time": "s"}}, ValueError, "moves with the statistic"),
        ({"shift": {"time": "t"}, "lower": {"time": 0}}, ValueError, "moves with the statistic"),
        ({"shift": {"time": "t"}, "scale": {"time": "t"}}, ValueError, "one of them"),
        ({"scale": {"time": "t"}, "form": "exchangeable"}, ValueError, "leave it at True"),
        ({"shift": {"time": "t"}, "scale": "dependent"}, ValueError, "leave one of the two out"),
    ],
)
def test_what_cannot_be_is_refused(declared, error, says):
    with pytest.raises(error, match=says):
        pk.KernelLikelihood(**declared).fit(THETA, X, random_seed=1)


def test_a_scale_that_is_not_positive_is_refused():
    with pytest.raises(ValueError, match="its scale is not above zero"):
        pk.KernelLikelihood(scale={"time": "s"}).fit(THETA | {"s": S - 1}, some(X, ["time"]))


def test_names_are_needed_where_they_are_used():
    with pytest.raises(ValueError, match="have no names"):
        pk.KernelLikelihood(shift={"time": "t"}).fit(numbers(THETA), numbers(X))


def test_trials_of_an_impossible_value_are_refused(whole):
    good = [1.0, 1.9, 1.2]
    for bad in ([1.0, -0.5, 1.2], [1.0, 1.9, 7.0], [0.5, 1.9, 1.2]):
        with pytest.raises(ValueError, match="the model does not make it"):
            whole.condition(np.array([good, bad]), trials=True)
        assert whole.log_likelihood([[2.0, 0.5, 1.0, 2.5]], [good, bad])[0] == -np.inf


@pytest.fixture(scope="module")
def under_conditions():
    """Trials x = a + b c + noise, with c a condition."""
    rng = np.random.default_rng(4)
    a, b, c = rng.normal(size=(3, 800))
    x = {"x": a + b * c + rng.normal(size=800)}
    likelihood = pk.KernelLikelihood("location_scale", 500, conditions=["c"])
    return likelihood.fit({"a": a, "c": c, "b": b}, x, random_seed=1)


def test_conditions_are_no_parameters(under_conditions, tmp_path):
    """The posterior is that of a linear regression with standard normal coefficients."""
    rng = np.random.default_rng(5)
    c = rng.uniform(-2, 2, 40)
    x = (0.5 - c + rng.normal(size=40))[:, None]
    design = np.column_stack([np.ones(40), c])
    covariance = np.linalg.inv(design.T @ design + np.eye(2))
    mean, deviations = covariance @ design.T @ x[:, 0], np.sqrt(np.diag(covariance))
    found = under_conditions.condition(x, trials=True, conditions=c[:, None])
    assert found.names == ("a", "b")
    assert np.all(np.abs(found.mean() - mean) < 0.6 * deviations)
    np.testing.assert_allclose(found.draw(1000, 1).std(axis=0), deviations, rtol=0.2)
    again = pk.load(pk.save(under_conditions, tmp_path / "fitted.npz"))
    assert again.condition(x, trials=True, conditions=c[:, None]).mean().tolist() == found.mean().tolist()
    several = under_conditions.condition([x[:5], x[:3]], trials=True, conditions=[c[:5], c[:3]])
    alone = under_conditions.condition(x[:3], trials=True, conditions=c[:3])
    assert np.all(np.abs(several[1].mean() - alone.mean()) < 0.2)
    # One condition for all, and one for each observation.
    one, two = under_conditions.condition([[1.0], [1.0]], conditions=[[2.0], [-2.0]])
    assert one.mean()[1] > 0 > two.mean()[1]
    assert under_conditions.condition([1.0], conditions=[2.0]).mean()[1] > 0


def test_conditions_are_missing_or_too_many(under_conditions):
    for trials in (False, True):
        with pytest.raises(ValueError, match="say under which ones"):
            under_conditions.condition(np.ones((3, 1)), trials=trials)
    with pytest.raises(ValueError, match="3 observations and 1 conditions"):
        under_conditions.condition(np.ones((3, 1)), trials=True, conditions=[[1.0], [2.0]])
    with pytest.raises(ValueError, match=r"give .k, 3."):
        under_conditions.log_likelihood([[0.0, 1.0]], [[1.0]])
    plain = fitted(["time"], ("k", "t"), shift={"time": "t"})
    with pytest.raises(ValueError, match="fitted without any"):
        plain.condition([2.0], conditions=[1.0])
    for wrong in (["q"], "k", ["k", "k"], ["k", "t", "s", "u"]):
        with pytest.raises((TypeError, ValueError), match="condition"):
            pk.KernelLikelihood(conditions=wrong).fit(THETA, X)


def test_several_observations_are_evaluated_as_each_alone(whole):
    """Those of a population of particles together, and with counts beside what is moved."""
    x = some(X, ["choice", "time"]) | {"count": RNG.poisson(K).astype(float)}
    likelihood = pk.KernelLikelihood(shift={"time": "t"}).for_scores()
    likelihood.fit(some(THETA, ["k", "t"]), x, random_seed=1)
    rows = np.array([[1.0, 2.5, 0.0], [0.0, 3.0, 4.0], [1.0, 2.2, 30.0]])
    evaluation, theta = likelihood._evaluation, RNG.uniform(0.5, 1.5, (3, 5, 2))
    prepared = evaluation.prepare(rows).each()
    described = evaluation.describe(theta.reshape(15, 2)).reshape(3, 5, -1)
    together = evaluation.log_likelihoods(described, prepared)
    alone = [likelihood.log_likelihood(at, row) for at, row in zip(theta, rows, strict=True)]
    np.testing.assert_allclose(together, alone, rtol=1e-9)
    for posterior in likelihood.condition(rows):
        assert posterior.draw(200, 1)[:, 1].max() < 3
    described = whole._evaluation.describe(np.tile([2.0, 0.5, 1.0, 2.5], (15, 1))).reshape(3, 5, -1)
    rows = np.array([[1.0, 1.9, 1.2], [0.0, 3.0, 2.0], [1.0, 1.3, 1.4]])
    found = whole._evaluation.log_likelihoods(described, whole._evaluation.prepare(rows).each())
    expected = whole.log_likelihoods([[2.0, 0.5, 1.0, 2.5]], rows)[0]
    np.testing.assert_allclose(found, np.tile(expected[:, None], (1, 5)), rtol=1e-9)
