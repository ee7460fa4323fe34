"""Both dynamics over the length of the training sequence: ``python -m case_studies.filtering.circles``.

A line of `circles.csv` is one method on one sequence. Lines that are there are not computed again: the
command goes on where it ended.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from case_studies.destination import add_destination, folder_of
from case_studies.filtering.dynamics import DYNAMICS, Dynamics
from case_studies.filtering.rivals import extended_kalman, particles, unscented_kalman
from pymc_kbr.filtering import KernelBayesFilter

HERE = Path(__file__).parent
LENGTHS, TEST_STEPS, RUNS = (100, 200, 300, 700, 900), 200, 30
SEED = 53
COLUMNS = (
    "dynamics",
    "n",
    "run",
    "method",
    "error",
    "seconds",
    "state_bandwidth",
    "observation_bandwidth",
    "regularisation",
    "printed_regularisation",
    "prior_regularisation",
    "transition_regularisation",
)
PUBLISHED = {"tuning": "published", "centred": False, "scale": False}


def kernel_filters(dynamics: Dynamics) -> dict[str, KernelBayesFilter]:
    """Both rules as published, ours by default, and ours with the true transition."""
    return {
        "original": KernelBayesFilter("kbr", **PUBLISHED),  # type: ignore[arg-type]
        "importance_weighted": KernelBayesFilter(**PUBLISHED),  # type: ignore[arg-type]
        "default": KernelBayesFilter(correction=False),
        "known_transition": KernelBayesFilter(transition=dynamics.step, correction=False),
    }


def rivals(dynamics: Dynamics, seed: list[int]) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """From observations to filtered means."""
    return {
        "observation": lambda x: x,
        "ekf": lambda x: extended_kalman(dynamics, x),
        "ukf": lambda x: unscented_kalman(dynamics, x),
        "particles": lambda x: particles(dynamics, x, np.random.default_rng([*seed, 1])),
    }


METHODS = (
    "observation",
    "ekf",
    "ukf",
    "particles",
    "original",
    "importance_weighted",
    "default",
    "known_transition",
)


def line(name: str, n: int, run: int, method: str) -> dict[str, object]:
    """One method on one sequence."""
    dynamics = DYNAMICS[name]
    seed = [SEED, list(DYNAMICS).index(name), n, run]
    states, observations = dynamics.simulate(n + TEST_STEPS, np.random.default_rng(seed))
    found: dict[str, object] = {"dynamics": name, "n": n, "run": run, "method": method}
    started = time.perf_counter()
    others = rivals(dynamics, seed)
    if method in others:
        means = others[method](observations[n:])
    else:
        kbf = kernel_filters(dynamics)[method]
        kbf.fit(states[:n], observations[:n], random_seed=run)
        means = kbf.filter(observations[n:]).mean()
        chosen = kbf.settings_
        found |= {
            "state_bandwidth": float(chosen.state_kernel.bandwidth),  # type: ignore[attr-defined]
            "observation_bandwidth": float(chosen.observation_kernel.bandwidth),  # type: ignore[attr-defined]
            "regularisation": chosen.regularisation,
            "printed_regularisation": chosen.printed(kbf.rule, n),
            "prior_regularisation": chosen.prior_regularisation,
            "transition_regularisation": chosen.transition_regularisation,
        }
    found["seconds"] = time.perf_counter() - started
    found["error"] = float(np.mean(np.sum((means - states[n:]) ** 2, axis=1)))
    return {key: f"{value:.5g}" if isinstance(value, float) else value for key, value in found.items()}


def add_lines(path: Path, jobs: Iterable[tuple[str, int, int, str]]) -> None:
    """Append what is not there yet, a line at a time."""
    there: set[tuple[str, ...]] = set()
    if path.exists():
        with path.open(newline="") as file:
            there = {(row["dynamics"], row["n"], row["run"], row["method"]) for row in csv.DictReader(file)}
    else:
        path.write_text(",".join(COLUMNS) + "\n")
    for job in jobs:
        if tuple(map(str, job)) in there:
            continue
        row = line(*job)
        with path.open("a", newline="") as file:
            csv.DictWriter(file, COLUMNS, lineterminator="\n").writerow(row)


def jobs(runs: int, lengths: Sequence[int], methods: Sequence[str]) -> Iterable[tuple[str, int, int, str]]:
    """Run by run, so that what is there at any time is whole runs."""
    for run in range(runs):
        for n in lengths:
            for name in DYNAMICS:
                for method in methods:
                    yield name, n, run, method


def main() -> None:
    """Add lines to the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    add_destination(parser)
    arguments = parser.parse_args()
    add_lines(
        folder_of(arguments, HERE) / "circles.csv", jobs(arguments.runs, arguments.lengths, arguments.methods)
    )


if __name__ == "__main__":
    main()
