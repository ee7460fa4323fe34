"""Where the figures of the tables of the ten tasks are from."""

from __future__ import annotations

import pandas as pd

from case_studies.sbi_benchmark import summary
from case_studies.sbi_benchmark.results import CLASSIFIERS, Results
from tests.case_studies.readme_figures import STUDIES, Table, word

SBI = "sbi_benchmark"


def results() -> pd.DataFrame:
    """The lines of the study."""
    return Results(STUDIES / SBI / "results.csv").scored()


def lines(classifier: str) -> pd.DataFrame:
    """A line a task, with a column "whose method budget value" for ours and for the published."""
    ours = summary.wide(results(), classifier)
    theirs = summary.wide(results(), classifier, summary.published()).reindex(ours.index)
    for whose, part in (("ours", ours), ("published", theirs)):
        part.columns = [f"{whose} {method} {budget} {value}" for method, budget, value in part.columns]
    return pd.concat([ours, theirs], axis=1).reset_index(names="task")


def table(classifier: str) -> Table:
    """Of one classifier."""
    budgets = sorted(set(results()["budget"]))
    columns = {}
    for place, (method, own) in enumerate(summary.columns(results(), classifier), start=1):
        whose = "ours" if own else "published"
        columns[place] = [
            f"{whose} {method} {budget} {value}" for budget in budgets for value in ("c2st", "standard_error")
        ]
    return Table(lambda: lines(classifier), {"task": word(0)}, columns)


TABLES = [table(classifier) for classifier in CLASSIFIERS]
