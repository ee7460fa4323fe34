"""The scale in which kernels see states, observations and controls."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.filtering.training import Training


@dataclass(frozen=True, eq=False)
class Units:
    """Centres and deviations of the training's columns.

    Parameters
    ----------
    centre, deviation : ndarray of shape (p,)
        Of the states.
    observations : Scaler
        Constant columns are left out.
    control_centre, control_deviation : ndarray of shape (c,), optional
    """

    centre: np.ndarray
    deviation: np.ndarray
    observations: Scaler
    control_centre: np.ndarray | None = None
    control_deviation: np.ndarray | None = None

    @classmethod
    def of(cls, training: Training, scaled: bool) -> Units:
        """Those of a training; deviations are one where nothing is to be scaled."""

        def deviation(rows: np.ndarray) -> np.ndarray:
            return unit_deviations(rows) if scaled else np.ones(rows.shape[1])

        u = training.controls
        return cls(
            training.states.mean(axis=0),
            deviation(training.states),
            Scaler.fit(training.observations, scaled),
            None if u is None else u.mean(axis=0),
            None if u is None else deviation(u),
        )

    def states(self, rows: np.ndarray) -> np.ndarray:
        """States (k, p), scaled."""
        return (rows - self.centre) / self.deviation

    def controls(self, rows: np.ndarray) -> np.ndarray:
        """Controls (k, c), scaled."""
        return (rows - self.control_centre) / self.control_deviation

    def unscaled_controls(self, rows: np.ndarray) -> np.ndarray:
        """The inverse of `controls`."""
        return rows * self.control_deviation + self.control_centre

    def scaled(self, training: Training) -> Training:
        """A training in this scale."""
        return replace(
            training,
            states=self.states(training.states),
            observations=self.observations.transform(training.observations),
            controls=None if training.controls is None else self.controls(training.controls),
        )
