"""Conditionals as single operations: the numbers, gradients and second derivatives of the expression."""

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from scipy.stats import norm

import pymc_kbr as pk
from pymc_kbr.estimators.likelihood import slopes
from pymc_kbr.estimators.likelihood.normal_mixture import log_between
from pymc_kbr.simulation.model.differentiated import DifferentiatedOp, GraphFunctions
from tests.models import AS_WRITTEN

GRAPH = GraphFunctions()
SEED = 3


def counts(rng, theta):
    """Counts, and a mean that depends on them: probabilities of cells."""
    n = rng.poisson(np.exp(2 + theta[:, 0]))
    return np.column_stack([n, theta[:, 1] + rng.normal(size=len(n)) / np.sqrt(1 + n)])


def cut_off(rng, theta):
    """What is censored below, and a skewed statistic: probabilities or densities, by the value."""
    y = theta[:, 0] + rng.normal(size=len(theta))
    return np.column_stack([np.maximum(y, -0.5), theta[:, 1] * y + rng.gumbel(size=len(theta))])


def choices(rng, theta):
    """A choice of two, and a time whose shape depends on it."""
    right = rng.random(len(theta)) < 1 / (1 + np.exp(-theta[:, 0]))
    return np.column_stack([right, theta[:, 1] + (1 + right) * rng.exponential(size=len(theta))])


def delayed(rng, theta):
    """A time after a delay, which the second statistic depends on, too."""
    time = rng.exponential(size=len(theta))
    return np.column_stack([theta[:, 0] + time, theta[:, 1] + time + 0.3 * rng.normal(size=len(theta))])


@pytest.fixture(scope="module", params=[counts, cut_off, choices, delayed])
def learnt(request):
    """A likelihood, parameters (k, 2), and an observation for each of these."""
    rng = np.random.default_rng(SEED)
    theta = rng.uniform(-1, 1, size=(700, 2))
    x = request.param(rng, theta)
    frame = pd.DataFrame(np.column_stack([theta, x]), columns=["a", "b", "x", "y"])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a", "b"], statistics=["x", "y"])
    shift = {"shift": {"x": "a"}} if request.param is delayed else {}
    likelihood = pk.KernelLikelihood(form="autoregressive", **shift).fit(table, random_seed=1)
    return likelihood, theta[:4], x[:4]


def expressions(likelihood, x, xp):
    """Parameters as a symbol, and the log densities (k,) of observations."""
    theta = pt.dmatrix("theta")
    return theta, likelihood.log_density(likelihood.describe(theta, xp), likelihood.prepare(x), xp)


def operations(variables):
    """The single operations that expressions are made of."""
    owners = [each.owner for each in ancestors(variables) if each.owner]
    return [owner.op for owner in owners if isinstance(owner.op, DifferentiatedOp)]


def test_values_and_gradients_are_those_of_the_expression(learnt):
    likelihood, theta, x = learnt
    found = []
    for xp in (pt, GRAPH):
        symbol, logs = expressions(likelihood, x, xp)
        assert bool(operations([logs])) == (xp is GRAPH)
        gradient = pytensor.grad(logs.sum(), symbol)
        found.append(pytensor.function([symbol], [logs, gradient], mode=AS_WRITTEN)(theta))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    assert np.isfinite(found[0][0]).all()


def test_trials_of_one_set_of_parameters_are_those_of_the_expression(learnt):
    likelihood, theta, x = learnt
    found = []
    for xp in (pt, GRAPH):
        symbol = pt.dmatrix("theta")
        same = symbol[np.zeros(len(x), dtype=int)]
        logs = likelihood.log_density(likelihood.describe(same, xp), likelihood.prepare(x), xp)
        gradient = pytensor.grad(logs.sum(), symbol)
        found.append(pytensor.function([symbol], [logs, gradient], mode=AS_WRITTEN)(theta[:1]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_second_derivatives_are_those_of_the_expression(learnt):
    likelihood, theta, x = learnt
    found = []
    for xp in (pt, GRAPH):
        symbol, logs = expressions(likelihood, x[:1], xp)
        gradient = pytensor.grad(logs.sum(), symbol)
        second = pytensor.grad(pt.sum(gradient * np.array([[1.0, 2.0]])), symbol)
        found.append(second.eval({symbol: theta[:1]}, mode=AS_WRITTEN))
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-8)


def test_compilers_that_do_not_call_numpy_see_the_expression(learnt):
    likelihood, theta, x = learnt
    symbol, logs = expressions(likelihood, x, GRAPH)
    gradient = pytensor.grad(logs.sum(), symbol)
    expected = pytensor.function([symbol], [logs, gradient], mode=AS_WRITTEN)(theta)
    graph = FunctionGraph([symbol], [logs, gradient], clone=True)
    # What JAX's mode asks for, without what needs JAX itself.
    Mode(linker="py", optimizer=RewriteDatabaseQuery(include=["jax"])).optimizer.rewrite(graph)
    assert not operations(graph.outputs)
    found = pytensor.function(graph.inputs, graph.outputs, mode=AS_WRITTEN)(theta)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_other_data_are_evaluated_anew(learnt):
    likelihood, theta, x = learnt
    symbol, logs = expressions(likelihood, x, GRAPH)
    points, data = pt.dtensor3("points"), likelihood.prepare(x)
    described = likelihood.describe(symbol, GRAPH)
    prepared = type(data)(points, pt.constant(data.log_volume))
    compiled = pytensor.function(
        [symbol, points], likelihood.log_density(described, prepared, GRAPH), mode=AS_WRITTEN
    )
    expected = logs.eval({symbol: theta}, mode=AS_WRITTEN)
    np.testing.assert_allclose(compiled(theta, data.points), expected, rtol=1e-12)
    others = compiled(theta, data.points[::-1])
    assert not np.allclose(others, expected)
    np.testing.assert_allclose(compiled(theta, data.points), expected, rtol=1e-12)


def test_variables_that_are_replaced_later_are_differentiated(learnt):
    likelihood, theta, x = learnt
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        pm.Potential("y", pm.logp(pk.LearnedSimulator("z", likelihood, a, b, observed=x[0]), x[0]))
    symbol, logs = expressions(likelihood, x[:1], pt)
    expected = pytensor.grad(logs.sum(), symbol).eval({symbol: theta[:1]}, mode=AS_WRITTEN)
    values = [model.rvs_to_values[model[name]] for name in "ab"]
    (potential,) = model.logp(model.potentials, sum=False)
    gradient = pytensor.function(values, pytensor.grad(potential.sum(), values), mode=AS_WRITTEN)
    np.testing.assert_allclose(gradient(*theta[0]), expected[0], rtol=1e-9, atol=1e-9)


def test_other_numbers_of_rows_are_refused(learnt):
    likelihood, theta, x = learnt
    symbol, points = pt.dmatrix("theta"), pt.dtensor3("points")
    data = likelihood.prepare(x)
    prepared = type(data)(points, pt.constant(data.log_volume))
    logs = likelihood.log_density(likelihood.describe(symbol, GRAPH), prepared, GRAPH)
    compiled = pytensor.function([symbol, points], logs, mode=AS_WRITTEN)
    with pytest.raises(ValueError, match="shapes"):
        compiled(theta, data.points[:3])


def test_a_past_that_is_written_to_is_seen():
    class Sum:
        key = "sum"

        def of_past(self, past):
            return (past.sum(axis=2),)

        def evaluate(self, theta, past, known, moving):
            values = theta.sum(axis=1, keepdims=True) + known[0]
            return values, np.ones((*values.shape, theta.shape[1]))

    operation, storage = DifferentiatedOp(Sum(), moving=False), [[None], [None]]
    theta, past = np.ones((2, 1)), np.zeros((1, 3, 1))
    node = operation.make_node(pt.constant(theta), pt.constant(past))
    for added in (0.0, 1.0, 2.0):
        past[:] = added
        operation.perform(node, [theta, past], storage)
        np.testing.assert_array_equal(storage[0][0], np.full((2, 3), 1 + added))


def test_slopes_of_a_normal_probability():
    for lower, upper in [(-1.0, 2.0), (3.0, 3.5), (-20.0, -19.0), (-1e8, 0.3), (-2.0, 1e8)]:
        found, by_lower, by_upper = slopes.log_between(lower, upper)
        expected = float(log_between(lower, upper))
        densities = np.exp(norm.logpdf([lower, upper]) - expected)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_allclose(
            [by_lower, by_upper], [-densities[0], densities[1]], rtol=1e-9, atol=1e-300
        )
    # Far out all of the probability is at the nearer end, and its logarithm is about -z^2 / 2.
    np.testing.assert_allclose(slopes.log_between(1e7, 1e8)[1:], [-1e7, 0.0], rtol=1e-9)
