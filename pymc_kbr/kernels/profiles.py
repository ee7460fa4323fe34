"""Radial profiles of smoothing kernels: functions of the distance in bandwidths."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def gaussian(distance: np.ndarray) -> np.ndarray:
    """exp(-u^2 / 2)."""
    return np.exp(-0.5 * distance**2)


def epanechnikov(distance: np.ndarray) -> np.ndarray:
    """1 - u^2 inside one bandwidth, zero outside."""
    return np.maximum(1 - distance**2, 0)


def top_hat(distance: np.ndarray) -> np.ndarray:
    """One up to one bandwidth, edge included, zero outside."""
    return (distance <= 1).astype(float)


PROFILES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "gaussian": gaussian,
    "epanechnikov": epanechnikov,
    "top_hat": top_hat,
}
