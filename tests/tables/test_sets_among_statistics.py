"""Data sets among the statistics of a table."""

import numpy as np
import pytest

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.origin import Failures
from pymc_kbr.tables.reference_table import ReferenceTable


def with_data_sets() -> ReferenceTable:
    """Data sets of at most three rows, between two statistics of which the first is not observed."""
    data_set = Variable("data", (1 + 3,), set_columns=1)
    columns = Columns((Variable("before"), data_set, Variable("after")))
    rng = np.random.default_rng(0)
    padded = DataSets.of([rng.normal(size=(size, 1)) for size in (1, 3, 2, 3, 1)]).padded(3)
    statistics = np.column_stack([rng.normal(size=5), padded, rng.normal(size=5)])
    observed = np.concatenate([[np.nan], padded[2], [0.5]])
    return ReferenceTable(
        parameters=rng.normal(size=(5, 1)),
        statistics=statistics,
        parameter_columns=Columns.scalars(["a"]),
        statistic_columns=columns,
        support=Support.from_bounds(None, ["a"]),
        failures=Failures.none(1),
        observed=observed,
    )


def test_data_sets_stay_data_sets_where_another_statistic_is_missing():
    table = with_data_sets()
    found = table.without_missing()
    assert found.set_names == ["data"]
    assert found.statistic_names == [*table.statistic_names[1:]]
    assert [len(each) for each in found.data_sets()] == [1, 3, 2, 3, 1]
    np.testing.assert_array_equal(found.observed, table.observed[1:])
    assert table.with_statistics(["after", "data"]).set_names == ["data"]
    assert table.with_statistics(["after"]).set_names == []


OUT_OF_ORDER = ["data[1]", "data[0]", "data[2]", "data[3]"]


@pytest.mark.parametrize("names", [["data[0]"], ["data[1]", "after"], OUT_OF_ORDER])
def test_data_sets_are_not_taken_in_part(names):
    with pytest.raises(ValueError, match="part of the data sets 'data'"):
        with_data_sets().with_statistics(names)
