"""Variables of a model as the parameters of a likelihood: one set of them, or one a group."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytensor
from pytensor import tensor as pt
from pytensor.graph.basic import Variable

from pymc_kbr.arrays.refusals import shown
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


class LearnedNames:
    """Names that a likelihood knows of its columns, and of the variables that these are entries of.

    Parameters
    ----------
    columns : sequence of str
        Such as "mean", or "effect[0]" for an entry of "effect".

    Attributes
    ----------
    places : dict of str to (int, int)
        The first column of each name, and how many it has.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.places = {column: (place, 1) for place, column in enumerate(self.columns)}
        entries = [list(columns) for _, columns in groupby(self.columns, lambda each: each.split("[")[0])]
        self._variables = [group[0].split("[")[0] for group in entries]
        # Of a data frame's columns any may be called anything.
        if len(set(self._variables)) < len(entries):
            self._variables = list(self.columns)
            return
        for variable, group in zip(self._variables, entries, strict=True):
            self.places[variable] = self.places[group[0]][0], len(group)

    def expected(self, given: Collection[str]) -> list[str]:
        """The names of a dict, in order: those of columns where it has one that is no variable's."""
        by_column = any(each in self.columns and each not in self._variables for each in given)
        return list(self.columns) if by_column else self._variables


def parameter_rows(
    name: str,
    parameters: Sequence[Any],
    size: int,
    columns: Columns | None = None,
    names: Sequence[str] | None = None,
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
    names : sequence of str, length p, optional
        Of the likelihood's columns, for where there is no table.

    Raises
    ------
    TypeError
        If one is no tensor and no numbers.
    ValueError
        If there are too few or too many, their names or order are not those of `columns`, one has a name
        that the likelihood has in another place, or their shapes cannot be put together.
    """
    known = LearnedNames(names) if columns is None and names is not None else None
    ordered = _in_order(name, parameters, columns, known)
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
    if known is not None:
        _check_places(name, parameters, widths, known)
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
            f"parameter {place} of {name!r} is {shown(parameter)}; it must be a random variable of the "
            "model, a function of such, or numbers"
        ) from error


def _in_order(
    name: str, parameters: Sequence[Any], columns: Columns | None, known: LearnedNames | None
) -> list[Any]:
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        return _of_dict(name, dict(parameters[0]), columns, known)
    if columns is None:
        return list(parameters)
    expected = [variable.name for variable in columns.variables]
    if len(parameters) != len(expected):
        raise ValueError(
            f"{name!r} is given {len(parameters)} parameters; the table that its likelihood was fitted to "
            f"has {len(expected)}: {expected}"
        )
    names = [_own_name(parameter) for parameter in parameters]
    if any(mine not in (None, yours) for mine, yours in zip(names, expected, strict=True)):
        raise ValueError(
            f"the parameters of {name!r} are {names} in this order; those of the table are {expected}; pass "
            "them in that order, or, where the names are meant to differ, as a dict by the table's names"
        )
    return list(parameters)


def _own_name(parameter: Any) -> str | None:
    """Of a named variable; PyMC puts the names of surrounding models before it."""
    name = getattr(parameter, "name", None) if isinstance(parameter, Variable) else None
    return None if name is None else str(name).split("::")[-1]


def _of_dict(
    name: str, given: dict[str, Any], columns: Columns | None, known: LearnedNames | None
) -> list[Any]:
    """Parameters that are given by names, in order."""
    if columns is not None:
        expected, owner = [variable.name for variable in columns.variables], "the table"
    elif known is not None:
        expected, owner = known.expected(given), "the likelihood"
    else:
        raise ValueError(
            f"the parameters of {name!r} are given by the names {list(given)}, and those of the "
            "likelihood are not known; pass the table that it was fitted to as `table`, or the "
            "parameters in its order"
        )
    if set(given) != set(expected):
        raise ValueError(
            f"the parameters of {name!r} are given by the names {list(given)}; {owner} has {expected}"
        )
    return [given[each] for each in expected]


def _check_places(name: str, parameters: Sequence[Any], widths: list[int], known: LearnedNames) -> None:
    """Refuse what has a name of the likelihood's in another place, or in a dict another width."""
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        expected = known.expected(parameters[0])
        if [known.places[each][1] for each in expected] != widths:
            raise ValueError(
                f"the parameters of {name!r} named {expected} are {widths} columns; those of the likelihood "
                f"are {[known.places[each][1] for each in expected]}: {list(known.columns)}"
            )
        return
    begin = 0
    for parameter, width in zip(parameters, widths, strict=True):
        mine = _own_name(parameter)
        if mine in known.places and known.places[mine][0] != begin:
            names = [_own_name(each) for each in parameters]
            raise ValueError(
                f"the parameters of {name!r} are {names} in this order; those of its likelihood are "
                f"{list(known.columns)}, and {mine!r} stands in another place; pass them in that order, or, "
                "where names are meant to differ, as a dict by the likelihood's names"
            )
        begin += width


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
