"""Kernel rules against the direct formulas, and the estimators built from them."""

import numpy as np
import pytest
from scipy.linalg import inv, solve

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.density_ratio import choose_ratio, kulsif, leave_one_out_scores
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.rules import (
    ImportanceWeighted,
    SquaredRule,
    bayes_average,
    chain_rule,
    posterior_decoding,
    sum_rule,
)
from pymc_kbr.estimators.prior_weights import ratio_of_draws
from pymc_kbr.gram import DenseGram, IncompleteCholesky
from pymc_kbr.kernels import Gaussian, Laplace, Matern
from pymc_kbr.regression.choose_ridge import LeaveOneOut
from pymc_kbr.selection.cross_validation import embedding_distances

N = 150
RNG = np.random.default_rng(5)
THETA = RNG.normal(size=(N, 2))
X = np.hstack([THETA + 0.5 * RNG.normal(size=(N, 2)), THETA[:, :1] ** 2 + 0.5 * RNG.normal(size=(N, 1))])
DRAWS = RNG.normal(0.5, 0.6, size=(80, 2))
SIGNED = RNG.normal(1, 1, 80) / 80
OBSERVED = X[:4] + 0.1
ON_THETA, ON_X = Gaussian(0.9), Matern(1.4)
G_THETA, G_X, CROSS = ON_THETA(THETA), ON_X(X), ON_X(X, OBSERVED)
PRIOR = Embedding(Atoms(DRAWS, ON_THETA), SIGNED)
PUBLISHED = {
    "kernel": ON_X,
    "parameter_kernel": ON_THETA,
    "prior": (DRAWS, SIGNED),
    "prior_regularisation": 1e-2,
    "centred": False,
    "scale": False,
}


@pytest.fixture
def gamma():
    return sum_rule(DenseGram(ON_THETA, THETA), PRIOR, N * 1e-2)


def test_the_sum_rule_is_its_formula(gamma):
    expected = solve(G_THETA + N * 1e-2 * np.eye(N), ON_THETA(THETA, DRAWS) @ SIGNED)
    np.testing.assert_allclose(gamma, expected, atol=1e-10)


def test_the_chain_rule_is_its_formula_and_sums_to_the_sum_rule(gamma):
    pairs = chain_rule(DenseGram(ON_THETA, THETA), PRIOR, N * 1e-2)
    expected = inv(G_THETA + N * 1e-2 * np.eye(N)) @ ON_THETA(THETA, DRAWS) @ np.diag(SIGNED)
    np.testing.assert_allclose(pairs, expected, atol=1e-10)
    np.testing.assert_allclose(pairs.sum(axis=1), gamma, atol=1e-10)


def test_the_sum_rule_predicts_the_statistics():
    many = np.random.default_rng(6)
    theta = many.normal(size=(1500, 1))
    x = 2 * theta + many.normal(size=(1500, 1))
    prior = Embedding(Atoms(many.normal(0.7, 0.5, (1500, 1)), Gaussian(1.0)), np.full(1500, 1 / 1500))
    gamma = sum_rule(DenseGram(Gaussian(1.0), theta), prior, 1e-1)
    # E x = 1.4 and Var x = 2; the noise of a ratio of densities adds to that of 1,500 draws.
    assert gamma @ x[:, 0] == pytest.approx(1.4, abs=0.2)
    assert gamma.sum() == pytest.approx(1.0, abs=0.05)


def test_sum_and_bayes_rules_composed_are_kernel_bayes(gamma):
    composed = SquaredRule().operator(DenseGram(ON_X, X), gamma, 1e-4).weights(OBSERVED)
    fitted = pk.KernelBayes(regularisation=1e-4, **PUBLISHED).fit(THETA, X)
    np.testing.assert_allclose(fitted.weights(OBSERVED), composed, atol=1e-8)
    d = np.diag(gamma)
    direct = d @ G_X @ solve(d @ G_X @ d @ G_X + 1e-4 * np.eye(N), d @ CROSS)
    np.testing.assert_allclose(composed, direct.T, atol=1e-8)


def test_sum_and_weighted_bayes_rules_composed_are_importance_weighted_kernel_bayes(gamma):
    composed = ImportanceWeighted().operator(DenseGram(ON_X, X), gamma, 1e-2).weights(OBSERVED)
    fitted = pk.ImportanceWeightedKernelBayes(regularisation=1e-2, **PUBLISHED).fit(THETA, X)
    np.testing.assert_allclose(fitted.weights(OBSERVED), composed, atol=1e-8)
    root = np.diag(np.sqrt(np.maximum(gamma, 0)))
    direct = root @ solve(root @ G_X @ root + 1e-2 * np.eye(N), root @ CROSS)
    np.testing.assert_allclose(composed, direct.T, atol=1e-8)
    assert fitted.settings()["prior_negative_share"] > 0


def test_low_rank_rules_are_the_exact_ones():
    full = IncompleteCholesky(rank=N, tolerance=0)
    for cls, regularisation in ((pk.KernelBayes, 1e-4), (pk.ImportanceWeightedKernelBayes, 1e-2)):
        exact = cls(regularisation=regularisation, **PUBLISHED).fit(THETA, X).weights(OBSERVED)
        low = cls(regularisation=regularisation, solver=full, **PUBLISHED).fit(THETA, X).weights(OBSERVED)
        np.testing.assert_allclose(low, exact, atol=1e-8)


@pytest.mark.parametrize("centred", [True, False])
def test_a_uniform_ratio_is_the_conditional_mean(centred):
    settings = {"kernel": ON_X, "regularisation": 1e-3, "centred": centred}
    expected = pk.ConditionalMean(**settings).fit(THETA, X).weights(OBSERVED)
    weighted = pk.ImportanceWeightedKernelBayes(**settings).fit(THETA, X, ratio=np.full(N, 7.0))
    np.testing.assert_allclose(weighted.weights(OBSERVED), expected, atol=1e-8)
    if centred:
        own = pk.ImportanceWeightedKernelBayes(**settings).fit(THETA, X)
        np.testing.assert_allclose(own.weights(OBSERVED), expected, atol=1e-8)


def test_the_bayes_average_and_decoding_are_those_of_the_estimator():
    fitted = pk.ConditionalMean(kernel=ON_X, regularisation=1e-3).fit(THETA, X)
    posterior = fitted.condition(OBSERVED[0]).embedding
    function = Embedding(Atoms(DRAWS, posterior.atoms.kernel), SIGNED)
    expected = fitted.weights(OBSERVED[0]) @ function(THETA)
    assert bayes_average(function, posterior) == pytest.approx(expected, abs=1e-10)
    decoded = posterior_decoding(posterior)
    assert posterior(decoded[None])[0] >= posterior(THETA).max() - 1e-9


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("weights", [np.full(20, 1 / 20), SIGNED[:20] / SIGNED[:20].sum()])
def test_kulsifs_leave_one_out_is_refitting(centred, weights):
    theta, draws, eta = THETA[:25], DRAWS[:20], 0.05
    closed = leave_one_out_scores(ON_THETA, theta, draws, [eta], centred, weights)[0]
    rows, of_draws = [], []
    for i in range(20):
        rest, left = np.delete(theta, i, axis=0), np.delete(draws, i, axis=0)
        share = np.delete(weights, i) / np.delete(weights, i).sum()

        def features(points, rest=rest, left=left, share=share):  # the embeddings' difference as a function
            value = ON_THETA(points, left) @ share
            return value - ON_THETA(points, rest).mean(axis=1) if centred else value

        fitted = solve(ON_THETA(rest) + 24 * eta * np.eye(24), features(rest))

        def ratio(point, rest=rest, fitted=fitted, features=features):
            value = (features(point) - ON_THETA(point, rest) @ fitted)[0] / eta
            return 1 + value if centred else value

        rows.append(0.5 * ratio(theta[i : i + 1]) ** 2)
        of_draws.append(ratio(draws[i : i + 1]))
    assert closed == pytest.approx(np.mean(rows) - weights @ of_draws, abs=1e-8)
    if np.ptp(weights) == 0:
        assert leave_one_out_scores(ON_THETA, theta, draws, [eta], centred)[0] == pytest.approx(closed)


def test_draws_without_weight_have_no_say_in_the_choice():
    rng = np.random.default_rng(1)
    theta, kept = rng.normal(size=(300, 1)), rng.normal(0.5, 0.5, (200, 1))
    draws = np.vstack([rng.normal(-1, 0.3, (60, 1)), kept])
    weights = np.concatenate([np.zeros(60), np.full(200, 1 / 200)])
    kernels = [Gaussian(s) for s in (0.3, 1.0, 3.0)]
    weighted = choose_ratio(theta, draws, kernels, centred=True, weights=weights)
    plain = choose_ratio(theta, kept, kernels, centred=True)
    assert (weighted.kernel, weighted.regularisation) == (plain.kernel, plain.regularisation)
    with pytest.raises(ValueError, match="negative as often as positive"):
        choose_ratio(theta, draws, kernels, weights=np.where(np.arange(260) % 2, 1.0, -1.001))


@pytest.mark.statistical
def test_kulsif_is_the_ratio_where_it_is_known():
    rng = np.random.default_rng(7)
    theta, draws = rng.uniform(-3, 3, (2000, 1)), rng.normal(0, 1, (2000, 1))
    ratio = ratio_of_draws(theta, draws, Support.unbounded(1), rng)
    exact = 6 * np.exp(-0.5 * theta[:, 0] ** 2) / np.sqrt(2 * np.pi)
    assert np.sqrt(np.mean((ratio - exact) ** 2)) < 0.15 * exact.std()
    choice = choose_ratio(theta, draws, [Gaussian(1.0)])
    gram = DenseGram(choice.kernel, theta)
    prior = Embedding(Atoms(draws, choice.kernel), np.full(2000, 1 / 2000))
    for centred in (True, False):
        assert kulsif(gram, prior, choice.regularisation, centred).sum() == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("intercept", [True, False])
def test_weighted_leave_one_out_is_refitting(intercept):
    gram, weights, ridge = G_X[:30, :30], np.random.default_rng(8).exponential(size=30), 0.3
    closed = LeaveOneOut(gram, THETA[:30], weights, intercept).residuals(ridge)
    for i in range(30):
        rest = np.arange(30) != i
        matrix = gram[np.ix_(rest, rest)] + ridge * np.diag(1 / weights[rest])
        inverse = inv(matrix)
        ones = np.ones(29)
        constant = (ones @ inverse @ THETA[:30][rest]) / inverse.sum() if intercept else 0.0
        predicted = constant + gram[i, rest] @ inverse @ (THETA[:30][rest] - constant)
        np.testing.assert_allclose(closed[i], THETA[i] - predicted, atol=1e-8)


def on_prior_points(centred):
    """Kernel Bayes' rule on the prior's draws by its formula, at OBSERVED: shape (4, 80)."""
    a = SIGNED / SIGNED.sum()
    own, prior = np.full(N, 1 / N), SIGNED
    if centred:  # features about their means: of the statistics under the rows' weights, of the draws under a
        inverse, prior = inv(G_THETA + N * 1e-2 * np.eye(N)), a
        cross = ON_THETA(THETA, DRAWS) - (G_THETA @ own)[:, None]
        joint = (inverse @ cross + own[:, None]) * a
        joint /= joint.sum()
        d = joint.sum(axis=1)
        c = np.maximum(d, 0) / np.maximum(d, 0).sum()
        about = np.eye(N) - np.outer(np.ones(N), c)
        gram, k = about @ G_X @ about.T, about @ (CROSS - (G_X @ c)[:, None])
    else:
        joint = inv(G_THETA + N * 1e-2 * np.eye(N)) @ ON_THETA(THETA, DRAWS) * prior
        d, gram, k = joint.sum(axis=1), G_X, CROSS
    weights = joint.T @ solve(gram @ np.diag(d) @ gram @ np.diag(d) + 1e-4 * np.eye(N), gram @ np.diag(d) @ k)
    return (weights + np.outer(a, 1 - weights.sum(axis=0)) if centred else weights).T


@pytest.mark.parametrize("centred", [True, False])
def test_weights_of_the_priors_points_are_the_chain_rules(centred):
    settings = {
        **PUBLISHED,
        "centred": centred,
        "prior": (DRAWS, SIGNED / SIGNED.sum() if centred else SIGNED),
    }
    for solver in ("exact", IncompleteCholesky(rank=N, tolerance=0)):
        fitted = pk.KernelBayes(regularisation=1e-4, atoms="prior", solver=solver, **settings).fit(THETA, X)
        np.testing.assert_allclose(fitted.weights(OBSERVED), on_prior_points(centred), atol=1e-8)
        posterior = fitted.condition(OBSERVED[0])
        np.testing.assert_array_equal(posterior.atoms, DRAWS)
        np.testing.assert_allclose(posterior.mean(), fitted.weights(OBSERVED[0]) @ DRAWS, atol=1e-12)


def test_on_the_tables_own_points_and_without_a_ridge_both_forms_are_one():
    # With the table's parameters as the prior and a ridge that vanishes, Omega is diag(1 / n).
    theta, kernel = THETA[:40], Laplace(0.5)
    settings = {**PUBLISHED, "parameter_kernel": kernel, "prior": None, "prior_regularisation": 1e-12}
    table, prior = (
        pk.KernelBayes(regularisation=1e-3, atoms=atoms, **settings).fit(theta, X[:40]).weights(OBSERVED)
        for atoms in ("table", "prior")
    )
    np.testing.assert_allclose(prior, table, atol=1e-6)


def test_atoms_between_the_tables_rows_are_refused_with_a_reason_where_they_cannot_be():
    with pytest.raises(ValueError, match="has no draws to carry the weights"):
        pk.KernelBayes(atoms="prior").fit(THETA, X, ratio=np.ones(N))
    with pytest.raises(ValueError, match="divides the rows"):
        pk.KernelBayes(atoms="prior", solver="divide_and_conquer").fit(THETA, X)
    with pytest.raises(ValueError, match="'table' or 'prior'"):
        pk.KernelBayes(atoms="rows").fit(THETA, X)
    with pytest.raises(ValueError, match="only rows can be adjusted"):
        pk.Adjusted(pk.KernelBayes(prior=DRAWS, atoms="prior"), "kernel_ridge").fit(THETA, X)


def test_cross_validation_by_embedding_distance_prefers_a_kernel_that_fits():
    settings = {"regularisation": 1e-2, "centred": False, "scale": False}
    candidates = [pk.ConditionalMean(kernel=kernel, **settings) for kernel in (Gaussian(0.02), Laplace(2.0))]
    scores = embedding_distances(candidates, THETA, X, folds=3, kernel=ON_THETA, random_seed=1)
    assert scores[1] < scores[0]
    again = embedding_distances(candidates[:1], THETA, X, folds=3, kernel=ON_THETA, random_seed=1)
    assert again[0] == scores[0]


def test_kernel_density_weights_are_the_formula():
    fitted = pk.KernelDensity(0.4, prior=DRAWS, scale=False).fit(THETA, X)
    near = np.exp(-((DRAWS[:, None] - THETA[None]) ** 2).sum(-1) / (2 * 0.4**2))
    likelihood = (
        near @ np.exp(-((X[:, None] - OBSERVED[None]) ** 2).sum(-1) / (2 * 0.4**2)) / near.sum(1)[:, None]
    )
    np.testing.assert_allclose(fitted.weights(OBSERVED), (likelihood / likelihood.sum(axis=0)).T, atol=1e-9)
    posterior = fitted.condition(OBSERVED[0])
    np.testing.assert_allclose(posterior.atoms, DRAWS)
    np.testing.assert_allclose(posterior.mean(), fitted.weights(OBSERVED[0]) @ DRAWS, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"prior": np.ones(3)}, ValueError, "rows"),
        ({"prior": (DRAWS, SIGNED[:3])}, ValueError, "80 draws and weights of shape"),
        ({"prior": np.full((4, 2), np.nan)}, ValueError, "NaN"),
        ({"prior": np.ones((4, 3))}, ValueError, "3 parameters; the table has 2"),
        ({"prior": (np.ones((2, 2)), [1.0, -1.0])}, ValueError, "above zero"),
        ({"prior_regularisation": 0.0}, ValueError, "prior_regularisation"),
        ({"parameter_kernel": "gaussian"}, TypeError, "parameter_bandwidth"),
        ({"kernel": "box"}, ValueError, "laplace"),
        ({"kernel": ON_X, "bandwidth": 1.0}, ValueError, "one of the two"),
        ({"solver": "magic"}, ValueError, "nystroem"),
    ],
)
def test_bad_arguments_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        pk.KernelBayes(**settings).fit(THETA, X)


@pytest.mark.parametrize("cls", [pk.KernelBayes, pk.ImportanceWeightedKernelBayes, pk.KernelDensity])
def test_a_prior_and_a_density_ratio_are_refused(cls):
    with pytest.raises(ValueError, match="one of the two"):
        cls(prior=DRAWS).fit(THETA, X, ratio=np.ones(N))


@pytest.mark.parametrize("prior", [(DRAWS, SIGNED), np.ones((4, 3))])
def test_kernel_density_refuses_other_priors(prior):
    with pytest.raises(ValueError, match=r"negative weights|3 parameters"):
        pk.KernelDensity(prior=prior).fit(THETA, X)


def test_the_rules_have_public_names():
    assert pk.rules.sum_rule is sum_rule
    assert "rules" in dir(pk)
    gamma = pk.rules.sum_rule(DenseGram(ON_THETA, THETA), PRIOR, N * 1e-2)
    for rule, ridge in ((None, 1e-3), (SquaredRule(), 1e-4)):
        found = pk.rules.bayes_rule(DenseGram(ON_X, X), gamma, OBSERVED, ridge, rule)
        d = np.diag(gamma if rule else np.maximum(gamma, 0))
        if rule is None:
            expected = np.sqrt(d) @ solve(
                np.sqrt(d) @ G_X @ np.sqrt(d) + ridge * np.eye(N), np.sqrt(d) @ CROSS
            )
        else:
            expected = d @ G_X @ solve(d @ G_X @ d @ G_X + ridge * np.eye(N), d @ CROSS)
        np.testing.assert_allclose(found, expected.T, atol=1e-9)
    plain = pk.rules.bayes_rule(DenseGram(ON_X, X), None, OBSERVED, 1e-3)
    np.testing.assert_allclose(plain, solve(G_X + N * 1e-3 * np.eye(N), CROSS).T, atol=1e-10)


def test_the_shrunk_mean_embedding_is_its_closed_form_and_its_operators():
    x, kernel, ridge = THETA[:30], Gaussian(0.9), 0.05
    gram = kernel(x)
    found = pk.rules.shrunk_mean_embedding(DenseGram(kernel, x), 30 * ridge)
    closed = solve(gram + 30 * ridge * np.eye(30), gram @ np.ones(30)) / 30
    np.testing.assert_allclose(found, closed, rtol=0, atol=1e-12)
    # C (C + lambda I)^-1 mu with features Phi = U s V' in their own coordinates.
    values, vectors = np.linalg.eigh(gram)
    phi = vectors * np.sqrt(np.maximum(values, 0))  # a row for each point
    covariance, mean = phi.T @ phi / 30, phi.mean(axis=0)
    shrunk = covariance @ solve(covariance + ridge * np.eye(30), mean)
    np.testing.assert_allclose(phi.T @ found, shrunk, rtol=0, atol=1e-12)
    own = Embedding(Atoms(x, kernel), np.full(30, 1 / 30))
    np.testing.assert_allclose(found, sum_rule(DenseGram(kernel, x), own, 30 * ridge), rtol=0, atol=1e-12)
