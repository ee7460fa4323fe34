"""The only import of matplotlib, which is needed for pictures alone."""

from __future__ import annotations

from typing import Any

from pymc_kbr.arrays.extras import brought_by


def pyplot() -> Any:
    """The module `matplotlib.pyplot`."""
    with brought_by("plots", "matplotlib"):
        import matplotlib.pyplot as plt
    return plt
