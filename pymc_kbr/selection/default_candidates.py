"""The estimators and settings among which is chosen where none are named."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Localised, Rejection
from pymc_kbr.estimators.adjusted import ACCEPTED, MOST_ACCEPTED
from pymc_kbr.estimators.adjustments import JointNeighbours
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY
from pymc_kbr.estimators.likelihood.choice import are_few

MOST_FOR_SLOPES = 20
"""Statistics above which joint neighbours, whose slopes are then costly, are tried late.

And last the localised conditional mean, which takes a tenth of the time. Up to as many it was never the best
on the twenty-four problems of `tests.statistical.race_problems`.

Above, regression estimates of the parameters are tried as statistics, too, and first.
"""

MOST_FOR_LIKELIHOOD = MOST_SPARINGLY
"""Statistics above which a learned likelihood would take the whole budget.

It is then tried in the form for many, as one conditional of a series, and as that of regression estimates; or
in place of the last two, as that of the few statistics that depend on the parameters.
"""

MOST_FOR_RELEVANCE = 100
"""Statistics above which learning their relevance would take the whole time budget, and is not tried."""


MOST_FOR_CURVED = 250
"""Statistics above which regression estimates are linear ones, without curves and kernel.

Figures by which these are taken below: `tests.statistical.curved_summaries` and `regression_estimates`.
"""

MOST_FOR_CURVES = 100
"""Statistics above which choosing a curve for each would take a tenth of the work, and is not tried."""


def default_candidates(
    n: int, d: int = 1, *, heavy: bool = False, alike: bool = False, dependent: int | None = None
) -> list[Estimator]:
    """The estimators and settings for n rows of d statistics, the most promising first."""

    def accepted(rows: float, scale: Any, kernel: str = "epanechnikov") -> Rejection:
        count = int(np.clip(rows, 20, n))
        if count <= n // 2:
            return Rejection(count, kernel=kernel, scale=scale)
        return Rejection(1.0, most=count, kernel=kernel, scale=scale)  # may be fitted to fewer rows again

    def linear(rows: float, scale: Any, adjustment: str = "local_linear") -> list[Estimator]:
        """None where rows are too few for a slope of each statistic, which it would refuse."""
        few = rows < 2 * (d + 1) + 1  # the farthest row has no weight
        return [] if few else [Adjusted(accepted(rows, scale), adjustment)]

    own: Any = "transformed" if heavy and d <= MOST_FOR_CURVES else True
    other: tuple[Any, ...] = ("relevance",) if d <= MOST_FOR_RELEVANCE else ()
    scales = (own, *(other if own is True else (True,)))
    estimated: Any = "joint_posterior_mean" if d <= MOST_FOR_CURVED else "linear_posterior_mean"
    estimates: list[Estimator] = [
        Adjusted(accepted(rows, estimated), "heteroscedastic_local_linear") for rows in (0.02 * n, 0.1 * n)
    ]
    of_one_law: list[Estimator] = [KernelLikelihood("exchangeable")] if alike else []
    of_many: list[Estimator] = [
        *of_one_law,
        KernelLikelihood("diagonal_scale", scale=d <= MOST_FOR_CURVED),
        *([] if alike else [KernelLikelihood("autoregressive", scale=False)]),
        KernelLikelihood("location_scale", scale=estimated),
    ]
    if are_few(dependent, d):
        of_many = [*of_one_law, KernelLikelihood(scale="dependent"), of_many[len(of_one_law)]]
    joint: list[Estimator] = [Adjusted(accepted(400, scale), JointNeighbours()) for scale in scales]
    joint.append(Adjusted(accepted(200, own), JointNeighbours()))
    candidates: list[Estimator] = [
        *([] if d <= MOST_FOR_SLOPES else estimates),
        *([] if d <= MOST_FOR_LIKELIHOOD else of_many),
        *(Adjusted(accepted(min(ACCEPTED * n, MOST_ACCEPTED), scale), "kernel_ridge") for scale in scales),
        *([*of_one_law, KernelLikelihood()] if d <= MOST_FOR_LIKELIHOOD else []),
        Adjusted(accepted(0.1 * n, own), "heteroscedastic_kernel_ridge"),
        *(joint if d <= MOST_FOR_SLOPES else []),
        *(one for scale in scales for one in linear(0.1 * n, scale)),
        *(Adjusted(accepted(0.1 * n, scale), "heteroscedastic_kernel_ridge") for scale in scales[1:]),
        *(accepted(100, scale, "top_hat") for scale in scales),
        Adjusted(accepted(n, own), "kernel_ridge"),
        Adjusted(accepted(min(ACCEPTED * n, MOST_ACCEPTED), own), "heteroscedastic_kernel_ridge"),
        *linear(0.1 * n, own, "heteroscedastic_local_linear"),
        *linear(0.3 * n, own),
        Adjusted(accepted(100, own, "top_hat"), "none", smoothing="global"),
        *([] if d <= MOST_FOR_SLOPES else [*joint, Localised(scale=own)]),
    ]
    return candidates


# --- heavy tails ---


HEAVY = 6.0
"""Distance of the outermost half per cent from the median, in halves of the central 68%, from which a tail is
heavy: 2.6 for a normal law, 5.6 for an exponential one.
"""


def heavy_tailed(statistics: np.ndarray) -> np.ndarray:
    """Which columns of rows (n, d) have a heavy tail on either side, bool of shape (d,)."""
    lowest, lower, middle, upper, highest = np.quantile(statistics, [0.005, 0.16, 0.5, 0.84, 0.995], axis=0)
    width = (upper - lower) / 2
    return (width > 0) & (np.maximum(highest - middle, middle - lowest) > HEAVY * width)


def heavy_where_defined(statistics: np.ndarray, near: np.ndarray | None = None) -> bool:
    """Whether a column of rows (n, d) has a heavy tail, and an observation (d,) is not below all rows."""
    if near is not None and np.any(near < statistics.min(axis=0)):
        return False
    return bool(np.any(heavy_tailed(statistics)))
