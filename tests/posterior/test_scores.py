import numpy as np
import pytest
from scipy.spatial.distance import cdist

from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.scores import crps, energy_score, kernel_score


def test_the_energy_score_is_its_definition(rng):
    draws, truth = rng.normal(size=(30, 2)), np.array([0.3, -1.0])
    apart = cdist(draws, draws)
    expected = np.linalg.norm(draws - truth, axis=1).mean() - apart.sum() / (2 * 30 * 29)
    assert energy_score(draws, truth) == pytest.approx(expected)


def test_in_one_dimension_it_is_the_crps_but_for_equal_draws(rng):
    draws = rng.normal(size=(2000, 1))
    assert energy_score(draws, np.zeros(1)) == pytest.approx(crps(draws, np.zeros(1))[0], abs=2 / 2000)


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_scores_are_lowest_for_the_distribution_of_the_truth(power, rng):
    means = {}
    for name, deviation, shift in (("true", 1, 0), ("narrow", 0.6, 0), ("wide", 1.6, 0), ("off", 1, 0.6)):
        energies, kernels = [], []
        for seed in range(600):
            stream = np.random.default_rng(seed)
            truth = stream.normal(size=2)
            draws = shift + deviation * stream.normal(size=(50, 2))
            energies.append(energy_score(draws, truth, power))
            kernels.append(kernel_score(draws, truth, Gaussian(1.0)))
        means[name] = np.mean(energies), np.mean(kernels)
    for name in ("narrow", "wide", "off"):
        assert means["true"][0] < means[name][0]
        assert means["true"][1] < means[name][1]


def test_the_expected_score_does_not_depend_on_the_number_of_draws():
    few = [energy_score(np.random.default_rng(s).normal(size=(10, 1)), np.zeros(1)) for s in range(3000)]
    many = [energy_score(np.random.default_rng(s).normal(size=(200, 1)), np.zeros(1)) for s in range(300)]
    error = np.sqrt(np.var(few) / 3000 + np.var(many) / 300)
    assert np.mean(few) == pytest.approx(np.mean(many), abs=4 * error)
