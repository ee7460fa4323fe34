"""Simulators of the hierarchical study against what is known of them, and its bookkeeping."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, invgauss, kstest

from case_studies.hierarchical import epidemic, waiting_times
from case_studies.hierarchical.learning import learn
from case_studies.hierarchical.sampling import Run, beside, summary
from case_studies.hierarchical.trials import coverage, density_errors, each_data_set

THETA = np.array([[0.6, 0.1], [1.2, -0.3]])


def waiting_likelihood(simulations, particles):
    return learn(
        waiting_times.table_parameters,
        waiting_times.simulate_rows,
        simulations,
        1,
        "location_scale",
        waiting_times.table_log_density,
        particles,
    ).likelihood


@pytest.mark.parametrize("row", THETA)
def test_waiting_times_are_inverse_gaussian(row):
    times = waiting_times.simulate(np.tile(row, (5000, 1)), np.random.default_rng(1))
    drift, threshold = np.exp(row)
    reference = invgauss(1 / (drift * threshold), scale=threshold**2)
    assert kstest(times, reference.cdf).pvalue > 1e-3
    grid = np.linspace(0.05, 4, 50)
    np.testing.assert_allclose(waiting_times.log_density(grid, row), reference.logpdf(grid), rtol=1e-9)


def test_lapses_are_a_share_of_trials():
    grid = np.linspace(1e-4, 60, 400_000)
    for lapses in (0.0, 0.05, 0.5):
        mass = np.exp(waiting_times.log_density(grid, THETA[0], lapses)).sum() * (grid[1] - grid[0])
        assert mass == pytest.approx(1, abs=1e-3)
    times = waiting_times.simulate(np.tile([3.0, -1.0], (20_000, 1)), np.random.default_rng(2), 0.05)
    # Hardly any decision of theirs takes a second: the deviation of the share is 0.0014.
    assert np.mean(times > 1) == pytest.approx(0.05 * 5 / 6, abs=4 * 0.0014)


def test_models_of_participants_have_the_same_prior():
    data = waiting_times.participants(3)
    exact, simulator = waiting_times.exact_model(data), waiting_times.simulator_model(data, 1.0)
    point = exact.initial_point()
    assert simulator.initial_point().keys() == point.keys()
    terms = [model.compile_logp(vars=model.free_RVs)(point) for model in (exact, simulator)]
    assert terms[0] == pytest.approx(terms[1])
    likelihood = exact.compile_logp(vars=exact.observed_RVs)(point)
    theta = np.column_stack([point["drift"], point["threshold"]])[data.who]
    assert likelihood == pytest.approx(waiting_times.log_density(data.times, theta).sum(), rel=1e-9)


def test_an_epidemic_conserves_people_and_grows_with_its_rate():
    rng = np.random.default_rng(3)
    slow, fast = np.tile([0.1, 1.6, 20.0, 3.2], (200, 1)), np.tile([1.2, 1.6, 20.0, 3.2], (200, 1))
    few, many = (epidemic.simulate(theta, rng) for theta in (slow, fast))
    assert few.shape == (200, epidemic.WEEKS)
    # All are reported here: those infected in all are at most the population, but for the noise of reports.
    assert many.sum(axis=1).mean() < 1.05 * epidemic.POPULATION
    assert few.sum(axis=1).mean() < 0.5 * many.sum(axis=1).mean()
    # The final size of a deterministic epidemic, 1 - exp(-R0 z) = z.
    share = 0.96
    for _ in range(50):
        share = 1 - np.exp(-np.exp(1.2) * share)
    mean = many.sum(axis=1).mean() / epidemic.POPULATION
    assert mean == pytest.approx(share, abs=0.02)


def test_statistics_of_regions():
    cases = np.zeros((2, epidemic.WEEKS))
    cases[0, 5] = 99
    found = epidemic.summarise(cases)
    assert found.shape == (2, len(epidemic.STATISTICS))
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[0, [0, 1, 4, 5]], np.log([100, 100, 1, 100]))
    assert found[0, 2] == pytest.approx(6, abs=0.1)
    assert found[1, 2] == pytest.approx((1 + epidemic.WEEKS) / 2)


def test_errors_are_in_deviations_of_the_reference():
    rng = np.random.default_rng(6)
    z = rng.standard_normal((4000, 3))
    reference = Run({"mean": z[:, :1], "member": z[:, 1:]}, 1.0, 0, 0, 100.0)
    moved = Run({"mean": 2 * z[:, :1] + 1, "member": z[:, 1:] - 0.5}, 2.0, 3, 50, 90.0)
    lines = beside(reference, moved, "moved")
    assert list(lines["parameter"]) == ["mean", "member[0]", "member[1]"]
    found = summary(lines, moved.after({"simulations": 10}), ["mean"])
    # The mean of 4,000 draws has a deviation of 0.016.
    assert found["error_of_means"] == pytest.approx(1, abs=0.07)
    assert found["ratio_group"] == pytest.approx(2)
    assert found["rms_error_members"] == pytest.approx(0.5, abs=0.07)
    assert (found["simulations"], found["divergences"]) == (60, 3)


def test_coverage_is_counted_by_number_of_trials():
    lines = pd.DataFrame(
        {
            "trials": [5, 5, 100, 100] * 2,
            "parameter": ["log drift"] * 4 + ["log threshold"] * 4,
            "inside": [True, False, True, True] * 2,
            "inside_exact": True,
            "error": 0.1,
            "ratio": 1.0,
            "milliseconds": 3.0,
        }
    )
    found = coverage(lines).set_index(["parameter", "fewest", "most"])
    every = found.loc[("log drift", 1, 200)]
    assert (every["data_sets"], every["inside"], every["inside_exact"]) == (4, 3, 4)
    assert (every["band_low"], every["band_high"]) == tuple(binom.ppf([0.025, 0.975], 4, 0.9))
    assert found.loc[("log threshold", 1, 10), "inside"] == 1
    assert found.loc[("log threshold", 11, 50), "data_sets"] == 0


@pytest.fixture(scope="module")
def waiting():
    return waiting_likelihood(1_000, 100)


def test_densities_are_distinguished_from_chance(waiting):
    found = density_errors(waiting, 0.0, 30, 200, 8)
    # Of 200 draws the mean has the deviation 0.07, and two means differ by 0.1.
    assert found["mean_chance"] == pytest.approx(0.1, abs=0.04)
    assert found["mean_learnt"] < 0.5
    assert -0.02 < found["divergence"] < 0.2


@pytest.mark.statistical
def test_intervals_hold_for_data_sets_of_1_to_200_trials(waiting):
    lines = each_data_set(waiting, 60, 9)
    assert lines["trials"].min() <= 10
    assert lines["trials"].max() >= 150
    for name in ("log drift", "log threshold"):
        part = lines[lines["parameter"] == name]
        # Two-sided, one in a thousand, for each of two parameters.
        low, high = binom.ppf([0.0005, 0.9995], 60, 0.9)
        assert low <= part["inside"].sum() <= high
