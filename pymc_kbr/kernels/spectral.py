"""Random frequencies of shift-invariant kernels, by Bochner's theorem."""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process import kernels as sklearn_kernels

from pymc_kbr.kernels.gaussian import Gaussian
from pymc_kbr.kernels.kernel import Kernel, Product
from pymc_kbr.kernels.matern import Matern


def frequencies(kernel: Kernel, count: int, dimensions: int, rng: np.random.Generator) -> np.ndarray:
    """Draws from a kernel's spectral density, shape (count, dimensions).

    Notes
    -----
    k(a, b) = E cos(f . (a - b)). The Gaussian kernel's frequencies are normal, a Matern kernel's are
    Student's t with 2 nu degrees of freedom, and those of a product are the sums of its factors'.

    Raises
    ------
    ValueError
        If the kernel is not one of these.

    References
    ----------
    .. [1] A. Rahimi, B. Recht, Random features for large-scale kernel machines, NIPS 20 (2007).
    """
    if isinstance(kernel, Product | sklearn_kernels.Product):
        pair = (kernel.left, kernel.right) if isinstance(kernel, Product) else (kernel.k1, kernel.k2)
        return sum(frequencies(factor, count, dimensions, rng) for factor in pair)  # type: ignore[return-value]
    if isinstance(kernel, Gaussian):
        scale, nu = kernel.bandwidth, np.inf
    elif isinstance(kernel, Matern):
        scale, nu = kernel.bandwidth, kernel.nu
    elif isinstance(kernel, sklearn_kernels.Matern):
        scale, nu = kernel.length_scale, kernel.nu
    elif isinstance(kernel, sklearn_kernels.RBF):
        scale, nu = kernel.length_scale, np.inf
    else:
        raise ValueError(
            f"random Fourier features of {kernel!r} are not known; take a Gaussian, Laplace or Matern "
            "kernel, a product of these, or another solver"
        )
    normal = rng.standard_normal((count, dimensions)) / np.asarray(scale)
    if np.isinf(nu):
        return normal
    # One chi-squared draw for all dimensions: one for each would be a product of one-dimensional kernels.
    return normal * np.sqrt(2 * nu / rng.chisquare(2 * nu, (count, 1)))
