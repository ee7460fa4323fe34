"""The leave-one-out error of the conditional mean in closed form, and choices made by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.threads import one_blas_thread, parallel_map
from pymc_kbr.arrays.weighted import spread_out_by_weight
from pymc_kbr.gram.dense import centred_gram
from pymc_kbr.kernels.kernel import Kernel, Linear, parameter_kernel

SCALES = tuple(2.0 ** np.arange(-2, 4))
"""Bandwidths that are tried, as multiples of the median heuristic."""

RIDGES = tuple(10.0 ** np.arange(-6.0, 3.1, 0.5))
"""Ridges n * lambda that are tried, in units of the Gram matrix's mean diagonal (one for most kernels)."""


class LeaveOneOut:
    """Leave-one-out residuals of a weighted ridge regression for any ridge r at once."""

    # Shapes: gram (n, n); targets (n, t); weights (n,).
    def __init__(
        self,
        gram: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        intercept: bool = False,
        *,
        # Of the mean weight: rows of less are given it, so that their residuals are defined.
        least_weight: float = 1e-6,
    ) -> None:
        d = np.ones(len(gram)) if weights is None else weights
        self._root = np.sqrt(np.maximum(d, least_weight * d.mean()))
        # NumPy's leaves other threads, with other kernels, to work beside it; SciPy's does not.
        self._values, self._vectors = np.linalg.eigh(self._root[:, None] * gram * self._root)
        self._values = np.maximum(self._values, 0)  # rounding: the matrix is positive semi-definite
        self._squares = self._vectors**2
        self._rotated = self._vectors.T @ (self._root[:, None] * targets)
        self._ones = self._vectors.T @ self._root if intercept else None

    def degrees_of_freedom(self, ridge: float) -> float:
        """Effective number of coefficients, the trace of K^-1 G."""
        return float(np.sum(self._values / (self._values + ridge)))

    def residuals(self, ridge: float) -> np.ndarray:
        """Residuals of every row, shape (n, t), each predicted from all the other rows."""
        inverse = 1 / (self._values + ridge)
        diagonal = self._root**2 * (self._squares @ inverse)
        solved = self._root[:, None] * (self._vectors @ (inverse[:, None] * self._rotated))
        if self._ones is not None:
            constant = self._root * (self._vectors @ (inverse * self._ones))
            total = constant.sum()
            solved -= np.outer(constant, solved.sum(axis=0) / total)
            diagonal -= constant**2 / total
        return solved / diagonal[:, None]


@dataclass(frozen=True)
class KernelAndRidge:
    """A kernel and ridge n * lambda, and the mean squared leave-one-out error that they reached."""

    kernel: Kernel
    ridge: float
    error: float


def choose_kernel_and_ridge(
    statistics: np.ndarray,
    parameters: np.ndarray,
    kernels: Sequence[Kernel],
    ridges: Sequence[float] | None = None,
    *,
    weights: np.ndarray | None = None,
    score_weights: np.ndarray | None = None,
    centred: bool = True,
    targets: np.ndarray | None = None,
    most: int = 1000,
    near: float = 0.25,
) -> KernelAndRidge:
    """The kernel and ridge with the smallest leave-one-out error of the conditional mean."""
    # Shapes: statistics (n, d); parameters (n, p); weights (n,); score_weights (n,); targets (n, t).
    rows, d = spread_out_by_weight(np.ones(len(statistics)) if weights is None else weights, most)
    x = statistics[rows]
    score = d if score_weights is None else score_weights[rows]
    if score_weights is not None and weights is not None and len(rows) < len(weights):
        score = score * d / weights[rows]  # the rows are a sample by weight already
    base = d / d.sum() if centred else None
    with one_blas_thread():
        predicted = embedding_targets(parameters[rows], base) if targets is None else targets[rows]

    def tried(kernel: Kernel) -> list[tuple[float, float, np.ndarray]]:
        left_out = LeaveOneOut(kernel(x), predicted, weights=d, intercept=centred)
        unit = float(np.mean(kernel.diag(x))) or 1.0
        return [
            (r, left_out.degrees_of_freedom(r), np.sum(left_out.residuals(r) ** 2, axis=1))
            for r in (unit * np.array(RIDGES) if ridges is None else ridges)
        ]

    # Eigendecompositions of this size are done sooner side by side than each on all cores.
    with parallel_map(len(kernels)) as each:
        per_kernel = each(tried, kernels)
    candidates = [
        (kernel, *rest) for kernel, found in zip(kernels, per_kernel, strict=True) for rest in found
    ]
    squares, share = np.array([candidate[-1] for candidate in candidates]), score / score.sum()
    linear = np.flatnonzero([isinstance(kernel, Linear) for kernel, *_ in candidates])
    # The linear kernel is where wide ones tend to, with fewer ways to follow noise.
    if len(linear) and not beats_simple_ones(squares, linear, share):
        candidates, squares, near = [candidates[i] for i in linear], squares[linear], 0.0
    degrees = np.array([candidate[2] for candidate in candidates])
    chosen, error = simplest_near_the_best(squares, degrees, share, near)
    kernel, ridge, *_ = candidates[chosen]
    return KernelAndRidge(kernel, float(ridge), error)


def simplest_near_the_best(
    squares: np.ndarray, degrees: np.ndarray, weights: np.ndarray, near: float = 0.25
) -> tuple[int, float]:
    """The number of the candidate with the fewest degrees of freedom among the nearly best, and its error."""
    # Shapes: squares (c, n); degrees (c,); weights (n,).
    errors = squares @ weights
    excess, standard_errors = excesses(squares, weights)
    nearly_best = np.flatnonzero(excess <= near * standard_errors)
    chosen = int(nearly_best[np.argmin(degrees[nearly_best])])
    return chosen, float(errors[chosen])


def excesses(squares: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far each candidate's mean error is above the lowest one, and its standard error, both (c,)."""
    apart = squares - squares[int(np.argmin(squares @ weights))]
    excess = apart @ weights
    # The variance of a weighted mean of independent differences.
    return excess, np.sqrt(((apart - excess[:, None]) ** 2) @ weights**2)


def beats_simple_ones(
    squares: np.ndarray,
    simple: np.ndarray,
    weights: np.ndarray,
    *,
    # Standard errors by which a kernel must be better than the linear one.
    least_errors: float = 2.0,
) -> bool:
    """Whether another candidate beats the best of `simple` by `least_errors` standard errors."""
    best = simple[int(np.argmin(squares[simple] @ weights))]
    excess, standard_errors = excesses(squares, weights)
    return bool(excess[best] > least_errors * standard_errors[best])


def embedding_targets(
    parameters: np.ndarray,
    base: np.ndarray | None = None,
    *,
    # Of the largest eigenvalue: smaller ones hold no more of the posterior than noise.
    negligible: float = 1e-3,
) -> np.ndarray:
    """A factor F (n, t) of the parameters' Gram matrix, centred about its mean under `base`, if given."""
    gram = parameter_kernel(parameters)(parameters)
    if base is not None:
        gram = centred_gram(gram, base)
    values, vectors = np.linalg.eigh(gram)
    large = values > negligible * values[-1]
    return vectors[:, large] * np.sqrt(values[large])
