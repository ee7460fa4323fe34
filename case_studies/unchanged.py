"""Whether tables that were made anew have the committed figures: ``python -m case_studies.unchanged``.

Each table is compared with the one of a commit (``--against``, HEAD where left out), line by line: lines are
matched by their texts and by the columns that count things. Seconds are left out. A figure is the same where
it differs by less than a share (``--within``) or, where the line has a standard error, by two of these.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pandas as pd

COUNTS = ("rows", "held_out", "d", "n", "trial", "trials", "simulations", "seed", "observation", "repetition")
"""Columns of numbers that tell lines apart."""

TIMES = ("seconds", "ms", "rank", "cpu", "peak")
"""What columns that tell of speed begin with."""


def compared(then: pd.DataFrame, now: pd.DataFrame, within: float) -> pd.DataFrame:
    """The figures of two tables that lines of both have, with how far they are apart.

    Parameters
    ----------
    then, now : DataFrame
    within : float
        Relative difference up to which figures are the same.

    Returns
    -------
    DataFrame
        A row for each figure: `line`, `column`, `then`, `now`, `relative`, `same`.
    """
    texts = [name for name in then.columns if not pd.api.types.is_numeric_dtype(then[name]) or name in COUNTS]
    keys = [name for name in texts if name in now.columns]
    figures = [
        name
        for name in then.columns
        if name in now.columns
        and name not in keys
        and not name.startswith(TIMES)
        and not name.endswith("standard_error")
    ]
    old, new = (table.set_index(keys) if keys else table for table in (then, now))
    rows = []
    for line in old.index.intersection(new.index):
        before, after = old.loc[[line]].iloc[0], new.loc[[line]].iloc[0]
        chance = 2 * float(before.get("standard_error", 0.0))
        for name in figures:
            a, b = float(before[name]), float(after[name])
            if pd.isna(a) and pd.isna(b):
                continue
            relative = abs(b - a) / max(abs(a), 1e-12)
            same = relative <= within or abs(b - a) <= chance
            rows.append((line, name, a, b, relative, same))
    return pd.DataFrame(rows, columns=["line", "column", "then", "now", "relative", "same"])


def main() -> None:
    """Compare the tables that are named, or all of a folder, and say which figures have changed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("made", type=Path, help="a folder of tables made anew, by a study's --output")
    parser.add_argument("committed", type=Path, help="the study's folder")
    parser.add_argument("--against", default="HEAD", help="the commit whose tables are compared with")
    parser.add_argument("--within", type=float, default=0.005)
    arguments = parser.parse_args()
    changed = 0
    for made in sorted(arguments.made.glob("*.csv")):
        name = f"{arguments.against}:./{arguments.committed / made.name}"
        held = subprocess.run(["git", "show", name], capture_output=True, text=True)
        if held.returncode:
            print(f"{made.name}: not in {arguments.against}")
            continue
        table = compared(pd.read_csv(StringIO(held.stdout)), pd.read_csv(made), arguments.within)
        different = table[~table["same"]]
        changed += len(different)
        largest = table["relative"].max() if len(table) else float("nan")
        print(
            f"{made.name}: {len(table)} figures compared, {len(different)} changed, at most by {largest:.2%}"
        )
        if len(different):
            print(different.to_string(index=False))
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
