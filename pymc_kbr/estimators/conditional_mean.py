"""The conditional mean embedding on all rows, solved exactly."""

from __future__ import annotations

import os

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from pymc_kbr.estimators.base import Estimator, positive
from pymc_kbr.kernels import Gaussian, choose_bandwidth_and_ridge


class ConditionalMean(Estimator):
    """Kernel ridge regression of the parameters' features on the statistics.

    Parameters
    ----------
    bandwidth : float, optional
        Of the Gaussian kernel on the scaled statistics. Where left out, the multiple of the median
        heuristic with the smallest leave-one-out error.
    regularisation : float, optional
        lambda. Where left out, n * lambda is chosen together with the bandwidth.
    centred : bool
        Whether features are regressed about their mean over the rows, so that the weights sum to one
        and shrink towards the prior; otherwise they are those of the equation, and shrink towards zero.
    scale : bool
        Whether statistics are divided by their standard deviation in the table.
    parameter_bandwidth : float, optional
        Of the kernel on the parameters in which weights are projected onto the simplex, in standard
        deviations of each parameter over the table; the median heuristic where left out.

    Notes
    -----
    w = (G + n lambda I)^-1 k(x), eq. 1 of the localised draft, by Cholesky factorisation; with
    `centred`, (1 - sum w) / n is added to each weight. Bandwidth and ridge are chosen on at most
    1000 rows by the leave-one-out error in closed form.

    References
    ----------
    .. [1] L. Song, K. Fukumizu, A. Gretton, Kernel embeddings of conditional distributions, IEEE
       Signal Processing Magazine 30 (2013), 98-111.
    """

    def __init__(
        self,
        bandwidth: float | None = None,
        regularisation: float | None = None,
        *,
        centred: bool = True,
        scale: bool = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def _check(self, n: int) -> None:
        for name in ("bandwidth", "regularisation"):
            if getattr(self, name) is not None:
                positive(name, getattr(self, name))
        self._check_memory(n)

    def _check_memory(self, n: int) -> None:
        needed, there = 8 * n**2, physical_memory()
        if needed > 0.8 * there:
            raise MemoryError(
                f"the Gram matrix of {n} rows needs {needed / 1e9:.1f} GB and this machine has "
                f"{there / 1e9:.1f} GB; take Localised, or fewer rows"
            )

    def _fit(self) -> None:
        n = len(self.statistics_)
        self.bandwidth_, ridge = self._choose(n)
        self.regularisation_ = ridge / n
        self._kernel = Gaussian(self.bandwidth_)
        gram = self._kernel(self.statistics_)
        gram.flat[:: n + 1] += ridge
        try:
            self._factor = cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:
            raise too_small_a_ridge(self.regularisation_) from None

    def _choose(self, rows: int) -> tuple[float, float]:
        """Bandwidth and ridge, the given ones or the best ones, for regressions on so many rows."""
        given = None if self.regularisation is None else self.regularisation * rows
        if self.bandwidth is not None and given is not None:
            return float(self.bandwidth), float(given)
        choice = choose_bandwidth_and_ridge(self.statistics_, self.parameters_, self.bandwidth, given)
        return choice.bandwidth, choice.ridge

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
        weights = cho_solve(self._factor, self._kernel(self.statistics_, x), check_finite=False).T
        return None, centre(weights) if self.centred else weights


def physical_memory() -> float:
    """Bytes of memory of this machine; infinity where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")


def too_small_a_ridge(regularisation: float) -> ValueError:
    """The error for a Gram matrix that rounding has made indefinite."""
    return ValueError(
        "G + n lambda I is not positive definite in double precision with "
        f"regularisation={regularisation:.3g}; take a larger one, or leave it out to have it chosen"
    )


def centre(weights: np.ndarray) -> np.ndarray:
    """Weights (k, m) with what they lack of one added in equal parts: regression about the mean."""
    return weights + (1 - weights.sum(axis=-1, keepdims=True)) / weights.shape[-1]
