"""The estimators among which is chosen where none are named."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Rejection
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY
from pymc_kbr.estimators.likelihood.choice import are_few


def default_candidates(
    n: int,
    d: int = 1,
    *,
    heavy: bool = False,
    alike: bool = False,
    dependent: int | None = None,
    few: int = MOST_SPARINGLY,
    most_for_curves: int = 250,
    # As `Adjusted` accepts by default.
    accepted_share: float = 0.3,
    most_accepted: int = 10_000,
) -> tuple[list[Estimator], list[Estimator]]:
    """Those that are tried of n rows of d statistics, and fallbacks, by `curved_summaries` of the tests."""

    def accepted(rows: float, scale: Any) -> Rejection:
        count = int(np.clip(rows, 20, n))
        if count <= n // 2:
            return Rejection(count, kernel="epanechnikov", scale=scale)
        return Rejection(
            1.0, most=count, kernel="epanechnikov", scale=scale
        )  # may be fitted to fewer rows again

    own: Any = "transformed" if heavy else True
    estimates: Any = "joint_posterior_mean" if d <= most_for_curves else "linear_posterior_mean"
    same_law: list[Estimator] = [KernelLikelihood("exchangeable")] if alike else []
    if d <= few:
        likelihoods = [*same_law, KernelLikelihood()]
    elif are_few(dependent, d):
        likelihoods = [*same_law, KernelLikelihood(scale="dependent")]
    elif d > most_for_curves and not alike:
        # In one unit the density of held-out rows says which form it is.
        likelihoods = [KernelLikelihood(scale=False), KernelLikelihood("location_scale", scale=estimates)]
    else:
        likelihoods = [
            *(same_law or [KernelLikelihood("series", scale=False)]),
            KernelLikelihood("diagonal_scale", scale=d <= most_for_curves),
            KernelLikelihood("location_scale", scale=estimates),
        ]
    nearest = Adjusted(accepted(min(accepted_share * n, most_accepted), own), "kernel_ridge")
    of_estimates = Adjusted(accepted(0.1 * n, estimates), "heteroscedastic_local_linear")
    regression, other = (nearest, of_estimates) if d <= few else (of_estimates, nearest)
    fallbacks: list[Estimator] = [other, Rejection(1.0, most=100, kernel="top_hat", scale=own)]
    if 0.3 * n >= 2 * (d + 1) + 1:  # enough for a slope of each statistic: the farthest row has no weight
        fallbacks.insert(1, Adjusted(accepted(0.3 * n, own), "local_linear"))
    return [*likelihoods, regression], fallbacks


# --- heavy tails ---


def heavy_tailed(statistics: np.ndarray, beyond: float = 6.0) -> np.ndarray:
    """Which columns of rows (n, d) have a heavy tail on either side, bool of shape (d,)."""
    # The outermost half per cent is 2.6 halves of the central 68% away of a normal, 5.6 of an exponential
    # one.
    lowest, lower, middle, upper, highest = np.quantile(statistics, [0.005, 0.16, 0.5, 0.84, 0.995], axis=0)
    width = (upper - lower) / 2
    return (width > 0) & (np.maximum(highest - middle, middle - lowest) > beyond * width)


def heavy_where_defined(statistics: np.ndarray, near: np.ndarray | None = None, most: int = 100) -> bool:
    """Whether a column of rows (n, d) has a heavy tail, and an observation (d,) is not below all rows."""
    # Above `most` statistics, to choose a curve for each would take as long as all else.
    if statistics.shape[1] > most or (near is not None and np.any(near < statistics.min(axis=0))):
        return False
    return bool(np.any(heavy_tailed(statistics)))
