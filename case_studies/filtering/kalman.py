"""Where Kalman's filter is exact: ``python -m case_studies.filtering.kalman``.

An autoregression z' = 0.9 z + 0.3 e, seen as x = z + 0.5 e. A line of `kalman.csv` is a run: distances of
filtered and smoothed means from the exact ones in deviations of the state, and what 90% bands cover.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from case_studies.destination import add_destination, folder_of
from case_studies.filtering.systems import beliefs
from pymc_kbr.filtering import KernelBayesFilter

HERE = Path(__file__).parent
SLOPE, STATE_NOISE, NOISE = 0.9, 0.3, 0.5
DEVIATION = STATE_NOISE / np.sqrt(1 - SLOPE**2)
STEPS, EVERY, SEED = 400, 4, 71
COLUMNS = ("n", "run", "kind", "distance", "mean_distance", "coverage", "exact_coverage", "width_over_exact")


def simulate(steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States and observations (steps, 1), stationary."""
    states = np.empty((steps, 1))
    states[0] = rng.normal(scale=DEVIATION)
    for t in range(1, steps):
        states[t] = SLOPE * states[t - 1] + STATE_NOISE * rng.normal()
    return states, states + NOISE * rng.normal(size=states.shape)


def kalman(x: np.ndarray) -> dict[str, np.ndarray]:
    """Means and deviations (T, 2) of the filter, and of Rauch, Tung and Striebel's smoother."""
    mean, variance, filtered, ahead = 0.0, DEVIATION**2, [], []
    for t, seen in enumerate(x[:, 0]):
        if t:
            mean, variance = SLOPE * mean, SLOPE**2 * variance + STATE_NOISE**2
        ahead.append((mean, variance))
        gain = variance / (variance + NOISE**2)
        mean, variance = mean + gain * (seen - mean), (1 - gain) * variance
        filtered.append((mean, variance))
    smoothed = [filtered[-1]]
    for (m, v), (m_ahead, v_ahead) in zip(filtered[-2::-1], ahead[:0:-1], strict=True):
        gain = SLOPE * v / v_ahead
        later, later_variance = smoothed[-1]
        smoothed.append((m + gain * (later - m_ahead), v + gain**2 * (later_variance - v_ahead)))
    found = {"filter": np.array(filtered), "smooth": np.array(smoothed[::-1])}
    return {kind: np.column_stack([rows[:, 0], np.sqrt(rows[:, 1])]) for kind, rows in found.items()}


def lines(n: int, run: int) -> list[dict[str, object]]:
    """A line for the filter and one for the smoother."""
    rng = np.random.default_rng([SEED, n, run])
    states, observations = simulate(n, rng)
    fresh, seen = simulate(STEPS, rng)
    kbf = KernelBayesFilter(correction=False).fit(states, observations, random_seed=run)
    found: list[dict[str, object]] = []
    results = beliefs(kbf, seen)
    for kind, exact in kalman(seen).items():
        result = results[kind]
        apart = (result.mean()[:, 0] - exact[:, 0]) / DEVIATION
        few = replace(result, weights=result.weights[::EVERY], times=result.times[::EVERY])
        bands, truth = few.interval(0.9)[:, :, 0], fresh[::EVERY, 0]
        half = 1.6449 * exact[::EVERY, 1]
        numbers = {
            "distance": float(np.sqrt(np.mean(apart**2))),
            "mean_distance": float(np.abs(apart).mean()),
            "coverage": float(np.mean((truth >= bands[:, 0]) & (truth <= bands[:, 1]))),
            "exact_coverage": float(np.mean(np.abs(truth - exact[::EVERY, 0]) <= half)),
            "width_over_exact": float(np.mean((bands[:, 1] - bands[:, 0]) / (2 * half))),
        }
        found.append({"n": n, "run": run, "kind": kind} | {key: f"{v:.4f}" for key, v in numbers.items()})
    return found


def add_lines(path: Path, runs: int, lengths: Sequence[int]) -> None:
    """Append what is not there yet."""
    there = set()
    if path.exists():
        with path.open(newline="") as file:
            there = {(int(row["n"]), int(row["run"])) for row in csv.DictReader(file)}
    else:
        path.write_text(",".join(COLUMNS) + "\n")
    for run in range(runs):
        for n in lengths:
            if (n, run) not in there:
                made = lines(n, run)
                with path.open("a", newline="") as file:
                    csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(made)


def main() -> None:
    """Add lines to the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--lengths", type=int, nargs="+", default=[500, 2000])
    add_destination(parser)
    arguments = parser.parse_args()
    add_lines(folder_of(arguments, HERE) / "kalman.csv", arguments.runs, arguments.lengths)


if __name__ == "__main__":
    main()
