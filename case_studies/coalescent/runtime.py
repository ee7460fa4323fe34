"""Accuracy against seconds: ``python -m case_studies.coalescent.runtime``.

`pymc_kbr.compare` on the project's table: every estimator, and local-linear adjustment as the R package abc
does it, at 1,000 to 98,000 simulations; and on the model itself PyMC's `sample_smc`. Seconds of the table's
simulations are those of a few, made on the spot. An interrupted run goes on where it ended.

With ``--coal`` the table is a user's own `coal` of the R package abctools, without its first 100 rows, which
`coalobs` repeats. Seconds of its simulations are then those of our simulator; `sample_smc`, which would be
scored on other samples, is left out.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from case_studies.coalescent.accuracy import BOUNDS, load, local_linear
from case_studies.coalescent.data import load_coalescent
from case_studies.coalescent.model import STATISTICS, coalescent_model
from case_studies.destination import add_destination, folder_of

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
TIMED, TIMED_QUICKLY = 300, 30
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
    parser.add_argument("--coal", type=Path, help="coal.rda of abctools, or the same as CSV")
    add_destination(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    arguments.output = folder_of(arguments, HERE)
    name = "runtime" if arguments.coal is None else "runtime_coal"
    model = coalescent_model(TYPICAL, EPSILON * DEVIATIONS)
    parts = of_tables(arguments, name)
    count = TIMED_QUICKLY if arguments.quick else TIMED
    timed = pk.simulate(count, model=model, random_seed=1, progressbar=False)
    each = timed.timings["simulate"] / count / (1 if arguments.quick else arguments.cores)
    if arguments.coal is None:
        parts += of_smc(model, arguments)
    result = pd.concat(parts, ignore_index=True)
    result["seconds_simulate"] = np.where(result["amortised"], result["simulations"] * each, 0.0)
    result.to_csv(arguments.output / f"{name}.csv", index=False, float_format="%.5g")
    for partial in arguments.output.glob(f"partial_{name}_*.csv"):
        partial.unlink()
    plot(result, arguments.output / f"{name}.png")


def table_of(coal: Path | None) -> pk.ReferenceTable:
    """The project's table, or a user's `coal` without its first 100 rows."""
    if coal is None:
        return load_coalescent()
    frame = pd.DataFrame(np.hstack(load(coal)), columns=[*BOUNDS, *STATISTICS])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=list(BOUNDS), statistics=list(STATISTICS), bounds=BOUNDS
    )


def of_tables(arguments: argparse.Namespace, name: str) -> list[pd.DataFrame]:
    """The comparison of all estimators at each budget that the table holds."""
    table, quick = table_of(arguments.coal), arguments.quick
    observations = 5 if quick else arguments.observations
    # A smaller table's largest budget is what its held-out rows leave.
    largest = len(table) - observations
    budgets = (200,) if quick else sorted({min(budget, largest) for budget in (*SMALL, *LARGE)})
    parts = []
    for budget in budgets:
        parts.append(
            pk.compare(
                table,
                estimators=rivals(budget, quick),
                budgets=[budget],
                observations=observations,
                repetitions=1 if quick else arguments.repetitions,
                store=arguments.output / f"partial_{name}_{budget}.csv",
                random_seed=1,
                modes=True,
            )
        )
        print(parts[-1][SHOWN].to_string(index=False), flush=True)
    return parts


def of_smc(model: pm.Model, arguments: argparse.Namespace) -> list[pd.DataFrame]:
    """PyMC's `sample_smc` on samples of its own."""
    quick = arguments.quick
    smc = pk.SampleSMC(observations=1 if quick else 3, cores=1 if quick else arguments.cores)
    parts = []
    for budget in (10,) if quick else SMALL[:2]:
        parts.append(
            pk.compare(
                model,
                estimators={"sample_smc": smc},
                budgets=[budget],
                observations=3,
                store=arguments.output / f"partial_runtime_smc_{budget}.csv",
                repetitions=1,
                random_seed=1,
                modes=True,
            )
        )
        print(parts[-1][SHOWN].to_string(index=False), flush=True)
    return parts


def plot(result: pd.DataFrame, path: Path) -> None:
    """CRPS against seconds as measured, with a costlier simulator, and for a thousand samples."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.6), constrained_layout=True, sharey=True)
    pk.plot_accuracy_runtime(result, score="crps", ax=axes[0])
    pk.plot_accuracy_runtime(result, score="crps", observations=1000, ax=axes[1])
    pk.plot_accuracy_runtime(result, score="crps", cost_per_simulation=10.0, ax=axes[2])
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
