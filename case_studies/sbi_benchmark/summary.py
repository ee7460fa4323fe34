"""Means over observations, beside the published figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from case_studies.sbi_benchmark.results import CLASSIFIERS, KEYS
from case_studies.sbi_benchmark.tasks import TASKS

PUBLISHED = Path(__file__).parent / "published.csv"
SEVEN = ("gaussian_linear", "two_moons", "gaussian_mixture", "bernoulli_glm", "slcp", "sir", "lotka_volterra")
"""Tasks over which means are taken: those that every method with a published forest's figure has."""

MEAN_OF_SEVEN = "mean of seven"

LEAST_FIGURES = 2
"""Of a cell: further ones, of most simulations, are shown where there are some."""


def published() -> pd.DataFrame:
    """Task, method, budget, classifier, c2st and source.

    Sources: lueckmann2021 is Lueckmann, Boelts, Greenberg, Goncalves and Macke, Benchmarking
    simulation-based inference (AISTATS 2021); vetter2025 is Vetter, Gloeckler, Gedon and Macke,
    Effortless, simulation-efficient Bayesian inference using tabular foundation models (2025).
    """
    return pd.read_csv(PUBLISHED)


def means(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy and seconds over observations, with standard errors of the means.

    Returns
    -------
    DataFrame
        A line for each task, budget, method and classifier, with `c2st`, `standard_error` (missing for
        one observation), `observations` and `seconds` (fit shared by the observations once, conditioning
        and drawing as their mean).
    """
    parts = []
    for name in CLASSIFIERS:
        part = lines.dropna(subset=[f"c2st_{name}"]).copy()
        part["c2st"] = part[f"c2st_{name}"].astype(float)
        part["seconds"] = part["seconds_fit"] + part["seconds_condition"]
        groups = part.groupby(KEYS[:3], sort=False)
        found = groups["c2st"].agg(c2st="mean", deviation="std", observations="count")
        found["standard_error"] = found.pop("deviation") / np.sqrt(found["observations"])
        found["seconds"] = groups["seconds"].mean()
        parts.append(found.reset_index().assign(classifier=name))
    return pd.concat(parts, ignore_index=True)


def over_seven(found: pd.DataFrame) -> pd.DataFrame:
    """Means of `means` over the seven tasks, for budgets and methods that have all of them."""
    seven = found[found["task"].isin(SEVEN)]
    groups = seven.groupby(["budget", "method", "classifier"], sort=False)["c2st"]
    both = groups.agg(c2st="mean", tasks="count").reset_index()
    return both[both["tasks"] == len(SEVEN)].drop(columns="tasks")


def wide(lines: pd.DataFrame, classifier: str, rivals: pd.DataFrame | None = None) -> pd.DataFrame:
    """One line a task, with columns (method, budget, "c2st" or "standard_error").

    Of ours, or of `rivals`, lines of the published figures. The last line is the mean over the seven
    tasks, for methods that have them all.
    """
    found = means(lines) if rivals is None else rivals.assign(standard_error=np.nan)
    found = found[found["classifier"] == classifier]
    seven = over_seven(found).assign(task=MEAN_OF_SEVEN, standard_error=np.nan)
    found = pd.concat([found, seven]) if len(seven) else found
    values = ["c2st", "standard_error"]
    table = found.pivot(index="task", columns=["method", "budget"], values=values)
    table = table.reorder_levels([1, 2, 0], axis="columns")
    return table.reindex([name for name in [*TASKS, MEAN_OF_SEVEN] if name in table.index])


def columns(lines: pd.DataFrame, classifier: str) -> list[tuple[str, bool]]:
    """Methods in the order of a table, and whether they are ours."""
    of_ours = lines.dropna(subset=[f"c2st_{classifier}"])["method"]
    theirs = published()
    of_theirs = theirs.loc[theirs["classifier"] == classifier, "method"]
    return [(name, True) for name in dict.fromkeys(of_ours)] + [
        (name, False) for name in dict.fromkeys(of_theirs)
    ]


def markdown(lines: pd.DataFrame, classifier: str) -> str:
    """Tasks down, methods across; a cell has a figure for each number of simulations, two at least."""
    ours, theirs = wide(lines, classifier), wide(lines, classifier, published())
    budgets = sorted(set(lines["budget"]))
    methods = columns(lines, classifier)
    rows = [["task", *(f"`{name}`" if own else name for name, own in methods)], ["---"] * (len(methods) + 1)]
    for task in ours.index:
        cells = [f"`{task}`" if task in TASKS else str(task)]
        for name, own in methods:
            table = ours if own else theirs
            figures = [_figure(table, task, name, budget) for budget in budgets]
            while len(figures) > LEAST_FIGURES and figures[-1] == "-":
                figures.pop()
            cells.append(" / ".join(figures))
        rows.append(cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _figure(table: pd.DataFrame, task: object, method: str, budget: int) -> str:
    """An accuracy with its standard error, a dash where there is none."""
    line = table.T.get(task, pd.Series(dtype=float))
    value, error = (line.get((method, budget, part), np.nan) for part in ("c2st", "standard_error"))
    if np.isnan(value):
        return "-"
    return f"{value:.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")


def filled(text: str, lines: pd.DataFrame) -> str:
    """A README with its tables, between two comments each, as they are in the lines."""
    for classifier in CLASSIFIERS:
        start, end = f"<!-- {classifier} -->", f"<!-- end of {classifier} -->"
        before, _, rest = text.partition(start)
        _, found, after = rest.partition(end)
        if not found:
            raise ValueError(f"the text has no table between {start} and {end}")
        text = f"{before}{start}\n{markdown(lines, classifier)}\n{end}{after}"
    return text
