"""The parameters' coordinates in which regressions on them are smooth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import skew

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Support


@dataclass(frozen=True, eq=False)
class ParameterScale:
    """Logarithms of the distance to a bound where these are less skewed, and units of deviations."""

    # Shapes: sign (p,); bound (p,); centre, unit (p,).

    sign: np.ndarray
    bound: np.ndarray
    centre: np.ndarray
    unit: np.ndarray

    @classmethod
    def fit(cls, parameters: np.ndarray, support: Support) -> ParameterScale:
        """Of a table's parameters (n, p)."""
        p = parameters.shape[1]
        sign, bound = np.zeros(p), np.zeros(p)
        for block in support.blocks:
            if len(block.steps) != 1 or not isinstance(step := block.steps[0], Interval):
                continue
            # A bound that moves with other parameters is no one number.
            slopes = step.lower_slopes is not None or step.upper_slopes is not None
            for j, lower, upper in zip(block.columns, step.lower, step.upper, strict=True):
                column, least = parameters[:, j], abs(skew(parameters[:, j]))
                for side, end in () if slopes else ((1, lower), (-1, upper)):
                    if np.isfinite(end) and np.all(side * (column - end) > 0):
                        found = abs(skew(np.log(side * (column - end))))
                        if found < least:
                            sign[j], bound[j], least = side, end, found
        raw = cls(sign, bound, np.zeros(p), np.ones(p))
        values = raw(parameters)
        return cls(sign, bound, values.mean(axis=0), unit_deviations(values))

    def __call__(self, parameters: Any, xp: Any = np) -> Any:
        """Parameters (k, p) in these coordinates, shape (k, p)."""
        if not np.any(self.sign):
            return (parameters - self.centre) / self.unit
        # Kept off the bound, so that what is not chosen has a gradient too.
        distance = xp.maximum(np.where(self.sign < 0, -1.0, 1.0) * (parameters - self.bound), 1e-300)
        values = xp.where(self.sign == 0, parameters, xp.log(distance))
        return (values - self.centre) / self.unit
