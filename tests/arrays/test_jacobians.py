"""Jacobians of the bijections against finite differences, and densities that they carry."""

import numpy as np
import pytest
from scipy.stats import t

from pymc_kbr.arrays.bijections import (
    Circular,
    Correlations,
    Covariance,
    Interval,
    Ordered,
    Simplex,
    UnitRows,
    ZeroSum,
)
from pymc_kbr.arrays.support import Block, Support

ONE = ((0.7, 0.0, 0.0), (0.0, 0.0, 0.0))
"""The first of two bounds grows with the first parameter."""

SUPPORTS = {
    "bounded": Support.from_bounds({"a": (0, 10), "b": (None, 3), "c": (1, None)}, ["a", "b", "c", "d"]),
    "affine": Support(
        3,
        (
            Block((0,), (Interval((0.0,), (np.inf,)),)),
            Block((1, 2), (Interval((0.0, -1.0), (1.0, 2.0), None, ONE),)),
        ),
    ),
    "affine, half open": Support(
        2, (Block((1,)), Block((0,), (Interval((0.0,), (np.inf,), ((0.0, 2.0),), None),)))
    ),
    "ordered": Support(3, (Block((0, 1, 2), (Ordered(),)),)),
    "ordered, positive": Support(2, (Block((1, 0), (Interval((0.0,) * 2, (np.inf,) * 2), Ordered())),)),
    "simplex": Support(4, (Block((0, 1, 2, 3), (Simplex(),)),)),
    "zero sum": Support(3, (Block((2, 0, 1), (ZeroSum(),)),)),
    "circular": Support(1, (Block((0,), (Circular(),)),)),
    "two correlated": Support(2, (Block((0,), (Correlations(),)), Block((1,)))),
    "correlations": Support(6, (Block((5, 1, 2, 3, 4, 0), (Correlations(),)),)),
    "factor": Support(5, (Block((0, 1, 2, 3, 4), (UnitRows(),)),)),
    "covariance": Support(6, (Block((0, 1, 2, 3, 4, 5), (Covariance(),)),)),
    "counts": Support(2, (Block((0,), smooth=False), Block((1,), (Interval((0.0,), (1.0,)),)))),
}


def kept(support):
    """The columns that densities are given in: those that others are known from."""
    found = []
    for block in support.blocks:
        step = (*block.steps, None)[0]
        columns = block.columns[: -1 if isinstance(step, Simplex | ZeroSum) else None]
        # Of the rows of a factor all but the diagonal.
        found += [columns[i] for i in (0, 2, 3)] if isinstance(step, UnitRows) else columns
    return found


@pytest.mark.parametrize("name", SUPPORTS)
def test_log_jacobians_are_those_of_finite_differences(name, rng):
    support = SUPPORTS[name]
    q = len(support.smooth())
    step = 1e-6
    for free in rng.normal(size=(20, q)):
        around = free + step * np.vstack([np.eye(q), -np.eye(q)])
        values = support.backward(around)[:, kept(support)]
        matrix = (values[:q] - values[q:]) / (2 * step)
        expected = np.linalg.slogdet(matrix)[1]
        np.testing.assert_allclose(support.log_jacobian(free[None])[0], expected, atol=1e-6)


def test_far_out_jacobians_are_finite():
    support = Support.from_bounds({"a": (0, 2)}, ["a"])
    np.testing.assert_allclose(support.log_jacobian(np.array([[700.0], [-700.0]])), np.log(2) - 700)


def test_an_angle_beyond_half_a_turn_has_no_density():
    support = SUPPORTS["circular"]
    assert support.log_jacobian(np.array([[0.0], [3.0], [3.5]])).tolist() == [0.0, 0.0, -np.inf]


@pytest.mark.parametrize("name", ["bounded", "simplex", "affine"])
def test_densities_carried_to_the_free_space_integrate_to_one(name, rng):
    """The mean of an importance ratio is one: uniform, exponential or normal parameters, normal proposals."""
    support = SUPPORTS[name]
    q, n = len(support.smooth()), 50_000
    free = 2.5 * rng.standard_t(5, size=(n, q))
    values = support.backward(free)
    logs = {
        "bounded": lambda v: (
            -np.log(10) - (3 - v[:, 1]) - (v[:, 2] - 1) - v[:, 3] ** 2 / 2 - np.log(2 * np.pi) / 2
        ),
        "simplex": lambda v: np.full(len(v), np.log(6.0)),
        "affine": lambda v: -v[:, 0] - np.log(1 + 0.7 * v[:, 0]) - np.log(3),
    }[name](values)
    ratios = np.exp(logs + support.log_jacobian(free) - t.logpdf(free / 2.5, 5).sum(axis=1) + q * np.log(2.5))
    assert abs(ratios.mean() - 1) < 4 * ratios.std() / np.sqrt(n)
