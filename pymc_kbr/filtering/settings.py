"""The numbers and kernels with which a filter runs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from pymc_kbr.kernels import FAMILIES, Kernel, median_heuristic


@dataclass(frozen=True)
class FilterSettings:
    """Kernels and regularisations of a filter, for weights of sum one.

    Parameters
    ----------
    state_kernel, observation_kernel : Kernel
        On scaled states and observations.
    regularisation : float
        Of the update: lambda of "iw_kbr", delta of "kbr".
    prior_regularisation : float
        eta, of the predicted belief's weights on the observed states: (G + n eta I)^-1.
    transition_regularisation : float
        lambda', of the transition: (G + m lambda' I)^-1.
    backward_regularisation : float
        lambda of the state given the next one, for smoothing.
    control_kernel : Kernel, optional
        On scaled controls.
    """

    state_kernel: Kernel
    observation_kernel: Kernel
    regularisation: float
    prior_regularisation: float
    transition_regularisation: float
    backward_regularisation: float = 1e-3
    control_kernel: Kernel | None = None

    def printed(self, rule: str, n: int) -> float:
        """The update's regularisation for weights whose mean is one, as Xu 2022, Algorithm 1, prints them.

        n lambda of "iw_kbr", n^2 delta of "kbr".
        """
        return self.regularisation * (n if rule == "iw_kbr" else n**2)


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
