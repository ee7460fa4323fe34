"""Rounds of simulations that close in on an observation."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_kbr.bounds import closed_in, likely_bounds
from pymc_kbr.emulator import ROUGHLY, Emulator, noise_of, noted
from pymc_kbr.estimators import Rejection
from pymc_kbr.neighbours import neighbours_of
from pymc_kbr.reference_table import Failures, ReferenceTable
from pymc_kbr.simulation import Forward, Plan, Within, entropy_of, make_table
from pymc_kbr.stored_table import StoredTable
from pymc_kbr.summaries import check_scale

if TYPE_CHECKING:
    import pymc as pm

NEAREST = 10
"""Rows, and twice as many a parameter, whose range is kept."""

ROWS = 10
"""Times as many are simulated in a round at least.

On the Lotka-Volterra model of `case_studies.simulators` bounds from 100 rows, seven times as many, have cut
the posterior off once in 16 runs, those of 200 rows never in 12.
"""

MARGIN, MOVED_MARGIN = 0.75, 0.4
"""What is added to that range on each side, as a share of it: of the rows as they are, and moved."""

IDLE = 2
"""Rounds one after the other that narrow nothing, after which there is no further one."""

METRICS = (False, True, "linear_posterior_mean")
"""In which rows may be near: the statistics' own units, standard deviations, linear estimates."""

FITTED = 5
"""Times as many rows, which are also moved by the slopes of a local regression on them."""

GOOD, BEST = 20.0, 1.0
"""Deviations of all noise together by which predicted statistics may be wrong to be gone by, and alone."""

CHECKED, COVERED = 100, 0.95
"""Rows near the observation at which a metric is tried, and the share whose own parameters it must keep."""


def zoom(
    draws: int,
    *,
    model: pm.Model | None = None,
    rounds: int = 5,
    scale: bool | str | None = None,
    noise: Any = None,
    random_seed: int | np.random.Generator | None = None,
    cores: int = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Simulate a reference table near the observation, for posteriors much narrower than the prior.

    Small tables close in on the observation: each is drawn from the prior between bounds, which are the range
    of the rows that were nearest in the one before, as they are or moved to the observation by a local
    regression, made wider on both sides. The last one takes half of the simulations; with `noise`, where rows
    serve to predict others and near ones are seldom scarce, as many as each of the others, or what these
    have left. All rows between the last bounds are returned, and are draws of the prior between them, so that
    any estimator may be put on them.

    Parameters
    ----------
    draws : int
        Number of simulations, over all rounds.
    model : pymc.Model, optional
        As in `simulate`. Each free variable must be free between constant bounds, or unbounded.
    rounds : int
        Of narrowing, at most: they end when two in a row narrow no parameter, with `noise` when the first
        one does that goes by predictions whose errors are within the noise.
    scale : bool or str, optional
        In which metric rows are near, as the `scale` of estimators. Where left out, each round tries the
        statistics' own units, standard deviations and linear estimates of the parameters on simulated rows
        near the observation, with and without regression, and takes that of the narrowest bounds among those
        whose bounds hold for 95% of these rows.
    noise : float or array_like of shape (d,), optional
        Standard deviations of normal noise on the observation that the simulator leaves out, which
        solves equations for instance: what `epsilon` is to `pm.Simulator` with its Gaussian distance. Bounds
        then are those of a simulator with this noise; the table is without it, see `emulate`.
    random_seed : int or numpy.random.Generator, optional
    cores, executor, on_failure, batched, timeout, progressbar
        As in `simulate`.
    store : str or Path, optional
        A folder for one store a round, made if it is missing. The same call goes on after a crash.

    Returns
    -------
    ReferenceTable
        Fewer rows than `draws`; ``provenance["zoomed"]`` says how many come from each round.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`; and if a round has too few rows, or there is no seed for a store.

    Notes
    -----
    A table like this serves the one observation. What lies outside of its bounds is lost: where draws reach
    them, `sample_abc` warns (`edge`). The rounds are those of truncated proposals, with a box for the
    support of the posterior. With `noise` rounds go by statistics that `emulate` predicts as soon as
    these are good, and before that by simulated ones with noise added.

    References
    ----------
    .. [1] B. K. Miller, A. Cole, P. Forre, G. Louppe, C. Weniger, Truncated marginal neural ratio
       estimation, NeurIPS 34 (2021).

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, size):
    ...     return rng.normal(mean, 0.001, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, sum_stat="mean", observed=[0.3001, 0.3002])
    ...     table = zoom(2000, random_seed=1, progressbar=False)
    >>> low, high = table.parameters.min(), table.parameters.max()
    >>> bool(0.25 < low < 0.3001 < high < 0.35)
    True
    """
    for name, value in {"draws": draws, "rounds": rounds}.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} is {value!r}; it must be a whole number")
        if value < 1:
            raise ValueError(f"{name} is {value}; it must be at least 1")
    if scale is not None:
        check_scale(scale)
    if store is not None and not isinstance(random_seed, int | np.integer):
        raise ValueError(
            f"random_seed is {random_seed!r}; with a store it must be a whole number, so that the same call "
            "goes on"
        )
    seeds = np.random.default_rng(entropy_of(random_seed)).integers(2**63, size=2 * rounds + 1)
    forward = Forward.read(model)
    deviations = None if noise is None else noise_of(noise, forward.graph.statistics.size)
    forward.check_can_be_truncated()
    size = draws // (2 * rounds if noise is None else rounds + 1)
    least = ROWS * (NEAREST + 2 * forward.graph.parameters.size)
    if size < least:
        raise ValueError(
            f"draws is {draws}, of which each of {rounds} rounds simulates {size}; give each at least "
            f"{least}, to have near rows to go by: more draws, or fewer rounds"
        )
    plan = Plan(size, cores, executor, on_failure, batched, timeout, progressbar)
    if store is not None:
        Path(store).mkdir(exist_ok=True)
    tables: list[ReferenceTable] = []

    def add(size: int, bounds: Within | None) -> ReferenceTable:
        number = len(tables)
        path = None if store is None else Path(store) / f"round_{number}.zarr"
        of_round = dataclasses.replace(plan, draws=size)
        made = make_table(of_round, forward, int(seeds[number]), bounds, path, to_be_extended=False)
        tables.append(made.load() if isinstance(made, StoredTable) else made)
        return joined(tables)

    spent, idle = 0, 0
    bounds: Within | None = None
    while len(tables) < rounds and idle < IDLE:
        table = add(size, bounds)
        spent += size
        seed = int(seeds[rounds + len(tables)])
        narrowed, bounds, last = (
            (*narrower(table, bounds, scale), False)
            if deviations is None
            else narrower_with_noise(table, bounds, scale, forward, deviations, seed)
        )
        idle = 0 if narrowed else IDLE if last else idle + 1
    table = add(draws - spent, bounds)
    return dataclasses.replace(table, provenance={**table.provenance, **noted(deviations)})


def narrower(table: ReferenceTable, bounds: Within | None, scale: bool | str | None) -> tuple[bool, Within]:
    """Bounds around the rows nearest to the observation, and whether some are much narrower than before.

    Parameters
    ----------
    table : ReferenceTable
        All rows between the bounds so far.
    bounds : dict of str to pair of ndarray, optional
        Those of the table; None for the whole prior.
    scale : bool or str, optional
        As in `zoom`.

    Raises
    ------
    ValueError
        If the table has hardly more rows than are kept.
    """
    kept = NEAREST + 2 * table.parameters.shape[1]
    if len(table) < 2 * kept:
        raise ValueError(
            f"a round has {len(table)} rows without failures, and {2 * kept} are needed to have near rows to "
            "go by; give more draws, or fewer rounds"
        )
    metrics = METRICS if scale is None else (scale,)
    ranges = [found for metric in metrics for found in _ranges(table, kept, metric)]
    # Rows can be moved out of the bounds that they lie in. Those of rows as they are never lie beyond.
    least, most = table.parameters.min(axis=0), table.parameters.max(axis=0)
    ranges = [r for r in ranges if np.all((r.lower < most) & (r.upper > least))]
    sound = [r for r in ranges if r.covered >= COVERED] or [max(ranges, key=lambda r: r.covered)]
    lower, upper = min(sound, key=lambda r: r.size)[:2]
    return closed_in(lower, upper, table.parameters, bounds, table)


def narrower_with_noise(
    table: ReferenceTable,
    bounds: Within | None,
    scale: bool | str | None,
    forward: Forward,
    noise: np.ndarray,
    seed: int,
) -> tuple[bool, Within, bool]:
    """The same for a simulator without noise: by predicted statistics where they are good, or with noise.

    Third comes whether another look at as many rows would show the same, for predictions within the noise.

    Parameters
    ----------
    table, bounds, scale
        As for `narrower`.
    forward : Forward
        Of the table's model.
    noise : ndarray of shape (d,)
    seed : int
    """
    rng = np.random.default_rng(seed)
    emulator = Emulator.fit(table, noise, rng, most=ROUGHLY)
    error = emulator.error * np.sqrt(len(noise))
    if error < GOOD:
        narrowed, closer = likely_bounds(emulator, table, forward, seed, bounds, noise)
        if narrowed or error < BEST:
            return narrowed, closer, error < BEST
    noisy = table.statistics + noise * rng.normal(size=table.statistics.shape)
    return *narrower(dataclasses.replace(table, statistics=noisy), bounds, scale), False


class _Range(NamedTuple):
    """Bounds around the nearest rows; and how often, and how wide, those of simulated rows hold."""

    lower: np.ndarray
    upper: np.ndarray
    covered: float
    size: float


def _ranges(table: ReferenceTable, kept: int, metric: bool | str) -> list[_Range]:
    """Bounds from the rows that are nearest in a metric, as they are and moved by a local regression."""
    fitted = Rejection(kept, scale=metric).fit(table.parameters, table.statistics)
    near = neighbours_of(fitted.statistics_)
    observed = fitted.scaler_.transform(table.observed[None])  # type: ignore[index]
    most = min(FITTED * kept, len(table) - 1)
    rows = near.query(observed, min(max(CHECKED, most), len(table)))[1][0]
    checked = rows[:CHECKED]
    others = near.query(fitted.statistics_[checked], most + 1)[1][:, 1:]  # without the row itself
    groups = np.vstack([rows[:most][None], others])
    at = np.vstack([observed, fitted.statistics_[checked]])
    sides = [_wider(table.parameters[groups[:, :kept]], MARGIN)]
    if fitted.statistics_.shape[1] < kept:
        moved = _moved(table.parameters[groups], fitted.statistics_[groups] - at[:, None])
        sides.append(_wider(moved, MOVED_MARGIN))
    ranges = []
    for lower, upper in sides:
        truth = table.parameters[checked]
        inside = np.all((truth >= lower[1:]) & (truth <= upper[1:]), axis=1)
        size = float(np.mean(np.sum(np.log(upper[1:] - lower[1:]), axis=1)))
        ranges.append(_Range(lower[0], upper[0], float(inside.mean()), size))
    return ranges


def _moved(parameters: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Parameters (g, k, p) of groups, each group moved by its regression on statistics (g, k, d)."""
    design = np.concatenate([np.ones((*away.shape[:2], 1)), away], axis=2)
    slopes = (np.linalg.pinv(design) @ parameters)[:, 1:]
    return parameters - away @ slopes


def _wider(parameters: np.ndarray, margin: float) -> tuple[np.ndarray, np.ndarray]:
    """The range of rows (..., k, p) with a margin on both sides."""
    lower, upper = parameters.min(axis=-2), parameters.max(axis=-2)
    added = margin * (upper - lower)
    return lower - added, upper + added


def joined(tables: list[ReferenceTable]) -> ReferenceTable:
    """All rows of some tables that lie in the support of the last one."""
    last = tables[-1]
    inside = [last.support.contains(table.parameters) for table in tables]
    drawn = [len(table) + len(table.failures) for table in tables]
    before = np.cumsum([0, *drawn[:-1]])
    return dataclasses.replace(
        last,
        parameters=np.vstack([t.parameters[rows] for t, rows in zip(tables, inside, strict=True)]),
        statistics=np.vstack([t.statistics[rows] for t, rows in zip(tables, inside, strict=True)]),
        failures=Failures(
            np.concatenate([start + t.failures.rows for start, t in zip(before, tables, strict=True)]),
            np.vstack([t.failures.parameters for t in tables]),
            tuple(message for t in tables for message in t.failures.messages),
        ),
        seed=None,
        provenance={
            **last.provenance,
            "simulations": str(sum(drawn)),
            "zoomed": "; ".join(f"{rows.sum()} rows of {n}" for rows, n in zip(inside, drawn, strict=True)),
        },
        timings={name: sum(t.timings.get(name, 0.0) for t in tables) for name in last.timings},
    )
