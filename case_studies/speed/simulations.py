"""Simulation against PyMC's own, and two cores against one."""

from __future__ import annotations

import time
import tracemalloc
from functools import partial

import numpy as np
import pymc as pm

from case_studies.speed.measure import Row, seconds
from pymc_kbr.simulation import simulate
from pymc_kbr.simulation.workers.fork_server import end_fork_server


def normal_sample(rng: np.random.Generator, mean: np.ndarray, scale: np.ndarray, size: object) -> np.ndarray:
    """100 normal data, for one parameter or a batch of them."""
    return mean + scale * rng.standard_normal(size)  # type: ignore[call-overload]


def normal_model(sum_stat: str) -> pm.Model:
    """Two parameters and 100 data."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        data = np.random.default_rng(0).normal(1, 2, 100)
        pm.Simulator("y", normal_sample, mean, scale, sum_stat=sum_stat, observed=data)
    return model


def batched_simulation(rows: int, prior_predictive_rows: int) -> list[Row]:
    """`simulate` against `pm.sample_prior_predictive`, a draw; and its memory against the table's."""
    model = normal_model("mean")
    simulate(1000, model=model, random_seed=0, progressbar=False)
    pm.sample_prior_predictive(10, model=model, random_seed=0)
    theirs = seconds(lambda: pm.sample_prior_predictive(prior_predictive_rows, model=model, random_seed=0))
    other = 1e6 * theirs / prior_predictive_rows
    rng = np.random.default_rng(0)
    mean, scale = rng.normal(size=(1024, 1)), rng.exponential(size=(1024, 1))
    bare = 1e6 / 1024 * seconds(lambda: normal_sample(rng, mean, scale, (1024, 100)), 50)
    table = []
    for cores in (1, 2):
        taken = seconds(
            partial(simulate, rows, model=model, random_seed=0, cores=cores, progressbar=False), 3
        )
        ours = 1e6 * taken / rows
        table.append(
            Row(
                f"simulate, {rows:,} draws, {cores} core(s) / pm.sample_prior_predictive",
                f"{ours:.2f} us a draw ({bare:.2f} us of it the simulator itself)",
                f"{other:.0f} us a draw",
                other / ours,
                "at least 100",
            )
        )
    rows = min(rows, 200_000)
    model = normal_model("identity")
    tracemalloc.start()
    made = simulate(rows, model=model, random_seed=0, progressbar=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = made.parameters.nbytes + made.statistics.nbytes
    table.append(
        Row(
            f"peak memory of simulate, {rows:,} rows of 102 columns / the table",
            f"{peak / 1e6:.0f} MB",
            f"{size / 1e6:.0f} MB",
            peak / size,
            "below 2",
        )
    )
    return table


def five_milliseconds(rng: np.random.Generator, mean: np.ndarray, size: object) -> np.ndarray:
    """Keeps a processor busy for 5 ms, for one parameter at a time."""
    until = time.perf_counter() + 5e-3
    drawn = np.atleast_1d(rng.normal(float(np.asarray(mean).item()), 1.0))
    while time.perf_counter() < until:
        pass
    return drawn


def two_cores(rows: int) -> Row:
    """One core's seconds over those of two, the start of the workers included."""
    with pm.Model() as model:
        mean = pm.Normal("mean", 0, 1)
        pm.Simulator("y", five_milliseconds, mean, observed=[0.0])
    run = partial(simulate, rows, model=model, random_seed=0, batched=False, progressbar=False)
    one = seconds(partial(run, cores=1))
    end_fork_server()  # what imports for the workers begins anew, as in a new session
    two = seconds(partial(run, cores=2))
    return Row(
        f"simulate, {rows:,} draws of 5 ms, one core / two, with the start of the workers",
        f"{two:.1f} s",
        f"{one:.1f} s",
        one / two,
        "at least 1.8" if rows >= 40_000 else "no limit",
    )
