import numpy as np
import pytest

from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.posterior.smoothing import SMOOTHINGS


def resampled(weights, draws, rng):
    return rng.choice(len(weights), draws, p=weights)


@pytest.mark.parametrize("name", sorted(SMOOTHINGS))
@pytest.mark.parametrize("size", [2, 6])
def test_the_mean_and_covariance_of_a_normal_sample_are_kept(name, size, rng):
    mix = rng.normal(size=(size, size))
    atoms = rng.normal(size=(800, size)) @ mix
    weights = rng.dirichlet(np.full(800, 2.0))
    draws = SMOOTHINGS[name](atoms, weights, resampled(weights, 20_000, rng), rng)
    mean = weights @ atoms
    covariance = (weights[:, None] * (atoms - mean)).T @ (atoms - mean)
    error = (draws.mean(axis=0) - mean) / np.sqrt(np.diag(covariance))
    # Monte Carlo error of 20,000 draws; neighbours' means differ a little from the atoms they belong to.
    assert np.abs(error).max() < 4 / np.sqrt(20_000) + 0.03
    relative = np.linalg.eigvals(np.linalg.solve(covariance, np.cov(draws.T))).real
    assert np.abs(relative - 1).max() < 0.12


def test_two_peaks_stay_apart_locally_and_not_globally(rng):
    atoms = np.concatenate([rng.normal(-3, 0.1, 200), rng.normal(3, 0.1, 200)])[:, None]
    weights = np.full(400, 1 / 400)
    rows = resampled(weights, 4000, rng)
    spread = {name: np.abs(f(atoms, weights, rows, rng)).std() for name, f in SMOOTHINGS.items()}
    assert spread["local"] == pytest.approx(0.1, rel=0.1)
    assert spread["global"] > 0.3


def test_a_bent_posterior_stays_on_its_line_locally(rng):
    angle = rng.uniform(0, np.pi, 500)
    atoms = np.column_stack([np.cos(angle), np.sin(angle)])
    weights = np.full(500, 1 / 500)
    rows = resampled(weights, 3000, rng)
    off = {
        name: np.abs(np.linalg.norm(f(atoms, weights, rows, rng), axis=1) - 1).mean()
        for name, f in SMOOTHINGS.items()
    }
    assert off["local"] < 0.02 < 0.1 < off["global"]


def test_few_atoms_are_smoothed_without_failure(rng):
    for count in (1, 2, 3):
        weights = np.full(count, 1 / count)
        for smooth in SMOOTHINGS.values():
            drawn = smooth(rng.normal(size=(count, 3)), weights, np.zeros(10, dtype=int), rng)
            assert np.all(np.isfinite(drawn))


def test_atoms_without_weight_are_no_neighbours(rng):
    atoms = np.concatenate([rng.normal(0, 1, 100), np.full(100, 50.0)])[:, None]
    weights = np.repeat([0.01, 0.0], 100)
    draws = SMOOTHINGS["local"](atoms, weights, resampled(weights, 1000, rng), rng)
    assert np.abs(draws).max() < 6


def test_a_posterior_draws_as_it_is_told(rng):
    atoms = Atoms(np.concatenate([rng.normal(-3, 0.1, 50), rng.normal(3, 0.1, 50)])[:, None], Gaussian(1.0))
    posterior = Posterior.of(atoms, np.full(100, 0.01), Support.unbounded(1))
    assert np.isin(posterior.draw(200, 0, smoothing="none"), atoms.points).all()
    assert np.abs(posterior.draw(500, 0)).std() < np.abs(posterior.draw(500, 0, smoothing="global")).std()
    with pytest.raises(ValueError, match="'local', 'global', 'none'"):
        posterior.draw(10, 0, smoothing="some")


def test_herding_estimates_expectations_better_than_resampling(rng):
    points = rng.normal(size=(500, 2))
    weights = rng.dirichlet(np.ones(500))
    posterior = Posterior.of(Atoms(points, Gaussian(1.0)), weights, Support.unbounded(2))

    def error(draws):
        return np.linalg.norm(np.tanh(draws).mean(axis=0) - weights @ np.tanh(points))

    herded = posterior.draw(40, 0, smoothing="none", herding=True)
    resampled = [error(posterior.draw(40, seed, smoothing="none")) for seed in range(50)]
    assert error(herded) < np.mean(resampled)
