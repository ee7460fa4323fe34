"""One call of `sample_abc` for each problem, and its posterior's moments in a file that grows."""

from __future__ import annotations

import csv
import inspect
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import pymc_kbr as pk
from tests.statistical.models.problem import Problem, scalars

HEAD = ["model", "parameter", "mean", "deviation", "estimator", "warnings", "seconds"]


def estimator_of(name: str) -> Any:
    """An estimator by its name, or "adjusted:SCALE", of a table's nearest rows in that scale."""
    if name.startswith("adjusted:"):
        nearest = pk.Rejection(1000, kernel="epanechnikov", scale=name.removeprefix("adjusted:"))
        return pk.Adjusted(nearest, "heteroscedastic_local_linear")
    return name


def run(problem: Problem, **settings: Any) -> list[list[Any]]:
    """Lines of `HEAD`, one for each parameter.

    Parameters
    ----------
    problem : Problem
    **settings
        Of `sample_abc`, beside the model; none for its defaults, with the seed 1.
    """
    model = problem.model()
    if "estimator" in settings:
        settings["estimator"] = estimator_of(settings["estimator"])
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pk.sample_abc(model=model, progressbar=False, **{"random_seed": 1, **settings})
    seconds = time.process_time() - started
    attributes = idata["posterior"].attrs
    named = " ".join(sorted({line.split(":")[0] for line in attributes["warnings"].splitlines()}))
    estimator = attributes.get("chosen", attributes["estimator"]).split(": ")[0]
    lines = []
    for variable in model.free_RVs:
        draws = idata["posterior"][variable.name].values
        draws = draws.reshape(-1, *draws.shape[2:]).astype(float)
        means, deviations = draws.mean(axis=0), draws.std(axis=0)
        for name, mean, deviation in zip(
            scalars(variable.name, draws.shape[1:]), np.ravel(means), np.ravel(deviations), strict=True
        ):
            moments = [f"{mean:.6g}", f"{deviation:.6g}"]
            lines.append([problem.name, name, *moments, estimator, named, f"{seconds:.1f}"])
    return lines


def read(path: Path) -> list[dict[str, str]]:
    """Lines so far."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path: Path, lines: list[list[Any]]) -> None:
    """Add a problem's lines at once."""
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(HEAD)
        writer.writerows(lines)


def leave_out(path: Path, models: set[str]) -> None:
    """Take models' lines out of a file."""
    kept = [line for line in read(path) if line["model"] not in models]
    path.unlink(missing_ok=True)
    append(path, [[line[key] for key in HEAD] for line in kept])


def unknown_settings(settings: dict[str, Any]) -> set[str]:
    """Settings that `sample_abc` does not take."""
    return set(settings) - set(inspect.signature(pk.sample_abc).parameters)
