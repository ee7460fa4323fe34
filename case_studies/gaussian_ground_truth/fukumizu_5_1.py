"""Section 5.1 of Fukumizu 2013: ``python -m case_studies.gaussian_ground_truth.fukumizu_5_1``.

Mean squared error of the posterior mean over 1,000 observations: kernel Bayes' rule against kernel
density estimation with importance weights (KDE + IW).
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.gaussian_ground_truth.problem import draw_problem
from pymc_kbr.estimators.kernel_density import least_squares_score
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.selection.cross_validation import embedding_distances

HERE = Path(__file__).parent
DIMENSIONS = (2, 4, 8, 16, 32, 64)
BANDWIDTHS = tuple(2.0 * i for i in range(1, 11))
SCALES = (0.5, 1.0, 2.0, 4.0)


def errors(d: int, run: int) -> dict[str, float]:
    """The errors of one run."""
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

    # Weights of sum one, so that epsilon = 0.01 / n and delta = 2 epsilon of section 5.2 apply as they are.
    settings: dict[str, Any] = {"regularisation": 0.02 / len(x), "prior_regularisation": 0.01 / len(x)}
    settings |= {"centred": False, "scale": False}
    s_x, s_t = median_heuristic(x), median_heuristic(theta)

    def rule(scale_x: float, scale_t: float, prior: np.ndarray | None) -> pk.KernelBayes:
        kernel = Gaussian(scale_t * s_t)
        return pk.KernelBayes(scale_x * s_x, parameter_kernel=kernel, prior=prior, **settings)

    def error(estimator: pk.Estimator) -> float:
        weights = estimator.fit(theta, x, random_seed=run).weights(problem.observed)
        return problem.error(weights @ theta)

    line["kbr_median"] = error(rule(1, 1, problem.prior))
    kernel = Gaussian(s_t)
    scores = embedding_distances([rule(s, 1, None) for s in SCALES], theta, x, kernel=kernel, random_seed=run)
    best_x = SCALES[int(np.argmin(scores))]
    scores = embedding_distances(
        [rule(best_x, s, None) for s in SCALES], theta, x, kernel=kernel, random_seed=run
    )
    line["kbr_cross_validated"] = error(rule(best_x, SCALES[int(np.argmin(scores))], problem.prior))
    line["kbr_default"] = error(pk.KernelBayes(prior=problem.prior))
    line["iw_kbr_default"] = error(pk.ImportanceWeightedKernelBayes(prior=problem.prior))
    return line


def table(runs: int, dimensions: Sequence[int]) -> pd.DataFrame:
    """Mean errors over runs, a line a dimension."""
    lines = []
    for d in dimensions:
        means = pd.DataFrame([errors(d, run) for run in range(runs)]).mean()
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
    parser.add_argument("--output", type=Path, default=HERE / "fukumizu_5_1.csv")
    arguments = parser.parse_args()
    result = table(arguments.runs, arguments.dimensions)
    result.round(4).to_csv(arguments.output, index=False)


if __name__ == "__main__":
    main()
