"""Variables of a model as the parameters of a likelihood: one set of them, or one a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytensor
from pytensor import tensor as pt
from pytensor.graph.basic import Variable

from pymc_kbr.simulation.model.read import QUICK
from pymc_kbr.tables.columns import Columns


@dataclass(frozen=True, eq=False)
class ParameterRows:
    """Parameters as a matrix.

    Parameters
    ----------
    theta : Variable
        Shape (g, p).
    groups : int, optional
        g, where the parameters were given in batches; None for one set, where g = 1.
    """

    theta: Variable
    groups: int | None


def parameter_rows(
    name: str, parameters: Sequence[Any], size: int, columns: Columns | None = None
) -> ParameterRows:
    """Put parameters side by side, in the order of the columns that a likelihood was fitted to.

    Parameters
    ----------
    name : str
        Of the variable that is being made, for messages.
    parameters : sequence of tensors, or of one dict of str to tensor
    size : int
        Number p of columns.
    columns : Columns, optional
        Names and shapes of the table's parameters.

    Raises
    ------
    TypeError
        If one is no tensor and no numbers.
    ValueError
        If there are too few or too many, their names or order are not those of `columns`, or their shapes
        cannot be put together.
    """
    ordered = _in_order(name, parameters, columns)
    if not ordered:
        raise ValueError(
            f"the learned simulator {name!r} has no parameters; pass the {size} that its likelihood has"
        )
    tensors = [_tensor(name, place, parameter) for place, parameter in enumerate(ordered)]
    shapes = _shapes(tensors)
    cores = _core_dimensions(name, shapes, size, columns)
    widths = [_product(shape[len(shape) - core :]) for shape, core in zip(shapes, cores, strict=True)]
    if sum(widths) != size:
        raise ValueError(
            f"the parameters of {name!r}, of shapes {shapes}, are {sum(widths)} columns; its likelihood was "
            f"fitted to {size}; pass all of them, each a scalar or, for g groups, of shape (g,), in the "
            "order of the table's columns"
        )
    lengths = {shape[0] for shape, core in zip(shapes, cores, strict=True) if len(shape) > core}
    # A batch of one is the same for all groups.
    if len(lengths - {1}) > 1:
        raise ValueError(
            f"the parameters of {name!r} have the shapes {shapes}: batches of {sorted(lengths)} groups; "
            "all must have the same number of groups, or be the same for all groups"
        )
    batched = [len(shape) > core for shape, core in zip(shapes, cores, strict=True)]
    longest = next(
        (t for t, s, b in zip(tensors, shapes, batched, strict=True) if b and s[0] == max(lengths)), None
    )
    # Its length as a variable, since that of `pm.Data` may change.
    count = 1 if longest is None else longest.shape[0]
    parts = [
        pt.broadcast_to(t.reshape((t.shape[0] if b else 1, width)), (count, width))
        for t, b, width in zip(tensors, batched, widths, strict=True)
    ]
    theta = pt.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    return ParameterRows(theta, max(lengths) if lengths else None)


def _tensor(name: str, place: int, parameter: Any) -> Variable:
    try:
        return pt.as_tensor(parameter)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(
            f"parameter {place} of {name!r} is {parameter!r}; it must be a random variable of the model, a "
            "function of such, or numbers"
        ) from error


def _in_order(name: str, parameters: Sequence[Any], columns: Columns | None) -> list[Any]:
    expected = None if columns is None else [variable.name for variable in columns.variables]
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        given = dict(parameters[0])
        if expected is None:
            raise ValueError(
                f"the parameters of {name!r} are given by the names {list(given)}, and those of the "
                "likelihood are not known; pass the table that it was fitted to as `table`, or the "
                "parameters in its order"
            )
        if set(given) != set(expected):
            raise ValueError(
                f"the parameters of {name!r} are given by the names {list(given)}; the table has {expected}"
            )
        return [given[each] for each in expected]
    if expected is None:
        return list(parameters)
    if len(parameters) != len(expected):
        raise ValueError(
            f"{name!r} is given {len(parameters)} parameters; the table that its likelihood was fitted to "
            f"has {len(expected)}: {expected}"
        )
    names = [getattr(parameter, "name", None) for parameter in parameters]
    if any(
        # PyMC puts the names of surrounding models before a variable's own.
        mine is not None and mine.split("::")[-1] != yours
        for mine, yours in zip(names, expected, strict=True)
    ):
        raise ValueError(
            f"the parameters of {name!r} are {names} in this order; those of the table are {expected}; pass "
            "them in that order, or, where the names are meant to differ, as a dict by the table's names"
        )
    return list(parameters)


def _core_dimensions(
    name: str, shapes: list[tuple[int, ...]], size: int, columns: Columns | None
) -> list[int]:
    """How many of each parameter's dimensions belong to one set; the one before is that of groups."""
    if columns is not None:
        cores = [len(variable.shape) for variable in columns.variables]
        for shape, core, variable in zip(shapes, cores, columns.variables, strict=True):
            if shape[len(shape) - core :] != variable.shape or len(shape) not in (core, core + 1):
                raise ValueError(
                    f"the parameter {variable.name!r} of {name!r} has the shape {shape}; the table's has "
                    f"{variable.shape}; it must be this, or this after a first dimension of groups"
                )
        return cores
    dimensions = [len(shape) for shape in shapes]
    if max(dimensions) > 2:
        raise ValueError(
            f"the parameters of {name!r} have the shapes {shapes}; they must be scalars, of shape (g,) or "
            "(g, k)"
        )
    if max(dimensions) == 2:
        return [max(dimension - 1, 0) for dimension in dimensions]
    # As many as there are columns: each is one, so that a dimension can only be that of groups.
    return [0] * len(shapes) if len(shapes) == size else dimensions


def _shapes(tensors: list[Variable]) -> list[tuple[int, ...]]:
    if all(None not in tensor.type.shape for tensor in tensors):
        return [tensor.type.shape for tensor in tensors]
    values = pytensor.function([], [tensor.shape for tensor in tensors], mode=QUICK)()
    return [tuple(int(length) for length in value) for value in values]


def _product(lengths: tuple[int, ...]) -> int:
    product = 1
    for length in lengths:
        product *= length
    return product
