"""Probabilities of models from tables of many rows, or of many statistics."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.speed.measure import Row, seconds
from pymc_kbr.comparison.compare import process_peak


def rows(n: int, statistics: int, models: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Normal statistics, of which two tell the models apart: rows, and the model of each."""
    model = np.arange(n) % models
    x = rng.normal(size=(n, statistics))
    x[:, 0] = 0.3 * model + (1 + 0.5 * model) * x[:, 0]
    x[:, 1] += 0.6 * model
    return x, model


def frame(n: int, statistics: int, models: int) -> pd.DataFrame:
    """The same as a data frame with a column of the model."""
    x, model = rows(n, statistics, models, np.random.default_rng(1))
    names = [f"s{i}" for i in range(statistics)]
    return pd.DataFrame(x, columns=names).assign(model=model)


def _timed(n: int, statistics: int, limit: float) -> Row:
    made, at = frame(n, statistics, 3), rows(3, statistics, 3, np.random.default_rng(2))[0]
    how: dict[str, Any] = {"model": "model", "statistics": list(made.columns[:-1]), "random_seed": 1}
    took = seconds(lambda: pk.compare_models(made, at, **how), 1)
    what = f"compare_models, {n:,} rows of 3 models and {statistics} statistics, 3 observations / {limit:g} s"
    return Row(what, f"{took:.1f} s", f"{limit:g} s", took / limit, "at most 1")


def many_rows(n: int) -> Row:
    """Seconds over ten."""
    return _timed(n, 2, 10.0)


def few_rows_of_many(n: int) -> Row:
    """Seconds over fifteen, of 48 statistics."""
    return _timed(n, 48, 15.0)


def million_rows(n: int, statistics: int = 100) -> Row:
    """Peak memory of a process that compares two models over that of their tables."""
    command = [sys.executable, "-m", "case_studies.speed.model_choice", str(n), str(statistics)]
    found = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    size = 8 * n * statistics / 1e6
    what = (
        f"peak memory of compare_models, {n:,} rows of {statistics} ({found['seconds']:.0f} s) / the tables"
    )
    return Row(what, f"{found['peak']:.0f} MB", f"{size:.0f} MB", found["peak"] / size, "below 2.5")


def _compare(n: int, statistics: int) -> dict[str, float]:
    made, tables = frame(100, statistics, 2), {}
    for model in range(2):
        few = made[made["model"] == model].assign(a=np.arange(50.0))
        table = pk.ReferenceTable.from_dataframe(few, parameters=["a"], statistics=list(made.columns[:-1]))
        rng = np.random.default_rng(model)
        x = rng.normal(size=(n // 2, statistics))
        x[:, 0] = 0.3 * model + (1 + 0.5 * model) * x[:, 0]
        tables[f"m{model}"] = dataclasses.replace(
            table, parameters=rng.normal(size=(n // 2, 1)), statistics=x
        )
    took = seconds(lambda: pk.compare_models(tables, np.full(statistics, 0.3), random_seed=1), 1)
    return {"seconds": took, "peak": process_peak()}


if __name__ == "__main__":
    print(json.dumps(_compare(int(sys.argv[1]), int(sys.argv[2]))))
