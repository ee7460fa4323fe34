"""Simulators that return a vector of statistics, or a data set of any number of rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pymc as pm
from pytensor import tensor as pt

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.arrays.labelled import in_order, texts
from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.arrays.rows import as_rows


@default_arithmetic
def vector_simulator(
    name: str, fn: Callable[..., np.ndarray], *params: Any, observed: Any, **kwargs: Any
) -> Any:
    """A `pm.Simulator` whose function returns one vector of statistics a simulation.

    PyMC takes a simulator's values for independent draws, one a parameter value, unless its
    signature says otherwise; a scalar parameter then reaches the function with shape ``(1,)``. This
    writes the signature, so that a scalar parameter arrives as a scalar.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    fn : callable
        ``fn(rng, *params, size) -> ndarray of shape size + (k,)``. `size` is ``None`` or ``()``
        for one simulation. A function that can simulate a batch gets parameters of shape
        ``size + (their own shape)``; one that cannot need not look at `size`. It is given copies, and its
        result is copied: it may write into its parameters, and return one array in all calls.
    *params : tensors
        The parameters, scalars or arrays, random variables or constants.
    observed : array_like of shape (k,) or pm.Data
        The observed statistics; what is labelled is put in the order of the coords of `dims`.
    **kwargs
        Passed to `pm.Simulator`, such as `dims` or `sum_stat`, but no `signature`.

    Returns
    -------
    TensorVariable
        The observed random variable.

    Raises
    ------
    TypeError
        If a signature is given, or `observed` is a mapping or holds no real numbers.
    ValueError
        If `observed` is no vector, or there are no parameters.

    Examples
    --------
    >>> def mean_and_spread(rng, mean, scale, size):
    ...     y = rng.normal(mean, scale, 20)
    ...     return np.array([y.mean(), y.std()])
    >>> with pm.Model() as model:
    ...     mean, scale = pm.Normal("mean"), pm.HalfNormal("scale")
    ...     _ = vector_simulator("y", mean_and_spread, mean, scale, observed=[0.3, 1.1])
    >>> model.observed_RVs
    [y]
    """
    check_simulator(name, fn)
    if "signature" in kwargs:
        raise TypeError(
            f"the signature {kwargs['signature']!r} is given; `vector_simulator` writes it itself, from the "
            "shapes of the parameters and of one vector of statistics: leave it out, or take `pm.Simulator`"
        )
    if not params:
        raise ValueError(f"the simulator {name!r} has no parameters; pass the variables it depends on")
    if not hasattr(observed, "eval"):
        observed = _in_order_of_coords(name, observed, kwargs.get("dims"))
    value = observed
    if value.ndim != 1:
        raise ValueError(
            f"the observed value of {name!r} has {value.ndim} dimensions; it must be one vector of statistics"
        )
    if not hasattr(observed, "eval") and value.size and np.all(np.isnan(value)):
        raise ValueError(
            f"all observed values of {name!r} are missing (NaN): they say nothing about the parameters; "
            "leave the variable out of the model, or give one of its values"
        )
    if value.type.shape == (0,) if hasattr(observed, "eval") else not value.size:
        raise ValueError(f"the observed value of {name!r} is empty; give at least one statistic")
    length = int(value.shape[0].eval()) if hasattr(observed, "eval") else len(value)
    tensors = [_tensor(name, place, p) for place, p in enumerate(params)]
    cores = ["(" + ",".join(f"p{i}_{axis}" for axis in range(t.ndim)) + ")" for i, t in enumerate(tensors)]
    signature = ",".join([*cores, "(k)"]) + "->(k)"
    return pm.Simulator(
        name, _WithoutLength(fn), *tensors, np.zeros(length), signature=signature, observed=observed, **kwargs
    )


def check_simulator(name: Any, fn: Any) -> None:
    """Refuse a name that is no text, and a simulator that cannot be called."""
    if not isinstance(name, str):
        raise TypeError(f"name is {shown(name)}; it must be a text, the name of the observed variable")
    if not callable(fn) or isinstance(fn, type):
        raise TypeError(f"fn is {shown(fn)}; give the simulator, a function `fn(rng, *params, size)`")


def _tensor(name: str, place: int, parameter: Any) -> Any:
    try:
        if isinstance(parameter, bool):
            raise TypeError("a truth value")
        return pt.as_tensor(parameter)
    except Exception:
        raise TypeError(
            f"parameter {place} of the simulator {name!r} is {shown(parameter)}; give a variable of the "
            "model, a number or an array of numbers"
        ) from None


def refuse_without_order(name: str, observed: Any, wanted: str) -> None:
    """Refuse observed values whose order is not that of a simulator: a dict or a set."""
    if isinstance(observed, Mapping | Set):
        names = f", here by the names {list(observed)}" if isinstance(observed, Mapping) else ""
        raise TypeError(
            f"the observed value of {name!r} is a {type(observed).__name__}{names}; give a list or an array "
            f"of {wanted}"
        )


def _in_order_of_coords(name: str, observed: Any, dims: Any) -> np.ndarray:
    """Observed values as numbers, what is labelled in the order of the coords of its dimension."""
    model = pm.Model.get_context(error_if_none=False)
    dim = dims if isinstance(dims, str) or dims is None or len(dims) != 1 else dims[0]
    coords = model.coords.get(dim) if model is not None and isinstance(dim, str) else None
    if isinstance(observed, Set) or coords is None:
        wanted = (
            "the statistics, in the order in which the simulator returns them, or `dims=` with their names "
        )
        refuse_without_order(name, observed, f"{wanted}as coords")
    of = f"the coords of its dims {dim!r}"
    return in_order(f"the observed value of {name!r}", observed, texts(coords), of, gaps=True)


class _WithoutLength:
    """A simulator's function without the last parameter, which only carries the vector's length."""

    def __init__(self, fn: Callable[..., np.ndarray]) -> None:
        self.fn = fn
        self.__name__ = getattr(fn, "__name__", "fn")
        try:
            parameters = list(inspect.signature(fn).parameters.values())
        except (TypeError, ValueError):
            return
        # What `inspect.signature` shows of this object: the function's own, with that parameter put in.
        carrier = inspect.Parameter("zeros_of_its_length", inspect.Parameter.POSITIONAL_ONLY)
        positional = [
            p.replace(kind=inspect.Parameter.POSITIONAL_ONLY)
            for p in parameters
            if p.kind <= p.POSITIONAL_OR_KEYWORD
        ]
        rest = [p for p in parameters if p.kind > p.POSITIONAL_OR_KEYWORD]
        if positional:
            positional.insert(len(positional) - 1, carrier.replace(default=positional[-1].default))
            self.__signature__ = inspect.Signature([*positional, *rest])

    def __call__(self, rng: np.random.Generator, *args: Any) -> np.ndarray:
        *params, _, size = args
        return self.fn(rng, *params, size)


def function_of(op: Any) -> Callable[..., np.ndarray]:
    """The function that a simulator was made of, as its user wrote it."""
    function = type(op).__dict__["fn"]
    return function.fn if isinstance(function, _WithoutLength) else function


# --- simulators of data sets ---


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
