"""The study's lines: one for each task, budget, method and observation, added as they are computed."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from case_studies.sbi_benchmark import c2st, wheel
from case_studies.sbi_benchmark.methods import METHODS, Answer, Answering
from case_studies.sbi_benchmark.task import Task

CLASSIFIERS = {"network": c2st.network, "forest": c2st.forest}
KEYS = ["task", "budget", "method", "observation"]
COLUMNS = [
    *KEYS,
    *(f"c2st_{name}" for name in CLASSIFIERS),
    "folds",
    "seconds_simulate",
    "seconds_fit",
    "seconds_condition",
    "log_evidence",
    "chosen",
    "versions",
    "note",
]


@dataclass(frozen=True)
class Results:
    """A CSV file that lines are added to.

    Parameters
    ----------
    path : Path
        Of the file; it and its folder are made with the first line.
    """

    path: Path

    def lines(self) -> pd.DataFrame:
        """All lines, of several with the same keys the last."""
        if not self.path.exists():
            return pd.DataFrame(columns=COLUMNS)
        found = pd.read_csv(self.path)
        return found.drop_duplicates(KEYS, keep="last").reset_index(drop=True)

    def scored(self) -> pd.DataFrame:
        """The lines that have a value."""
        return self.lines().dropna(subset=[f"c2st_{name}" for name in CLASSIFIERS], how="all")

    def add(self, line: dict[str, object]) -> None:
        """Write one line at the end."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        pd.DataFrame([line], columns=COLUMNS).round(4).to_csv(
            self.path, mode="a", index=False, header=not self.path.exists()
        )

    def missing(
        self, task: str, budget: int, method: str, observations: Iterable[int], classifiers: Sequence[str]
    ) -> list[int]:
        """Observations without a line that has all classifiers' values."""
        lines = self.lines()
        these = (lines["task"] == task) & (lines["budget"] == budget) & (lines["method"] == method)
        done = lines[these].dropna(subset=[f"c2st_{name}" for name in classifiers])
        return [number for number in observations if number not in set(done["observation"])]


def versions() -> str:
    """Of what the figures depend on."""
    packages = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scikit-learn")]
    try:
        own = importlib.metadata.version("pymc_kbr")
    except importlib.metadata.PackageNotFoundError:
        own = "not installed"
    python = platform.python_version()
    return "; ".join([f"pymc_kbr {own}", f"sbibm {wheel.version()}", *packages, f"Python {python}"])


def run(
    results: Results,
    task: Task,
    budget: int,
    method: str,
    observations: Sequence[int],
    classifiers: Sequence[str],
    folds: int = c2st.FOLDS,
) -> int:
    """Compute what is missing of one task, budget and method; how many lines failed.

    A failure is a line with its words as the note, and without a value, so that it is tried again.
    """
    answering: Answering | None = None
    failed = 0
    for number in results.missing(task.name, budget, method, observations, classifiers):
        line: dict[str, object] = dict(zip(KEYS, (task.name, budget, method, number), strict=True))
        line["versions"] = versions()
        try:
            if answering is None:
                answering = METHODS[method](task, budget)
            line |= _scored(task, number, answering(number), classifiers, folds)
        except (ValueError, TypeError, AttributeError, ArithmeticError, RuntimeError, MemoryError) as error:
            line["note"] = f"{type(error).__name__}: {error}"[:200]
            print(line["note"], file=sys.stderr)
            failed += 1
        results.add(line)
    return failed


def _scored(
    task: Task, number: int, found: Answer, classifiers: Sequence[str], folds: int
) -> dict[str, object]:
    """The values of one line."""
    line: dict[str, object] = {f"seconds_{stage}": seconds for stage, seconds in found.seconds.items()}
    line |= {"log_evidence": found.log_evidence, "chosen": found.chosen, "folds": folds}
    reference = task.reference(number)
    if len(reference) != len(found.draws):
        raise ValueError(f"{len(found.draws)} draws against {len(reference)} of the reference")
    started = time.perf_counter()
    for name in classifiers:
        line[f"c2st_{name}"] = CLASSIFIERS[name](reference, found.draws, folds=folds)
    values = ", ".join(f"{name} {line[f'c2st_{name}']:.3f}" for name in classifiers)
    spent = {stage: round(seconds, 1) for stage, seconds in found.seconds.items()}
    print(
        f"{task.name} observation {number}: {values}; {found.chosen}; seconds {spent}, "
        f"classifiers {time.perf_counter() - started:.0f}",
        flush=True,
    )
    return line
