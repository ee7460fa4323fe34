"""``python -m tests.statistical.models.references``: exact posteriors, written to ``references.csv``.

Of a problem with an `exact` way, by that; of the others by NUTS on the twin with the exact likelihood.
Problems that have lines already are left out.
"""

from __future__ import annotations

import argparse
import csv
import logging
from pathlib import Path

import arviz as az
import numpy as np
import pymc as pm

from tests.statistical.models import PROBLEMS
from tests.statistical.models.problem import Problem, scalars

PATH = Path(__file__).with_name("references.csv")
HEAD = ["model", "parameter", "mean", "deviation", "error", "how"]


def of_problem(problem: Problem) -> list[list[str]]:
    """Lines of `HEAD`: the error is the Monte Carlo error of the mean over the deviation, or 0."""
    if problem.exact is not None:
        found = {name: _with_error(*moments) for name, moments in problem.exact().items()}
    else:
        found = by_nuts(problem)
    lines = []
    for name, moments in found.items():
        names = scalars(name, np.shape(moments[0]))
        for one, *values in zip(names, *map(np.ravel, moments), strict=True):
            lines.append([problem.name, one, *(f"{value:.5g}" for value in values), problem.how])
    return lines


def _with_error(mean: np.ndarray, deviation: np.ndarray, error: float = 0.0) -> tuple[np.ndarray, ...]:
    return np.asarray(mean), np.asarray(deviation), np.full(np.shape(mean), error)


def by_nuts(problem: Problem) -> dict[str, tuple[np.ndarray, ...]]:
    """Means, deviations and Monte Carlo errors over deviations."""
    idata = pm.sample(
        2000,
        tune=1000,
        chains=3,
        cores=1,
        random_seed=1,
        target_accept=0.95,
        progressbar=False,
        model=problem.model(simulated=False),
        compute_convergence_checks=False,
    )
    found = {}
    for variable in problem.model(simulated=False).free_RVs:
        draws = idata["posterior"][variable.name].values
        flat = draws.reshape(*draws.shape[:2], -1)
        sizes = np.array([float(az.ess(flat[..., i])) for i in range(flat.shape[2])])
        folded = np.array([float(az.rhat(flat[..., i])) for i in range(flat.shape[2])])
        divergent = int(idata["sample_stats"]["diverging"].values.sum())
        print(
            f"{problem.name} {variable.name}: effective sample size {sizes.min():.0f}, "
            f"R-hat {folded.max():.4f}, {divergent} divergent",
            flush=True,
        )
        shape = draws.shape[2:]
        found[variable.name] = (
            flat.mean(axis=(0, 1)).reshape(shape),
            flat.std(axis=(0, 1)).reshape(shape),
            (1 / np.sqrt(sizes)).reshape(shape),
        )
    return found


def read() -> dict[str, dict[str, dict[str, str]]]:
    """Lines of the file, by model and parameter."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    if PATH.exists():
        with PATH.open(newline="") as file:
            for line in csv.DictReader(file):
                found.setdefault(line["model"], {})[line["parameter"]] = line
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", help="all where left out")
    parser.add_argument("--again", action="store_true", help="those that have lines, too")
    options = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    for name in options.models or PROBLEMS:
        known = read()
        if name in known and not options.again:
            continue
        made = {
            **known,
            name: {line[1]: dict(zip(HEAD, line, strict=True)) for line in of_problem(PROBLEMS[name])},
        }
        with PATH.open("w", newline="") as file:
            writer = csv.DictWriter(file, HEAD, lineterminator="\n")
            writer.writeheader()
            writer.writerows(line for one in PROBLEMS if one in made for line in made[one].values())
        print(f"{name}: written", flush=True)


if __name__ == "__main__":
    main()
