"""Kernel Bayes' rules of a table under another prior, against the formulas, step by step."""

import numpy as np
import pytest
from scipy.linalg import inv

import pymc_kbr as pk
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators import embedding
from pymc_kbr.estimators.prior_weights import PriorWeights, ratio_settings
from pymc_kbr.gram import Exact, IncompleteCholesky
from pymc_kbr.kernels import Gaussian

N, L = 50, 30
ON_THETA = Gaussian((0.9, 1.2))
BOUNDS = Support.from_bounds({"a": (-0.8, None), "b": (None, None)}, ["a", "b"])


@pytest.fixture
def arrays(rng):
    theta = rng.normal(size=(N, 2))
    return theta, np.column_stack([theta, theta[:, 0] ** 2]) + 0.4 * rng.normal(size=(N, 3))


@pytest.fixture
def draws(rng):
    return np.abs(rng.normal(0.4, 0.5, size=(L, 2))), rng.uniform(-0.1, 0.5, size=L)


def centred_parts(x, observed, c, bandwidth=1.5):
    """The Gram matrix of x and kernel values at `observed`, of features less their mean under c."""
    scaler = Scaler.fit(x)
    scaled, at = scaler.transform(x), scaler.transform(observed)
    gram = np.array([[np.exp(-np.sum((a - b) ** 2) / (2 * bandwidth**2)) for b in scaled] for a in scaled])
    cross = np.array([[np.exp(-np.sum((a - b) ** 2) / (2 * bandwidth**2)) for b in at] for a in scaled])
    about = np.eye(len(x)) - np.outer(np.ones(len(x)), c)
    return about @ gram @ about.T, about @ (cross - (gram @ c)[:, None])


def importance_weighted(gram, cross, gamma, regularisation):
    root = np.diag(np.sqrt(np.maximum(gamma, 0)))
    return root @ inv(root @ gram @ root + regularisation * np.eye(len(gram))) @ root @ cross


def squared(gram, cross, gamma, regularisation):
    dg = np.diag(gamma) @ gram
    return dg @ inv(dg @ dg + regularisation * np.eye(len(gram))) @ np.diag(gamma) @ cross


RULES = {pk.ImportanceWeightedKernelBayes: (importance_weighted, 1e-2), pk.KernelBayes: (squared, 1e-4)}


@pytest.mark.parametrize("cls", RULES)
@pytest.mark.parametrize("where", ["fit", "constructor"])
def test_features_are_regressed_about_the_priors_and_the_base_is_the_prior(cls, where, arrays, draws):
    theta, x = arrays
    rule, regularisation = RULES[cls]
    settings = {"parameter_kernel": ON_THETA, "prior_regularisation": 1e-2, "solver": "exact"}
    if where == "fit":
        fitted = cls(1.5, regularisation, **settings).fit(theta, x, BOUNDS, prior=draws)
    else:
        fitted = cls(1.5, regularisation, prior=draws, **settings).fit(theta, x, BOUNDS)
    choice = ratio_settings(theta, *draws, True, ON_THETA, 1e-2)
    rng = np.random.default_rng(0)
    prior = PriorWeights.of_draws(*draws, theta, BOUNDS, choice, True, Exact(), rng)
    c = np.maximum(prior.gamma, 0) / np.maximum(prior.gamma, 0).sum()
    weights = rule(*centred_parts(x, x[:3], c), prior.gamma, regularisation)
    expected = weights - np.outer(c, weights.sum(axis=0)) + prior.base[:, None]
    np.testing.assert_allclose(fitted.weights(x[:3]), expected.T, atol=1e-8)
    for name, value in prior.settings.items():
        assert fitted.settings()[name] == pytest.approx(value)
        assert fitted.condition(x[0]).settings[name] == pytest.approx(value)


@pytest.mark.parametrize("cls", [*RULES, pk.ConditionalMean])
@pytest.mark.parametrize("ratio_given", [True, False])
def test_a_ratio_that_is_known_is_the_weight(cls, ratio_given, arrays, rng):
    theta, x = arrays
    ratio = rng.uniform(0.1, 3, size=N) if ratio_given else None
    gamma = np.full(N, 1 / N) if ratio is None else ratio / ratio.sum()
    rule, regularisation = RULES.get(cls, (importance_weighted, 1e-2))
    fitted = cls(1.5, regularisation).fit(theta, x, ratio=ratio)
    weights = rule(*centred_parts(x, x[:3], gamma), gamma, regularisation)
    expected = weights - np.outer(gamma, weights.sum(axis=0)) + gamma[:, None]
    np.testing.assert_allclose(fitted.weights(x[:3]), expected.T, atol=1e-8)


@pytest.mark.parametrize("cls", RULES)
def test_without_centring_the_tables_own_parameters_are_the_prior(cls, arrays):
    theta, x = arrays
    rule, regularisation = RULES[cls]
    settings = {"parameter_kernel": ON_THETA, "prior_regularisation": 1e-2, "centred": False}
    fitted = cls(1.5, regularisation, **settings).fit(theta, x)
    gram = ON_THETA(theta)
    gamma = inv(gram + N * 1e-2 * np.eye(N)) @ gram.mean(axis=1)
    zero = np.zeros(N)
    expected = rule(*centred_parts(x, x[:3], zero), gamma, regularisation)
    np.testing.assert_allclose(fitted.weights(x[:3]), expected.T, atol=1e-8)
    own = cls(1.5, regularisation, **settings, prior=theta).fit(theta, x)
    np.testing.assert_allclose(own.weights(x[:3]), expected.T, atol=1e-8)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("solver", ["exact", IncompleteCholesky(rank=N, tolerance=0)])
def test_weights_of_the_priors_draws_are_the_chain_rules(centred, solver, arrays, draws):
    theta, x = arrays
    points, a = draws
    settings = {"parameter_kernel": ON_THETA, "prior_regularisation": 1e-2, "centred": centred}
    fitted = pk.KernelBayes(1.5, 1e-4, atoms="prior", solver=solver, **settings)
    fitted.fit(theta, x, BOUNDS, prior=draws)
    if centred:
        a = a / a.sum()
    cross, own = ON_THETA(theta, points), np.full(N, 1 / N)
    inverse = inv(ON_THETA(theta) + N * 1e-2 * np.eye(N))
    if centred:
        joint = (inverse @ (cross - (ON_THETA(theta) @ own)[:, None]) + 1 / N) * a
    else:
        joint = inverse @ cross * a
    joint[theta[:, 0] <= -0.8] = 0
    assert np.any(theta[:, 0] <= -0.8)
    joint /= joint.sum() if centred else 1
    gamma = joint.sum(axis=1)
    c = np.maximum(gamma, 0) / np.maximum(gamma, 0).sum() if centred else np.zeros(N)
    gram, at = centred_parts(x, x[:3], c)
    gd = gram @ np.diag(gamma)
    weights = joint.T @ inv(gd @ gd + 1e-4 * np.eye(N)) @ gd @ at
    if centred:
        weights += np.outer(a, 1 - weights.sum(axis=0))
    found = fitted.weights(x[:3])
    np.testing.assert_allclose(found, weights.T, atol=1e-7)
    assert not fitted.weighs_rows
    assert pk.KernelBayes(1.5, 1e-4).fit(theta, x).weighs_rows
    posteriors = fitted.condition(x[:3])
    for posterior, row in zip(posteriors, found, strict=True):
        np.testing.assert_array_equal(posterior.atoms, points)
        np.testing.assert_allclose(posterior.weights, row)


def test_without_draws_the_tables_own_parameters_carry_the_weights(arrays):
    theta, x = arrays
    settings = {"parameter_kernel": ON_THETA, "prior_regularisation": 1e-2, "atoms": "prior"}
    own = pk.KernelBayes(1.5, 1e-4, **settings).fit(theta, x)
    given = pk.KernelBayes(1.5, 1e-4, prior=theta, **settings).fit(theta, x)
    np.testing.assert_allclose(own.weights(x[:2]), given.weights(x[:2]), atol=1e-12)
    np.testing.assert_array_equal(own.condition(x[0]).atoms, theta)


def test_the_priors_kernel_is_the_given_one_or_is_chosen(arrays, draws):
    theta, x = arrays
    points, a = draws[0], np.abs(draws[1])
    wide = pk.ImportanceWeightedKernelBayes(1.5, 1e-2, prior_regularisation=1e-2, parameter_bandwidth=1.5)
    wide.fit(theta, x, prior=(points, a))
    assert wide.parameter_kernel_ == Gaussian(tuple((1.5 * theta.std(axis=0)).tolist()))
    same = pk.ImportanceWeightedKernelBayes(
        1.5, 1e-2, prior_regularisation=1e-2, parameter_kernel=wide.parameter_kernel_
    ).fit(theta, x, prior=(points, a))
    np.testing.assert_allclose(same.weights(x[0]), wide.weights(x[0]), atol=1e-10)
    chosen = pk.ImportanceWeightedKernelBayes(1.5, 1e-2).fit(theta, x, prior=(points, a))
    choice = ratio_settings(theta, points, a, True)
    assert chosen.prior_regularisation_ == choice.regularisation
    rng = np.random.default_rng(0)
    inside = Support.unbounded(2)
    prior = PriorWeights.of_draws(points, a, theta, inside, choice, True, Exact(), rng)
    np.testing.assert_allclose(chosen._prior.gamma, prior.gamma, atol=1e-10)


def test_auto_is_exact_up_to_four_thousand_rows():
    solver = pk.KernelBayes()._solver()
    assert solver.choice(4000) == Exact()
    assert solver.choice(4001) != Exact()
    assert pk.KernelBayes(solver="exact")._solver() == Exact()
    assert pk.ConditionalMean()._solver().choice(20_000) == Exact()


def test_what_memory_does_not_hold_is_refused(arrays, draws, monkeypatch):
    theta, x = arrays
    estimators = {8 * N**2: pk.ConditionalMean(1.5, 1e-2), 8 * 20**2: pk.Localised(20, 1.5, 1e-2)}
    for needed, estimator in estimators.items():
        monkeypatch.setattr(embedding, "physical_memory", lambda n=needed: n / 0.8)
        estimator.fit(theta, x)
        monkeypatch.setattr(embedding, "physical_memory", lambda n=needed: 0.999 * n / 0.8)
        with pytest.raises(MemoryError, match="take solver='auto' or 'nystroem'"):
            estimator.fit(theta, x)
    monkeypatch.setattr(embedding, "physical_memory", lambda: 1e12)
    for prior, count in ((draws, L), (None, N)):
        monkeypatch.setattr(embedding, "physical_memory", lambda m=count: 16 * N * m / 0.8)
        pk.KernelBayes(1.5, 1e-4, atoms="prior").fit(theta, x, prior=prior)
        monkeypatch.setattr(embedding, "physical_memory", lambda m=count: 0.999 * 16 * N * m / 0.8)
        with pytest.raises(MemoryError, match=f"{N} rows and {count} draws"):
            pk.KernelBayes(1.5, 1e-4, atoms="prior").fit(theta, x, prior=prior)


@pytest.mark.parametrize(
    ("settings", "given", "error", "words"),
    [
        ({"atoms": "rows"}, {}, ValueError, "'table' or 'prior'"),
        ({"atoms": "prior"}, {"ratio": np.ones(N)}, ValueError, "has no draws to carry the weights"),
        ({"atoms": "prior", "solver": "subsample"}, {}, ValueError, "divides the rows"),
        ({"atoms": "prior", "solver": "divide_and_conquer"}, {}, ValueError, "divides the rows"),
        ({"prior": np.ones((4, 2))}, {"prior": np.ones((4, 2))}, ValueError, "one of the two"),
        ({"prior": np.ones((4, 2))}, {"ratio": np.ones(N)}, ValueError, "one of the two"),
        ({}, {"prior": np.ones((4, 2)), "ratio": np.ones(N)}, ValueError, "one of the two"),
        ({"prior": np.ones((4, 3))}, {}, ValueError, "3 parameters; the table has 2"),
        ({}, {"prior": np.ones((4, 3))}, ValueError, "3 parameters; the table has 2"),
        ({"prior": np.full((4, 2), np.nan)}, {}, ValueError, "NaN"),
        ({"prior_regularisation": 0.0}, {}, ValueError, "prior_regularisation"),
        ({"parameter_kernel": "gaussian"}, {}, TypeError, "parameter_bandwidth"),
        ({"parameter_kernel": 3}, {}, TypeError, "parameter_kernel is 3"),
        ({"kernel": Gaussian(1.0), "bandwidth": 1.0}, {}, ValueError, "one of the two"),
        ({"kernel": "box"}, {}, ValueError, "laplace"),
        ({"bandwidth": 0.0}, {}, ValueError, "bandwidth is 0.0"),
        ({"regularisation": 0.0}, {}, ValueError, "regularisation is 0.0"),
        ({"solver": "magic"}, {}, ValueError, "nystroem"),
    ],
)
def test_bad_arguments_are_refused(settings, given, error, words, arrays):
    with pytest.raises(error, match=words):
        pk.KernelBayes(**settings).fit(*arrays, **given)
