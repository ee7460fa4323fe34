"""The colours of all pictures, of M. Okabe and K. Ito, with dashes and markers."""

from __future__ import annotations

from typing import Any

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
"""Of lines, in their order: told apart where colours are not."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h")
"""Of lines, in their order."""


def line_style(number: int) -> dict[str, Any]:
    """Colour and dashes of a picture's line, by its number from zero."""
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
