import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_kbr.arrays.constraints import check_constraints, never_broken, parse
from pymc_kbr.arrays.support import Support

NAMES = ["ta", "ts", "t[0]", "t.a", "N"]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("ta < ts", lambda t: t[:, 0] < t[:, 1]),
        ("ts>ta", lambda t: t[:, 0] < t[:, 1]),
        ("ta <= ts < t[0]", lambda t: (t[:, 0] <= t[:, 1]) & (t[:, 1] < t[:, 2])),
        ("2 * ta + 10 <= ts / 2 - 1", lambda t: 2 * t[:, 0] + 10 <= t[:, 1] / 2 - 1),
        ("-(t.a) + 3*(N-1) >= +ta*2", lambda t: -t[:, 3] + 3 * (t[:, 4] - 1) >= 2 * t[:, 0]),
        ("ta<5e1", lambda t: t[:, 0] < 50),
    ],
)
def test_texts_say_what_they_say(text, holds):
    # Whole numbers, of which all sums are exact.
    rows = np.random.default_rng(1).integers(-50, 100, (2000, 5)).astype(float)
    found = np.all([one.holds(rows) for one in parse(text, NAMES)], axis=0)
    np.testing.assert_array_equal(found, holds(rows))
    assert 0 < found.mean() < 1


@pytest.mark.parametrize(
    "text",
    ["ta", "ta = ts", "ta == ts", "ta != ts", "ta < tb", "ta * ts < 1", "1 < 2", "ta < ta", "", "ta <",
     "ta < ts or ts < N", "f(ta) < 1", "ta / 0 < 1", "ta ** 2 < ts", "ta < True", "ta < 1e400", "ta < 'a'"],
)  # fmt: skip
def test_texts_that_are_no_linear_inequality_are_refused(text):
    with pytest.raises(ValueError, match="constraint"):
        parse(text, NAMES)


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_contradictions_are_named_as_such_in_any_units(unit):
    rows = np.random.default_rng(1).uniform(0, unit, (50, 3))
    names, bounds = ["a", "b", "c"], [(0, unit)] * 3

    def constraints(*texts):
        return [one for text in texts for one in parse(text, names)]

    for texts in (("a < b", "b < a"), ("a < b < c", "c < a"), (f"a > {2 * unit}",), ("a < b", "a >= b")):
        with pytest.raises(ValueError, match="contradict"):
            check_constraints(constraints(*texts), rows, names, bounds)
    with pytest.raises(ValueError, match="rows of parameters break"):
        check_constraints(constraints("a < b"), rows, names, bounds)
    # No row satisfies it, and others would.
    with pytest.raises(ValueError, match="rows of parameters break"):
        check_constraints(constraints(f"a > {0.9999999 * unit}"), rows, names, bounds)
    check_constraints(constraints("a <= b", "b <= a"), rows[:, [0, 0, 2]], names, bounds)


def test_orders_are_proposed_of_many_rows_alone():
    rng = np.random.default_rng(1)
    rows = np.sort(rng.uniform(size=(100_000, 3)), axis=1)
    rows = np.column_stack([rows, rng.uniform(size=len(rows)), 5 + rng.uniform(size=len(rows))])
    names = ["a", "b", "c", "free", "beyond"]
    # What follows from two others, and what the ranges say, is left out.
    assert never_broken(rows, names) == ["a < b", "b < c"]
    assert never_broken(rows[1:], names) == []
    rows[17, :2] = 0.5
    assert never_broken(rows, names) == ["a < c", "b < c"]


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.1, 20))
def test_what_is_moved_outside_comes_back_inside(seed, far):
    rng = np.random.default_rng(seed)
    support = Support.from_bounds(
        {"a": (0, 1), "b": (0, None)}, ["a", "b", "c"], constraints=["a < b", "a + b < 2 * c"]
    )
    before = rng.uniform(0, 1, (4000, 3)) * [1, 2, 3]
    before = before[support.allows(before)]
    after = support.backward(support.forward(before) + far * rng.normal(size=before.shape))
    points, outside = support.returned(before, after)
    np.testing.assert_array_equal(outside, ~support.allows(after))
    assert support.allows(points).all()
    np.testing.assert_array_equal(points[~outside], after[~outside])


def test_a_way_is_reflected_where_it_leaves_the_support():
    support = Support.from_bounds(None, ["a", "b"], constraints=["a < b"])
    before, after = np.array([[0.0, 1.0], [0.0, 1.0]]), np.array([[1.5, 1.0], [3.2, 1.0]])
    points, outside = support.returned(before, after)
    # One way ends half a unit beyond the edge; the other is long, and goes to and fro.
    np.testing.assert_allclose(points[:, 0], [0.5, 0.8], rtol=1e-4)
    assert outside.all()


def test_constraints_are_saved_and_part_of_what_supports_are():
    support = Support.from_bounds({"a": (0, 1)}, ["a", "b"], constraints=["a < b"])
    assert Support.from_json(support.to_json()) == support
    assert support != Support.from_bounds({"a": (0, 1)}, ["a", "b"])
    assert "constraints" not in Support.unbounded(2).to_json()
