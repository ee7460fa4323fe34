"""A learned likelihood as a variable of a PyMC model, with one whose density is known in its place."""

import numpy as np
import pymc as pm
import pytensor
import pytest
from pytensor import tensor as pt
from pytensor.compile.mode import Mode

import pymc_kbr as pk
from pymc_kbr.estimators.kernel_likelihood import SimulatedRegion
from pymc_kbr.estimators.likelihood.choice import FORMS
from tests.models import AS_WRITTEN, LinearLikelihood, densities_and_gradient, relative_errors

QUICK = {"mode": AS_WRITTEN}
IN_PLACE = Mode(linker="py", optimizer="fast_run")
GROUPS = np.array([0, 0, 2, 1, 2, 2, 0])


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def trial_densities(model, name="y", **values):
    """One value an observation, at given values of the free variables."""
    point = {**model.initial_point(), **{k: np.asarray(v, dtype=float) for k, v in values.items()}}
    return model.compile_logp([model[name]], sum=False, **QUICK)(point)[0]


@pytest.mark.versions
@pytest.mark.parametrize("given", ["vector", "a row", "scalar and vector"])
def test_trials_of_one_set_of_parameters(rng, given):
    likelihood, x = LinearLikelihood(3), rng.normal(size=(5, 3))
    theta = np.array([0.4, -1.0, 0.2])
    with pm.Model() as model:
        t = pm.Normal("t", shape=3)
        parameters = {"vector": (t,), "a row": (t[None],), "scalar and vector": (t[0], t[1:])}[given]
        pk.LearnedSimulator("y", likelihood, *parameters, observed=x)
    assert trial_densities(model, t=theta) == pytest.approx(likelihood.exact(theta, x))


@pytest.mark.versions
@pytest.mark.parametrize("given", ["matrix", "column and matrix"])
def test_one_observation_a_group(rng, given):
    likelihood, x, theta = LinearLikelihood(3), rng.normal(size=(4, 3)), rng.normal(size=(4, 3))
    with pm.Model() as model:
        t = pm.Normal("t", shape=(4, 3))
        parameters = {"matrix": (t,), "column and matrix": (t[:, 0], t[:, 1:])}[given]
        pk.LearnedSimulator("y", likelihood, *parameters, observed=x)
    assert trial_densities(model, t=theta) == pytest.approx(likelihood.exact(theta, x))


@pytest.mark.versions
def test_groups_of_different_numbers_of_trials_are_described_once_each(rng):
    likelihood, x, theta = LinearLikelihood(), rng.normal(size=(7, 3)), rng.normal(size=(3, 2))
    with pm.Model() as model:
        t = pm.Normal("t", shape=(3, 2))
        pk.LearnedSimulator("y", likelihood, t, observed=x, group=GROUPS)
    assert trial_densities(model, t=theta) == pytest.approx(likelihood.exact(theta[GROUPS], x))
    assert {each.type.shape for each in likelihood.described} == {(3, 2)}


@pytest.mark.versions
@pytest.mark.parametrize("shape", [(6,), (6, 1)])
def test_a_single_statistic_may_be_a_number_a_row(rng, shape):
    likelihood, x = LinearLikelihood(1, 1), rng.normal(size=shape)
    with pm.Model() as model:
        a = pm.Normal("a")
        pk.LearnedSimulator("y", likelihood, a, observed=x)
    assert trial_densities(model, a=0.3) == pytest.approx(likelihood.exact([[0.3]], x.reshape(-1, 1)))


@pytest.mark.versions
def test_parameters_that_depend_on_covariates_beside_other_terms(rng):
    likelihood, x, covariate = LinearLikelihood(), rng.normal(size=(6, 3)), np.linspace(-1, 1, 6)
    with pm.Model() as model:
        slope, scale = pm.Normal("slope"), pm.HalfNormal("scale")
        pk.LearnedSimulator("y", likelihood, slope * covariate, pt.log(scale), observed=x)
        pm.Normal("z", slope, 1, observed=[0.1, 0.2])
    theta = np.column_stack([0.8 * covariate, np.full(6, -0.5)])
    at, point = densities_and_gradient(model), {"slope": 0.8, "scale_log__": -0.5}
    assert at(point)[0] == pytest.approx(likelihood.exact(theta, x))
    assert relative_errors(at, point).max() < 1e-6


def fitted(form, rows=150, seed=2):
    """A learned likelihood of three statistics, one of them a count, of two parameters."""
    rng = np.random.default_rng(seed)
    theta = np.column_stack([rng.normal(size=rows), rng.uniform(0.2, 3, rows)])
    x = np.column_stack(
        [
            theta[:, 0] + theta[:, 1] * rng.normal(size=rows),
            np.sin(theta[:, 0]) + 0.3 * rng.standard_t(4, rows),
            rng.poisson(2 * theta[:, 1]),
        ]
    )
    if form == "exchangeable":
        x = theta[:, :1] + theta[:, 1:] * rng.normal(size=(len(theta), 9))
    if form == "series":
        x = theta[:, :1] + np.cumsum(0.3 * theta[:, 1:] * rng.normal(size=(len(theta), 9)), axis=1)
    support = pk.Support.from_bounds({"b": (0.2, 3)}, ["a", "b"])
    return pk.KernelLikelihood(form).fit(theta, x, support, random_seed=1), x


@pytest.mark.parametrize(
    "form", [pytest.param(f, marks=[pytest.mark.versions] * (f == "location_scale")) for f in sorted(FORMS)]
)
def test_gradient_of_a_fitted_likelihood(form):
    likelihood, x = fitted(form)
    with pm.Model() as model:
        a, b = pm.Normal("a", shape=3), pm.Uniform("b", 0.3, 2.9)
        pk.LearnedSimulator("y", likelihood, a, b, observed=x[:7], group=GROUPS)
    theta = np.array([[0.2, 1.3], [-0.4, 1.3], [1.1, 1.3]])
    exact = [likelihood.log_likelihood(theta[[g]], row)[0] for g, row in zip(GROUPS, x[:7], strict=True)]
    at, point = densities_and_gradient(model), {"a": theta[:, 0], "b_interval__": np.log(1.0 / 1.6)}
    assert at(point)[0] == pytest.approx(exact)
    assert relative_errors(at, point).max() < 1e-6


@pytest.mark.versions
def test_outside_of_what_was_simulated(rng):
    x = rng.normal(size=(3, 3))
    likelihood = LinearLikelihood(lowest=-1.0, highest=1.0)
    models = {}
    for outside in ("-inf", "extrapolate"):
        with pm.Model() as models[outside]:
            t = pm.Normal("t", shape=(3, 2))
            pk.LearnedSimulator("y", likelihood, t, observed=x, outside=outside)
    theta = np.array([[0.5, 0.5], [1.5, 0.0], [1.0, -1.0]])
    exact = likelihood.exact(theta, x)
    assert trial_densities(models["extrapolate"], t=theta) == pytest.approx(exact)
    cut = trial_densities(models["-inf"], t=theta)
    assert cut[1] == -np.inf
    assert cut[[0, 2]] == pytest.approx(exact[[0, 2]])
    gradient = models["-inf"].compile_dlogp(**QUICK)({"t": theta})
    assert np.all(np.isfinite(gradient))


def test_between_the_ends_of_the_range_and_far_from_all_rows(rng):
    shared = rng.normal(size=(200, 1))
    theta = shared + 0.05 * rng.normal(size=(200, 2))
    x = theta + rng.normal(size=theta.shape)
    likelihood = pk.KernelLikelihood("location_scale").fit(theta, x)
    at = np.array([[0.5, 0.5], [1.0, -1.0]])
    lowest, highest = likelihood.simulated_range_
    assert np.all((at > lowest) & (at < highest))
    models = {}
    for outside in ("-inf", "extrapolate"):
        with pm.Model() as models[outside]:
            t = pm.Normal("t", shape=(2, 2))
            pk.LearnedSimulator("y", likelihood, t, observed=x[:2], outside=outside)
    cut, free = (trial_densities(model, t=at) for model in models.values())
    assert np.all(np.isfinite(free))
    assert cut.tolist() == [free[0], -np.inf]
    assert np.all(np.isfinite(models["-inf"].compile_dlogp(**QUICK)({"t": at})))
    op = models["-inf"]["y"].owner.op
    drawn = op.rng_fn(rng, at, np.arange(2), None)
    assert np.isnan(drawn).all(axis=1).tolist() == [False, True]


@pytest.mark.versions
def test_the_simulated_region_as_a_graph(rng):
    x = rng.normal(size=500)
    region = SimulatedRegion.of(
        np.column_stack([x, x**2 + 0.1 * rng.normal(size=500), x + rng.normal(size=500)])
    )
    new = np.vstack([rng.uniform(-3, 3, size=(300, 3)), [[np.nan, 0.0, 0.0]]])
    theta = pt.dmatrix("theta")
    found = pytensor.function([theta], region.holds(theta, pt), **QUICK)(new)
    np.testing.assert_array_equal(found, region.holds(new))
    assert 0.02 < found.mean() < 0.95


@pytest.mark.versions
def test_data_may_be_changed_in_number_too(rng):
    likelihood, x = LinearLikelihood(), rng.normal(size=(7, 3))
    with pm.Model() as model:
        t = pm.Normal("t", shape=(3, 2))
        data, group = pm.Data("data", x[:4]), pm.Data("group", GROUPS[:4])
        pk.LearnedSimulator("y", likelihood, t, observed=data, group=group)
    theta = rng.normal(size=(3, 2))
    assert trial_densities(model, t=theta) == pytest.approx(likelihood.exact(theta[GROUPS[:4]], x[:4]))
    with model:
        pm.set_data({"data": x, "group": GROUPS})
    assert trial_densities(model, t=theta) == pytest.approx(likelihood.exact(theta[GROUPS], x))
    with model:
        pm.set_data({"data": np.where(np.arange(7)[:, None] == 4, np.nan, x)})
    with pytest.raises(ValueError, match="row 4"):
        trial_densities(model, t=theta)


@pytest.mark.versions
def test_data_are_prepared_again_where_they_have_changed_alone(rng, monkeypatch):
    """A sampler asks for the density of the same data at every step; each time there may be a warning."""
    likelihood, x, asked = LinearLikelihood(), rng.normal(size=(4, 3)), []
    with pm.Model() as model:
        t = pm.Normal("t", shape=(3, 2))
        data = pm.Data("data", x)
        pk.LearnedSimulator("y", likelihood, t, observed=data, group=GROUPS[:4])
    prepare = likelihood.prepare
    monkeypatch.setattr(likelihood, "prepare", lambda observed: asked.append(1) or prepare(observed))
    density, theta = model.compile_logp(sum=False, **QUICK), rng.normal(size=(3, 2))
    for rows, times in ((x, 1), (x + 1, 2)):
        with model:
            pm.set_data({"data": rows})
        for _ in range(3):
            found = density({"t": theta})[-1]
        assert found.sum() == pytest.approx(likelihood.exact(theta[GROUPS[:4]], rows).sum())
        assert len(asked) == times


@pytest.mark.parametrize(
    "form", [pytest.param("location_scale", marks=pytest.mark.versions), "autoregressive"]
)
def test_densities_of_changing_data_stay_what_they_are(rng, form):
    """A graph may write over what an operation hands out."""
    theta = rng.normal(size=(150, 1))
    x = np.column_stack([theta + rng.normal(size=(150, 1)), rng.random((150, 1)) < 0.5])
    likelihood = pk.KernelLikelihood(form).fit(theta, x[:, : 1 + (form == "autoregressive")], random_seed=1)
    with pm.Model() as model:
        t = pm.Normal("t", shape=1)
        data = pm.Data("data", x[:4, : likelihood.statistics_size])
        pk.LearnedSimulator("y", likelihood, t, observed=data)
    for inline in (True, False):
        density = model.compile_logp(sum=inline, mode=IN_PLACE)
        found = [density({"t": [0.3]}) for _ in range(4)]
        each = [np.array(one if inline else one[-1]) for one in found]
        np.testing.assert_array_equal(each[1:], np.broadcast_to(each[0], (3, *each[0].shape)))


def test_draws_have_the_likelihoods_mean_and_covariance():
    likelihood = LinearLikelihood()
    theta = np.array([[1.0, -1.0], [0.0, 2.0]])
    with pm.Model() as model:
        t = pm.Normal("t", theta, 1e-9, shape=(2, 2))
        y = pk.LearnedSimulator("y", likelihood, t, observed=np.zeros((3, 3)), group=[1, 0, 1])
    draws = pm.draw(y, 4000, random_seed=1)
    assert draws.shape == (4000, 3, 3)
    cov = likelihood.factor @ likelihood.factor.T
    errors = (draws.mean(axis=0) - theta[[1, 0, 1]] @ likelihood.slopes.T) / np.sqrt(np.diag(cov) / 4000)
    assert np.abs(errors).max() < 4  # nine standard normal errors
    assert np.cov(draws[:, 1].T) == pytest.approx(cov, abs=6 * np.abs(cov).max() / np.sqrt(4000))
    with model:
        again = pm.draw(y, 2, random_seed=1)
    np.testing.assert_array_equal(again, pm.draw(y, 2, random_seed=1))


def test_draws_outside_of_what_was_simulated_are_nan():
    with pm.Model():
        t = pm.Normal("t", [[0.0, 0.0], [5.0, 0.0]], 1e-9, shape=(2, 2))
        inside = LinearLikelihood(lowest=-1, highest=1)
        y = pk.LearnedSimulator("y", inside, t, observed=np.zeros((2, 3)))
        z = pk.LearnedSimulator("z", inside, t, observed=np.zeros((2, 3)), outside="extrapolate")
    drawn = pm.draw(y, random_seed=1)
    assert np.isnan(drawn).all(axis=1).tolist() == [False, True]
    assert np.all(np.isfinite(pm.draw(z, random_seed=1)))
