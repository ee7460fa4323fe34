"""`simulate_models`: a reference table for each of several PyMC models."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import check_seed, path_of, shown
from pymc_kbr.simulation.model.read import read_model
from pymc_kbr.simulation.resume_store import refuse_a_part
from pymc_kbr.simulation.simulate import simulate
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.tables.layout import folder_of_stores
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pymc as pm


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
