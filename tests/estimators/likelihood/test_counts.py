"""Counts under a learned likelihood: probabilities that sum to one, in densities and draws."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pymc_kbr as pk

RNG = np.random.default_rng(8)
THETA = RNG.uniform(-2, 2, size=(800, 1))
MEAN = np.exp(0.7 * THETA[:, 0] + 0.5)
COUNTS = {
    "poisson": RNG.poisson(MEAN),
    "many": RNG.poisson(30 * MEAN),
    "negative binomial": RNG.negative_binomial(3, 3 / (3 + MEAN)),
    "binomial": RNG.binomial(12, 1 / (1 + np.exp(-THETA[:, 0]))),
    "half steps": RNG.poisson(MEAN) / 2,
    "signed": RNG.poisson(MEAN) - RNG.poisson(3, 800),
}


@pytest.fixture(scope="module", params=["location_scale", "autoregressive"])
def learnt(request):
    found = {}
    for kind, x in COUNTS.items():
        likelihood = pk.KernelLikelihood(request.param).for_scores()
        found[kind] = likelihood.fit(THETA, x[:, None].astype(float), random_seed=1)
    return found


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(list(COUNTS)), st.floats(-2.0, 2.0))
def test_probabilities_sum_to_one(learnt, kind, theta):
    step = 0.5 if kind == "half steps" else 1.0
    values = step * np.arange(-60 if kind == "signed" else 0, 3000)
    logs = learnt[kind].log_likelihoods([[theta]], values[:, None])[0]
    assert np.exp(logs).sum() == pytest.approx(1, abs=1e-6)
    between = learnt[kind].log_likelihoods([[theta]], values[:50, None] + step / 2)
    assert np.all(between == -np.inf)
    if kind != "signed":
        assert learnt[kind].log_likelihood([[theta]], [[-1.0]])[0] == -np.inf


@pytest.mark.parametrize("kind", COUNTS)
def test_draws_have_these_probabilities(learnt, kind):
    drawn = learnt[kind].draw_statistics(np.full((4000, 1), -1.5), 1)[:, 0]
    values, counts = np.unique(drawn, return_counts=True)
    expected = np.exp(learnt[kind].log_likelihoods([[-1.5]], values[:, None])[0])
    error = np.sqrt(expected * (1 - expected) / 4000)
    assert np.all(np.abs(counts / 4000 - expected) < 5 * error + 1e-3)
    assert expected.sum() == pytest.approx(1, abs=0.01)


def test_two_counts_and_a_number_together_sum_to_one():
    x = np.column_stack([COUNTS["poisson"], COUNTS["poisson"] + RNG.poisson(2 * MEAN), RNG.random(800) < 0.3])
    likelihood = pk.KernelLikelihood("autoregressive").for_scores().fit(THETA, x.astype(float), random_seed=1)
    grid = np.array(list(product(range(80), range(160), (0, 1))), dtype=float)
    for theta in (-2.0, 0.3, 1.5):
        logs = likelihood.log_likelihoods([[theta]], grid)[0]
        assert np.exp(logs).sum() == pytest.approx(1, abs=1e-6)


def test_edges_of_counts_are_declared():
    x = COUNTS["binomial"][:, None].astype(float)
    likelihood = pk.KernelLikelihood(lower={0: 0}, upper={0: 12}).for_scores().fit(THETA, x, random_seed=1)
    logs = likelihood.log_likelihoods([[-2.0], [0.0], [2.0]], np.arange(0.0, 13.0)[:, None])
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1, atol=1e-9)
    assert np.all(likelihood.log_likelihoods([[2.0]], np.array([[-1.0], [13.0]])) == -np.inf)
    drawn = likelihood.draw_statistics(np.full((2000, 1), 2.0), 1)
    assert drawn.min() >= 0
    assert drawn.max() <= 12
    with pytest.raises(ValueError, match="beyond the edge"):
        likelihood.condition(np.array([[3.0], [13.0]]), trials=True)
    with pytest.raises(ValueError, match="on or beyond its edge"):
        pk.KernelLikelihood(upper={0: 5}).fit(THETA, x)


def test_an_atom_at_zero_has_the_mass_below_it():
    """Rainfall: nothing, or an amount that is continuous."""
    amount = THETA[:, 0] + RNG.normal(size=800)
    x = np.maximum(amount, 0)[:, None]
    likelihood = pk.KernelLikelihood("autoregressive").for_scores().fit(THETA, x, random_seed=1)
    grid = np.linspace(1e-6, 15, 20_001)
    for theta in (-1.0, 0.5):
        dry = np.exp(likelihood.log_likelihood([[theta]], [[0.0]])[0])
        wet = np.exp(likelihood.log_likelihoods([[theta]], grid[:, None])[0])
        assert dry + wet.sum() * (grid[1] - grid[0]) == pytest.approx(1, abs=2e-3)
    drawn = likelihood.draw_statistics(np.full((2000, 1), -1.0), 1)
    assert drawn.min() == 0
    assert np.mean(drawn == 0) == pytest.approx(
        np.exp(likelihood.log_likelihood([[-1.0]], [[0.0]])[0]), abs=0.05
    )


def test_values_that_differ_by_rounding_are_one_value():
    """Counts of tenths, half of which were added up: 0.1 + 0.2 is not 0.3."""
    counts = COUNTS["poisson"]
    added = np.concatenate([[0.0], np.cumsum(np.full(counts.max(), 0.1))])[counts]
    x = np.where(np.arange(800) % 2, added, counts / 10)[:, None]
    assert len(np.unique(x)) > len(np.unique(counts))
    clean = pk.KernelLikelihood("autoregressive").for_scores().fit(THETA, counts[:, None] / 10, random_seed=1)
    likelihood = pk.KernelLikelihood("autoregressive").for_scores().fit(THETA, x, random_seed=1)
    values = np.arange(40)[:, None] / 10
    logs = likelihood.log_likelihoods([[0.5]], values)
    np.testing.assert_allclose(logs, clean.log_likelihoods([[0.5]], values), atol=1e-6)
    assert likelihood.log_likelihood([[0.5]], [[0.1 + 0.2]]) == pytest.approx(logs[0, 3], abs=1e-6)


def test_variances_of_counts_are_on_a_lattice_although_they_are_rounded():
    """Variances of thirty counts have steps of 1/900, and rounding makes steps of 1e-18."""
    theta = np.random.default_rng(1).normal(size=(600, 2)) * [1, 0.7] + [1, 0]
    shape = np.exp(theta[:, 1:])
    counts = RNG.poisson(RNG.gamma(shape, np.exp(theta[:, :1]) / shape, (600, 30)))
    x = counts.var(axis=1)[:, None]
    x[::7] = np.mean((counts[::7] - counts[::7].mean(axis=1, keepdims=True)) ** 2, axis=1)[:, None] + 1e-17
    likelihood = pk.KernelLikelihood("autoregressive").for_scores().fit(theta, x, random_seed=1)
    logs = likelihood.log_likelihoods(theta[:5], x[:50])
    assert np.all(np.isfinite(logs))
