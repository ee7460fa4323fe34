"""A population that grows: ``python -m case_studies.coalescent.growth``.

Another simulator is another function of five lines; the table, the estimators and the checks stay the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.growth_model import growth_model, simulate_growth
from case_studies.destination import add_destination, folder_of

HERE = Path(__file__).parent
TRUTH = {"theta": 8.0, "rho": 3.0, "growth": 6.0}


def main() -> None:
    """Write growth.csv: coverage and contraction of each parameter, and the posterior of one sample."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--held-out", type=int, default=1000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="120 simulations, 20 held out")
    add_destination(parser)
    arguments = parser.parse_args()
    n, k = (120, 20) if arguments.quick else (arguments.simulations, arguments.held_out)
    observed = simulate_growth(np.random.default_rng(12), TRUTH["theta"], TRUTH["rho"], TRUTH["growth"])
    table = pk.simulate(
        n, model=growth_model(observed), random_seed=3, cores=1 if arguments.quick else arguments.cores
    )
    few = ["rejection", "localised"] if arguments.quick else None
    estimator = pk.select(table, candidates=few, random_seed=1)
    calibration = pk.calibrate(estimator, table, rows=k, random_seed=2)
    posterior = estimator.condition(observed)
    lower, upper = np.quantile(posterior.draw(4000, 1), [0.05, 0.95], axis=0)
    lines = [
        {
            **line,
            "truth": truth,
            "mean": mean,
            "lower_5": low,
            "upper_95": high,
            "chosen": estimator.selection_.chosen.label,  # type: ignore[attr-defined]
        }
        for line, truth, mean, low, high in zip(
            calibration.summary(), TRUTH.values(), posterior.mean(), lower, upper, strict=True
        )
    ]
    output = folder_of(arguments, HERE)
    result = pd.DataFrame(lines)
    result.round(4).to_csv(output / "growth.csv", index=False)
    print(result.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
