"""One task: a prior, a simulator, and where its observations and reference posteriors lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from case_studies.sbi_benchmark.wheel import read
from pymc_kbr.arrays.support import Support


@dataclass(frozen=True)
class Task:
    """A task of the benchmark.

    Parameters
    ----------
    name : str
        As in sbibm.
    parameters_size, statistics_size : int
        Numbers p of parameters and d of statistics.
    prior : callable
        From a number n and a generator to draws (n, p).
    log_prior : callable
        From parameters (n, p) to the prior's log density (n,), normalised.
    simulate : callable
        From parameters (n, p) and a generator to statistics (n, d), one simulation a row.
    bounds : tuple of float, optional
        Lower and upper end of every parameter's prior; an end may be infinite.
    folder : str, optional
        Of the files in sbibm, where it is not `name`.
    observation_file : str
        The file with the observed statistics.
    """

    name: str
    parameters_size: int
    statistics_size: int
    prior: Callable[[int, np.random.Generator], np.ndarray]
    log_prior: Callable[[np.ndarray], np.ndarray]
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    bounds: tuple[float, float] | None = None
    folder: str = ""
    observation_file: str = "observation.csv"

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return [f"theta_{i}" for i in range(self.parameters_size)]

    @property
    def support(self) -> Support:
        """Of the prior."""
        bounds = None if self.bounds is None else dict.fromkeys(self.names, self.bounds)
        return Support.from_bounds(bounds, self.names)

    def observation(self, number: int) -> np.ndarray:
        """Observed statistics (d,) of observation `number`, 1 to 10."""
        return self._read(number, self.observation_file)[0]

    def true_parameters(self, number: int) -> np.ndarray:
        """Parameters (p,) that observation `number` was simulated from."""
        return self._read(number, "true_parameters.csv")[0]

    def reference(self, number: int) -> np.ndarray:
        """Draws (10000, p) of the posterior at observation `number`."""
        return self._read(number, "reference_posterior_samples.csv.bz2")

    def _read(self, number: int, name: str) -> np.ndarray:
        return read(self.folder or self.name, number, name)
