"""Parts within which rows are permuted, where both samples were drawn part by part."""

from __future__ import annotations

from typing import Any

import numpy as np


def as_strata(strata: Any, m: int, n: int) -> np.ndarray | None:
    """The part of each of m + n rows as a whole number, shape (m + n,); None where there are no parts.

    Parameters
    ----------
    strata : pair of array_like, shapes (m,) and (n,), or None
        Labels of the rows of both samples.
    m, n : int

    Raises
    ------
    ValueError
        If they are no pair of such labels, some are missing, or no part has rows of both samples.
    """
    if strata is None:
        return None
    if not isinstance(strata, tuple) or len(strata) != 2:
        raise ValueError(
            "strata must be a pair (a tuple): the labels of the rows of x, and of those of y; it is "
            f"{type(strata).__name__}"
        )
    labels = [np.asarray(each) for each in strata]
    for name, each, rows in zip("xy", labels, (m, n), strict=True):
        if each.shape != (rows,):
            raise ValueError(
                f"the strata of {name} have shape {each.shape}; give one label for each of its {rows} rows"
            )
    together = np.concatenate(labels)
    if any(label is None or label != label for label in together.tolist()):  # NaN is not itself
        raise ValueError("some strata are missing (NaN or None); give every row a label")
    _, codes = np.unique(together, return_inverse=True)
    codes = codes.reshape(-1)
    if not np.intersect1d(codes[:m], codes[m:]).size:
        raise ValueError(
            "no stratum has rows of both x and y, so that no permutation within strata changes anything; "
            "label the rows of both samples alike, or leave strata out"
        )
    return codes
