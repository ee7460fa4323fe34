"""Another prior on a table that is simulated already."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from scipy.stats import norm, truncnorm

import pymc_kbr as pk
from pymc_kbr.estimators import ESTIMATORS
from pymc_kbr.simulation import model_prior
from pymc_kbr.simulation.prior.new_prior import NewPrior

FIXED = {
    "kbr": {"regularisation": 1e-6},
    "iw_kbr": {"regularisation": 1e-3},
    "rejection": {"accepted": 100},  # a deviation from the 12 effective rows of the default is 20% noise
}


def simulator(rng, mean, size):
    return rng.normal(mean, 1.0, size)


def make(prior):
    with pm.Model() as model:
        mean = prior()
        pm.Simulator("y", simulator, mean, sum_stat="mean", observed=np.full(4, 1.5))
    return model


@pytest.fixture(scope="module")
def old():
    return make(lambda: pm.Normal("mean", 0, 2))


@pytest.fixture(scope="module")
def new():
    return make(lambda: pm.Normal("mean", 1, 0.5))


@pytest.fixture(scope="module")
def table(old):
    return pk.simulate(1000, model=old, random_seed=1, progressbar=False)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "densities"),
    [("iw_kbr", True), ("kbr", False), ("adjusted", True), ("rejection", False), ("kernel_likelihood", True)],
)
def test_the_posterior_is_that_under_the_new_prior(name, densities, table, old, new):
    idata = pk.sample_abc(
        1000,
        reference_table=table,
        model=old if densities else None,
        prior=new,
        estimator=ESTIMATORS[name](**FIXED.get(name, {})),
        random_seed=2,
    )
    drawn = idata["posterior"]["mean"].values.ravel()
    precision = 4 + 4  # four data of variance one; a prior of deviation 1/2
    exact = (4 * 1.5 + 4 * 1.0) / precision
    # Without the new prior the mean would be 1.41. A third of the posterior's deviation, 0.35, stays far
    # from it; kernel density estimates smooth the likelihood, and an estimated ratio has an error of its own.
    assert drawn.mean() == pytest.approx(exact, abs=0.35 / 3)
    assert 0.8 < drawn.std() * np.sqrt(precision) < 1.35
    assert idata["posterior"].attrs["inference_library"] == "pymc_kbr"


@pytest.mark.parametrize("estimator", ["kernel_likelihood", "rejection"])
def test_draws_in_a_frame_are_put_in_the_order_of_the_table(estimator):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(300, 2))
    both = np.hstack([theta, theta + 0.5 * rng.normal(size=(300, 2))])
    frame = pd.DataFrame(both, columns=["a", "b", "s", "t"])
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], observed=[0.3, 0.3]
    )
    draws = pd.DataFrame({"a": rng.normal(1, 0.5, 400), "b": rng.normal(-1, 0.5, 400)})

    def drawn(prior):
        found = pk.sample_abc(50, reference_table=table, prior=prior, estimator=estimator, random_seed=1)
        return found["posterior"]["a"].values

    np.testing.assert_array_equal(drawn(draws[["b", "a"]]), drawn(draws.to_numpy()))
    with pytest.raises(ValueError, match="labelling of the prior's draws"):
        drawn(draws.rename(columns={"b": "c"}))


def test_the_same_seed_gives_the_same_draws(old, new):
    table = pk.simulate(200, model=old, random_seed=1, progressbar=False)
    estimator = ESTIMATORS["iw_kbr"](**FIXED["iw_kbr"])

    def run():
        result = pk.sample_abc(50, reference_table=table, prior=new, estimator=estimator, random_seed=5)
        return result["posterior"]["mean"].values

    np.testing.assert_array_equal(run(), run())


def test_a_prior_outside_the_support_is_refused_with_its_share():
    with pm.Model() as old:
        mean = pm.Uniform("mean", 0, 4)
        pm.Simulator("y", simulator, mean, sum_stat="mean", observed=np.full(4, 1.5))
    table = pk.simulate(300, model=old, random_seed=1, progressbar=False)
    with pm.Model() as new:
        pm.Uniform("mean", -1, 3)
    with pytest.raises(ValueError, match=r"2[345]\.\d% of the new prior's mass lies outside"):
        pk.sample_abc(10, reference_table=table, prior=new, random_seed=1)
    with pytest.raises(ValueError, match=r"50\.0% of the new prior's mass"):
        pk.sample_abc(10, reference_table=table, prior=np.array([[1.0], [5.0]]), random_seed=1)


def test_a_prior_far_in_the_tail_warns_with_the_effective_sample_size(table, old):
    with pm.Model() as far:
        pm.Normal("mean", 6, 0.1)
    with pytest.warns(UserWarning, match=r"effective sample size of \d+ among 1000 rows"):
        pk.sample_abc(10, reference_table=table, model=old, prior=far, estimator="rejection", random_seed=1)


def test_a_prior_of_deviation_zero_is_refused_by_name(table, old):
    point = make(lambda: pm.Normal("mean", 0.5, 0.0))
    with pytest.raises(ValueError, match=r"all its mass in one point of \{'mean': 0.5\}"):
        pk.sample_abc(10, reference_table=table, model=old, prior=point, random_seed=1)


@pytest.mark.parametrize(
    ("prior", "error", "words"),
    [
        ("flat", TypeError, "PyMC model, or draws"),
        (np.ones(3), ValueError, r"shape \(3,\)"),
        (np.ones((3, 2)), ValueError, "1 parameters"),
        (np.full((3, 1), np.nan), ValueError, "NaN"),
        (np.ones((100, 1)) * 1j, TypeError, r"^prior is .{,40}, which cannot be draws: .* imaginary part"),
        (np.ma.masked_all((100, 1)), ValueError, "100 masked entries in the prior's draws"),
    ],
)
def test_what_is_no_prior_is_refused(prior, error, words, table):
    with pytest.raises(error, match=words):
        pk.sample_abc(10, reference_table=table, prior=prior, random_seed=1)


def test_a_model_of_other_parameters_is_refused(table):
    with pm.Model() as other:
        pm.Normal("average", 0, 1)
    with pytest.raises(ValueError, match=r"\['average'\]; the reference table has the parameters \['mean'\]"):
        pk.sample_abc(10, reference_table=table, prior=other, random_seed=1)
    with pm.Model() as wide:
        pm.Normal("mean", 0, 1, shape=2)
    with pytest.raises(ValueError, match=r"shape \(2,\)"):
        pk.sample_abc(10, reference_table=table, prior=wide, random_seed=1)


def test_the_log_density_is_that_of_the_model_in_its_own_space(table):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 2.0)
        effect = pm.Normal("effect", 0.0, scale, shape=2)
        pm.Simulator("y", simulator, effect[0], sum_stat="mean", observed=np.zeros(3))
        pm.Truncated("mean", pm.Normal.dist(4, 0.5), lower=2, upper=10)
    made = pk.simulate(50, model=model, random_seed=1, progressbar=False)
    prior = model_prior(model, made.parameter_columns, 20, 1)
    scales, effects, means = (made.parameters[:, i] for i in ([0], [1, 2], [3]))
    expected = norm.logpdf(scales, 0, 2) + np.log(2) + norm.logpdf(effects, 0, scales).sum(1, keepdims=True)
    expected += truncnorm.logpdf(means, -4, 12, 4, 0.5)
    np.testing.assert_allclose(prior.log_density(made.parameters), expected[:, 0], rtol=1e-6)
    outside = made.parameters.copy()
    outside[:, 3] = 11.0
    assert np.all(prior.log_density(outside) == -np.inf)


def test_the_ratio_is_that_of_both_densities_with_the_largest_one(table, old, new):
    found = NewPrior.of(new, table, old, np.random.default_rng(1))
    theta = table.parameters[:, 0]
    expected = norm.pdf(theta, 1, 0.5) / norm.pdf(theta, 0, 2)
    np.testing.assert_allclose(found.ratio, expected / expected.max(), rtol=1e-6)
    assert found.draws.shape == (5000, 1)
    # Means and deviations of 5,000 draws.
    assert found.draws.mean() == pytest.approx(1, abs=4 * 0.5 / np.sqrt(5000))
    assert found.draws.std() == pytest.approx(0.5, rel=4 / np.sqrt(2 * 5000))
    for model in (None, new):  # densities of one model alone are no ratio
        assert NewPrior.of(new, table, model, np.random.default_rng(1)).ratio is None
    other = NewPrior.of(new, table, old, np.random.default_rng(2)).draws
    assert not np.array_equal(other, found.draws)
    again = NewPrior.of(new, table, old, np.random.default_rng(1)).draws
    np.testing.assert_array_equal(again, found.draws)


def test_rows_outside_the_new_models_support_have_no_density(table, old):
    narrow = make(lambda: pm.Uniform("mean", 0, 1))
    found = NewPrior.of(narrow, table, old, np.random.default_rng(1))
    theta = table.parameters[:, 0]
    outside = (theta < 0) | (theta > 1)
    assert np.all(found.ratio[outside] == 0)
    assert np.all(found.ratio[~outside] > 0)
    np.testing.assert_array_equal(found.support.contains(table.parameters), ~outside)
    far = make(lambda: pm.Uniform("mean", 90, 91))
    assert np.all(NewPrior.of(far, table, old, np.random.default_rng(1)).ratio == 0)


def test_draws_keep_the_tables_support_and_have_no_ratio(table, old):
    found = NewPrior.of([[1.0], [2.0]], table, old, np.random.default_rng(1))
    assert found.support is table.support
    assert found.ratio is None
    np.testing.assert_array_equal(found.draws, [[1.0], [2.0]])
    for one in ([[1.0]], np.ones((0, 1)), [[1.0], [np.inf]]):
        with pytest.raises(ValueError, match=r"at least two rows|NaN or infinity"):
            NewPrior.of(one, table, old, np.random.default_rng(1))
