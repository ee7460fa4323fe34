"""Tests are divided among interpreters, and none is lost."""

from collections import Counter
from types import SimpleNamespace

from tests.conftest import chosen


def items_of(file, mark=None, **values):
    """Four tests of a file, or a test with combinations of two parameters."""
    found = [SimpleNamespace(nodeid=f"{file}::test_{i}") for i in range(0 if values else 4)]
    for number, (one, other) in enumerate((a, b) for a in values.get("a", ()) for b in values.get("b", ())):
        given = SimpleNamespace(params={"a": one, "b": other})
        found.append(SimpleNamespace(nodeid=f"{file}::test_of[{number}]", callspec=given))
    for item in found:
        item.path, item.originalname = file, item.nodeid.split("::")[1].split("[")[0]
        item.get_closest_marker = lambda name: name == mark
    return found


def test_each_test_is_in_one_part_and_those_with_the_mark_versions_are_in_both():
    plain = [item for i in range(20) for item in items_of(f"tests/test_{i}.py")]
    marked = [item for i in range(20) for item in items_of(f"tests/test_v{i}.py", "versions")]
    slow = items_of("tests/test_s.py", "statistical", a="abc", b="xyz")
    pairs = items_of("tests/test_p.py", "versions", a="abc", b="xyz")
    every = [*plain, *marked, *slow, *pairs]
    parts = [chosen(every, (number, 2)) for number in (1, 2)]
    times = Counter(item.nodeid for items in parts for item in items)
    assert chosen(every) == every
    assert {times[item.nodeid] for item in [*plain, *slow]} == {1}
    assert {times[item.nodeid] for item in marked} == {2}
    # Each value occurs in five of nine pairs; the other four need not run twice.
    assert sorted(times[item.nodeid] for item in pairs) == [1] * 4 + [2] * 5
    assert chosen(pairs, once=True) == [pairs[i] for i in (0, 1, 2, 3, 6)]
    for items in parts:  # a file is not torn
        assert {sum(one.path == path for one in items) for path in {item.path for item in plain}} == {0, 4}
