"""A fish stock by its surveys: ``python -m case_studies.filtering.surveys``.

The stock's year is a PyMC model of one step: known. The survey is a simulator of counts in hauls, of which
the filter sees three statistics and no likelihood; its training pairs are simulated surveys of drawn
stocks. A particle filter is told the counts' negative binomial density. A line of `surveys.csv` is a run.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import pymc as pm
from scipy.stats import nbinom

from case_studies.destination import add_destination, folder_of
from pymc_kbr.filtering import KernelBayesFilter

HERE = Path(__file__).parent
GROWTH, CATCH, NOISE = 0.5, 0.1, 0.25
HAULS, CATCHABILITY, DISPERSION = 12, 8.0, 0.8
PAIRS, YEARS, SEED = 500, 100, 29
COLUMNS = ("run", "method", "rmse", "coverage")


def year_model() -> pm.Model:
    """A year of the logarithm of the stock over what the sea can hold."""
    with pm.Model() as model:
        previous = pm.Data("previous", np.zeros(1))
        pm.Normal("state", previous + GROWTH * (1 - pm.math.exp(previous)) - CATCH, NOISE, shape=1)
    return model


def year(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The same year without PyMC."""
    return states + GROWTH * (1 - np.exp(states)) - CATCH + NOISE * rng.normal(size=states.shape)


def hauls(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Counts (k, HAULS) of surveys of states (k, 1)."""
    mean = CATCHABILITY * np.exp(states)
    rate = rng.gamma(DISPERSION, 1, size=(len(states), HAULS)) * mean / DISPERSION
    return rng.poisson(rate)


def statistics(counts: np.ndarray) -> np.ndarray:
    """What the filter sees (k, 3): mean of the logarithms, share of empty hauls, logarithm of the largest."""
    logs = np.log1p(counts)
    return np.column_stack([logs.mean(axis=1), (counts == 0).mean(axis=1), logs.max(axis=1)])


def particles(
    counts: np.ndarray, first: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Means (T,) and 90% bands (T, 2) of a bootstrap particle filter, from draws (l, 1) of the prior."""
    states, means, bands = first, [], []
    for t, row in enumerate(counts):
        if t:
            states = year(states, rng)
        mean = CATCHABILITY * np.exp(states)
        log_weights = nbinom.logpmf(row, DISPERSION, DISPERSION / (DISPERSION + mean)).sum(axis=1)
        weights = np.exp(log_weights - log_weights.max())
        states = states[rng.choice(len(states), len(states), p=weights / weights.sum())]
        means.append(states.mean())
        bands.append(np.quantile(states, [0.05, 0.95]))
    return np.array(means), np.array(bands)


def lines(run: int, pairs: int, years: int) -> list[dict[str, object]]:
    """Errors and coverage of one run's methods."""
    rng = np.random.default_rng([SEED, run])
    drawn = rng.normal(-0.3, 0.7, size=(pairs, 1))
    stock = np.zeros((pairs + years, 1))
    for t in range(1, len(stock)):
        stock[t] = year(stock[t - 1], rng)
    counts = hauls(stock, rng)
    seen, truth = statistics(counts), stock[pairs:, 0]
    known = KernelBayesFilter(transition=year_model(), correction=False)
    known.fit(pairs=(drawn, statistics(hauls(drawn, rng))), random_seed=run)
    learnt = KernelBayesFilter(correction=False).fit(stock[:pairs], seen[:pairs], random_seed=run)
    first = rng.normal(-0.3, 0.7, size=(5_000, 1))
    found = {"particles": particles(counts[pairs:], first, rng)}
    for name, kbf in (("known transition", known), ("learnt transition", learnt)):
        result = kbf.filter(seen[pairs:])
        found[name] = result.mean()[:, 0], result.interval(0.9)[:, :, 0]
    return [
        {
            "run": run,
            "method": name,
            "rmse": f"{np.sqrt(np.mean((means - truth) ** 2)):.4f}",
            "coverage": f"{np.mean((truth >= bands[:, 0]) & (truth <= bands[:, 1])):.3f}",
        }
        for name, (means, bands) in found.items()
    ]


def add_lines(path: Path, runs: int, pairs: int, years: int) -> None:
    """Append what is not there yet."""
    there = set()
    if path.exists():
        with path.open(newline="") as file:
            there = {int(row["run"]) for row in csv.DictReader(file)}
    else:
        path.write_text(",".join(COLUMNS) + "\n")
    for run in range(runs):
        if run not in there:
            made = lines(run, pairs, years)
            with path.open("a", newline="") as file:
                csv.DictWriter(file, COLUMNS, lineterminator="\n").writerows(made)


def main() -> None:
    """Add lines to the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10)
    add_destination(parser)
    arguments = parser.parse_args()
    add_lines(folder_of(arguments, HERE) / "surveys.csv", arguments.runs, PAIRS, YEARS)


if __name__ == "__main__":
    main()
