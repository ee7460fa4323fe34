import numpy as np
import pytest

from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.posterior.smoothing import SMOOTHINGS, silverman


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


def test_herding_estimates_expectations_better_than_resampling(rng):
    points = rng.normal(size=(500, 2))
    weights = rng.dirichlet(np.ones(500))
    posterior = Posterior.of(Atoms(points, Gaussian(1.0)), weights, Support.unbounded(2))

    def error(draws):
        return np.linalg.norm(np.tanh(draws).mean(axis=0) - weights @ np.tanh(points))

    herded = posterior.draw(40, 0, smoothing="none", herding=True)
    resampled = [error(posterior.draw(40, seed, smoothing="none")) for seed in range(50)]
    assert error(herded) < np.mean(resampled)


def neighbourhood(atoms, weights, row):
    """Mean, covariance and number of the nearest weighted atoms of one, written out."""
    carrying = np.flatnonzero(weights > 0)
    count, q = len(carrying), atoms.shape[1]
    k = min(count, max(2 * q + 2, round(count ** max(0.5, q / (q + 2)))))
    scaled = atoms / atoms[carrying].std(axis=0)
    apart = np.linalg.norm(scaled[carrying] - scaled[row], axis=1)
    near = carrying[np.argsort(apart)[:k]]
    shares = weights[near] / weights[near].sum()
    mean = shares @ atoms[near]
    centred = atoms[near] - mean
    return mean, (shares[:, None] * centred).T @ centred, k


@pytest.mark.parametrize(("count", "q"), [(100, 1), (200, 2), (30, 3), (120, 6), (4, 3)])
def test_local_noise_is_that_of_the_neighbours(count, q, rng):
    """One atom's draws: its mean drawn towards its neighbours', their covariance times h^2."""
    units = 10.0 ** np.arange(q)
    atoms = rng.normal(size=(count, q)) @ rng.normal(size=(q, q)) * units
    weights = rng.exponential(size=count)
    weights[1] = 0
    weights /= weights.sum()
    mean, covariance, k = neighbourhood(atoms, weights, 3)
    h = min(0.9, (4 / (k * (q + 2))) ** (1 / (q + 4)))
    draws = SMOOTHINGS["local"](atoms, weights, np.full(40_000, 3), rng)
    root = np.linalg.cholesky(covariance + 1e-12 * np.diag(np.diag(covariance)))
    white = np.linalg.solve(root, (draws - (mean + np.sqrt(1 - h**2) * (atoms[3] - mean))).T).T / h
    rank = min(q, k - 1)
    # Means and covariances of 40,000 standard normal draws: five standard errors.
    assert np.abs(white.mean(axis=0)).max() < 5 / 200
    if rank == q:
        assert np.abs(np.cov(white.T) - np.eye(q)).max() < 5 * np.sqrt(2) / 200


def test_two_atoms_are_neighbours_of_each_other():
    atoms, rng = np.array([[0.0, 1.0], [1.0, 3.0]]), np.random.default_rng(0)
    draws = SMOOTHINGS["local"](atoms, np.full(2, 0.5), np.zeros(50, dtype=int), rng)
    assert len(np.unique(draws[:, 0])) == 50
    np.testing.assert_allclose(draws[:, 1], 1 + 2 * draws[:, 0], atol=1e-9)
    one = SMOOTHINGS["local"](atoms[:1], np.ones(1), np.zeros(3, dtype=int), rng)
    np.testing.assert_array_equal(one, atoms[[0, 0, 0]])


def test_global_noise_is_that_of_all_atoms(rng):
    atoms = rng.normal(size=(50, 2)) * [1.0, 100.0]
    weights = rng.dirichlet(np.ones(50))
    mean = weights @ atoms
    covariance = (weights[:, None] * (atoms - mean)).T @ (atoms - mean)
    h = silverman(1 / np.sum(weights**2), 2)
    draws = SMOOTHINGS["global"](atoms, weights, np.full(40_000, 7), rng)
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, (draws - (mean + np.sqrt(1 - h**2) * (atoms[7] - mean))).T).T / h
    assert np.abs(white.mean(axis=0)).max() < 5 / 200
    assert np.abs(np.cov(white.T) - np.eye(2)).max() < 5 * np.sqrt(2) / 200


@pytest.mark.parametrize("count", [20, 60])
@pytest.mark.parametrize("weights", ["even", "uneven"])
def test_the_variance_that_neighbours_take_away_is_given_back(weights, count, rng):
    """Of a uniform sample, at whose ends all neighbours lie inwards."""
    atoms = rng.uniform(size=(count, 1)) * [10.0]
    v = np.full(count, 1 / count) if weights == "even" else rng.dirichlet(np.full(count, 3.0))
    draws = SMOOTHINGS["local"](atoms, v, rng.choice(count, 200_000, p=v), rng)
    mean = v @ atoms[:, 0]
    # Monte Carlo deviation of a variance from 200,000 draws of this shape is below a fifth of a per cent.
    assert draws.var() == pytest.approx(v @ (atoms[:, 0] - mean) ** 2, rel=0.008)


def test_draws_of_few_different_atoms_are_not_widened(rng):
    """Nineteen of them: their variance says nothing about what neighbours take away."""
    atoms = np.sort(rng.uniform(size=100))[:, None]
    weights = np.full(100, 0.01)
    rows = np.arange(40, 59).repeat(4000)
    expected = []
    for row in range(40, 59):
        mean, _, k = neighbourhood(atoms, weights, row)
        h = silverman(k, 1)
        expected.append(mean + np.sqrt(1 - h**2) * (atoms[row] - mean))
    draws = SMOOTHINGS["local"](atoms, weights, rows, rng)[:, 0].reshape(19, 4000)
    np.testing.assert_allclose(draws.mean(axis=1), np.ravel(expected), atol=6 * draws.std(axis=1).max() / 63)


def test_neighbours_among_some_atoms_span_the_same_neighbourhood(rng):
    """Of 2,500 atoms 50 would be neighbours; twelve among 600 are."""
    atoms = np.linspace(0, 1, 2500)[:, None]
    weights = np.full(2500, 1 / 2500)
    draws = SMOOTHINGS["local"](atoms, weights, np.arange(500, 2000).repeat(10), rng)
    off = (draws[:, 0] - atoms[np.arange(500, 2000).repeat(10), 0]).reshape(1500, 10)
    h = silverman(50, 1)
    # Fifty neighbours in a row have a variance of (50^2 - 1) / 12 steps.
    assert off.std(axis=1, ddof=1).mean() == pytest.approx(h * np.sqrt(50**2 / 12) / 2499, rel=0.15)


def test_many_draws_are_made_in_parts(rng, set_default):
    atoms, weights = rng.normal(size=(50, 2)), np.full(50, 0.02)
    rows = np.arange(50).repeat(4)
    whole = SMOOTHINGS["local"](atoms, weights, rows, np.random.default_rng(1))
    set_default(SMOOTHINGS["local"], numbers_at_once=500)
    parts = SMOOTHINGS["local"](atoms, weights, rows, np.random.default_rng(1))
    np.testing.assert_allclose(parts, whole)


@pytest.mark.parametrize("size", [1.0, 10.0, 1e4])
@pytest.mark.parametrize("q", [1, 2, 10])
def test_the_bandwidth_is_silvermans(size, q):
    assert silverman(size, q) == pytest.approx(min(0.9, (4 / (size * (q + 2))) ** (1 / (q + 4))))
    assert silverman(0.01, q) == silverman(1.0, q)


def test_without_smoothing_draws_are_the_atoms(rng):
    atoms, rows = rng.normal(size=(5, 2)), np.array([4, 4, 0])
    np.testing.assert_array_equal(SMOOTHINGS["none"](atoms, np.full(5, 0.2), rows, rng), atoms[rows])


def test_only_what_was_drawn_before_moves_where_atoms_are_draws_themselves(rng):
    atoms, rows = rng.normal(size=(50, 2)), np.array([4, 7, 4, 0, 4, 7])
    again = np.array([False, False, True, False, True, True])
    moved = SMOOTHINGS["repeats"](atoms, np.full(50, 0.02), rows, rng)
    np.testing.assert_array_equal(np.any(moved != atoms[rows], axis=1), again)
    assert len(np.unique(moved, axis=0)) == len(rows)


def test_atoms_on_a_line_are_smoothed_on_it(rng):
    atoms = rng.normal(size=(80, 1)) * [1.0, 2.0]
    for name in ("local", "global"):
        draws = SMOOTHINGS[name](atoms, np.full(80, 1 / 80), np.arange(80), rng)
        np.testing.assert_allclose(draws[:, 1], 2 * draws[:, 0], atol=1e-6)


def test_the_variance_given_back_is_that_of_the_atoms_that_were_drawn(rng):
    """Of two groups far apart, the one."""
    atoms = np.concatenate([rng.uniform(size=25), 1000 + rng.uniform(size=25)])[:, None]
    draws = SMOOTHINGS["local"](atoms, np.full(50, 0.02), np.arange(25, 50).repeat(8000), rng)
    # Monte Carlo deviation of a variance from 200,000 draws of this shape is below a fifth of a per cent.
    assert draws.var() == pytest.approx(atoms[25:].var(), rel=0.008)


def test_a_column_that_does_not_vary_stays_what_it_is(rng):
    """Nothing is given back of a variance that is zero."""
    atoms = np.column_stack([rng.normal(size=60), np.full(60, 0.1)])
    weights = rng.dirichlet(np.ones(60))
    rows = rng.choice(60, 200, p=weights)
    for name in SMOOTHINGS:
        draws = SMOOTHINGS[name](atoms, weights, rows, rng)
        np.testing.assert_allclose(draws[:, 1], 0.1, rtol=1e-12)
        assert np.isfinite(draws).all()


def test_a_column_of_zeros_takes_nothing_from_memory_that_was_not_written(rng, monkeypatch):
    divide = np.divide

    def undefined_is_no_number(a, b, out=None, where=True):
        return divide(a, b, out=np.full(np.shape(b), np.nan) if out is None else out, where=where)

    monkeypatch.setattr(np, "divide", undefined_is_no_number)
    atoms = np.column_stack([rng.normal(size=60), np.zeros(60)])
    draws = SMOOTHINGS["local"](atoms, np.full(60, 1 / 60), np.arange(60), rng)
    assert np.all(draws[:, 1] == 0)
    assert np.isfinite(draws).all()


class Recorded(np.random.Generator):
    """Remembers how many normal numbers it was asked for."""

    asked: tuple[int, int]

    def standard_normal(self, size):
        self.asked = size
        return super().standard_normal(size)


@pytest.mark.parametrize(("q", "used"), [(1, 12), (2, 16), (3, 36), (5, 100), (6, 120)])
def test_as_many_neighbours_are_used_as_a_covariance_needs(q, used):
    """Twelve, four for each of its entries, or twenty a column: a normal number each."""
    rng = Recorded(np.random.PCG64(1))
    SMOOTHINGS["local"](rng.normal(size=(700, q)), np.full(700, 1 / 700), np.arange(5), rng)
    assert rng.asked == (5, used)


def test_no_atom_is_twice_among_the_neighbours():
    """Of 160 thirteen would be; twelve among 148 are, whose mean moves as that of different atoms does."""
    atoms, weights, seeds = np.arange(160.0)[:, None], np.full(160, 1 / 160), 200
    h, made, expected = silverman(13, 1), [], []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        draws = SMOOTHINGS["local"](atoms, weights, np.full(2000, 80), rng)
        made.append(80 + (draws.mean() - 80) / (1 - np.sqrt(1 - h**2)))
        among = rng.permutation(160)[:148]
        expected.append(among[np.argsort(np.abs(among - 80))[:12]].mean())
    # Standard deviations of 200 seeds have a relative error of 1 / sqrt(400): four of both.
    assert np.std(made) == pytest.approx(np.std(expected), rel=4 * np.sqrt(2 / 400))
