"""A PyMC model of one time step as a function from states to draws of the next ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.simulation.model.graphs import CannotBatch, rows_given

PREVIOUS, STATE, CONTROLS = "previous", "state", "controls"
"""What a model of one step calls the state before, the one after, and what acts in between."""


class OneStep:
    """Draws of the next state from a PyMC model of one step."""

    def __init__(self, model: pm.Model, controlled: bool = False, parameters: Any = ()) -> None:
        names = [PREVIOUS, *([CONTROLS] if controlled else [])]
        for name in (*names, STATE):
            if name not in model.named_vars:
                raise ValueError(
                    f"the model of one step has no variable {name!r}, only {sorted(model.named_vars)}; it "
                    f"needs pm.Data({PREVIOUS!r}, ...) for the state before, a variable {STATE!r} for the "
                    "state after" + (f" and pm.Data({CONTROLS!r}, ...)" if controlled else "")
                )
            if model.named_vars[name].ndim != 1:
                raise ValueError(
                    f"{name!r} of the model of one step has {model.named_vars[name].ndim} dimensions; it "
                    "must be a vector"
                )
        for name in names:
            if not hasattr(model.named_vars[name], "get_value"):
                raise TypeError(
                    f"{name!r} of the model of one step is no pm.Data; its values are to be replaced"
                )
        if CONTROLS in model.named_vars and not controlled:
            raise ValueError(f"the model of one step has {CONTROLS!r}, and no controls are given to fit")
        self._parameters = _parameters_of(model, parameters)
        given, wanted = [model.named_vars[name] for name in names], [model.named_vars[STATE]]
        given[1:1] = self._parameters
        try:
            self._program, self._batched = rows_given(wanted, given, True), True
        except CannotBatch:
            self._program, self._batched = rows_given(wanted, given, False), False
        self._call = self._program.compile()
        self._types = [variable.dtype for variable in given]

    def __call__(self, states: np.ndarray, *rest: Any) -> np.ndarray:
        """Draws (k, p) of the states after states (k, p)."""
        # Then parameters (k, q), controls (k, c), where there are some, and a generator.
        *more, rng = rest
        if self._parameters:
            values, *more = more
            ends = np.cumsum([_size(v) for v in self._parameters])[:-1]
            parts = np.split(np.asarray(values), ends, axis=1)
            more[:0] = [
                part.reshape(len(part), *v.type.shape)
                for part, v in zip(parts, self._parameters, strict=True)
            ]
        rows = [np.asarray(r, dtype=t) for r, t in zip((states, *more), self._types, strict=True)]
        # Of their own, since a compiled function moves on those that it is given.
        generators = rng.spawn(len(self._program.generators))
        if self._batched:
            return np.asarray(self._call(*generators, *rows)[0])
        return np.array([self._call(*generators, *(r[i] for r in rows))[0] for i in range(len(states))])

    def prior(self, draws: int, seed: int) -> tuple[np.ndarray, tuple[str, ...]]:
        """Draws (draws, q) of the parameters, a column for each entry, and the columns' names."""
        found = pm.draw(self._parameters, draws=draws, random_seed=seed)
        names: list[str] = []
        for variable in self._parameters:
            alone, name = not variable.type.shape, str(variable.name)
            names += [name] if alone else [f"{name}[{i}]" for i in range(_size(variable))]
        columns = [np.asarray(values, dtype=float).reshape(draws, -1) for values in found]
        return np.hstack(columns), tuple(names)


def _size(variable: Any) -> int:
    return int(np.prod(variable.type.shape))


def _parameters_of(model: pm.Model, names: Any) -> list[Any]:
    """Random variables of a model of one step that are the same at all steps."""
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not all(isinstance(name, str) for name in names)
    ):
        raise TypeError(
            f"the parameters of a model of one step are {shown(names)}; give a list of names of its random "
            "variables"
        )
    free = {variable.name: variable for variable in model.free_RVs if variable.name != STATE}
    for name in names:
        if name not in free:
            raise ValueError(
                f"the model of one step has no random variable {name!r} that may be a parameter, only "
                f"{sorted(free)}"
            )
        if None in free[name].type.shape:
            raise ValueError(f"the shape of {name!r} is unknown; give it a shape of fixed numbers")
    return [free[name] for name in names]
