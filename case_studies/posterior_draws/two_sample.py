"""Classifier two-sample tests: ``python -m case_studies.posterior_draws.two_sample``.

On two problems with an exact posterior, 10,000 simulations, three observations: `auto` as
`sample_abc` runs it for each observation, and rejection.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.posterior_draws.problems import PROBLEMS, c2st
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.selection.select import choose

HERE = Path(__file__).parent


def run(name: str, simulations: int, observations: int, draws: int, rivals: tuple[str, ...]) -> pd.DataFrame:
    """One line an estimator and observation."""
    problem = PROBLEMS[name]
    table = problem.table(simulations, np.random.default_rng(1))
    truth = problem.prior(np.random.default_rng(2), observations)
    observed = problem.simulator(np.random.default_rng(3), truth)
    arrays = table.parameters, table.statistics, table.support
    lines = []

    def score(estimator: str, number: int, posterior: pk.Posterior, seconds: float, chosen: str = "") -> None:
        started = time.perf_counter()
        drawn = posterior.draw(draws, number)
        seconds += time.perf_counter() - started
        exact = problem.posterior(np.random.default_rng((4, number)), observed[number], draws)
        lines.append(
            {
                "problem": name,
                "simulations": simulations,
                "estimator": estimator,
                "observation": number,
                "c2st": c2st(drawn, exact),
                "seconds": seconds,
                "chosen": chosen,
            }
        )
        print(lines[-1], flush=True)

    for number, x in enumerate(observed):
        started = time.perf_counter()
        rng = np.random.default_rng(number)
        estimator = choose(CheckedRows.of(*arrays), rng=rng, near=x, progressbar=False)
        posterior = estimator.condition(x)
        chosen = estimator.selection_.chosen.label  # type: ignore[attr-defined]
        score("auto", number, posterior, time.perf_counter() - started, chosen)
    for rival in rivals:
        started = time.perf_counter()
        fitted = pk.ESTIMATORS[rival]().fit(*arrays, random_seed=0)
        seconds = time.perf_counter() - started
        for number, x in enumerate(observed):
            score(rival, number, fitted.condition(x), seconds)
    return pd.DataFrame(lines)


def main() -> None:
    """Run both problems and write one CSV each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 simulations, 1,000 draws, no rivals")
    add_destination(parser)
    parser.add_argument("--problems", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS))
    parser.add_argument("--rivals", nargs="*", default=["rejection"], choices=list(pk.ESTIMATORS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    simulations, observations, draws = (1_000, 1, 1_000) if arguments.quick else (10_000, 3, 10_000)
    rivals = () if arguments.quick else tuple(arguments.rivals)
    output = folder_of(arguments, HERE)
    for name in arguments.problems:
        result = run(name, simulations, observations, draws, rivals)
        result.round(4).to_csv(output / f"{name}.csv", index=False)
        print(result.groupby(["problem", "estimator"])[["c2st", "seconds"]].mean().round(3).to_string())


if __name__ == "__main__":
    main()
