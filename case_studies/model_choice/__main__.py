"""Probabilities of models against exact ones: ``python -m case_studies.model_choice``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.model_choice.picture import draw
from case_studies.model_choice.toys import TOYS
from pymc_kbr.selection.model_choice.held_out import HeldOutProbabilities
from pymc_kbr.selection.model_choice.methods import Forest
from pymc_kbr.selection.model_choice.rows import Rows

HERE = Path(__file__).parent
OURS = ("auto", "local_logistic", "nearest_rows", "forest")


def lines_of(toy: str, rows: int, count: int, methods: list[str], random_seed: int) -> list[dict[str, Any]]:
    """One line a method: error against the exact probabilities, log score, calibration error."""
    rng = np.random.default_rng(random_seed)
    made = TOYS[toy]()
    tables = made.tables(rows, rng)
    statistics, model, exact = made.observations(count, rng)
    weights = np.full(len(model), 1 / len(model))
    lines = []

    def note(
        method: str,
        chosen: str,
        found: np.ndarray,
        near: tuple[np.ndarray, np.ndarray, np.ndarray],
        own: tuple[float, float],
        s: float,
    ) -> None:
        held = HeldOutProbabilities(found, model, weights)
        lines.append(
            {
                "toy": toy,
                "method": method,
                "chosen": chosen,
                "error": float(np.abs(near[0] - near[1]).mean()),
                "log_score": held.log_score,
                "log_score_exact": HeldOutProbabilities(exact, model, weights).log_score,
                "calibration_error": own[0],
                "calibration_noise": own[1],
                "stated_error": float(near[2].mean()),
                "seconds": s,
            }
        )

    for method in methods:
        started = time.perf_counter()
        choice = pk.compare_models(tables, statistics, method=method, random_seed=random_seed)
        seconds = time.perf_counter() - started
        near = choice.at_observed, exact, choice.errors_at_observed
        calibrated = choice.calibration_error, choice.calibration_noise
        note(method, choice.method, choice.at_observed, near, calibrated, seconds)
    if "forest" in methods:
        joined = Rows.joined(tables, np.full(len(tables), 1 / len(tables)))
        started = time.perf_counter()
        forest = Forest().fit(joined, rng)
        found = forest.probabilities(statistics)
        own = _exact_of_rows(toy, tables, rows, random_seed)
        near = forest.votes_out_of_bag_, own, np.zeros_like(own)
        seconds = time.perf_counter() - started
        held = HeldOutProbabilities(
            forest.votes_out_of_bag_, joined.model, np.full(len(joined), 1 / len(joined))
        )
        calibrated = held.calibration_error(), held.calibration_noise(np.random.default_rng(0))
        note("forest, out of bag", "forest", found, near, calibrated, seconds)
    return lines


def _exact_of_rows(toy: str, tables: dict[str, pk.ReferenceTable], rows: int, random_seed: int) -> np.ndarray:
    """Exact probabilities of the tables' own rows, whose data are drawn once more from the same seed."""
    rng = np.random.default_rng(random_seed)
    made = TOYS[toy]()
    data = np.vstack([draw(rows, rng)[1] for draw in made.models.values()])
    statistics = np.vstack([table.statistics for table in tables.values()])
    assert np.array_equal(made.statistics(data), statistics)
    logs = made.log_evidence(data)
    exact = np.exp(logs - logs.max(axis=1, keepdims=True))
    found: np.ndarray = exact / exact.sum(axis=1, keepdims=True)
    return found


def main() -> None:
    """Write toys.csv and model_choice.png."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000, help="of each model")
    parser.add_argument("--observations", type=int, default=500, help="of each model")
    parser.add_argument("--methods", nargs="+", default=list(OURS))
    parser.add_argument("--quick", action="store_true", help="200 rows, 10 observations")
    add_destination(parser, "folder of toys.csv and its picture")
    arguments = parser.parse_args()
    rows, count = (200, 10) if arguments.quick else (arguments.rows, arguments.observations)
    methods = ["kernel_logistic", "nearest_rows"] if arguments.quick else arguments.methods
    output, lines = folder_of(arguments, HERE), []
    for number, toy in enumerate(TOYS):
        lines += lines_of(toy, rows, count, methods, number)
        table = pd.DataFrame(lines)
        table.round(4).to_csv(output / "toys.csv", index=False)
    draw(output, output / "model_choice.png")
    print(table.round(4).to_string(index=False))


if __name__ == "__main__":
    main()
