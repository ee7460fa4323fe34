"""How often the local classifier test rejects: ``python -m case_studies.posterior_draws.local_test``.

Parameters are standard normal and seen with noise, so that posteriors are known: exact ones show the test's
level, and those that are wrong in one way its power. Each data set has a table and an observation of its own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of

HERE = Path(__file__).parent
NOISE = 0.5
SHARE, DEVIATION = 1 / (1 + NOISE**2), NOISE / np.sqrt(1 + NOISE**2)
"""Of a statistic in the posterior mean, and the posterior's deviation."""

PERMUTATIONS = 199
LEVEL = 0.05
CORRELATION = 0.5
SHAPE = 4.0
"""Of gamma draws of mean 0 and deviation 1 in place of normal ones: their skewness is 1."""

Errors = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]
"""From standard normal numbers (m, p), the statistics (p,) and a generator to errors in deviations (m, p)."""


def correlated(z: np.ndarray, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Each parameter by itself is right, and the first two are not independent."""
    second = CORRELATION * z[:, 0] + np.sqrt(1 - CORRELATION**2) * z[:, 1]
    return np.column_stack([z[:, 0], second, z[:, 2:]])


WAYS: dict[str, Errors] = {
    "exact": lambda z, x, rng: z,
    "1.25 times too wide": lambda z, x, rng: 1.25 * z,
    "1.25 times too narrow": lambda z, x, rng: z / 1.25,
    "shifted by 0.3 deviations": lambda z, x, rng: z + 0.3,
    "correlated by 0.5": correlated,
    "skewed by 1": lambda z, x, rng: (rng.gamma(SHAPE, size=z.shape) - SHAPE) / np.sqrt(SHAPE),
    "the prior": lambda z, x, rng: (z - SHARE * x) / DEVIATION,
}


class Drawn:
    """A posterior by its draws alone, given statistics (p,)."""

    def __init__(self, errors: Errors, x: np.ndarray) -> None:
        self.errors, self.x = errors, x

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (count, p)."""
        z = rng.normal(size=(count, len(self.x)))
        drawn: np.ndarray = SHARE * self.x + DEVIATION * self.errors(z, self.x, rng)
        return drawn


class Known(pk.Rejection):
    """Posteriors that are known, exact or wrong in one way: nothing is fitted."""

    def __init__(self, way: str = "exact") -> None:
        super().__init__()
        self.way = way

    def fit(self, parameters: Any, statistics: Any = None, support: Any = None, **how: Any) -> Known:
        """Nothing."""
        return self

    def condition(self, observed: Any) -> list[Drawn]:  # type: ignore[override]
        """A posterior for each of (k, p) statistics."""
        return [Drawn(WAYS[self.way], row) for row in observed]


def pvalues(way: str, rows: int, parameters: int, data_sets: int) -> Iterator[float]:
    """Of the test with so many held-out rows, on one data set after the other."""
    names = [f"{side}_{j}" for side in ("theta", "x") for j in range(parameters)]
    for seed in range(data_sets):
        rng = np.random.default_rng([seed, parameters])
        theta = rng.normal(size=(2 * rows + 1, parameters))
        x = theta + NOISE * rng.normal(size=theta.shape)
        frame = pd.DataFrame(np.hstack([theta, x])[:-1], columns=names)
        table = pk.ReferenceTable.from_dataframe(
            frame, parameters=names[:parameters], statistics=names[parameters:], observed=x[-1]
        )
        found = pk.local_classifier_test(
            Known(way), table, rows=rows, permutations=PERMUTATIONS, random_seed=seed
        )
        yield found.pvalue


def main() -> None:
    """Write local_test.csv: how often each posterior is rejected, by parameters and held-out rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--exact", type=int, default=160, help="data sets with the exact posterior")
    parser.add_argument("--wrong", type=int, default=20, help="data sets with each wrong one")
    parser.add_argument("--rows", type=int, nargs="+", default=[200, 1000], help="held-out rows")
    parser.add_argument("--parameters", type=int, nargs="+", default=[2, 5])
    parser.add_argument("--quick", action="store_true", help="two data sets, 60 rows, two parameters")
    add_destination(parser, "folder of local_test.csv")
    asked = parser.parse_args()
    if asked.quick:
        asked.exact, asked.wrong, asked.rows, asked.parameters = 2, 2, [60], [2]
    output, lines = folder_of(asked, HERE), []
    for p in asked.parameters:
        for rows in asked.rows:
            for way in WAYS:
                count = asked.exact if way == "exact" else asked.wrong
                found = np.array(list(pvalues(way, rows, p, count)))
                rejected = np.mean(found <= LEVEL)
                spread = np.sqrt(rejected * (1 - rejected) / count)
                line = {"parameters": p, "rows": rows, "posterior": way, "data_sets": count}
                lines.append({**line, "rejected": rejected, "standard_error": spread})
                print(pd.DataFrame(lines[-1:]).round(4).to_string(index=False, header=False), flush=True)
    pd.DataFrame(lines).round(4).to_csv(output / "local_test.csv", index=False)


if __name__ == "__main__":
    main()
