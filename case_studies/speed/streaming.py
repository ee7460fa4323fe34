"""Tables on the disk against tables in memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from case_studies.speed.measure import Row, seconds
from pymc_kbr.comparison.compare import process_peak
from pymc_kbr.estimators import Localised

CHUNK = 65_536
OBSERVATIONS, NEIGHBOURS, STATISTICS = 100, 200, 10


def write_table(path: Path, rows: int) -> None:
    """Two parameters and ten noisy linear statistics as Zarr arrays, a chunk at a time."""
    group = zarr.create_group(path)
    sides = {"parameters": 2, "statistics": STATISTICS}
    arrays = {
        name: group.create_array(name, shape=(rows, width), chunks=(CHUNK, width), dtype="float64")
        for name, width in sides.items()
    }
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(2, STATISTICS))
    for first in range(0, rows, CHUNK):
        theta = rng.normal(size=(min(CHUNK, rows - first), 2))
        arrays["parameters"][first : first + len(theta)] = theta
        arrays["statistics"][first : first + len(theta)] = theta @ mix + rng.normal(
            size=(len(theta), STATISTICS)
        )


def observations() -> np.ndarray:
    """Observations in the middle of such a table."""
    return 2 * np.random.default_rng(1).normal(size=(OBSERVATIONS, STATISTICS))


def streamed_against_memory(rows: int) -> list[Row]:
    """Seconds of `Localised`, fitted and conditioned, on a table on the disk over those in memory."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.zarr"
        write_table(path, rows)
        group = zarr.open_group(path, mode="r")
        settings = {"neighbours": NEIGHBOURS, "bandwidth": 2.0, "regularisation": 1e-3}

        def run(theta: object, x: object) -> np.ndarray:
            fitted = Localised(**settings).fit(theta, x)  # type: ignore[arg-type]
            return np.array([posterior.mean() for posterior in fitted.condition(observations())])

        here = group["parameters"][:], group["statistics"][:]  # type: ignore[index]
        there = group["parameters"], group["statistics"]
        apart = float(np.abs(run(*here) - run(*there)).max())
        memory, disk = seconds(lambda: run(*here), 3), seconds(lambda: run(*there), 3)
    what = f"localised, fitted and {OBSERVATIONS} observations, {rows:,} rows of {STATISTICS}"
    return [
        Row(
            f"{what}: on the disk / in memory", f"{disk:.2f} s", f"{memory:.2f} s", disk / memory, "no limit"
        ),
        Row(
            f"{what}: largest difference of a mean / 1e-9", f"{apart:.1e}", "1e-9", apart / 1e-9, "at most 1"
        ),
    ]


def large_table(rows: int) -> Row:
    """Peak memory of a process that fits and conditions `Localised` on a table on the disk."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.zarr"
        write_table(path, rows)
        done = subprocess.run(
            [sys.executable, "-m", "case_studies.speed.streaming", str(path)], capture_output=True, check=True
        )
    said = json.loads(done.stdout)
    return Row(
        f"peak memory of localised, {rows:,} rows of {STATISTICS} on the disk, {OBSERVATIONS} observations, "
        "the whole process / 1 GB",
        f"{said['gigabytes']:.2f} GB, {said['fit']:.0f} s to fit and {said['condition']:.0f} s to condition",
        "1 GB",
        said["gigabytes"],
        "below 1",
    )


def main() -> None:
    """Fit and condition on the table at the path that is given, and print what it took."""
    group = zarr.open_group(Path(sys.argv[1]), mode="r")
    made: list[Localised] = []
    sides: list[Any] = [group["parameters"], group["statistics"]]
    fit = seconds(lambda: made.append(Localised(NEIGHBOURS).fit(*sides)))
    condition = seconds(lambda: made[0].condition(observations()))
    gigabytes = process_peak() * 2**20 / 1e9
    print(json.dumps({"fit": fit, "condition": condition, "gigabytes": gigabytes}))


if __name__ == "__main__":
    main()
