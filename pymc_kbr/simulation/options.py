"""The arguments of `simulate` but the model, as one value that is checked at the door."""

from __future__ import annotations

import signal
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import check_seed, flag, one_of, path_of, shown, whole
from pymc_kbr.simulation.prior.proposal import Proposal
from pymc_kbr.simulation.prior.truncated import Within
from pymc_kbr.simulation.workers.executors import check_executor
from pymc_kbr.tables.failures import ON_FAILURE


@dataclass(frozen=True)
class SimulationOptions:
    """The parameters of these names of `simulate`, which says what they mean.

    Parameters
    ----------
    draws, random_seed, within, cores, executor, store, on_failure, batched, timeout, progressbar
        As in `simulate`.
    to_be_extended : bool
        Whether a longer table of the seed begins with this one: its last batch is then drawn as a whole, also
        where the table ends within it. Otherwise no batch has more rows than the table.
    proposal : Proposal, optional
        What parameters are drawn from instead of the prior; there are no bounds (`within`) then.
    failures_told : bool
        Whether there is a warning where many simulations fail. Rounds count those of all their tables.

    Raises
    ------
    TypeError, ValueError
        If one is of the wrong type or out of range.
    """

    draws: int
    random_seed: int | np.random.Generator | None = None
    within: Within | None = None
    cores: int = 1
    executor: Executor | Any | None = None
    store: str | Path | None = None
    on_failure: str = "raise"
    batched: bool | None = None
    timeout: float | None = None
    progressbar: bool = True
    to_be_extended: bool = True
    proposal: Proposal | None = None
    failures_told: bool = True

    def __post_init__(self) -> None:
        whole("draws", self.draws)
        whole("cores", self.cores)
        check_seed(self.random_seed)
        if self.store is not None:
            path_of("store", self.store)
        one_of("on_failure", self.on_failure, ON_FAILURE)
        flag("progressbar", self.progressbar)
        if self.batched is not None:
            flag("batched", self.batched)
        if self.timeout is not None:
            self._check_timeout(self.timeout)
        if self.executor is not None:
            check_executor(self.executor, self.timeout)

    def _check_timeout(self, timeout: float) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number):
            raise TypeError(f"timeout is {shown(timeout)}; it must be a number of seconds, or None")
        if not 0 < timeout <= TIMEOUT_MAX:
            raise ValueError(f"timeout is {shown(timeout)}; it must be a number of seconds above zero")
        if self.batched:
            raise ValueError("batched=True, and timeout is that of one simulation; leave one of them out")
        if not hasattr(signal, "setitimer"):
            raise ValueError(
                f"timeout is {timeout}, and this system has no alarms that could end a simulation; leave it "
                "out, or end the simulation inside the simulator"
            )

    @property
    def isolates_first_rows(self) -> bool:
        """Whether the first rows are tried in a process of their own: they may hang, or end it."""
        return self.executor is None and (
            self.timeout is not None or (self.cores > 1 and self.batched is False)
        )
