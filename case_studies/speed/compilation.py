"""Compiling the gradient of a learned likelihood, from empty caches of PyTensor and Numba.

Beside it the same density as expressions of PyTensor, whose operations have no gradients of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import pytensor
from pytensor import tensor as pt

import pymc_kbr as pk
from case_studies.sbi_benchmark.methods import simulated
from case_studies.sbi_benchmark.tasks import TASKS
from case_studies.speed.measure import Row, seconds
from pymc_kbr.simulation.model.differentiated import GraphFunctions

COMPILED = 10.0
"""Seconds that compilation may take on one core."""


def compilation() -> Iterator[Row]:
    """Of the autoregressive form of the eight statistics of SLCP."""
    with tempfile.TemporaryDirectory() as folder:
        ours, other = (_in_a_new_process(which, folder) for which in ("operations", "expressions"))
    what = "gradient of an autoregressive likelihood of 8 statistics"
    yield Row(
        f"{what}: seconds of compilation / {COMPILED:.0f} s",
        f"{ours['compiled']:.1f} s, as expressions {other['compiled']:.1f} s",
        f"{COMPILED:.0f} s",
        ours["compiled"] / COMPILED,
        "at most 1",
    )
    yield Row(
        f"{what} / the same as expressions",
        f"{1e3 * ours['gradient']:.2f} ms",
        f"{1e3 * other['gradient']:.2f} ms",
        ours["gradient"] / other["gradient"],
        "at most 1",
    )


def _in_a_new_process(which: str, folder: str) -> dict[str, float]:
    cache = os.path.join(folder, which)
    flags = {"PYTENSOR_FLAGS": f"base_compiledir={cache}", "NUMBA_CACHE_DIR": cache, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "case_studies.speed.compilation", which]
    done = subprocess.run(command, env=os.environ | flags, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def _measured(which: str) -> dict[str, float]:
    table = simulated(TASKS["slcp"], 2000).table
    learnt = pk.KernelLikelihood("autoregressive").fit(
        table.parameters, table.statistics, table.support, random_seed=1
    )
    xp = GraphFunctions() if which == "operations" else pt
    theta = pt.dmatrix("theta")
    density = learnt.log_density(learnt.describe(theta, xp), learnt.prepare(table.statistics[:1]), xp)
    started = time.perf_counter()
    compiled = pytensor.function([theta], [density, pytensor.grad(density.sum(), theta)])
    compiled(table.parameters[:1])
    first = time.perf_counter() - started

    def hundred() -> None:
        for _ in range(100):
            compiled(table.parameters[:1])

    return {"compiled": first, "gradient": seconds(hundred, 3) / 100}


if __name__ == "__main__":
    print(json.dumps(_measured(sys.argv[1])))
