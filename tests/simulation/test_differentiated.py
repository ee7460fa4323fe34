"""Conditionals as single operations: the numbers, gradients and second derivatives of the expression."""

import numpy as np
import pandas as pd
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors

import pymc_kbr as pk
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
