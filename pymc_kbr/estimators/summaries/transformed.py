"""Statistics of any shape: each by the curve that suits it, discrete ones spread over their cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit, ndtri
from scipy.stats import qmc, rankdata

from pymc_kbr.arrays.dependence import depend_on
from pymc_kbr.arrays.exchangeable import Atoms
from pymc_kbr.arrays.outliers import outliers
from pymc_kbr.arrays.scaling import Scaler, unit_deviations, units_of
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.likelihood.basis import Landmarks, make_basis
from pymc_kbr.estimators.likelihood.conditional_mean import regress
from pymc_kbr.estimators.likelihood.spread import Below, fit_spread, standardised
from pymc_kbr.kernels import median_heuristic


@dataclass(frozen=True, eq=False)
class Transformed:
    """Logarithms, roots or inverse hyperbolic sines of statistics, where evidence is for them."""

    # Shapes: kept (d,); constants (d,).
    # refused: Statistics, by their numbers, that the rows of the fit would have had enter by a curve of this
    # kind, which others of the table have no value of: they enter by another one.
    kept: np.ndarray
    constants: np.ndarray
    cells: tuple[Cells | None, ...]
    curves: tuple[Curve, ...]
    scaler: Scaler
    refused: tuple[tuple[int, str], ...] = ()

    @classmethod
    def fit(
        cls,
        statistics: np.ndarray,
        parameters: np.ndarray,
        ranges: Mapping[int, str] | None = None,
        edges: Mapping[int, tuple[float, float]] | None = None,
        lowest: np.ndarray | None = None,
    ) -> Transformed:
        """Choose a curve for each statistic of a table."""
        # Shapes: statistics (n, d); parameters (n, p); lowest (d,), or None.
        # ranges: Of continuous statistics, by their numbers, whose curves are then onto the whole line.
        # edges: Lowest and highest value of discrete statistics, by their numbers.
        # lowest: Of the statistics in other rows that will be transformed, too: curves have values there.
        kept = Scaler.fit(statistics).kept
        x, numbers, known = statistics[:, kept], np.flatnonzero(kept).tolist(), ranges or {}
        cells = tuple(
            None if number in known else Cells.of(column) for number, column in zip(numbers, x.T, strict=True)
        )
        # Of one seed: the same table has the same curves.
        spread = spread_over(x, cells, np.random.default_rng(20).random(x.shape))
        reach = x.min(axis=0) if lowest is None else np.minimum(x.min(axis=0), lowest[kept])
        ranges_of = [known.get(number) for number in numbers]
        pairs = choose_curves(spread, parameters, cells, ranges_of, reach)
        curves, kinds = (tuple(each) for each in zip(*pairs, strict=True))
        values = np.column_stack([c.forward(column) for c, column in zip(curves, spread.T, strict=True)])
        bounded = tuple(
            None if cell is None else cell.bounded(column, curve, (edges or {}).get(number))
            for number, column, curve, cell in zip(numbers, x.T, curves, cells, strict=True)
        )
        refused = tuple((n, kind) for n, kind in zip(numbers, kinds, strict=True) if kind)
        return cls(kept, statistics[0].astype(float), bounded, curves, Scaler.fit(values), refused)

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return len(self.kept)

    @property
    def discrete(self) -> bool:
        """Whether any statistic has cells."""
        return any(cell is not None for cell in self.cells)

    def of_columns(self, columns: np.ndarray) -> Transformed:
        """The same for some of the statistics, by their numbers."""
        places = np.cumsum(self.kept)[columns[self.kept[columns]]] - 1
        return Transformed(
            self.kept[columns],
            self.constants[columns],
            tuple(self.cells[i] for i in places),
            tuple(self.curves[i] for i in places),
            self.scaler.of_columns(places),
            tuple((int(np.flatnonzero(columns == n)[0]), kind) for n, kind in self.refused if n in columns),
        )

    def without(self, columns: np.ndarray) -> Transformed:
        """The same where some statistics, by their numbers, have no part, as if they did not vary."""
        left = ~np.isin(np.flatnonzero(self.kept), columns)
        kept, places = self.kept.copy(), np.flatnonzero(left)
        kept[columns] = False
        return replace(
            self,
            kept=kept,
            cells=tuple(self.cells[i] for i in places),
            curves=tuple(self.curves[i] for i in places),
            scaler=self.scaler.of_columns(places),
        )

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) as coordinates (k, q); discrete ones by the middles of their cells."""
        x = statistics[:, self.kept]
        return self._coordinates(spread_over(x, self.cells, 0.5), x)

    def levels(
        self,
        coordinates: np.ndarray,
        *,
        # Distance from either end of a cell, as a share: at the ends rounding may leave the domain of a
        # curve.
        within_cell: float = 1e-9,
        # Values up to which a statistic has probabilities and no density.
        most_levels: int = 5,
    ) -> tuple[Levels | None, ...]:
        """Of each statistic of few values in a table's coordinates (n, q); empty where there are none."""
        if not self.discrete:
            return ()
        x = self.backward(coordinates)
        found: list[Levels | None] = []
        for j, (cell, curve) in enumerate(zip(self.cells, self.curves, strict=True)):
            values, counts = np.unique(x[:, j] if cell is not None else x[:0, j], return_counts=True)
            found.append(None)
            if cell is None or not 2 <= len(values) <= most_levels:
                continue
            lower, upper = cell.ends(values)
            within = within_cell * (upper - lower)
            ends = curve.forward(np.stack([lower + within, upper - within]))
            ends = (ends - self.scaler.centre[j]) / self.scaler.scale[j]
            if np.all(ends[1] > ends[0]):
                # Of what is no lattice it is not known which values there may be.
                found[j] = Levels(values, ends[0], ends[1], rare(counts) if cell.spacing else None)
        return tuple(found) if any(found) else ()

    def grids(self, levels: tuple[Levels | None, ...] = ()) -> tuple[Grid | None, ...]:
        """Of each discrete statistic without `levels` its cells; empty where there are none."""
        few = levels or (None,) * len(self.cells)
        places = zip(self.cells, self.curves, self.scaler.centre, self.scaler.scale, few, strict=True)
        found = tuple(
            None if cell is None or each is not None else Grid(cell, curve, float(centre), float(scale))
            for cell, curve, centre, scale, each in places
        )
        return found if any(found) else ()

    def everywhere(self, place: int) -> Grid:
        """As the cells of a continuous statistic, by its place among those that vary."""
        none = np.array([np.inf])  # its one atom
        units = float(self.scaler.centre[place]), float(self.scaler.scale[place])
        return Grid(Everywhere(0.0, 0.0, none, none, none), self.curves[place], *units)

    def dequantised(
        self, coordinates: np.ndarray, rng: np.random.Generator, levels: tuple[Levels | None, ...] = ()
    ) -> np.ndarray:
        """Coordinates (n, q) of `transform` with discrete statistics spread at random over their cells."""
        # Those that have `levels` are spread evenly in coordinates, others in their own units.
        if not self.discrete:
            return coordinates
        values = self.backward(coordinates)
        share = rng.random(values.shape)
        spread = self._coordinates(spread_over(values, self.cells, share), values)
        for j, each in enumerate(levels):
            if each is not None:
                spread[:, j] = each.spread(each.of_values(values[:, j])[0], share[:, j])
        return spread

    def backward(self, coordinates: np.ndarray) -> np.ndarray:
        """The statistics (n, q) that vary, of coordinates (n, q); discrete ones at values that they take."""
        values = coordinates * self.scaler.scale + self.scaler.centre
        x = np.column_stack([c.backward(column) for c, column in zip(self.curves, values.T, strict=True)])
        for j, cell in enumerate(self.cells):
            if cell is not None:
                x[:, j] = cell.nearest(x[:, j])
        return x

    def complete(self, x: np.ndarray) -> np.ndarray:
        """Statistics (n, q) that vary, with the constant ones beside them, shape (n, d)."""
        whole = np.tile(self.constants, (len(x), 1))
        whole[:, self.kept] = x
        return whole

    def points(
        self,
        statistics: np.ndarray,
        levels: tuple[Levels | None, ...] = (),
        own: Sequence[int] = (),
        grids: tuple[Grid | None, ...] = (),
        *,
        # Points in the cell of an observation with discrete statistics, over which the density is averaged.
        points_a_cell: int = 8,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points in the cells of observations (n, d), and the log volumes of these cells."""
        # Shapes: statistics (n, d); returned: (n, s, q + 2 g).
        # levels: Of the statistics whose density is even over each cell, and zero at all other values.
        # own: Places among the q of statistics that stay in their own units, and have no part in the volume.
        # grids: Of the g statistics that have probabilities of cells: by their values' coordinates, and
        # beside all q, the coordinates of the lower ends of their cells, and then of the upper ones.
        # Returned: The likelihood is the mean over s of density times volume: a probability for discrete
        # statistics, a density in the statistics' own units for others.
        x = statistics[:, self.kept]
        q, impossible = x.shape[1], np.zeros(len(x), dtype=bool)
        units, own = x[:, own].copy(), list(own)
        x[:, own] = [self.middle_of(j) for j in own]  # where every curve is defined
        levels = levels or (None,) * q
        for j, each in enumerate(levels):
            if each is not None:
                numbers, seen = each.of_values(x[:, j])
                x[:, j], impossible = each.values[numbers], impossible | ~seen
        celled = grids or (None,) * q
        # An even density has the same value at all points of a cell.
        uneven = any(
            cell is not None and each is None and grid is None
            for cell, each, grid in zip(self.cells, levels, celled, strict=True)
        )
        for j, grid in enumerate(celled):
            if grid is not None:
                impossible = impossible | ~grid.cells.possible(x[:, j])
                x[:, j] = np.where(impossible, grid.cells.nearest(x[:, j]), x[:, j])
        ends = {j: grid.ends(x[:, j]) for j, grid in enumerate(celled) if grid is not None}
        # The same places for every observation, or likelihood ratios would hold their noise.
        within = qmc.Sobol(q, seed=20).random(points_a_cell) if uneven else np.full((1, q), 0.5)
        spread = np.stack([spread_over(x, self.cells, u) for u in within], axis=1)
        for j, grid in enumerate(celled):
            if grid is not None:
                spread[:, :, j] = x[:, None, j]
        points = self._coordinates(spread.reshape(-1, q), x).reshape(spread.shape)
        # log |d coordinate / d statistic|, by the scaler and the curve; times its width, of a cell.
        volume = np.full(spread.shape[:2], -np.log(self.scaler.scale).sum())
        for j, (curve, cell) in enumerate(zip(self.curves, self.cells, strict=True)):
            if j in own:
                volume += np.log(self.scaler.scale[j])
                continue
            if (each := levels[j]) is not None:
                width = (each.upper - each.lower)[each.of_values(x[:, j])[0]]
                volume += (np.log(self.scaler.scale[j]) + np.log(width))[:, None]
                continue
            if j in ends:
                lower, upper = ends[j]
                # A probability has no unit; between atoms there is a density.
                slope = curve.log_slope(spread[:, :, j])
                volume += np.where((upper > lower)[:, None], np.log(self.scaler.scale[j]), slope)
                continue
            volume += curve.log_slope(spread[:, :, j])
            if cell is not None:
                lower, upper = cell.ends(x[:, j])
                volume += np.log(np.where(upper > lower, upper - lower, 1.0))[:, None]
        volume[impossible] = -np.inf
        points[:, :, own] = units[:, None]
        if ends:
            more = np.column_stack([end for side in zip(*ends.values(), strict=True) for end in side])
            more = np.broadcast_to(more[:, None], (*points.shape[:2], more.shape[1]))
            points = np.concatenate([points, more], axis=2)
        return points, volume

    def middle_of(self, place: int) -> float:
        """The value of the statistic at a place among those that vary at which its coordinate is zero."""
        centre = self.scaler.centre[place : place + 1]
        return float(self.curves[place].backward(centre)[0])

    def _coordinates(self, spread: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Of points (k s, q), s in the cells of each row of the statistics (k, q) that were given."""
        values = np.column_stack([c.forward(x) for c, x in zip(self.curves, spread.T, strict=True)])
        bad = ~np.isfinite(values)
        if np.any(bad):
            point, column = np.argwhere(bad)[0].tolist()  # of all points, s for each row
            row, curve = point // (len(spread) // len(given)), self.curves[column]
            raise ValueError(
                f"statistic {np.flatnonzero(self.kept)[column]} has the value {given[row, column]:.6g} in "
                f"row {row}, and all of the table's are above {curve.origin:.6g} and enter by their "
                f"{curve.kind}: the model does not make this value; look at its units, or take scale=False"
            )
        return self.scaler.transform(values)


def spread_over(x: np.ndarray, cells: tuple[Cells | None, ...], share: np.ndarray | float) -> np.ndarray:
    """Values (n, q) at a share (n, q), (q,) or () of the way through their cells."""
    share = np.broadcast_to(share, x.shape)
    out = x.astype(float)
    for j, cell in enumerate(cells):
        if cell is not None:
            lower, upper = cell.ends(x[:, j])
            out[:, j] = np.where(upper > lower, lower + share[:, j] * (upper - lower), x[:, j])
    return out


# --- increasing functions of one statistic ---


class Curve(NamedTuple):
    """An increasing function of a statistic x: of (x - origin) / unit, by `kind`."""

    kind: str
    origin: float
    unit: float

    def forward(self, x: Any, xp: Any = np) -> Any:
        """NaN or infinite where the function is not defined."""
        y = (x - self.origin) / self.unit
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "log":
                return xp.log(y)
            if self.kind == "root":
                return xp.sqrt(y)
            if self.kind == "softplus":
                return y + xp.log(-xp.expm1(-y))
            if self.kind == "logit":
                return xp.log(y) - xp.log1p(-y)
        return xp.arcsinh(y) if self.kind == "asinh" else y

    def backward(self, y: Any, xp: Any = np) -> Any:
        """The statistic whose function y is."""
        if self.kind == "log":
            y = xp.exp(y)
        elif self.kind == "root":
            y = xp.maximum(y, 0) ** 2
        elif self.kind == "asinh":
            y = xp.sinh(y)
        elif self.kind == "softplus":
            y = np.logaddexp(0.0, y)
        elif self.kind == "logit":
            y = expit(y)
        return self.origin + self.unit * y

    def log_slope(self, x: Any, xp: Any = np) -> Any:
        """Log derivative of `forward`."""
        y = (x - self.origin) / self.unit
        slope = 0.0 * y
        with np.errstate(invalid="ignore", divide="ignore"):
            if self.kind == "log":
                slope = -xp.log(y)
            elif self.kind == "root":
                slope = -0.5 * xp.log(4 * y)
            elif self.kind == "asinh":
                slope = -0.5 * xp.log1p(y**2)
            elif self.kind == "softplus":
                slope = -xp.log(-xp.expm1(-y))
            elif self.kind == "logit":
                slope = -xp.log(y) - xp.log1p(-y)
        return slope - np.log(self.unit)

    def inside(self, x: Any) -> Any:
        """Where a curve onto the whole line is defined."""
        y = (x - self.origin) / self.unit
        if self.kind in ("log", "softplus"):
            return y > 0
        # Of PyTensor variables y == y is a bool.
        return (y > 0) & (y < 1) if self.kind == "logit" else y <= np.inf


def choose_curves(
    statistics: np.ndarray,
    parameters: np.ndarray,
    cells: Sequence[Cells | None],
    ranges: Sequence[str | None] | None = None,
    lowest: np.ndarray | None = None,
    *,
    # Values with which curves are chosen,
    values_for_curves: int = 40000,
    # rows of them at least
    least_for_curves: int = 400,
    # and at most.
    rows_for_curves: int = 1500,
    # Landmarks of the regressions that compare curves.
    curve_landmarks: int = 80,
    # Gain of mean log density for which a statistic is transformed.
    least_gain: float = 0.03,
) -> list[tuple[Curve, str]]:
    """The curve of each statistic, and the kind of the one that lacks values down to the `lowest`, or ""."""
    # Shapes: statistics (n, d); parameters (n, p); lowest (d,).
    d = statistics.shape[1]
    rows = spread_out(len(statistics), int(np.clip(values_for_curves / d, least_for_curves, rows_for_curves)))
    # Normal scores: which curve suits a statistic must not hang on how the parameters are written.
    theta = ndtri(rankdata(parameters[rows], axis=0) / (len(rows) + 1))
    few = theta[spread_out(len(rows), curve_landmarks)]
    group = Landmarks(few, np.full(few.shape, median_heuristic(theta) ** -2))
    basis, features = make_basis(theta, [group])
    chosen = []
    wide = {found.column for found in outliers(statistics)}
    known = ranges or [None] * d
    for number, (column, cell) in enumerate(zip(statistics.T, cells, strict=True)):
        kind = known[number]
        candidates = _candidates(column, cell) if kind is None else _onto(column, kind)
        found = [(_density(curve, column[rows], features, basis.penalties), curve) for curve in candidates]

        def best_of(found: list[tuple[float, Curve]], number: int = number) -> Curve:
            best, curve = max(found[1:], key=lambda pair: pair[0], default=found[0])
            # The few rows that make up a deviation need not be among those looked at here; on a straight line
            # all others would be one point.
            bent = best > found[0][0] + least_gain or (number in wide and np.isfinite(best))
            return curve if bent else found[0][1]

        curve, kind_refused = best_of(found), ""
        if kind is None and lowest is not None and not _reaches(curve, cell, lowest[number]):
            kind_refused = curve.kind
            allowed = _candidates(column, cell, lowest[number])
            curve = best_of(
                [(_density(one, column[rows], features, basis.penalties), one) for one in allowed]
            )
            kind_refused = "" if curve.kind == kind_refused else kind_refused  # from another origin
        chosen.append((curve, kind_refused))
    return chosen


def _reaches(
    curve: Curve,
    cell: Cells | None,
    lowest: float,
    *,
    # As of levels: at the end itself rounding may leave the domain of a curve.
    within_cell: float = 1e-9,
) -> bool:
    """Whether a curve, and its slope, have values down to the lowest one, of a discrete statistic's cell."""
    end = lowest
    if cell is not None:
        lower, upper = (float(each[0]) for each in cell.ends(np.array([lowest])))
        end = lower + within_cell * (upper - lower)
    return bool(np.isfinite(curve.forward(end)) and np.isfinite(curve.log_slope(end)))


def _candidates(column: np.ndarray, cell: Cells | None, lowest: float = np.inf) -> list[Curve]:
    """Curves that are defined on all values of a column and down to the lowest, the straight one first."""
    scale = float(units_of(column[:, None])[0])
    unit = float(unit_deviations(column[:, None])[0])
    curves = [Curve("linear", float(np.mean(column / scale)) * scale, unit)]
    # A deviation about the median, if normal: tails have no say in the unit of what bends them.
    lower, middle, upper = np.quantile(column, [0.16, 0.5, 0.84])
    if upper > lower:
        curves.append(Curve("asinh", float(middle), float(upper - lower) / 2))
    lowest = min(lowest, float(column.min()))
    if cell is not None:
        # A little below the first cell, in whose corner the logarithm else has no end.
        width = cell.spacing or float(np.median(cell.upper - cell.lower))
        of_lowest = float(cell.ends(cell.nearest(column.min(keepdims=True)))[0][0])
        edge = cell.first_edge(lowest) if cell.spacing else min(lowest, of_lowest)
        curves += [Curve("root", edge, unit), Curve("log", edge - width / 2, unit)]
    elif lowest > 0:
        curves += [Curve("root", 0.0, unit), Curve("log", 0.0, unit)]
    return curves


def _onto(column: np.ndarray, kind: str) -> list[Curve]:
    """Curves onto the whole line of a continuous column in a range: see `Transformed.fit`."""
    unit = float(unit_deviations(column[:, None])[0])
    if kind == "unit":
        return [Curve("logit", 0.0, 1.0)]
    if kind == "positive":
        return [Curve("log", 0.0, unit), Curve("softplus", 0.0, unit)]
    return [curve for curve in _candidates(column, None) if curve.kind != "root"]


def _density(
    curve: Curve,
    column: np.ndarray,
    features: np.ndarray,
    penalties: np.ndarray,
    *,
    # Ridge of the spread in these regressions.
    spread_ridge: float = 1e-2,
) -> float:
    """Mean log density of a column under a normal distribution whose mean and spread are regressed."""
    y = curve.forward(column)
    # Densities of curves are compared in the statistic's own unit: each has its Jacobian.
    slope = float(np.mean(curve.log_slope(column)))
    if not np.all(np.isfinite(y)) or not np.isfinite(slope) or np.std(y) == 0:
        return -np.inf
    residuals = regress(features, penalties, y[:, None]).residuals
    deviation = float(unit_deviations(residuals)[0])
    r = residuals / deviation
    pairs = Below(np.empty(0, dtype=int), np.empty(0, dtype=int), np.empty(0))  # none, of one column
    w = fit_spread(features, r, spread_ridge * penalties, pairs, steps=25)
    z, logdet = standardised(features, r, w, pairs)
    return slope - float(np.log(deviation)) + float(np.mean(logdet - 0.5 * z[:, 0] ** 2))


# --- one unit for all statistics ---


@dataclass(frozen=True, eq=False)
class CommonScale(Scaler):
    """All statistics from one centre and in one unit."""

    # Distances between sorted draws are then those of their quantile functions, Wasserstein's of order two.

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: Any = None, *, warns: bool = True) -> Self:
        """Of a table's rows (n, d): the median, or zero where all are positive, and the median distance."""
        kept = Scaler.fit(statistics, scaled=False, warns=warns).kept
        values = statistics[:, kept]
        # Values with probabilities may be half of all: a median is then as near to one of them as it happens.
        others = values[~Atoms.of(values).hold(values)]
        values = others if len(others) else values
        # Logarithms of positive numbers are of those that the user has, up to a factor.
        centre = 0.0 if values.min() > 0 else float(np.median(values))
        # A heavy tail leaves a median as it is; of counts it may be zero.
        unit = float(np.median(np.abs(values - centre))) or float(values.std())
        # Columns that do not vary are drawn as their centre.
        return cls(np.where(kept, centre, statistics[0]), np.where(kept, unit, 1.0), kept)


# --- only statistics that depend on the parameters ---


@dataclass(frozen=True, eq=False)
class Dependent:
    """Leaves out the statistics that the table shows to be independent of the parameters."""

    # Shapes: kept (d,).
    # kept: Statistics that vary.
    # curved: Of rows of all, in which those that are left out have no part, as if they did not vary.
    kept: np.ndarray
    curved: Transformed

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray, lowest: np.ndarray | None = None) -> Self:
        """Test each statistic of a table's rows (n, d), with parameters (n, p): see `depend_on`."""
        kept = Scaler.fit(statistics).kept
        fitted = kept.copy()
        fitted[kept] = depend_on(statistics[:, kept], parameters)
        if not fitted.any():
            raise ValueError(
                f"none of the {len(kept)} statistics is found to depend on a parameter: by this table they "
                "say nothing of them; simulate more rows, or take scale=True, which leaves none out"
            )
        return cls(kept, _curves(fitted, statistics, parameters, lowest))

    def of_rows(self, statistics: np.ndarray, parameters: np.ndarray) -> Dependent:
        """The same statistics, by curves that are chosen on other rows (n, d), with parameters (n, p)."""
        return Dependent(Scaler.fit(statistics).kept, _curves(self.fitted, statistics, parameters))

    @property
    def fitted(self) -> np.ndarray:
        """Which statistics are not left out, shape (d,)."""
        return self.curved.kept

    @property
    def columns(self) -> np.ndarray:
        """Numbers of those, shape (m,)."""
        return np.flatnonzero(self.fitted)

    @property
    def size(self) -> int:
        """Number of statistics, d, with those that are left out."""
        return len(self.kept)

    def of_columns(self, columns: np.ndarray) -> Dependent:
        """The same for some of the statistics, by their numbers."""
        return Dependent(self.kept[columns], self.curved.of_columns(columns))

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) as coordinates (k, m): see `Transformed`."""
        return self.curved.transform(statistics)


def _curves(
    fitted: np.ndarray, statistics: np.ndarray, parameters: np.ndarray, lowest: np.ndarray | None = None
) -> Transformed:
    """Of the statistics that are not left out, by their places among all."""
    reach = None if lowest is None else lowest[fitted]
    found, kept = Transformed.fit(statistics[:, fitted], parameters, lowest=reach), fitted.copy()
    kept[fitted] = found.kept
    numbers = np.flatnonzero(fitted)
    refused = tuple((int(numbers[number]), kind) for number, kind in found.refused)
    return replace(found, kept=kept, constants=statistics[0].astype(float), refused=refused)


# --- discrete statistics ---


EVEN = 1e-6
"""Relative error up to which distances between values are multiples of one spacing."""


class Levels(NamedTuple):
    """The values of a statistic of few values, and where their cells lie in the coordinates of a fit."""

    # Shapes: values (v,); lower, upper (v,); rare (v,).
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    rare: np.ndarray | None = None

    @property
    def cuts(self) -> np.ndarray:
        """Coordinates (v - 1,) that lie between cells."""
        return (self.upper[:-1] + self.lower[1:]) / 2

    def choose(self, of_each: np.ndarray, y: Any) -> Any:
        """Of numbers (v,) that of the cell in or next to which each point y lies, of NumPy or of PyTensor."""
        chosen = of_each[0] + 0 * y
        for cut, step in zip(self.cuts, np.diff(of_each), strict=True):
            chosen = chosen + step * (y >= cut)
        return chosen

    def middle(self, y: Any) -> Any:
        """The middle of that cell."""
        return self.choose((self.lower + self.upper) / 2, y)

    def numbers(self, y: np.ndarray) -> np.ndarray:
        """The cells' numbers, from zero, of points y of any shape."""
        return np.searchsorted(self.cuts, y, side="right")

    def spread(self, numbers: np.ndarray, share: np.ndarray) -> np.ndarray:
        """Points at shares (n,) of the way through the cells of these numbers (n,)."""
        return self.lower[numbers] + share * (self.upper - self.lower)[numbers]

    def of_values(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (n,) of the values nearest to those of a column (n,), and whether they are these."""
        numbers = np.searchsorted((self.values[1:] + self.values[:-1]) / 2, column)
        # What was computed in another order than in the table is off by rounding.
        return numbers, np.abs(column - self.values[numbers]) <= EVEN * self.spacing

    def nearest_level(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (n,) of rare values for those of a column (n,), and which are one step from these."""
        if self.rare is None:
            return np.zeros(len(column), dtype=int), np.zeros(len(column), dtype=bool)
        apart = np.abs(column[:, None] - self.values)
        beside = self.rare & (np.abs(apart - self.spacing) <= EVEN * self.spacing)
        missed = beside.any(axis=1) & ~self.of_values(column)[1] & ((column >= 0) | (self.values[0] < 0))
        return beside.argmax(axis=1), missed

    @property
    def spacing(self) -> float:
        """The smallest distance of two values: of a lattice its step."""
        return float(np.diff(self.values).min())


FAR = 1e8
"""Of an end that is infinite, in coordinates: no distribution function has mass beyond."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Where the cells of a discrete statistic lie in the coordinates of a fit."""

    cells: Cells
    curve: Curve
    centre: float
    scale: float

    def at(self, y: np.ndarray) -> np.ndarray:
        """The coordinates of the values in whose cells the points y lie."""
        values = self.cells.nearest(self.curve.backward(y * self.scale + self.centre))
        return self.coordinates(values)

    def coordinates(self, values: np.ndarray) -> np.ndarray:
        """Of values of any shape."""
        return (self.curve.forward(values) - self.centre) / self.scale

    def ends(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates of the ends of the cells of values (n,), `FAR` off where there is none."""
        # Values that are not discrete have equal ends.
        cells = self.cells
        lower, upper = cells.ends(values)
        if cells.spacing:
            near = EVEN * cells.spacing
            low, high = values <= cells.first + near, values >= cells.last - near
        else:
            values = _as_listed(values, cells.values, cells.rounding)
            place = np.minimum(np.searchsorted(cells.values, values), len(cells.values) - 1)
            low, high = (each[place] & (cells.values[place] == values) for each in cells.open_ends)
        apart = upper > lower
        # Where a cell has no end, its curve need not be defined there.
        middle = (lower + upper) / 2
        ends = self.coordinates(np.where(low, middle, lower)), self.coordinates(np.where(high, middle, upper))
        return (
            np.where(apart & low, -FAR, np.clip(ends[0], -FAR, FAR)),
            np.where(apart & high, FAR, np.clip(ends[1], -FAR, FAR)),
        )

    def lowest(
        self, y: np.ndarray, most: int, share: float = 0.05, fewest: int = 100
    ) -> tuple[np.ndarray, np.ndarray] | None:
        """Ends of the cells of the lowest values in which points y (n,) lie, and of the next one; or None."""
        # Each of those values has at least a `share` of the rows with it or a higher one, so that its cell is
        # wide beside their spread, and at least so many rows are beyond them.
        cells = self.cells
        if not cells.spacing or np.isinf(cells.first):
            return None
        values = cells.nearest(self.curve.backward(y * self.scale + self.centre))
        steps = np.minimum(np.round((values - cells.first) / cells.spacing), most).astype(int)
        counts = np.bincount(steps, minlength=most + 1)
        beyond = len(y) - np.cumsum(counts)
        reached = beyond + counts
        enough = (counts[:most] >= share * reached[:most]) & (beyond[:most] >= fewest)
        number = most if enough.all() else int(np.argmin(enough))
        if not number:
            return None
        ends = self.ends(cells.first + np.arange(number + 1) * cells.spacing)
        lower, upper = (np.array(end) for end in ends)
        # The first cell has no end below; where it is even, it is as wide as on its other side.
        middle = self.coordinates(np.array([cells.first]))[0]
        lower[0] = 2 * middle - upper[0]
        return lower, upper


def rare(
    counts: np.ndarray,
    *,
    # As of a lattice: a value expected in so many rows is in none once in fifty tables.
    rows_missed: float = 4.0,
) -> np.ndarray:
    """Which values of a lattice, in so many rows (v,), are so few that others beside them may be missed."""
    return counts**2 < 2 * rows_missed * counts.sum()


def _distinct(column: np.ndarray, rounding: float) -> tuple[np.ndarray, np.ndarray]:
    """The values (v,) of a column (n,) and their counts; of those that differ by rounding, the highest."""
    values, counts = np.unique(column, return_counts=True)
    last = np.append(np.diff(values) > rounding, True)
    return values[last], np.diff(np.cumsum(counts)[last], prepend=0)


def _as_listed(column: np.ndarray, values: np.ndarray, rounding: float) -> np.ndarray:
    """A column (n,) with the listed values (v,) in place of those that differ from them by rounding."""
    if not len(values) or not rounding:
        return column
    near = values[np.searchsorted((values[1:] + values[:-1]) / 2, column)]
    return np.where(np.abs(near - column) <= rounding, near, column)


@dataclass(frozen=True, eq=False)
class Cells:
    """The intervals that one statistic's values represent."""

    # Shapes: values, lower, upper (v,).
    spacing: float
    offset: float
    values: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    first: float = -np.inf
    """The lowest value there is, whose stretch has no end below; of a lattice, else that of the values."""
    last: float = np.inf
    rounding: float = 0.0

    @classmethod
    def of(
        cls,
        column: np.ndarray,
        *,
        # Share of rows with tied values from which a statistic counts as discrete.
        tied_share: float = 0.05,
        # Of the median value, up to which two are one: as near are sums of a thousand terms in any order.
        rounding_share: float = 1000 * np.finfo(float).eps,
    ) -> Cells | None:
        """Of a table's column (n,), or None where it is continuous."""
        rounding = rounding_share * float(np.median(np.abs(column)))
        values, counts = _distinct(column, rounding)
        if len(values) < 2 or counts[counts > 1].sum() < tied_share * len(column):
            return None
        gaps = np.diff(values)
        steps = gaps / gaps.min()
        # A relative error of a long step may be as long as a step, which would make any number even.
        if np.all(np.abs(steps - np.round(steps)) < np.minimum(EVEN * np.maximum(steps, 1), 0.1)):
            # Of all steps together: rounding of the shortest one would add up over many.
            spacing = float((values[-1] - values[0]) / np.round(steps).sum())
            none = np.empty(0)
            return cls(spacing, float(values[0]) - spacing / 2, none, none, none, rounding=rounding)
        # So many different values are those of a continuous statistic, but for atoms at its ends.
        if len(values) > len(column) / 4:
            return cls._edges(column, values, counts, rounding)
        middle = (values[1:] + values[:-1]) / 2
        lower = np.concatenate([[values[0] - gaps[0] / 2], middle])
        upper = np.concatenate([middle, [values[-1] + gaps[-1] / 2]])
        return cls(0.0, 0.0, values, lower, upper, rounding=rounding)

    @classmethod
    def _edges(
        cls,
        column: np.ndarray,
        values: np.ndarray,
        counts: np.ndarray,
        rounding: float,
        *,
        # Share of rows at the lowest or highest value from which that value is an atom.
        rows_at_an_edge: float = 0.01,
    ) -> Cells | None:
        """Atoms at the lowest and the highest value, of a statistic that is continuous between."""
        ends = [i for i in (0, -1) if counts[i] >= max(2, rows_at_an_edge * len(column))]
        if not ends:
            return None
        rest = column[~np.isin(_as_listed(column, values[sorted(ends)], rounding), values[ends])]
        # Outwards, so that no value of the rest lies within.
        width = float(np.subtract(*np.quantile(rest, [0.75, 0.25])))
        width = width if width > 0 else float(np.ptp(column))
        atoms = values[ends]
        lower = [values[i] - (width if i == 0 else 0.0) for i in ends]
        upper = [values[i] + (width if i == -1 else 0.0) for i in ends]
        return cls(0.0, 0.0, atoms, np.array(lower), np.array(upper), rounding=rounding)

    def ends(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ends, each (n,), of the stretches of values (n,); the value itself where it has none."""
        if self.spacing:
            return column - self.spacing / 2, column + self.spacing / 2
        column = _as_listed(column, self.values, self.rounding)
        place = np.minimum(np.searchsorted(self.values, column), len(self.values) - 1)
        known = self.values[place] == column
        return np.where(known, self.lower[place], column), np.where(known, self.upper[place], column)

    def first_edge(self, lowest: float) -> float:
        """Where the stretch that holds the lowest point of a column begins."""
        return self.offset + np.floor((lowest - self.offset) / self.spacing) * self.spacing

    def nearest(self, column: np.ndarray) -> np.ndarray:
        """The value (n,) in whose stretch each point (n,) lies; the point itself where it lies in none."""
        if self.spacing:
            steps = np.floor((column - self.offset) / self.spacing)
            return np.clip(self.offset + (steps + 0.5) * self.spacing, self.first, self.last)
        place = np.clip(np.searchsorted(self.lower, column, side="right") - 1, 0, len(self.values) - 1)
        low, high = self.open_ends
        inside = (column >= np.where(low[place], -np.inf, self.lower[place])) & (
            column <= np.where(high[place], np.inf, self.upper[place])
        )
        return np.where(inside, self.values[place], column)

    @property
    def between(self) -> bool:
        """Whether the statistic is continuous but for atoms at its ends."""
        return not self.spacing and bool(np.any((self.values == self.lower) | (self.values == self.upper)))

    @property
    def open_ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Of which of the listed values the stretch has no end below, and above."""
        low, high = np.zeros(len(self.values), dtype=bool), np.zeros(len(self.values), dtype=bool)
        if len(self.values):
            # An atom reaches outwards from itself; other values lie within their stretches.
            low[0] = not self.between or self.values[0] == self.upper[0]
            high[-1] = not self.between or self.values[-1] == self.lower[-1]
        return low, high

    def possible(self, column: np.ndarray) -> np.ndarray:
        """Which values (n,) there are; of what is no lattice it is not known which values there may be."""
        if not self.spacing:
            return np.ones(len(column), dtype=bool)
        return np.abs(column - self.nearest(column)) <= EVEN * self.spacing + self.rounding

    def bounded(self, column: np.ndarray, curve: Curve, edges: tuple[float, float] | None) -> Cells:
        """The same with the ends of a lattice: those that are known, or those of counts and of its curve."""
        if not self.spacing:
            return self
        low, high = (-np.inf, np.inf) if edges is None else edges
        # The lowest and the highest value of the lattice within.
        steps = (np.array([low, high]) - self.offset) / self.spacing - 0.5
        first, last = (
            self.offset
            + (np.array([np.ceil(steps[0] - EVEN), np.floor(steps[1] + EVEN)]) + 0.5) * self.spacing
        )
        if curve.kind in ("root", "log"):
            start = curve.origin if curve.kind == "root" else curve.origin + self.spacing / 2
            first = max(first, start + self.spacing / 2)
        elif np.isinf(first) and column.min() >= 0:
            zero = float(self.nearest(np.zeros(1))[0])
            first = zero if abs(zero) <= EVEN * self.spacing else first
        return replace(self, first=float(first), last=float(last))


class Everywhere(Cells):
    """Of a continuous statistic, which has a density wherever it is observed."""

    @property
    def between(self) -> bool:
        """Whether the statistic is continuous but for atoms."""
        return True

    def ends(self, column: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The values themselves."""
        return column, column

    def nearest(self, column: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return column
