"""Population genetics: other programs' tables, statistics of variants, and demographies as simulators."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from pymc_kbr.popgen.demography import coalescent as coalescent
    from pymc_kbr.popgen.genotypes import Genotypes as Genotypes
    from pymc_kbr.popgen.plots import plot_population_size as plot_population_size
    from pymc_kbr.popgen.plots import plot_spectrum as plot_spectrum
    from pymc_kbr.popgen.statistics import Statistics as Statistics
    from pymc_kbr.popgen.tables import read_diyabc as read_diyabc
    from pymc_kbr.popgen.tables import read_table as read_table

_HOMES = {
    "Genotypes": "genotypes",
    "Statistics": "statistics",
    "coalescent": "demography",
    "plot_population_size": "plots",
    "plot_spectrum": "plots",
    "read_diyabc": "tables",
    "read_table": "tables",
}


def __getattr__(name: str) -> object:
    """Import a public name on first use: statistics and tables never wait for PyMC (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Public names, imported or not."""
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
