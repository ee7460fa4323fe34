"""Section 5.2 of Fukumizu 2013: ``python -m case_studies.gaussian_ground_truth.fukumizu_5_2``.

Error of the posterior mean against seconds and simulations, where the table is simulated from the
prior: the conditional mean and kernel Bayes' rule, both with incomplete Cholesky at 0.001, and
rejection with the best of several numbers of accepted rows. The prior's weights of kernel Bayes' rule
are those of the table's own parameters.

Two settings of the paper can be read in two ways. Its delta = 2 epsilon is of weights that sum to n where
its figure 1 is taken as printed, n^2 times as large as for weights of sum one; and its tolerance of 0.001 is
one of the residual's trace, or of the share of the trace. ``--printed`` runs the first reading of delta with
either tolerance.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, file_of
from case_studies.gaussian_ground_truth.problem import Problem, draw_problem
from pymc_kbr.gram import IncompleteCholesky
from pymc_kbr.kernels import Gaussian, median_heuristic

HERE = Path(__file__).parent
SIZES = (200, 400, 800, 1500, 3000, 6000)
FOR_REJECTION = (20_000, 60_000, 200_000, 600_000)
"""Sizes at which rejection alone goes on: what it needs to come near."""

RULES = {
    "conditional_mean": "kbr",
    "conditional_mean_default": "kbr_default",
    "conditional_mean_share_of_trace": "kbr_printed_share_of_trace",
    "conditional_mean_trace": "kbr_printed_trace",
}
"""Kernel Bayes' rule with which each conditional mean is compared run by run."""

TOLERANCE = 1e-3
ACCEPTED = (5, 10, 20, 50, 100, 200, 500, 1000)


def estimators(problem: Problem) -> dict[str, pk.Estimator]:
    """The paper's settings: medians, epsilon = 0.01 / n and delta = 2 epsilon, or 0.01 / sqrt(n)."""
    n = len(problem.statistics)
    made: dict[str, pk.Estimator] = {
        f"rejection_{a}": pk.Rejection(a, scale=False) for a in ACCEPTED if a < n
    }
    if n > max(SIZES):
        return made
    common: dict[str, Any] = {"bandwidth": "median", "solver": IncompleteCholesky(n, TOLERANCE)}
    common |= {"centred": False, "scale": False}
    kernel = Gaussian(median_heuristic(problem.parameters))
    regularisations: dict[str, Any] = {"prior_regularisation": 0.01 / n, "regularisation": 0.02 / n}
    return made | {
        "conditional_mean": pk.ConditionalMean(regularisation=0.01 / np.sqrt(n), **common),
        "kbr": pk.KernelBayes(parameter_kernel=kernel, **regularisations, **common),
        "conditional_mean_default": pk.ConditionalMean(solver=common["solver"]),
        "kbr_default": pk.KernelBayes(solver=common["solver"]),
    }


def printed(problem: Problem) -> dict[str, pk.Estimator]:
    """The paper's settings with delta as for weights of sum n, for both readings of the tolerance."""
    n = len(problem.statistics)
    kernel = Gaussian(median_heuristic(problem.parameters))
    made: dict[str, pk.Estimator] = {}
    # The trace of a Gaussian kernel's Gram matrix is n.
    for name, tolerance in (("share_of_trace", TOLERANCE), ("trace", TOLERANCE / n)):
        common: dict[str, Any] = {"bandwidth": "median", "solver": IncompleteCholesky(n, tolerance)}
        common |= {"centred": False, "scale": False}
        made[f"conditional_mean_{name}"] = pk.ConditionalMean(regularisation=0.01 / np.sqrt(n), **common)
        made[f"kbr_printed_{name}"] = pk.KernelBayes(
            parameter_kernel=kernel, prior_regularisation=0.01 / n, regularisation=0.02 / n**3, **common
        )
    return made


def lines_of(
    d: int, n: int, run: int, made: Callable[[Problem], dict[str, pk.Estimator]] = estimators
) -> list[dict[str, float | str]]:
    """A line for each estimator in one run."""
    rng = np.random.default_rng([run, d, n])
    problem = draw_problem(d, rng, xu=False, n=n, prior_draws=2, observations=10, from_prior=True)
    lines: list[dict[str, float | str]] = []
    for name, estimator in made(problem).items():
        started = time.perf_counter()
        fitted = estimator.fit(problem.parameters, problem.statistics)
        means = np.array([posterior.mean() for posterior in fitted.condition(problem.observed)])
        line: dict[str, float | str] = {"d": d, "n": n, "estimator": name}
        line["error"] = problem.error(means)
        line["seconds"] = time.perf_counter() - started
        if hasattr(estimator, "rank_"):
            line["rank"] = estimator.rank_
        lines.append(line)
    found = {str(line["estimator"]): line for line in lines}
    for name, line in found.items():
        if name in RULES:
            line["more_than_kbr"] = float(line["error"]) - float(found[RULES[name]]["error"])
    return lines


def table(
    runs: int, sizes: Sequence[int], made: Callable[[Problem], dict[str, pk.Estimator]] = estimators
) -> pd.DataFrame:
    """Means over runs, and the error's standard error; of rejection the best number of accepted rows.

    Of the conditional means also how much more than that of kernel Bayes' rule the error is.
    """
    lines = [line for d in (2, 6) for n in sizes for run in range(runs) for line in lines_of(d, n, run, made)]
    grouped = pd.DataFrame(lines).groupby(["d", "n", "estimator"])
    result = grouped.mean()
    result.insert(1, "standard_error", grouped["error"].sem())
    if "more_than_kbr" in result:
        result["more_than_kbr_standard_error"] = grouped["more_than_kbr"].sem()
    result = result.reset_index()
    rejections = result[result["estimator"].str.startswith("rejection")]
    best = rejections.loc[rejections.groupby(["d", "n"])["error"].idxmin()]
    return pd.concat([result.drop(rejections.index), best]).sort_values(["d", "n", "estimator"])


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", help="of the tables")
    parser.add_argument("--printed", action="store_true", help="delta of weights that sum to n")
    add_destination(parser, "CSV")
    arguments = parser.parse_args()
    if arguments.printed:
        result, name = table(arguments.runs, arguments.sizes or SIZES, printed), "fukumizu_5_2_printed"
    else:
        sizes = arguments.sizes or [*SIZES, *FOR_REJECTION]
        result, name = table(arguments.runs, sizes), "fukumizu_5_2"
    print(result.round(4).to_string(index=False))
    result.round(5).to_csv(file_of(arguments, HERE, f"{name}.csv"), index=False)


if __name__ == "__main__":
    main()
