"""A model whose posterior is known: theta ~ N(0, I), 20 data of mean A theta and deviation one.

The statistics are the data's means, so the posterior is normal with precision I + 20 A'A.
``python -m tests.statistical.test_linear_gaussian`` prints the errors that are bounded here.
"""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk

MIX = np.array([[1.0, 0.5], [-0.3, 0.8]])
OBSERVED = np.array([[0.6, -0.4], [0.0, 0.3], [-0.9, 0.1], [1.2, 0.9]])
SIMULATIONS = 10_000
FOR_RIDGES = 2_000
"""Rows for regressions on all rows: as accurate here, in a fraction of the time."""

COVARIANCE = np.linalg.inv(np.eye(2) + 20 * MIX.T @ MIX)
DEVIATION = np.sqrt(np.diag(COVARIANCE))
MEANS = OBSERVED @ (20 * MIX) @ COVARIANCE

# Error allowed to the posterior mean, in posterior deviations: three Monte Carlo deviations of as many
# rows as the estimator's effective sample size, plus a bias. With 10,000 rows in two dimensions the 100
# nearest lie within a tenth of the prior's deviation of the observation, which is about half of a
# posterior deviation: inside that radius rejection and Nadaraya-Watson average a slope that they do
# not see, the more so away from the prior's centre. The ridge regressions see the slope.
BIAS = {"rejection": 0.15, "nadaraya_watson": 0.15, "conditional_mean": 0.02, "localised": 0.05}
BIAS |= {"kbr": 0.02, "iw_kbr": 0.02, "kde": 0.15, "adjusted": 0.02, "kernel_likelihood": 0.02}
# A likelihood that is learnt has an error of the table, too, which its effective sample size leaves out. Over
# 20 tables of 2,000 rows means are off by 0.047, of which 4,000 draws make 0.016, and means over the four
# observations by 0.032. The mean of these errors, the bias, is at most 0.02, of which chance makes 0.01.
OF_TABLE, OF_ALL_FOUR = {"kernel_likelihood": 0.044}, {"kernel_likelihood": 0.032}
# Widest draws, as a multiple of the exact deviation. Kernel density estimation smooths the likelihood in
# both statistics and parameters, and its cross-validated bandwidth is that of the joint density.
WIDEST = dict.fromkeys(BIAS, 1.25) | {"kde": 1.5}


def simulator(rng, a, b, size=None):
    """Means of 20 data, for one pair of parameters or a batch."""
    centre = np.stack([a, b], axis=-1) @ MIX.T
    return centre + rng.standard_normal(centre.shape) / np.sqrt(20)


def make_model(observed):
    with pm.Model() as model:
        a, b = pm.Normal("a", 0, 1), pm.Normal("b", 0, 1)
        pk.vector_simulator("y", simulator, a, b, observed=observed)
    return model


def make_table():
    return pk.simulate(SIMULATIONS, model=make_model(OBSERVED[0]), random_seed=7, progressbar=False)


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.mark.statistical
@pytest.mark.parametrize("name", sorted(pk.ESTIMATORS))
def test_posteriors_are_within_their_stated_error_of_the_exact_ones(name, table):
    n = FOR_RIDGES if name in ("conditional_mean", "kbr", "iw_kbr", "kernel_likelihood") else SIMULATIONS
    estimator = pk.ESTIMATORS[name]().fit(
        table.parameters[:n], table.statistics[:n], table.support, random_seed=1
    )
    posteriors = estimator.condition(OBSERVED)
    if name in OF_ALL_FOUR:
        errors = np.array([posterior.mean() for posterior in posteriors]) - MEANS
        assert np.abs(errors.mean(axis=0) / DEVIATION).max() < BIAS[name] + 3 * OF_ALL_FOUR[name]
    for posterior, exact in zip(posteriors, MEANS, strict=True):
        of_draws = posterior.effective_sample_size**-0.5
        allowed = BIAS[name] + 3 * np.hypot(OF_TABLE.get(name, 0.0), of_draws)
        assert np.abs((posterior.mean() - exact) / DEVIATION).max() < allowed
        draws = posterior.draw(4000, 1)
        assert np.abs((draws.mean(axis=0) - exact) / DEVIATION).max() < allowed + 3 / np.sqrt(4000) + 0.1
        # A deviation estimated from m draws has a relative error of 1 / sqrt(2 m); the kernel
        # estimators' neighbourhoods widen it, the projection of signed weights changes it a little.
        ratio = draws.std(axis=0) / DEVIATION
        assert np.all(ratio > 0.75 - 3 / np.sqrt(2 * posterior.effective_sample_size))
        assert np.all(ratio < WIDEST[name] + 3 / np.sqrt(2 * posterior.effective_sample_size))


def main():
    """Print, per estimator, the largest error of a posterior mean and the mean ratio of deviations."""
    table = make_table()
    for name, cls in pk.ESTIMATORS.items():
        posteriors = cls().fit(table.parameters, table.statistics, table.support).condition(OBSERVED)
        errors = [(p.mean() - exact) / DEVIATION for p, exact in zip(posteriors, MEANS, strict=True)]
        ratios = [p.draw(4000, 1).std(axis=0) / DEVIATION for p in posteriors]
        print(
            f"{name}: largest error of a posterior mean {np.abs(errors).max():.2f} posterior deviations; "
            f"deviation of the draws {np.mean(ratios):.2f} times the exact one"
        )


if __name__ == "__main__":
    main()
