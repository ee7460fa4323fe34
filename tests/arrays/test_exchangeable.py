"""Which columns look like independent draws of one distribution."""

import numpy as np
import pytest

from pymc_kbr.arrays.exchangeable import Atoms, seems_exchangeable

N, D = 1500, 20
RNG = np.random.default_rng(0)
MIDDLE, LOG_SCALE = RNG.normal(size=(2, N, 1))
PARAMETERS = np.hstack([MIDDLE, LOG_SCALE])
NOISE = RNG.normal(size=(N, D))
TIMES = np.linspace(-1, 1, D)


def autoregression(slope):
    x = NOISE.copy()
    for j in range(1, D):
        x[:, j] += slope * x[:, j - 1]
    x[:, 0] /= np.sqrt(1 - slope**2)
    return x


ALIKE = {
    "normal": MIDDLE + np.exp(LOG_SCALE) * NOISE,
    "cauchy": MIDDLE + np.exp(LOG_SCALE) * np.tan(np.pi * (RNG.random((N, D)) - 0.5)),
    "sorted": np.sort(MIDDLE + NOISE, axis=1),
    "sorted mixture": np.sort(np.where(RNG.random((N, D)) < 0.3, MIDDLE, 3.0) + 0.2 * NOISE, axis=1),
    "sorted, of a law with tails": np.sort(MIDDLE + np.exp(LOG_SCALE) * RNG.standard_t(1, (N, D)), axis=1),
    "mixture": np.where(RNG.random((N, D)) < 0.3, MIDDLE, 3.0) + 0.2 * NOISE,
    "of one law each": np.exp(3 * LOG_SCALE * NOISE),
    "censored": np.minimum(MIDDLE + NOISE, 1.0),
    "sorted, censored at both ends": np.sort(np.clip(MIDDLE + NOISE, -1.0, 1.0), axis=1),
    "with zeros": np.where(RNG.random((N, D)) < 0.3, 0.0, MIDDLE + NOISE),
    "of five values": np.clip(np.round(MIDDLE + NOISE), -2, 2),
    "counts": RNG.poisson(3.0, size=(N, D)).astype(float),
    "sorted counts": np.sort(RNG.poisson(np.exp(MIDDLE), size=(N, D)), axis=1).astype(float),
    "counts, mostly few": RNG.poisson(0.2, size=(N, D)).astype(float),
    "rounded": np.round(MIDDLE + NOISE, 1),
}
OTHERS = {
    "a trend": MIDDLE + TIMES + 3 * NOISE,
    "a scale of its own": np.where(np.arange(D) == 4, 2.0, 1.0) * NOISE,
    "a series": MIDDLE + autoregression(0.3),
    "a line of either slope": RNG.normal(size=(N, 1)) * np.sign(TIMES) + NOISE,
    "two groups": np.hstack(
        [RNG.normal(size=(N, 1)) + NOISE[:, :10], RNG.normal(size=(N, 1)) + NOISE[:, 10:]]
    ),
    "two groups of two scales": np.exp(np.repeat(RNG.normal(size=(N, 2)), 10, axis=1)) * NOISE,
    "quantiles of three times as many draws": np.quantile(
        MIDDLE + np.exp(LOG_SCALE) * RNG.normal(size=(N, 3 * D)), np.linspace(0.02, 0.98, D), axis=1
    ).T,
    "counts, one of them higher": RNG.poisson(np.where(np.arange(D) == 4, 4.0, 3.0), size=(N, D)).astype(
        float
    ),
    "censored, each at a limit of its own": np.minimum(MIDDLE + NOISE, 1 + 0.05 * np.arange(D)),
    "a censored series": np.minimum(MIDDLE + autoregression(0.5), 1.0),
    "rounded to a thousandth": np.round(MIDDLE + NOISE, 3),
    "every third of sorted counts": np.sort(RNG.poisson(90.0, size=(N, 3 * D)), axis=1)[:, 1::3].astype(
        float
    ),
    "sorted, of four values": np.sort(RNG.integers(0, 4, size=(N, D)), axis=1).astype(float),
    "one row of many not sorted": np.vstack([np.sort(NOISE[1:], axis=1), NOISE[:1]]),
}


def test_values_with_probabilities_are_found_up_to_rounding():
    x = np.where(RNG.random((N, D)) < 0.3, 5.0 + np.spacing(5.0) * RNG.integers(0, 3, (N, D)), NOISE)
    x[RNG.random((N, D)) < 0.01] = 0.0
    atoms = Atoms.of(x)
    np.testing.assert_allclose(atoms.values, [0.0, 5.0])
    assert atoms.number(np.array([0.0, 1.0, 5.0])).tolist() == [0, 2, 1]
    assert np.mean(atoms.hold(x)) == pytest.approx(0.307, abs=0.01)
    assert len(Atoms.of(NOISE).values) == 0


def test_counts_are_all_points_of_their_lattice():
    x = 0.1 * RNG.choice([2.0, 3.0, 5.0, 7.0, 8.0, 9.0, 12.0], size=(N, D)) + np.spacing(1.0)
    atoms = Atoms.of(x)
    np.testing.assert_allclose(atoms.values, 0.1 * np.arange(2, 13))
    assert atoms.hold(x).all()
    assert not atoms.hold(np.array([0.25, np.nan])).any()
    assert len(Atoms.of(np.round(1e4 * NOISE)).values) == 0  # of too many
    uneven = np.sort(np.append(np.arange(25.0), np.pi))
    assert len(Atoms.of(RNG.choice(uneven, size=(N, D))).values) == 0  # of none


def test_uneven_values_have_probabilities_also_amid_a_density():
    listed = np.array([-2.5, -1.1, -0.2, 0.3, 1.2, 2.4])
    for share in (0.3, 1.0):
        x = np.where(RNG.random((N, D)) < share, RNG.choice(listed, size=(N, D)), RNG.normal(size=(N, D)))
        np.testing.assert_array_equal(Atoms.of(x).values, listed)


@pytest.mark.parametrize("name", ALIKE)
def test_draws_of_one_distribution_look_exchangeable(name):
    assert seems_exchangeable(ALIKE[name], PARAMETERS)


@pytest.mark.parametrize("name", OTHERS)
def test_others_do_not(name):
    assert not seems_exchangeable(OTHERS[name], PARAMETERS)


def test_of_few_columns_or_rows_nothing_is_said():
    x = ALIKE["normal"]
    assert seems_exchangeable(x[:, :8], PARAMETERS)
    assert not seems_exchangeable(x[:, : 8 - 1], PARAMETERS)
    assert seems_exchangeable(x[:200], PARAMETERS[:200])
    assert not seems_exchangeable(x[: 200 - 1], PARAMETERS[: 200 - 1])


@pytest.mark.parametrize("spread", [False, True])
def test_statistics_each_of_a_parameter_of_its_own_are_distinguished_by_these(spread):
    """By themselves they are independent draws of one distribution."""
    parameters = RNG.normal(size=(N, 8))
    noise = NOISE[:, :8]
    x = np.exp(0.5 * parameters) * noise if spread else parameters + 2 * noise
    assert seems_exchangeable(x, RNG.normal(size=(N, 2)))
    assert not seems_exchangeable(x, parameters)


def test_false_alarms_are_rare():
    """Tables of draws that are taken for something else."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(30):
        middle, log_scale = rng.normal(size=(2, 400, 1))
        x = middle + np.exp(log_scale) * rng.normal(size=(400, 12))
        found.append(seems_exchangeable(x, np.hstack([middle, log_scale])))
    assert np.mean(found) > 0.9
