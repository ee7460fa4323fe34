"""What more statistics bring over the seven: ``python -m case_studies.coalescent.richer``.

All 73 are of the same samples, so that scores of held-out rows are compared row by row.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

import pymc_kbr as pk
from case_studies.coalescent.demographies import constant
from case_studies.coalescent.model import STATISTICS
from case_studies.coalescent.richer_statistics import RICHER
from case_studies.destination import add_destination, folder_of
from pymc_kbr.posterior.scores import energy_score

HERE = Path(__file__).parent
SEED = 20261124
DRAWS = 200
"""Of each posterior that is scored."""

GROUPS = {
    "the seven": (),
    "and the spectrum": ("minor_", "tajima_d"),
    "and linkage by distance": ("r2_", "four_gametes_", "recombinations", "congruent"),
    "and haplotypes": ("common_", "copies_", "haplotypes_in_", "homozygosity", "variance_differences"),
    "all 73": ("",),
}
"""What is added to the seven, by the first letters of the columns."""


def columns_of(starts: tuple[str, ...]) -> list[str]:
    """The seven, and the columns that begin with one of some words."""
    return [*STATISTICS, *(name for name in RICHER if name not in STATISTICS and name.startswith(starts))]


def part_of(frame: pd.DataFrame, columns: list[str]) -> pk.ReferenceTable:
    """A table of some of the columns."""
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["theta", "rho"], statistics=columns, bounds={"theta": (2, 10), "rho": (0, 10)}
    )


def scores_of(
    estimator: Any, table: pk.ReferenceTable, held_out: pk.ReferenceTable, random_seed: int
) -> tuple[Any, np.ndarray, float]:
    """The fitted estimator, energy scores (k,) of held-out rows in prior deviations, and seconds."""
    started = time.perf_counter()
    if estimator == "auto":
        fitted = pk.select(table, random_seed=random_seed, progressbar=False)
    else:
        fitted = estimator.fit(table, random_seed=random_seed)
    unit, rng = table.parameters.std(axis=0), np.random.default_rng(random_seed)
    posteriors = fitted.for_scores().condition(held_out.statistics)
    scores = [
        energy_score(posterior.draw(DRAWS, rng) / unit, truth / unit, fair=True)
        for posterior, truth in zip(posteriors, held_out.parameters, strict=True)
    ]
    return fitted, np.array(scores), time.perf_counter() - started


def main() -> None:
    """Write richer.csv, a line a group of statistics, and richer_columns.csv, a line a column."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument(
        "--quick", action="store_true", help="100 simulations, 20 held out, three columns, no choice"
    )
    add_destination(parser, "folder of richer.csv and richer_columns.csv")
    arguments = parser.parse_args()
    n, k = (100, 20) if arguments.quick else (arguments.simulations, arguments.held_out)
    model = constant(np.zeros(len(RICHER)))
    cores = 1 if arguments.quick else arguments.cores
    frame = pk.simulate(n + k, model=model, random_seed=SEED, cores=cores).to_dataframe()
    frame.columns = ["theta", "rho", *RICHER]  # type: ignore[assignment]
    output = folder_of(arguments, HERE)

    lines: list[dict[str, Any]] = []
    first = np.empty(0)
    for words, starts in track(GROUPS.items(), "Groups of statistics"):
        columns = columns_of(starts) if starts else list(STATISTICS)
        table, held_out = part_of(frame[:n], columns), part_of(frame[n:], columns)
        estimator = pk.Adjusted() if arguments.quick else "auto"
        fitted, scores, seconds = scores_of(estimator, table, held_out, 1)
        first = scores if not lines else first
        lines.append(_line(words, scores, first) | {"columns": len(columns), "seconds": seconds})
        lines[-1]["chosen"] = "adjusted" if arguments.quick else fitted.selection_.chosen.label
    groups = pd.DataFrame(lines)
    groups.round(4).to_csv(output / "richer.csv", index=False)
    print(groups.round(4).to_string(index=False))

    added = [name for name in RICHER if name not in STATISTICS][: 3 if arguments.quick else None]
    lines, first = [], np.empty(0)
    for name in track(["none", *added], "Columns, one at a time"):
        columns = [*STATISTICS, *([name] if name != "none" else [])]
        table, held_out = part_of(frame[:n], columns), part_of(frame[n:], columns)
        _, scores, _ = scores_of(pk.Adjusted(), table, held_out, 1)
        first = scores if not lines else first
        lines.append(_line(name, scores, first))
    of_columns = pd.DataFrame(lines).sort_values("energy_score")
    of_columns.round(4).to_csv(output / "richer_columns.csv", index=False)
    print(of_columns.head(15).round(4).to_string(index=False))


def _line(added: str, scores: np.ndarray, first: np.ndarray) -> dict[str, Any]:
    """Scores, and how much lower they are than the first ones, with its standard error."""
    lower = (first - scores) / first.mean()
    return {
        "added": added,
        "energy_score": scores.mean(),
        "lower_by": lower.mean(),
        "standard_error": lower.std() / np.sqrt(len(lower)),
    }


if __name__ == "__main__":
    main()
