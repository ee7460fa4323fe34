import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_kbr.arrays.bijections import Circular, Interval, Ordered, Simplex, ZeroSum
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


def test_a_support_must_cover_each_column_once():
    with pytest.raises(ValueError, match="exactly one block"):
        Support(2, (Block((0,)),))
