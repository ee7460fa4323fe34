"""The tables of this folder: samples, what each file's tests caught of them, and what survived."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.mutants import Mutant

HERE = Path(__file__).parent
SAMPLES = ("room", "seed", "mutants", "drawn", "tried", "tests")
TABLE = ("room", "seed", "file", "mutants tried", "caught", "survivors", "caught since", "equivalent")
SURVIVORS = ("room", "seed", "file", "function", "change", "again", "why it survived")
CAUGHT, SURVIVED, GONE = "caught", "survived", "gone"
"""What became of a survivor that was tried again; "gone" where its line is not there any more."""


@dataclass(frozen=True)
class Sample:
    """A room's sample: its seed, of how many mutants it is, how many were drawn, and the tests they met."""

    room: str
    seed: int
    every: int
    drawn: int
    tests: str


def record_sample(sample: Sample, tried: list[Mutant], outcome: dict[str, str], order: list[str]) -> None:
    """Write the rows of a sample; what is known of a survivor is kept from the table before."""
    own = (sample.room, str(sample.seed))
    counts = [*own, sample.every, sample.drawn, len(tried), sample.tests]
    _replace("samples.csv", own, SAMPLES, [counts], order)
    known = {tuple(row[2:5]): row[5:] for row in _read("survivors.csv") if tuple(row[:2]) == own}
    left = [mutant for mutant in tried if outcome[mutant.key] == SURVIVED]
    rows = [[*own, *mutant.name, *known.get(mutant.name, ("", ""))] for mutant in left]
    _replace("survivors.csv", own, SURVIVORS, rows, order)
    _count(own, Counter(mutant.path for mutant in tried), order)


def record_again(
    room: str, seed: int, chosen: list[Mutant], outcome: dict[str, str], order: list[str]
) -> None:
    """Write what became of a sample's survivors. The sample's own counts stay as they are.

    Where the same change can be made at several places of a function all of them have to be caught.
    """
    own = (room, str(seed))
    found: dict[tuple[str, ...], list[str | None]] = {}
    for mutant in chosen:
        found.setdefault(mutant.name, []).append(outcome.get(mutant.key))
    rows = [row for row in _read("survivors.csv") if tuple(row[:2]) == own]
    for row in rows:
        now = found.get(tuple(row[2:5]))
        if now is None:
            row[5] = GONE
        elif SURVIVED in now:
            row[5] = SURVIVED
        elif None not in now:
            row[5] = CAUGHT
    _replace("survivors.csv", own, SURVIVORS, rows, order)
    before = {row[2]: int(row[3]) for row in _read("table.csv") if tuple(row[:2]) == own}
    _count(own, Counter({file: tried for file, tried in before.items() if file != "all"}), order)


def survivors_of(room: str, seed: int) -> list[tuple[str, str, str]]:
    """File, function and change of what survived in a sample."""
    rows = [row for row in _read("survivors.csv") if tuple(row[:2]) == (room, str(seed))]
    return [(row[2], row[3], row[4]) for row in rows]


def _count(own: tuple[str, str], tried: Counter[str], order: list[str]) -> None:
    """Write a sample's rows of table.csv, from its rows of survivors.csv."""
    rows = [row for row in _read("survivors.csv") if tuple(row[:2]) == own]
    lost = Counter(row[2] for row in rows)
    since = Counter(row[2] for row in rows if row[5] == CAUGHT)
    no_matter = Counter(row[2] for row in rows if row[5] != CAUGHT and row[6].startswith("equivalent"))
    table = [
        [*own, file, tried[file], tried[file] - lost[file], lost[file], since[file], no_matter[file]]
        for file in sorted(tried)
    ]
    table.append([*own, "all", *(sum(int(row[i]) for row in table) for i in range(3, len(TABLE)))])
    _replace("table.csv", own, TABLE, table, order)


def _read(name: str) -> list[list[str]]:
    """Rows of a table, without its head."""
    path = HERE / name
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


def _replace(
    name: str, own: tuple[str, str], head: tuple[str, ...], rows: list[list], order: list[str]
) -> None:
    """Put rows in the place of a sample's rows."""
    others = [row for row in _read(name) if tuple(row[:2]) != own]
    with (HERE / name).open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(sorted([*others, *rows], key=lambda row: (order.index(row[0]), row[1])))
