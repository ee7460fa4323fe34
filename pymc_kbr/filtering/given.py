"""What a user fixed of a filter's settings."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pymc_kbr.kernels import FAMILIES, Kernel, median_heuristic


@dataclass(frozen=True)
class GivenSettings:
    """What a user fixed; what is None is chosen. Kernels are names of families or kernels themselves."""

    rule: str
    state_kernel: str | Kernel
    observation_kernel: str | Kernel
    control_kernel: str | Kernel
    state_bandwidth: float | None
    observation_bandwidth: float | None
    regularisation: float | None
    prior_regularisation: float | None
    transition_regularisation: float | None
    backward_regularisation: float | None


FREE = tuple(field.name for field in fields(GivenSettings))[1:]
"""What may be left to be chosen."""


def of_family(kernel: str | Kernel, bandwidth: float | None, scale: float, points: np.ndarray) -> Kernel:
    """A kernel by its family's name and bandwidth, or a multiple of the median; or as it is given."""
    if not isinstance(kernel, str):
        return kernel
    if bandwidth is None:
        # Of points that are all the same any bandwidth gives the same kernel.
        varies = bool(np.any(np.ptp(points, axis=0) > 0))
        bandwidth = scale * (median_heuristic(points) if varies else 1.0)
    return FAMILIES[kernel](float(bandwidth))
