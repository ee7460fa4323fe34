"""What more simulations of a single trial gain: ``python -m tests.statistical.trial_rows --record``.

Nats that a learned likelihood loses of a fresh trial against the exact density, by the rows it was fitted
to, with seconds of processor time and the largest memory of the process. Eight minutes of one core.
"""

from __future__ import annotations

import argparse
import csv
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from tests.statistical.trial_problems import PROBLEMS

HERE = Path(__file__).with_suffix(".csv")
SIZES = (5_000, 20_000, 100_000, 1_000_000)
COLUMNS = ("problem", "rows", "lost", "standard_error", "fit_seconds", "gigabytes")
FRESH = 10_000
"""Trials on which densities are compared."""


def fitted(name: str, rows: int) -> dict[str, float | str]:
    """One line: a fit, and what it loses."""
    problem, rng = PROBLEMS[name], np.random.default_rng(rows)
    theta = problem.draw_prior(rows, rng)
    x = problem.draw(theta, rng)
    begun = time.process_time()
    likelihood = problem.learn(theta, x, 1)
    seconds = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    fresh = np.random.default_rng(1)
    theta = problem.draw_prior(FRESH, fresh)
    x = problem.draw(theta, fresh)
    learnt = likelihood.log_density(likelihood.describe(theta), likelihood.prepare(x))
    parts = np.split(np.arange(FRESH), FRESH // 100)
    exact = np.concatenate([np.diagonal(problem.log_density(theta[part], x[part])) for part in parts])
    lost = exact - learnt
    error = lost.std() / np.sqrt(FRESH)
    values = (name, rows, lost.mean().round(5), error.round(5), round(seconds, 1), round(memory, 2))
    return dict(zip(COLUMNS, values, strict=True))


def main() -> None:
    """Print the table; each fit in a process of its own, whose memory is its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=["drift", "g_and_k", "gamma"])
    parser.add_argument("--sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--one", action="store_true", help="a single fit, in this process")
    parser.add_argument("--record", action="store_true", help=f"write {HERE.name}")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.one:
        print(json.dumps(fitted(arguments.problems[0], arguments.sizes[0])))
        return
    lines = []
    for name in arguments.problems:
        for rows in arguments.sizes:
            command = [
                sys.executable,
                "-m",
                "tests.statistical.trial_rows",
                name,
                "--sizes",
                str(rows),
                "--one",
            ]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            lines.append(json.loads(done.stdout.splitlines()[-1]))
            print(*lines[-1].values(), flush=True)
    if arguments.record:
        with HERE.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)


if __name__ == "__main__":
    main()
