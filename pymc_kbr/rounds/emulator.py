"""Statistics of a simulator without noise, predicted from its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import eigh

from pymc_kbr.arrays.labelled import in_order
from pymc_kbr.arrays.refusals import LARGEST_FLOAT, shown
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.gram import Gram, make_solver
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.regression.choose_ridge import choose_kernel_and_ridge
from pymc_kbr.simulation.progress import tracked
from pymc_kbr.tables.reference_table import ReferenceTable

BANDWIDTH_MULTIPLES = tuple(2.0 ** np.arange(-2, 5))
"""Bandwidths that are tried, as multiples of the median heuristic."""

RIDGES_TO_INTERPOLATE = tuple(10.0 ** np.arange(-10.0, 1.1))
"""Ridges n * lambda that are tried: a function without noise needs next to none."""

ROWS_FOR_SETTINGS_OF_A_ROUND = 200
"""Rows on which bandwidth and ridge are chosen while rows are closing in."""

SKETCHED_STATISTICS = 32
"""Statistics from which on errors are measured on so many random combinations of them."""

PREDICTED_AT_ONCE = 2_000
"""Rows that are predicted at once."""


@dataclass(frozen=True, eq=False)
class Emulator:
    """Kernel ridge regression of a table's statistics on its parameters, next to interpolation."""

    error: float
    _gram: Gram
    _coefficients: np.ndarray
    _directions: np.ndarray
    _means: np.ndarray
    _scaler: Scaler

    @classmethod
    def fit(
        cls,
        table: ReferenceTable,
        units: np.ndarray,
        rng: np.random.Generator,
        # Rows on which bandwidth and ridge are chosen.
        most: int = 400,
    ) -> Emulator:
        """Choose bandwidth and ridge by the leave-one-out error in closed form, and solve."""
        # Shapes: units (d,).
        scaler = Scaler.fit(table.parameters)
        x = scaler.transform(table.parameters)
        means = table.statistics.mean(axis=0)
        targets = (table.statistics - means) / units
        median = median_heuristic(x)
        choice = choose_kernel_and_ridge(
            x,
            x,
            [Gaussian(multiple * median) for multiple in BANDWIDTH_MULTIPLES],
            RIDGES_TO_INTERPOLATE,
            targets=_sketched(targets, rng),
            most=most,
        )
        # What varies less than it is predicted wrongly is not predicted.
        directions = _directions(targets, choice.error)
        gram = make_solver("auto").gram(choice.kernel, x, rng, choice.ridge)
        coefficients = gram.regularised(choice.ridge).solve(targets @ directions)
        # The sum over statistics, shared out among them.
        error = float(np.sqrt(choice.error / len(units)))
        return cls(error, gram, coefficients, directions.T * units, means, scaler)

    def __call__(self, parameters: np.ndarray, progressbar: bool = False) -> np.ndarray:
        """Statistics (k, d) of parameters (k, p)."""
        x = self._scaler.transform(parameters)
        parts = np.array_split(x, max(1, len(x) // PREDICTED_AT_ONCE))
        shown = tracked(parts, "predicting statistics", progressbar)
        predicted = np.vstack([self._gram.cross(part).T @ self._coefficients for part in shown])
        return self._means + predicted @ self._directions


def _sketched(targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Few random combinations of columns (n, d), whose squares add up to theirs on average."""
    if targets.shape[1] <= SKETCHED_STATISTICS:
        return targets
    return targets @ rng.normal(scale=SKETCHED_STATISTICS**-0.5, size=(targets.shape[1], SKETCHED_STATISTICS))


def _directions(targets: np.ndarray, error: float) -> np.ndarray:
    """Principal directions (d, r) of targets (n, d), without the least: those of a variance below `error`."""
    if targets.shape[1] <= SKETCHED_STATISTICS:
        return np.eye(targets.shape[1])
    values, vectors = eigh(targets.T @ targets / len(targets), driver="evd")
    kept = np.cumsum(np.maximum(values, 0)) >= error
    # One direction at least, where all of them are error.
    kept[-1] = True
    return vectors[:, kept]


def noise_of(noise: Any, names: Sequence[str]) -> np.ndarray:
    """Deviations (d,) of the noise on each statistic, by their names where these are given."""
    size = len(names)
    if isinstance(noise, bool):
        raise TypeError(f"noise is {noise}; it must be a number or one for each statistic")
    if isinstance(noise, int) and abs(noise) > LARGEST_FLOAT:
        raise ValueError(f"noise is {shown(noise)}; it must be a finite number above zero")
    try:
        values = in_order("noise", noise, names, "the names of the statistics")
    except TypeError as error:
        raise TypeError(f"noise must be a number, or one for each statistic: {error}") from None
    if values.shape not in ((), (size,)):
        raise ValueError(
            f"noise has shape {values.shape}; it must be one number or one for each of {size} statistics"
        )
    if not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"noise is {shown(noise)}; deviations of noise must be positive and finite")
    return np.broadcast_to(values, (size,))


def noise_kept(noise: np.ndarray | None) -> tuple[float, ...]:
    """The noise that a table is without, for its `Origin`: one number where all statistics have the same."""
    if noise is None:
        return ()
    return tuple(noise.tolist() if np.ptp(noise) > 0 else noise[:1].tolist())
