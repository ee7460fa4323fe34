"""The table of simulations that comes with the repository, and a reader for those of R packages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pymc_kbr.arrays.refusals import path_of
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pandas as pd


def load_coalescent() -> ReferenceTable:
    """100,000 simulations of the infinite-sites coalescent, in a clone of the repository alone."""
    place = Path(__file__).parents[2] / "data" / "coalescent" / "coalescent.nc"
    if not place.is_file():
        raise FileNotFoundError(
            "the coalescent data are in the repository of pymc_kbr, and not in what a wheel installs; "
            "run this in a clone that is installed as it is (editable), or make them with "
            "`python -m case_studies.coalescent.make_data`"
        )
    return ReferenceTable.load(place)


def read_rda(path: str | Path, name: str | None = None) -> pd.DataFrame:
    """A data frame, or a matrix with named columns, from an ``.rda`` file of R."""
    import pandas as pd
    import rdata

    path = path_of("path", path, "a file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    try:
        objects = rdata.read_rda(path)
    except Exception as error:
        raise ValueError(f"{path} cannot be read as an R data file ({error})") from error
    if name is None:
        if len(objects) != 1:
            raise ValueError(f"{path} holds the objects {sorted(objects)}; name one of them")
        name = next(iter(objects))
    if name not in objects:
        raise ValueError(f"{path} has no object {name!r}; it holds {sorted(objects)}")
    found = objects[name]
    if isinstance(found, pd.DataFrame):
        return found.reset_index(drop=True)
    if getattr(found, "ndim", 0) == 2 and found.dims[1] in found.coords:
        return pd.DataFrame(found.values, columns=[str(c) for c in found.coords[found.dims[1]].values])
    raise ValueError(
        f"{name!r} in {path} is a {type(found).__name__}, not a data frame or a matrix with named columns"
    )
