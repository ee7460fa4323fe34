"""Simulations that failed: an error, or rows that are left out and counted."""

from __future__ import annotations

import warnings

import numpy as np

from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.tables.origin import Failures


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


def raise_failure(
    row: int, failures: dict[int, str], draws: int, parameters: np.ndarray, start: int, graph: ModelGraph
) -> None:
    """Stop at a failed row of a chunk that begins with row `start`, and name its parameters."""
    named = dict(zip(graph.parameters.names, parameters[row - start].tolist(), strict=True))
    shown = ", ".join(f"{name} = {value:.6g}" for name, value in named.items())
    raise SimulationError(
        f"simulation {row} of {draws} failed at {shown}: {failures[row]}. Correct the simulator there, or "
        "pass on_failure='drop' to leave such rows out and keep their parameters (or 'condition', where a "
        "failure is not informative about the parameters)",
        row,
        named,
    )


def split_failures(
    draws: int, failures: dict[int, str], parameters: np.ndarray, ratio: np.ndarray | None
) -> tuple[slice | np.ndarray, Failures]:
    """The rows of the table, and the failed ones with their parameters and density ratio."""
    if not failures:
        return slice(draws), Failures.none(parameters.shape[1])
    rows = np.array(sorted(failures))
    kept = np.ones(draws, dtype=bool)
    kept[rows] = False
    messages = tuple(failures[r] for r in rows.tolist())
    of_failed = None if ratio is None else ratio[rows]
    return np.flatnonzero(kept), Failures(rows, parameters[rows], messages, of_failed)


def check_failures(draws: int, failures: dict[int, str], on_failure: str, *, told: bool) -> None:
    """Refuse a table of failures; warn where they are many, and are to be told of."""
    if failures and draws - len(failures) < 2:
        first = min(failures)
        raise SimulationError(
            f"{len(failures)} of {draws} simulations failed, the first with {failures[first]}; "
            "a table needs two that succeed",
            first,
            {},
        )
    if told:
        warn_of_failures(len(failures), draws, on_failure)


def warn_of_failures(
    failed: int,
    draws: int,
    on_failure: str,
    *,
    # Share of failed simulations above which there is a warning.
    many_failures: float = 0.01,
) -> None:
    """Warn where more than `MANY_FAILURES` of the simulations failed, and say what that means."""
    if failed > many_failures * draws:
        meaning = (
            "failures say nothing about the parameters (on_failure='condition'): the likelihood is that of "
            "the data given success, and the prior stays as it is"
            if on_failure == "condition"
            else "the data were observed, so parameters at which simulations fail more often become less "
            "probable (on_failure='drop'); if a failure says nothing about the parameters, pass "
            "on_failure='condition', or take `table.with_on_failure('condition')`"
        )
        warnings.warn(
            f"{failed} of {draws} simulations ({failed / draws:.1%}) failed and were dropped, and their "
            f"parameters are in `table.failures`: {meaning}",
            UserWarning,
            stacklevel=users_line(),
        )
