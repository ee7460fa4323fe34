"""The kernel of a regression, each input's relevance included, by the marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack
from scipy.optimize import minimize

from pymc_kbr.arrays.triangular import inverse_lower
from pymc_kbr.estimators.likelihood.product_kernel import Inputs, ProductKernel

JITTER = 1e-6
"""Of the landmarks' Gram matrix, as a share of its mean diagonal."""

LINEAR_PRECISION = 1e-4
"""Prior precision of the linear part, for standardised targets: next to no penalty."""

RETURN = 0.3
"""By how much the logarithms of a start from elsewhere lie below the centre of their prior at least."""

WIDTH = 1.5
WIDTH_ABOVE = 0.8
"""Prior standard deviations of the logarithms of all settings below where they start, and above.

Functions that are rougher than there are mostly noise: the kernel at a landmark that is itself a row is free
to follow that row.
"""


def with_jitter(gram: np.ndarray) -> np.ndarray:
    """A Gram matrix (m, m), well enough conditioned for a Cholesky factor."""
    return gram + JITTER * np.mean(np.diag(gram)) * np.eye(len(gram))


def with_unit_prior(squares: np.ndarray) -> np.ndarray:
    """Products of features (m, m) plus I, and as much as their rounding may take away from it.

    Rows whose noise is a millionth of others' have products beside which I is lost.
    """
    rounding = np.finfo(float).eps * len(squares) * np.diag(squares).max()
    return squares + (1 + rounding) * np.eye(len(squares))


def start_kernel(inputs: Inputs) -> ProductKernel:
    """Where the search starts, and the centre of the settings' prior.

    Bandwidths start short: an interaction is seen from there, and not from where all functions are flat.
    """
    q, past = inputs.theta.shape[1], inputs.past.shape[1]
    theta = np.full(q, 1.5 / np.sqrt(q)) / np.maximum(inputs.theta.std(axis=0), 1e-12)
    return ProductKernel(theta, np.full(past, 0.5 / np.sqrt(past)), np.full(past, 0.5), 0.3, 0.1)


@dataclass(frozen=True)
class RegressionEvidence:
    """Log marginal likelihood of y = H w + noise, with H = [K(rows, landmarks), linear], and its gradient.

    Attributes
    ----------
    inputs, landmarks : Inputs
        Of n rows and m landmarks.
    targets : ndarray of shape (n,)
    deviations : ndarray of shape (n,)
        Of the noise, up to a factor.

    Notes
    -----
    The coefficients have the prior N(0, K(landmarks)^-1), those of the linear part a wide one: the Gaussian
    process of the Nystroem features (C. E. Rasmussen and C. K. I. Williams, Gaussian Processes for Machine
    Learning, 2006, sections 5.4 and 8.3.4).
    """

    inputs: Inputs
    landmarks: Inputs
    targets: np.ndarray
    deviations: np.ndarray

    def __call__(self, logs: np.ndarray) -> tuple[float, np.ndarray]:
        """Minus the log evidence and its gradient by the kernel's logarithms and the log noise variance."""
        kernel, noise = ProductKernel.from_logs(logs[:-1], self.inputs.theta.shape[1]), np.exp(logs[-1])
        m, root = len(self.landmarks.theta), 1 / self.deviations
        parts, prior = (kernel.parts(rows, self.landmarks) for rows in (self.inputs, self.landmarks))
        unwhiten = inverse_lower(np.linalg.cholesky(with_jitter(prior.gram)))
        # Coefficients of whitened features have the unit prior, and A is never badly conditioned.
        features = np.hstack([parts.gram, self.inputs.linear() / np.sqrt(LINEAR_PRECISION)]) * root[:, None]
        features[:, :m] = features[:, :m] @ unwhiten.T
        y = self.targets * root
        squares = features.T @ features / noise
        inverse, logdet = inverse_and_logdet(with_unit_prior(squares))
        v = inverse @ (features.T @ y) / noise
        residuals = y - features @ v
        value = y @ residuals / noise + len(y) * logs[-1] + logdet
        w = unwhiten.T @ v[:m]
        by_rows = np.outer(residuals, w)
        by_rows -= features @ (inverse[:, :m] @ unwhiten)
        by_rows *= root[:, None] / noise
        by_prior = unwhiten.T @ (np.eye(m) - inverse[:m, :m]) @ unwhiten - np.outer(w, w)
        gradient = kernel.gradient(self.inputs, self.landmarks, parts, by_rows)
        gradient += kernel.gradient(self.landmarks, self.landmarks, prior, 0.5 * by_prior)
        freedom = np.sum(inverse * squares)  # trace of the hat matrix
        by_noise = -0.5 * (len(y) - freedom - residuals @ residuals / noise)
        return 0.5 * value, -np.append(gradient, by_noise)


def inverse_and_logdet(matrix: np.ndarray) -> tuple[np.ndarray, float]:
    """Of a positive definite matrix."""
    factor = np.linalg.cholesky(matrix)
    inverse, _ = lapack.dpotri(factor, lower=1)
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    return inverse, 2 * float(np.sum(np.log(np.diag(factor))))


class Effort(NamedTuple):
    """How much a fit may cost.

    Attributes
    ----------
    landmarks : int
        Of the final functions.
    rows_for_kernel, rows_for_final_kernel, landmarks_for_kernel : int
        On which kernels are chosen, at first and once spreads are known.
    iterations : int
        In each choice.
    """

    landmarks: int = 300
    rows_for_kernel: int = 1200
    rows_for_final_kernel: int = 3000
    landmarks_for_kernel: int = 80
    iterations: int = 25


def choose_kernel(
    inputs: Inputs,
    targets: np.ndarray,
    rng: np.random.Generator,
    *,
    deviations: np.ndarray | None = None,
    start: tuple[ProductKernel, float] | None = None,
    effort: Effort,
) -> tuple[ProductKernel, float]:
    """The kernel and noise variance with the largest posterior density of both.

    Parameters
    ----------
    inputs : Inputs
        Of n rows.
    targets : ndarray of shape (n,)
        Of deviation about one.
    rng : numpy.random.Generator
    deviations : ndarray of shape (n,), optional
        Of the noise, up to a factor; all one where left out.
    start : tuple of ProductKernel and float, optional
        Where the search starts.
    effort : Effort

    Returns
    -------
    kernel : ProductKernel
    noise : float
        Variance of the noise where its deviation is one.
    """
    count = effort.rows_for_kernel if start is None else effort.rows_for_final_kernel
    chosen = rng.permutation(len(targets))[:count]
    centre = start_kernel(inputs).logs()
    scale = np.ones(len(targets)) if deviations is None else deviations
    some = inputs.rows(chosen)
    evidence = RegressionEvidence(
        some, some.rows(slice(effort.landmarks_for_kernel)), targets[chosen], scale[chosen]
    )

    def objective(logs: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = evidence(logs)
        width = np.where(logs[:-1] > centre, WIDTH_ABOVE, WIDTH)
        apart = (logs[:-1] - centre) / width
        gradient[:-1] += apart / width
        return value + 0.5 * float(apart @ apart), gradient

    first = np.append(centre, np.log(0.5))  # half of the variance is noise, to begin with
    if start is not None:
        # Inputs that were given up come back: more is known now.
        logs = np.maximum(start[0].logs(), centre - RETURN)
        first = np.append(logs, np.log(start[1]))
    # At exp(-7) of its start an input has no say any more; farther there is nothing to gain.
    bounds = [(c - 7, c + 3.5) for c in centre] + [(-14.0, 3.0)]
    found = minimize(
        objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": effort.iterations}
    )
    return ProductKernel.from_logs(found.x[:-1], inputs.theta.shape[1]), float(np.exp(found.x[-1]))
