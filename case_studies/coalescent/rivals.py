"""All estimators of the localised draft: ``python -m case_studies.coalescent.rivals``.

Section 5.3 of the draft: squared errors of the posterior mean and of the mode against seconds, and errors of
theta against those of rho, for the exact conditional mean, the localised one and the rivals of its section 4.
Bandwidth and ridge are chosen by each estimator's defaults; ranks, features and neighbours are those of
section 5.1. Seconds are of the processor. An interrupted run goes on where it ended.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.accuracy import BOUNDS, load
from case_studies.destination import add_destination, folder_of
from case_studies.embedding_errors import RANK, neighbours
from case_studies.embedding_plots import STYLES
from pymc_kbr.embedding.embedding import Atoms, Embedding, mode
from pymc_kbr.gram import DivideAndConquer, IncompleteCholesky, Nystroem, RandomFeatures, Subsample
from pymc_kbr.kernels import Kernel, parameter_kernel

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
SIZES = (1_000, 3_000, 10_000, 30_000)
LARGEST_EXACT = 10_000
BATCH = 50
"""Observations that are conditioned on at once."""


def methods(n: int) -> dict[str, Callable[[], pk.Estimator]]:
    """The estimators for n rows, by the names of `embedding_errors`."""
    m = neighbours(n)
    made: dict[str, Callable[[], pk.Estimator]] = {
        "exact": lambda: pk.ConditionalMean(solver="exact"),
        "localised": lambda: pk.Localised(m),
        "Nadaraya-Watson": lambda: pk.NadarayaWatson(),
        "random subsample": lambda: pk.ConditionalMean(solver=Subsample(m)),
        "incomplete Cholesky": lambda: pk.ConditionalMean(
            solver=IncompleteCholesky(rank=min(n, RANK), tolerance=1e-6)
        ),
        "random features": lambda: pk.ConditionalMean(solver=RandomFeatures(RANK)),
        "divide and conquer": lambda: pk.ConditionalMean(solver=DivideAndConquer(n // m)),
        "fast randomised": lambda: pk.ConditionalMean(solver=Nystroem(min(n, RANK), sampling="leverage")),
    }
    if n > LARGEST_EXACT:
        del made["exact"]
    return made


def mode_of(weights: np.ndarray, parameters: np.ndarray, kernel: Kernel) -> np.ndarray:
    """The pre-image of an embedding by the fixed point of the draft's eq. 3."""
    carried = weights != 0
    return mode(Embedding(Atoms(parameters[carried], kernel), weights[carried]), starts=2, iterations=60)


def line_of(
    estimator: pk.Estimator,
    table: tuple[np.ndarray, np.ndarray],
    held_out: tuple[np.ndarray, np.ndarray],
    modes: int,
) -> dict[str, float]:
    """Squared errors of means on all held-out rows, of modes on the first of them, and seconds."""
    parameters, (truth, observed) = table[0], held_out
    kernel = parameter_kernel(parameters)
    started = time.process_time()
    estimator.fit(*table, pk.Support.from_bounds(BOUNDS, list(BOUNDS)), random_seed=0)
    fitted, seconds, means = time.process_time(), 0.0, []
    found = []
    for first in range(0, len(truth), BATCH):
        then = time.process_time()
        weights = estimator.weights(observed[first : first + BATCH])
        means.append(weights @ parameters)
        seconds += time.process_time() - then
        found += [mode_of(w, parameters, kernel) for w in weights[: max(0, modes - first)]]
    line = {"held_out": len(truth), "modes": modes}
    for name, gaps in (
        ("mean", np.vstack(means) - truth),
        ("mode", np.array(found) - truth[:modes]),
        ("mean_where_modes", np.vstack(means)[:modes] - truth[:modes]),
    ):
        line |= dict(
            zip((f"mse_of_{name}_{p}" for p in BOUNDS), np.mean(gaps**2, axis=0).tolist(), strict=True)
        )
    return line | {"seconds_fit": fitted - started, "ms_an_observation": 1e3 * seconds / len(truth)}


def table_of(
    coal: Path | None, sizes: tuple[int, ...], held_out: int, modes: int, partial: Path
) -> pd.DataFrame:
    """A line for each size and estimator; those in the file `partial` are not computed again."""
    parameters, statistics = load(coal)
    last = parameters[-held_out:], statistics[-held_out:]
    lines: list[dict[str, Any]] = []
    if partial.exists():
        lines += [dict(line) for _, line in pd.read_csv(partial).iterrows()]
    done = {(line["n"], line["method"]) for line in lines}
    for n in sizes:
        if n > len(parameters) - held_out:
            continue
        for name, make in methods(n).items():
            if (n, name) in done:
                continue
            line = line_of(make(), (parameters[:n], statistics[:n]), last, modes)
            lines.append({"n": n, "method": name, **line})  # type: ignore[dict-item]
            pd.DataFrame(lines).to_csv(partial, index=False)
            print(lines[-1], flush=True)
    return pd.DataFrame(lines)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Mean squared errors over seconds, and theta's over rho's, of means above and of modes below."""
    deviations = np.array([np.ptp(bounds) / np.sqrt(12) for bounds in BOUNDS.values()])
    seconds = table["seconds_fit"] + table["ms_an_observation"] * table["held_out"] / 1e3
    figure, axes = plt.subplots(2, 2, figsize=(8, 7.2), constrained_layout=True)
    for (left, right), what in zip(axes, ("mean", "mode"), strict=True):
        theta, rho = (table[f"mse_of_{what}_{p}"] for p in BOUNDS)
        both = (theta / deviations[0] ** 2 + rho / deviations[1] ** 2) / 2
        for name, part in table.groupby("method", sort=False):
            colour, line, marker = STYLES[str(name)]
            style = {"color": colour, "linestyle": line, "marker": marker, "markersize": 4, "linewidth": 1.1}
            left.plot(seconds[part.index], both[part.index], label=name, **style)
            right.plot(rho[part.index], theta[part.index], **style)
        left.set(
            xscale="log",
            xlabel=f"seconds, fit and {table['held_out'].iloc[0]:,} observations",
            ylabel=f"squared error of the {what}, in prior variances",
        )
        right.set(xlabel=rf"squared error of the {what}, $\rho$", ylabel=r"$\theta$")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main() -> None:
    """Write rivals.csv and rivals.png, or with a user's own data rivals_coal.csv and rivals_coal.png."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coal", type=Path, help="coal.rda of abctools, or the same as CSV")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--held-out", type=int, default=1000, help="the last rows")
    parser.add_argument("--modes", type=int, default=200, help="held-out rows whose modes are computed")
    parser.add_argument("--quick", action="store_true", help="two small sizes, 20 held-out samples")
    add_destination(parser)
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    name = "rivals" if arguments.coal is None else "rivals_coal"
    sizes, held_out, modes = tuple(arguments.sizes), arguments.held_out, arguments.modes
    if arguments.quick:
        sizes, held_out, modes = (100, 300), 20, 5
    partial = output / f"{name}_partial.csv"
    table = table_of(arguments.coal, sizes, held_out, modes, partial)
    table.to_csv(output / f"{name}.csv", index=False, float_format="%.5g")
    partial.unlink()
    plot(table, output / f"{name}.png")


if __name__ == "__main__":
    main()
