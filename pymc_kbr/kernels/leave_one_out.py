"""The leave-one-out error of the conditional mean in closed form, and choices made by it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count

import numpy as np
from scipy.linalg import eigh
from threadpoolctl import threadpool_limits

from pymc_kbr.kernels.bandwidth import median_heuristic, parameter_kernel, spread_out
from pymc_kbr.kernels.gaussian import squared_distances

SCALES = tuple(2.0 ** np.arange(-2, 4))
"""Bandwidths that are tried, as multiples of the median heuristic."""

RIDGES = tuple(10.0 ** np.arange(-6.0, 3.0))
"""Ridges n * lambda that are tried."""

MOST_ROWS = 1000
"""Rows of the table on which the choice is made."""


class LeaveOneOut:
    """Leave-one-out residuals of the ridge regression ``(G + r I)^-1`` for any ridge r at once.

    Parameters
    ----------
    gram : ndarray of shape (n, n)
        G, positive semi-definite.
    targets : ndarray of shape (n, t)
        What is regressed; for the residuals of an embedding, a factor F of the parameters' Gram
        matrix F F'.

    Notes
    -----
    With K = G + r I, the residual of row i when it is left out is ``(K^-1 T)_i / (K^-1)_ii``. One
    eigendecomposition G = U diag(s) U' gives both for every ridge.
    """

    def __init__(self, gram: np.ndarray, targets: np.ndarray) -> None:
        self._values, self._vectors = eigh(gram, driver="evd")
        self._squares = self._vectors**2
        self._rotated = self._vectors.T @ targets

    def residuals(self, ridge: float) -> np.ndarray:
        """Residuals of every row, shape (n, t), each predicted from all the other rows."""
        inverse = 1 / (np.maximum(self._values, 0) + ridge)
        diagonal = self._squares @ inverse
        return (self._vectors @ (inverse[:, None] * self._rotated)) / diagonal[:, None]


@dataclass(frozen=True)
class Choice:
    """A bandwidth and ridge n * lambda, and the mean squared leave-one-out error that they reached."""

    bandwidth: float
    ridge: float
    error: float


def choose_bandwidth_and_ridge(
    statistics: np.ndarray,
    parameters: np.ndarray,
    bandwidth: float | None = None,
    ridge: float | None = None,
    most: int = MOST_ROWS,
) -> Choice:
    """The bandwidth and ridge with the smallest leave-one-out error of the conditional mean.

    Parameters
    ----------
    statistics : ndarray of shape (n, d)
        In the scale that the kernel will see.
    parameters : ndarray of shape (n, p)
    bandwidth, ridge : float, optional
        Given ones are kept and only the other is chosen. The ridge is n * lambda: as a number to
        be added to the Gram matrix's diagonal it holds for any number of rows, as the noise of a
        Gaussian process would.
    most : int
        Rows used, evenly spread over the table.

    Notes
    -----
    The error is that of the embedding: the mean squared distance, in the space of the kernel on the
    parameters, of the feature of each row's parameters from its embedding predicted by the others.
    """
    rows = spread_out(len(statistics), most)
    x = statistics[rows]
    with threadpool_limits(1, user_api="blas"):
        targets = embedding_targets(parameters[rows])
    squares = squared_distances(x)
    ridges = RIDGES if ridge is None else (ridge,)

    def best_ridge(s: float) -> Choice:
        left_out = LeaveOneOut(np.exp(-squares / (2 * s**2)), targets)
        errors = [float(np.mean(np.sum(left_out.residuals(r) ** 2, axis=1))) for r in ridges]
        return Choice(s, float(ridges[int(np.argmin(errors))]), min(errors))

    bandwidths = [scale * median_heuristic(x) for scale in SCALES] if bandwidth is None else [bandwidth]
    # Eigendecompositions of this size are done sooner side by side than each on all cores.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(cpu_count()) as threads:
        return min(threads.map(best_ridge, map(float, bandwidths)), key=lambda choice: choice.error)


def embedding_targets(parameters: np.ndarray) -> np.ndarray:
    """A factor F (n, t) of the parameters' centred Gram matrix (see `parameter_kernel`).

    F F' is that matrix but for eigenvalues below a thousandth of the largest, which hold no more of
    the posterior than noise and would only cost time.
    """
    gram = parameter_kernel(parameters)(parameters)
    gram -= gram.mean(axis=0)
    gram -= gram.mean(axis=1, keepdims=True)
    values, vectors = eigh(gram, driver="evd")
    large = values > 1e-3 * values[-1]
    return vectors[:, large] * np.sqrt(values[large])
