"""The elements of data sets in their units, and the functions of which their distribution depends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks
from pymc_kbr.estimators.likelihood.conditional_mean import USUAL, MeanSearch, mean_basis, regress
from pymc_kbr.estimators.likelihood.conditional_mixture import (
    FittedFunctions,
    fit_functions,
    start_of_groups,
)


class ElementUnits(NamedTuple):
    """How numbers are measured before a mixture describes them."""

    logarithm: bool
    moving: bool
    bent: bool


def measured(points: Any, middle: Any, log_scale: Any, units: ElementUnits, xp: Any = np) -> tuple[Any, Any]:
    """Numbers (k, m) in some units, and the logs of the slopes from numbers to these."""
    # Shapes: points (k, m); middle, log_scale (k, 1).
    y, slopes = points, -log_scale
    if units.logarithm:
        # So that parameters have a slope everywhere; observations that are not positive are refused before.
        y = xp.log(xp.maximum(points, 1e-300))
        slopes = slopes - y
    z = (y - middle) * xp.exp(-log_scale)
    if not units.bent:
        return z, slopes
    return xp.arcsinh(z), slopes - 0.5 * xp.log(1 + z**2)


@dataclass(frozen=True, eq=False)
class Elements:
    """Data sets in some units, and the functions of the parameters by which their mixture may move."""

    # Shapes: level_coefficients (1 + q + l, 2); z (n, e); slopes (n, e); features (n, f).

    units: ElementUnits
    level: Landmarks
    level_coefficients: np.ndarray
    z: np.ndarray
    slopes: np.ndarray
    basis: Basis
    smooth: np.ndarray
    features: np.ndarray

    def fitted(
        self, parts: int, held_out: np.ndarray, seed: int, tried: tuple[float, ...], numbers: int
    ) -> FittedFunctions:
        """The mixture of so many parts: see `fit_functions`."""
        penalties = self.basis.penalties[self.smooth]
        start = regress(self.features, penalties, start_of_groups(self.z, parts)).coefficients
        rng = np.random.default_rng(seed)
        return fit_functions(self.z, self.features, penalties, start, held_out, rng, tried, numbers)


class KnownKernels(NamedTuple):
    """Kernels of middle and scale, and of the distribution, whose settings are reused; and units."""

    units: ElementUnits
    level: Landmarks
    law: Landmarks


def begin(
    theta: np.ndarray,
    y: np.ndarray,
    levels: np.ndarray,
    units: ElementUnits,
    seed: int,
    known: KnownKernels | None = None,
    search: MeanSearch = USUAL,
    bend: bool = False,
    *,
    # Landmarks of the kernel of the functions.
    landmarks_of_kernel: int = 300,
    # Functions that are used, the smoothest ones.
    smoothest: int = 150,
    # Groups of a row's numbers whose means and deviations choose the kernel.
    groups_for_kernel: int = 6,
    # Of the numbers: where fewer lie within so many median distances of the middle, asinh is taken.
    bent_share: float = 0.999,
    far: float = 30.0,
) -> Elements:
    """The numbers y (n, e) in units, and a kernel for their density; `bend`: use asinh for long tails."""
    rng = np.random.default_rng(seed)
    level, coefficients = _still(levels.mean(axis=0), theta.shape[1])
    if units.moving:
        of_level, features = mean_basis(
            theta, levels, landmarks_of_kernel, rng, known and known.level, search
        )
        found = regress(features, of_level.penalties, levels)
        level, coefficients = of_level.landmarks, of_level.mix @ found.coefficients
    at = level.combined(theta, coefficients)
    if bend:
        away = np.abs(y - at[:, :1]) * np.exp(-at[:, 1:])
        units = units._replace(bent=bool(np.quantile(away, bent_share) > far))
    z, slopes = measured(y, at[:, :1], at[:, 1:], units._replace(logarithm=False))
    groups = start_of_groups(z, groups_for_kernel)
    groups = groups[:, np.ptp(groups, axis=0) > 0]  # of one number there is no deviation
    basis, features = mean_basis(theta, groups, landmarks_of_kernel, rng, known and known.law, search)
    smooth = np.argsort(basis.penalties, kind="stable")[:smoothest]
    slopes = np.broadcast_to(slopes, z.shape)
    return Elements(units, level, coefficients, z, slopes, basis, smooth, features[:, smooth])


def _still(level: np.ndarray, parameters: int) -> tuple[Landmarks, np.ndarray]:
    """A middle and a log scale (2,) that are the same everywhere, as functions of the parameters."""
    coefficients = np.zeros((2 + parameters, 2))
    coefficients[0] = level
    return Landmarks(np.zeros((1, parameters)), np.zeros((1, parameters))), coefficients


def levels_of(
    y: np.ndarray,
    *,
    # A row's median distance from its middle, at least: its logarithm is taken.
    least_distance: float = 1e-9,
    # As where they are recognised: see `seems_exchangeable`.
    fewest: int = 8,
    most_equal: float = 0.001,
) -> np.ndarray:
    """Median and log median distance from it of each row, (n, 2)."""
    if y.shape[1] < fewest:
        raise ValueError(
            f"there are {y.shape[1]} statistics; the form for independent draws of one distribution takes at "
            f"least {fewest} of them: take another form"
        )
    middle = np.median(y, axis=1)
    distance = np.median(np.abs(y - middle[:, None]), axis=1)
    equal = float(np.mean(np.diff(np.sort(y, axis=1), axis=1) == 0))
    if equal > most_equal:
        raise ValueError(
            f"{equal:.1%} of the neighbours among a row's sorted statistics are equal; the form for "
            "independent draws of one distribution is for continuous ones: take another form"
        )
    return np.column_stack([middle, np.log(np.maximum(distance, least_distance))])


def less_skewed(points: np.ndarray) -> bool:
    """Whether logarithms of positive points are less skewed, by their quantiles."""

    def skewed(values: np.ndarray) -> float:
        low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
        return abs(float(high + low - 2 * middle) / max(float(high - low), 1e-300))

    return skewed(np.log(points)) < skewed(points)
