"""Tables that grow a line at a time: what is there is not computed again."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any


def add_lines(
    path: Path, columns: Sequence[str], jobs: Iterable[tuple[Any, ...]], line: Callable[..., dict[str, Any]]
) -> None:
    """Append the lines of jobs that are not there yet.

    Parameters
    ----------
    path : Path
    columns : sequence of str
        The first ones are those of a job.
    jobs : iterable of tuple
    line : callable
        From a job's values to its other columns.
    """
    if not path.exists():
        path.write_text(",".join(columns) + "\n")
    with path.open(newline="") as file:
        there = {tuple(row.values()) for row in csv.DictReader(file)}
    for job in jobs:
        own = tuple(map(str, job))
        if any(row[: len(own)] == own for row in there):
            continue
        found = dict(zip(columns, job, strict=False)) | line(*job)
        written = {
            name: f"{value:.5g}" if isinstance(value, float) and name not in columns[: len(own)] else value
            for name, value in found.items()
        }
        with path.open("a", newline="") as file:
            csv.DictWriter(file, columns, lineterminator="\n").writerow(written)
