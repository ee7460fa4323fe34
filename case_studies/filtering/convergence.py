"""Errors of both rules against the number of rows: ``python -m case_studies.filtering.convergence``.

With the regularisation that the papers' theorems prescribe for each n: Fukumizu 2013, Theorem 6 (epsilon =
n^(-2a/3), delta = n^(-8a/27), error n^(-8a/27), a = 1/2), and Xu 2022, Theorems 3.4 and 3.6
(eta = n^(-a/(b+1)), lambda = n^(-ab/((b+1)(c+1))), error n^(-abc/((b+1)(c+1))), a = b = c = 1/2). A line
of `convergence.csv` is a run: the root mean squared error of the posterior expectation of exp(-theta^2 / 2),
which is in the kernel's space, over observations that the prior predicts.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.filtering.lines import add_lines
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.rules import ImportanceWeighted, SquaredRule, bayes_rule, sum_rule
from pymc_kbr.gram import DenseGram
from pymc_kbr.kernels import Gaussian

HERE = Path(__file__).parent
LENGTHS, RUNS, TESTS = (50, 100, 200, 400, 800, 1600), 10, 200
NOISE, PRIOR_MEAN, PRIOR_DEVIATION = 0.5, 0.3, 0.6
METHODS = ("theorem_6", "theorem_3_6", "chosen")


def exact(x: np.ndarray) -> np.ndarray:
    """E[exp(-theta^2 / 2) given x] under the prior, shape (k,)."""
    precision = 1 / PRIOR_DEVIATION**2 + 1 / NOISE**2
    mean = (PRIOR_MEAN / PRIOR_DEVIATION**2 + x[:, 0] / NOISE**2) / precision
    return np.exp(-0.5 * mean**2 / (1 + 1 / precision)) / np.sqrt(1 + 1 / precision)


def line(n: int, run: int, method: str) -> dict[str, float]:
    """The error of one method in one run."""
    rng = np.random.default_rng([55, n, run])
    theta, kernel = rng.normal(size=(n, 1)), Gaussian(1.0)
    x = theta + NOISE * rng.normal(size=(n, 1))
    draws = PRIOR_MEAN + PRIOR_DEVIATION * rng.normal(size=(n, 1))
    fresh = PRIOR_MEAN + np.sqrt(PRIOR_DEVIATION**2 + NOISE**2) * rng.normal(size=(TESTS, 1))
    values = np.exp(-0.5 * theta[:, 0] ** 2)
    if method == "chosen":
        fitted = pk.ImportanceWeightedKernelBayes(prior=draws).fit(theta, x, random_seed=run)
        found = fitted.weights(fresh) @ values
    else:
        prior = Embedding(Atoms(draws, kernel), np.full(n, 1 / n))
        eta = n ** (-1 / 3)
        gamma = sum_rule(DenseGram(kernel, theta), prior, n * eta)
        rule, ridge = (
            (SquaredRule(), n ** (-4 / 27))
            if method == "theorem_6"
            else (ImportanceWeighted(), n ** (-1 / 9))
        )
        found = bayes_rule(DenseGram(kernel, x), gamma, fresh, ridge, rule) @ values
    return {"error": float(np.sqrt(np.mean((found - exact(fresh)) ** 2)))}


def means(lines: pd.DataFrame) -> pd.DataFrame:
    """Mean errors, a line for each n, and below them the slope of log error over log n."""
    table = lines.pivot_table(index="n", columns="method", values="error")[list(METHODS)]
    logs = np.log(np.array(table.index, dtype=float))
    slopes = {method: np.polyfit(logs, np.log(table[method]), 1)[0] for method in METHODS}
    return pd.concat([table, pd.DataFrame(slopes, index=["slope"])])


def main() -> None:
    """Add what is missing, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two runs of few rows")
    parser.add_argument("--runs", type=int, default=RUNS)
    add_destination(parser)
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    lengths, runs = ((50, 100), 2) if arguments.quick else (LENGTHS, arguments.runs)
    add_lines(
        output / "convergence.csv",
        ("n", "run", "method", "error"),
        [(n, run, method) for n in lengths for run in range(runs) for method in METHODS],
        line,
    )
    print(means(pd.read_csv(output / "convergence.csv")).round(4).to_string())


if __name__ == "__main__":
    main()
