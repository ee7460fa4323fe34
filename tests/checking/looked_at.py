"""What a table says, as `sample_abc` looks at it."""

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.checking.diagnostics import signs_of
from pymc_kbr.estimators.fitted_table import scaled_quietly


def looked_at(table, measured=None):
    rows = CheckedRows.trusted(table.parameters, table.statistics, table.support)
    return signs_of(table, scaled_quietly(rows), measured)
