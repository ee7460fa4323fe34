"""The benchmark's tasks against sbibm's observations and reference posteriors, where sbibm is installed.

The likelihood of every task is known. Draws of a mixture fitted to one half of the reference, weighted
to the posterior, must have the moments of the other half.
"""

import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import binom, norm
from sklearn.mixture import GaussianMixture

from case_studies.posterior_draws.problems import moons_posterior
from case_studies.sbi_benchmark import wheel
from case_studies.sbi_benchmark.tasks import TASKS, bernoulli_glm, lotka_volterra, sir, slcp

pytestmark = pytest.mark.skipif(not wheel.installed(), reason=wheel.INSTALL)


def linear(theta, x):
    return norm.logpdf(x, theta, np.sqrt(0.1)).sum(axis=1)


def mixture(theta, x):
    parts = [norm.logpdf(x, theta, deviation).sum(axis=1) for deviation in (1.0, 0.1)]
    return logsumexp(parts, axis=0) - np.log(2)


def four_points(theta, x):
    covariance = slcp.covariance(theta)
    away = x.reshape(1, 4, 2) - theta[:, None, :2]
    distances = np.einsum("nki,nij,nkj->n", away, np.linalg.inv(covariance), away)
    return -0.5 * distances - 2 * np.log(np.linalg.det(covariance)) - 4 * np.log(2 * np.pi)


def sufficient(theta, x):
    psi = theta @ bernoulli_glm.DESIGN.T
    return theta @ x - np.logaddexp(0, psi).sum(axis=1)


def spikes(theta, x):
    share = expit(theta @ bernoulli_glm.DESIGN.T)
    return np.log(np.where(x > 0, share, 1 - share)).sum(axis=1)


def epidemic(theta, x):
    return binom.logpmf(x, 1000, np.clip(sir.infected(theta), 0, 1)).sum(axis=1)


def populations(theta, x):
    return norm.logpdf(np.log(x), lotka_volterra.log_medians(theta), 0.1).sum(axis=1)


LIKELIHOODS = {
    "gaussian_linear": linear,
    "gaussian_linear_uniform": linear,
    "gaussian_mixture": mixture,
    "slcp": four_points,
    "bernoulli_glm": sufficient,
    "bernoulli_glm_raw": spikes,
    "sir": epidemic,
    "lotka_volterra": populations,
}
PARTS = {"slcp": 40, "gaussian_linear_uniform": 8}
"""Of the mixture that stands for a posterior which is not nearly normal; three otherwise."""


def weighted(task, number, rng, draws=20_000):
    """Points, their weights to the posterior, and the half of the reference that they have not seen."""
    reference = task.reference(number)
    seen, unseen = task.support.forward(reference[::2]), reference[1::2]
    # Wider than the reference, so that no weight is far above the others.
    proposal = GaussianMixture(PARTS.get(task.name, 3), reg_covar=1e-6, random_state=0).fit(seen)
    free = np.vstack([proposal.sample(draws)[0], proposal.sample(draws // 4)[0]])
    middle = seen.mean(axis=0)
    wide = middle + 1.5 * (free[draws:] - middle)
    free = np.vstack([free[:draws], wide])
    narrow = proposal.score_samples(free)
    broad = proposal.score_samples(middle + (free - middle) / 1.5) - free.shape[1] * np.log(1.5)
    log_proposal = np.logaddexp(np.log(0.8) + narrow, np.log(0.2) + broad)
    theta = task.support.backward(free)
    log_target = LIKELIHOODS[task.name](theta, task.observation(number)) + task.log_prior(theta)
    log_target += np.log(np.abs(_jacobian(task, free))).sum(axis=1)
    logs = log_target - log_proposal
    return theta, np.exp(logs - logsumexp(logs)), unseen


def _jacobian(task, free, step=1e-5):
    """Of the map from the free space, whose columns do not depend on each other; shape (n, p)."""
    return (task.support.backward(free + step) - task.support.backward(free - step)) / (2 * step)


@pytest.mark.parametrize("number", [1, 6])
@pytest.mark.parametrize("name", sorted(LIKELIHOODS))
def test_weighted_draws_have_the_references_moments(name, number, rng):
    task = TASKS[name]
    theta, weights, unseen = weighted(task, number, rng)
    size = 1 / (weights**2).sum()
    assert size > 400
    spread = unseen.std(axis=0)
    for value in (lambda t: t / spread, lambda t: ((t - unseen.mean(axis=0)) / spread) ** 2):
        found, wanted = weights @ value(theta), value(unseen).mean(axis=0)
        variance = weights @ (value(theta) - found) ** 2
        error = np.sqrt(variance / size + value(unseen).var(axis=0) / len(unseen))
        # References are themselves of chains or of rejection by a fitted proposal.
        assert np.all(np.abs(found - wanted) <= 5 * error + 0.02), (found - wanted) / error


@pytest.mark.parametrize("number", [2, 9])
def test_moons_references_are_exact_draws(number, rng):
    exact = moons_posterior(rng, TASKS["two_moons"].observation(number), 10_000)
    reference = TASKS["two_moons"].reference(number)
    for value in (lambda t: t, lambda t: t**2, lambda t: t[:, :1] * t[:, 1:]):
        one, other = value(exact), value(reference)
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / 10_000)
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) <= 5 * error)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_observations_are_plausible_at_their_true_parameters(name, rng):
    task = TASKS[name]
    ranks = []
    for number in wheel.OBSERVATIONS:
        simulated = task.simulate(np.repeat(task.true_parameters(number)[None], 4_000, axis=0), rng)
        observed = task.observation(number)
        below = (simulated < observed).mean(axis=0)
        ranks.append(below + rng.random(len(observed)) * (simulated == observed).mean(axis=0))
    ranks = np.concatenate(ranks)
    assert np.minimum(ranks, 1 - ranks).min() >= 0
    # Uniform; columns of one observation are not independent: as if there were ten times fewer.
    few = max(10, len(ranks) / 10)
    assert abs(ranks.mean() - 0.5) < 5 * np.sqrt(1 / 12 / few)
    assert (np.minimum(ranks, 1 - ranks) < 0.005).mean() < 0.01 + 5 * np.sqrt(0.01 / few)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_references_lie_in_the_prior(name):
    for number in wheel.OBSERVATIONS:
        reference = TASKS[name].reference(number)
        assert reference.shape == (10_000, TASKS[name].parameters_size)
        assert np.isfinite(TASKS[name].log_prior(reference)).all()


@pytest.mark.parametrize("number", wheel.OBSERVATIONS)
def test_frozen_designs_are_sbibms(number):
    order = slcp.distractors()[2]
    sorted_back = np.empty(100)
    sorted_back[order] = TASKS["slcp_distractors"].observation(number)
    np.testing.assert_allclose(sorted_back[:8], TASKS["slcp"].observation(number), rtol=1e-5)
    raw = TASKS["bernoulli_glm_raw"].observation(number)
    np.testing.assert_allclose(
        raw @ bernoulli_glm.DESIGN, TASKS["bernoulli_glm"].observation(number), atol=1e-4
    )


def test_distractors_come_from_the_parts_that_sbibms_do():
    centres, roots, order = slcp.distractors()
    first = slice(20)  # of 92: triangular roots of random numbers are too ill-conditioned for all
    two = []
    for number in wheel.OBSERVATIONS:
        sorted_back = np.empty(100)
        sorted_back[order] = TASKS["slcp_distractors"].observation(number)
        noise = sorted_back[8:][first]
        distances = [
            np.mean(np.linalg.solve(root[first, first], noise - centre[first]) ** 2)
            for root, centre in zip(roots, centres, strict=True)
        ]
        two.append(np.sort(distances)[:2])
    nearest, next_one = np.array(two).T
    # From the right part it is 2 / chi-squared with two degrees of freedom, whose median is 1.4.
    assert np.median(nearest) < 10
    assert (next_one / nearest > 100).all()
