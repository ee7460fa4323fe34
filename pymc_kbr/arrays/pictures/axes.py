"""The axes that a plot draws on: those that were passed, or new ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pymc_kbr.arrays.pictures.pyplot import pyplot
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.users_line import users_line

P = ParamSpec("P")
Result = TypeVar("Result")


def drawn_on(ax: Any, count: int, size: tuple[float, float], *, below: bool = False) -> np.ndarray:
    """The axes to draw on."""
    # Shapes: returned: (count,).
    if ax is None:
        rows, columns = (count, 1) if below else (1, count)
        _, ax = pyplot().subplots(
            rows, columns, figsize=size, layout="constrained", squeeze=False, sharex=below
        )
    given = ax.ravel().tolist() if isinstance(ax, np.ndarray) else ax
    axes = np.empty(len(given) if isinstance(given, list | tuple) else 1, dtype=object)
    for place, axis in enumerate(given if isinstance(given, list | tuple) else [given]):
        axes[place] = axis
    wrong = [axis for axis in axes if not hasattr(axis, "plot")]
    if wrong:
        raise TypeError(f"ax is {shown(wrong[0])}; give Axes of matplotlib, one for each panel")
    if len(axes) != count:
        raise ValueError(f"{len(axes)} axes were given; {count} are needed")
    return axes


def once_axes(plot: Callable[P, Result]) -> Callable[P, Result]:
    """Take `axes=`, which `ax=` was called in version 0.1, with a warning until version 0.4."""

    @wraps(plot)
    def taking(*given: P.args, **named: P.kwargs) -> Result:
        if "axes" in named:
            if named.get("ax") is not None:
                raise TypeError("`ax` and `axes` were given; they are the same: write `ax`")
            warnings.warn(
                "`axes=` is called `ax=` now, and goes in 0.4", FutureWarning, stacklevel=users_line()
            )
            named["ax"] = named.pop("axes")
        return plot(*given, **named)

    return taking
