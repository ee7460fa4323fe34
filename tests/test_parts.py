"""Slow tests are divided among interpreters, and none is lost."""

import pytest

from tests.conftest import in_part, part

NAMES = [f"tests/test_a.py::test_b[{i}]" for i in range(400)]


@pytest.mark.parametrize("of", [1, 2, 3])
def test_every_test_is_in_one_part(of):
    parts = [
        {name for name in NAMES if in_part(name, *part(f"{number}/{of}"))} for number in range(1, of + 1)
    ]
    assert sorted(name for names in parts for name in names) == sorted(NAMES)
    # Binomial counts: five standard deviations.
    assert all(abs(len(names) - 400 / of) <= 5 * (400 * (of - 1)) ** 0.5 / of for names in parts)


@pytest.mark.parametrize("words", ["0/2", "3/2", "2", "a/b"])
def test_a_part_that_is_not_there_is_refused(words):
    with pytest.raises(ValueError, match=r"no part|unpack|invalid literal"):
        part(words)
