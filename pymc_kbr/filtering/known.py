"""A transition that is known: a function, or a PyMC model of one step."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import shown


@dataclass(frozen=True, eq=False)
class DrawnTransition:
    """Draws of next states in the filter's scale.

    Parameters
    ----------
    function : callable
        From states (k, p), controls (k, c) where it takes them, and a generator to next states (k, p).
    controlled : bool
    centre, scale : ndarray of shape (p,)
        Of the states.
    unscale_controls : callable
        From scaled controls (c,) to those that the user knows.
    draws : int
        For each state.
    seed : int
        The same draws of noise at each step, so that a filter run twice gives the same.
    """

    function: Callable[..., Any]
    controlled: bool
    centre: np.ndarray
    scale: np.ndarray
    unscale_controls: Callable[[np.ndarray], np.ndarray]
    draws: int
    seed: int

    def __call__(self, control: np.ndarray | None, states: np.ndarray) -> np.ndarray:
        """Draws (n, draws, p), scaled, of the states after scaled states (n, p).

        Raises
        ------
        ValueError
            If the function returns another shape, NaN or infinity.
        """
        n, p = states.shape
        rows = np.repeat(states * self.scale + self.centre, self.draws, axis=0)
        given: list[Any] = [rows]
        if self.controlled:
            assert control is not None
            known = self.unscale_controls(control)
            given.append(np.tile(known, (len(rows), 1)))  # the function may write into what it is given
        # The same seed at each step: a filter is a function of the observations.
        found = np.asarray(self.function(*given, np.random.default_rng(self.seed)), dtype=float)
        if found.shape != rows.shape:
            raise ValueError(
                f"the transition function returned shape {found.shape} for states of shape "
                f"{rows.shape}; it must "
                "return one next state for each row"
            )
        bad = ~np.isfinite(found).all(axis=1)
        if np.any(bad):
            raise ValueError(
                f"the transition function returned NaN or infinity for {bad.sum()} of {len(rows)} "
                "states, the "
                f"first of them {rows[np.flatnonzero(bad)[0]].tolist()}; it must return a finite next "
                "state for "
                "every training state"
            )
        return ((found - self.centre) / self.scale).reshape(n, self.draws, p)


def check_transition(transition: Any, controlled: bool) -> Callable[..., Any]:
    """A transition as a function of states, controls where there are some, and a generator.

    Raises
    ------
    TypeError
        If it is neither a function nor a PyMC model, or takes other arguments.
    """
    if hasattr(transition, "free_RVs") and hasattr(transition, "named_vars"):
        from pymc_kbr.simulation.one_step import OneStep

        return OneStep(transition, controlled)
    if not callable(transition):
        raise TypeError(
            f"transition is {shown(transition)}; give a function of states (k, p) and a generator that "
            "returns next "
            "states (k, p), or a PyMC model of one step"
        )
    wanted = 3 if controlled else 2
    try:
        inspect.signature(transition).bind(*[None] * wanted)
    except ValueError:  # a compiled function tells nothing of its arguments
        return transition
    except TypeError:
        arguments = "states, controls and a generator" if controlled else "states and a generator"
        raise TypeError(f"the transition function must take {wanted} arguments: {arguments}") from None
    return transition
