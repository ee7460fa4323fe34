"""Section 5.1 of Xu 2022: ``python -m case_studies.gaussian_ground_truth.xu_5_1``.

Mean squared error of the posterior mean under a prior that is not the table's: both kernel Bayes' rules with
the paper's settings, our defaults, ours with the linear kernel, which is right here, and the prior's mean.

The paper's lambda = 0.2 can be read in two scales. Its loss, eq. 3, is a mean over rows: the weights of the
prior then sum to one, as in `pymc_kbr`. Its eq. 4 and Algorithm 1 print sums, with weights whose mean is one
and that sum to n: there lambda is n times as large as here for the importance-weighted rule, and n^2 times
for the original one, eq. 2. Columns that end in `_sum_one` and `_printed` have the one and the other.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, file_of
from case_studies.gaussian_ground_truth.problem import Problem, draw_problem
from pymc_kbr.kernels import Gaussian, Linear, median_heuristic

HERE = Path(__file__).parent
DIMENSIONS = (2, 8, 16, 32, 64)
OTHERS = {"prior_mean": "prior_mean", "sum_one": "importance_weighted_sum_one"}
"""With which the default is compared run by run."""

LAMBDA = 0.2
"""Of the paper, which has eta = lambda."""

MANY = 5_000
"""Draws of a prior that is known, besides the 200 of the paper."""


def with_settings(cls: type[pk.Estimator], problem: Problem, printed: bool = False) -> pk.Estimator:
    """A kernel Bayes' rule with the paper's settings: medians, eta = lambda = 0.2, nothing centred.

    Where `printed`, lambda is that of weights which sum to n, as in the paper's Algorithm 1 and eq. 2.
    """
    n = len(problem.parameters) if printed else 1
    return cls(
        prior=problem.prior,
        bandwidth="median",
        parameter_kernel=Gaussian(median_heuristic(problem.parameters)),
        regularisation=LAMBDA / (n**2 if cls is pk.KernelBayes else n),
        prior_regularisation=LAMBDA,
        centred=False,
        scale=False,
    )


def scored(
    estimators: dict[str, pk.Estimator], problem: Problem, run: int, only: Collection[str] | None = None
) -> dict[str, float]:
    """The error of each estimator's posterior means, or of those that are named."""
    line = {}
    for name, estimator in estimators.items():
        if only is not None and name not in only:
            continue
        fitted = estimator.fit(problem.parameters, problem.statistics, random_seed=run)
        line[name] = problem.error(fitted.weights(problem.observed) @ problem.parameters)
    return line


def of_the_paper(problem: Problem) -> dict[str, pk.Estimator]:
    """Both rules with the paper's settings, in both scales."""
    return {
        f"{name}_{scale}": with_settings(cls, problem, scale == "printed")
        for scale in ("sum_one", "printed")
        for name, cls in (
            ("original", pk.KernelBayes),
            ("importance_weighted", pk.ImportanceWeightedKernelBayes),
        )
    }


def errors(d: int, run: int, only: Collection[str] | None = None) -> dict[str, float]:
    """The errors of one run: of all estimators, or of those that are named."""
    importance_weighted = pk.ImportanceWeightedKernelBayes
    problem = draw_problem(d, np.random.default_rng([run, d]), xu=True)
    # A PyMC model's prior may be drawn from as often as one likes.
    known = draw_problem(d, np.random.default_rng([run, d]), xu=True, prior_draws=MANY)
    # What shrinks towards zero is helped by a prior mean of zero: the same parameters, moved by 5.
    moved = replace(
        problem, parameters=problem.parameters + 5, prior=problem.prior + 5, exact=problem.exact + 5
    )
    of_problem = {
        **of_the_paper(problem),
        "kbr_default": pk.KernelBayes(prior=problem.prior),
        "iw_kbr_default": importance_weighted(prior=problem.prior),
        "iw_kbr_linear": importance_weighted(
            prior=problem.prior,
            kernel=Linear(),
            parameter_kernel=Gaussian(4 * median_heuristic(problem.parameters)),
        ),
    }
    of_known = {
        "importance_weighted_sum_one_many_draws": with_settings(importance_weighted, known),
        "iw_kbr_default_many_draws": importance_weighted(prior=known.prior),
    }
    of_moved = {
        "importance_weighted_sum_one_moved": with_settings(importance_weighted, moved),
        "iw_kbr_default_moved": importance_weighted(prior=moved.prior),
    }
    return {
        "prior_mean": problem.error(0 * problem.exact),
        "mean_of_prior_draws": problem.error(problem.prior.mean(axis=0) + 0 * problem.exact),
        **scored(of_problem, problem, run, only),
        **scored(of_known, known, run, only),
        **scored(of_moved, moved, run, only),
    }


def table(runs: int, dimensions: Sequence[int]) -> pd.DataFrame:
    """Mean errors over runs, a line a dimension."""
    lines = []
    for d in dimensions:
        found = pd.DataFrame([errors(d, run) for run in range(runs)])
        errors_of_differences = {
            f"standard_error_of_iw_kbr_less_{other}": (found["iw_kbr_default"] - found[column]).sem()
            for other, column in OTHERS.items()
        }
        lines.append({"d": d, **found.mean(), **errors_of_differences})
        print(pd.DataFrame(lines[-1:]).round(3).to_string(index=False, header=d == dimensions[0]), flush=True)
    return pd.DataFrame(lines)


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(DIMENSIONS))
    add_destination(parser, "CSV")
    arguments = parser.parse_args()
    result = table(arguments.runs, arguments.dimensions)
    result.round(4).to_csv(file_of(arguments, HERE, "xu_5_1.csv"), index=False)


if __name__ == "__main__":
    main()
