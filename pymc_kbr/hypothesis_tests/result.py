"""What a test returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.kernels import Kernel


@dataclass(frozen=True, eq=False)
class TestResult:
    """A statistic, its p-value, and what it was compared with.

    Parameters
    ----------
    statistic : float
    pvalue : float
        Probability of a statistic at least as large under the null hypothesis.
    null : ndarray of shape (permutations,), or a frozen distribution of SciPy
        Statistics of permuted samples, or the distribution that approximates them.
    kernels : tuple of Kernel
        Those that were used, one for each sample or one for both.
    form : str
        "exact", "random_features" or "block".
    """

    __test__ = False  # its name looks like that of a class of tests

    statistic: float
    pvalue: float
    null: Any
    kernels: tuple[Kernel, ...]
    form: str

    def __repr__(self) -> str:
        """One line: the null distribution's thousand numbers are not in it."""
        values = f"statistic={self.statistic:.4g}, pvalue={self.pvalue:.4g}"
        return f"TestResult({values}, kernels={self.kernels!r}, form={self.form!r})"

    @property
    def bandwidths(self) -> tuple[float | tuple[float, ...] | None, ...]:
        """Of each kernel; None where it has none."""
        return tuple(getattr(kernel, "bandwidth", None) for kernel in self.kernels)


def by_permutation(statistic: float, null: np.ndarray) -> float:
    """Share of permuted statistics (p,) at least as large, the sample's own among them."""
    # What rounding makes of the same partition of the rows is no smaller.
    rounding = 1e-10 * max(abs(statistic), float(np.abs(null).max()))
    return float((1 + np.sum(null >= statistic - rounding)) / (1 + len(null)))
