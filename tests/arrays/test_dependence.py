"""Which of many statistics say something of the parameters."""

import numpy as np
import pytest

from pymc_kbr.arrays.dependence import depend_on

N = 1500


@pytest.fixture
def rng():
    return np.random.default_rng(3)


WAYS = {
    "mean": lambda theta, noise: 0.3 * theta[:, 0] + noise,
    "spread": lambda theta, noise: np.exp(0.3 * theta[:, 1]) * noise,
    "a heavy tail": lambda theta, noise: 0.3 * theta[:, 0] + np.tan(noise),
    "a mean that turns": lambda theta, noise: 0.4 * theta[:, 0] ** 2 + noise,
    "the product of two": lambda theta, noise: 0.4 * theta[:, 0] * theta[:, 1] + noise,
    "counts": lambda theta, noise: np.floor(np.exp(0.5 * theta[:, 0] + noise)),
    "two values": lambda theta, noise: (0.5 * theta[:, 0] + noise > 0).astype(float),
}


@pytest.mark.parametrize("way", WAYS)
def test_what_depends_is_kept_among_useless_ones(rng, way):
    theta, x = rng.normal(size=(N, 2)), rng.standard_cauchy(size=(N, 21))
    x[:, 7] = WAYS[way](theta, rng.normal(size=N))
    kept = depend_on(x, theta)
    assert kept[7]
    assert kept.sum() <= 3


@pytest.mark.parametrize("kind", ["normal", "cauchy", "counts", "two values"])
def test_of_useless_statistics_few_are_kept(rng, kind):
    """One in a hundred by the level; a count of 900 has a standard error of three."""
    kept = 0
    for _ in range(30):
        theta = rng.normal(size=(400, 3))
        noise = rng.normal(size=(400, 30))
        x = {
            "normal": noise,
            "cauchy": np.tan(noise),
            "counts": np.floor(2 + noise),
            "two values": 1.0 * (noise > 0),
        }
        kept += depend_on(x[kind], theta).sum()
    assert kept < 900 * 0.01 + 4 * np.sqrt(900 * 0.01)


def test_what_tells_of_the_noise_of_others_is_kept(rng):
    """By itself it says nothing: with the other it says all."""
    theta, noise, x = rng.normal(size=(N, 1)), rng.normal(size=N), rng.normal(size=(N, 20))
    x[:, 3], x[:, 11] = theta[:, 0] + noise, noise
    x[:, 15] = noise + 2 * rng.normal(size=N)
    assert np.all(depend_on(x, theta)[[3, 11, 15]])


def test_one_that_is_kept_by_chance_does_not_bring_all_that_depend_on_it(rng):
    kept = []
    for _ in range(20):
        theta, common = rng.normal(size=(400, 1)), rng.normal(size=(400, 1))
        x = common + rng.normal(size=(400, 40))
        x[:, 0] = theta[:, 0] + 0.3 * rng.normal(size=400)
        kept.append(depend_on(x, theta).sum())
    assert np.mean(kept) < 5  # the useful one, and of the others one in a hundred, which come together


def test_a_column_that_does_not_vary_depends_on_nothing(rng):
    theta = rng.normal(size=(200, 1))
    x = np.column_stack([np.ones(200), theta[:, 0]])
    np.testing.assert_array_equal(depend_on(x, theta), [False, True])
