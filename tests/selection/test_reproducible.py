"""The same seed gives the same choice and the same draws, whatever the clock, the load and the cores."""

import hashlib
import itertools
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import pymc_kbr as pk

ROOT = Path(__file__).parents[2]


def table(n=500):
    rng = np.random.default_rng(8)
    theta = rng.normal(size=(n, 2))
    x = np.hstack([theta + 0.4 * rng.normal(size=(n, 2)), rng.normal(size=(n, 1))])
    frame = pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t", "u"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t", "u"], observed=[0.3, -0.2, 0.1]
    )


def draws_of_each():
    """By all that promise the same bits on any number of threads, of so many rows that BLAS divides sums."""
    t = table(600)
    for name, cls in pk.ESTIMATORS.items():
        if not cls().on_all_threads and name != "kernel_likelihood":  # which takes long, and is chosen below
            yield cls().fit(t, random_seed=4).condition([0.1, 0.2, 0.0]).draw(50, 1)


def digest():
    """Of scores of `select`, draws of `sample_abc` and of each estimator, to the last bit."""
    few = ["localised", pk.Adjusted(pk.Localised(60)), pk.Adjusted(pk.Rejection(60, scale="relevance"))]
    both = ["localised", pk.KernelLikelihood("location_scale", 50)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pk.select(table(120), candidates=few, random_seed=2, progressbar=False)
        idata = pk.sample_abc(
            100, reference_table=table(110), candidates=both, random_seed=3, progressbar=False, chains=1
        )
    sha = hashlib.sha256(found.condition([0.1, 0.2, 0.0]).draw(50, 1).tobytes())
    for drawn in draws_of_each():
        sha.update(drawn.tobytes())
    for one in found.selection_.candidates:
        sha.update(f"{one.label} {one.note}".encode() + one.scores.tobytes())
    for name in ("a", "b"):
        sha.update(np.asarray(idata["posterior"][name]).tobytes())
    return sha.hexdigest()


def digest_under_load():
    """The digest while another process is in the way, on one core and so of no other test."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    # It inherits the core, and takes a quarter of it.
    busy = subprocess.Popen([sys.executable, "-c", "import os; os.nice(5)\nwhile True: pass"])
    try:
        found = digest()
        assert busy.poll() is None
    finally:
        busy.kill()
        busy.wait()
    return found


def test_load_threads_and_cores_change_no_bit():
    """A fresh process under load, on one core and three threads, and this one, which has done more."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "3")
    code = "from tests.selection.test_reproducible import digest_under_load\nprint(digest_under_load())"
    there = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert there.stdout.split()[-1] == digest()


def test_a_clock_that_runs_wild_changes_nothing(monkeypatch):
    """Hours forwards and backwards between any two looks at it."""
    candidates = ["rejection", pk.Adjusted(pk.Rejection(200), "local_linear"), pk.Rejection(100)]

    def chosen():
        found = pk.select(table(), candidates=candidates, random_seed=2, progressbar=False)
        scores = [(one.label, one.note, one.scores.tobytes()) for one in found.selection_.candidates]
        return scores, found.condition([0.1, 0.2, 0.0]).draw(50, 1).tobytes()

    steady = chosen()
    jumps = itertools.cycle([0.0, 1e6, -1e6, 3e5])
    for name in ("perf_counter", "monotonic", "time", "process_time"):
        monkeypatch.setattr(time, name, lambda: next(jumps))
    assert chosen() == steady
