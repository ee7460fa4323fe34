"""Population genetics: other programs' tables, statistics of variants, and demographies as simulators."""

from pymc_kbr.popgen.genotypes import Genotypes
from pymc_kbr.popgen.statistics import Statistics
from pymc_kbr.popgen.tables import read_diyabc, read_table

__all__ = ["Genotypes", "Statistics", "read_diyabc", "read_table"]
