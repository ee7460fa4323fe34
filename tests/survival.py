"""Kills a simulation at random moments and compares the tables: ``python -m tests.survival``."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pymc as pm

import pymc_kbr as pk

SECONDS = 1e-3


def one_millisecond(rng, mean, scale, size=None):
    """Simulates and keeps the processor busy."""
    until = time.perf_counter() + SECONDS
    y = np.array(
        [rng.normal(float(np.asarray(mean).item()), float(np.asarray(scale).item())) for _ in range(3)]
    )
    while time.perf_counter() < until:
        pass
    return y


def simulated(draws, store=None, **kwargs):
    """The table of a model of two parameters, simulated row by row."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pm.Simulator("y", one_millisecond, mean, scale, observed=np.zeros(3))
    return pk.simulate(
        draws, model=model, random_seed=1, store=store, batched=False, **{"progressbar": False, **kwargs}
    )


def start(draws, store, cores):
    """The same in a process of its own."""
    code = f"from tests.survival import simulated; simulated({draws}, {str(store)!r}, cores={cores})"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1],
    )


def workers_of(process):
    """The worker processes of a caller: its child forks them."""
    return [
        child
        for child in psutil.Process(process.pid).children(recursive=True)
        if is_forked(child, process.pid)
    ]


def is_forked(child, caller):
    """Whether a process has not been started by the caller itself."""
    try:
        return child.ppid() != caller
    except psutil.NoSuchProcess:
        return False


def kill(process, store, rng, seconds, worker):
    """End the caller, or one of its workers, at a random moment; whether it was still running.

    The moment is a random share of `seconds` after the store and the workers are there.
    """
    while process.poll() is None and not (store.exists() and workers_of(process)):
        time.sleep(0.05)
    time.sleep(rng.uniform(0, seconds))
    if process.poll() is not None:
        return False
    if worker:
        children = workers_of(process)
        if children:
            children[rng.integers(len(children))].kill()
        process.wait()
        return bool(children)
    orphans = workers_of(process)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not psutil.wait_procs(orphans, timeout=20)[1], "workers live on without their caller"
    return True


def same(one, two):
    """Whether two tables are equal bit for bit."""
    return all(
        np.array_equal(a, b)
        for a, b in (
            (one.parameters, two.parameters),
            (one.statistics, two.statistics),
            (one.failures.rows, two.failures.rows),
        )
    )


def survive(kills, draws, seconds, seed=0, show=print, cores=2, resume_on=2):
    """Kill callers and workers in turn, resume each time, and count the tables that are not the same."""
    rng = np.random.default_rng(seed)
    whole = simulated(draws, cores=resume_on)
    different = 0
    for number in range(kills):
        worker = number % 2 == 1
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "table.zarr"
            hit = kill(start(draws, store, cores), store, rng, seconds, worker)
            kept = len(pk.StoredTable.open(store))
            resumed = simulated(draws, store, cores=resume_on)
            equal = same(whole, resumed) and len(resumed) == draws
            different += not equal
        what = f"{'a worker' if worker else 'the caller'}{'' if hit else ' (too late)'}"
        after = f"{'equal' if equal else 'DIFFERENT'} after resuming"
        show(f"kill {number + 1}: {what}, {kept:,} of {draws:,} rows were on the disk; {after}")
    return different


def main():
    """Run it and say what came out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--draws", type=int, default=20_000)
    arguments = parser.parse_args()
    seconds = 1 + arguments.draws * SECONDS / 2  # for two workers to compile and to do it
    different = survive(arguments.kills, arguments.draws, seconds, show=lambda text: print(text, flush=True))
    print(f"{arguments.kills - different} of {arguments.kills} tables equal the uninterrupted one")
    sys.exit(different > 0)


if __name__ == "__main__":
    main()
