import numpy as np
import pytest
from scipy.spatial.distance import cdist

from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.scores import crps, energy_score, kernel_score


@pytest.mark.parametrize("fair", [False, True])
def test_in_one_dimension_it_is_the_crps(fair, rng):
    draws, truth = rng.normal(size=(40, 1)), np.array([0.4])
    energy = energy_score(draws, truth, 1.0, fair=fair)
    assert energy == pytest.approx(crps(draws, truth, fair=fair)[0], rel=1e-12)
    # The kernel -|a - b| gives the same.
    assert energy == pytest.approx(
        kernel_score(draws, truth, lambda a, b=None: -cdist(a, a if b is None else b), fair=fair)
    )


@pytest.mark.parametrize("power", [0.5, 1.0])
def test_scores_are_lowest_for_the_distribution_of_the_truth(power, rng):
    means = {}
    for name, deviation, shift in (("true", 1, 0), ("narrow", 0.6, 0), ("wide", 1.6, 0), ("off", 1, 0.6)):
        energies, kernels = [], []
        for seed in range(400):
            stream = np.random.default_rng(seed)
            truth = stream.normal(size=2)
            draws = shift + deviation * stream.normal(size=(50, 2))
            energies.append(energy_score(draws, truth, power, fair=True))
            kernels.append(kernel_score(draws, truth, Gaussian(1.0), fair=True))
        means[name] = np.mean(energies), np.mean(kernels)
    for name in ("narrow", "wide", "off"):
        assert means["true"][0] < means[name][0]
        assert means["true"][1] < means[name][1]
