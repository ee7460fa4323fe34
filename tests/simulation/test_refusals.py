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
        ({"draws": -5}, ValueError, "draws is -5"),
        ({"draws": 10.0}, TypeError, "draws is 10.0"),
        ({"draws": True}, TypeError, "draws is True"),
        ({"cores": 0}, ValueError, "cores is 0"),
        ({"cores": 1.5}, TypeError, "cores is 1.5"),
        ({"on_failure": "ignore"}, ValueError, "'raise', 'drop', 'condition'"),
        ({"random_seed": -1}, ValueError, "must not be negative"),
        ({"random_seed": 1.5}, TypeError, "several of them or a numpy.random.Generator"),
        ({"random_seed": "one"}, TypeError, "several of them or a numpy.random.Generator"),
        ({"store": 3}, TypeError, "store is 3; it must be the path"),
        ({"within": {"mean": (0, 1, 2), "scale": (0, 1)}}, ValueError, "pair of lower and upper"),
        ({"within": {"mean": (0,), "scale": (0, 1)}}, ValueError, "pair of lower and upper"),
        ({"within": {"mean": (0, 1j), "scale": (0, 1)}}, TypeError, "imaginary part"),
        ({"within": {"mean": (0, np.ma.masked), "scale": (0, 1)}}, ValueError, "masked"),
        (
            {"within": {"mean": (-1e300, 1e300), "scale": (0, 1)}},
            ValueError,
            r"beyond 1e\+100 in \['mean'\]",
        ),
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


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"draws": 0}, ValueError, "draws is 0"),
        ({"draws": 2.5}, TypeError, "draws is 2.5"),
        ({"estimator": "magic"}, ValueError, "rejection, nadaraya_watson, conditional_mean, localised"),
        ({"estimator": 3}, TypeError, "rejection, nadaraya_watson, conditional_mean, localised"),
        ({"estimator": pk.Localised(500), "simulations": 100}, ValueError, "neighbours is 500"),
        ({"estimator": pk.ConditionalMean(regularisation=-1.0)}, ValueError, "regularisation is -1"),
        ({"simulations": 1}, ValueError, "at least two"),
    ],
)
def test_bad_arguments_of_sample_abc_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        pk.sample_abc(
            **{"draws": 10, "simulations": 600, "model": model(), "progressbar": False, **arguments}
        )


def test_estimators_are_refused_before_the_first_simulation():
    def never(rng, mean, scale, size=None):
        raise AssertionError("simulated")

    for estimator in ("magic", pk.Localised(neighbours=101), pk.Rejection(accepted=1.5)):
        with pytest.raises(ValueError, match=r"magic|neighbours|accepted"):
            pk.sample_abc(10, simulations=100, estimator=estimator, model=model(never), progressbar=False)


def test_vector_simulator_refuses_what_is_no_vector():
    with pm.Model():
        mean = pm.Normal("mean")
        with pytest.raises(ValueError, match="has 2 dimensions"):
            pk.vector_simulator("y", models.two_statistics, mean, observed=np.zeros((2, 2)))
        with pytest.raises(ValueError, match="no parameters"):
            pk.vector_simulator("y", models.two_statistics, observed=np.zeros(2))
        with pytest.raises(TypeError, match="writes it itself"):
            pk.vector_simulator(
                "y", models.two_statistics, mean, observed=np.zeros(2), signature="(),(k)->(k)"
            )


def test_a_table_of_other_parameters_is_refused(small_table):
    with pytest.raises(ValueError, match=r"parameters \['a', 'b'\]; the model has \['mean', 'scale'\]"):
        pk.sample_abc(10, reference_table=small_table, model=model())


def test_a_table_without_an_observation_is_refused(small_table):
    import dataclasses

    table = dataclasses.replace(small_table, observed=None)
    with pytest.raises(ValueError, match="with_observed"):
        pk.sample_abc(10, reference_table=table)


@pytest.mark.filterwarnings("ignore:.*failed and were dropped")
@pytest.mark.parametrize("batched", [None, False])
def test_an_error_in_a_summary_names_its_row_and_parameters(batched):
    made = model(sum_stat=breaks_above_one, observed=DATA / 2)
    with pytest.raises(pk.SimulationError, match="no summary above one") as caught:
        table(200, made, batched=batched)
    assert f"simulation {caught.value.row} of 200 failed at mean = " in str(caught.value)
    assert "Apply node" not in str(caught.value)
    assert set(caught.value.parameters) == {"mean", "scale"}
    kept = table(200, made, batched=batched, on_failure="drop") if batched is False else None
    assert kept is None or kept.failures.rows[0] == caught.value.row


def test_an_error_in_the_summary_of_the_data_prints_nothing(capfd):
    with pytest.raises(ValueError, match="ArithmeticError: no summary of these"):
        table(20, model(sum_stat=breaks_on_data))
    assert capfd.readouterr().err == ""


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


def test_masked_rows_can_be_dropped_and_others_stay_as_they_are():
    dropped = pk.simulate(60, model=model(masked), random_seed=1, on_failure="drop", progressbar=False)
    whole = pk.simulate(60, model=model(), random_seed=1, progressbar=False)
    gone = dropped.failures.rows
    assert 0 < len(gone) < 60
    assert np.all(dropped.statistics <= 1.0)
    np.testing.assert_array_equal(dropped.parameters, np.delete(whole.parameters, gone, axis=0))


@pytest.mark.parametrize("simulator", [models.normal, models.normal_by_hand])
def test_masked_statistics_are_refused_with_their_row(simulator):
    def masked_if_large(x):
        return np.ma.array([np.mean(x), 1.0], mask=[np.mean(x) > np.mean(DATA) + 0.1, False])

    with pytest.raises(pk.SimulationError, match=r"simulation \d+ of 60 .*masked entries in what `sum_stat`"):
        pk.simulate(60, model=model(simulator, sum_stat=masked_if_large), random_seed=1, progressbar=False)


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


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"timeout": -5}, ValueError, "timeout is -5"),
        ({"cores": 0}, ValueError, "cores is 0"),
        ({"on_failure": "ignore"}, ValueError, "on_failure is 'ignore'"),
        ({"simulations": 0}, ValueError, "simulations is 0"),
        ({"executor": 3}, TypeError, "executor is 3"),
        ({"random_seed": -1}, ValueError, "random_seed is -1"),
        ({"progressbar": "no"}, TypeError, "progressbar is 'no'"),
    ],
)
def test_settings_of_simulations_are_checked_beside_a_table_too(settings, error, words, small_table):
    with pytest.raises(error, match=words):
        pk.sample_abc(10, reference_table=small_table, estimator="rejection", **settings)


def test_settings_that_have_no_effect_beside_a_table_are_named(small_table):
    given = {"reference_table": small_table, "estimator": pk.Rejection(3), "progressbar": False}
    with pytest.warns(
        UserWarning, match="simulations, cores, timeout have no effect beside a reference table"
    ):
        pk.sample_abc(10, cores=2, timeout=3.0, simulations=50, **given)


def test_a_vector_of_a_plain_simulator_is_refused_with_what_to_take():
    def two(rng, mean, size):
        return np.array([rng.normal(mean.item()), 1.0, 2.0])

    with pm.Model() as made:
        pm.Simulator("y", two, pm.Normal("mean"), observed=[0.1, 0.2])
    with pytest.raises(ValueError, match=r"shape \(3,\).*`pk.vector_simulator`"):
        pk.simulate(20, model=made, random_seed=1, progressbar=False, batched=False)
