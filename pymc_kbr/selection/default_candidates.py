"""The estimators and settings among which is chosen where none are named."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Localised, Rejection
from pymc_kbr.estimators.adjusted import ACCEPTED, MOST_ACCEPTED
from pymc_kbr.estimators.adjustments import JointNeighbours

MOST_FOR_SLOPES = 20
"""Statistics above which joint neighbours, whose slopes are then costly, are tried late.

Above, regression estimates of the parameters are tried as statistics, too, and first.
"""

MOST_FOR_LIKELIHOOD = 20
"""Statistics above which a learned likelihood would take the whole budget, and is not tried."""

MOST_FOR_RELEVANCE = 100
"""Statistics above which learning their relevance would take the whole time budget, and is not tried."""


def default_candidates(n: int, d: int = 1) -> list[Estimator]:
    """The estimators and settings that are tried on n rows of d statistics, the most promising first."""

    def accepted(rows: float, scale: Any, kernel: str = "epanechnikov") -> Rejection:
        count = int(np.clip(rows, 20, n))
        if count <= n // 2:
            return Rejection(count, kernel=kernel, scale=scale)
        return Rejection(1.0, most=count, kernel=kernel, scale=scale)  # may be fitted to fewer rows again

    scales = (True, "relevance") if d <= MOST_FOR_RELEVANCE else (True,)
    estimates: list[Estimator] = [
        Adjusted(accepted(rows, "linear_posterior_mean"), "heteroscedastic_local_linear")
        for rows in (0.02 * n, 0.1 * n)
    ]
    joint: list[Estimator] = [Adjusted(accepted(400, scale), JointNeighbours()) for scale in scales]
    joint.append(Adjusted(accepted(200, True), JointNeighbours()))
    candidates: list[Estimator] = [
        *([] if d <= MOST_FOR_SLOPES else estimates),
        *(Adjusted(accepted(min(ACCEPTED * n, MOST_ACCEPTED), scale), "kernel_ridge") for scale in scales),
        *([KernelLikelihood()] if d <= MOST_FOR_LIKELIHOOD else []),
        Adjusted(accepted(0.1 * n, True), "heteroscedastic_kernel_ridge"),
        *(joint if d <= MOST_FOR_SLOPES else []),
        *(Adjusted(accepted(0.1 * n, scale), "local_linear") for scale in scales),
        *(Adjusted(accepted(0.1 * n, scale), "heteroscedastic_kernel_ridge") for scale in scales[1:]),
        *(accepted(100, scale, "top_hat") for scale in scales),
        Adjusted(accepted(n, True), "kernel_ridge"),
        Adjusted(accepted(min(ACCEPTED * n, MOST_ACCEPTED), True), "heteroscedastic_kernel_ridge"),
        Adjusted(accepted(0.1 * n, True), "heteroscedastic_local_linear"),
        Adjusted(accepted(0.3 * n, True), "local_linear"),
        Adjusted(accepted(100, True, "top_hat"), "none", smoothing="global"),
        *([] if d <= MOST_FOR_SLOPES else joint),
        Localised(),
    ]
    return candidates
