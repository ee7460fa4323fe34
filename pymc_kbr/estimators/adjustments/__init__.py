"""Regression adjustments, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.estimators.adjustments.adjustment import (
    Adjustment,
    JointNeighbours,
    KernelRidgeAdjustment,
    LocalLinearAdjustment,
    NoAdjustment,
)

ADJUSTMENTS: dict[str, Callable[[], Adjustment]] = {
    "none": NoAdjustment,
    "kernel_ridge": KernelRidgeAdjustment,
    "heteroscedastic_kernel_ridge": lambda: KernelRidgeAdjustment(heteroscedastic=True),
    "local_linear": LocalLinearAdjustment,
    "heteroscedastic_local_linear": lambda: LocalLinearAdjustment(heteroscedastic=True),
    "joint_neighbours": JointNeighbours,
}
"""The name of each adjustment."""


def make_adjustment(adjustment: str | Adjustment) -> Adjustment:
    """An adjustment from its name, with its defaults, or the given one."""
    if isinstance(adjustment, Adjustment):
        return adjustment
    if not isinstance(adjustment, str):
        raise TypeError(
            f"adjustment is {shown(adjustment)}; give an adjustment, or one of the names "
            f"{', '.join(ADJUSTMENTS)}"
        )
    if adjustment not in ADJUSTMENTS:
        raise ValueError(f"there is no adjustment {adjustment!r}; the names are {', '.join(ADJUSTMENTS)}")
    return ADJUSTMENTS[adjustment]()


__all__ = [
    "ADJUSTMENTS",
    "Adjustment",
    "JointNeighbours",
    "KernelRidgeAdjustment",
    "LocalLinearAdjustment",
    "NoAdjustment",
    "make_adjustment",
]
