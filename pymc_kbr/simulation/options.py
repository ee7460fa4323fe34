"""How to simulate: the arguments of `simulate` that do not change what comes out, checked at the door."""

from __future__ import annotations

import signal
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.simulation.workers.executors import check_executor


@dataclass(frozen=True)
class Plan:
    """The parameters of these names of `simulate`.

    Raises
    ------
    TypeError, ValueError
        If one is of the wrong type or out of range.
    """

    draws: int
    cores: int
    executor: Executor | Any | None
    on_failure: str
    batched: bool | None
    timeout: float | None
    progressbar: bool

    def __post_init__(self) -> None:
        _whole("draws", self.draws)
        _whole("cores", self.cores)
        if self.on_failure not in ("raise", "drop"):
            raise ValueError(f"on_failure is {self.on_failure!r}; it may be 'raise' or 'drop'")
        if self.timeout is not None:
            self._check_timeout(self.timeout)
        if self.executor is not None:
            check_executor(self.executor, self.timeout)

    def _check_timeout(self, timeout: float) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float | np.number):
            raise TypeError(f"timeout is {timeout!r}; it must be a number of seconds, or None")
        if not 0 < timeout < np.inf:
            raise ValueError(f"timeout is {timeout}; it must be a number of seconds above zero")
        if self.batched:
            raise ValueError("batched=True, and timeout is that of one simulation; leave one of them out")
        if not hasattr(signal, "setitimer"):
            raise ValueError(
                f"timeout is {timeout}, and this system has no alarms that could end a simulation; leave it "
                "out, or end the simulation inside the simulator"
            )

    @property
    def isolates_trial(self) -> bool:
        """Whether the first rows are tried in a process of their own: they may hang, or end it."""
        return self.executor is None and (
            self.timeout is not None or (self.cores > 1 and self.batched is False)
        )


def _whole(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}; it must be a whole number")
    if value < 1:
        raise ValueError(f"{name} is {value}; it must be at least 1")
