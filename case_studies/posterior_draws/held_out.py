"""Energy scores on the coalescent: ``python -m case_studies.posterior_draws.held_out``.

The first 10,000 rows of the project's table, or of a user's `coal`, are fitted; the last 1,000 are
scored: the mean energy score of 1,000 draws, over the prior's standard deviations, and the coverage of
90% intervals. Lines: local-linear adjustment as the R package abc does it with a tenth of the rows, what
`select` chooses, with and without fifty useless statistics more, and every candidate that it may choose.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.coalescent.accuracy import BOUNDS, load, local_linear
from case_studies.destination import add_destination, folder_of
from pymc_kbr.estimators import Estimator
from pymc_kbr.posterior.scores import covered, energy_score
from pymc_kbr.selection.select import default_candidates
from pymc_kbr.selection.selection import label

HERE = Path(__file__).parent
PRIOR_DEVIATIONS = np.array([2.309, 2.887])
USELESS = 50


def score(
    name: str, estimator: Estimator, seconds: float, held_out: tuple[np.ndarray, np.ndarray], draws: int
) -> tuple[dict[str, float | str], np.ndarray]:
    """One line of the table, and the energy score of each held-out row."""
    truth, observed = held_out
    scores, covers = np.empty(len(truth)), np.empty((len(truth), 2))
    started = time.perf_counter()
    for part in np.array_split(np.arange(len(truth)), max(1, len(truth) // 50)):
        for row, posterior in zip(part, estimator.condition(observed[part]), strict=True):
            drawn = posterior.draw(draws, np.random.default_rng(int(row)))
            scores[row] = energy_score(drawn / PRIOR_DEVIATIONS, truth[row] / PRIOR_DEVIATIONS, fair=True)
            covers[row] = covered(drawn, truth[row])
    line: dict[str, float | str] = {
        "estimator": name,
        "energy_score": float(scores.mean()),
        "coverage_90_theta": float(covers[:, 0].mean()),
        "coverage_90_rho": float(covers[:, 1].mean()),
        "seconds_fit": seconds,
        "ms_an_observation": 1e3 * (time.perf_counter() - started) / len(truth),
    }
    return line, scores


def table_of(parameters: np.ndarray, statistics: np.ndarray) -> pk.ReferenceTable:
    """A reference table without an observation."""
    names = [f"s{i}" for i in range(statistics.shape[1])]
    frame = pd.DataFrame(np.hstack([parameters, statistics]), columns=[*BOUNDS, *names])
    return pk.ReferenceTable.from_dataframe(frame, parameters=list(BOUNDS), statistics=names, bounds=BOUNDS)


def main() -> None:
    """Score, and write held_out.csv."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--coal", type=Path, help="coal.rda of abctools, or the same as CSV")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of `select`")
    parser.add_argument("--quick", action="store_true", help="1,000 rows, 50 held out, no candidates")
    add_destination(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    n, k, draws = (1_000, 50, 300) if arguments.quick else (10_000, 1_000, 1_000)
    parameters, statistics = load(arguments.coal)
    held_out = parameters[-k:], statistics[-k:]
    noise = np.random.default_rng(50).normal(size=(len(statistics), USELESS))
    noisy = np.hstack([statistics, noise])
    lines, every = [], []

    def add(name: str, estimator: Estimator, seconds: float, truth: tuple[np.ndarray, np.ndarray]) -> None:
        line, scores = score(name, estimator, seconds, truth, draws)
        every.append(scores)
        apart = scores - every[0]
        line |= {"excess": float(apart.mean()), "standard_error": float(apart.std() / np.sqrt(len(apart)))}
        lines.append(line)
        print(line, flush=True)

    started = time.perf_counter()
    first = parameters[:n], statistics[:n]
    fitted = local_linear(n).fit(*first, table_of(*first).support)
    add("local-linear adjustment", fitted, time.perf_counter() - started, held_out)
    for seed in arguments.seeds:
        for name, columns in (("select", statistics), (f"select, {USELESS} useless statistics more", noisy)):
            started = time.perf_counter()
            chosen = pk.select(table_of(parameters[:n], columns[:n]), random_seed=seed, progressbar=False)
            seconds = time.perf_counter() - started
            reason = chosen.selection_.chosen.label  # type: ignore[attr-defined]
            add(f"{name} (seed {seed}): {reason}", chosen, seconds, (parameters[-k:], columns[-k:]))
    for candidate in [] if arguments.quick else [*itertools.chain(*default_candidates(n))]:
        started = time.perf_counter()
        candidate.fit(parameters[:n], statistics[:n], fitted.table_.support, random_seed=0)
        add(label(candidate), candidate, time.perf_counter() - started, held_out)
    result = pd.DataFrame(lines)
    output = folder_of(arguments, HERE)
    name = "held_out.csv" if arguments.coal is None else "held_out_coal.csv"
    result.round(4).to_csv(output / name, index=False)
    print(result.to_string(index=False, float_format="{:.4f}".format))


if __name__ == "__main__":
    main()
