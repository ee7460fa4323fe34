"""Simulators that return a data set of any number of rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.simulation.model.vector_simulator import check_simulator, refuse_without_order, vector_simulator


@default_arithmetic
def set_simulator(
    name: str,
    fn: Callable[..., np.ndarray],
    *params: Any,
    observed: Any,
    sizes: int | Sequence[int] | None = None,
    largest: int | None = None,
    **kwargs: Any,
) -> Any:
    """A `pm.Simulator` whose function returns raw data: a set of rows, of which there may be any number.

    No statistics need to be invented: `sample_abc` makes columns of the data sets, see `SetFeatures`. One
    table answers for observations of all sizes that were simulated.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    fn : callable
        ``fn(rng, *params, size) -> ndarray of shape (m,) or (m, q)``: one data set, whose rows are in no
        order. `size` is ``(m,)`` or ``(m, q)`` with the number of rows that is asked for; a simulator whose
        own chance decides on m need not look at it.
    *params : tensors
        The parameters, scalars or arrays, random variables or constants.
    observed : array_like of shape (m,) or (m, q)
        The observed data set.
    sizes : int, pair (lowest, highest) or sequence of int, optional
        Rows to simulate: one number, any number between two, or any of several, with equal chances. That of
        `observed` where left out.
    largest : int, optional
        The most rows that the simulator may return; the highest of `sizes`, or of `observed`, where left out.
    **kwargs
        Passed to `pm.Simulator`.

    Returns
    -------
    TensorVariable
        The observed random variable: the number of rows, the rows, and zeros up to `largest` of them.

    Raises
    ------
    TypeError, ValueError
        If the observed data set is empty, has gaps, or a number of rows that is not simulated; if sizes are
        no positive numbers; if there are no parameters.

    Examples
    --------
    >>> import pymc as pm
    >>> def normal(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model() as model:
    ...     mean, scale = pm.Normal("mean"), pm.HalfNormal("scale")
    ...     _ = set_simulator("y", normal, mean, scale, observed=[0.3, 1.1, 0.7], sizes=(2, 20))
    >>> model.observed_RVs
    [y]
    """
    check_simulator(name, fn)
    refuse_without_order(name, observed, "rows, as the simulator returns them")
    data = DataSets.of([observed])
    asked = np.array([data.sizes[0]]) if sizes is None else _sizes(sizes)
    most = int(max(asked.max(), data.sizes[0] if sizes is None else 0)) if largest is None else largest
    if isinstance(most, bool) or not isinstance(most, int | np.integer) or most < asked.max():
        raise ValueError(f"largest is {shown(largest)}; it must be a whole number, at least {asked.max()}")
    whole("largest", most)
    has = int(data.sizes[0])
    if largest is None and sizes is not None and not asked.min() <= has <= asked.max():
        raise ValueError(
            f"the observed data set of {name!r} has {has} rows, and {asked.min()} to {asked.max()} are "
            "simulated; sizes must have that number between them"
        )
    if has > most:
        raise ValueError(f"the observed data set of {name!r} has {has} rows, more than largest={most}")
    flat = np.ndim(observed) == 1
    simulator = OneSet(fn, data.columns, flat, asked, int(most))
    return vector_simulator(name, simulator, *params, observed=data.padded(int(most))[0], **kwargs)


class OneSet:
    """A function that returns a data set, as one that returns a vector of fixed length."""

    def __init__(
        self, fn: Callable[..., np.ndarray], set_columns: int, flat: bool, sizes: np.ndarray, largest: int
    ) -> None:
        self.fn, self.set_columns, self.flat, self.sizes, self.largest = fn, set_columns, flat, sizes, largest
        self.__name__ = getattr(fn, "__name__", "fn")
        try:
            self.__signature__ = inspect.signature(fn)
        except (TypeError, ValueError):  # compiled functions may not tell
            return

    def __call__(self, rng: np.random.Generator, *args: Any) -> np.ndarray:
        """One data set: its size, its rows, and zeros."""
        *params, size = args
        if size is not None and len(size):
            raise ValueError("data sets are simulated one by one")
        rows = int(self.sizes[0]) if len(self.sizes) == 1 else int(rng.choice(self.sizes))
        returned = self.fn(rng, *params, (rows,) if self.flat else (rows, self.set_columns))
        made = as_rows("what the simulator of data sets returned", returned)
        if made.ndim == 1 and self.set_columns == 1:
            made = made[:, None]
        if made.ndim != 2 or made.shape[1] != self.set_columns:
            raise ValueError(
                f"the simulator returned shape {made.shape}; the observed rows have {self.set_columns} "
                "column(s): return rows of as many"
            )
        if not len(made):
            raise ValueError("the simulator returned an empty data set; a set needs at least one row")
        if len(made) > self.largest:
            raise ValueError(
                f"the simulator returned {len(made)} rows, more than `largest`, {self.largest}; pass a "
                "higher `largest` to set_simulator"
            )
        return DataSets(made, np.array([len(made)])).padded(self.largest)[0]


def _sizes(sizes: int | Sequence[int]) -> np.ndarray:
    """All numbers of rows that are drawn from."""
    if not isinstance(sizes, int | np.integer | list | tuple | range | np.ndarray):
        raise TypeError(
            f"sizes are {shown(sizes)}; give a positive whole number, a pair (lowest, highest), or several "
            "numbers"
        )
    given = np.atleast_1d(np.asarray(sizes))
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given) or given.min() < 1:
        raise ValueError(
            f"sizes are {shown(sizes)}; give a positive whole number, a pair (lowest, highest), or several "
            "numbers"
        )
    if len(given) == 2 and isinstance(sizes, tuple | list):
        if given[0] > given[1]:
            raise ValueError(f"sizes are {shown(sizes)}; the lowest comes first")
        return np.arange(given[0], given[1] + 1)
    return given
