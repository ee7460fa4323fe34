"""A `ReferenceTable` from data frames, files and results, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pymc_kbr.arrays.refusals import path_of
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables.errors import describe
from pymc_kbr.tables.frame import fields_of, fields_of_sets, frame_of
from pymc_kbr.tables.saved import arrays_of, documents_of, fields_from, held_by

if TYPE_CHECKING:
    import pandas as pd


class Conversions:
    """From data frames, files and results to a `ReferenceTable`, which inherits this, and back."""

    if TYPE_CHECKING:

        def __init__(self, **fields: Any) -> None: ...

    @classmethod
    def from_dataframe(
        cls,
        df: pd.DataFrame,
        *,
        parameters: Sequence[str],
        statistics: Sequence[str],
        observed: Mapping[str, float] | Sequence[float] | None = None,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        discrete: Sequence[str] | None = None,
    ) -> Self:
        """A table of simulations made elsewhere.

        Parameters
        ----------
        df : pandas.DataFrame
            One simulation a row. A data frame of polars, pyarrow, dask or duckdb, a dict of columns or an
            xarray.Dataset will do.
        parameters, statistics : sequence of str
            Its columns on either side.
        observed : mapping or sequence of float, optional
            The observed statistics, by name in any container that labels them, or in the order of
            `statistics`; a row of another data frame (a Series) will do. NaN where one is missing.
        bounds : mapping of str to (lower, upper), optional
            The prior's support; None where it has no end. Parameters left out are taken to be unbounded, and
            their smoothed draws may go beyond the simulated values.
        discrete : sequence of str, optional
            Parameters that are whole numbers, and so are draws of them, within the simulated values and on
            their lattice. Where left out, those whose type is integer or bool, and those of nothing but
            zeros and ones; ``[]`` for none.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            If a name is missing, stands twice or is on both sides, a value is missing, infinite or not a
            number, or a parameter lies outside its bounds, or is discrete and no whole number.

        Examples
        --------
        >>> import pandas as pd
        >>> from pymc_kbr import ReferenceTable
        >>> df = pd.DataFrame({"rate": [0.1, 0.4, 0.9], "count": [1, 5, 8]})
        >>> ReferenceTable.from_dataframe(
        ...     df, parameters=["rate"], statistics=["count"], observed={"count": 4}, bounds={"rate": (0, 1)}
        ... )
        ReferenceTable(3 rows; parameters ['rate']; statistics ['count']; observed)
        """
        return cls(**fields_of(df, parameters, statistics, observed, bounds, discrete))

    @classmethod
    def from_sets(
        cls,
        df: pd.DataFrame,
        sets: Sequence[Any],
        *,
        observed: Any = None,
        bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
        discrete: Sequence[str] | None = None,
        largest: int | None = None,
    ) -> Self:
        """A table of data sets that were simulated elsewhere, whose columns `SetFeatures` makes.

        Parameters
        ----------
        df : pandas.DataFrame
            One simulation a row; all of its columns are parameters.
        sets : sequence of array_like of shape (n_i, q) or (n_i,)
            The raw data of each simulation.
        observed : array_like of shape (m, q) or (m,), optional
        bounds, discrete
            As in `from_dataframe`.
        largest : int, optional
            The most rows that a data set may have; that of these where left out.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        TypeError, ValueError
            As `from_dataframe`, and if a data set is empty, has gaps or other columns than the others.
        """
        return cls(**fields_of_sets(df, sets, observed, bounds, discrete, largest))

    def to_dataframe(self) -> pd.DataFrame:
        """One row a simulation, for other software.

        Returns
        -------
        pandas.DataFrame of shape (n, p + d)
            Parameters first, with the columns `parameter_names` and `statistic_names`. Discrete parameters
            are integers, by which `from_dataframe` knows them again.
        """
        return frame_of(self)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the table to one NetCDF file, which appears under its name when it is complete.

        Parameters
        ----------
        path : str or Path
            Where to; ``.nc`` is the usual ending.
        overwrite : bool
            Whether an existing file may be replaced.

        Returns
        -------
        Path

        Raises
        ------
        FileExistsError
            If the file, or a folder of that name, is there already and `overwrite` is not set.
        FileNotFoundError
            If its folder is not there.
        ValueError
            If `path` is a folder, and `overwrite` is set.
        """
        table_file.write(
            path_of("path", path, "a file"), arrays_of(self), documents_of(self), overwrite=overwrite
        )
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a table that `save` wrote.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        ReferenceTable

        Raises
        ------
        FileNotFoundError
            If there is no such file.
        ValueError
            If it is no reference table, is damaged, is a store, or was written by another format version.
        """
        arrays, documents = table_file.read(path_of("path", path, "a file"))
        try:
            return cls(**fields_from(arrays, documents))
        except Exception as error:  # whatever is lacking in a file that has the marks of a table
            raise ValueError(f"{path} holds no reference table ({describe(error)})") from error

    @classmethod
    def from_arviz(cls, idata: Any) -> Self:
        """The table behind a result of `sample_abc`, also one that went to a file and back.

        Parameters
        ----------
        idata : arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
            A result of `sample_abc`, or of `to_arviz` with a table.

        Returns
        -------
        ReferenceTable

        Raises
        ------
        ValueError
            If no table is in it; of one that stayed in a store the error names the store.
        """
        return cls(**fields_from(*held_by(idata)))
