"""Ozone and the weather: the PC algorithm with independence tests at learnt and at median bandwidths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

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


def whitened(frame: pd.DataFrame) -> np.ndarray:
    """What each variable is beside its course over the year, in deviations, shape (n, 9)."""
    day = frame["doy"].to_numpy(dtype=float)[:, None]
    values = frame[list(VARIABLES)].to_numpy(dtype=float)
    left = KernelRegression((day - day.mean()) / day.std(), values, np.random.default_rng(0)).residuals
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
    values = whitened(frame.iloc[::4] if quick else frame)
    lines = []
    for bandwidth in ("median", "bayesian"):
        lines += graph(values, bandwidth)
        pd.DataFrame(lines).to_csv(output / "ozone.csv", index=False)
        print(pd.DataFrame(lines).to_string(index=False), flush=True)
