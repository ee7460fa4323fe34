"""Kernels that are known by a name and a bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.kernels.gaussian import Gaussian
from pymc_kbr.kernels.kernel import Kernel
from pymc_kbr.kernels.matern import Laplace, Matern

FAMILIES: dict[str, Callable[[float], Kernel]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "matern": Matern,
}
"""From a name to the kernels of that family, one for each bandwidth."""


def check_kernel(name: str, kernel: Any) -> None:
    """Refuse what is neither a family's name nor a kernel.

    Raises
    ------
    ValueError, TypeError
        What was given, and the names there are.
    """
    if isinstance(kernel, str):
        if kernel not in FAMILIES:
            raise ValueError(
                f"{name} is {shown(kernel)}; the names are {', '.join(FAMILIES)}, or give a kernel"
            )
    # A class is callable and has `diag` as well: `Gaussian`, given for `Gaussian(1.0)`, is refused here.
    elif isinstance(kernel, type) or not (callable(kernel) and callable(getattr(kernel, "diag", None))):
        raise TypeError(
            f"{name} is {shown(kernel)}; give one of the names {', '.join(FAMILIES)}, or a kernel: "
            "something that is called with two arrays of points and has a method diag, as those of "
            "scikit-learn's Gaussian processes"
        )
