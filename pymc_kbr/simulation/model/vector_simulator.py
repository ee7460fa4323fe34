"""Simulators that return a vector of statistics."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Set
from typing import Any

import numpy as np
import pymc as pm
from pytensor import tensor as pt

from pymc_kbr.arrays.arithmetic import default_arithmetic
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
        The observed statistics.
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
    if "signature" in kwargs:
        raise TypeError(
            f"the signature {kwargs['signature']!r} is given; `vector_simulator` writes it itself, "
            "from the shapes of the parameters and of one vector of statistics: leave it out, or take "
            "`pm.Simulator`"
        )
    if not params:
        raise ValueError(f"the simulator {name!r} has no parameters; pass the variables it depends on")
    value = observed if hasattr(observed, "eval") else _vector_of(name, observed)
    if value.ndim != 1:
        raise ValueError(
            f"the observed value of {name!r} has {value.ndim} dimensions; it must be one vector of statistics"
        )
    if not hasattr(observed, "eval") and value.size and np.all(np.isnan(value)):
        raise ValueError(
            f"all observed values of {name!r} are missing (NaN): they say nothing about the parameters; "
            "leave the variable out of the model, or give one of its values"
        )
    length = int(value.shape[0].eval()) if hasattr(observed, "eval") else len(value)
    tensors = [pt.as_tensor(p) for p in params]
    cores = ["(" + ",".join(f"p{i}_{axis}" for axis in range(t.ndim)) + ")" for i, t in enumerate(tensors)]
    signature = ",".join([*cores, "(k)"]) + "->(k)"
    return pm.Simulator(
        name,
        _WithoutLength(fn),
        *tensors,
        np.zeros(length),
        signature=signature,
        observed=observed,
        **kwargs,
    )


def _vector_of(name: str, observed: Any) -> np.ndarray:
    """The observed statistics as numbers; NaN where one is missing or masked."""
    if isinstance(observed, Mapping | Set):
        names = f", here by the names {list(observed)}" if isinstance(observed, Mapping) else ""
        raise TypeError(
            f"the observed value of {name!r} is a {type(observed).__name__}{names}; give a list or an array "
            "of the statistics, in the order in which the simulator returns them (their names can be the "
            "coords of `dims`)"
        )
    if isinstance(observed, np.ma.MaskedArray):  # PyMC takes what is masked for missing
        observed = np.ma.filled(observed.astype(float), np.nan)
    return as_rows(f"the observed value of {name!r}", observed)


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
