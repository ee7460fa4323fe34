"""What a table says, as `sample_abc` looks at it."""

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.checking.evidence import evidence
from pymc_kbr.estimators.tabulate import scaled_quietly


def looked_at(table, measured=None):
    rows = CheckedRows.trusted(table.parameters, table.statistics, table.support)
    return evidence(table, scaled_quietly(rows), measured)
