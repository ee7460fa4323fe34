"""The only import of matplotlib, which is needed for pictures alone."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """The module `matplotlib.pyplot`.

    Raises
    ------
    ImportError
        If matplotlib is not installed, with the extra that brings it.
    """
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "matplotlib":
            raise  # matplotlib is there, and something else is not
        raise ImportError(
            "matplotlib draws the pictures and is not installed; pip install 'pymc_kbr[plots]'"
        ) from error
    return plt
