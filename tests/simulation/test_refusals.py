"""Bad models and bad arguments: each with the words its error must contain."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from tests import models
from tests.models import DATA, model, table, vector_model

pytestmark = pytest.mark.versions


def no_free():
    with pm.Model() as made:
        pm.Simulator("y", models.normal, 0.0, 1.0, observed=DATA)
    return made


def no_observed():
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", models.normal, mean, 1.0, shape=3)
    return made


def too_few_arguments(rng, mean, size):
    return rng.normal(mean, 1.0, size=size)


def unnamed_parameter():
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", too_few_arguments, mean, 2 * mean, observed=DATA)
    return made


def flat_inside():
    """A prior that is made of an improper one."""
    with pm.Model() as made:
        a = pm.Normal("a", 0, 1)
        b = pm.Truncated("b", pm.Flat.dist(), lower=0)
        pm.Simulator("y", models.normal, a + b, 1.0, observed=DATA)
    return made


def keyword_size(rng, mean, scale, *, size=None):
    return rng.normal(mean, scale, size=size)


def wrong_shape(rng, mean, scale, size=None):
    return rng.normal(mean, scale, size=3)


def prior_of(prior):
    """A model of one parameter."""

    def made():
        with pm.Model() as model:
            pm.Simulator("y", models.normal, prior(), 1.0, observed=DATA)
        return model

    return made


def breaks_on_data(x):
    raise ArithmeticError("no summary of these")


def breaks_above_one(x):
    if np.max(x) > 1:
        raise ArithmeticError("no summary above one")
    return np.mean(x)


def number(rng, mean, scale, size=None):
    return 1.0


def changing_shape(rng, mean, scale, size=None):
    return rng.normal(0, 1, size=size if float(np.asarray(mean).item()) < 0 else 2)


def wrong_vector(rng, mean, scale, size=None):
    return np.zeros(3)


@pytest.mark.parametrize(
    ("made", "error", "words"),
    [
        (no_free, ValueError, "no free variables"),
        (no_observed, ValueError, "no observed variables"),
        (lambda: model(too_few_arguments), TypeError, r"called as fn\(rng, mean, scale, size\)"),
        (lambda: model(keyword_size), TypeError, r"its signature is keyword_size\(rng, mean, scale, \*"),
        (
            lambda: vector_model(too_few_arguments),
            TypeError,
            r"as fn\(rng, mean, scale, size\), but its signature is too_few_arguments\(rng, mean, size\)",
        ),
        (unnamed_parameter, TypeError, r"called as fn\(rng, mean, parameter_2, size\)"),
        (lambda: model(wrong_shape), ValueError, r"'y' returned an array of shape \(3,\) in row 0.*\(4,\)"),
        (lambda: model(number), ValueError, r"shape \(\) in row 0"),
        (lambda: model(changing_shape), ValueError, r"shape \(2,\) in row \d.*every call must return"),
        (prior_of(lambda: pm.Flat("m")), ValueError, r"prior of 'm' is pm.Flat, .*pm.Uniform between wide"),
        (prior_of(lambda: pm.HalfFlat("m")), ValueError, "prior of 'm' is pm.HalfFlat"),
        (flat_inside, ValueError, r"the prior of \['b'\] cannot be drawn .*flat.*must be proper"),
        (prior_of(lambda: pm.Normal("m", 2, 0)), ValueError, r"'m' is \[2.0\] in all rows.*deviation above"),
        (prior_of(lambda: pm.Uniform("m", -1e308, 1e308)), ValueError, r"prior of \['m'\] cannot be drawn"),
        (
            lambda: model(sum_stat=breaks_on_data),
            ValueError,
            r"sum_stat of 'y' failed on the observed data .*no",
        ),
        (lambda: vector_model(wrong_vector), ValueError, r"shape \(3,\) in row 0.*\(2,\)"),
    ],
)
def test_bad_models_are_refused(made, error, words):
    with pytest.raises(error, match=words):
        table(200, made())


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"draws": 0}, ValueError, "draws is 0"),
        ({"on_failure": "ignore"}, ValueError, "'raise', 'drop', 'condition'"),
        ({"within": {"mean": (0, 1, 2), "scale": (0, 1)}}, ValueError, "pair of lower and upper"),
        ({"within": {"mean": (0,), "scale": (0, 1)}}, ValueError, "pair of lower and upper"),
        ({"within": {"mean": (0, 1j), "scale": (0, 1)}}, TypeError, "imaginary part"),
        ({"within": {"mean": (0, np.ma.masked), "scale": (0, 1)}}, ValueError, "masked"),
        ({"within": {"mean": (-1e301, 1), "scale": (0, 1)}}, ValueError, r"beyond 1e\+100 in \['mean'\]"),
    ],
)
def test_bad_arguments_are_refused_before_any_simulation(arguments, error, words):
    def never(rng, mean, scale, size=None):
        raise AssertionError("simulated")

    with pytest.raises(error, match=words):
        pk.simulate(**{"draws": 10, "model": model(never), "progressbar": False, **arguments})


def test_no_model_on_the_stack():
    with pytest.raises(TypeError, match="no PyMC model was given and none is on the context stack"):
        pk.simulate(10)
    with pytest.raises(TypeError, match="no PyMC model was given"):
        pk.sample_abc(10)


def test_a_table_of_other_parameters_is_refused(small_table):
    with pytest.raises(ValueError, match=r"parameters \['a', 'b'\]; the model has \['mean', 'scale'\]"):
        pk.sample_abc(10, reference_table=small_table, model=model())


@pytest.mark.filterwarnings("ignore:.*failed and were dropped")
def test_an_error_in_a_summary_names_its_row_and_parameters():
    made = model(sum_stat=breaks_above_one, observed=DATA / 2)
    with pytest.raises(pk.SimulationError, match="no summary above one") as caught:
        table(200, made, batched=False)
    assert f"simulation {caught.value.row} of 200 failed at mean = " in str(caught.value)
    assert "Apply node" not in str(caught.value)
    assert set(caught.value.parameters) == {"mean", "scale"}
    kept = table(200, made, batched=False, on_failure="drop")
    assert kept.failures.rows[0] == caught.value.row


def complex_numbers(rng, mean, scale, size=None):
    return rng.normal(mean, scale, size=size) + 1j


def masked(rng, mean, scale, size=None):
    drawn = np.ma.array(rng.normal(mean, scale, size=size))
    drawn[drawn > 1.0] = np.ma.masked
    return drawn


@pytest.mark.parametrize(
    ("simulator", "words"),
    [(complex_numbers, r"simulation 0 of 60 .*imaginary part"), (masked, r"simulation \d+ of 60 .*masked")],
)
def test_what_is_no_array_of_real_numbers_is_refused_with_its_row(simulator, words):
    with pytest.raises(pk.SimulationError, match=words):
        pk.simulate(60, model=model(simulator), random_seed=1, progressbar=False)


@pytest.mark.parametrize(
    "call",
    [
        lambda made: pk.sample_abc(10, simulations=50, model=made, random_seed=1, progressbar=False),
        lambda made: pk.refine(1000, model=made, random_seed=1, progressbar=False),
        lambda made: pk.zoom(2000, model=made, random_seed=1, progressbar=False),
    ],
)
def test_a_model_whose_densities_are_known_is_left_to_pymc(call):
    with pm.Model() as made:
        pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=[0.3, 0.8])
    with pytest.raises(ValueError, match=r"no simulator: PyMC knows the densities of \['y'\].*`pm.sample`"):
        call(made)


def test_settings_that_have_no_effect_beside_a_table_are_named(small_table):
    given = {"reference_table": small_table, "estimator": pk.Rejection(3), "progressbar": False}
    with pytest.warns(
        UserWarning, match="simulations, cores, timeout have no effect beside a reference table"
    ):
        pk.sample_abc(10, cores=2, timeout=3.0, simulations=50, **given)
