"""Scores of all candidates of a race on the same held-out rows, kept so that rules can be compared on them.

``python -m tests.statistical.race_scores FOLDER`` writes a file of each problem and size of a table, in some
minute each; it passes over those that are there. `tests.statistical.race_rules` reads them.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.support import Support
from pymc_kbr.estimators.refitted import after_comparison
from pymc_kbr.selection.budget import Budget
from pymc_kbr.selection.default_candidates import default_candidates, heavy_where_defined
from pymc_kbr.selection.race import Race, with_summaries
from pymc_kbr.selection.select import number_held_out
from pymc_kbr.selection.selection import Candidate, label
from tests.statistical.race_problems import PROBLEMS, Drawn

ROWS, FURTHER = 200, 150
"""Held-out rows that a race draws its own from, and others that tell what is won by a choice."""

SIZES = (4000, 1000, 8000)
"""Rows of the tables: of each problem one of these in turn."""


def plan() -> list[tuple[Callable[[np.random.Generator, int], Drawn], int]]:
    """Problems and sizes of their tables, in the order in which they are computed."""
    return [(problem, SIZES[i % len(SIZES)]) for i, problem in enumerate(PROBLEMS)]


def scored(problem: Callable[[np.random.Generator, int], Drawn], n: int) -> dict[str, Any]:
    """Scores (candidates, rows) as a race sees them, those of further rows, and what the race needs.

    On the further rows learned likelihoods are scored that are fitted to the whole table. NaN: refused.
    """
    theta, x = problem(np.random.default_rng(n), n + ROWS + FURTHER)
    rows = CheckedRows.trusted(theta, x, Support.unbounded(theta.shape[1]), None)
    fitted_to = n - number_held_out(n)
    rest, held_out = rows.some(np.arange(fitted_to)), rows.some(np.arange(n, len(x)))
    race = Race(rest, held_out, np.random.default_rng(1), Budget(1e9))
    tried = default_candidates(fitted_to, x.shape[1], heavy=heavy_where_defined(x[:n]))
    candidates = [Candidate(label(one), one) for one in tried]
    scores, further = np.full((len(tried), ROWS), np.nan), np.full((len(tried), FURTHER), np.nan)
    for i, one in enumerate(candidates):
        one.cost = race.fitting.cost(one.estimator)
        race._score(one, 0, ROWS, [one])
        if one.fitted is None:
            continue
        scores[i] = one.scores
        whole = one.fitted
        if one.in_part:
            prepared = with_summaries(one.estimator, race.fitting._summaries)
            whole = after_comparison(prepared, one.fitted)
            whole.fit_table(race.fitting._table(prepared), np.random.default_rng(2))
        lines = race.scoring.here(whole.for_scores(), np.arange(ROWS, ROWS + FURTHER))
        further[i] = [score for score, _, _ in lines]
    return {
        "label": [one.label for one in candidates],
        "fit": [one.cost.fit for one in candidates],
        "a_row": [one.cost.a_row for one in candidates],
        "size": [one.size for one in candidates],
        "pvalue": [getattr(one.fitted, "transforms_pvalue_", 1.0) for one in candidates],
        "seconds": [one.seconds for one in candidates],
        "note": [one.note for one in candidates],
        "scores": scores,
        "further": further,
        "parameters": theta.shape[1],
        "statistics": x.shape[1],
        "in_part": [one.in_part for one in candidates],
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for law, size in plan():
        file = folder / f"{law.__name__}_{size}.npz"
        if file.exists():
            continue
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            np.savez(file, **scored(law, size))
        print(file.name, round(time.process_time() - began, 1), flush=True)
