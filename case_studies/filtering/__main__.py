"""Tables and pictures: ``python -m case_studies.filtering``.

Lines of `circles.csv` that are there are kept; the tables and pictures are made of all of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from case_studies.destination import add_destination, folder_of
from case_studies.filtering.circles import HERE, LENGTHS, METHODS, RUNS, add_lines, jobs
from case_studies.filtering.summary import cells, known, over_lengths, scatter


def summarise(output: Path) -> None:
    """Tables and pictures from the lines."""
    lines = pd.read_csv(output / "circles.csv")
    table = cells(lines)
    table.round(5).to_csv(output / "circles_means.csv", index=False)
    known(lines, int(lines["n"].min()) if 200 not in set(lines["n"]) else 200).round(5).to_csv(
        output / "known_transition.csv", index=False
    )
    over_lengths(table, output / "circles.png")
    scatter(output / "oscillation.png")


def main() -> None:
    """Add what is missing, and write tables and pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two runs of short sequences")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--pictures", action="store_true", help="from the lines there are, without new ones")
    add_destination(parser)
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    without = [method for method in METHODS if method != "known_transition"]
    if arguments.quick:
        add_lines(output / "circles.csv", jobs(2, (30,), METHODS))
    elif not arguments.pictures:
        add_lines(output / "circles.csv", jobs(arguments.runs, (200,), ["known_transition"]))
        add_lines(output / "circles.csv", jobs(arguments.runs, LENGTHS, without))
    summarise(output)


if __name__ == "__main__":
    main()
