"""What all plots share: palette, axes, and the only import of matplotlib, which is needed for plots alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from pymc_kbr.arrays.extras import brought_by
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.users_line import users_line

BLACK, GREY, PAPER = "#000000", "#666666", "#ffffff"
BLUE, VERMILION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"

POSTERIOR, PRIOR, TRUTH = BLUE, "#c8c8c8", BLACK
"""The same in each picture: what was found, what was known before, what is right."""

OBSERVED, WRONG = VERMILION, VERMILION
"""The data, and what misses the truth."""

BAND, BARS, RULE = "#dcdcdc", "#bfbfbf", "#808080"
"""Where chance alone would lie; bars whose colour says nothing; lines of reference."""

SEQUENTIAL, DIVERGING = "cividis", "PuOr_r"
"""Colour maps, the first of which is monotone in lightness."""

COLOURS = (BLACK, BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY, GREY)
"""Of lines, in their order."""

DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 2, 2)))
"""Of lines, in their order: they differ where colours do not."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
"""Of lines, in their order."""


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of a picture's line, by its number from zero."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}


def pyplot() -> Any:
    """The module `matplotlib.pyplot`."""
    with brought_by("plots", "matplotlib"):
        import matplotlib.pyplot as plt
    return plt


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
