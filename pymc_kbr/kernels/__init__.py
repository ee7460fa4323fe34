"""Kernel functions, and how their bandwidths are chosen."""

from pymc_kbr.kernels.kernel import (
    FAMILIES,
    PROFILES,
    Gaussian,
    Kernel,
    Laplace,
    Linear,
    Matern,
    Product,
    Sum,
    check_kernel,
    frequencies,
    gaussian_mean,
    median_heuristic,
    parameter_kernel,
    squared_distances,
)

__all__ = [
    "FAMILIES",
    "PROFILES",
    "Gaussian",
    "Kernel",
    "Laplace",
    "Linear",
    "Matern",
    "Product",
    "Sum",
    "check_kernel",
    "frequencies",
    "gaussian_mean",
    "median_heuristic",
    "parameter_kernel",
    "squared_distances",
]
