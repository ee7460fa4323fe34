"""States seen through images: ``python -m case_studies.filtering.images``.

Xu 2022, section 5.3: an agent that turns in a maze, and a shape that moves with the oscillation's dynamics. A
line of `images.csv` is one method in one run. Learnt features and the recurrent network need PyTorch, the
extra `neural`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pandas as pd

from case_studies.destination import add_destination, folder_of
from case_studies.filtering import maze, sprite
from case_studies.filtering.circles import PUBLISHED
from case_studies.filtering.lines import add_lines
from case_studies.filtering.recurrent import predicted
from pymc_kbr.estimators.summaries import NeuralFeatures
from pymc_kbr.filtering import KernelBayesFilter

HERE = Path(__file__).parent
LENGTH, TEST_STEPS, RUNS, SEED = 300, 200, 10, 131
PIXEL_NOISE = 0.1
"""Its deviation: the variance is the paper's 0.01."""

PROBLEMS = {"maze": (maze.turns, (36, 48, 3)), "sprite": (sprite.moves, (64, 64))}
METHODS = ("original", "importance_weighted", "default", "learnt_features", "recurrent")
COLUMNS = ("problem", "n", "run", "method", "error", "seconds")


@lru_cache(maxsize=1)
def sequence(problem: str, n: int, run: int) -> tuple[np.ndarray, np.ndarray]:
    """States (T, 2) and frames (T, d) of training and test."""
    return simulated(problem, n + TEST_STEPS, [n, run])


def simulated(problem: str, steps: int, seed: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """States (steps, 2) and frames (steps, d) with the noise of their pixels."""
    rng = np.random.default_rng([SEED, list(PROBLEMS).index(problem), *seed])
    states, frames = PROBLEMS[problem][0](steps, rng)
    flat = frames.reshape(len(frames), -1)
    return states, flat + PIXEL_NOISE * rng.normal(size=flat.shape)


def line(problem: str, n: int, run: int, method: str, steps: int = 150) -> dict[str, object]:
    """Squared error a step of one method in one run; `steps` are those of a feature map's descent."""
    states, seen = sequence(problem, n, run)
    shape = PROBLEMS[problem][1]
    started = time.process_time()
    if method == "recurrent":
        means = predicted(states[:n], seen[:n], seen[n:], shape, run)
    else:
        filters = {
            "original": KernelBayesFilter("kbr", **PUBLISHED),  # type: ignore[arg-type]
            "importance_weighted": KernelBayesFilter(**PUBLISHED),  # type: ignore[arg-type]
            # The features' tuning on pixels: what is gained without features.
            "default": KernelBayesFilter(correction=False),
            "learnt_features": KernelBayesFilter(
                correction=False, features=NeuralFeatures(shape=shape, steps=steps, random_seed=run)
            ),
        }
        means = filters[method].fit(states[:n], seen[:n], random_seed=run).filter(seen[n:]).mean()
    error = float(np.mean(np.sum((means - states[n:]) ** 2, axis=1)))
    return {"error": error, "seconds": time.process_time() - started}


def jobs(runs: int, n: int, methods: Sequence[str] = METHODS) -> Iterable[tuple[str, int, int, str]]:
    """Run by run."""
    return [(name, n, run, method) for run in range(runs) for name in PROBLEMS for method in methods]


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean errors over the runs that every method of a cell has, a line a problem and length."""
    found = []
    for (name, n), cell in lines.groupby(["problem", "n"], sort=False):
        errors = cell.pivot(index="run", columns="method", values="error").dropna()
        line: dict[str, object] = {"problem": name, "n": n, "runs": len(errors)}
        for method in METHODS:
            line |= {method: errors[method].mean(), f"{method}_standard_error": errors[method].sem()}
        found.append(line)
    return pd.DataFrame(found)


def picture(path: Path) -> None:
    """Frames of both problems, with the noise of their pixels."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 8, figsize=(9, 2.2), constrained_layout=True)
    for row, name in zip(axes, PROBLEMS, strict=True):
        shape = PROBLEMS[name][1]
        for axis, frame in zip(row, simulated(name, 8, [0])[1], strict=True):
            axis.imshow(np.clip(frame, 0, 1).reshape(shape), cmap="gray")
            axis.axis("off")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Add what is missing, and write the table and the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two runs of short sequences")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--length", type=int, default=LENGTH)
    add_destination(parser)
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    runs, n, steps = (2, 60, 5) if arguments.quick else (arguments.runs, arguments.length, 150)
    add_lines(output / "images.csv", COLUMNS, jobs(runs, n), partial(line, steps=steps))
    table = summary(pd.read_csv(output / "images.csv"))
    table.round(5).to_csv(output / "images_means.csv", index=False)
    picture(output / "images.png")


if __name__ == "__main__":
    main()
