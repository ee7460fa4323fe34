"""A table of data sets as one of columns, where nobody has made these."""

from __future__ import annotations

from pymc_kbr.estimators.sets import SetFeatures
from pymc_kbr.tables.reference_table import ReferenceTable


def columns_of_sets(table: ReferenceTable) -> ReferenceTable:
    """A table whose data sets, if it has any, are columns by `SetFeatures` with its defaults."""
    for name in table.set_names:
        table = table.with_features(SetFeatures().fit(table, variable=name), name)
    return table
