"""Statistics averaged over blocks of rows, for samples whose Gram matrix is too large."""

from __future__ import annotations

import numpy as np
from scipy.stats import t

from pymc_kbr.arrays.refusals import whole
from pymc_kbr.hypothesis_tests.result import TestResult
from pymc_kbr.kernels import Kernel

LEAST_BLOCKS = 20
"""Blocks below which a mean over them is not yet normal."""


def block_sizes(rows: int, block: int | None, least: int) -> int:
    """How many blocks some rows are cut into.

    Raises
    ------
    ValueError
        If blocks of the size that is asked for would be fewer than 20, or smaller than `least`.
    """
    if block is None:
        block = max(least, int(np.sqrt(rows)))
    whole("block", block)
    if block < least:
        raise ValueError(f"block is {block}; a block needs at least {least} rows")
    count = rows // block
    if count < LEAST_BLOCKS:
        raise ValueError(
            f"{rows} rows are {count} blocks of {block}; their mean is normal from about {LEAST_BLOCKS} on: "
            "take a smaller block, or form='exact'"
        )
    return count


def by_blocks(values: np.ndarray, kernels: tuple[Kernel, ...]) -> TestResult:
    """The mean of independent unbiased statistics (b,), with Student's t for its error under the null."""
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    null = t(len(values) - 1, scale=error)
    mean = float(values.mean())
    return TestResult(mean, float(null.sf(mean)), null, kernels, "block")
