"""Increasing functions of one statistic: on which scale a normal law of mean and spread serves it best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from pymc_kbr.arrays.outliers import outliers
from pymc_kbr.arrays.scaling import unit_deviations, units_of
from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.estimators.likelihood.basis import Landmarks, make_basis
from pymc_kbr.estimators.likelihood.conditional_mean import regress
from pymc_kbr.estimators.likelihood.spread import Below, fit_spread, standardised
from pymc_kbr.estimators.summaries.cells import Cells
from pymc_kbr.kernels import median_heuristic

VALUES_FOR_CURVES, LEAST_FOR_CURVES, ROWS_FOR_CURVES = 40_000, 400, 1500
"""Values looked at when curves are chosen, and rows of them."""

CURVE_LANDMARKS = 80
"""Of the regressions in which curves are compared."""

SPREAD_RIDGE = 1e-2
"""Of the spread in these regressions."""

GAIN_OF_CURVE = 0.03
"""Of mean log density, for which a statistic leaves its own units."""

NO_PAIRS = Below(np.empty(0, dtype=int), np.empty(0, dtype=int), np.empty(0))


class Curve(NamedTuple):
    """An increasing function of a statistic x: of (x - origin) / unit, by `kind`."""

    kind: str
    origin: float
    unit: float

    def forward(self, x: np.ndarray) -> np.ndarray:
        """NaN or infinite where the function is not defined."""
        y = (x - self.origin) / self.unit
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "log":
                return np.log(y)
            if self.kind == "root":
                return np.sqrt(y)
        return np.arcsinh(y) if self.kind == "asinh" else y

    def backward(self, y: np.ndarray) -> np.ndarray:
        """The statistic whose function y is."""
        if self.kind == "log":
            y = np.exp(y)
        elif self.kind == "root":
            y = np.maximum(y, 0) ** 2
        elif self.kind == "asinh":
            y = np.sinh(y)
        return self.origin + self.unit * y

    def log_slope(self, x: np.ndarray) -> np.ndarray:
        """Log derivative of `forward`."""
        y = (x - self.origin) / self.unit
        slope = np.zeros_like(y)
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "log":
                slope = -np.log(y)
            elif self.kind == "root":
                slope = -0.5 * np.log(4 * y)
            elif self.kind == "asinh":
                slope = -0.5 * np.log1p(y**2)
        return slope - np.log(self.unit)


def choose_curves(
    statistics: np.ndarray, parameters: np.ndarray, cells: Sequence[Cells | None]
) -> list[Curve]:
    """The curve of each statistic, by the likelihood of mean and spread regressed on the parameters.

    Parameters
    ----------
    statistics : ndarray of shape (n, d)
        Those with cells are spread over them already.
    parameters : ndarray of shape (n, p)
    cells : sequence of d Cells or None
    """
    d = statistics.shape[1]
    rows = spread_out(len(statistics), int(np.clip(VALUES_FOR_CURVES / d, LEAST_FOR_CURVES, ROWS_FOR_CURVES)))
    # Normal scores: which curve suits a statistic must not hang on how the parameters are written.
    theta = ndtri(rankdata(parameters[rows], axis=0) / (len(rows) + 1))
    few = theta[spread_out(len(rows), CURVE_LANDMARKS)]
    group = Landmarks(few, np.full(few.shape, median_heuristic(theta) ** -2))
    basis, features = make_basis(theta, [group])
    chosen = []
    wide = {found.column for found in outliers(statistics)}
    for number, (column, cell) in enumerate(zip(statistics.T, cells, strict=True)):
        found = [
            (_density(curve, column[rows], features, basis.penalties), curve)
            for curve in _candidates(column, cell)
        ]
        best, curve = max(found[1:], key=lambda pair: pair[0], default=found[0])
        # The few rows that make up a deviation need not be among those looked at here; on a straight line
        # all others would be one point.
        bent = best > found[0][0] + GAIN_OF_CURVE or (number in wide and np.isfinite(best))
        chosen.append(curve if bent else found[0][1])
    return chosen


def _candidates(column: np.ndarray, cell: Cells | None) -> list[Curve]:
    """Curves that are defined on all values of a column, the straight one first."""
    scale = float(units_of(column[:, None])[0])
    unit = float(unit_deviations(column[:, None])[0])
    curves = [Curve("linear", float(np.mean(column / scale)) * scale, unit)]
    # A deviation about the median, of a normal law: tails have no say in the unit of what bends them.
    lower, middle, upper = np.quantile(column, [0.16, 0.5, 0.84])
    if upper > lower:
        curves.append(Curve("asinh", float(middle), float(upper - lower) / 2))
    lowest = float(column.min())
    if cell is not None:
        # A little below the first cell, in whose corner the logarithm else has no end.
        width = cell.spacing or float(np.median(cell.upper - cell.lower))
        edge = lowest if not cell.spacing else cell.first_edge(lowest)
        curves += [Curve("root", edge, unit), Curve("log", edge - width / 2, unit)]
    elif lowest > 0:
        curves += [Curve("root", 0.0, unit), Curve("log", 0.0, unit)]
    return curves


def _density(curve: Curve, column: np.ndarray, features: np.ndarray, penalties: np.ndarray) -> float:
    """Mean log density of a column under a normal law whose mean and spread are regressed."""
    y = curve.forward(column)
    # Densities of curves are compared in the statistic's own unit: each has its Jacobian.
    slope = float(np.mean(curve.log_slope(column)))
    if not np.all(np.isfinite(y)) or not np.isfinite(slope) or np.std(y) == 0:
        return -np.inf
    residuals = regress(features, penalties, y[:, None]).residuals
    deviation = float(unit_deviations(residuals)[0])
    r = residuals / deviation
    w = fit_spread(features, r, SPREAD_RIDGE * penalties, NO_PAIRS, steps=25)
    z, logdet = standardised(features, r, w, NO_PAIRS)
    return slope - float(np.log(deviation)) + float(np.mean(logdet - 0.5 * z[:, 0] ** 2))
