"""Processor seconds and accuracy of ten kinds of models, with 2,000 and with 10,000 simulations.

``python -m tests.statistical.how_long`` prints the table of the page "How many simulations, how long" from
the figures in ``how_long.csv``; ``--record`` makes these figures again, in about six minutes of one core.
"""

from __future__ import annotations

import re
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pymc_kbr as pk
from pymc_kbr.arrays.threads import cores
from tests.statistical.figures import command, read_figures, write_figures
from tests.statistical.models import PROBLEMS, references
from tests.statistical.models.problem import scalars
from tests.statistical.models.scores import badness

FIGURES = Path(__file__).with_name("how_long.csv")
MODELS = (
    *("population_size", "diet", "wet_days", "calibration_curve", "zero_inflated", "selected_sample"),
    *("prevalence", "ordered_doses", "lighthouse", "log_rates"),
)
"""A quick one of each of ten kinds."""

SIMULATIONS = 2_000, 10_000


def rounds_made(words: str) -> int:
    """The number of rounds, by the attribute ``rounds`` of a result."""
    found = re.match(r"(\d+) round", words)
    return int(found[1]) if found else 1


def line(name: str, simulations: int) -> dict[str, Any]:
    """One call of `sample_abc` by its defaults, and its worst parameter."""
    model, exact = PROBLEMS[name].model(), references.read()[name]
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pk.sample_abc(model=model, simulations=simulations, random_seed=1, progressbar=False)
    seconds = time.process_time() - began
    found = []
    for variable in model.free_RVs:
        draws = idata["posterior"][variable.name].values
        draws = draws.reshape(-1, *draws.shape[2:]).astype(float)
        means, widths = np.ravel(draws.mean(axis=0)), np.ravel(draws.std(axis=0))
        for entry, mean, width in zip(scalars(variable.name, draws.shape[1:]), means, widths, strict=True):
            known, unit = float(exact[entry]["mean"]), float(exact[entry]["deviation"])
            error, ratio = (mean - known) / unit, width / unit
            found.append((badness(error, ratio), error, ratio))
    _, error, ratio = max(found)
    attributes = idata["posterior"].attrs
    return {
        "kind": PROBLEMS[name].kind,
        "model": name,
        "parameters": len(found),
        "simulations": simulations,
        "cores": cores(),
        "rounds": rounds_made(attributes.get("rounds", "")),
        "seconds": round(seconds, 1),
        "error": f"{error:+.2f}",
        "ratio": f"{ratio:.2f}",
        "warnings": " ".join(sorted({one.split(":")[0] for one in attributes["warnings"].splitlines()})),
    }


def record() -> None:
    """Make the figures again; a line is written as soon as it is known."""
    line("population_size", 500)  # what is compiled and imported once is not counted
    lines: list[dict[str, Any]] = []
    for name in MODELS:
        for simulations in SIMULATIONS:
            lines.append(line(name, simulations))
            write_figures(FIGURES, lines)


def markdown() -> str:
    """The table of the page, a line a model."""
    lines = read_figures(FIGURES)
    head = ["kind", "model", "parameters"]
    of_each = ["seconds", "rounds", "error of mean", "ratio of widths"]
    columns = head + [f"{name}, {n:,}" for n in SIMULATIONS for name in of_each]
    rows = [columns, ["---"] * len(columns)]
    for name in dict.fromkeys(one["model"] for one in lines):
        few, many = (one for one in lines if one["model"] == name)
        figures = [one[key] for one in (few, many) for key in ("seconds", "rounds", "error", "ratio")]
        rows.append([few["kind"], f"`{name}`", few["parameters"], *figures])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


if __name__ == "__main__":
    command(__doc__, record, lambda: print(markdown()))
