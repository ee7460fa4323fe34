"""Accuracy against seconds: ``python -m case_studies.coalescent.runtime``.

`pymc_kbr.compare` on the project's table: every estimator, and local-linear adjustment as the R package abc
does it, at 1,000 to 98,000 simulations; and on the model itself PyMC's `sample_smc`. Seconds of the table's
simulations are those of a few, made on the spot. An interrupted run goes on where it ended.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.accuracy import local_linear
from case_studies.coalescent.model import coalescent_model
from pymc_kbr.tables.datasets import load_coalescent

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
DEVIATIONS = np.array([13.0, 7.2, 3.5, 2.7, 4.8, 6.1, 3.6])
"""Of the statistics over the prior."""

EPSILON = 0.25
"""Of `sample_smc`, in these deviations."""

TYPICAL = np.array([27.0, 12.5, 6.0, 4.4, 16.0, 13.0, 7.0])
SMALL, LARGE = (1_000, 3_000, 10_000), (30_000, 98_000)
SHOWN = ["estimator", "budget", "simulations", "rmse", "crps", "note"]
TIMED = 300
"""Simulations from which the seconds of one are measured."""


def rivals(budget: int, quick: bool) -> dict[str, Any]:
    """The estimators of a budget: above 10,000 simulations those whose draws take milliseconds."""
    given: dict[str, Any] = {
        "rejection": "rejection",
        "nadaraya_watson": "nadaraya_watson",
        "localised": "localised",
        "adjusted": "adjusted",
        "local_linear": local_linear(budget),
    }
    if budget <= max(SMALL):
        given |= {"conditional_mean": "conditional_mean", "kbr": "kbr", "kde": "kde"}
    if not quick:
        given["auto"] = "auto"
    return given


def main() -> None:
    """Write runtime.csv and runtime.png."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="200 simulations, 5 held-out samples")
    parser.add_argument("--repetitions", type=int, default=2)
    parser.add_argument("--observations", type=int, default=300)
    parser.add_argument("--cores", type=int, default=2, help="of `sample_smc` and of the simulations timed")
    parser.add_argument("--output", type=Path, default=HERE)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    arguments.output.mkdir(parents=True, exist_ok=True)
    quick = arguments.quick
    cores = 1 if quick else arguments.cores
    common: dict[str, Any] = {"random_seed": 1, "modes": True}
    model, table, parts = coalescent_model(TYPICAL, EPSILON * DEVIATIONS), load_coalescent(), []
    for budget in (200,) if quick else (*SMALL, *LARGE):
        part = pk.compare(
            table,
            estimators=rivals(budget, quick),
            budgets=[budget],
            observations=5 if quick else arguments.observations,
            repetitions=1 if quick else arguments.repetitions,
            store=arguments.output / f"runtime_{budget}.csv",
            **common,
        )
        parts.append(part)
        print(part[SHOWN].to_string(index=False), flush=True)
    timed = pk.simulate(TIMED, model=model, random_seed=1, progressbar=False)
    each = timed.timings["simulate"] / TIMED / (1 if quick else cores)
    for budget in (20,) if quick else SMALL[:2]:
        part = pk.compare(
            model,
            estimators={"sample_smc": pk.SampleSMC(observations=1 if quick else 3, cores=cores)},
            budgets=[budget],
            observations=3,
            store=arguments.output / f"runtime_smc_{budget}.csv",
            repetitions=1,
            **common,
        )
        parts.append(part)
        print(part[SHOWN].to_string(index=False), flush=True)
    result = pd.concat(parts, ignore_index=True)
    result["seconds_simulate"] = np.where(result["amortised"], result["simulations"] * each, 0.0)
    result.to_csv(arguments.output / "runtime.csv", index=False, float_format="%.5g")
    for partial in arguments.output.glob("runtime_*.csv"):
        partial.unlink()
    plot(result, arguments.output / "runtime.png")


def plot(result: pd.DataFrame, path: Path) -> None:
    """CRPS against seconds as measured, with a costlier simulator, and for a thousand samples."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.6), constrained_layout=True, sharey=True)
    pk.plot_accuracy_runtime(result, score="crps", axes=axes[0])
    pk.plot_accuracy_runtime(result, score="crps", observations=1000, axes=axes[1])
    pk.plot_accuracy_runtime(result, score="crps", cost_per_simulation=10.0, axes=axes[2])
    axes[0].set_title("as measured", fontsize=10)
    axes[1].set_title("for 1,000 samples", fontsize=10)
    axes[2].set_title("were a simulation to take 10 s", fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    for axis in axes:
        axis.get_legend().remove()
        axis.set_ylabel("")
    axes[0].set_ylabel("CRPS, in prior deviations")
    figure.legend(handles, labels, loc="outside upper center", ncols=6, frameon=False, fontsize=8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


if __name__ == "__main__":
    main()
