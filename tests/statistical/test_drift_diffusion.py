"""The exact density of the drift diffusion model, by quadrature and by simulation."""

import numpy as np
import pytest
from scipy import stats

from case_studies.reaction_times import drift_diffusion

THETA = np.array([[0.0, 1.0, 0.5, 0.3], [2.5, 2.0, 0.3, 0.0], [-1.0, 0.5, 0.8, 1.0]])


def probability(theta, choice, until=40.0, nodes=400_000):
    """That of one choice before a time, by the midpoint rule."""
    width = (until - theta[3]) / nodes
    time = theta[3] + width * (np.arange(nodes) + 0.5)
    trials = np.column_stack([time, np.full(nodes, choice)])
    return np.exp(drift_diffusion.log_density(theta[None], trials)[0]).sum() * width


@pytest.mark.parametrize("theta", THETA)
def test_the_density_has_the_probabilities_of_both_choices_in_closed_form(theta):
    v, a, z, _ = theta
    lower = 1 - z if v == 0 else (np.exp(-2 * v * z * a) - np.exp(-2 * v * a)) / (1 - np.exp(-2 * v * a))
    found = [probability(theta, choice) for choice in (0.0, 1.0)]
    np.testing.assert_allclose(found, [lower, 1 - lower], atol=1e-5)


def test_simulated_times_have_the_density():
    theta = THETA[0]
    trials = drift_diffusion.simulate(np.random.default_rng(1), np.repeat(theta[None], 2000, axis=0))
    edges = np.quantile(trials[:, 0], np.linspace(0, 1, 9)[1:-1])
    expected = [sum(probability(theta, c, edge, 20_000) for c in (0.0, 1.0)) for edge in edges]
    counts = np.histogram(trials[:, 0], [0, *edges, np.inf])[0]
    shares = np.diff([0, *expected, 1])
    assert stats.chisquare(counts, 2000 * shares).pvalue > 1e-3
