"""The forty models: they build, their references hold, their table is whole, and the quickest are solved."""

import csv

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from case_studies.walkers import walk
from tests.statistical import gridded
from tests.statistical.model_grids import GRIDS
from tests.statistical.models import (
    PROBLEMS,
    __main__,
    discrete,
    heavy_tails,
    mixed,
    references,
    running,
    scores,
    series,
)
from tests.statistical.models.problem import scalars

REFERENCES = references.read()
RECORDED = running.read(__main__.HERE / "results.csv")


def test_there_are_forty_models_of_many_kinds():
    assert len(PROBLEMS) == 40
    wanted = {"hierarchical", "discrete", "simplex", "ordered", "truncated", "heavy tails", "raw data"}
    wanted |= {"mixed likelihood", "several simulators", "time series", "counts", "mixtures"}
    assert {one.kind for one in PROBLEMS.values()} == wanted
    assert all(one.about and one.how for one in PROBLEMS.values())


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_model_simulates_what_was_observed_and_has_references(name):
    model = PROBLEMS[name].model()
    drawn = pm.draw([*model.free_RVs, *model.observed_RVs], random_seed=1, mode="FAST_COMPILE")
    free, simulated = drawn[: len(model.free_RVs)], drawn[len(model.free_RVs) :]
    for variable, values in zip(model.observed_RVs, simulated, strict=True):
        assert np.shape(values) == model.rvs_to_values[variable].type.shape
        assert np.isfinite(values).all()
    shapes = {one.name: np.shape(values) for one, values in zip(model.free_RVs, free, strict=True)}
    assert set(REFERENCES[name]) == {entry for one, shape in shapes.items() for entry in scalars(one, shape)}
    # A Monte Carlo error of a twentieth of a deviation is a tenth of what a right line may be off.
    assert max(float(line["error"]) for line in REFERENCES[name].values()) < 0.05


@pytest.mark.parametrize("name", [name for name, one in PROBLEMS.items() if one.how == "NUTS"])
def test_a_twin_has_the_same_parameters_and_densities_in_the_simulator_s_place(name):
    model, twin = PROBLEMS[name].model(), PROBLEMS[name].model(simulated=False)
    assert [one.name for one in twin.free_RVs] == [one.name for one in model.free_RVs]
    assert not any("Simulator" in type(one.owner.op).__name__ for one in twin.observed_RVs)


@pytest.mark.parametrize("name", GRIDS)
def test_references_agree_with_grids(name):
    for parameter, (mean, deviation) in GRIDS[name]().items():
        known = REFERENCES[name][parameter]
        # Four Monte Carlo errors, and what the grid's step and five digits leave; twice that for deviations,
        # whose error is larger where tails are heavy.
        allowed = 4 * float(known["error"]) + 0.01
        assert abs(float(known["mean"]) - mean) < allowed * deviation
        assert abs(float(known["deviation"]) / deviation - 1) < 2 * allowed


def test_whether_a_sample_is_shifted_by_weighted_draws():
    rng = np.random.default_rng(1)
    shifted, base, shift = rng.random(400_000) < 0.5, *rng.standard_normal((2, 400_000))
    centres = np.stack([base, base + shifted * shift], axis=1)
    weights = stats.norm.pdf(discrete.SAMPLE_MEANS, centres, 1 / np.sqrt(30)).prod(axis=1)
    size = weights.sum() ** 2 / (weights**2).sum()
    for values, (mean, deviation) in zip(
        (shifted, base, shift), discrete.is_shifted_exact().values(), strict=True
    ):
        assert abs(np.average(values, weights=weights) - mean) < 4 * deviation / np.sqrt(size)


def test_ordered_heights_by_draws_of_the_unordered_ones():
    precision = 1 / 400 + 6 / 144
    means = (90 / 400 + np.array(mixed.HEIGHTS) * 6 / 144) / precision
    draws = np.random.default_rng(4).normal(means, 1 / np.sqrt(precision), (400_000, 3))
    draws = draws[(np.diff(draws, axis=1) > 0).all(axis=1)]
    for values, (mean, deviation) in zip(draws.T, mixed.growth_exact().values(), strict=True):
        # The grid has steps of 0.4, a tenth of a deviation, on whose diagonals the order is strict.
        assert abs(values.mean() - mean) < (4 / np.sqrt(len(draws)) + 0.05) * deviation
        assert abs(values.std() / deviation - 1) < 0.05


def test_order_statistics_of_a_normal_distribution():
    """Of g = k = 0, nearly: the shape is then a normal distribution's."""
    theta = np.array([[3.0, 1.5, 1e-9, 1e-9], [2.5, 1.0, 1e-9, 1e-9]])
    x, ranks = heavy_tails.OCTILES_OBSERVED, heavy_tails.OCTILES
    expected = []
    for a, b, *_ in theta:
        law = stats.norm(a, b)
        shares = np.diff(law.cdf(x), prepend=0, append=1)
        expected.append(np.log(shares) @ (np.diff(ranks, prepend=0, append=1001) - 1) + law.logpdf(x).sum())
    np.testing.assert_allclose(heavy_tails.log_octiles(theta), expected, rtol=1e-7)


def test_only_the_variance_of_a_series_knows_its_scale():
    one, three = (series.summaries(np.random.default_rng(2), 0.4, s) for s in (1.0, 3.0))
    np.testing.assert_allclose(three, one * [9, 1, 1], rtol=1e-12)


def test_walkers_find_a_normal_distribution():
    rng = np.random.default_rng(3)
    covariance = np.array([[1.0, 0.8], [0.8, 2.0]])
    log_density = stats.multivariate_normal([1, -1], covariance).logpdf
    draws = walk(log_density, rng.standard_normal((40, 2)), rng, 1500, first=375, every=1)
    # Some 1,500 independent draws of 45,000: moves are correlated over about thirty steps.
    np.testing.assert_allclose(draws.mean(axis=0), [1, -1], atol=4 * np.sqrt(2 / 1500))
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=4 * 2 * np.sqrt(2 / 1500))


def test_the_readme_has_the_recorded_table_of_all_models_and_what_it_says_of_them_holds():
    lines = scores.lines_of(RECORDED, REFERENCES)
    assert {line["model"] for line in RECORDED} == {line.model for line in lines}
    assert {line.model for line in lines} == set(PROBLEMS)
    verdicts = {line.model: line.verdict for line in lines}
    once_wrong = ("eight_groups", "summarised_series", "beside_normal", "raw_series", "g_and_k")
    assert {verdicts[name] for name in once_wrong} == {"right"}
    assert "silent" not in verdicts.values()
    assert {name for name, verdict in verdicts.items() if verdict == "warned"} == {"sinusoid"}
    warned = {line.model for line in lines if line.warnings}
    assert not warned & set(once_wrong)
    assert scores.summary(lines).endswith("one core.")
    text = __main__.README.read_text()
    assert scores.summary(lines) in text
    assert scores.markdown(lines) in text


def test_scores_by_hand():
    def result(parameter, mean, deviation, named=""):
        values = {"mean": mean, "deviation": deviation, "seconds": "1"}
        return {"model": "wet_days", "parameter": parameter, "estimator": "", "warnings": named} | values

    exact = {"rains": {"mean": "1", "deviation": "2"}, "stays": {"mean": "0", "deviation": "1"}}
    (right,) = scores.lines_of([result("rains", 1.9375, 2), result("stays", 0, 1.5)], {"wet_days": exact})
    assert right.verdict == "right"
    assert (right.parameter, right.error, right.ratio) == ("rains", 0.46875, 1.0)
    off = [result("rains", 1, 2, "edge"), result("stays", -0.4, 1.7, "edge")]
    (warned,) = scores.lines_of(off, {"wet_days": exact})
    assert (warned.verdict, warned.parameter, warned.error, warned.ratio) == ("warned", "stays", -0.4, 1.7)
    (silent,) = scores.lines_of([result("rains", 2.1, 2), result("stays", 0, 1)], {"wet_days": exact})
    assert (silent.verdict, silent.parameter) == ("silent", "rains")


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["wet_days", "zero_inflated"])
def test_a_regression_of_few_simulations_is_near(name):
    lines = running.run(PROBLEMS[name], estimator="adjusted", simulations=3000)
    for _, parameter, mean, deviation, *_ in lines:
        known = REFERENCES[name][parameter]
        # 1,000 draws of some 300 rows moved to the observation: one Monte Carlo error is 0.06, and 0.04 of
        # the width. A line that is right may be 0.5 and 1.6 off; these are nearly normal posteriors.
        assert abs(float(mean) - float(known["mean"])) < (3 * 0.06 + 0.1) * float(known["deviation"])
        assert 1 / 1.25 < float(deviation) / float(known["deviation"]) < 1.25


def test_the_small_models_have_lines_and_none_is_wrong_in_silence():
    with gridded.RECORDED.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["model"] for line in lines] == list(gridded.MODELS)
    assert not [line["model"] for line in lines if line["verdict"] == "silent"]


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["how_many"])
def test_the_quickest_small_models_are_right(name):
    assert gridded.line(name)[4] == "right"
