"""Population genetics: other programs' tables, statistics of variants, and demographies as simulators."""

from pymc_kbr.popgen.tables import read_diyabc, read_table

__all__ = ["read_diyabc", "read_table"]
