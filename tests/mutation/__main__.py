"""Mutants of each room, tried against the room's tests: ``python -m tests.mutation kernels gram``.

A seeded sample of each room's mutants is tried, in the order in which they were drawn: what was tried
before the time was up is a sample as well. What is known already, of files that have not changed since,
is not tried again. ``--survivors`` tries what the table of survivors names, of the sample with this seed,
in today's files. ``--tests`` names some of a room's tests: new ones that survivors are to meet, or the
quick ones, of which what is caught is the least. ``--record`` writes the tables in this folder, of what
was tried.
"""

from __future__ import annotations

import argparse
import csv
import gc
import os
import random
import sys
import time
from pathlib import Path

import joblib

from tests.mutation.mutants import Mutant, mutants_of
from tests.mutation.run import measured, outcomes, preload
from tests.mutation.tables import Sample, record_again, record_sample, survivors_of

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pymc_kbr"
ROOMS = {
    "arrays": ("tests/arrays",),
    "kernels": ("tests/kernels",),
    "gram": ("tests/gram",),
    "regression": ("tests/regression",),
    "embedding": ("tests/embedding", "tests/test_embedding_model.py"),
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
    "arrays/plotting.py",
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
    parser.add_argument("--jobs", type=int, default=joblib.cpu_count(), help="processes")
    parser.add_argument("--file", default="", help="only files whose path holds this")
    parser.add_argument("--survivors", action="store_true", help="only what survived, in today's files")
    parser.add_argument("--tests", nargs="*", default=[], help="these instead of the room's own")
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="of each room, its tests included"
    )
    parser.add_argument("--record", action="store_true", help="write the tables")
    parser.add_argument("--kept", type=Path, default=ROOT / ".mutation.csv", help="outcomes so far")
    return parser.parse_args()


def sample(room: str, most: int, seed: int, part: str) -> tuple[list[Mutant], int]:
    """Some mutants of a room in random order, and the number of all."""
    found = [mutant for path in files_of(room) if part in path for mutant in mutants_of(ROOT / path, ROOT)]
    every = sum(mutant.counts for mutant in found)
    found = random.Random(f"{seed} {room}").sample(found, min(len(found), most or len(found)))
    return [mutant for mutant in found if mutant.counts], every


def files_of(room: str) -> list[str]:
    """A room's files that compute something, as seen from the repository's root."""
    inner = [PACKAGE / other for other in ROOMS if other.startswith(f"{room}/")]
    return [
        str(path.relative_to(ROOT))
        for path in sorted((PACKAGE / room).rglob("*.py"))
        if not any(path.is_relative_to(other) for other in inner)
        and str(path.relative_to(PACKAGE)) not in NOT_NUMERICS
    ]


def once_more(room: str, seed: int, part: str) -> list[Mutant]:
    """What survived in a room's sample, as today's files have it: the same change of the same function."""
    names = {name for name in survivors_of(room, seed) if part in name[0]}
    files = sorted({name[0] for name in names} & set(files_of(room)))
    return [mutant for file in files for mutant in mutants_of(ROOT / file, ROOT) if mutant.name in names]


def known(kept: Path) -> dict[str, str]:
    """Outcomes so far, by the mutants' keys."""
    if not kept.exists():
        return {}
    with kept.open(newline="") as file:
        return {row[0]: row[1] for row in csv.reader(file)}


def try_room(room: str, chosen: list[Mutant], options: argparse.Namespace) -> dict[str, str]:
    """Outcomes of a room's mutants, those that were known included."""
    outcome = known(options.kept)
    again = (None, "survived") if options.survivors else (None,)
    new = [mutant for mutant in chosen if outcome.get(mutant.key) in again]
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


def main() -> None:
    """See the module."""
    options = arguments()
    unknown = [room for room in options.rooms if room not in ROOMS]
    if unknown:
        sys.exit(f"there is no room {', '.join(unknown)}; the rooms are {', '.join(ROOMS)}")
    os.chdir(ROOT)
    preload(MODELS)
    for room in options.rooms or ROOMS:
        if options.survivors:
            chosen, every = once_more(room, options.seed, options.file), 0
        else:
            chosen, every = sample(room, options.most, options.seed, options.file)
        outcome = try_room(room, chosen, options)
        if options.record and options.survivors:
            record_again(room, options.seed, chosen, outcome, list(ROOMS))
        elif options.record:
            tests = " ".join(options.tests or ROOMS[room])
            drawn = Sample(room, options.seed, every, len(chosen), tests)
            record_sample(drawn, [m for m in chosen if m.key in outcome], outcome, list(ROOMS))


if __name__ == "__main__":
    main()
