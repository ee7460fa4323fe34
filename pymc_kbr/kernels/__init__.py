"""Kernel functions, and how their bandwidths are chosen."""

from pymc_kbr.kernels.bandwidth import median_heuristic, parameter_kernel
from pymc_kbr.kernels.families import FAMILIES, check_kernel
from pymc_kbr.kernels.gaussian import Gaussian, squared_distances
from pymc_kbr.kernels.kernel import Kernel, Product, Sum
from pymc_kbr.kernels.linear import Linear
from pymc_kbr.kernels.matern import Laplace, Matern
from pymc_kbr.kernels.means import gaussian_mean
from pymc_kbr.kernels.profiles import PROFILES
from pymc_kbr.kernels.spectral import frequencies

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
