"""Bandwidths from the data."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import pdist

from pymc_kbr.arrays.scaling import nonzero, unit_deviations
from pymc_kbr.arrays.weighted import spread_out_varied
from pymc_kbr.kernels.kernel import Gaussian


def median_heuristic(points: np.ndarray, most: int = 1000) -> float:
    """The median of the pairwise distances, zeros of the diagonal left out.

    Parameters
    ----------
    points : ndarray of shape (n, d)
    most : int
        Rows used, evenly spread over the table.

    Raises
    ------
    ValueError
        If all rows coincide, or lie so close that squares of their distances are no floats.

    Notes
    -----
    Where more than half of the pairs coincide, as with counts, it is the median of the others.
    """
    distances = pdist(points[spread_out_varied(points, most)])
    median = float(np.median(distances))
    if median == 0:  # most pairs coincide, as with counts: the others tell about the scale
        apart = distances[distances > 0]
        if not len(apart):
            raise ValueError(
                "all rows coincide, or lie so close that squares of their distances are no floats; no "
                "bandwidth can be taken from them"
            )
        median = float(np.median(apart))
    return median


def parameter_kernel(
    parameters: np.ndarray, bandwidth: float | None = None, deviation: np.ndarray | None = None
) -> Gaussian:
    """The kernel on parameters in which embeddings are compared.

    Parameters
    ----------
    parameters : ndarray of shape (n, p)
    bandwidth : float, optional
        In standard deviations of each parameter over the table; where left out, the median heuristic
        on the standardised parameters.
    deviation : ndarray of shape (p,), optional
        The standard deviations, where they are known from more rows than these.

    Notes
    -----
    A bandwidth at the scale of the prior compares distributions by their location and spread first.
    Kernel regression estimates these well; it does not estimate what is much finer than its own
    bandwidth on the statistics, and a narrow kernel here would take its errors for features.
    """
    deviation = unit_deviations(parameters) if deviation is None else nonzero(deviation)
    if bandwidth is None:
        scaled = parameters / deviation
        # Of parameters that do not vary any bandwidth gives the same kernel.
        bandwidth = median_heuristic(scaled) if np.any(np.ptp(scaled, axis=0) > 0) else 1.0
    return Gaussian(tuple((bandwidth * deviation).tolist()))
