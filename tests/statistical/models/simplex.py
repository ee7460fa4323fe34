"""Shares that sum to one, and parameters in ascending order."""

import numpy as np
import pymc as pm
from pymc.distributions.transforms import ordered
from scipy import stats

import pymc_kbr as pk
from tests.statistical.models.problem import problem

ALLELES = np.array([46, 29, 21, 4])


def sampled_alleles(rng, shares, size=None):
    return rng.multinomial(100, shares)


def allele_shares_exact():
    posterior = stats.dirichlet(1 + ALLELES)
    return {"shares": (posterior.mean(), np.sqrt(posterior.var()))}


@problem("simplex", allele_shares_exact, "closed form")
def allele_shares(simulated):
    """100 alleles of 4 kinds"""
    shares = pm.Dirichlet("shares", np.ones(4))
    if simulated:
        pk.vector_simulator("alleles", sampled_alleles, shares, observed=ALLELES)
    else:
        pm.Multinomial("alleles", 100, shares, observed=ALLELES)


def blood_group_shares(a, b, o):
    return [a**2 + 2 * a * o, b**2 + 2 * b * o, 2 * a * b, o**2]


def sampled_blood_groups(rng, alleles, size=None):
    a, b, o = np.moveaxis(np.asarray(alleles), -1, 0)
    shares = np.stack(blood_group_shares(a, b, o), axis=-1)
    return rng.multinomial(200, shares / shares.sum(axis=-1, keepdims=True))


@problem("simplex")
def blood_groups(simulated):
    """Blood groups A, B, AB and O of 200 people, for the alleles' shares"""
    observed = [84, 22, 9, 85]
    alleles = pm.Dirichlet("alleles", np.ones(3))
    if simulated:
        pk.vector_simulator("groups", sampled_blood_groups, alleles, observed=observed)
    else:
        shares = pm.math.stack(blood_group_shares(*(alleles[i] for i in range(3))))
        pm.Multinomial("groups", 200, shares, observed=observed)


EDGES = np.array([-np.inf, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, np.inf])
CENTRES, SPREADS = np.array([-2.0, 0.0, 2.0]), np.array([1.0, 0.6, 1.0])
IN_BINS = np.diff(stats.norm(CENTRES[:, None], SPREADS[:, None]).cdf(EDGES), axis=1)
"""Probabilities (3, 8) of bins under each component."""


def histogram(rng, weights, size=None):
    """Of 80 draws, one simulation at a time."""
    component = rng.choice(3, size=80, p=weights)
    return np.histogram(rng.normal(CENTRES[component], SPREADS[component]), EDGES)[0]


@problem("simplex")
def mixture_shares(simulated):
    """A histogram of 80 draws of three known components"""
    observed = np.array([5, 10, 15, 16, 15, 9, 6, 4])
    weights = pm.Dirichlet("weights", np.full(3, 2.0))
    if simulated:
        pk.vector_simulator("histogram", histogram, weights, observed=observed)
    else:
        pm.Multinomial("histogram", 80, pm.math.dot(weights, IN_BINS), observed=observed)


SOURCES = np.array([[-25.0, 4.0], [-18.0, 9.0], [-12.0, 6.0]])


def isotopes(rng, tissue, size=None):
    """Means of 8 animals."""
    return rng.normal(tissue[..., None], 1.5, (*tissue.shape, 8)).mean(axis=-1)


@problem("simplex")
def diet(simulated):
    """Mean isotopes of 8 animals that eat of three sources"""
    eaten = pm.Dirichlet("eaten", np.ones(3))
    tissue = pm.math.dot(eaten, SOURCES)
    if simulated:
        pk.vector_simulator("isotopes", isotopes, tissue, observed=[-18.4, 6.9])
    else:
        pm.Normal("isotopes", tissue, 1.5 / np.sqrt(8), observed=[-18.4, 6.9])


ANSWERS = np.array([[22, 27, 18, 8], [9, 21, 25, 20]])
"""Of 75 respondents without and 75 with the treatment, in four ordered categories."""


def answers_of(rng, cuts, effect, size=None):
    latent = rng.normal(
        np.stack([np.zeros_like(effect), effect], axis=-1)[..., None], 1, (*effect.shape, 2, 75)
    )
    place = (latent[..., None] > cuts[..., None, None, :]).sum(axis=-1)
    counts = (place[..., None] == np.arange(4)).sum(axis=-2)
    return counts.reshape(*effect.shape, 8)


@problem("ordered")
def ordered_answers(simulated):
    """Answers in four ordered categories of two groups of 75"""
    cuts = pm.Normal("cuts", 0, 1.5, shape=3, transform=ordered, initval=[-1, 0, 1])
    effect = pm.Normal("effect", 0, 1)
    if simulated:
        pk.vector_simulator("answers", answers_of, cuts, effect, observed=ANSWERS.ravel())
        return
    for group, shift in enumerate((0.0, effect)):
        below = 0.5 * (1 + pm.math.erf((cuts - shift) / np.sqrt(2)))
        shares = pm.math.concatenate([below, [1.0]]) - pm.math.concatenate([[0.0], below])
        pm.Multinomial(f"answers_{group}", 75, shares, observed=ANSWERS[group])


DOSES = np.random.default_rng(9).normal([[0.1], [0.5], [1.6]], 0.9, (3, 15))


def of_doses(y):
    """Means (..., 3) of groups (..., 3, 15), and the logarithm of their pooled deviation."""
    return np.concatenate([y.mean(axis=-1), 0.5 * np.log(y.var(axis=-1).mean(axis=-1))[..., None]], axis=-1)


def dose_groups(rng, effect, sigma, size=None):
    noise = rng.standard_normal((*effect.shape, 15))
    return of_doses(effect[..., None] + sigma[..., None, None] * noise)


@problem("ordered")
def ordered_doses(simulated):
    """Means of three groups of 15 in ascending order, and their pooled deviation"""
    effect = pm.Normal("effect", 0, 2, shape=3, transform=ordered, initval=[-1, 0, 1])
    sigma = pm.HalfNormal("sigma", 2)
    if simulated:
        pk.vector_simulator("doses", dose_groups, effect, sigma, observed=of_doses(DOSES))
    else:
        pm.Normal("doses", effect[:, None], sigma, observed=DOSES)
