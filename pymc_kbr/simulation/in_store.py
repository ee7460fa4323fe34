"""A table's rows as they go to a store, and whether a simulation may go on in one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.destination import pieces_of
from pymc_kbr.simulation.first_rows import Trial
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.provenance import versions
from pymc_kbr.tables.errors import shortened
from pymc_kbr.tables.store import TableStore

ROW_BY_ROW, IN_BATCHES = "row by row", "in batches"
"""The ways to simulate: they have different random streams."""


class Stored:
    """A store, of which finished chunks are kept.

    Parameters
    ----------
    store : TableStore
    draws : int
    again : bool
        Whether rows that failed before are simulated again.
    """

    def __init__(self, store: TableStore, draws: int, again: bool) -> None:
        self._store, self._draws, self._again = store, draws, again

    def pieces(self) -> list[range]:
        """The chunks that are not finished.

        Warns
        -----
        UserWarning
            If some were finished once and are damaged.
        """
        wanted = {"unfinished", "damaged", *(("failed",) if self._again else ())}
        pieces = pieces_of(self._draws, self._store.chunk_rows)
        states = [self._store.state(piece.start, piece.stop) for piece in pieces]
        damaged = states.count("damaged")
        if damaged:
            warnings.warn(
                f"{damaged} of {len(pieces)} chunks of the store {self._store.path} are damaged, as a power "
                "cut can leave them; they are simulated again",
                UserWarning,
                stacklevel=6,
            )
        return [piece for piece, state in zip(pieces, states, strict=True) if state in wanted]

    def write(
        self, start: int, parameters: np.ndarray, statistics: np.ndarray, failures: dict[int, str]
    ) -> None:
        """Write a chunk."""
        self._store.write(start, parameters, statistics, failures)


def new_store(
    path: Path,
    draws: int,
    chunk_rows: int,
    graph: ModelGraph,
    support: Support,
    same: dict[str, Any],
    provenance: dict[str, str],
    first_rows: np.ndarray,
    trial: Trial,
) -> TableStore:
    """A store without rows, with all by which a later call is recognised as the same."""
    arrays: dict[str, tuple[tuple[str, ...], np.ndarray]] = {
        "observed": (("statistic",), graph.observed),
        "first_parameters": (("first", "parameter"), first_rows),
        "first_statistics": (("tried", "statistic"), trial.chunk.statistics),
    }
    for name, values in graph.observed_data.items():
        arrays[f"observed_data_{name}"] = (
            tuple(f"observed_data_{name}_{i}" for i in range(values.ndim)),
            values,
        )
    return TableStore.create(
        path,
        rows=draws,
        chunk_rows=chunk_rows,
        parameters=graph.parameters.names,
        statistics=graph.statistics.names,
        arrays=arrays,
        documents={
            "identity": same,
            "parameter_columns": graph.parameters.to_json(),
            "statistic_columns": graph.statistics.to_json(),
            "support": support.to_json(),
            "seed": same["random_seed"],
            "repeatable": trial.repeatable,
            "provenance": provenance,
            "timings": {},
        },
    )


def check_goes_on(
    opened: TableStore,
    how: str | None,
    batched: bool | None,
    timeout: float | None,
    first_rows: np.ndarray,
    trial: Trial,
) -> None:
    """Refuse to go on with the store of another prior or simulator, or in another way."""
    if batched is not None and batched != (how == IN_BATCHES):
        raise ValueError(
            f"the store {opened.path} was simulated {how}, and batched is {batched}; leave `batched` "
            "out, or choose another store"
        )
    if timeout is not None and how == IN_BATCHES:
        raise ValueError(
            f"the store {opened.path} was simulated in batches, and timeout is that of one simulation; leave "
            "`timeout` out, or choose another store"
        )
    software = opened.documents["provenance"], versions()
    held = opened.array("first_parameters"), opened.array("first_statistics")
    assert held[0] is not None
    assert held[1] is not None
    check_first_rows(opened.path, "prior", held[0], first_rows, software)
    if opened.documents["repeatable"]:
        check_first_rows(opened.path, "simulator", held[1], trial.chunk.statistics, software)


def identity(graph: ModelGraph, support: Any, entropy: int, fixed_rows: int | None) -> dict[str, Any]:
    """What two simulations have in common if one may go on where the other has ended.

    `fixed_rows` are those of a table that is not to be extended: its batches have streams of their own.
    """
    return {
        "parameters": graph.parameters.to_json(),
        "statistics": graph.statistics.to_json(),
        "shapes of the data": {name: list(data.shape) for name, data in graph.observed_data.items()},
        "support of the prior": support.to_json(),
        "random_seed": str(entropy),
        "fixed number of rows": fixed_rows,
    }


def check_identity(path: Path, held: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to go on with the store of another simulation.

    Raises
    ------
    ValueError
        That names the first difference.
    """
    for what, value in now.items():
        if held.get(what) != value:
            raise ValueError(
                f"the store {path} was made with other {what}: {_shown(held.get(what))}, and now "
                f"{_shown(value)}; give what it was made with, or choose another store"
            )


def check_first_rows(
    path: Path,
    what: str,
    held: np.ndarray,
    now: np.ndarray,
    software: tuple[Mapping[str, str], Mapping[str, str]],
) -> None:
    """Refuse to go on with a store whose first rows came out otherwise.

    Parameters
    ----------
    path : Path
    what : str
        "prior" or "simulator".
    held, now : ndarray of shape (t, k)
        The first rows then, and now; rows that are NaN are not compared.
    software : pair of mappings
        Of the software, then and now.

    Raises
    ------
    ValueError
        That shows the first difference.
    """
    rows = min(len(held), len(now))
    both = np.isfinite(held[:rows]).all(axis=1) & np.isfinite(now[:rows]).all(axis=1)
    # Another processor may round the last digits otherwise.
    for row in np.flatnonzero(both):
        if not np.allclose(held[row], now[row], rtol=1e-9, atol=0):
            then, today = software
            changed = [
                f"{name} {then[name]} then and {today[name]} now"
                for name in today
                if then.get(name) != today[name]
            ]
            noted = f" ({', '.join(changed)})" if changed else ""
            raise ValueError(
                f"the store {path} was made with another {what}: row {row} was {_shown(held[row].tolist())} "
                f"and is now {_shown(now[row].tolist())}{noted}; give the model it was made with, or "
                "choose another store"
            )


def _shown(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], dict) and "name" in value[0]:
        value = {column["name"]: tuple(column["shape"]) for column in value}
    return shortened(str(value), 200)
