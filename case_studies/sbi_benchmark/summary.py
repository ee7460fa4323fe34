"""Means over observations, beside the published figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from case_studies.sbi_benchmark.results import CLASSIFIERS, KEYS
from case_studies.sbi_benchmark.tasks import TASKS

PUBLISHED = Path(__file__).parent / "published.csv"
SEVEN = (
    "gaussian_linear",
    "two_moons",
    "gaussian_mixture",
    "bernoulli_glm",
    "slcp",
    "sir",
    "lotka_volterra",
)
"""Tasks over which means are taken: those that every method with a published forest's figure has."""


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


def markdown(lines: pd.DataFrame) -> str:
    """One table a classifier and budget: tasks down, methods across, ours with standard errors."""
    ours, theirs = means(lines), published()
    texts = []
    for classifier in CLASSIFIERS:
        for budget in sorted(set(ours["budget"])):
            these = (ours["classifier"] == classifier) & (ours["budget"] == budget)
            beside = (theirs["classifier"] == classifier) & (theirs["budget"] == budget)
            if these.any():
                texts.append(f"{classifier}, {budget:,} simulations\n")
                texts.append(_table(ours[these], theirs[beside]))
    return "\n".join(texts)


def _table(ours: pd.DataFrame, theirs: pd.DataFrame) -> str:
    methods, rivals = list(dict.fromkeys(ours["method"])), list(dict.fromkeys(theirs["method"]))
    rows = [["task", *(f"`{name}`" for name in methods), *rivals]]
    rows.append(["---"] * len(rows[0]))
    for task in [name for name in TASKS if name in set(ours["task"])]:
        cells = [f"`{task}`"]
        for frame, names in ((ours, methods), (theirs, rivals)):
            here = frame[frame["task"] == task].set_index("method")
            cells += [_cell(here.loc[name]) if name in here.index else "" for name in names]
        rows.append(cells)
    return "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _cell(line: pd.Series) -> str:
    error = line.get("standard_error", np.nan)
    return f"{line['c2st']:.3f}" + ("" if np.isnan(error) else f" ± {error:.3f}")
