"""Levels and power of the tests, what they refuse, and the same p-values as another package."""

import csv
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom

import pymc_kbr as pk
from pymc_kbr.embedding.bayesian_embedding import BayesianKernelEmbedding
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.hypothesis_tests import (
    causal_learn_test,
    conditional_hsic_test,
    hsic_test,
    kci_test,
    mmd_test,
    power_curve,
    witness,
)
from pymc_kbr.hypothesis_tests.hsic import weighted_chi_squares
from pymc_kbr.hypothesis_tests.mmd import Discrepancies, GramSums
from pymc_kbr.kernels import Gaussian, Laplace, median_heuristic
from tests.hypothesis_tests.hyppo import BANDWIDTH, PATH, pair

with PATH.open(newline="") as recorded:
    RECORDED = list(csv.DictReader(recorded))

NULLS = 400
BAND = binom.ppf([5e-4, 1 - 5e-4], NULLS, 0.05) / NULLS
"""Within which a test of level 0.05 rejects, but for one in a thousand times."""


def columns(kind, rng, rows):
    """Points of two columns that depend on each other, with normal or Cauchy tails."""
    common = rng.standard_cauchy(rows) if kind == "cauchy" else rng.normal(size=rows)
    return np.stack([common, common + 0.5 * rng.normal(size=rows)], axis=1)


def two_samples(kind, rng):
    return columns(kind, rng, 18), columns(kind, rng, 24)


def independent(kind, rng):
    return columns(kind, rng, 25), columns(kind, rng, 25)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("test", "simulate", "kind"), [(mmd_test, two_samples, "cauchy"), (hsic_test, independent, "normal")]
)
def test_level(test, simulate, kind):
    curve = power_curve(test, simulate, [kind], repeats=NULLS, permutations=39, random_seed=3)
    assert BAND[0] <= curve.power[0] <= BAND[1]


@pytest.mark.statistical
@pytest.mark.parametrize(("test", "rows", "kind"), [(mmd_test, 200, "cauchy"), (hsic_test, 100, "normal")])
def test_level_of_blocks(test, rows, kind):
    def simulate(kind, rng):
        return columns(kind, rng, rows), columns(kind, rng, rows)

    block = rows // 20
    curve = power_curve(test, simulate, [kind], repeats=NULLS, form="block", block=block, random_seed=7)
    assert BAND[0] <= curve.power[0] <= BAND[1]


@pytest.mark.statistical
@pytest.mark.parametrize(("test", "simulate"), [(mmd_test, two_samples), (hsic_test, independent)])
def test_level_of_the_gamma_approximation(test, simulate):
    curve = power_curve(
        test, simulate, ["normal"], repeats=NULLS, null="gamma", statistic="biased", random_seed=5
    )
    # Its form adds to the band: a hundredth, of 25 rows.
    assert BAND[0] - 0.01 <= curve.power[0] <= BAND[1] + 0.01


def test_power_against_what_median_and_learnt_bandwidths_see():
    rng = np.random.default_rng(1)
    centres = np.repeat(14.0 * np.arange(6), 60)[:, None]
    x, y = rng.normal(size=(360, 1)) + centres, 2.0 * rng.normal(size=(360, 1)) + centres
    assert mmd_test(x, y, bandwidth="median", random_seed=1).pvalue > 0.05
    assert mmd_test(x, y, bandwidth="bayesian", random_seed=1).pvalue < 0.01


def test_bandwidths_are_those_asked_for(rng):
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    pooled = np.vstack([x, y])
    assert mmd_test(x, y, bandwidth="median", permutations=9).bandwidths == (median_heuristic(pooled),)
    learnt = mmd_test(x, y, bandwidth="bayesian", permutations=9)
    assert learnt.kernels == (learn_lengthscale(pooled).kernel,)
    grid = np.repeat(14.0 * np.arange(3), 20)[:, None] + rng.normal(size=(60, 2))
    maxima = learn_lengthscale(np.vstack([grid, grid + 0.1])).maxima
    assert len(maxima) == 2
    of_all = mmd_test(grid, grid + 0.1, bandwidth="bayesian_all", permutations=9).kernels
    assert of_all == (maxima[0].kernel + maxima[1].kernel,)
    shortest = mmd_test(grid, grid + 0.1, bandwidth="bayesian_shortest", permutations=9).bandwidths[0]
    assert shortest == min(m.kernel.bandwidth for m in maxima)
    each = hsic_test(x, y, bandwidth=("bayesian", 2.0), permutations=9).kernels
    assert each == (learn_lengthscale(x).kernel, Gaussian(2.0))
    laplace = hsic_test(x, y, kernel="laplace", bandwidth="median", permutations=9)
    assert laplace.kernels[1] == Laplace(median_heuristic(y))


def test_conditional_test_sees_through_a_common_cause():
    rng = np.random.default_rng(2)
    z = rng.uniform(-2, 2, size=300)
    x, y = z**2 + 0.3 * rng.normal(size=300), np.sin(2 * z) + z + 0.3 * rng.normal(size=300)
    assert hsic_test(x, y, random_seed=1).pvalue < 0.01
    assert conditional_hsic_test(x, y, z, random_seed=1).pvalue > 0.05
    assert conditional_hsic_test(x, y + x, z, random_seed=1).pvalue < 0.01


def of_common_scale(seed, rows, slope=0.0):
    """Columns with noise that is wider far from zero, independent given z unless there is a slope."""
    rng = np.random.default_rng(seed)
    z, noise = rng.normal(size=rows), rng.normal(size=(2, rows))
    noise[1] += slope * noise[0] * np.sign(z)
    x, y = np.stack([z, np.sin(z)]) + (0.2 + np.abs(z)) * noise
    return x, y, z


def test_kci_keeps_its_level_where_the_noise_has_a_common_scale():
    """Of 30 nulls at most 5 are rejected with probability 0.997; residuals are dependent in most."""
    found = [of_common_scale(seed, 80) for seed in range(30)]
    assert sum(kci_test(*one, random_seed=1).pvalue <= 0.05 for one in found) <= 5
    options = {"null": "gamma", "statistic": "biased", "random_seed": 1}
    assert sum(conditional_hsic_test(*one, **options).pvalue <= 0.05 for one in found[:20]) > 6


def test_kci_finds_a_dependence_whose_sign_is_that_of_the_third_column():
    x, y, z = of_common_scale(3, 200, slope=0.8)
    found = kci_test(x, y, z, random_seed=1)
    assert found.pvalue < 0.01
    assert kci_test(1e3 * x, y - 50, 1e-3 * z, random_seed=1).pvalue == pytest.approx(found.pvalue, rel=1e-3)


def test_null_of_kci_has_the_moments_of_weighted_chi_squares(rng):
    factor = rng.normal(size=(6, 4))
    weights = np.linalg.eigvalsh(factor @ factor.T)
    null = weighted_chi_squares(factor @ factor.T)
    assert null.mean() == pytest.approx(weights.sum())
    assert null.var() == pytest.approx(2 * np.sum(weights**2))


@pytest.mark.parametrize("line", RECORDED, ids=lambda line: f"{line['test']} {line['seed']}")
def test_same_pvalues_as_hyppo(line):
    x, y = pair(line["test"], int(line["seed"]))
    test = mmd_test if line["test"] == "mmd" else hsic_test
    found = test(x, y, bandwidth=BANDWIDTH, permutations=2000, random_seed=1).pvalue
    theirs, count = float(line["pvalue"]), int(line["permutations"])
    share = max((2000 * found + count * theirs) / (2000 + count), 1e-3)
    assert abs(found - theirs) < 4 * np.sqrt(share * (1 - share) * (1 / count + 1 / 2000)) + 1 / count


def test_witness_is_the_difference_of_embeddings(rng):
    x, y, at = rng.normal(size=(30, 1)), rng.normal(1.0, 1.0, size=(25, 1)), np.array([[-1.0], [2.0]])
    found = witness(x, y, at, lengthscale=0.7, noise=0.01, probability=0.9)
    embeddings = [BayesianKernelEmbedding(0.7, 0.01).fit(points) for points in (x, y)]
    means, deviations = [e.mean(at) for e in embeddings], [e.deviation(at) for e in embeddings]
    np.testing.assert_allclose(found.mean, means[0] - means[1])
    half = 1.6448536 * np.sqrt(deviations[0] ** 2 + deviations[1] ** 2)
    np.testing.assert_allclose(found.upper - found.mean, half)
    np.testing.assert_allclose(found.mean - found.lower, half)
    assert found.mean[0] > 0 > found.mean[1]


def test_witness_integrates_draws_of_the_lengthscale(rng):
    x, y, at = rng.normal(size=(30, 1)), rng.normal(1.0, 1.0, size=(25, 1)), np.array([[-1.0], [2.0]])
    draws = np.full((800, 1), 0.7)
    one, many = witness(x, y, at, lengthscale=0.7), witness(x, y, at, lengthscale=draws, random_seed=1)
    deviation = (one.upper - one.lower) / (2 * 1.2815516)
    assert np.all(np.abs(many.mean - one.mean) < 5 * deviation / np.sqrt(800))
    # A quantile's error at 10% is sqrt(.09 / n) over the density there, 0.175.
    assert np.all(np.abs(many.upper - one.upper) < 5 * deviation * 0.3 / 0.175 / np.sqrt(800))
    bayesian = witness(x, y, at)
    np.testing.assert_array_equal(bayesian.lengthscale, learn_lengthscale(np.vstack([x, y])).lengthscale)


@pytest.mark.versions
def test_causal_learn_takes_the_class():
    pytest.importorskip("causallearn", reason="causal-learn is not installed (extra `causal`)")
    from importlib import import_module

    cit = import_module("causallearn.utils.cit")
    rng = np.random.default_rng(5)
    z = rng.normal(size=120)
    data = np.stack([z + 0.5 * rng.normal(size=120), z, z + 0.5 * rng.normal(size=120)], axis=1)
    options = {"null": "gamma", "statistic": "biased"}
    cit.register_ci_test("pymc_kbr", causal_learn_test(random_seed=1, **options))
    test = cit.CIT(data, "pymc_kbr")
    assert test(0, 2) == hsic_test(data[:, 0], data[:, 2], random_seed=1, **options).pvalue
    given = kci_test(data[:, [0]], data[:, [2]], data[:, [1]], random_seed=1)
    assert test(0, 2, [1]) == given.pvalue
    pc = import_module("causallearn.search.ConstraintBased.PC").pc
    graph = pc(data, 0.05, "pymc_kbr", show_progress=False).G.graph
    edges = {(i, j) for i in range(3) for j in range(i) if graph[i, j] != 0}
    assert edges == {(1, 0), (2, 1)}


GOOD = np.random.default_rng(0).normal(size=(30, 2))


@pytest.mark.parametrize(
    ("x", "options", "words"),
    [
        (GOOD[:1], {}, "there are 1 rows in x"),
        (np.where(GOOD > 1.5, np.nan, GOOD), {}, "of x hold NaN"),
        (GOOD, {"permutations": 0}, "permutations is 0; it must be at least 1"),
        (GOOD, {"bandwidth": -1.0}, "bandwidth is -1.0; it must be a finite number above zero"),
        (GOOD, {"bandwidth": "silverman"}, "may be 'median'"),
        (GOOD, {"bandwidth": [1.0, 2.0, 3.0]}, "there are 3 bandwidths; give one"),
        (GOOD, {"kernel": "linear"}, "kernel is 'linear'; the names are"),
        (GOOD, {"kernel": "laplace", "bandwidth": "bayesian"}, "which is for the Gaussian kernel"),
        (GOOD, {"kernel": Laplace(1.0), "bandwidth": 2.0}, "which has its own; give one"),
        (GOOD, {"null": "gamma"}, "take statistic='biased'"),
        (GOOD, {"null": "normal"}, "null is 'normal'; it may be 'permutation' or 'gamma'"),
        (GOOD, {"form": "block"}, "their mean is normal from about 20"),
        (GOOD, {"features": 1}, "features is 1"),
    ],
)
def test_refusals(x, options, words):
    for test in (mmd_test, hsic_test):
        with pytest.raises(ValueError, match=words):
            test(x, GOOD[::-1], **options)


def test_refusals_of_constant_and_unequal_samples():
    half = np.hstack([GOOD, np.ones((30, 1))])
    with pytest.raises(ValueError, match=r"columns \[2\] in x and y together are the same"):
        mmd_test(half, half[:10])
    with pytest.raises(ValueError, match="all 60 rows in x and y together are the same point"):
        mmd_test(np.ones((30, 2)), np.ones((30, 2)))
    with pytest.raises(ValueError, match=r"columns \[2\] in x are the same"):
        hsic_test(half, GOOD)
    with pytest.raises(ValueError, match="all 30 rows in y are the same point"):
        hsic_test(GOOD, np.ones(30))
    with pytest.raises(ValueError, match="2 columns in x and 1 in y"):
        mmd_test(GOOD, GOOD[:, :1])
    with pytest.raises(ValueError, match="30 rows in x and 29 in y"):
        hsic_test(GOOD, GOOD[:29])
    with pytest.raises(ValueError, match="30 rows in x and 29 in z"):
        conditional_hsic_test(GOOD, GOOD, GOOD[:29])
    with pytest.raises(ValueError, match="level is 5"):
        power_curve(mmd_test, lambda s, rng: (GOOD, GOOD), [0], level=5)


@pytest.mark.versions
def test_data_frames_are_matched_by_name():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(GOOD, columns=["a", "b"])
    y = pandas.DataFrame(GOOD[:20] * 1.3, columns=["a", "b"])
    wanted = mmd_test(x.to_numpy(), y.to_numpy(), random_seed=1)
    found = mmd_test(x, y[["b", "a"]], random_seed=1)
    assert (found.statistic, found.pvalue) == (wanted.statistic, wanted.pvalue)
    assert pk.hsic_test(x["a"], x["b"], random_seed=1).pvalue == hsic_test(*GOOD.T, random_seed=1).pvalue
    with pytest.raises(ValueError, match="same names"):
        mmd_test(x, y.rename(columns={"b": "c"}))
    with pytest.raises(ValueError, match="same names"):  # numbers are no texts
        mmd_test(x.set_axis([0, 1], axis=1), y.set_axis(["1", "0"], axis=1))
    three = pandas.DataFrame(np.hstack([GOOD, GOOD[:, :1]]), columns=["a", "a", "b"])
    with pytest.raises(ValueError, match="each once"):
        mmd_test(three, three[["b"]].join(three.iloc[:, :2]))


def by_cells(rng, ratio, spread=6.0):
    """Two samples with ten points of each in each of five cells; within these, points of other deviations."""
    cells = np.repeat(np.arange(5), 10)
    return spread * cells + rng.normal(size=50), spread * cells + ratio * rng.normal(size=50), cells


def test_strata_tell_what_permutations_of_all_rows_hide():
    x, y, cells = by_cells(np.random.default_rng(1), 0.3)
    options = {"bandwidth": 1.0, "random_seed": 1}
    assert mmd_test(x, y, **options).pvalue > 0.05
    assert mmd_test(x, y, strata=(cells, cells), **options).pvalue < 0.01


def test_permutations_stay_within_strata(rng):
    kernel, labels = Gaussian(1.0), np.array([0, 0, 1, 1, 0, 1, 1])
    points = rng.normal(size=(7, 1))
    found = Discrepancies(GramSums(kernel(points)), 3, True).permuted(500, np.random.default_rng(1), labels)
    # Two of the first sample are of label 0, one is of label 1: 3 * 4 ways to choose them.
    ways = [
        np.isin(np.arange(7), [*pair, one]) for pair in combinations([0, 1, 4], 2) for one in [2, 3, 5, 6]
    ]
    allowed = Discrepancies(GramSums(kernel(points)), 3, True)(np.array(ways).T)
    nearest = np.abs(found[:, None] - allowed[None]).argmin(axis=1)
    np.testing.assert_allclose(found, allowed[nearest])
    counts = np.bincount(nearest, minlength=12)
    assert np.all(np.abs(counts - 500 / 12) < 5 * np.sqrt(500 / 12))


@pytest.mark.parametrize(
    ("strata", "options", "words"),
    [
        (np.zeros(30), {}, "strata must be a pair"),
        ((np.zeros(30), np.zeros(29)), {}, r"strata of y have shape \(29,\); give one label"),
        ((np.zeros(30), np.ones(30)), {}, "no stratum has rows of both"),
        ((np.zeros(30), [None] * 30), {}, "some strata are missing"),
        ((np.zeros(30), np.zeros(30)), {"form": "block"}, "take null='permutation'"),
    ],
)
def test_refused_strata(strata, options, words):
    with pytest.raises(ValueError, match=words):
        mmd_test(GOOD, GOOD[::-1], strata=strata, **options)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"x": np.ones((30, 2))}, ValueError, "all 30 rows in x are the same point"),
        ({"lengthscale": [1.0, -2.0]}, ValueError, "lengthscale is -2.0; it must be a finite number"),
        ({"lengthscale": np.ones((0, 1))}, ValueError, "there are 0 rows in the draws of the lengthscale"),
        ({"lengthscale": 1e-300}, ValueError, "so that its square is a float"),
        ({"measure": "lebesgue"}, TypeError, "give a LebesgueMeasure"),
        ({"probability": "most"}, TypeError, "must be a number between 0 and 1"),
        ({"noise": -1.0}, ValueError, "noise is -1.0"),
        ({"y": GOOD[:, :1]}, ValueError, "2 columns in x and 1 in y"),
    ],
)
def test_refusals_of_witness(arguments, error, words):
    with pytest.raises(error, match=words):
        witness(**{"x": GOOD, "y": GOOD + 1.0, "lengthscale": 1.0, **arguments})


@pytest.mark.parametrize("lengthscale", ["median", "bayesian", np.array([0.5, 2.0])])
def test_witness_of_two_columns(lengthscale):
    found = witness(GOOD, GOOD + 1.0, lengthscale=lengthscale)
    pooled = np.vstack([GOOD, GOOD + 1.0])
    wanted = {"median": median_heuristic, "bayesian": lambda points: learn_lengthscale(points).lengthscale}
    expected = wanted[lengthscale](pooled) if isinstance(lengthscale, str) else lengthscale
    np.testing.assert_allclose(found.lengthscale, np.broadcast_to(expected, 2))


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"test": "mmd"}, TypeError, "test is 'mmd'; give a function"),
        ({"settings": []}, ValueError, "there is no setting"),
        ({"repeats": 0}, ValueError, "repeats is 0"),
    ],
)
def test_refusals_of_power_curves(arguments, error, words):
    with pytest.raises(error, match=words):
        power_curve(
            **{"test": mmd_test, "simulate": lambda s, rng: (GOOD, GOOD), "settings": [0], **arguments}
        )
