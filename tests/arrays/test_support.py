import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def everything():
    """A support of nine columns with every step: a hierarchical bound, a chain, a discrete column."""
    slopes = ((2.0,) + (0.0,) * 9,)
    return Support(
        10,
        (
            Block((0,), (Interval((0.0,), (np.inf,)),)),
            Block((1,), (Interval((0.0,), (0.0,), None, slopes),)),
            Block((2, 3, 4), (Simplex(),)),
            Block((5, 6), (Interval((0.0, 0.0), (np.inf, np.inf)), Ordered())),
            Block((7, 8), (ZeroSum(),)),
            Block((9,), smooth=False),
        ),
    )


def values(rng, n=50):
    a = rng.exponential(size=n)
    ordered = np.sort(rng.exponential(size=(n, 2)), axis=1)
    effect = rng.normal(size=n)
    return np.column_stack(
        [a, rng.uniform(0, 2 * a), rng.dirichlet(np.ones(3), n), ordered, effect, -effect, rng.poisson(3, n)]
    )


def test_backward_inverts_forward_for_every_step(rng):
    support, theta = everything(), values(rng)
    free = support.forward(theta)
    assert free.shape == (50, 8)
    np.testing.assert_allclose(support.backward(free), theta, rtol=1e-9, atol=1e-12)


def test_backward_lands_in_the_support(rng):
    support = everything()
    free = rng.standard_normal((2000, 8))
    assert support.contains(support.backward(free)).all()


def test_contains_says_what_is_outside(rng):
    support, theta = everything(), values(rng)
    assert support.contains(theta).all()
    for column, wrong in ((0, -1.0), (1, 99.0), (2, 0.9), (5, 1e9), (7, 3.0), (9, np.nan)):
        broken = theta.copy()
        broken[3, column] = wrong
        assert np.flatnonzero(~support.contains(broken)).tolist() == [3], column


@given(
    lower=st.floats(-1e6, 1e6),
    width=st.floats(1e-3, 1e6),
    free=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=5),
)
def test_intervals_keep_any_free_value_between_their_bounds(lower, width, free):
    step = Interval((lower,), (lower + width,))
    back = step.backward(np.array(free)[:, None], np.empty((len(free), 0)))
    assert np.all((back >= lower) & (back <= lower + width))


@pytest.mark.parametrize("bounds", [(0, None), (None, 1), (-np.inf, 1), (0, 1), (None, None)])
def test_one_sided_and_two_sided_bounds_invert(bounds, rng):
    support = Support.from_bounds({"a": bounds}, ["a"])
    inside = rng.uniform(0.01, 0.99, size=(20, 1))
    np.testing.assert_allclose(support.backward(support.forward(inside)), inside, rtol=1e-10)


def test_an_edge_goes_to_infinity_and_comes_back_as_itself():
    support = Support.from_bounds({"a": (2, 10)}, ["a"])
    free = support.forward(np.array([[2.0], [10.0]]))
    assert free.ravel().tolist() == [-np.inf, np.inf]
    assert support.backward(free).ravel().tolist() == [2.0, 10.0]


def test_angles_are_wrapped():
    back = Circular().backward(np.array([[4.0]]), np.empty((1, 0)))
    np.testing.assert_allclose(back, 4.0 - 2 * np.pi)


def test_a_support_survives_json():
    support = everything()
    assert Support.from_json(json.loads(json.dumps(support.to_json()))) == support


@pytest.mark.parametrize(
    ("bounds", "words"),
    [({"b": (0, 1)}, "the parameters are"), ({"a": (1, 1)}, "below"), ({"a": (2, 1)}, "below")],
)
def test_bad_bounds_are_refused(bounds, words):
    with pytest.raises(ValueError, match=words):
        Support.from_bounds(bounds, ["a"])


@pytest.mark.parametrize("blocks", [(Block((0, 1)), Block((1,))), (Block((0, 2)),), (Block((0,)),), ()])
def test_a_support_must_cover_each_column_once(blocks):
    with pytest.raises(ValueError, match="exactly one block"):
        Support(2, blocks)


@pytest.mark.parametrize("bounds", [(0, 1, 2), (1,), 3.0, ("low", "high"), "ab", ()])
def test_bounds_that_are_not_two_numbers_are_refused(bounds):
    with pytest.raises(ValueError, match=r"bounds of 'a' are .*give two numbers, \(lower, upper\)"):
        Support.from_bounds({"a": bounds}, ["a"])


@pytest.mark.parametrize("bounds", [(-1e300, 1e300), (0, 1e101), (-1e101, None), (None, -2e200)])
def test_bounds_that_leave_no_digit_are_refused(bounds):
    with pytest.raises(ValueError, match=r"leaves no digit.*None"):
        Support.from_bounds({"a": bounds}, ["a"])
    ends = [np.inf * sign if end is None else end for end, sign in zip(bounds, (-1, 1), strict=True)]
    with pytest.raises(ValueError, match=r"leaves no digit.*infinite"):
        Interval(*((float(end),) for end in ends))
    assert Support.from_bounds({"a": (-1e100, 1e100)}, ["a"]).size == 1


@pytest.mark.parametrize(
    ("step", "free", "values"),
    [
        (Interval((2.0,), (np.inf,)), [[0.0], [np.log(3)]], [[3.0], [5.0]]),
        (Interval((-np.inf,), (2.0,)), [[0.0], [-np.log(3)]], [[1.0], [-1.0]]),
        (Interval((2.0,), (6.0,)), [[0.0], [np.log(3)], [-np.log(3)]], [[4.0], [5.0], [3.0]]),
        (Interval((-np.inf,), (np.inf,)), [[-7.0]], [[-7.0]]),
        (Ordered(), [[1.0, 0.0, np.log(2)]], [[1.0, 2.0, 4.0]]),
        (Simplex(), [[0.0, np.log(2)]], [[0.25, 0.5, 0.25]]),
        (ZeroSum(), [[1.0, 2.0]], [[1.0, 2.0, -3.0]]),
        (Circular(), [[3.0]], [[3.0]]),
    ],
)
def test_a_step_is_its_formula(step, free, values):
    nothing = np.empty((len(free), 0))
    np.testing.assert_allclose(step.forward(np.array(values), nothing), free, atol=1e-14)
    np.testing.assert_allclose(step.backward(np.array(free), nothing), values, atol=1e-14)
    assert step.contains(np.array(values), nothing).all()


@pytest.mark.parametrize(
    ("step", "inside", "outside"),
    [
        (Interval((0.0,), (1.0,)), [[0.0], [1.0]], [[-1e-9], [1 + 1e-9]]),
        (Interval((0.0, 0.0), (1.0, 1.0)), [[0.0, 1.0]], [[0.5, 2.0], [-1.0, 0.5]]),
        (Ordered(), [[1.0, 1.0], [0.0, 2.0]], [[1.0, 0.9]]),
        (Simplex(), [[0.0, 1.0], [0.5, 0.5 + 5e-7]], [[-0.1, 1.1], [0.5, 0.5 + 2e-6], [0.4, 0.5]]),
        (ZeroSum(), [[1.0, -1.0], [1e9, -1e9 + 1.0], [0.0, 5e-7]], [[1.0, -1.1], [0.0, 2e-6], [0.0, -2e-6]]),
        (Circular(), [[np.pi], [-np.pi]], [[3.15], [-3.15]]),
    ],
)
def test_a_step_contains_its_edges_and_nothing_beyond(step, inside, outside):
    for values, expected in ((inside, True), (outside, False)):
        values = np.array(values)
        assert (step.contains(values, np.empty((len(values), 0))) == expected).all()


def test_neither_end_of_an_interval_loses_digits():
    step, nothing = Interval((0.0,), (1.0,)), np.empty((1, 0))
    assert step.backward(np.array([[-50.0]]), nothing)[0, 0] == pytest.approx(np.exp(-50), rel=1e-12)
    far = Interval((-1.0,), (0.0,)).backward(np.array([[50.0]]), nothing)[0, 0]
    assert far == pytest.approx(-np.exp(-50), rel=1e-12)


def test_bounds_move_with_other_columns():
    """A bound of 1 + 2 a - b, below and above."""
    step = Interval((1.0,), (5.0,), ((2.0, -1.0),), ((2.0, -1.0),))
    parameters = np.array([[0.0, 0.0], [3.0, 1.0]])
    lower, upper = step.bounds(parameters)
    np.testing.assert_array_equal(np.broadcast_to(lower, (2, 1)), [[1.0], [6.0]])
    np.testing.assert_array_equal(np.broadcast_to(upper, (2, 1)), [[5.0], [10.0]])
    np.testing.assert_allclose(step.backward(np.zeros((2, 1)), parameters), [[3.0], [8.0]])


def test_discrete_columns_are_distinguished_from_those_that_may_be_smoothed():
    support = everything()
    assert support.smooth().tolist() == [True] * 7 + [False]
    assert Support.unbounded(2).smooth().tolist() == [True, True]
    assert Support.unbounded(0).size == 0


def test_infinite_parameters_are_in_no_support():
    support = Support.unbounded(2)
    assert support.contains(np.array([[0.0, 1.0], [np.inf, 0.0], [0.0, np.nan]])).tolist() == [
        True,
        False,
        False,
    ]


def test_no_rows_go_there_and_back(rng):
    support = everything()
    assert support.forward(np.empty((0, 10))).shape == (0, 8)
    assert support.backward(np.empty((0, 8))).shape == (0, 10)
    assert support.contains(np.empty((0, 10))).shape == (0,)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("step", [Correlations(), UnitRows(), Covariance()])
def test_steps_are_inverted_on_matrices(step, size, rng):
    q = size * (size + 1) // 2 if isinstance(step, Covariance) else size * (size - 1) // 2
    free = 1.5 * rng.normal(size=(50, q))
    none = np.empty((50, 0))
    values = step.backward(free, none)
    assert step.contains(values, none).all()
    assert step.width(values.shape[1]) == q
    np.testing.assert_allclose(step.forward(values, none), free, atol=1e-6)
