"""The useless statistic: ``python -m case_studies.coalescent.unif``.

`unif` is noise with one of the largest deviations. Each estimator with and without it, with the statistics in
their own units, over their standard deviations, and stretched by their relevance.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.accuracy import BOUNDS, load
from case_studies.coalescent.model import STATISTICS
from case_studies.destination import add_destination, folder_of
from pymc_kbr.posterior.scores import rmse

HERE = Path(__file__).parent
SCALES: dict[str, Any] = {"own units": False, "deviations": True, "relevance": "relevance"}


def main() -> None:
    """Write unif.csv."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 rows, 20 held out")
    add_destination(parser)
    arguments = parser.parse_args()
    n, k = (100, 20) if arguments.quick else (10_000, 1_000)
    parameters, statistics = load(None)
    column = STATISTICS.index("unif")
    truth = parameters[-k:]
    support = pk.Support.from_bounds(BOUNDS, list(BOUNDS))
    lines = []
    for estimator in ("rejection", "nadaraya_watson", "localised", "conditional_mean"):
        for name, scale in SCALES.items():
            found = {}
            for which, x in (("with", statistics), ("without", np.delete(statistics, column, axis=1))):
                fitted = pk.ESTIMATORS[estimator](scale=scale)
                fitted.fit(parameters[:n], x[:n], support, random_seed=0)
                means = np.vstack(
                    [
                        posterior.mean()
                        for part in np.array_split(x[-k:], max(1, k // 50))
                        for posterior in fitted.condition(part)
                    ]
                )
                found[which] = rmse(means, truth)
            line: dict[str, Any] = {"estimator": estimator, "scale": name}
            for i, parameter in enumerate(BOUNDS):
                line[f"rmse_{parameter}_without"] = found["without"][i]
                line[f"rmse_{parameter}_with"] = found["with"][i]
                line[f"rise_{parameter}"] = found["with"][i] / found["without"][i] - 1
            lines.append(line)
            print(
                pd.DataFrame(lines[-1:]).round(4).to_string(index=False, header=len(lines) == 1), flush=True
            )
    output = folder_of(arguments, HERE)
    pd.DataFrame(lines).round(4).to_csv(output / "unif.csv", index=False)


if __name__ == "__main__":
    main()
