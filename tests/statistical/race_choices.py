"""What `select` takes on twenty-four problems: its scores on other rows, and seconds.

``python -m tests.statistical.race_choices --rows 10000`` appends lines to ``race_choices.csv``, one a
problem, and prints the table that is there; without ``--rows`` it only prints. Posteriors of 120 rows that
no table has are scored by the energy scores of power one tenth (by which `select` chooses) and of power one,
in deviations of the parameters. Column `version` names the code that chose.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from pymc_kbr.posterior.scores import energy_score
from tests.statistical.race_problems import PROBLEMS, Drawn

FIGURES = Path(__file__).with_name("race_choices.csv")
FURTHER, DRAWS = 120, 300


def table_of(drawn: Drawn) -> pk.ReferenceTable:
    """Parameters t0, t1, ... and statistics x0, x1, ..."""
    names = [[f"{letter}{i}" for i in range(side.shape[1])] for letter, side in zip("tx", drawn, strict=True)]
    frame = pd.DataFrame(np.hstack(drawn), columns=[*names[0], *names[1]])
    return pk.ReferenceTable.from_dataframe(frame, parameters=names[0], statistics=names[1])


def scores(fitted: pk.Estimator, drawn: Drawn, unit: np.ndarray) -> np.ndarray:
    """Energy scores of both powers (rows, 2)."""
    found = []
    for row, posterior in enumerate(fitted.for_scores().condition(drawn[1])):
        draws = posterior.draw(DRAWS, np.random.default_rng((5, row))) / unit
        truth = drawn[0][row] / unit
        found.append([energy_score(draws, truth, power, fair=True) for power in (0.1, 1.0)])
    return np.array(found)


def main() -> None:
    """Append and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int)
    parser.add_argument("--version", default="now")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    known = pd.read_csv(FIGURES) if FIGURES.exists() else pd.DataFrame()
    for problem in PROBLEMS if arguments.rows else []:
        drawn = problem(np.random.default_rng(1), arguments.rows)
        started = time.process_time()
        fitted = pk.select(table_of(drawn), random_seed=1, progressbar=False)
        line = {
            "version": arguments.version,
            "problem": problem.__name__,
            "rows": arguments.rows,
            "seconds": round(time.process_time() - started, 1),
            "chosen": type(fitted).__name__,
            "form": fitted.choice_.name if isinstance(fitted, pk.KernelLikelihood) else "",
        }
        found = scores(fitted, problem(np.random.default_rng(2), FURTHER), drawn[0].std(axis=0))
        line |= dict(zip(("score_tenth", "score_one"), found.mean(axis=0).round(4), strict=True))
        known = pd.concat([known, pd.DataFrame([line])], ignore_index=True)
        known.to_csv(FIGURES, index=False)
    print(known.to_string())
    print(known.groupby(["version", "rows"])[["seconds", "score_tenth", "score_one"]].mean().round(4))


if __name__ == "__main__":
    main()
