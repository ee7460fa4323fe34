"""What a problem is: a PyMC model written twice, with a simulator and with the likelihood it stands for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

Exact = dict[str, tuple[Any, ...]]
"""Posterior means and deviations of each variable, in its shape, and the means' Monte Carlo error over the
deviation where there is one."""

PROBLEMS: dict[str, Problem] = {}
"""By name, in the order of the table."""


@dataclass(frozen=True)
class Problem:
    """A model whose posterior is known.

    Parameters
    ----------
    name, kind : str
    about : str
        What is observed, in a line.
    write : callable
        ``write(simulated)`` adds the variables to the model that is open: with `pm.Simulator` where
        `simulated`, else with the exact likelihood of the same statistics in the same place.
    exact : callable, optional
        Means and deviations by a sum, a grid or another way than sampling `write(False)`.
    how : str
        That way, or "NUTS".
    """

    name: str
    kind: str
    about: str
    write: Callable[[bool], None]
    exact: Callable[[], Exact] | None
    how: str

    def model(self, simulated: bool = True) -> pm.Model:
        """The model, or its twin with the exact likelihood."""
        with pm.Model() as made:
            self.write(simulated)
        return made


def problem(
    kind: str, exact: Callable[[], Exact] | None = None, how: str = "NUTS"
) -> Callable[[Callable[[bool], None]], Callable[[bool], None]]:
    """Enter a function that writes a model under its own name; its docstring says what is observed."""

    def enter(write: Callable[[bool], None]) -> Callable[[bool], None]:
        name = write.__name__
        assert name not in PROBLEMS, name
        PROBLEMS[name] = Problem(name, kind, (write.__doc__ or "").strip(), write, exact, how)
        return write

    return enter


def scalars(name: str, shape: tuple[int, ...]) -> list[str]:
    """Names of a variable's entries."""
    return [name + (f"[{','.join(map(str, at))}]" if at else "") for at in np.ndindex(*shape)]


def moments(log_density: np.ndarray, **axes: np.ndarray) -> Exact:
    """Means and deviations of a density on a grid of equally spaced values.

    Parameters
    ----------
    log_density : ndarray of the axes' lengths, in their order
    **axes : ndarray
        Values of each variable.
    """
    density = np.exp(log_density - log_density.max())
    found: Exact = {}
    for place, (name, values) in enumerate(axes.items()):
        others = tuple(i for i in range(density.ndim) if i != place)
        weights = density.sum(axis=others) / density.sum()
        mean = weights @ values
        found[name] = (mean, np.sqrt(weights @ (values - mean) ** 2))
    return found
