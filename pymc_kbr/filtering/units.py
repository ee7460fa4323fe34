"""The scale in which kernels see states, observations and controls."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_kbr.arrays.scaling import Scaler, unit_deviations
from pymc_kbr.estimators.summaries import Summary, coordinates, make_summary
from pymc_kbr.filtering.training import Training


@dataclass(frozen=True, eq=False)
class Units:
    """Centres and deviations of the training's columns.

    Parameters
    ----------
    centre, deviation : ndarray of shape (p,)
        Of the states.
    observations : Scaler or Summary
        Of the observations: constant columns are left out. Or features of them, from all their columns.
    control_centre, control_deviation : ndarray of shape (c,), optional
    """

    centre: np.ndarray
    deviation: np.ndarray
    observations: Summary
    control_centre: np.ndarray | None = None
    control_deviation: np.ndarray | None = None

    @classmethod
    def of(cls, training: Training, scaled: bool, features: Any = None) -> Units:
        """Those of a training; deviations are one where nothing is to be scaled.

        `features` is as `make_summary` takes it, or None.
        """

        def deviation(rows: np.ndarray) -> np.ndarray:
            return unit_deviations(rows) if scaled else np.ones(rows.shape[1])

        u = training.controls
        return cls(
            training.states.mean(axis=0),
            deviation(training.states),
            make_summary(
                scaled if features is None else features,
                training.observations,
                training.states[training.pairs],
            ),
            None if u is None else u.mean(axis=0),
            None if u is None else deviation(u),
        )

    def of_features(self, training: Training, features: Any) -> Units:
        """The same with features that are learnt from another training."""
        rows = training.states[training.pairs]
        return replace(self, observations=make_summary(features, training.observations, rows))

    @property
    def has_columns(self) -> bool:
        """Whether what is seen of an observation are its own columns, of which some may be missing."""
        return isinstance(self.observations, Scaler)

    def observed(self, rows: np.ndarray) -> np.ndarray:
        """Observations (T, d), scaled, or their features; NaN where they are missing.

        Raises
        ------
        ValueError
            If a row is missing in part and features need all of it.
        """
        if self.has_columns:
            return self.observations.transform(rows)
        # A network takes whole observations: nothing is known of the features of a part.
        gaps = np.isnan(rows)
        missing = gaps.all(axis=1)
        partly = gaps.any(axis=1) & ~missing
        if partly.any():
            raise ValueError(
                f"{partly.sum()} observation(s) hold NaN in some columns, the first of them row "
                f"{np.flatnonzero(partly)[0]}; features are of whole observations: make the whole row NaN, "
                "which is a step without an observation, or fit the filter without features"
            )
        # Where nothing was seen nobody asks how many features there are.
        seen = self.observations.transform(rows[~missing]) if not missing.all() else np.zeros((0, 1))
        found = np.full((len(rows), seen.shape[1]), np.nan)
        found[~missing] = seen
        return found

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
            # Where estimates stand for observations, training rows have those of a fit without them.
            observations=coordinates(self.observations, training.observations),
            controls=None if training.controls is None else self.controls(training.controls),
        )
