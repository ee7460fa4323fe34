"""`simulate`: a PyMC model becomes a reference table."""

from __future__ import annotations

import itertools
import platform
import time
import warnings
from concurrent.futures import BrokenExecutor, Executor
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from threadpoolctl import threadpool_limits

from pymc_kbr.reference_table import Failures, ReferenceTable
from pymc_kbr.simulation.checks import TRIED_ROWS, check_signatures, decide_batches, trial_run
from pymc_kbr.simulation.job import Chunk, Job
from pymc_kbr.simulation.model import ModelGraph, read_model
from pymc_kbr.simulation.prior import PriorRows, PriorSampler, prior_support
from pymc_kbr.simulation.run import check_picklable, progress_bar, run_chunks
from pymc_kbr.simulation.streams import BLOCK_ROWS, entropy_of

if TYPE_CHECKING:
    import pymc as pm


class SimulationError(RuntimeError):
    """A simulation failed.

    Parameters
    ----------
    message : str
    row : int
        The draw that failed.
    parameters : dict of str to float
        Its parameters, by column name.
    """

    def __init__(self, message: str, row: int, parameters: dict[str, float]) -> None:
        super().__init__(message)
        self.row = row
        self.parameters = parameters


def simulate(
    draws: int,
    *,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    cores: int = 1,
    executor: Executor | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Simulate a reference table from a PyMC model.

    Parameters
    ----------
    draws : int
        Number n of draws from the prior, each simulated once.
    model : pymc.Model, optional
        The model; that of the surrounding ``with`` block where left out. Its observed variables may
        be `pm.Simulator`s, one or several, and ordinary distributions.
    random_seed : int or numpy.random.Generator, optional
        The same seed gives the same table, bit for bit, with any number of cores. A longer table of
        the same seed begins with the shorter one.
    cores : int
        Workers: processes where simulations run row by row, threads where they run in batches.
    executor : concurrent.futures.Executor, optional
        Where to run instead.
    on_failure : {"raise", "drop"}
        What to do about a simulation that raises or returns NaN or infinity: stop, or leave the row
        out and keep its parameters in `ReferenceTable.failures`.
    batched : bool, optional
        Whether simulators are called for about a thousand rows at once. Found out where left out:
        by calling each once on a small batch, whose result must be that of its rows alone.
        ``False`` calls them row by row; ``True`` insists on batches and says why where there are none.
    progressbar : bool
        Whether to show a progress bar.

    Returns
    -------
    ReferenceTable
        With the rows that did not fail, in the order of the draws.

    Raises
    ------
    TypeError
        If no model is found, an argument is of the wrong type, a simulator has the wrong signature,
        or cannot be sent to worker processes.
    ValueError
        If an argument is out of range, or the model cannot be simulated forward (see the message).
    SimulationError
        If a simulation fails and `on_failure` is "raise", or if all of them fail.

    Notes
    -----
    Everything is checked on three trial rows before the work begins. Each row has a random stream of
    its own, made from the seed and the row's number; batches have one for each 1024 rows.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     table = simulate(1000, random_seed=1, progressbar=False)
    >>> table
    ReferenceTable(1000 rows; parameters ['mean']; statistics ['y']; observed)
    """
    draws, cores = _whole("draws", draws), _whole("cores", cores)
    if on_failure not in ("raise", "drop"):
        raise ValueError(f"on_failure is {on_failure!r}; it may be 'raise' or 'drop'")
    entropy = entropy_of(random_seed)

    # BLAS sums in another order with more threads: one thread everywhere keeps the bits the same.
    with threadpool_limits(1, user_api="blas"):
        return _simulate(draws, model, entropy, cores, executor, on_failure, batched, progressbar)


def _simulate(
    draws: int,
    model: pm.Model | None,
    entropy: int,
    cores: int,
    executor: Executor | None,
    on_failure: str,
    batched: bool | None,
    progressbar: bool,
) -> ReferenceTable:
    clock = Clock()
    graph = read_model(model)
    check_signatures(graph)
    sampler = PriorSampler(graph, entropy)
    support = prior_support(graph, sampler.block(0)[:256])
    clock.lap("compile")
    # Whole blocks, so that a longer table of the same seed begins with this one.
    prior = PriorRows(sampler, support, -(-draws // BLOCK_ROWS) * BLOCK_ROWS)
    job = Job.of(graph, entropy)
    trial = trial_run(job, prior[:TRIED_ROWS])
    job, reason = decide_batches(graph, job, prior[:TRIED_ROWS], trial, batched)
    if executor is not None or (job.batch is None and cores > 1):
        check_picklable(graph)
    clock.lap("check")

    rows = len(prior.parameters) if job.batch else draws
    statistics = np.empty((rows, graph.statistics.size))
    failures = []
    first = Chunk.none(graph.statistics.size) if job.batch else trial.chunk.head(draws)
    how = "in batches" if job.batch else "row by row"
    with progress_bar(progressbar) as bar:
        task = bar.add_task(f"Simulating {how}", total=draws)
        rest = run_chunks(
            job, prior, range(len(first.statistics), rows), trial.seconds, cores=cores, executor=executor
        )
        try:
            for chunk in itertools.chain([first], rest):
                failures += _record(chunk, statistics, prior.parameters, graph, draws, on_failure)
                bar.advance(task, min(len(chunk.statistics), max(0, draws - chunk.start)))
        except BrokenExecutor as error:
            raise RuntimeError(
                "a worker process died: the simulator crashed it, or memory ran out; run a few "
                f"draws with cores=1 to see which ({error})"
            ) from error
    clock.lap("simulate")
    kept, failed = _split_failures(draws, sorted(failures), prior.parameters)
    return ReferenceTable(
        parameters=prior.parameters[kept],
        statistics=statistics[kept],
        observed=graph.observed,
        parameter_columns=graph.parameters,
        statistic_columns=graph.statistics,
        support=support,
        failures=failed,
        seed=entropy,
        observed_data=graph.observed_data,
        provenance={
            "simulated_by": "a PyMC model",
            "simulated": how,
            "why": reason,
            "prior_drawn": "in batches" if sampler.batched else "row by row",
            "prior_rejected": f"{prior.rejected_share:.4g}",
            "cores": str(cores) if executor is None else type(executor).__name__,
            **_versions(),
        },
        timings=clock.laps,
    )


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("pymc_kbr", "pymc", "pytensor", "numpy")},
    }


class Clock:
    """Seconds of each stage, one after the other."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Note the seconds since the last lap as those of a stage."""
        now = time.perf_counter()
        self.laps[stage] = now - self._last
        self._last = now


def _whole(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    if value < 1:
        raise ValueError(f"{name} is {value}; it must be at least 1")
    return int(value)


def _record(
    chunk: Chunk,
    statistics: np.ndarray,
    parameters: np.ndarray,
    graph: ModelGraph,
    draws: int,
    on_failure: str,
) -> list[tuple[int, str]]:
    """Write a chunk into the table; its failures, or an error that names the first of them."""
    statistics[chunk.start : chunk.start + len(chunk.statistics)] = chunk.statistics
    failures = [(row, message) for row, message in chunk.failures if row < draws]
    if failures and on_failure == "raise":
        row, message = failures[0]
        named = dict(zip(graph.parameters.names, parameters[row].tolist(), strict=True))
        shown = ", ".join(f"{name} = {value:.6g}" for name, value in named.items())
        raise SimulationError(
            f"simulation {row} of {draws} failed at {shown}: {message}. Mend the simulator there, or "
            "pass on_failure='drop' to leave such rows out and keep their parameters",
            row,
            named,
        )
    return failures


def _split_failures(
    draws: int, failures: list[tuple[int, str]], parameters: np.ndarray
) -> tuple[slice | np.ndarray, Failures]:
    """The rows of the table, and the failed ones with their parameters."""
    if not failures:
        return slice(draws), Failures.none(parameters.shape[1])
    rows = np.array([row for row, _ in failures])
    if draws - len(rows) < 2:
        raise SimulationError(
            f"{len(rows)} of {draws} simulations failed, the first with {failures[0][1]}; "
            "a table needs two that succeed",
            int(rows[0]),
            {},
        )
    share = len(rows) / draws
    if share > 0.01:
        warnings.warn(
            f"{len(rows)} of {draws} simulations ({share:.1%}) failed and were dropped: the posterior "
            "is that of the prior given that the simulator succeeds; their parameters are in "
            "`table.failures`",
            UserWarning,
            stacklevel=4,
        )
    kept = np.ones(draws, dtype=bool)
    kept[rows] = False
    return np.flatnonzero(kept), Failures(rows, parameters[rows], tuple(m for _, m in failures))
