"""Simulators that return a vector of statistics."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
import pymc as pm
from pytensor import tensor as pt

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import in_order, texts
from pymc_kbr.arrays.refusals import shown


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
            f"the signature {kwargs['signature']!r} is given; `vector_simulator` writes it itself, "
            "from the shapes of the parameters and of one vector of statistics: leave it out, or take "
            "`pm.Simulator`"
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
