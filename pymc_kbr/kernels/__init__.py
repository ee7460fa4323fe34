"""Kernel functions, the scale of their arguments, and how their bandwidths are chosen."""

from pymc_kbr.kernels.bandwidth import median_heuristic, parameter_kernel
from pymc_kbr.kernels.gaussian import Gaussian, squared_distances
from pymc_kbr.kernels.leave_one_out import LeaveOneOut, choose_bandwidth_and_ridge
from pymc_kbr.kernels.profiles import PROFILES
from pymc_kbr.kernels.scaling import Scaler

__all__ = [
    "PROFILES",
    "Gaussian",
    "LeaveOneOut",
    "Scaler",
    "choose_bandwidth_and_ridge",
    "median_heuristic",
    "parameter_kernel",
    "squared_distances",
]
