"""Density ratios, their leave-one-out scores and rules, against formulas in loops."""

import numpy as np
import pytest
from scipy.linalg import inv, solve
from scipy.stats import norm

from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding import density_ratio
from pymc_kbr.embedding.density_ratio import (
    RATIO_REGULARISATIONS,
    candidate_kernels,
    choose_ratio,
    kulsif,
    leave_one_out_scores,
    relative_ratio,
)
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.rules import ImportanceWeighted, SquaredRule, chain_rule, prior_values, sum_rule
from pymc_kbr.gram import DenseGram
from pymc_kbr.kernels import Gaussian, parameter_kernel

KERNEL, N, L = Gaussian(0.9), 24, 15


@pytest.fixture
def theta(rng):
    return rng.normal(size=(N, 2))


@pytest.fixture
def draws(rng):
    return rng.normal(0.5, 0.7, size=(L, 2))


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("rows", [N, 9])
def test_leave_one_out_scores_are_refits_whichever_side_has_more(centred, rows, theta, draws, rng):
    theta, weights = theta[:rows], rng.uniform(-0.2, 1, size=L)
    weights /= weights.sum()
    etas, pairs = [1e-3, 0.3], min(rows, L)
    scores = []
    for eta in etas:
        squares, values = 0.0, 0.0
        for i in range(pairs):
            rest, left = np.delete(theta, i, axis=0), np.delete(draws, i, axis=0)
            share = np.delete(weights, i) / np.delete(weights, i).sum()

            def difference(points, rest=rest, left=left, share=share):
                own = KERNEL(points, rest).mean(axis=1) if centred else 0
                return KERNEL(points, left) @ share - own

            system = KERNEL(rest) + (rows - 1) * eta * np.eye(rows - 1)
            solved = solve(system, difference(rest))
            both = np.stack([theta[i], draws[i]])
            r = float(centred) + (difference(both) - KERNEL(both, rest) @ solved) / eta
            squares += 0.5 * r[0] ** 2 / pairs
            values += weights[i] / weights[:pairs].sum() * r[1]
        scores.append(squares - values)
    np.testing.assert_allclose(
        leave_one_out_scores(KERNEL, theta, draws, etas, centred, weights), scores, rtol=1e-6, atol=1e-9
    )


@pytest.mark.parametrize("centred", [True, False])
def test_the_choice_has_the_lowest_score_on_rows_spread_evenly(centred, theta, draws):
    kernels = [Gaussian(s) for s in (0.3, 0.9, 2.7)]
    some = theta[spread_out(N, 10)], draws[spread_out(L, 10)]
    scores = {
        (kernel, eta): leave_one_out_scores(kernel, *some, [eta], centred)[0]
        for kernel in kernels
        for eta in RATIO_REGULARISATIONS
    }
    found = choose_ratio(theta, draws, kernels, centred=centred, most=10)
    assert (found.kernel, found.regularisation) == min(scores, key=scores.get)
    assert found.score == pytest.approx(min(scores.values()))
    every = choose_ratio(theta, draws, kernels, centred=centred)
    assert every == choose_ratio(theta, draws, kernels, centred=centred, most=N)
    # Left out, the ratio is not regularised towards one.
    assert (choose_ratio(theta, draws, kernels) == every) is not centred


def test_draws_enter_the_choice_by_weight_and_sign(theta, draws, rng):
    weights = rng.uniform(0.2, 1, size=L) * np.where(np.arange(L) % 4, 1, -0.3)
    found = choose_ratio(theta, draws, [KERNEL], centred=True, weights=5 * weights)
    share = weights / weights.sum()
    scores = leave_one_out_scores(KERNEL, theta, draws, RATIO_REGULARISATIONS, True, share)
    assert found.score == pytest.approx(scores.min())
    assert found.regularisation == RATIO_REGULARISATIONS[int(np.argmin(scores))]
    # Thinned to few, each is taken as often as its weight says: one of twice the weight is as good as two.
    doubled = np.concatenate([draws[:6], draws[:6]])
    once = choose_ratio(theta, draws[:6], [KERNEL], weights=np.array([2.0, 1, 1, 1, 1, 1]))
    twice = choose_ratio(theta, doubled, [KERNEL], weights=np.repeat([1.0, 0], 6) + np.eye(12)[0])
    assert once == twice


def test_many_draws_are_thinned_by_weight(theta, rng, monkeypatch):
    asked = {}

    def spy(kernel, parameters, prior, etas, centred, weights):
        asked.update(prior=prior[:, 0], weights=weights)
        return np.zeros(len(etas))

    monkeypatch.setattr(density_ratio, "leave_one_out_scores", spy)
    draws, weights = rng.normal(size=(200, 2)), np.where(np.arange(200) < 50, -1.0, 3.0)
    choose_ratio(theta, draws, [KERNEL], weights=weights, most=100)
    signs = np.where(np.isin(asked["prior"], draws[:50, 0]), -1, 1)
    np.testing.assert_array_equal(np.sign(asked["weights"]), signs)
    assert asked["weights"].sum() == pytest.approx(1)
    # A tenth of the size is negative: 50 of 500.
    assert -asked["weights"][signs < 0].sum() / np.abs(asked["weights"]).sum() == pytest.approx(0.1)


def test_kernels_on_parameters_are_in_their_units(theta):
    kernels = candidate_kernels(theta * [1.0, 1e6])
    median = np.array(parameter_kernel(theta * [1.0, 1e6]).bandwidth)
    assert [k.bandwidth for k in kernels] == [tuple(s * median) for s in (0.5, 1, 2, 4, 8)]
    for kernel, other in zip(kernels, candidate_kernels(theta), strict=True):
        np.testing.assert_allclose(kernel.bandwidth, np.array(other.bandwidth) * [1.0, 1e6])


def test_what_is_tried_is_every_half_decade():
    np.testing.assert_allclose(np.log10(RATIO_REGULARISATIONS), np.linspace(-5, 2, 15))


@pytest.mark.parametrize("centred", [True, False])
def test_the_rules_are_their_formulas_for_weights_of_any_sum(centred, theta, draws, rng):
    a, eta = rng.normal(1, 1, size=L), 1e-2
    gram, prior = DenseGram(KERNEL, theta), Embedding(Atoms(draws, KERNEL), a)
    inverse, cross = inv(KERNEL(theta) + N * eta * np.eye(N)), KERNEL(theta, draws)
    own = KERNEL(theta).mean(axis=1)
    np.testing.assert_allclose(prior_values(gram, prior), cross @ a, rtol=1e-9)
    np.testing.assert_allclose(prior_values(gram, prior, block=4), cross @ a, rtol=1e-9)
    values = inverse @ (cross @ a - own) + 1 / N if centred else inverse @ cross @ a
    np.testing.assert_allclose(sum_rule(gram, prior, N * eta, centred), values, atol=1e-10)
    np.testing.assert_allclose(kulsif(gram, prior, eta, centred), values, atol=1e-10)
    pairs = inverse @ (cross - own[:, None]) + 1 / N if centred else inverse @ cross
    found = chain_rule(gram, prior, N * eta, centred)
    np.testing.assert_allclose(found, pairs * a, atol=1e-10)
    if centred:
        a = a / a.sum()
        prior = Embedding(Atoms(draws, KERNEL), a)
    joint, sums = chain_rule(gram, prior, N * eta, centred), sum_rule(gram, prior, N * eta, centred)
    np.testing.assert_allclose(joint.sum(axis=1), sums, atol=1e-10)


def test_equal_weights_are_what_rules_take_without_weights(theta):
    gram, equal = DenseGram(KERNEL, theta), np.full(N, 1 / N)
    for rule in (ImportanceWeighted(), SquaredRule()):
        none = rule.operator(gram, None, 1e-3).weights(theta[:3])
        np.testing.assert_allclose(none, rule.operator(gram, equal, 1e-3).weights(theta[:3]), atol=1e-9)
    assert ImportanceWeighted().ridge(0.3) == 0.3
    assert ImportanceWeighted().regularisation(0.3, np.ones(4)) == 0.3


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
@pytest.mark.parametrize("ridge", [1e-9, 1e-3, 10.0])
def test_delta_keeps_as_many_degrees_of_freedom(scale, ridge, rng):
    spectrum, ridge = scale * rng.exponential(size=30) ** 4, scale * ridge
    delta = SquaredRule().regularisation(ridge, spectrum)
    kept = np.sum(spectrum**2 / (spectrum**2 + delta))
    assert kept == pytest.approx(np.sum(spectrum / (spectrum + ridge)), rel=1e-9)
    assert SquaredRule().regularisation(ridge, np.full(5, scale)) == pytest.approx(scale * ridge)
    assert SquaredRule().ridge(delta) == pytest.approx(np.sqrt(delta))


def test_the_relative_ratio_is_the_minimiser_of_its_loss():
    rng = np.random.default_rng(2)
    theta, draws = rng.normal(size=(25, 2)), 0.5 * rng.normal(size=(12, 2)) + 0.3
    a, eta, share = rng.dirichlet(np.ones(12)), 0.03, 0.3
    prior = Embedding(Atoms(draws, KERNEL), a)
    found = relative_ratio(KERNEL, theta, prior, eta, share)
    # In the coordinates of the features of all points: r = (C + eta I)^-1 m.
    gram = KERNEL(np.vstack([theta, draws]))
    values, vectors = np.linalg.eigh(gram)
    phi = vectors * np.sqrt(np.maximum(values, 0))
    c = share * (phi[25:].T * a) @ phi[25:] + (1 - share) * phi[:25].T @ phi[:25] / 25
    r = solve(c + eta * np.eye(37), phi[25:].T @ a)
    np.testing.assert_allclose(found, phi[:25] @ r, rtol=0, atol=1e-12)

    def loss(r):
        at = phi @ r
        squares = share * a @ at[25:] ** 2 + (1 - share) * np.mean(at[:25] ** 2)
        return 0.5 * squares - a @ at[25:] + 0.5 * eta * r @ r

    assert all(loss(r) <= loss(r + 0.01 * rng.normal(size=37)) for _ in range(20))
    plain = relative_ratio(KERNEL, theta, prior, eta, 0.0)
    np.testing.assert_allclose(plain, 25 * kulsif(DenseGram(KERNEL, theta), prior, eta), atol=1e-12)


def test_the_relative_ratio_is_near_the_true_one_and_bounded():
    rng = np.random.default_rng(3)
    theta, draws = rng.normal(size=(1500, 1)), 0.3 * rng.normal(size=(1500, 1))
    prior = Embedding(Atoms(draws, Gaussian(0.3)), np.full(1500, 1 / 1500))
    ratio = norm.pdf(theta[:, 0], scale=0.3) / norm.pdf(theta[:, 0])
    for share in (0.2, 0.5):
        found = relative_ratio(Gaussian(0.3), theta, prior, 1e-3, share)
        exact = ratio / (share * ratio + 1 - share)
        assert np.sqrt(np.mean((found - exact) ** 2)) < 0.15
        assert found.max() < 1.1 / share
    for wrong in (-0.1, 1.0):
        with pytest.raises(ValueError, match="share"):
            relative_ratio(Gaussian(0.3), theta, prior, 1e-3, wrong)
    signed = Embedding(prior.atoms, np.linspace(-1, 2, 1500) / 750)
    with pytest.raises(ValueError, match="negative"):
        relative_ratio(Gaussian(0.3), theta, signed, 1e-3, 0.1)
