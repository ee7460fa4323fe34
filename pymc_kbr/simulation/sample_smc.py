"""PyMC's own `sample_smc` on other data, with its simulations counted: the rival inside PyMC."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
from pymc.model.fgraph import clone_model
from pytensor import tensor as pt
from pytensor.compile.sharedvalue import SharedVariable

from pymc_kbr.simulation.model.read import is_simulator, read_model


@dataclass(frozen=True)
class SmcRun:
    """What `pm.sample_smc` gave for one observation."""

    # Shapes: draws (chains * draws, p).
    draws: np.ndarray
    simulations: int
    seconds: float


def run_smc(
    model: pm.Model | None,
    data: dict[str, np.ndarray] | None = None,
    *,
    draws: int = 2000,
    chains: int = 2,
    cores: int = 1,
    random_seed: int | None = None,
    **options: Any,
) -> SmcRun:
    """Run `pm.sample_smc` on a model, with other observed data if wanted, and count its simulations."""
    graph = read_model(model)
    for name, value in (data or {}).items():
        if name not in graph.observed_data or np.shape(value) != graph.observed_data[name].shape:
            shapes = {key: held.shape for key, held in graph.observed_data.items()}
            raise ValueError(
                f"data of shape {np.shape(value)} are given for {name!r}; the model observes {shapes}"
            )
    gaps = [
        name for name, held in graph.observed_data.items() if np.any(np.isnan((data or {}).get(name, held)))
    ]
    if gaps:
        raise ValueError(
            f"the data of {gaps} have missing values (NaN), and `sample_smc` compares whole data sets; give "
            "`data` without gaps, or sample by `sample_abc`"
        )
    copied = with_data(graph.model, data or {})
    names = [rv.name for rv in graph.free]
    simulators = sum(is_simulator(rv) for rv in graph.simulated)
    with (
        tempfile.TemporaryDirectory() as folder,
        _counting(copied, Path(folder) / "calls") as count,
        _quiet(),
    ):
        started = time.perf_counter()
        with copied:
            idata = pm.sample_smc(
                draws,
                chains=chains,
                cores=cores,
                random_seed=random_seed,
                progressbar=False,
                compute_convergence_checks=False,
                **options,
            )
        seconds = time.perf_counter() - started
        simulations = count() // max(1, simulators)
    drawn = [np.asarray(idata["posterior"][name]).reshape(chains * draws, -1) for name in names]
    return SmcRun(np.hstack(drawn).astype(float), simulations, seconds)


def with_data(model: pm.Model, data: dict[str, np.ndarray]) -> pm.Model:
    """A copy of a model that has observed other data."""
    copied = clone_model(model)
    for name, given in data.items():
        rv = copied[name]
        old = copied.rvs_to_values[rv]
        if isinstance(old, SharedVariable):
            # The copy has shared variables of its own, so that the user's data stay as they are.
            old.set_value(np.asarray(given, dtype=old.dtype))
            continue
        new = pt.constant(np.asarray(given), dtype=old.dtype)
        new.name = old.name
        copied.rvs_to_values[rv] = new
        del copied.values_to_rvs[old]
        copied.values_to_rvs[new] = rv
    return copied


class _CountedSimulator:
    """A simulator's function that adds a byte to a file, from whichever process, for each call."""

    def __init__(self, fn: Callable[..., Any], path: Path) -> None:
        self.fn, self.path, self._file = fn, path, -1

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._file < 0:
            # Appending single bytes is atomic, so that processes need no lock between them.
            self._file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(self._file, b".")
        return self.fn(*args, **kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {"fn": self.fn, "path": self.path, "_file": -1}

    def close(self) -> None:
        """Close the file in this process."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


@contextmanager
def _counting(model: pm.Model, path: Path) -> Iterator[Callable[[], int]]:
    """Count the calls of a model's simulators; the classes are restored."""
    path.touch()
    classes = {type(rv.owner.op) for rv in model.observed_RVs if is_simulator(rv)}
    before = {cls: cls.__dict__["fn"] for cls in classes}
    try:
        for cls, fn in before.items():
            cls.fn = _CountedSimulator(fn, path)
        yield lambda: path.stat().st_size
    finally:
        for cls, fn in before.items():
            cls.fn.close()
            cls.fn = fn


@contextmanager
def _quiet() -> Iterator[None]:
    """Without PyMC's lines on the screen, one for each of many runs."""
    logger = logging.getLogger("pymc")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
