"""The numbers and kernels with which a filter runs."""

from __future__ import annotations

from dataclasses import dataclass

from pymc_kbr.kernels import Kernel


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
