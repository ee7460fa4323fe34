"""The probability of success, and estimators of tables whose simulations fail at some parameters."""

import dataclasses
import functools

import numpy as np
import pandas as pd
import pytest
from pytensor import function
from pytensor import tensor as pt
from pytensor.gradient import grad
from scipy.stats import beta, norm

import pymc_kbr as pk
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.likelihood.success import Success, weighting_of
from pymc_kbr.tables.origin import Failures
from tests.models import AS_WRITTEN

OBSERVED, NOISE, EDGE = 0.4, 0.3, 0.3
GRID = np.linspace(0, 1, 20_001)[1:-1]
NAMES = ["a", "b", "c"]


def square(theta):
    return theta[:, 0] ** 2


def edge(theta):
    return (theta[:, 0] > EDGE).astype(float)


def hole(theta):
    return (np.abs(theta[:, 0] - 0.5) > 0.15).astype(float)


def always(share):
    return lambda theta: np.full(len(theta), share)


def drawn(probability, rows=4000, parameters=1, seed=0):
    """A table of uniform parameters, with statistics about their product."""
    rng = np.random.default_rng(seed)
    theta = rng.random((rows, parameters))
    x = theta.prod(axis=1) + NOISE * rng.normal(size=rows)
    succeeds = rng.random(rows) < probability(theta)
    return of_rows(theta, x, succeeds, (0, 1))


def of_rows(theta, x, succeeds, bounds=None):
    """A table of the rows that succeed, with those that fail."""
    names = NAMES[: theta.shape[1]]
    frame = pd.DataFrame(theta, columns=names).assign(x=x)[succeeds]
    if bounds is None:
        frame[names] = frame[names].astype(int)
    known = None if bounds is None else dict.fromkeys(names, bounds)
    table = pk.ReferenceTable.from_dataframe(
        frame, parameters=names, statistics=["x"], observed=[OBSERVED], bounds=known
    )
    lost = np.flatnonzero(~succeeds)
    return dataclasses.replace(table, failures=Failures(lost, theta[lost], ("no",) * len(lost)))


def exact(probability, prior=None, trials=1):
    """Posterior mean of one parameter and log evidence, by quadrature."""
    weights = (norm.pdf(OBSERVED, GRID, NOISE) * probability(GRID[:, None])) ** trials
    density = np.ones_like(GRID) if prior is None else prior.pdf(GRID)
    return (GRID * weights * density).sum() / (weights * density).sum(), np.log((weights * density).mean())


def given(probability):
    """Where simulations succeed at all: what remains of failures that are a condition."""
    return lambda theta: (probability(theta) > 0).astype(float)


def shares(theta, draws=5_000, seed=9):
    """Points of the unit cube, and a share of a probability's mass at some of them."""
    return np.random.default_rng(seed).random((draws, theta))


@pytest.mark.parametrize(
    ("probability", "parameters", "error"),
    [
        (square, 1, 0.03),
        (edge, 1, 0.01),
        (hole, 1, 0.02),
        (lambda t: (4 * t[:, 0] * t[:, 1] > 1).astype(float), 2, 0.02),
        (lambda t: 0.2 * t[:, 0], 1, 0.02),
        (always(0.7), 1, 0.03),
    ],
    ids=["smooth", "edge", "hole", "edge of two", "mostly failures", "independent"],
)
def test_the_probability_is_learnt(probability, parameters, error):
    table = drawn(probability, parameters=parameters)
    found, at = weighting_of(table).success, shares(parameters)
    assert np.abs(found(at) - probability(at)).mean() < error
    never = probability(at) == 0
    assert found(at)[never].sum() < 0.02 * found(at).sum()
    assert found.share == pytest.approx(len(table) / 4000)


def test_pytensor_has_the_same_numbers_and_their_gradients():
    table = drawn(lambda t: t[:, 0] * t[:, 1], parameters=2, rows=1500)
    success, theta = weighting_of(table).success, pt.dmatrix("theta")
    logs = success.log_probability(theta, pt)
    at = 0.05 + 0.9 * shares(2, 30)
    compiled = function([theta], [logs, grad(logs.sum(), theta)], mode=AS_WRITTEN)
    values, gradients = compiled(at)
    np.testing.assert_allclose(values, success.log_probability(at), rtol=1e-10, atol=1e-10)
    for column, step in enumerate(1e-6 * np.eye(2)):
        difference = (success.log_probability(at + step) - success.log_probability(at - step)) / 2e-6
        np.testing.assert_allclose(gradients[:, column], difference, rtol=1e-5, atol=1e-5)


ESTIMATORS = {
    "kernel_likelihood": (lambda: pk.KernelLikelihood("location_scale"), 0.02),
    "rejection": (lambda: pk.Rejection(0.03), 0.05),
    "adjusted": (lambda: pk.Adjusted(pk.Rejection(0.2), "local_linear"), 0.03),
    "localised": (pk.Localised, 0.03),
    "kernel_bayes": (lambda: pk.KernelBayes(solver="nystroem"), 0.03),
    "kernel_density": (lambda: pk.KernelDensity(particles=4000), 0.05),
}


@pytest.fixture(scope="module")
def tables():
    return {"square": drawn(square), "edge": drawn(edge)}


@pytest.fixture(scope="module")
def fitted_to(tables):
    """An estimator fitted to a table under a meaning, once."""
    return functools.cache(
        lambda name, where, meaning: ESTIMATORS[name][0]().fit(
            tables[where].with_on_failure(meaning), random_seed=1
        )
    )


CASES = [("square", "drop"), ("square", "condition"), ("edge", "drop")]
"""At an edge both meanings come to the same, but for the evidence."""


@pytest.mark.parametrize(
    ("name", "where", "meaning"),
    [("kernel_likelihood", *case) for case in [*CASES, ("edge", "condition")]]
    + [(name, *CASES[number % 3]) for number, name in enumerate(ESTIMATORS) if name != "kernel_likelihood"]
    + [("adjusted", "square", "condition")],
)
def test_every_estimator_has_the_exact_posterior(fitted_to, name, meaning, where):
    probability, error = {"square": square, "edge": edge}[where], ESTIMATORS[name][1]
    posterior = fitted_to(name, where, meaning).condition([OBSERVED])
    mean, evidence = exact(probability if meaning == "drop" else given(probability))
    # Weights of one over a small probability leave few rows.
    assert abs(posterior.mean()[0] - mean) < error * (1 if meaning == "drop" else 2)
    if where == "edge":
        assert np.mean(posterior.draw(4000, 1) < EDGE) < 0.01
    if name == "kernel_likelihood":
        if meaning == "condition" and where == "edge":
            evidence -= np.log(1 - EDGE)  # given success the prior is that between the edge and one
        assert posterior.settings["log_evidence"] == pytest.approx(evidence, abs=0.07)


@pytest.mark.parametrize(
    ("name", "where", "meaning"),
    [("kernel_likelihood", *CASES[0]), ("adjusted", *CASES[1]), ("kernel_bayes", *CASES[2])],
)
def test_under_another_prior_too(tables, name, meaning, where):
    probability = {"square": square, "edge": edge}[where]
    make, error = ESTIMATORS[name]
    prior, table = beta(2, 4), tables[where].with_on_failure(meaning)
    draws = prior.rvs((1000, 1), random_state=3)
    posterior = make().fit(table, prior=draws, random_seed=1).condition([OBSERVED])
    mean, _ = exact(probability if meaning == "drop" else given(probability), prior)
    assert abs(posterior.mean()[0] - mean) < error * (1.5 if meaning == "drop" else 2)
    if where == "edge":
        assert np.mean(posterior.draw(4000, 1) < EDGE) < 0.015


def test_each_of_several_trials_has_succeeded(tables, fitted_to):
    fitted = fitted_to("kernel_likelihood", "square", "drop")
    data = np.full((3, 1), OBSERVED)
    # Learnt from 1,289 rows: over twelve tables the error has a mean of zero and a deviation of 0.0124.
    error = fitted.condition(data, trials=True).mean()[0] - exact(square, trials=3)[0]
    assert abs(error) < 4 * 0.0124
    at = np.array([[0.5], [0.8]])
    without = fitted_to("kernel_likelihood", "square", "condition")
    apart = fitted.log_likelihood(at, data) - without.log_likelihood(at, data)
    np.testing.assert_allclose(apart, 3 * weighting_of(tables["square"]).success.log_probability(at))


def test_an_edge_of_two_parameters_and_a_hole_are_not_crossed():
    table = drawn(lambda t: (4 * t[:, 0] * t[:, 1] > 1).astype(float), parameters=2)
    for name, meaning in (("kernel_likelihood", "drop"), ("adjusted", "condition")):
        fitted = ESTIMATORS[name][0]().fit(table.with_on_failure(meaning), random_seed=1)
        draws = fitted.condition([0.2]).draw(4000, 1)
        assert np.mean(4 * draws.prod(axis=1) < 0.97) < 0.02
    table = drawn(hole, rows=2500)
    for name in ("kernel_likelihood", "adjusted"):
        draws = ESTIMATORS[name][0]().fit(table, random_seed=1).condition([0.5]).draw(4000, 1)
        assert np.mean(np.abs(draws - 0.5) < 0.13) < 0.02


def test_save_and_load_keep_it(fitted_to, tmp_path):
    for meaning in ("drop", "condition"):
        fitted = fitted_to("kernel_likelihood", "edge", meaning)
        loaded = pk.load(pk.save(fitted, tmp_path / f"{meaning}.npz"))
        np.testing.assert_array_equal(
            loaded.condition([OBSERVED]).draw(100, 1), fitted.condition([OBSERVED]).draw(100, 1)
        )


def test_a_missing_statistic_leaves_it():
    table = drawn(square, rows=2000)
    rng = np.random.default_rng(5)
    frame = table.to_dataframe().assign(y=rng.normal(size=len(table)))
    wide = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=["x", "y"], bounds={"a": (0, 1)}
    )
    wide = dataclasses.replace(wide, failures=table.failures)
    fitted = pk.KernelLikelihood("location_scale").fit(wide, random_seed=1)
    posterior = fitted.condition([OBSERVED, np.nan])
    assert abs(posterior.mean()[0] - exact(square)[0]) < 0.03


def test_the_meaning_is_kept_and_checked(tables, tmp_path):
    table = tables["edge"].with_on_failure("condition")
    table.save(tmp_path / "table.nc")
    assert pk.ReferenceTable.load(tmp_path / "table.nc").origin.on_failure == "condition"
    with pytest.raises(ValueError, match="may be 'drop' or 'condition'"):
        table.with_on_failure("raise")
    other = dataclasses.replace(drawn(edge, rows=500, seed=1), seed=2)
    with pytest.raises(ValueError, match="with_on_failure"):
        table.append(other)
    both = table.append(other.with_on_failure("condition"))
    assert both.origin.on_failure == "condition"
    assert weighting_of(both).success.share == pytest.approx(len(both) / 4500)
    plain = dataclasses.replace(other, failures=Failures.none(1))
    assert plain.append(table).origin.on_failure == "condition"


def test_what_needs_draws_of_the_prior_refuses_rows_that_are_weighted(tables):
    table = tables["square"].with_on_failure("condition")
    for refused in (
        lambda: pk.calibrate("rejection", table, rows=20, progressbar=False),
        lambda: pk.misspecification(table, [OBSERVED]),
        lambda: pk.compare(table, estimators=["rejection"], budgets=[100], observations=5, random_seed=1),
    ):
        with pytest.raises(ValueError, match="on_failure='condition'"):
            refused()


def test_calibration_is_that_of_data_that_were_seen(tables):
    found = pk.calibrate(
        pk.KernelLikelihood("location_scale", 400),
        tables["square"],
        rows=100,
        random_seed=1,
        progressbar=False,
    )
    low, high = found.band(0.9)
    assert low <= found.coverage(0.9)[0] <= high


@pytest.mark.parametrize(
    ("method", "rows", "meanings"),
    [("local_logistic", 2000, ["drop"]), ("quadratic_logistic", 4000, ["condition"])],
)
def test_models_are_compared_by_the_probability_of_success_and_data(method, rows, meanings):
    fails, never = drawn(square, rows=rows), drawn(always(1.0), rows=rows, seed=1)
    _, log_never = exact(always(1.0))
    for meaning in meanings:
        _, log_fails = exact(square if meaning == "drop" else given(square))
        tables = {"fails": fails.with_on_failure(meaning), "never": never}
        with pytest.warns(UserWarning, match="failed more often") as warned:
            found = pk.compare_models(tables, [OBSERVED], method=method, random_seed=1)
        assert f"on_failure='{meaning}'" in str(warned[0].message)
        probability = 1 / (1 + np.exp(log_never - log_fails))
        assert found.probabilities["fails"] == pytest.approx(probability, abs=0.05)


def test_where_rows_represent_the_prior_they_are_weighted():
    rng = np.random.default_rng(0)
    theta = rng.random((3000, 1))
    succeeds = rng.random(3000) < theta[:, 0]
    support = Support.from_bounds({"a": (0, 1)}, ["a"])
    weights = theta[succeeds, 0], theta[~succeeds, 0]  # those of another prior, of density 2 a
    success = Success.fit(theta[succeeds], theta[~succeeds], support, weights)
    assert success.share == pytest.approx(2 / 3, abs=0.03)
    assert success.under(theta).share == pytest.approx(1 / 2, abs=0.03)


def test_values_at_which_every_simulation_fails_are_no_values_of_the_posterior():
    rng = np.random.default_rng(4)
    theta = rng.integers(0, 201, (2500, 1)).astype(float)
    table = of_rows(theta, rng.normal(theta[:, 0], 20), np.abs(theta[:, 0] - 60) > 15)
    at = np.r_[0:45, 76:201]
    weights = norm.pdf(60, at, 20)
    mean = np.average(at, weights=weights)
    deviation = np.sqrt(np.average((at - mean) ** 2, weights=weights))
    for meaning in ("drop", "condition"):
        fitted = pk.KernelLikelihood("location_scale").fit(table.with_on_failure(meaning), random_seed=1)
        draws = fitted.condition([60.0]).draw(4000, 1)
        assert np.all(np.abs(draws - 60) > 15)
        assert abs(draws.mean() - mean) < 0.1 * deviation
        assert draws.std() == pytest.approx(deviation, rel=0.07)


def test_simulations_that_fail_at_a_point_mass_alone():
    rng = np.random.default_rng(0)
    theta = np.where(rng.random(3000) < 0.5, 0.0, rng.uniform(-1, 1, 3000))[:, None]
    table = of_rows(theta, rng.normal(theta[:, 0], NOISE), theta[:, 0] != 0, (-1, 1))
    success = weighting_of(table).success
    np.testing.assert_array_equal(success.reached(np.array([[0.0], [1e-9], [0.5]])), [False, True, True])
    assert success(np.array([[1e-9]]))[0] > 0.98
    at = np.linspace(-1, 1, 2001)
    mean = np.average(at, weights=norm.pdf(0.2, at, NOISE))
    for meaning in ("drop", "condition"):
        posterior = pk.Adjusted(pk.Rejection(0.2)).fit(table.with_on_failure(meaning)).condition([0.2])
        assert abs(posterior.mean()[0] - mean) < 0.03
