"""``python -m case_studies.speed``: one table of ratios, and what they were the last time."""

from __future__ import annotations

import argparse
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from case_studies.speed.compilation import compilation
from case_studies.speed.conditioning import (
    coalescent_arrays,
    exact_conditional_mean,
    growth,
    localised,
    localised_batch,
)
from case_studies.speed.embeddings import embeddings
from case_studies.speed.factorisations import incomplete_cholesky
from case_studies.speed.filtering import exact_step, low_rank_step, thousand_steps
from case_studies.speed.likelihoods import choice, fit_and_draws
from case_studies.speed.measure import History, Row, machine, versions
from case_studies.speed.model_choice import few_rows_of_many, many_rows, million_rows
from case_studies.speed.simulations import batched_simulation, two_cores
from case_studies.speed.streaming import large_table, streamed_against_memory

HISTORY = Path(__file__).with_name("benchmark.csv")


def localised_rows(quick: bool, coal: Path | None) -> Iterator[Row]:
    """`Localised` on the coalescent, and on a linear model in either precision."""
    observations = 200 if quick else 1000
    arrays = coalescent_arrays(coal, observations)
    for neighbours in (500,) if quick else (500, 1000):
        yield localised(*arrays, neighbours)
    yield from localised_batch(20_000 if quick else 100_000, observations)


def streaming(quick: bool) -> Iterator[Row]:
    """Tables on the disk."""
    yield from streamed_against_memory(100_000 if quick else 1_000_000)
    if not quick:
        yield large_table(10_000_000)


def filtering(quick: bool) -> Iterator[Row]:
    """Steps of the kernel Bayes filter."""
    yield exact_step(1_000, 100)
    if not quick:
        yield exact_step(5_000, 20)
    yield low_rank_step(5_000 if quick else 20_000, 50, 100)
    yield thousand_steps(1_000, 100 if quick else 1_000)


def likelihoods(quick: bool) -> Iterator[Row]:
    """Learned likelihoods, and the choice among them and others."""
    yield from fit_and_draws(1_000 if quick else 10_000, 1_000 if quick else 10_000)
    if not quick:
        yield from choice(10_000)


def models(quick: bool) -> Iterator[Row]:
    """Probabilities of models from large tables."""
    yield many_rows(50_000 if quick else 150_000)
    if not quick:
        yield few_rows_of_many(10_000)
        yield million_rows(1_000_000)


def groups(quick: bool, coal: Path | None) -> dict[str, Callable[[], Iterable[Row]]]:
    """Lines that belong together, by name, measured when they are called."""
    observations = 200 if quick else 1000
    return {
        "simulate": lambda: batched_simulation(*((100_000, 2_000) if quick else (1_000_000, 20_000))),
        "cores": lambda: [two_cores(400 if quick else 40_000)],
        "localised": lambda: localised_rows(quick, coal),
        "growth": lambda: growth(30_000 if quick else 100_000, observations),
        "exact": lambda: [exact_conditional_mean(2000 if quick else 5000, observations)],
        "incomplete_cholesky": lambda: incomplete_cholesky(
            (25_000,) if quick else (25_000, 50_000, 100_000), 200
        ),
        "embeddings": lambda: embeddings(quick),
        "streaming": lambda: streaming(quick),
        "filtering": lambda: filtering(quick),
        "likelihoods": lambda: likelihoods(quick),
        "compilation": lambda: () if quick else compilation(),
        "models": lambda: models(quick),
    }


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, in a minute")
    parser.add_argument("--coal", type=Path, help="coal as CSV, of abctools, in place of our own data")
    parser.add_argument("--only", choices=groups(True, None), nargs="*", help="these groups of lines")
    parser.add_argument("--history", type=Path, default=HISTORY, help="lines of earlier runs")
    parser.add_argument("--record", action="store_true", help="add this run's lines to them")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    history = History(arguments.history, arguments.record)
    print(f"{machine()}, {versions()}", flush=True)
    for name, measured in groups(arguments.quick, arguments.coal).items():
        if arguments.only and name not in arguments.only:
            continue
        for row in measured():
            before = history.add(row)
            print(
                f"{row.what}\n    {row.ours} against {row.other}: ratio {row.ratio:.2f} "
                f"(wanted: {row.wanted}{before})",
                flush=True,
            )


if __name__ == "__main__":
    main()
