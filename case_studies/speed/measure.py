"""The lines of the benchmark, and those of earlier runs."""

from __future__ import annotations

import csv
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import joblib
import numpy as np

COLUMNS = ("date", "machine", "versions", "what", "ours", "other", "ratio", "wanted")


@dataclass(frozen=True)
class Row:
    """One line of the benchmark: what was measured, ours, the other's, and their ratio."""

    what: str
    ours: str
    other: str
    ratio: float
    wanted: str


def seconds(task: Callable[[], object], repetitions: int = 1) -> float:
    """The shortest of some runs."""
    best = np.inf
    for _ in range(repetitions):
        started = time.perf_counter()
        task()
        best = min(best, time.perf_counter() - started)
    return best


def beside(ours: Callable[[], object], other: Callable[[], object], repetitions: int) -> tuple[float, ...]:
    """Medians of both tasks' runs, in seconds, and of their ratio, each run of ours between two of the other.

    What else the machine does then weighs on both, and falls out of the ratio.
    """
    runs = np.array([[seconds(task) for task in (other, ours, other)] for _ in range(repetitions)])
    own, others = runs[:, 1], runs[:, ::2].mean(axis=1)
    return float(np.median(own)), float(np.median(others)), float(np.median(own / others))


def machine() -> str:
    """Processor and cores."""
    return f"{platform.machine()}, {joblib.cpu_count()} cores"


def versions() -> str:
    """Of what decides about speed."""
    named = ", ".join(f"{name} {version(name.lower())}" for name in ("PyMC", "NumPy", "SciPy"))
    return f"Python {platform.python_version()}, {named}"


class History:
    """What earlier runs found, in a CSV file.

    Parameters
    ----------
    path : Path
    record : bool
        Whether lines are added to the file; it is only read otherwise.
    """

    def __init__(self, path: Path, record: bool = False) -> None:
        self._path, self._record = path, record
        self._before: dict[str, dict[str, str]] = {}
        if path.exists():
            with path.open(newline="") as file:
                self._before = {line["what"]: line for line in csv.DictReader(file)}

    def add(self, row: Row) -> str:
        """Keep a line where lines are recorded, and say what it was the last time."""
        if self._record:
            self._write(row)
        before = self._before.get(row.what)
        return "" if before is None else f"; {before['ratio']} on {before['date']} with {before['versions']}"

    def _write(self, row: Row) -> None:
        new = not self._path.exists()
        with self._path.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(COLUMNS)
            today = date.today().isoformat()
            ratio = f"{row.ratio:.4g}"
            writer.writerow([today, machine(), versions(), row.what, row.ours, row.other, ratio, row.wanted])
