"""A PyMC model of one time step as a function from states to draws of the next ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

from pymc_kbr.simulation.model.graphs import CannotBatch, rows_given

PREVIOUS, STATE, CONTROLS = "previous", "state", "controls"
"""What a model of one step calls the state before, the one after, and what acts in between."""


class OneStep:
    """Draws of the next state from a PyMC model of one step."""

    def __init__(self, model: pm.Model, controlled: bool = False) -> None:
        names = [PREVIOUS, *([CONTROLS] if controlled else [])]
        for name in (*names, STATE):
            if name not in model.named_vars:
                raise ValueError(
                    f"the model of one step has no variable {name!r}, only {sorted(model.named_vars)}; "
                    "it needs "
                    f"pm.Data({PREVIOUS!r}, ...) for the state before, a variable {STATE!r} for the "
                    "state after" + (f" and pm.Data({CONTROLS!r}, ...)" if controlled else "")
                )
            if model.named_vars[name].ndim != 1:
                raise ValueError(
                    f"{name!r} of the model of one step has {model.named_vars[name].ndim} dimensions; "
                    "it must be "
                    "a vector"
                )
        for name in names:
            if not hasattr(model.named_vars[name], "get_value"):
                raise TypeError(
                    f"{name!r} of the model of one step is no pm.Data; its values are to be replaced"
                )
        if CONTROLS in model.named_vars and not controlled:
            raise ValueError(f"the model of one step has {CONTROLS!r}, and no controls are given to fit")
        given, wanted = [model.named_vars[name] for name in names], [model.named_vars[STATE]]
        try:
            self._program, self._batched = rows_given(wanted, given, True), True
        except CannotBatch:
            self._program, self._batched = rows_given(wanted, given, False), False
        self._call = self._program.compile()
        self._types = [variable.dtype for variable in given]

    def __call__(self, states: np.ndarray, *rest: Any) -> np.ndarray:
        """Draws (k, p) of the states after states (k, p); then controls (k, c), if any, and a generator."""
        *controls, rng = rest
        rows = [np.asarray(r, dtype=t) for r, t in zip((states, *controls), self._types, strict=True)]
        # Of their own, since a compiled function moves on those that it is given.
        generators = rng.spawn(len(self._program.generators))
        if self._batched:
            return np.asarray(self._call(*generators, *rows)[0])
        return np.array([self._call(*generators, *(r[i] for r in rows))[0] for i in range(len(states))])
