"""Kernel functions, and how their bandwidths are chosen."""

from pymc_kbr.kernels.bandwidth import (
    deviations,
    median_heuristic,
    parameter_kernel,
    spread_out,
    units_of,
)
from pymc_kbr.kernels.families import FAMILIES, check_kernel
from pymc_kbr.kernels.gaussian import Gaussian, squared_distances
from pymc_kbr.kernels.gaussian_mean import gaussian_mean
from pymc_kbr.kernels.kernel import Kernel, Product, Sum
from pymc_kbr.kernels.leave_one_out import Choice, LeaveOneOut, centred_gram, choose_kernel_and_ridge
from pymc_kbr.kernels.linear import Linear
from pymc_kbr.kernels.matern import Laplace, Matern
from pymc_kbr.kernels.profiles import PROFILES
from pymc_kbr.kernels.spectral import frequencies

__all__ = [
    "FAMILIES",
    "PROFILES",
    "Choice",
    "Gaussian",
    "Kernel",
    "Laplace",
    "LeaveOneOut",
    "Linear",
    "Matern",
    "Product",
    "Sum",
    "centred_gram",
    "check_kernel",
    "choose_kernel_and_ridge",
    "deviations",
    "frequencies",
    "gaussian_mean",
    "median_heuristic",
    "parameter_kernel",
    "spread_out",
    "squared_distances",
    "units_of",
]
