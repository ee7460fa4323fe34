"""Sums over rows and products with them, part by part on all cores."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pymc_kbr.arrays.threads import Map

MOST_ROWS_IN_PART = 2500
"""At most. Were it as many as there are for each core, rounding would differ between machines."""


def row_parts(rows: int, most: int = MOST_ROWS_IN_PART) -> list[slice]:
    """Parts of about one size, at most `most`, which together are so many rows."""
    ends = np.linspace(0, rows, max(1, -(-rows // most)) + 1).astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(ends)]


def product(a: np.ndarray, b: np.ndarray, map_: Map) -> np.ndarray:
    """Product (n, m) of a (n, k) and b (k, m)."""
    out = np.empty((len(a), *b.shape[1:]))

    def fill(part: slice) -> None:
        np.matmul(a[part], b, out=out[part])

    map_(fill, row_parts(len(a)))
    return out


def product_over_rows(a: np.ndarray, b: np.ndarray, map_: Map) -> np.ndarray:
    """Product (k, m) of the transpose of a (n, k) and b (n, m)."""
    total, *others = map_(lambda part: a[part].T @ b[part], row_parts(len(a)))
    for other in others:
        total += other
    return total
