import numpy as np

from pymc_kbr.tables.columns import Columns, Variable

COLUMNS = Columns(
    (Variable("a"), Variable("b", (2, 2)), Variable("k", (2,), discrete=True, labels=("x", "y")))
)


def test_split_and_stack_are_inverse(rng):
    array = np.hstack([rng.normal(size=(5, 5)), rng.integers(0, 9, size=(5, 2))])
    parts = COLUMNS.split(array)
    assert [part.shape for part in parts.values()] == [(5,), (5, 2, 2), (5, 2)]
    assert parts["k"].dtype.kind == "i"
    np.testing.assert_array_equal(COLUMNS.stack(list(parts.values())), array)


def test_names_show_index_or_label():
    assert COLUMNS.names == ["a", "b[0, 0]", "b[0, 1]", "b[1, 0]", "b[1, 1]", "k[x]", "k[y]"]


def test_columns_survive_json():
    assert Columns.from_json(COLUMNS.to_json()) == COLUMNS
