"""Section 5.1 of the localised draft: ``python -m case_studies.gaussian_ground_truth.localised_5_1``.

Eight estimators of a conditional mean embedding against the exact one, on jointly normal pairs: errors as
functions of bandwidth and ridge, of the dimension, of the sample's size and of seconds, and the settings
that they choose.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies import embedding_errors as errors
from case_studies.embedding_errors import Trial
from pymc_kbr.gram import IncompleteCholesky

HERE = Path(__file__).parent
OBSERVATIONS = 10
DY = 2


def draw(d: int, n: int, rng: np.random.Generator) -> Trial:
    """V = A'A with standard normal entries, X of d dimensions and Y of two; both of mean zero."""
    a = rng.normal(size=(d + DY, d + DY))
    v = a.T @ a
    gain = np.linalg.solve(v[:d, :d], v[:d, d:])
    covariance = v[d:, d:] - v[:d, d:].T @ gain
    both = rng.normal(size=(n + OBSERVATIONS, d + DY)) @ a
    x, y = both[:n, :d], both[:n, d:]
    return Trial(x, y, both[n:, :d], both[n:, :d] @ gain, covariance, both[n:, d:])


def main() -> None:
    """Write the tables and pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few trials of small samples")
    parser.add_argument("--output", type=Path, default=HERE)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for part in arguments.parts:
        PARTS[part](arguments.quick, arguments.output)


def settings(quick: bool, output: Path) -> None:
    """The surface over bandwidth and ridge."""
    points, trials, n = (4, 2, 100) if quick else (13, 30, 500)
    table = errors.surface(draw, trials, n, np.logspace(-1.5, 1.5, points), np.logspace(-10, 0, points))
    errors.write(table, output / "localised_surface.csv")
    errors.plot_surface(table, output / "localised_surface.png")


def chosen(quick: bool, output: Path) -> None:
    """What cross-validation chooses."""
    points, trials, n = (3, 2, 60) if quick else (9, 20, 500)
    bandwidths, ridges = np.logspace(-1, 1.5, points), np.logspace(-6, 0, points)
    table = errors.chosen_settings(draw, trials, n, bandwidths, ridges)
    errors.write(table, output / "localised_chosen.csv")
    errors.plot_chosen(table, output / "localised_chosen.png")


def dimensions(quick: bool, output: Path) -> None:
    """Errors over the dimension of X."""
    table = errors.over_dimensions(
        draw, 2 if quick else 10, 150 if quick else 1000, (1, 2) if quick else (1, 2, 4, 8, 16)
    )
    errors.write(table, output / "localised_dimensions.csv")
    errors.plot_curves(table, "d", "dimension of X", output / "localised_dimensions.png", errors.ERRORS)


def sizes(quick: bool, output: Path) -> None:
    """Errors and seconds over the sample's size."""
    full = {1_000: 10, 3_000: 5, 10_000: 3, 20_000: 2, 30_000: 1, 60_000: 1, 100_000: 2}
    table = errors.over_sizes(draw, {200: 2, 400: 2} if quick else full, 30_000, 10_000)
    errors.write(table, output / "localised_sizes.csv")
    columns = errors.ERRORS | errors.SECONDS
    errors.plot_curves(table, "n", "sample size n", output / "localised_sizes.png", columns)


def ridges(quick: bool, output: Path) -> None:
    """Localised over exact at n = 20,000, m = n^(2/3), for several ways to set the ridge.

    The exact estimator is factored to a residual of 1e-6 of the trace, which gives its errors to four digits
    (`localised_sizes.csv`) in a hundredth of its time.
    """
    n, trials = (300, 2) if quick else (20_000, 10)
    m = errors.neighbours(n)
    factored = IncompleteCholesky(tolerance=1e-6, rank=min(n, 600))
    plain: dict[str, Any] = {"centred": False, "scale": False}
    lines = []
    for number in range(trials):
        trial = draw(2, n, np.random.default_rng([number, n]))
        distances = errors.Errors(trial, modes=False)

        def line(
            setting: str,
            exact: pk.Estimator,
            localised: pk.Estimator,
            trial: Trial = trial,
            distances: errors.Errors = distances,
        ) -> None:
            found = {}
            for name, estimator in (("exact", exact), ("localised", localised)):
                started = time.perf_counter()
                weights = estimator.fit(trial.y, trial.x, random_seed=0).weights(trial.at)
                found[f"seconds_{name}"] = time.perf_counter() - started
                found[name] = distances.of(weights)["rkhs_error"]
            lines.append({"setting": setting, **found})

        for name, regularisation, local in (
            ("the draft's lambda for n and for m rows", errors.draft_ridge(n), errors.draft_ridge(m)),
            ("lambda = 1e-4 for both", 1e-4, 1e-4),
            ("the draft's ridge n lambda for both", errors.draft_ridge(n), errors.draft_ridge(n) * n / m),
            ("ridge n 1e-4 for both", 1e-4, 1e-4 * n / m),
        ):
            line(
                name,
                pk.ConditionalMean(1.0, regularisation, solver=factored, **plain),
                pk.Localised(m, 1.0, local, **plain),
            )
        line("chosen by default", pk.ConditionalMean(solver=factored), pk.Localised(m))
    grouped = pd.DataFrame(lines).groupby("setting", sort=False)
    table = grouped.mean()
    table["localised_over_exact"] = table["localised"] / table["exact"]
    table["trials"] = grouped.size()
    print(table.round(4).to_string())
    errors.write(table.reset_index(), output / "localised_ridges.csv")


PARTS = {"ridges": ridges, "settings": settings, "chosen": chosen, "dimensions": dimensions, "sizes": sizes}

if __name__ == "__main__":
    main()
