"""`simulate`, `simulate_models`: a PyMC model, or each of several, becomes a reference table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import check_seed, path_of, shown
from pymc_kbr.simulation.forward_model import ForwardModel
from pymc_kbr.simulation.model.read import read_model
from pymc_kbr.simulation.options import SimulationOptions
from pymc_kbr.simulation.prior.truncated import Within
from pymc_kbr.simulation.resume_store import refuse_a_part, simulate_until_interrupted
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.tables.layout import folder_of_stores
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

if TYPE_CHECKING:
    import pymc as pm


@default_arithmetic
def simulate(
    draws: int,
    *,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    within: Within | None = None,
    cores: int | None = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> ReferenceTable:
    """Simulate a reference table from a PyMC model.

    Parameters
    ----------
    draws : int
        Number n of draws from the prior, each simulated once.
    model : pymc.Model, optional
        The model; that of the surrounding ``with`` block where left out. Its observed variables may
        be `pm.Simulator`s, one or several, and ordinary distributions. Where there is a simulator, the
        density of those unconnected with it is not simulated and matched: it weights the
        rows, with the model's Potentials, as `prior_ratio`.
    random_seed : int or numpy.random.Generator, optional
        Or a list of whole numbers, as seeds of chains are given in PyMC: together they are one seed. The same
        seed gives the same table, bit for bit, with any number of cores. A longer table of
        the same seed begins with the shorter one.
    within : dict of str to pair of array_like, optional
        Lower and upper bound of every parameter: the prior is drawn between them, and the table's support
        ends there. Where posteriors are much narrower than the prior this spends simulations where they
        count: see `zoom`.
    cores : int or None
        Workers: processes where simulations run row by row, threads where they run in batches. None: as many
        as there are cores.
    executor : concurrent.futures.Executor or dask.distributed.Client, optional
        Where to run instead.
    store : str or Path, optional
        A folder, by custom ``*.zarr``, into which each finished chunk is written as it goes. After a crash, a
        kill or a power cut the same call keeps what is finished and simulates the rest; a call with
        more `draws` extends. The table is the same, bit for bit, as without interruptions. A path where
        something else lies is refused and left as it is; a finished store is only read. See
        `simulate_to_store` for tables that memory does not hold.
    on_failure : {"raise", "drop", "condition"}
        What to do about a simulation that raises, returns NaN, infinity, numbers beyond 1e300 or no numbers,
        exceeds `timeout` or ends its worker process: stop, or leave the row out and keep its parameters in
        `ReferenceTable.failures`.
        With "drop" a failure is an outcome that was not observed: the likelihood includes the probability of
        success, and parameters at which simulations fail more often become less probable. With "condition" a
        failure is an accident, uninformative about the parameters: the likelihood is that of the data
        given success, and the prior stays as it is. In both cases the probability of success given the
        parameters is learnt from the failures, and all estimators use it.
        `ReferenceTable.with_on_failure` changes the meaning afterwards. A store keeps failed rows; "raise"
        simulates them again, the others do not.
    batched : bool, optional
        Whether simulators are called for about a thousand rows at once. Found out where left out:
        by calling each once on a small batch, whose result must be that of its rows alone.
        ``False`` calls them row by row; ``True`` insists on batches and says why where there are none.
    timeout : float, optional
        Seconds that one simulation may take; one that takes longer has failed. Simulations then run row by
        row, in worker processes, which can be ended.
    progressbar : bool
        Whether to show a progress bar, and the reason where simulators cannot be called in batches.

    Returns
    -------
    ReferenceTable
        With the rows that did not fail, in the order of the draws. After Ctrl-C those before the first one
        that is missing, with a warning, and ``interrupted`` in the provenance.

    Raises
    ------
    TypeError
        If no model is found, an argument is of the wrong type, a simulator has the wrong signature,
        or cannot be sent to worker processes.
    ValueError
        If an argument is out of range, the model cannot be simulated forward, or the store was made by
        another model, statistics, seed or format (see the message).
    OSError
        If the store's folder is missing, may not be written, is written by another process, or is moved or
        loses files while it is written, or the disk is full; what was finished stays readable.
    SimulationError
        If a simulation fails and `on_failure` is "raise", or if all of them fail.
    RuntimeError
        If the executor cannot go on: its scheduler is lost, its client is closed, it was shut down, or a
        process of its pool died. The message says which; finished rows are in the store, where there is one.

    Notes
    -----
    Everything is checked on a few trial rows before the work begins. Each row has a random stream of
    its own, made from the seed and the row's number; batches have one for each 1024 rows.

    A simulation that ends its process, as a segmentation fault does, fails alone where rows run in
    worker processes (``cores=2`` or `timeout`); with ``batched=False`` the trial rows do so, too.

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
    options = SimulationOptions(
        draws=draws,
        random_seed=random_seed,
        within=within,
        cores=cores,
        executor=executor,
        store=store,
        on_failure=on_failure,
        batched=batched,
        timeout=timeout,
        progressbar=progressbar,
    )
    made = simulate_until_interrupted(options, ForwardModel.read(model))
    return made.load() if isinstance(made, StoredTable) else made


@default_arithmetic
def simulate_to_store(
    draws: int,
    store: str | Path,
    *,
    model: pm.Model | None = None,
    random_seed: int | np.random.Generator | None = None,
    within: Within | None = None,
    cores: int | None = 1,
    executor: Executor | Any | None = None,
    on_failure: str = "raise",
    batched: bool | None = None,
    timeout: float | None = None,
    progressbar: bool = True,
) -> StoredTable:
    """Simulate into a store and leave the table there: memory holds no more than the chunks under way.

    Parameters
    ----------
    draws : int
    store : str or Path
        The folder; here it has to be given.
    model, random_seed, within, cores, executor, on_failure, batched, timeout, progressbar
        As in `simulate`, as is `draws`.

    Returns
    -------
    StoredTable
        On which estimators fit a part at a time.

    Raises
    ------
    TypeError, ValueError, SimulationError, OSError
        As `simulate`.

    Examples
    --------
    >>> import pymc as pm, tempfile
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model() as model, tempfile.TemporaryDirectory() as folder:
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     simulate_to_store(1000, f"{folder}/table.zarr", random_seed=1, progressbar=False)
    StoredTable(1000 rows in table.zarr; parameters ['mean']; 1 statistics)
    """
    path_of("store", store)
    options = SimulationOptions(
        draws=draws,
        random_seed=random_seed,
        within=within,
        cores=cores,
        executor=executor,
        store=store,
        on_failure=on_failure,
        batched=batched,
        timeout=timeout,
        progressbar=progressbar,
    )
    made = simulate_until_interrupted(options, ForwardModel.read(model))
    assert isinstance(made, StoredTable)
    return made


# --- several models ---


@default_arithmetic
def simulate_models(
    models: Mapping[str, pm.Model],
    draws: int | Mapping[str, int],
    *,
    random_seed: int | Sequence[int] | None = None,
    store: str | Path | None = None,
    **how: Any,
) -> dict[str, ReferenceTable]:
    """Simulate a reference table from each of several models, for `pymc_kbr.compare_models`.

    Parameters
    ----------
    models : dict of str to pymc.Model
        With the same statistics; parameters may differ.
    draws : int or dict of str to int
        Simulations of each model.
    random_seed : int or list of int, optional
        Each model's own seed is made of this and its name: its table does not depend on the other models.
    store : str or Path, optional
        A folder, made where it is missing, with a store ``<name>.zarr`` for each model: see `simulate`.
    **how
        As of `simulate`: `cores`, `executor`, `on_failure`, `batched`, `timeout`, `progressbar`.

    Returns
    -------
    dict of str to ReferenceTable
        `failures` of each table are those of its model: with ``on_failure="drop"`` they are counted there.

    Raises
    ------
    TypeError, ValueError
        If there is no model, they have other statistics than each other, a name cannot be that of a store's
        folder, or as of `simulate`.
    SimulationError, OSError
        As of `simulate`; tables of models before that one are in their stores, where there are stores.

    Examples
    --------
    >>> import pymc as pm
    >>> def normal(rng, mean, size):
    ...     return rng.normal(mean, 1.0, size)
    >>> def laplace(rng, mean, size):
    ...     return rng.laplace(mean, 0.7, size)
    >>> def model(simulator):
    ...     with pm.Model() as made:
    ...         mean = pm.Normal("mean", 0, 1)
    ...         pm.Simulator("y", simulator, mean, sum_stat="sort", observed=[0.3, 1.2, 2.0])
    ...     return made
    >>> tables = simulate_models(
    ...     {"normal": model(normal), "Laplace": model(laplace)}, 200, random_seed=1, progressbar=False
    ... )
    >>> {name: len(table) for name, table in tables.items()}
    {'normal': 200, 'Laplace': 200}
    """
    check_seed(random_seed)
    if isinstance(random_seed, np.random.Generator):
        raise TypeError(
            "random_seed is a generator; give a whole number: each model's own seed is made of it and "
            "of the model's name"
        )
    if not isinstance(models, Mapping) or not models:
        raise TypeError(f"models is {shown(models)}; give a dict of names to PyMC models")
    if isinstance(draws, Mapping) and set(draws) != set(models):
        raise ValueError(f"draws are of {sorted(draws)}; give a number for each of {sorted(models)}, or one")
    if store is not None:
        store = path_of("store", store)
        unfit = [name for name in models if not re.fullmatch(r"[\w][\w .-]*", name)]
        if unfit:
            raise ValueError(
                f"the names {unfit} cannot be those of folders in {str(store)!r}; take letters, digits, dots "
                "and dashes"
            )
    seed = None if random_seed is None else entropy_of(random_seed)
    _check_statistics(models)
    if store is not None:
        folder_of_stores(Path(store), parents=True)
    made = {}
    for name, model in models.items():
        made[name] = simulate(
            draws[name] if isinstance(draws, Mapping) else draws,
            model=model,
            random_seed=_seed(seed, name),
            store=None if store is None else Path(store) / f"{name}.zarr",
            **how,
        )
        refuse_a_part(made[name], repr(name))
    return made


def _check_statistics(models: Mapping[str, pm.Model]) -> None:
    """Refuse models whose tables could not be compared, before one is simulated."""
    found = {name: _statistics(model) for name, model in models.items()}
    (first, expected), *others = found.items()
    for name, mine in others:
        if mine != expected:
            raise ValueError(
                f"the model {name!r} has the statistics {mine} and {first!r} {expected}; to be compared they "
                "must have the same, in the same order"
            )


def _statistics(model: pm.Model) -> dict[str, Any]:
    """The shape of each statistic, or how many columns its data sets have, of any number of rows."""
    return {
        one.name: f"data sets of {one.set_columns} column(s)" if one.set_columns else one.shape
        for one in read_model(model).statistics.variables
    }


def _seed(random_seed: int | None, name: str) -> int | None:
    """A seed of a model's own."""
    if random_seed is None:
        return None
    # By a checksum of the name, as Python's own hash of a text is another one in each process.
    words = np.random.SeedSequence([random_seed, crc32(name.encode())]).generate_state(1)
    return int(words[0])
