"""What `LearnedSimulator` refuses, and what it says."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from tests.models import AS_WRITTEN, LinearLikelihood, table, vector_model

pytestmark = pytest.mark.versions

X = np.zeros((4, 3))


def learned(*parameters, likelihood=None, observed=X, **kwargs):
    """In a model with the scalars a, b and the vector t of four groups."""
    with pm.Model(coords={"statistic": range(3), "day": range(5)}):
        named = {"a": pm.Normal("a"), "b": pm.Normal("b"), "t": pm.Normal("t", shape=4)}
        likelihood = LinearLikelihood() if likelihood is None else likelihood
        given = [named[p] if isinstance(p, str) else p for p in parameters]
        pk.LearnedSimulator("y", likelihood, *given, observed=observed, **kwargs)


@pytest.mark.parametrize(
    ("parameters", "kwargs", "words"),
    [
        ((), {}, "no parameters; pass the 2"),
        (("a",), {}, "are 1 columns; its likelihood was fitted to 2"),
        (("t", np.zeros(3)), {}, r"batches of \[3, 4\] groups"),
        ((np.zeros((2, 2, 2)),), {}, r"of shape \(g,\) or \(g, k\)"),
        (("a", "b"), {"observed": np.zeros((4, 2))}, r"shape \(4, 2\).*must be \(3,\).*or \(n, 3\)"),
        (("a", "b"), {"observed": np.zeros((0, 3))}, "no rows"),
        (("a", "b"), {"observed": np.where(np.arange(4)[:, None] == 2, np.nan, X)}, r"1 of 4 rows \(row 2\)"),
        (("a", "b"), {"observed": np.ma.masked_equal(X + np.eye(4, 3), 1)}, r"3 of 4 rows \(row 0, 1, 2\)"),
        (("a", "t"), {"observed": np.zeros((3, 3))}, "those of 4 groups, and there are 3 observations"),
        (("a", "b"), {"group": [0, 0, 0, 0]}, "one set of parameters"),
        (("a", "t"), {"group": [0, 1, 2]}, "has 3 entries, and `observed` is 4 observations"),
        (("a", "t"), {"group": [0, 1, 4, 2]}, "is 4 at observation 2; with 4 groups it may be 0 to 3"),
        (("a", "b"), {"outside": "clip"}, "'-inf' or 'extrapolate'"),
        (("a", "b"), {"dims": ("day",)}, "name each dimension"),
        (("a", "b"), {"dims": ("day", "statistic")}, "dimension 'day' the length 5"),
        (({"a": 1.0, "b": 2.0},), {}, "pass the table"),
        (("a", "b"), {"likelihood": pk.KernelLikelihood()}, "is not fitted"),
    ],
)
def test_what_does_not_fit(parameters, kwargs, words):
    with pytest.raises(ValueError, match=words):
        learned(*parameters, **kwargs)


@pytest.mark.parametrize("value", [None, {"a": 1}])
def test_a_parameter_that_is_no_number_is_named(value):
    with pytest.raises(
        TypeError, match=r"parameter 1 of 'y' is .*; it must be a random variable of the model"
    ):
        learned("a", value)


def test_a_group_that_there_is_not_is_refused_when_data_change():
    with pm.Model() as model:
        group = pm.Data("group", np.arange(4))
        t = pm.Normal("t", shape=(4, 2))
        pk.LearnedSimulator("y", LinearLikelihood(), t, observed=X, group=group)
    density = model.compile_logp(mode=AS_WRITTEN)
    assert np.isfinite(density(model.initial_point()))
    with model:
        pm.set_data({"group": [0, 1, -1, 3]})
    with pytest.raises(AssertionError, match="the `group` of 'y' names a group that there is not"):
        density(model.initial_point())


def test_without_a_model():
    with pytest.raises(TypeError, match=r"inside `with pm.Model\(\):`"):
        pk.LearnedSimulator("y", LinearLikelihood(), 0.0, 1.0, observed=X)


@pytest.fixture(scope="module")
def of_names():
    """A table of the parameters mean and scale."""
    return table(30, vector_model())


def named(likelihood_table, *order, **kwargs):
    with pm.Model() as model:
        variables = {name: pm.Normal(name) for name in ("mean", "scale", "other")}
        given = [variables[name] if isinstance(name, str) else name(variables) for name in order]
        pk.LearnedSimulator(
            "y", LinearLikelihood(2, 2), *given, observed=np.zeros((3, 2)), table=likelihood_table, **kwargs
        )
    return model


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (("scale", "mean"), r"\['scale', 'mean'\] in this order; those of the table are \['mean', 'scale'\]"),
        (("mean", "other"), r"\['mean', 'other'\]"),
        (("mean",), "given 1 parameters; the table .* has 2"),
        ((lambda v: {"mean": v["mean"]},), r"by the names \['mean'\]; the table has \['mean', 'scale'\]"),
        (
            (lambda v: {"mean": np.zeros((2, 2, 2)), "scale": 1.0},),
            r"'mean' of 'y' has the shape \(2, 2, 2\)",
        ),
    ],
)
def test_names_and_order_are_those_of_the_table(of_names, order, words):
    with pytest.raises(ValueError, match=words):
        named(of_names, *order)


def test_names_put_parameters_in_the_tables_order(of_names):
    point = {"mean": np.array(0.3), "scale": np.array(-0.7), "other": np.array(0.0)}
    given = [
        named(of_names, "mean", "scale"),
        named(of_names, lambda v: {"scale": v["scale"], "mean": v["mean"]}),
        named(of_names, "mean", lambda v: v["scale"] + 0),
    ]
    values = [model.compile_logp(mode=AS_WRITTEN)(point) for model in given]
    assert values[0] == pytest.approx(values[1])
    assert values[0] == pytest.approx(values[2])
    other = named(of_names, lambda v: {"scale": v["mean"], "mean": v["scale"]})
    assert other.compile_logp(mode=AS_WRITTEN)(point) != pytest.approx(values[0])


def never(rng, mean, size):
    raise AssertionError("simulated before the arguments were looked at")


@pytest.mark.parametrize(
    ("kwargs", "error", "words"),
    [
        (
            {"likelihood": "kernel_likelihood"},
            TypeError,
            "'kernel_likelihood'; it must be a KernelLikelihood",
        ),
        ({"likelihood": pk.Rejection()}, TypeError, r"Rejection\(\); it must be a KernelLikelihood"),
        ({"likelihood": pk.KernelLikelihood}, TypeError, "or be left out"),
        ({"outside": "clip"}, ValueError, "'-inf' or 'extrapolate'"),
        ({"trials": "counts"}, ValueError, r"trials names \['counts'\]; the model's simulators are \['y'\]"),
    ],
)
def test_what_is_learned_is_refused_before_anything_is_simulated(kwargs, error, words):
    with pm.Model() as model:
        pm.Simulator("y", never, pm.Normal("mean"), observed=np.zeros(3))
    with pytest.raises(error, match=words):
        pk.learn_simulators(model, 60, random_seed=1, progressbar=False, **kwargs)


def test_the_folder_of_the_tables_is_made_and_one_name_is_a_name(tmp_path):
    with pm.Model() as model:
        pm.Simulator(
            "sums", lambda rng, m, size: rng.normal(m, 1, size), pm.Normal("m"), observed=np.zeros(3)
        )
    likelihood = pk.KernelLikelihood("location_scale")
    given = {"likelihood": likelihood, "random_seed": 1, "progressbar": False}
    made = pk.learn_simulators(model, 60, trials="sums", store=tmp_path / "tables", **given)
    assert (tmp_path / "tables" / "sums.zarr").exists()
    assert made["sums"].owner.op.likelihood.statistics_size == 1


@pytest.mark.parametrize(("changeable", "whole"), [(False, True), (True, False)])
@pytest.mark.filterwarnings("ignore:the statistics in columns:UserWarning")
@pytest.mark.filterwarnings("ignore:the statistic in column 1 is 2 in every:pymc_kbr.PosteriorWarning")
def test_data_that_the_model_cannot_make_have_no_density(changeable, whole):
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(100, 1))
    x = theta + rng.normal(size=(100, 1))
    statistics = np.column_stack([np.round(x) if whole else x, np.full(100, 2.0)])
    likelihood = pk.KernelLikelihood("location_scale", 50).fit(theta, statistics, random_seed=1)
    data = np.array([[1.0, 2.0], [1.0, 3.0]])
    with pm.Model() as model:
        a = pm.Normal("a")
        with pytest.warns(pk.PosteriorWarning, match="is 2 in every simulation and 3 in the data"):
            pk.LearnedSimulator("y", likelihood, a, observed=pm.Data("data", data) if changeable else data)
    logp = model.compile_logp([model["y"]], sum=False, mode=AS_WRITTEN)({"a": np.array(0.3)})[0]
    assert logp[0] == pytest.approx(likelihood.log_likelihood([[0.3]], data[0])[0])
    assert logp[1] == -np.inf
