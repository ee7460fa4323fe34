"""Simulators of a model that are replaced by what is learned of them."""

import numpy as np
import pymc as pm
import pytest
from pytensor import tensor as pt

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.rounds import learn_simulators as module
from tests.models import AS_WRITTEN, normal, two_statistics, vector_model


class Remembers:
    """What a likelihood is fitted to, in the place of a likelihood."""

    def fit(self, parameters, statistics, support=None, *, random_seed=None):
        self.parameters, self.statistics, self.support = parameters, statistics, support
        self.parameters_size, self.statistics_size = parameters.shape[1], statistics.shape[1]
        self.simulated_range_ = np.array([parameters.min(axis=0), parameters.max(axis=0)])
        return self

    def prepare(self, observed):
        return Prepared(observed[:, None, :], np.zeros((len(observed), 1)))

    def describe(self, parameters, xp=np):
        return parameters

    def log_density(self, described, prepared, xp=np):
        """Of no density, but of all parameters and statistics, each by itself."""
        places = 10.0 ** np.arange(self.parameters_size)
        return xp.dot(described, places) + 1000 * xp.sum(prepared.points, axis=(1, 2))

    def draw_statistics(self, parameters, rng):
        return rng.normal(size=(len(parameters), self.statistics_size))


def learned(model, simulations=200, **kwargs):
    made = pk.learn_simulators(
        model, simulations, likelihood=Remembers(), random_seed=1, progressbar=False, **kwargs
    )
    return made, {
        rv.name: rv.owner.op.likelihood for rv in made.observed_RVs if hasattr(rv.owner.op, "likelihood")
    }


def densities(model, name, **values):
    point = {**model.initial_point(), **{k: np.asarray(v, dtype=float) for k, v in values.items()}}
    return model.compile_logp([model[name]], sum=False, mode=AS_WRITTEN)(point)[0]


def test_one_simulator_is_learned_from_its_table_and_the_model_stays_as_it_is():
    model = vector_model(dims="statistic")
    with model:
        pm.Deterministic("double", 2 * model["mean"])
        pm.Potential("push", -(model["mean"] ** 2))
        pm.Normal("z", model["mean"], 1, observed=[0.5, 1.5])
    made, of = learned(model)
    likelihood = of["y"]
    assert likelihood.parameters.shape == (200, 2)
    assert likelihood.statistics.shape == (200, 2)
    # The statistics are the mean and the deviation of twenty values.
    errors = (likelihood.statistics[:, 0] - likelihood.parameters[:, 0]) / likelihood.parameters[:, 1]
    assert np.std(errors) == pytest.approx(20**-0.5, rel=0.25)
    assert likelihood.support.forward(np.array([[1.0, 1.0]])) == pytest.approx(np.array([[1.0, 0.0]]))
    assert densities(made, "y", mean=0.2, scale_log__=np.log(0.3)) == pytest.approx(0.2 + 3 + 1000 * 1.1)
    assert sorted(made.named_vars) == sorted(model.named_vars)
    assert made.named_vars_to_dims["y"] == model.named_vars_to_dims["y"]
    assert dict(made.coords) == dict(model.coords)
    assert [p.name for p in made.potentials] == ["push"]
    assert "LearnedSimulator" in str(made["y"].owner.op)
    assert "LearnedSimulator" not in str(model["y"].owner.op)


def regional(rng, mean, scale, zeros, size=None):
    return two_statistics(rng, mean, scale, np.broadcast_shapes(np.shape(mean), np.shape(scale)))


def hierarchical(**kwargs):
    observed = np.arange(10.0).reshape(5, 2)
    with pm.Model(coords={"region": list("abcde"), "statistic": ["mean", "spread"]}) as model:
        centre = pm.Normal("centre", 0, 3)
        mean = pm.Normal("mean", centre, 0.1, dims="region")
        log_scale = pm.Normal("log_scale")
        pm.Simulator(
            "y", regional, mean, pt.exp(log_scale), np.zeros(2),
            signature="(),(),(k)->(k)", observed=observed, dims=("region", "statistic"), **kwargs
        )  # fmt: skip
    return model


def test_groups_are_learned_one_row_at_a_time():
    made, of = learned(hierarchical())
    likelihood = of["y"]
    assert likelihood.parameters.shape == (200, 2)
    assert np.std(likelihood.parameters[:, 0]) == pytest.approx(3, rel=0.2)
    errors = (likelihood.statistics[:, 0] - likelihood.parameters[:, 0]) / likelihood.parameters[:, 1]
    assert np.std(errors) == pytest.approx(20**-0.5, rel=0.25)
    # The second input is an exponential: its lower bound is zero.
    assert likelihood.support.forward(np.array([[1.0, 1.0]])) == pytest.approx(np.array([[1.0, 0.0]]))
    assert made.named_vars_to_dims["y"] == ("region", "statistic")
    mean, scale = np.array([0.1, 0.2, -0.3, 0.4, 0.5]), 0.7
    found = densities(made, "y", mean=mean, log_scale=np.log(scale))
    assert found == pytest.approx(mean + 10 * scale + 1000 * np.arange(10.0).reshape(5, 2).sum(axis=1))


def test_simulators_of_one_function_share_what_is_learned():
    with pm.Model() as model:
        centre, effects = pm.Normal("centre"), pm.Normal("effects", shape=2)
        for i in range(2):
            pm.Simulator(f"y{i}", normal, centre + effects[i], 2.0, sum_stat="mean", observed=[i, 2.0 + i])
        pm.Simulator("other", normal, centre, 0.5, sum_stat="mean", observed=[0.0, 1.0])
    made, of = learned(model)
    assert of["y0"] is of["y1"]
    assert of["other"] is not of["y0"]  # another constant
    assert of["y0"].parameters.shape == (200, 1)
    assert np.var(of["y0"].parameters) == pytest.approx(2, rel=0.3)
    assert densities(made, "y1", centre=0.1, effects=[0.2, 0.3]) == pytest.approx(0.4 + 1000 * 2)


def test_a_constant_that_differs_between_rows_is_a_parameter():
    exposure = np.array([1.0, 2.0, 4.0])
    with pm.Model() as model:
        rate = pm.Normal("rate", shape=3)
        pm.Simulator("y", normal, rate, exposure, observed=[0.0, 1.0, 2.0])
    made, of = learned(model)
    assert set(of["y"].parameters[:, 1]) == {1.0, 2.0, 4.0}
    assert of["y"].statistics.shape == (200, 1)
    found = densities(made, "y", rate=[0.1, 0.2, 0.3])
    assert found == pytest.approx([0.1 + 10, 0.2 + 20 + 1000, 0.3 + 40 + 2000])


def test_entries_under_the_same_parameters_are_one_vector_or_trials():
    with pm.Model() as model:
        mean = pm.Normal("mean")
        data = pm.Data("data", np.arange(4.0))
        pm.Simulator("y", normal, mean, 1.0, observed=data)
    _, of = learned(model)
    assert of["y"].statistics.shape == (200, 4)
    made, of = learned(model, trials=["y"])
    assert of["y"].statistics.shape == (200, 1)
    assert densities(made, "y", mean=0.5) == pytest.approx(0.5 + 1000 * np.arange(4.0))
    with made:
        pm.set_data({"data": np.arange(6.0)})
    assert densities(made, "y", mean=0.5) == pytest.approx(0.5 + 1000 * np.arange(6.0))


def test_a_summary_follows_data_that_are_changed():
    with pm.Model() as model:
        mean = pm.Normal("mean")
        data = pm.Data("data", np.arange(4.0))
        pm.Simulator("y", normal, mean, 1.0, sum_stat="mean", observed=data)
    made, of = learned(model)
    assert of["y"].statistics.shape == (200, 1)
    with made:
        pm.set_data({"data": np.arange(4.0) + 7})
    assert densities(made, "y", mean=0.5) == pytest.approx(0.5 + 1000 * 8.5)


def fails_often(rng, mean, scale, size=None):
    return np.where(np.asarray(mean) > 0.5, np.nan, rng.normal(mean, scale, size))


def test_failures_and_stores_are_as_in_simulate(tmp_path):
    with pm.Model() as model:
        pm.Simulator("y", fails_often, pm.Normal("mean"), 1.0, sum_stat="mean", observed=[0.0, 1.0])
    with pytest.raises(pk.SimulationError):
        learned(model)
    _, of = learned(model, on_failure="drop", store=tmp_path)
    assert of["y"].parameters.max() <= 0.5
    assert 100 < len(of["y"].parameters) < 180
    _, again = learned(model, on_failure="drop", store=tmp_path)
    np.testing.assert_array_equal(again["y"].statistics, of["y"].statistics)
    assert (tmp_path / "y.zarr").exists()


def only_normal():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mean"), observed=1.0)
    return model


def dependent():
    with pm.Model() as model:
        y = pm.Simulator("y", normal, pm.Normal("mean"), 1.0, observed=[0.0, 1.0])
        pm.Normal("z", y.mean(), 1, observed=0.0)
    return model


def constant():
    with pm.Model() as model:
        pm.Normal("mean")
        pm.Simulator("y", normal, 0.0, 1.0, observed=[0.0, 1.0])
    return model


def of_another_observed():
    with pm.Model() as model:
        z = pm.Normal("z", pm.Normal("mean"), 1, observed=0.3)
        pm.Simulator("y", normal, z, 1.0, observed=[0.0, 1.0])
    return model


def with_initial_value():
    with pm.Model() as model:
        pm.Simulator("y", normal, pm.Normal("mean", initval=0.3), 1.0, observed=[0.0, 1.0])
    return model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (only_normal, r"no pm.Simulator; .* \['y'\]"),
        (dependent, "'z' depends on the values of the simulator 'y'"),
        (constant, "inputs of the simulator 'y' are all constant"),
        (of_another_observed, "depends on 'z', which is random"),
        (with_initial_value, r"pm.sample\(initvals=...\)"),
    ],
)
def test_models_that_cannot_be_learned(make, words):
    with pytest.raises(ValueError, match=words):
        learned(make())


def test_arguments_are_checked():
    model = vector_model()
    with pytest.raises(ValueError, match=r"trials names \['other'\]; the model's simulators are \['y'\]"):
        learned(model, trials=["other"])
    with pytest.raises(ValueError, match="'-inf' or 'extrapolate'"):
        learned(model, outside="nan")
    with pytest.raises(TypeError, match=r"simulations is 1\.5"):
        learned(model, 1.5)
    with pytest.raises(TypeError, match="none is on the context stack"):
        module.learn_simulators(None, 10)
    assert module.learn_simulators is pk.learn_simulators


def test_a_shift_that_simulations_show_is_found_and_said():
    def waits(rng, level, t0, size):
        return t0 + 0.3 * np.exp(level) * rng.weibull(1.2, size=size)

    with pm.Model() as model:
        level, t0 = pm.Normal("level", 0, 0.5), pm.Uniform("t0", 0, 2)
        observed = waits(np.random.default_rng(1), 0, 0.5, 5)
        pm.Simulator("y", waits, level, t0, observed=observed)
    learned = pk.learn_simulators(model, 400, trials="y", random_seed=1, progressbar=False)
    said = str(learned["y"].owner.op)
    assert said == "LearnedSimulator(KernelLikelihood() with shift={0: 1} found in the table)"
    at = {"level": 0.0, "t0_interval__": 0.0}  # t0 is 1, above the first of the times
    assert learned.compile_logp(mode=AS_WRITTEN)(at) == -np.inf
