"""Ozone and the weather: the PC algorithm with independence tests at learnt and at median bandwidths."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import pymc_kbr as pk
from pymc_kbr.regression.kernel_ridge import KernelRegression

VARIABLES = {
    "O3": "ozone",
    "vh": "pressure height",
    "wind": "wind",
    "humidity": "humidity",
    "temp": "temperature",
    "ibh": "inversion height",
    "dpg": "pressure gradient",
    "ibt": "inversion temperature",
    "vis": "visibility",
}
"""Columns of the data, and what they are; `doy` is the day."""

LEVEL = 0.05


def data(own: Path | None) -> pd.DataFrame | None:
    """The data of Breiman and Friedman (1985), 330 days in 1976: a file of one's own, or faraway's."""
    if own is not None:
        return pd.read_csv(own)
    try:
        from faraway.datasets import ozone  # type: ignore[import-not-found]
    except ImportError:
        return None
    return ozone.load()


def by_ridge(day: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Each row of (n, 9) less what kernel ridge regression on all other days (n, 1) predicts."""
    return KernelRegression(day, values, np.random.default_rng(0)).residuals


def by_process(day: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values (n, 9) less the posterior mean of a Gaussian process of days (n, 1), as in the paper."""
    kernel = ConstantKernel(1.0) * RBF(1.0) + WhiteKernel(0.3)
    return np.column_stack(
        [each - GaussianProcessRegressor(kernel).fit(day, each).predict(day) for each in values.T]
    )


WHITENINGS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "kernel ridge": by_ridge,
    "gaussian process": by_process,
}


def whitened(frame: pd.DataFrame, whitening: str) -> np.ndarray:
    """What each variable is beside its course over the year, in deviations, shape (n, 9)."""
    day = frame["doy"].to_numpy(dtype=float)[:, None]
    values = frame[list(VARIABLES)].to_numpy(dtype=float)
    values = (values - values.mean(axis=0)) / values.std(axis=0)
    left = WHITENINGS[whitening]((day - day.mean()) / day.std(), values)
    return left / left.std(axis=0)


def graph(values: np.ndarray, bandwidth: str) -> list[dict[str, Any]]:
    """The edges that the PC algorithm finds, a line each."""
    from causallearn.search.ConstraintBased.PC import pc
    from causallearn.utils.cit import register_ci_test

    options = {"bandwidth": bandwidth, "null": "gamma", "statistic": "biased"}
    register_ci_test(f"kernel_{bandwidth}", pk.causal_learn_test(random_seed=1, **options))
    found = pc(values, LEVEL, f"kernel_{bandwidth}", show_progress=False).G.graph
    names = list(VARIABLES.values())
    lines = []
    for i, j in zip(*np.nonzero(np.triu(found != 0)), strict=True):
        # In causal-learn's matrices -1 is a tail and 1 a head, at the row's end of the edge.
        ends = (found[i, j], found[j, i])
        mark = {(-1, 1): "->", (1, -1): "<-", (-1, -1): "--", (1, 1): "<->"}[ends]
        lines.append({"bandwidth": bandwidth, "one": names[i], "edge": mark, "other": names[j]})
    return lines


def ozone(quick: bool, output: Path, own: Path | None = None) -> None:
    """The edges of both graphs (ozone.csv)."""
    frame = data(own)
    if frame is None:
        print(
            "the ozone data are not here: pip install faraway, or give a file with the columns "
            f"{', '.join(VARIABLES)} and doy by --ozone"
        )
        return
    lines = []
    for whitening in WHITENINGS:
        values = whitened(frame.iloc[::4] if quick else frame, whitening)
        for bandwidth in ("median", "bayesian"):
            lines += [{"whitening": whitening, **line} for line in graph(values, bandwidth)]
            pd.DataFrame(lines).to_csv(output / "ozone.csv", index=False)
    print(pd.DataFrame(lines).to_string(index=False), flush=True)
