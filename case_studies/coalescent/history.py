"""Which history a population has: ``python -m case_studies.coalescent.history``.

Constant, grown or through a bottleneck, by the seven statistics and by all 73, against the forest of abcrf
and the regression of abc on the same rows. With ``--store`` simulations and choices are kept there, and the
same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.demographies import DEMOGRAPHIES
from case_studies.coalescent.model import STATISTICS
from case_studies.coalescent.richer_statistics import RICHER
from case_studies.destination import add_destination, folder_of
from pymc_kbr.selection.model_choice.held_out import HeldOutProbabilities
from pymc_kbr.selection.model_choice.methods import log_scores
from pymc_kbr.tables.columns import Columns

HERE = Path(__file__).parent
SEED = 20261125
METHODS = ("auto", "local_logistic", "forest")
SLOW = {"local_logistic": 900}
"""A method that fits anew for each observation, and the held-out rows on which it is scored."""


def split(
    tables: dict[str, pk.ReferenceTable], columns: list[int], rows: int
) -> tuple[dict[str, pk.ReferenceTable], np.ndarray, np.ndarray]:
    """Tables of the first rows and of some columns; statistics of the others, and their models."""
    names = [RICHER[column] for column in columns]
    learnt = {
        name: dataclasses.replace(
            table,
            parameters=table.parameters[:rows],
            statistics=table.statistics[:rows, columns],
            observed=None,
            observed_data={},
            statistic_columns=Columns.scalars(names),
        )
        for name, table in tables.items()
    }
    held_out = [table.statistics[rows:, columns] for table in tables.values()]
    model = np.repeat(np.arange(len(tables)), [len(part) for part in held_out])
    return learnt, np.vstack(held_out), model


def chosen_by(
    method: str, learnt: dict[str, pk.ReferenceTable], statistics: np.ndarray, kept: Path | None
) -> tuple[pk.ModelChoice, float]:
    """The choice at statistics (k, d), and its seconds; from the file `kept` where it was made before."""
    took = None if kept is None else kept.with_suffix(".seconds")
    if kept is not None and took is not None and took.exists():
        return pk.load(kept), float(took.read_text())
    started = time.perf_counter()
    choice = pk.compare_models(learnt, statistics, method=method, random_seed=1)
    seconds = time.perf_counter() - started
    if kept is not None and took is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        pk.save(choice, kept, overwrite=True)
        took.write_text(str(seconds))  # last: a file of seconds says that the choice is whole
    return choice, seconds


def lines_of(
    words: str,
    methods: tuple[str, ...],
    learnt: dict[str, pk.ReferenceTable],
    held_out: tuple[np.ndarray, np.ndarray],
    folder: Path | None,
) -> list[dict[str, Any]]:
    """A line a method, on statistics and models of held-out rows; printed as soon as it is there."""
    order = np.random.default_rng(0).permutation(len(held_out[1]))
    statistics, model = held_out[0][order], held_out[1][order]
    lines: list[dict[str, Any]] = []
    best: tuple[np.ndarray, np.ndarray] | None = None
    for method in methods:
        count = min(SLOW.get(method, len(model)), len(model))
        kept = None if folder is None else folder / f"{words}-{method}-{len(model)}.npz".replace(" ", "-")
        choice, seconds = chosen_by(method, learnt, statistics[:count], kept)
        scores = log_scores(choice.at_observed, model[:count])
        right = choice.at_observed.argmax(axis=1) == model[:count]
        best = (scores, right) if best is None else best
        lead, more = best[0][:count] - scores, best[1][:count] - right.astype(float)
        found = HeldOutProbabilities(choice.at_observed, model[:count], np.full(count, 1 / count))
        lines.append(
            {
                "statistics": words,
                "method": method,
                "chosen": choice.method,
                "log_score": found.log_score,
                "below_first": float(lead.mean()),
                "standard_error": float(lead.std() / np.sqrt(count)),
                "held_out": count,
                "accuracy": found.accuracy,
                "accuracy_below_first": float(more.mean()),
                "accuracy_standard_error": float(more.std() / np.sqrt(count)),
                "calibration_error": found.calibration_error(),
                "calibration_noise": found.calibration_noise(np.random.default_rng(0)),
                "seconds": seconds,
            }
        )
        print(pd.DataFrame(lines[-1:]).round(4).to_string(index=False, header=not lines[:-1]), flush=True)
        if method == methods[0]:
            print(choice.deciding_statistics().head(12).round(4).to_string(), flush=True)
    return lines


def main() -> None:
    """Write history.csv: log score and accuracy of each method, and what it is below the best by."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000, help="of each history")
    parser.add_argument("--held-out", type=int, default=2000, help="of each history")
    parser.add_argument("--store", type=Path, help="folder that keeps simulations and choices, to go on from")
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="60 rows, 5 held out")
    add_destination(parser, "folder of history.csv")
    arguments = parser.parse_args()
    rows, held_out = (60, 5) if arguments.quick else (arguments.rows, arguments.held_out)
    methods = ("kernel_logistic", "nearest_rows") if arguments.quick else METHODS
    warnings.filterwarnings("ignore", message="the statistics in columns")
    models = {name: make(np.zeros(len(RICHER))) for name, make in DEMOGRAPHIES.items()}
    how: dict[str, Any] = {"store": arguments.store, "cores": 1 if arguments.quick else arguments.cores}
    tables = pk.simulate_models(models, rows + held_out, random_seed=SEED, **how)
    folder = None if arguments.store is None else arguments.store / "choices"

    output, lines = folder_of(arguments, HERE), []
    for words, columns in (("seven", list(range(len(STATISTICS)))), ("all 73", list(range(len(RICHER))))):
        learnt, *scored = split(tables, columns, rows)
        lines += lines_of(words, methods, learnt, (scored[0], scored[1]), folder)
        table = pd.DataFrame(lines)
        table.round(4).to_csv(output / "history.csv", index=False)
    print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main()
