"""What estimators refuse at the door."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.support import Support


def check_shapes(parameters: Any, statistics: Any) -> None:
    """Refuse what is not two or more rows of parameters and of statistics, side by side."""
    for name, side in (("parameters", parameters), ("statistics", statistics)):
        if len(side.shape) != 2 or side.shape[1] == 0:
            raise ValueError(
                f"{name} have shape {tuple(side.shape)}; they must be rows of at least one column"
            )
    if parameters.shape[0] != statistics.shape[0]:
        raise ValueError(
            f"there are {parameters.shape[0]} rows of parameters and {statistics.shape[0]} rows of "
            "statistics; each simulation is one row of both"
        )
    if parameters.shape[0] < 2:
        raise ValueError(f"there is {parameters.shape[0]} row; an estimator needs at least two")


def support_of(support: Support | None, size: int) -> Support:
    """The support, that without edges where there is none; refused where it is of other parameters."""
    support = Support.unbounded(size) if support is None else support
    if support.size != size:
        raise ValueError(f"the support is one of {support.size} parameters; there are {size}")
    return support


def rows_with_density(ratio: np.ndarray | None, n: int) -> np.ndarray:
    """The rows to which another prior gives density, of n."""
    if ratio is None:
        return np.arange(n)
    ratio = np.asarray(ratio, dtype=float)
    if ratio.shape != (n,):
        raise ValueError(f"the density ratio has shape {ratio.shape}; there are {n} rows, one ratio for each")
    bad = np.flatnonzero(~(ratio >= 0) | np.isinf(ratio))
    if len(bad):
        raise ValueError(
            f"the density ratio is negative, NaN or infinite in {len(bad)} row(s), the first of them "
            f"row {bad[0]}; it must be a density over a positive density"
        )
    rows = np.flatnonzero(ratio > 0)
    if len(rows) < 2:
        raise ValueError(
            f"the other prior has density at {len(rows)} of the table's {n} rows; an estimator needs at "
            "least two: simulate a table from this prior"
        )
    return rows


def check_finite(name: str, array: np.ndarray) -> None:
    """Refuse rows that hold gaps."""
    bad = ~np.isfinite(array).all(axis=1)
    if np.any(bad):
        raise ValueError(
            f"{bad.sum()} row(s) of {name} hold NaN or infinity, the first of them row "
            f"{np.flatnonzero(bad)[0]}; leave those rows out"
        )
