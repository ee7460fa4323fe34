"""Runs a room's tests against its mutants: one process a mutant, forked from one that holds the libraries."""

from __future__ import annotations

import gc
import importlib
import importlib.abc
import importlib.util
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant

PRELOADED = (
    "hypothesis",
    "numpy",
    "pandas",
    "pytest",
    "scipy.linalg",
    "scipy.optimize",
    "scipy.spatial",
    "scipy.special",
    "scipy.stats",
    "sklearn.ensemble",
    "sklearn.gaussian_process",
    "sklearn.model_selection",
    "threadpoolctl",
)
"""Imported once, before the forks. (No thread may run in the process that forks.)"""

UNUSED = ("cacheprovider", "doctest", "faulthandler", "threadexception", "unraisableexception")
"""Parts of pytest that take longer than most tests, many times over."""

OPTIONS = (
    "-x",
    "-q",
    "-o",
    "addopts=",
    "-m",
    "not (statistical or pages)",
    *(f"-pno:{name}" for name in UNUSED),
)

LEAST_LIMIT, TIMES_AS_LONG = 10.0, 3.0
"""Seconds of the processor, and times those of its tests without a change, after which a mutant is ended."""

PATIENCE = 4.0
"""Times as long by the clock, for a mutant that waits for ever: other work on the machine must end none."""

PASSED, NOTHING_RUN = 0, 5
"""Exit statuses of pytest."""


@dataclass(frozen=True)
class Room:
    """Tests of a room of the package, and which of them reach which line.

    Attributes
    ----------
    tests : tuple of str
        Folders and files.
    seconds : float
        That they take without a change.
    reached : dict of (str, int) to set of str
        From a file and a line to the tests that run it; the empty name stands for what runs on import.
    cost : dict of str to float
        Seconds of each test.
    """

    tests: tuple[str, ...]
    seconds: float
    reached: dict[tuple[str, int], set[str]]
    cost: dict[str, float]

    def of(self, mutant: Mutant) -> tuple[str, ...]:
        """The tests that can notice a mutant, the cheap ones first; all of them where that is not known."""
        lines = range(mutant.lines[0], mutant.lines[1] + 1)
        names = set().union(*(self.reached.get((mutant.path, line), set()) for line in lines))
        return self.cheap_first(self.cost if "" in names else names)

    def cheap_first(self, names: Iterable[str]) -> tuple[str, ...]:
        """Tests file by file, so that what a file's tests share is made once; the shortest file first."""
        files: dict[str, list[str]] = {}
        for name in names:
            files.setdefault(name.split("::")[0], []).append(name)
        by_cost = sorted(files.values(), key=lambda own: (self.seconds_of(own), own[0]))
        return tuple(
            name for own in by_cost for name in sorted(own, key=lambda name: (self.cost[name], name))
        )

    def seconds_of(self, names: Iterable[str]) -> float:
        """Seconds of these tests."""
        return sum(self.cost[name] for name in names)


def preload(also: Iterable[str] = ()) -> None:
    """Import the libraries that tests need."""
    for name in (*PRELOADED, *also):
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    from hypothesis import settings

    settings.register_profile("mutation", deadline=None, database=None, derandomize=True)
    settings.load_profile("mutation")
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    gc.freeze()  # what is there already is neither searched for garbage in a fork nor copied for it


def measured(tests: tuple[str, ...], files: Iterable[str], root: Path) -> Room:
    """Run the tests as the code stands, and see which lines of some files each of them reaches.

    Of these files alone, since the rest of the package would be several times slower for it.

    Raises
    ------
    RuntimeError
        If they fail: then nothing can be said about mutants.
    """
    import pickle
    import tempfile

    with tempfile.NamedTemporaryFile() as kept:
        started = time.perf_counter()
        pid = os.fork()
        if pid == 0:
            _in_child(lambda: _traced(tests, sorted(files), root, Path(kept.name)))
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status != PASSED:
            raise RuntimeError(f"{' '.join(tests)}: the tests end with status {status} without any change")
        reached, cost = pickle.loads(Path(kept.name).read_bytes())
    return Room(tests, time.perf_counter() - started, reached, cost)


def _traced(tests: tuple[str, ...], files: list[str], root: Path, kept: Path) -> int:
    import pickle

    from coverage import Coverage

    cover = Coverage(data_file=None, include=[str(root / file) for file in files], messages=False)
    cover.start()

    cost: dict[str, float] = {}

    class Contexts:
        def pytest_runtest_logstart(self, nodeid: str, location: object) -> None:
            cover.switch_context(nodeid)

        def pytest_runtest_logfinish(self, nodeid: str, location: object) -> None:
            cover.switch_context("")

        def pytest_runtest_logreport(self, report: Any) -> None:
            cost[report.nodeid] = cost.get(report.nodeid, 0.0) + report.duration

    status = _tested(tests, [Contexts()])
    cover.stop()
    data = cover.get_data()
    reached = {
        (str(Path(path).relative_to(root)), line): set(contexts)
        for path in data.measured_files()
        for line, contexts in data.contexts_by_lineno(path).items()
    }
    kept.write_bytes(pickle.dumps((reached, cost)))
    return status


def _tested(tests: Iterable[str], plugins: list[Any] | None = None) -> int:
    import pytest

    return int(pytest.main([*OPTIONS, *tests], plugins=plugins))


def outcomes(
    mutants: Iterable[Mutant],
    room: Room,
    jobs: int,
    report: Callable[[Mutant, str], None],
    end: float = float("inf"),
) -> None:
    """Say of each mutant whether it was "caught", ended by "time-out", or "survived".

    None is begun after `end` of `time.perf_counter`; those that run then are waited for, as the slow ones are
    oftener among them.
    """
    running: dict[int, tuple[Mutant, float]] = {}
    waiting = iter(mutants)
    mutant = next(waiting, None)
    while mutant is not None or running:
        if time.perf_counter() > end:
            mutant = None
        while mutant is not None and len(running) < jobs:
            tests = room.of(mutant)
            if not tests:
                report(mutant, "survived")  # no test comes here
            else:
                limit = LEAST_LIMIT + TIMES_AS_LONG * room.seconds_of(tests)
                running[_started(mutant, tests, limit)] = mutant, time.monotonic() + PATIENCE * limit
            mutant = next(waiting, None)
        for pid, (tried, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                code = os.waitstatus_to_exitcode(status)
                passed = code in (PASSED, NOTHING_RUN)
                report(tried, "survived" if passed else "time-out" if code == -signal.SIGXCPU else "caught")
            elif time.monotonic() > deadline:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                del running[pid]
                report(tried, "time-out")
        time.sleep(0.01)


def _started(mutant: Mutant, tests: tuple[str, ...], limit: float) -> int:
    pid = os.fork()
    if pid:
        return pid

    def work() -> int:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
        sys.meta_path.insert(0, _Planted(mutant))
        return _tested(tests)

    _in_child(work)
    raise AssertionError("a forked process ends in _in_child")


def _in_child(work: Callable[[], int]) -> None:
    status = 3
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        if not os.environ.get("MUTATION_SHOWN"):
            os.dup2(null, 2)
        status = work()
    finally:
        os._exit(status)


class _Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives the mutant where its module is imported."""

    def __init__(self, mutant: Mutant) -> None:
        self._path = str(Path(mutant.path).resolve())
        name = mutant.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        self._name, self._code = name, mutant.code

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name != self._name:
            return None
        package = self._path.endswith("__init__.py")
        spec = importlib.util.spec_from_loader(name, self, origin=self._path, is_package=package)
        if spec is not None and package:
            spec.submodule_search_locations = [str(Path(self._path).parent)]
        return spec

    def exec_module(self, module: Any) -> None:
        module.__file__ = self._path
        exec(compile(self._code, self._path, "exec"), module.__dict__)
