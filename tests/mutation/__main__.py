"""Mutants of each room, tried against the room's tests: ``python -m tests.mutation kernels gram``.

A seeded sample of each room's mutants is tried, in the order in which they were drawn: what was tried
before the time was up is a sample as well. What is known already, of files that have not changed since,
is not tried again; survivors alone are, with ``--survivors``. ``--tests`` names some of a room's tests:
new ones that survivors are to meet, or the quick ones, of which what is caught is the least.
``--record`` writes the tables in this folder, of what was tried.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.run import measured, outcomes, preload

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pymc_kbr"
HERE = Path(__file__).parent
ROOMS = {
    "arrays": ("tests/arrays",),
    "kernels": ("tests/kernels",),
    "gram": ("tests/gram",),
    "regression": ("tests/regression",),
    "embedding": ("tests/embedding",),
    "posterior": ("tests/posterior",),
    "estimators/likelihood": ("tests/estimators/likelihood", "tests/estimators/test_kernel_likelihood.py"),
    "estimators": ("tests/estimators",),
    "selection": ("tests/selection",),
    "rounds": ("tests/rounds",),
    "checking": ("tests/checking",),
    "filtering": ("tests/filtering",),
    "hypothesis_tests": ("tests/hypothesis_tests",),
    "tables": ("tests/tables",),
}
"""From a room to the tests that stand for it; what has a row of its own is no part of the room around it."""

NOT_NUMERICS = (
    "posterior/arviz.py",
    "checking/plots.py",
    "checking/pyplot.py",
    "filtering/plots.py",
    "hypothesis_tests/causal_learn.py",
)
"""Files that only hand on to another library."""

MODELS = ("pymc", "arviz", "xarray", "zarr")
"""Imported before the forks as well, for tests that come to them."""


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("rooms", nargs="*", default=[], help=f"of {', '.join(ROOMS)}; all where left out")
    parser.add_argument("--most", type=int, default=150, help="mutants of a room, drawn at random; 0 for all")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--file", default="", help="only files whose path holds this")
    parser.add_argument("--survivors", action="store_true", help="only what survived, once more")
    parser.add_argument("--tests", nargs="*", default=[], help="these instead of the room's own")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="of each room, its tests included"
    )
    parser.add_argument("--record", action="store_true", help="write table.csv and survivors.csv")
    parser.add_argument("--kept", type=Path, default=ROOT / ".mutation.csv", help="outcomes so far")
    return parser.parse_args()


def sample(room: str, most: int, seed: int, part: str) -> tuple[list[Mutant], int]:
    """Some mutants of a room in random order, and the number of all."""
    inner = [PACKAGE / other for other in ROOMS if other.startswith(f"{room}/")]
    files = [
        path
        for path in sorted((PACKAGE / room).rglob("*.py"))
        if part in str(path) and not any(path.is_relative_to(other) for other in inner)
    ]
    found = [
        mutant
        for path in files
        if str(path.relative_to(PACKAGE)) not in NOT_NUMERICS
        for mutant in mutants_of(path, ROOT)
    ]
    every = sum(mutant.counts for mutant in found)
    found = random.Random(f"{seed} {room}").sample(found, min(len(found), most or len(found)))
    return [mutant for mutant in found if mutant.counts], every


def known(kept: Path) -> dict[str, str]:
    """Outcomes so far, by the mutants' keys."""
    if not kept.exists():
        return {}
    with kept.open(newline="") as file:
        return {row[0]: row[1] for row in csv.reader(file)}


def try_room(room: str, chosen: list[Mutant], options: argparse.Namespace) -> dict[str, str]:
    """Outcomes of a room's mutants, those that were known included."""
    outcome = known(options.kept)
    new = [
        mutant for mutant in chosen if outcome.get(mutant.key) == ("survived" if options.survivors else None)
    ]
    print(f"{room}: {len(chosen)} mutants, {len(new)} to try", flush=True)
    if new:
        started = time.perf_counter()
        gc.collect()
        gc.freeze()  # the trees of what was drawn are not searched in every fork
        tests = measured(tuple(options.tests) or ROOMS[room], {mutant.path for mutant in new}, ROOT)

        def report(mutant: Mutant, what: str) -> None:
            outcome[mutant.key] = what
            with options.kept.open("a", newline="") as file:
                csv.writer(file).writerow([mutant.key, what, mutant.path, mutant.lines[0], mutant.change])
            if what == "survived":
                print(f"  {mutant.path}:{mutant.lines[0]} {mutant.function}: {mutant.change}", flush=True)

        outcomes(new, tests, options.jobs, report, started + 60 * options.minutes)
        print(
            f"  {time.perf_counter() - started:.0f} s, {tests.seconds:.1f} s a run of the tests", flush=True
        )
    tried = {mutant.key: outcome[mutant.key] for mutant in chosen if mutant.key in outcome}
    caught = sum(what != "survived" for what in tried.values())
    print(f"  {caught} of {len(tried)} caught, {len(chosen) - len(tried)} not tried", flush=True)
    return tried


def record(
    room: str, chosen: list[Mutant], outcome: dict[str, str], every: int, options: argparse.Namespace
) -> None:
    """Write a room's rows of the tables; why a survivor does not matter is kept from the table before."""
    tests = " ".join(options.tests or ROOMS[room])
    if options.survivors:  # which were tried against others before
        tests = next((row[5] for row in read(HERE / "samples.csv") if row[0] == room), tests)
    counts = [room, every, len(chosen), len(outcome), options.seed, tests]
    replace(HERE / "samples.csv", room, ["room", "mutants", "drawn", "tried", "seed", "tests"], [counts])
    chosen = [mutant for mutant in chosen if mutant.key in outcome]
    reasons = {tuple(row[:4]): row[4] for row in read(HERE / "survivors.csv")}
    survived = [mutant for mutant in chosen if outcome[mutant.key] == "survived"]
    rows = []
    for mutant in survived:
        name = (room, mutant.path, mutant.function, mutant.change)
        rows.append([*name, reasons.get(name, "")])
    replace(
        HERE / "survivors.csv", room, ["room", "file", "function", "change", "why it does not matter"], rows
    )
    tried, lost = Counter(mutant.path for mutant in chosen), Counter(mutant.path for mutant in survived)
    no_matter = Counter(row[1] for row in rows if row[4])
    table = [
        [room, path, tried[path], tried[path] - lost[path], lost[path], no_matter[path]]
        for path in sorted(tried)
    ]
    totals = [sum(row[i] for row in table) for i in (2, 3, 4, 5)]  # type: ignore[misc]
    table.append([room, "all", *totals])
    head = ["room", "file", "mutants tried", "caught", "survivors", "of these equivalent"]
    replace(HERE / "table.csv", room, head, table)


def read(path: Path) -> list[list[str]]:
    """Rows of a table, without its head."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


def replace(path: Path, room: str, head: list[str], rows: list[list]) -> None:
    """Put rows in the place of a room's rows."""
    others = [row for row in read(path) if row[0] != room]
    order = list(ROOMS)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(sorted([*others, *rows], key=lambda row: order.index(row[0])))


def main() -> None:
    """See the module."""
    options = arguments()
    unknown = [room for room in options.rooms if room not in ROOMS]
    if unknown:
        sys.exit(f"there is no room {', '.join(unknown)}; the rooms are {', '.join(ROOMS)}")
    os.chdir(ROOT)
    preload(MODELS)
    for room in options.rooms or ROOMS:
        chosen, every = sample(room, options.most, options.seed, options.file)
        outcome = try_room(room, chosen, options)
        if options.record:
            record(room, chosen, outcome, every, options)


if __name__ == "__main__":
    main()
