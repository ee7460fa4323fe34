"""Settings in closed form from the training sequence, given a kernel: eta, and the transition's ridge."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_kbr.arrays.subsample import spread_out, spread_out_by_weight
from pymc_kbr.embedding.density_ratio import RATIO_REGULARISATIONS, leave_one_out_scores
from pymc_kbr.filtering.transitions import Regression
from pymc_kbr.gram.kept import KeptGram
from pymc_kbr.kernels import Kernel
from pymc_kbr.regression.leave_one_out import choose_kernel_and_ridge

BELIEFS = 4
"""Training times whose predictions stand for the beliefs that a filter meets."""

ROWS_FOR_ETA = 300
"""Rows on which eta is chosen."""


def transition_ridge(given: np.ndarray, wanted: np.ndarray, kernel: Kernel, centred: bool) -> float:
    """Lambda' with the smallest leave-one-out error of the conditional mean of `wanted` given `given`.

    Parameters
    ----------
    given : ndarray of shape (m, q)
        States, and controls; or next states, for the step back.
    wanted : ndarray of shape (m, p)
    kernel : Kernel
        On what is given.
    centred : bool

    Returns
    -------
    float
        As in G + m lambda' I: see `regression.leave_one_out`.
    """
    return choose_kernel_and_ridge(given, wanted, [kernel], centred=centred).ridge / len(given)


def predictions(
    states: np.ndarray, following: np.ndarray, kernel: Kernel, regularisation: float, centred: bool
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Beliefs one step ahead of some training states: draws and their weights, of either sign.

    Parameters
    ----------
    states, following : ndarray of shape (m, p)
        Training transitions.
    """
    rows = spread_out(len(states), ROWS_FOR_ETA)
    before, after = states[rows], following[rows]
    regression = Regression(KeptGram.of(kernel, before), regularisation, centred)
    at = before[spread_out(len(before), BELIEFS)]
    return [(after, regression(values, 1.0)) for values in kernel(before, at).T]


def prior_ridge(
    states: np.ndarray,
    beliefs: Sequence[tuple[np.ndarray, np.ndarray]],
    kernel: Kernel,
    centred: bool,
    regularisations: Sequence[float] = RATIO_REGULARISATIONS,
) -> float:
    """Eta with the smallest leave-one-out score of KuLSIF, summed over beliefs.

    Parameters
    ----------
    states : ndarray of shape (n, p)
        Observed training states: the denominator.
    beliefs : sequence of pair of ndarray
        Points and weights of each: the numerator.
    """
    theta = states[spread_out(len(states), ROWS_FOR_ETA)]
    scores = np.zeros(len(regularisations))
    for points, weights in beliefs:
        # KuLSIF's score is of draws: a signed belief is one of draws that count for or against.
        rows, counts = spread_out_by_weight(np.abs(weights), ROWS_FOR_ETA)
        a = np.sign(weights[rows]) * counts
        if a.sum() > 0:  # a belief of no mass has no ratio
            scores += leave_one_out_scores(kernel, theta, points[rows], regularisations, centred, a / a.sum())
    return float(regularisations[int(np.argmin(scores))])
