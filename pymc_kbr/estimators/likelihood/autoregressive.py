"""The autoregressive form of a learned likelihood: each statistic given parameters and those before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import cho_solve

from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.estimators.likelihood.categorical import Categorical, Hurdles, fit_categorical, fit_hurdles
from pymc_kbr.estimators.likelihood.conditional_mixture import (
    ConditionalMixture,
    fit_conditional_mixture,
    log_densities,
)
from pymc_kbr.estimators.likelihood.normal_mixture import ResidualShape, fit_shape, mixture_log_mass
from pymc_kbr.estimators.likelihood.screening import screen
from pymc_kbr.estimators.likelihood.shared_total import Left, PartOf, Total, fit_part_of
from pymc_kbr.estimators.likelihood.smooth_function import (
    Effort,
    Inputs,
    SmoothFit,
    SmoothFunction,
    WhitenedBasis,
    choose_kernel,
    choose_size,
    fit_log_variance,
    fit_mean,
    for_rows,
    mean_factor,
)
from pymc_kbr.estimators.likelihood.spread import LOG_CHI_SQUARE
from pymc_kbr.estimators.summaries.transformed import Grid, Levels

SPARING = Effort(120, 600, 900, 40, 15)
"""Of one that is only compared."""

MOST_SPARINGLY = 20
"""Statistics above which such a one is a series, or is not fitted."""


class Known(NamedTuple):
    """What is known of statistics before a fit: see `Autoregressive`."""

    inputs: tuple[tuple[int, ...], ...] = ()
    order: tuple[int, ...] = ()
    grids: tuple[Grid | None, ...] = ()
    totals: tuple[Total, ...] = ()


NOTHING_KNOWN = Known()


@dataclass(frozen=True, repr=False)
class Autoregressive:
    """p(x | theta) = prod_j p(x_j | theta, x_<j), a `Form`."""

    conditionals: tuple[Conditional | Categorical | Hurdles | PartOf, ...]
    pasts: tuple[Past | Left, ...]
    series: Series | None = None
    inputs: tuple[tuple[int, ...], ...] = ()
    """The parameters that each conditional sees; empty where each sees all of them."""
    order: tuple[int, ...] = ()
    """In which statistics are drawn, each given those before; empty for that of the columns."""
    grids: tuple[Grid | None, ...] = ()
    """Of statistics that have probabilities of cells, which those after them see as their values."""

    @property
    def levels(self) -> tuple[Levels | None, ...]:
        """Of each statistic that has probabilities and no density."""
        return tuple(c.levels if isinstance(c, Categorical) else None for c in self.conditionals)

    def with_kernels(self, kept: list[bool]) -> Autoregressive:
        """A fit that lends its kernels to the next one for some statistics only."""
        each = zip(self.conditionals, kept, strict=False)
        conditionals = tuple(
            replace(c, noise=0.0) if isinstance(c, Conditional) and not k else c for c, k in each
        )
        return replace(self, conditionals=conditionals)

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """The parameters themselves, (k, q): what is computed from them differs by statistic."""
        return theta

    def log_density(
        self,
        described: Any,
        points: Any,
        xp: Any = np,
        moved: Mapping[int, np.ndarray] | None = None,
        *,
        # Pairs of parameters and points times landmarks in memory.
        cells_at_once: int = 1_000_000,
    ) -> Any:
        """Log densities (k, r) of points (k, r, e) or (1, r, e), or with the ends of cells; see `Form`."""
        # Of points that are the same for all parameters some columns may be `moved`, each (k, r).
        if xp is not np:
            return self._log_density(
                described, points, xp, shared=getattr(points, "type", points).shape[0] == 1
            )
        if 1 < len(points) < len(described):
            return self._log_density(described, points, np, shared=True)
        shared = len(points) == 1
        rows = max(1, cells_at_once // (300 * (points.shape[1] if moved or not shared else 1)))
        parts = [slice(i, i + rows) for i in range(0, len(described), rows)]
        blocks = [
            self._log_density(
                described[p],
                points if shared else points[p],
                np,
                shared=shared,
                moved={j: column[p] for j, column in (moved or {}).items()},
            )
            for p in parts
        ]
        return np.concatenate(blocks) if blocks else np.zeros((0, points.shape[1]))

    def _log_density(
        self, theta: Any, points: Any, xp: Any, *, shared: bool, moved: Mapping[int, np.ndarray] | None = None
    ) -> Any:
        total, size = 0.0, len(self.pasts)
        cells = [j for j, grid in enumerate(self.grids) if grid is not None]
        # Of a table's points the ends of cells are not known, and what counts is a density.
        celled = bool(cells) and (xp is not np or points.shape[-1] > size)
        values = points[:, :, :size] if celled else self._values(points)
        for j, (conditional, past) in enumerate(zip(self.conditionals, self.pasts, strict=True)):
            y, seen, same_past, before = points[:, :, j], self._seen(j, theta), shared, values
            if moved:
                y = moved.get(j, y)
                if any(column in moved for column in past.columns):
                    same_past = False
                    columns = [moved.get(i, values[:, :, i]) for i in range(size)]
                    before = np.stack(np.broadcast_arrays(*columns), axis=-1)
            if celled and j in cells and not isinstance(conditional, Categorical):
                place = size + cells.index(j)
                ends = tuple((moved or {}).get(i, points[:, :, i]) for i in (place, place + len(cells)))
                between = self.grids[j].cells.between  # type: ignore[union-attr]
                total = total + conditional.log_mass(
                    seen, y, ends, past(before, xp), xp, shared=same_past, between=between
                )
            else:
                total = total + conditional.log_density(seen, y, past(before, xp), xp, shared=same_past)
        if self.series is not None:
            total = total + self.series.log_density(theta, points, xp, shared=shared)
        return total

    def _seen(self, j: int, theta: Any) -> Any:
        """What the conditional of statistic j sees of parameters (k, q)."""
        return some_of(theta, self.inputs[j]) if self.inputs else theta

    def _values(self, points: Any) -> Any:
        """Points (..., e) with those of cells in the places of their values."""
        return at_values(points, self.grids)

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each row of parameters (k, q)."""
        size = len(self.pasts) if self.series is None else self.series.size
        drawn = np.zeros((len(described), size))
        for j in self.order or range(len(self.pasts)):
            column = self.conditionals[j].draw(self._seen(j, described), self.pasts[j](drawn), rng)
            grid = self.grids[j] if self.grids else None
            drawn[:, j] = column if grid is None else grid.at(column)
        if self.series is not None:
            self.series.extend(described, drawn, rng)
        return drawn

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, e) of points (k, e)."""
        pairs, values = zip(self.conditionals, self.pasts, strict=True), self._values(points)
        columns = [
            c.distribution(self._seen(j, described), points[:, j], past(values))
            for j, (c, past) in enumerate(pairs)
        ]
        if self.series is not None:
            columns.append(self.series.transforms(described, points))
        return np.column_stack(columns)


def at_values(points: np.ndarray, grids: tuple[Grid | None, ...]) -> np.ndarray:
    """Points (..., e) with those of cells in the places of their values."""
    if not grids:
        return points
    found = np.array(points)
    for j, grid in enumerate(grids):
        if grid is not None:
            found[..., j] = grid.at(points[..., j])
    return found


def some_of(theta: Any, columns: tuple[int, ...]) -> Any:
    """Some of the parameters (k, q), or one that never varies where there are none."""
    if not columns:
        return 0.0 * theta[:, :1]
    return theta[:, list(columns)]


def without_unseen(form: Autoregressive, kept: np.ndarray) -> Autoregressive | None:
    """The density of some statistics, where none of them was learnt given one of those that are left out."""
    # An integral over statistics that later ones depend on has no closed form, and drawn it costs more than a
    # fit.
    # Shapes: kept (m,).
    m, alone = len(kept), len(form.pasts)
    if np.any(np.diff(kept) <= 0) or (form.series is not None and np.any(kept != np.arange(m))):
        return None
    places = {int(column): place for place, column in enumerate(kept)}
    single = [int(column) for column in kept if column < alone]
    if any(column not in places for j in single for column in form.pasts[j].columns):
        return None
    pasts = tuple(form.pasts[j].among(places, m) for j in single)
    series = None if form.series is None or m <= form.series.start else replace(form.series, size=m)
    inputs = tuple(form.inputs[j] for j in single) if form.inputs else ()
    grids = tuple(form.grids[j] for j in single) if form.grids else ()
    order = tuple(places[j] for j in form.order if j in places)
    return Autoregressive(
        tuple(form.conditionals[j] for j in single), pasts, series, inputs, order, grids if any(grids) else ()
    )


def fit_autoregressive(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    effort: Effort | None = None,
    levels: tuple[Levels | None, ...] = (),
    known: Known = NOTHING_KNOWN,
    single: bool = True,
    series: bool = True,
    before: Autoregressive | None = None,
    *,
    # Statistics from which one conditional for all of them is tried.
    shortest_series: int = 5,
) -> Autoregressive:
    """Fit a conditional to each statistic, or one to all of a series, as rows that were left out have it."""
    # Without `single` what is no series is refused; without `series` none is tried. Kernels are those of a
    # fit `before`, where it has them.
    # Shapes: theta (n, q); points (n, e).
    size = points.shape[1]
    own = effort or effort_of_each(size)
    each_alone = _Single(theta, points, rng, own, levels, known, before)
    # A series has no totals: its last value would be a density where it is the rest.
    tried = series and size >= shortest_series and not levels and not known.inputs and not known.totals
    lags = _lags_of_series(theta, points, each_alone, rng, effort) if tried else None
    if lags is None and not single:
        raise ValueError(
            f"the {size} statistics do not share one conditional, as values of a stationary series do; take "
            "another form"
        )
    shared = None if lags is None else fit_series(theta, points, lags, rng, effort)
    if shared is not None and known.grids:  # one conditional for all values has no cells
        each_alone, known = _Single(theta, points, rng, own, levels, before=before), NOTHING_KNOWN
    alone = range(size if shared is None else shared.start)
    with parallel_map(len(alone)) as map_:
        each = map_(each_alone, alone)
    conditionals, pasts = tuple(c for c, _ in each), tuple(past for _, past in each)
    return Autoregressive(conditionals, pasts, shared, known.inputs, known.order, known.grids)


def effort_of_each(statistics: int) -> Effort:
    """Of each conditional: less for each of many statistics, as together they take as long."""
    if statistics <= 12:
        return Effort()
    return Effort(200, 1000, 1500, 60, 20) if statistics <= 40 else SPARING


def _lags_of_series(
    theta: np.ndarray,
    points: np.ndarray,
    single: _Single,
    rng: np.random.Generator,
    effort: Effort | None,
    *,
    # Statistics on which one conditional for all is compared with one for each,
    most_probes: int = 3,
    # and those at which series of different lags are compared.
    most_times: int = 10,
    trial_rows: int = 8000,
    # From which a conditional fitted to four fifths of them is not fitted again; nor one with less effort.
    rows_fitted_once: int = 5000,
    # Nats of a statistic that a series of more may lose: each single conditional takes a second or two.
    most_lost: float = 0.05,
) -> np.ndarray | None:
    """Lags with which rows that were not fitted are likelier than with a conditional for each statistic."""
    n, size = points.shape
    others, fitted = np.split(rng.permutation(n), [n // 5])
    some, seen = (theta[fitted], points[fitted]), (theta[others], points[others])
    of_trial = effort or Effort(200)
    tried = [fit_series(*some, lags, rng, of_trial, trial_rows) for lags in choose_lags(*some, rng)]
    # A longer lag describes fewer values: all are compared on those that each of them describes.
    first = max(each.start for each in tried)
    times = np.unique(np.linspace(first, size - 1, most_times).astype(int))
    best = max(tried, key=lambda each: each.log_densities(*seen, times).mean())
    probing = _Single(*some, rng, single.effort, known=single.known)
    probes = np.unique(np.linspace(best.start, size - 1, most_probes).astype(int))
    with parallel_map(len(probes)) as map_:
        own = np.column_stack(map_(lambda j: probing.log_density(j, *seen), probes.tolist()))
    # Single conditionals stand for all: what one shared by all values loses is taken at a few of these.
    lost = own.mean() - best.log_densities(*seen, probes).mean()
    if lost < (most_lost if size > MOST_SPARINGLY else 0.0):
        return np.array(best.lags)
    if n >= rows_fitted_once or effort is not None:
        single.adopt(probing)
    return None


class _Single:
    """Conditionals of single statistics, each fitted when it is first asked for."""

    def __init__(
        self,
        theta: np.ndarray,
        points: np.ndarray,
        rng: np.random.Generator,
        effort: Effort,
        levels: tuple[Levels | None, ...] = (),
        known: Known = NOTHING_KNOWN,
        before: Autoregressive | None = None,
    ) -> None:
        self._theta, self._points, self.known, self._before = theta, points, known, before
        self._values = at_values(points, known.grids)
        self._levels = levels or (None,) * points.shape[1]
        # Each has its own random numbers, in whatever order they are asked for.
        self._seeds = rng.integers(2**63, size=(points.shape[1],))
        self._fitted: dict[int, tuple[Conditional | Categorical | Hurdles | PartOf, Past | Left]] = {}
        self.effort = effort

    def __call__(
        self,
        j: int,
        *,
        # Of counts, whose probabilities are learnt one by one.
        lowest_values: int = 12,
    ) -> tuple[Conditional | Categorical | Hurdles | PartOf, Past | Left]:
        """The conditional of statistic j and what it sees of the earlier ones."""
        if j not in self._fitted:
            rng = np.random.default_rng(self._seeds[j])
            total = next((each for each in self.known.totals if j in each.columns), None)
            if total is not None:
                self._fitted[j] = self._part_of(j, total, rng)
                return self._fitted[j]
            past = self._past(j, rng)
            inputs, y = Inputs(self._seen(j, self._theta), past(self._values)), self._points[:, j]
            grid = self.known.grids[j] if self.known.grids else None
            # Of many statistics each has fewer values of its own: together they cost as much as one.
            most = max(1, lowest_values // self._points.shape[1])
            lowest = None if grid is None else grid.lowest(y, most)
            if (levels := self._levels[j]) is not None:
                self._fitted[j] = fit_categorical(inputs, y, levels, rng, self.effort), past
            elif lowest is not None:
                tail = partial(fit_conditional, rng=rng, effort=self.effort, rows_for_shape=self._shape_rows)
                self._fitted[j] = fit_hurdles(inputs, y, lowest, tail, rng, self.effort), past
            else:
                known = self._conditional_before(j, past)
                self._fitted[j] = fit_conditional(inputs, y, rng, self.effort, self._shape_rows, known), past
        return self._fitted[j]

    def _conditional_before(self, j: int, past: Past) -> Conditional | None:
        """What was fitted to statistic j before, if it was given the same earlier ones."""
        if self._before is None or j >= len(self._before.conditionals):
            return None
        conditional, seen = self._before.conditionals[j], self._before.pasts[j]
        same = isinstance(seen, Past) and seen.columns == past.columns and seen.levels == past.levels
        return conditional if same and isinstance(conditional, Conditional) else None

    def _part_of(self, j: int, total: Total, rng: np.random.Generator) -> tuple[PartOf, Left]:
        """One of the counts that share a total, given what is left of it."""
        grids, order = self.known.grids, self.known.order or range(self._points.shape[1])
        members = [i for i in order if i in total.columns]
        earlier = members[: members.index(j)]
        known = [grid for i in earlier if (grid := grids[i]) is not None]
        grid = grids[j]
        assert grid is not None
        if j == members[-1]:
            return PartOf(grid, None, 0.0), Left.of(self._values, earlier, known, total.total)
        others = self._past(j, rng, apart_from=total.columns)
        left = Left.of(self._values, earlier, known, total.total, others if others.columns else None)
        theta = self._seen(j, self._theta)
        return fit_part_of(theta, left(self._values), grid, self._values[:, j], rng, self.effort), left

    @property
    def _shape_rows(self) -> int:
        """From which a shape is learnt: of few statistics from more, as together they take as long."""
        return max(6000, 40_000 // self._points.shape[1])

    def _past(
        self,
        j: int,
        rng: np.random.Generator,
        apart_from: tuple[int, ...] = (),
        *,
        # Earlier statistics that a conditional sees,
        most_earlier: int = 10,
        # and rows on which these are screened.
        rows_for_inputs: int = 2000,
    ) -> Past:
        order = self.known.order
        columns = np.array(order[: order.index(j)], dtype=int) if order else np.arange(j)
        columns = columns[~np.isin(columns, apart_from)]
        if len(columns) > most_earlier:
            rows = rng.permutation(len(self._points))[:rows_for_inputs]
            earlier = self._values[np.ix_(rows, columns)]
            columns = columns[screen(self._theta[rows], earlier, self._points[rows, j], most_earlier)]
        return Past.of(self._values, columns, self._levels)

    def log_density(self, j: int, theta: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Log densities (k,) of statistic j of other rows."""
        conditional, past = self(j)
        seen = self._seen(j, theta)
        before = past(at_values(points, self.known.grids))
        return conditional.log_density(seen, points[:, None, j], before[:, None])[:, 0]

    def _seen(self, j: int, theta: np.ndarray) -> np.ndarray:
        return some_of(theta, self.known.inputs[j]) if self.known.inputs else theta

    def adopt(self, other: _Single) -> None:
        """Keep the conditionals that another has fitted."""
        self._fitted |= other._fitted


# --- which earlier statistics matter ---


@dataclass(frozen=True)
class Past:
    """Which earlier statistics a conditional sees, and their units."""

    # Shapes: centre, scale (l,).
    columns: tuple[int, ...]
    centre: np.ndarray
    scale: np.ndarray
    size: int
    levels: tuple[Levels | None, ...] = ()

    @classmethod
    def of(cls, points: np.ndarray, columns: np.ndarray, levels: tuple[Levels | None, ...]) -> Self:
        """Some columns of a table's points (n, e), in units of their deviations; `levels` of all e."""
        if not len(columns):
            return cls((), np.zeros(1), np.ones(1), points.shape[1])
        numbers = tuple(map(int, columns))
        few = tuple(levels[i] for i in numbers)
        seen = points[:, columns]
        for place, each in enumerate(few):
            if each is not None:
                seen[:, place] = each.middle(seen[:, place])
        # Some of the rows may have one value only of a statistic that has two in the table.
        scale = seen.std(axis=0)
        scale = np.where(scale > 0, scale, 1.0)
        return cls(numbers, seen.mean(axis=0), scale, points.shape[1], few if any(few) else ())

    def among(self, places: Mapping[int, int], size: int) -> Self:
        """The same of some columns, by their places among `size` ones."""
        return replace(self, columns=tuple(places[column] for column in self.columns), size=size)

    def __call__(self, points: Any, xp: Any = np) -> Any:
        """Standardised earlier statistics (..., l) of points (..., e), of NumPy or of PyTensor."""
        # Without columns the matrix is zero, and so is the past.
        selection = np.zeros((self.size, len(self.centre)))
        selection[list(self.columns), np.arange(len(self.columns))] = 1 / self.scale[: len(self.columns)]
        few = [(place, each) for place, each in enumerate(self.levels) if each is not None]
        for place, _ in few:
            selection[:, place] = 0.0
        seen = points @ selection - self.centre / self.scale
        for place, each in few:
            unit = np.eye(len(self.centre))[place] / self.scale[place]
            seen = seen + each.middle(points[..., self.columns[place]])[..., None] * unit
        return seen


# --- one conditional for a stationary series ---


@dataclass(frozen=True)
class Series:
    """The same conditional of x_j for all j from `start` on, given some lags and perhaps the time j."""

    # Shapes: centre, scale (l,).
    conditional: Conditional
    lags: tuple[int, ...]
    start: int
    size: int
    centre: np.ndarray
    scale: np.ndarray

    def past(self, points: Any, xp: Any = np) -> Any:
        """Standardised inputs (k, r, size - start, l) of points (k, r, size)."""
        # Plus nothing times the values: the time in their shape, of NumPy and of PyTensor.
        times = np.arange(self.start, self.size, dtype=float)
        columns = [
            points[:, :, self.start - lag : self.size - lag]
            if lag
            else times + 0 * points[:, :, self.start :]
            for lag in self.lags
        ]
        return (xp.stack(columns, axis=-1) - self.centre) / self.scale

    def log_densities(self, theta: np.ndarray, points: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Log density of each of the values at some times, of points (k, size): shape (k, times)."""
        past = self.past(points[:, None])
        columns = [
            self.conditional.log_density(theta, points[:, None, j], past[:, :, j - self.start]) for j in times
        ]
        return np.hstack(columns)

    def log_density(self, theta: Any, points: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Sum of the log densities of the values from `start` on, (k, r)."""
        k, r, length, inputs = points.shape[0], points.shape[1], self.size - self.start, len(self.lags)
        past = self.past(points, xp).reshape((k, r * length, inputs))
        y = points[:, :, self.start :].reshape((k, r * length))
        each = self.conditional.log_density(theta, y, past, xp, shared=shared)
        return xp.sum(each.reshape((theta.shape[0], r, length)), axis=2)

    def extend(self, theta: np.ndarray, drawn: np.ndarray, rng: np.random.Generator) -> None:
        """Draw the values from `start` on into `drawn` (k, size), whose first ones are there."""
        for j in range(self.start, self.size):
            columns = [drawn[:, j - lag] if lag else np.full(len(drawn), float(j)) for lag in self.lags]
            past = (np.column_stack(columns) - self.centre) / self.scale
            drawn[:, j] = self.conditional.draw(theta, past, rng)

    def transforms(self, theta: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, size - start) of points (k, size)."""
        past = self.past(points[:, None])[:, 0]
        columns = [
            self.conditional.distribution(theta, points[:, self.start + i], past[:, i])
            for i in range(self.size - self.start)
        ]
        return np.column_stack(columns)


def choose_lags(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    longest_lag: int = 12,
    most_lags: int = 8,
    # By how many lags the longest one is exceeded in a trial.
    prolonged_by: int = 3,
    # On which lags are screened.
    rows_for_lags: int = 6000,
) -> list[np.ndarray]:
    """Sets of lags that are worth a trial: those that a screening finds, filled up and prolonged."""
    n, size = points.shape
    longest = min(longest_lag, size // 2)
    row, time = (cells[:rows_for_lags] for cells in _pairs(n, longest, size, rng))
    lags = np.arange(longest + 1)
    found = screen(theta[row], _lagged(points, row, time, lags), points[row, time], most_lags)
    if not len(found) or found.max() == 0:
        return [np.append(lags[found], 1)]
    # Screening sees lags that matter by themselves; a memory that fades is many that hardly do.
    filled = np.arange(1, min(found.max() + prolonged_by, longest) + 1)
    filled = np.concatenate([found[found == 0], filled])
    return [lags[found], filled] if found.max() > 1 and len(filled) > len(found) else [lags[found]]


def fit_series(
    theta: np.ndarray,
    points: np.ndarray,
    lags: np.ndarray,
    rng: np.random.Generator,
    effort: Effort | None = None,
    most_rows: int = 25_000,
) -> Series:
    """Fit one conditional to the values of all series."""
    # Shapes: theta (n, q); points (n, e); lags (l,).
    n, size = points.shape
    start = int(lags.max())
    # A value of a series is hardly independent of its neighbours: of the pooled ones some at random do.
    row, time = (cells[:most_rows] for cells in _pairs(n, start, size, rng))
    past = _lagged(points, row, time, lags)
    centre, scale = past.mean(axis=0), past.std(axis=0)
    inputs = Inputs(theta[row], (past - centre) / scale)
    # One for all values: more than for each of many.
    effort = effort or Effort(400, 2500, 4000, 100, 50)
    conditional = fit_conditional(inputs, points[row, time], rng, effort)
    return Series(conditional, tuple(map(int, lags)), start, size, centre, scale)


def _pairs(n: int, start: int, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Rows and times of pooled values from `start` on, in random order."""
    length = size - start
    cells = rng.permutation(n * length)
    return cells // length, start + cells % length


def _lagged(points: np.ndarray, row: np.ndarray, time: np.ndarray, lags: np.ndarray) -> np.ndarray:
    return np.column_stack([points[row, time - lag] if lag else time.astype(float) for lag in lags])


# --- the conditional of one statistic ---


@dataclass(frozen=True)
class Conditional:
    """y = centre + scale (mean(u) + deviation(u) z), for inputs u = (parameters, standardised past)."""

    mean: SmoothFunction
    log_variance: SmoothFunction
    shape: ResidualShape | ConditionalMixture
    range: tuple[float, float]
    centre: float
    scale: float
    noise: float = 0.0

    def standardised(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Residuals in units of their deviations, and the logs of these, both (k, r)."""
        if shared and xp is np:
            y = for_rows(y, len(theta))
        log_variance = self.log_variance(theta, past, xp, shared=shared)
        half = 0.5 * xp.clip(log_variance, *self.range)
        mean = self.mean(theta, past, xp, shared=shared)
        return ((y - self.centre) / self.scale - mean) * xp.exp(-half), half

    def log_density(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Log densities (k, r) of statistics (k, r), or of `shared` ones."""
        if hasattr(xp, "operation"):
            return xp.operation(self._slopes("density"), theta, y, y, y, past)
        z, log_deviation = self.standardised(theta, y, past, xp, shared=shared)
        if shared and xp is np:
            past = for_rows(past, len(theta))
        return self.shape.log_density(z, theta, past, xp) - log_deviation - float(np.log(self.scale))

    def log_mass(
        self,
        theta: Any,
        y: Any,
        ends: tuple[Any, Any],
        past: Any,
        xp: Any = np,
        *,
        shared: bool = False,
        between: bool = False,
    ) -> Any:
        """Log probabilities (k, r) of cells between `ends`; log densities at y where these are equal."""
        if hasattr(xp, "operation"):
            return xp.operation(self._slopes("either" if between else "mass"), theta, y, *ends, past)
        if shared and xp is np:
            y, *ends = (for_rows(each, len(theta)) for each in (y, *ends))  # type: ignore[assignment]
        z, half = self.standardised(theta, y, past, xp, shared=shared)
        # From the value on: an end may be so far off that differences from it lose their digits.
        unit = xp.exp(-half) / self.scale
        lower, upper = (z + (end - y) * unit for end in ends)
        if shared and xp is np:
            past = for_rows(past, len(theta))
        parts = self.shape.parts(theta, past, xp)
        if not between:
            return mixture_log_mass(parts, lower, upper, xp)
        cell = ends[1] > ends[0]
        inside = mixture_log_mass(parts, lower, xp.where(cell, upper, lower + 1.0), xp)
        density = log_densities(parts, xp.where(cell, 0.0, z), xp) - half - float(np.log(self.scale))
        return xp.where(cell, inside, density)

    def _slopes(self, kind: str) -> Any:
        """Values with their derivatives: densities, probabilities, or either by the ends of cells."""
        from pymc_kbr.estimators.likelihood.slopes import KINDS, ConditionalSlopes  # Numba is slow to import

        return ConditionalSlopes(self, KINDS[kind])

    def distribution(self, theta: np.ndarray, y: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k,) of statistics (k,) given parameters (k, q) and the past (k, l)."""
        z, _ = self.standardised(theta, y[:, None], past[:, None])
        return self.shape.distribution(z, theta, past[:, None])[:, 0]

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One statistic for each row of the inputs, shape (k,)."""
        inputs = Inputs(theta, past)
        deviation = np.exp(0.5 * np.clip(self.log_variance.at(inputs), *self.range))
        z = self.shape.draw(theta, past, rng)
        return self.centre + self.scale * (self.mean.at(inputs) + deviation * z)


def fit_conditional(
    inputs: Inputs,
    y: np.ndarray,
    rng: np.random.Generator,
    effort: Effort,
    rows_for_shape: int = 6000,
    before: Conditional | None = None,
    *,
    # Deviation of log scales among rows above which the mean is fitted with weights.
    least_uneven: float = 0.1,
    # How far log deviations go beyond those of the fitted rows.
    beyond: float = 0.5,
) -> Conditional:
    """Fit mean, spread and shape of one statistic, each to what the one before leaves of left-out rows."""
    # Kernels and noise are those of a fit `before`, and its log variances are the first guess.
    # Shapes: y (n,).
    if before is not None and before.noise:
        return _with_kernels_of(before, inputs, y, rng, effort, rows_for_shape, beyond)
    centre, scale = float(y.mean()), float(y.std())
    target = (y - centre) / scale
    landmarks = inputs.rows(rng.permutation(len(y))[: effort.landmarks])
    chosen = choose_kernel(inputs, target, rng, effort=effort)
    mean = fit_mean(WhitenedBasis(chosen[0], inputs, landmarks), target, chosen[1])
    basis, start = _spread_basis(inputs, landmarks, _squares(target - mean.left_out), rng, effort)
    rows = rng.permutation(len(y))[: effort.rows_for_final_kernel]
    basis, log_variance = _choose_size(basis, _squares(target - mean.left_out), start, rows)
    # Only ratios count: the factor is the noise of the next choice of a kernel.
    deviations = np.exp(0.5 * (log_variance.left_out - np.mean(log_variance.left_out)))
    if np.std(np.log(deviations)) > least_uneven:
        # Once more, now that it is known where residuals are small.
        chosen = choose_kernel(inputs, target, rng, deviations=deviations, start=chosen, effort=effort)
        mean = fit_mean(WhitenedBasis(chosen[0], inputs, landmarks), target, chosen[1] * deviations**2)
        log_variance = fit_log_variance(basis, _squares(target - mean.left_out), log_variance.left_out)
    unit = centre, scale, chosen[1]
    return _with_shape(inputs, target, mean, log_variance, unit, rng, rows_for_shape, beyond)


def _with_kernels_of(
    before: Conditional,
    inputs: Inputs,
    y: np.ndarray,
    rng: np.random.Generator,
    effort: Effort,
    rows_for_shape: int,
    beyond: float,
) -> Conditional:
    """The same with kernels, noise and units of a fit to other rows."""
    target = (y - before.centre) / before.scale
    landmarks = inputs.rows(rng.permutation(len(y))[: effort.landmarks])
    start = np.clip(before.log_variance.at(inputs), *before.range)
    noise = before.noise * np.exp(start - np.mean(start))
    mean = fit_mean(WhitenedBasis(before.mean.kernel, inputs, landmarks), target, noise)
    basis = WhitenedBasis(before.log_variance.kernel, inputs, landmarks)
    log_variance = fit_log_variance(basis, _squares(target - mean.left_out), start)
    unit = before.centre, before.scale, before.noise
    return _with_shape(inputs, target, mean, log_variance, unit, rng, rows_for_shape, beyond)


def _with_shape(
    inputs: Inputs,
    target: np.ndarray,
    mean: SmoothFit,
    log_variance: SmoothFit,
    unit: tuple[float, float, float],
    rng: np.random.Generator,
    rows_for_shape: int,
    beyond: float,
    *,
    # From which a shape has twice as many parts and functions; tests/statistical/moving_shapes.csv.
    rows_for_twice: int = 15_000,
) -> Conditional:
    """A conditional with the shape of the residuals of left-out rows; `unit` is centre, scale and noise."""
    g = log_variance.left_out
    z = (target - mean.left_out) * np.exp(-0.5 * g)
    rows = min(rows_for_shape, len(z))
    capacity = 2 if rows >= rows_for_twice else 1
    shape = fit_conditional_mixture(
        fit_shape(z, rng), inputs, z, rng, searched=rows, learnt=rows, capacity=capacity
    )
    # Of log variances, which go twice as far as log deviations.
    limits = (float(g.min()) - 2 * beyond, float(g.max()) + 2 * beyond)
    return Conditional(mean.function, log_variance.function, shape, limits, *unit)


def _spread_basis(
    inputs: Inputs, landmarks: Inputs, squares: np.ndarray, rng: np.random.Generator, effort: Effort
) -> tuple[WhitenedBasis, np.ndarray]:
    """A basis for log variances, by a regression of log squares, and a first guess of them (n,)."""
    # The logarithm of a squared normal lies below that of its variance by a constant, on average.
    logs = np.log(squares) + LOG_CHI_SQUARE
    constant, unit = logs.mean(), logs.std()
    standard = (logs - constant) / unit
    kernel, noise = choose_kernel(inputs, standard, rng, effort=effort)
    basis = WhitenedBasis(kernel, inputs, landmarks)
    v = cho_solve((mean_factor(basis, noise), True), basis.features.T @ standard / noise)
    return basis.larger(unit), constant + unit * (basis.features @ v)


def _choose_size(
    basis: WhitenedBasis, squares: np.ndarray, start: np.ndarray, rows: np.ndarray
) -> tuple[WhitenedBasis, SmoothFit]:
    """Log variances in a prior of the size under which left-out ones of some rows are likeliest."""
    of_some = squares[rows]

    def score(left_out: np.ndarray) -> float:
        return -float(np.mean(left_out + of_some * np.exp(-left_out)))

    def fit(size: WhitenedBasis, first: np.ndarray) -> SmoothFit:
        return fit_log_variance(size, of_some, first)

    found, _ = choose_size(basis.of_rows(rows), fit, start[rows], score)
    chosen = basis.larger(np.sqrt(found.kernel.level / basis.kernel.level))
    return chosen, fit_log_variance(chosen, squares, start)


def _squares(residuals: np.ndarray) -> np.ndarray:
    """Squared residuals, none so near to zero that its logarithm would weigh more than all others."""
    squares = residuals**2
    return np.maximum(squares, 1e-6 * np.median(squares) + 1e-300)
