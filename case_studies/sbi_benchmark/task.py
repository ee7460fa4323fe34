"""One task: a prior, a simulator, and where its observations and reference posteriors lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from case_studies.sbi_benchmark.priors import Law
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
    law : Law
        The prior.
    simulate : callable
        From parameters (n, p) and a generator to statistics (n, d), one simulation a row.
    folder : str, optional
        Of the files in sbibm, where it is not `name`.
    observation_file : str
        The file with the observed statistics.
    """

    name: str
    parameters_size: int
    statistics_size: int
    law: Law
    simulate: Callable[[np.ndarray, np.random.Generator], np.ndarray]
    folder: str = ""
    observation_file: str = "observation.csv"

    @property
    def names(self) -> list[str]:
        """Names of the parameters."""
        return [f"theta_{i}" for i in range(self.parameters_size)]

    @property
    def support(self) -> Support:
        """Of the prior."""
        bounds = None if self.law.bounds is None else dict.fromkeys(self.names, self.law.bounds)
        return Support.from_bounds(bounds, self.names)

    def prior(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (n, p) of the prior."""
        return self.law.draw(n, rng)

    def log_prior(self, theta: np.ndarray) -> np.ndarray:
        """The prior's normalised log density (n,) at parameters (n, p)."""
        return self.law.log_density(theta)

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
