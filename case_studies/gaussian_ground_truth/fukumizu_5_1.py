"""Section 5.1 of Fukumizu 2013: ``python -m case_studies.gaussian_ground_truth.fukumizu_5_1``.

Mean squared error of the posterior mean over 1,000 observations: kernel Bayes' rule against kernel
density estimation with importance weights (KDE + IW).

The paper gives no regularisations here; those of its section 5.2 are taken, epsilon = 0.01 / n and delta = 2
epsilon. Its figure 1 prints weights of the prior that sum to n, ours sum to one: its delta is n^2 times as
large. Columns without `_printed` read delta as one for weights of sum one, those with it as one for weights
of sum n.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, file_of
from case_studies.gaussian_ground_truth.problem import Problem, draw_problem
from pymc_kbr.estimators.abc import least_squares_score
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.selection.cross_validation import embedding_distances

HERE = Path(__file__).parent
DIMENSIONS = (2, 4, 8, 16, 32, 64)
BANDWIDTHS = tuple(2.0 * i for i in range(1, 11))
SCALES = (0.5, 1.0, 2.0, 4.0)


def rule(problem: Problem, scale_x: float, scale_t: float, own_prior: bool, printed: bool) -> pk.KernelBayes:
    """Kernel Bayes' rule with the paper's settings, and bandwidths of so many medians.

    Parameters
    ----------
    problem : Problem
    scale_x, scale_t : float
        Of the statistics and of the parameters.
    own_prior : bool
        Whether it is the problem's prior instead of the table's own parameters.
    printed : bool
        Whether delta is one for weights of sum n.
    """
    theta, x = problem.parameters, problem.statistics
    n = len(x)
    return pk.KernelBayes(
        scale_x * median_heuristic(x),
        parameter_kernel=Gaussian(scale_t * median_heuristic(theta)),
        prior=problem.prior if own_prior else None,
        regularisation=0.02 / n / (n**2 if printed else 1),
        prior_regularisation=0.01 / n,
        centred=False,
        scale=False,
    )


def chosen_scales(
    problem: Problem, run: int, *, printed: bool, statistics_first: bool = False, fixed_kernel: bool = False
) -> tuple[float, float]:
    """Bandwidths of statistics and of parameters, in medians, by the 10-fold distances of section 4.2.

    As in the paper that of the parameters is chosen first, that of the statistics being the median, and
    distances are measured in each candidate's own kernel on the parameters. The departures are the other
    order, and distances that are all measured in the kernel at the median.
    """
    theta, x = problem.parameters, problem.statistics
    kernel = Gaussian(median_heuristic(theta)) if fixed_kernel else None
    scales = {"x": 1.0, "t": 1.0}
    for which in ("x", "t") if statistics_first else ("t", "x"):
        tried = [{**scales, which: scale} for scale in SCALES]
        rules = [rule(problem, s["x"], s["t"], own_prior=False, printed=printed) for s in tried]
        distances = embedding_distances(rules, theta, x, kernel=kernel, random_seed=run)
        scales = tried[int(np.argmin(distances))]
    return scales["x"], scales["t"]


def error_of(estimator: pk.Estimator, problem: Problem, run: int) -> float:
    """The error of an estimator's posterior means."""
    fitted = estimator.fit(problem.parameters, problem.statistics, random_seed=run)
    return problem.error(fitted.weights(problem.observed) @ problem.parameters)


WAYS: dict[str, dict[str, bool] | None] = {
    "kbr_median": None,
    "kbr_cross_validated": {},
    "kbr_cross_validated_fixed_kernel": {"fixed_kernel": True},
    "kbr_cross_validated_statistics_first": {"fixed_kernel": True, "statistics_first": True},
}
"""To choose bandwidths: settings of `chosen_scales`; None for the medians themselves."""


def of_the_paper(problem: Problem, run: int, only: Collection[str] | None = None) -> dict[str, float]:
    """Errors of the rule with the paper's settings, delta read in both ways, by each way to choose.

    Where `only` is given, of those columns that it names.
    """
    line = {}
    for suffix, printed in (("", False), ("_printed", True)):
        for way, settings in WAYS.items():
            name = f"{way}{suffix}"
            if only is not None and name not in only:
                continue
            scales = (1.0, 1.0)
            if settings is not None:
                scales = chosen_scales(problem, run, printed=printed, **settings)
            fitted = rule(problem, *scales, own_prior=True, printed=printed)
            line[name] = error_of(fitted, problem, run)
    return line


def errors(d: int, run: int, only: Collection[str] | None = None) -> dict[str, float]:
    """The errors of one run; of the rule with the paper's settings those columns alone that are named."""
    problem = draw_problem(d, np.random.default_rng([run, d]), xu=False, observations=1000)
    theta, x = problem.parameters, problem.statistics
    line = {"prior_mean": problem.error(0 * problem.exact)}

    joint = np.hstack([theta, x])
    density = {}
    for h in BANDWIDTHS:
        fitted = pk.KernelDensity(h, prior=problem.prior, scale=False).fit(theta, x)
        density[h] = problem.error(fitted.weights(problem.observed) @ problem.prior)
    line["kde_least_squares"] = density[min(BANDWIDTHS, key=lambda h: least_squares_score(joint, h))]
    line |= {f"kde_{h:g}": error for h, error in density.items()}

    line |= of_the_paper(problem, run, only)
    line["kbr_default"] = error_of(pk.KernelBayes(prior=problem.prior), problem, run)
    line["iw_kbr_default"] = error_of(pk.ImportanceWeightedKernelBayes(prior=problem.prior), problem, run)
    return line


def table(runs: int, dimensions: Sequence[int], only: Collection[str] | None = None) -> pd.DataFrame:
    """Mean errors over runs, a line a dimension; `only` as in `of_the_paper`."""
    lines = []
    for d in dimensions:
        means = pd.DataFrame([errors(d, run, only) for run in range(runs)]).mean()
        tried = means[[f"kde_{h:g}" for h in BANDWIDTHS]]
        lines.append({"d": d, "kde_best": tried.min(), **means.drop(tried.index)})
        print(pd.DataFrame(lines[-1:]).round(3).to_string(index=False, header=d == dimensions[0]), flush=True)
    return pd.DataFrame(lines)


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--dimensions", type=int, nargs="+", default=list(DIMENSIONS))
    add_destination(parser, "CSV")
    arguments = parser.parse_args()
    result = table(arguments.runs, arguments.dimensions)
    result.round(4).to_csv(file_of(arguments, HERE, "fukumizu_5_1.csv"), index=False)


if __name__ == "__main__":
    main()
