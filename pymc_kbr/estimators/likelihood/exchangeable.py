"""The fourth form: all statistics are independent draws of one distribution, in any order or sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betainc, gammaln

from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks
from pymc_kbr.estimators.likelihood.conditional_mean import USUAL, MeanSearch, mean_basis, regress
from pymc_kbr.estimators.likelihood.conditional_mixture import (
    FittedFunctions,
    distribution,
    draw_numbers,
    fit_functions,
    log_densities,
    parts_of_numbers,
    start_of_groups,
)
from pymc_kbr.estimators.likelihood.form import Form, hold_out
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation


@dataclass(frozen=True, eq=False)
class Exchangeable:
    """Elements of x are independent draws of a normal mixture of z = (y - m) exp(-s), or of asinh z.

    The order of independent draws is uninformative, and so nothing is lost where they are sorted. All
    elements of all rows inform about one distribution of one number: a few thousand rows of fifty show its
    shape, and how it depends on the parameters.
    """

    # Shapes: level_coefficients (1 + q + l, 2); law_coefficients (1 + q + l, 3 c).

    size: int
    in_order: bool
    units: ElementUnits
    level: Landmarks
    level_coefficients: np.ndarray
    law: Landmarks
    law_coefficients: np.ndarray

    @property
    def parts(self) -> int:
        """Number of parts of the mixture, c."""
        return self.law_coefficients.shape[1] // 3

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """m, s and the numbers of the parts at parameters (k, q): shape (k, 2 + 3 c)."""
        level = self.level.combined(theta, self.level_coefficients, xp)
        logs = xp.maximum(xp.minimum(level[:, 1:2], LARGEST_LOG), -LARGEST_LOG)
        return xp.concatenate(
            [level[:, 0:1], logs, self.law.combined(theta, self.law_coefficients, xp)], axis=1
        )

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r): see `Form`."""
        k, r = described.shape[0], points.shape[1]
        # Plus nothing: the shape (k, r, e) also where all parameters have the same points.
        flat = xp.reshape(points + 0 * described[:, 0][:, None, None], (k, r * self.size))
        values, slopes = measured(flat, described[:, 0:1], described[:, 1:2], self.units, xp)
        each = log_densities(parts_of_numbers(described[:, 2:], self.parts, xp), values, xp) + slopes
        orders = float(gammaln(self.size + 1)) if self.in_order else 0.0
        return xp.sum(xp.reshape(each, (k, r, self.size)), axis=2) + orders

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each of k parameters."""
        z = draw_numbers(parts_of_numbers(described[:, 2:], self.parts), self.size, rng)
        if self.units.bent:
            z = np.sinh(z)
        y = described[:, 0:1] + np.exp(described[:, 1:2]) * z
        if self.in_order:
            y.sort(axis=1)
        return np.exp(y) if self.units.logarithm else y

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Of the sorted elements, each given those before it: see `Form`."""
        values, _ = measured(points, described[:, 0:1], described[:, 1:2], self.units)
        above = 1 - distribution(parts_of_numbers(described[:, 2:], self.parts), np.sort(values, axis=1))
        before = np.concatenate([np.ones((len(above), 1)), above[:, :-1]], axis=1)
        # Of n numbers above the last one, the least is above x with the n-th power of the share above x.
        left = np.arange(self.size, 0, -1)
        return 1 - np.clip(above / np.maximum(before, 1e-300), 0.0, 1.0) ** left

    def check(self, points: np.ndarray) -> None:
        """Refuse observations (k, e) that no row is like."""
        if self.in_order and len(bad := np.argwhere(np.diff(points, axis=1) < 0)):
            raise ValueError(
                f"the statistics are sorted in every row of the table; in observation {bad[0, 0]} that "
                f"numbered {bad[0, 1] + 1} is below the one before it: sort them as the simulator does"
            )
        # Another model may make it: who compares models gives this one no evidence.
        if self.units.logarithm and len(bad := np.argwhere(points <= 0)):
            raise ImpossibleObservation(
                np.unique(bad[:, 0]),
                f"all of the table's statistics are positive and enter by their logarithm; that numbered "
                f"{bad[0, 1]} of observation {bad[0, 0]} is not: the model does not make this value; look at "
                "its units",
            )


def fit_exchangeable(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    tried: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0),
    numbers: int = 800_000,
    compared: Form | None = None,
    # Rows on which the number of components and the units are chosen.
    rows_for_choice: int = 2000,
) -> Exchangeable:
    """Fit middle, scale and mixture, with the units and parts under which held-out rows are densest."""
    # Shapes: theta (n, q); points (n, e).
    n, e = points.shape
    known = compared if isinstance(compared, Exchangeable) else None
    logarithm = known.units.logarithm if known else bool(points.min() > 0 and less_skewed(points))
    y = np.log(points) if logarithm else points
    levels = levels_of(y)
    held_out = hold_out(n, rng)
    seed = int(rng.integers(2**63))
    if known:
        units, parts = known.units, known.parts
        kernels = KnownKernels(units, known.level, known.law)
    else:
        # At random: a table may be in the order of its rounds, or of a parameter.
        some, kernels = rng.permutation(n)[:rows_for_choice], None
        units, parts = _densest(theta[some], y[some], levels[some], held_out[some], seed, logarithm)
    open_simulation = begin(theta, y, levels, units, seed, kernels)
    found = open_simulation.fitted(parts, held_out, seed, tried, numbers)
    in_order = bool(np.all(np.diff(points, axis=1) >= 0))
    law = open_simulation.basis.mix[:, open_simulation.smooth] @ found.coefficients
    level = open_simulation.level, open_simulation.level_coefficients
    return Exchangeable(e, in_order, open_simulation.units, *level, open_simulation.basis.landmarks, law)


def _densest(
    theta: np.ndarray,
    y: np.ndarray,
    levels: np.ndarray,
    held_out: np.ndarray,
    seed: int,
    logarithm: bool,
    *,
    # The penalty with which they are tried.
    penalties: tuple[float] = (100.0,),
    # Numbers of parts of the mixture.
    sizes: tuple[int, ...] = (1, 2, 4, 6),
) -> tuple[ElementUnits, int]:
    """Units and number of parts under which held-out rows are densest, by one penalty."""
    # Of few kernels: they are only compared.
    scales, ridges = (0.35, 0.7, 1.4, 2.8), slice(None, None, 2)
    search = MeanSearch(scales, turns=1, landmarks=150, ridges=ridges, walks=True)
    found = list[tuple[float, ElementUnits, int]]()
    for moving in (False, True):
        units = ElementUnits(logarithm, moving, False)
        open_simulation = begin(theta, y, levels, units, seed, None, search, bend=True)
        volume = float(open_simulation.slopes[held_out].sum(axis=1).mean())
        for parts in sizes:
            density = open_simulation.fitted(parts, held_out, seed, penalties, 0).held_out
            found.append((density + volume, open_simulation.units, parts))
    return max(found)[1:]


# --- some of the order statistics ---


@dataclass(frozen=True, eq=False)
class OrderStatistics:
    """The density of some of e sorted draws, by their places among all.

    Of draws between two that are known it is known that they lie there: for each such gap of g draws a factor
    (F(upper) - F(lower))^g / g!, with F zero below the first and one above the last. See H. David and
    H. Nagaraja, Order statistics (2003), equation 2.2.2.
    """

    # Shapes: kept (m,).

    whole: Exchangeable
    kept: np.ndarray

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """As of the whole form."""
        return self.whole.describe(theta, xp)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points (k, r, m) or (1, r, m): see `Form`."""
        if xp is not np:
            raise NotImplementedError("missing draws are integrated out with NumPy alone")
        k, r, m = len(described), points.shape[1], len(self.kept)
        flat = np.broadcast_to(points, (k, r, m)).reshape(k, r * m)
        values, slopes = measured(flat, described[:, :1], described[:, 1:2], self.whole.units)
        parts = parts_of_numbers(described[:, 2:], self.whole.parts)
        each = (log_densities(parts, values) + slopes).reshape(k, r, m)
        below = distribution(parts, values).reshape(k, r, m)
        shares = np.diff(below, axis=2, prepend=0.0, append=1.0)
        gaps = self._gaps()
        between = np.sum(gaps * np.log(np.maximum(shares, 1e-300)), axis=2)
        orders = gammaln(self.whole.size + 1) - gammaln(gaps + 1).sum()
        return each.sum(axis=2) + between + orders

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, m) for each of k parameters."""
        return self.whole.draw(described, rng)[:, self.kept]

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Each given those before it, (k, m): see `Form`."""
        values, _ = measured(points, described[:, :1], described[:, 1:2], self.whole.units)
        below = distribution(parts_of_numbers(described[:, 2:], self.whole.parts), values)
        before = np.concatenate([np.zeros((len(below), 1)), below[:, :-1]], axis=1)
        share = np.clip((below - before) / np.maximum(1 - before, 1e-300), 0.0, 1.0)
        # The b-th smallest of the n draws that are left has a beta distribution of b and n + 1 - b.
        ahead = np.diff(self.kept, prepend=-1)
        return betainc(ahead, self.whole.size - self.kept, share)

    def check(self, points: np.ndarray) -> None:
        """Refuse observations (k, m) that no row is like: see `Exchangeable.check`."""
        self.whole.check(points)

    def _gaps(self) -> np.ndarray:
        """Numbers of draws missing before each that is kept, and after the last, (m + 1,)."""
        return np.diff(self.kept, prepend=-1, append=self.whole.size) - 1


# --- elements in their units, and functions on which their distribution depends ---


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
