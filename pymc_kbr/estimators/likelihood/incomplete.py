"""Observations of which some statistics are missing, or known to lie beyond a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.estimators.likelihood.autoregressive import Autoregressive
from pymc_kbr.estimators.likelihood.categorical import Categorical, Hurdles
from pymc_kbr.estimators.likelihood.evaluation import NO_END, Evaluation, integrated_out
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.location_scale import LocationScale
from pymc_kbr.estimators.likelihood.shared_total import Left, PartOf
from pymc_kbr.estimators.likelihood.structure import column_of
from pymc_kbr.estimators.summaries.transformed import EVEN, FAR, Cells, Grid, Transformed

CELLS = 64
"""Into which the range of a statistic that later ones depend on is cut: a tenth of a deviation wide."""


class Limits(NamedTuple):
    """Where statistics are censored: a value at a limit says that it lies there or beyond."""

    # Shapes: lower, upper () or (n,), by the number of a statistic.
    lower: dict[int, np.ndarray]
    upper: dict[int, np.ndarray]
    size: int

    @classmethod
    def of(cls, censored: Any, names: Sequence[str] | None, size: int) -> Limits:
        """Of the argument: from statistics, by names or columns, to pairs of a lower and an upper limit."""
        example = "censored={'rt': (None, 1.5)}"
        if not isinstance(censored, Mapping):
            raise TypeError(
                f"censored is {shown(censored)}; it must be a dict from statistics to pairs of a lower and "
                f"an upper limit, each a number, one a trial, or None, such as {example}"
            )
        found = cls({}, {}, size)
        for statistic, pair in censored.items():
            column = column_of(statistic, names, size, "a statistic of censored")
            if not isinstance(pair, tuple | list) or len(pair) != 2 or all(each is None for each in pair):
                raise TypeError(
                    f"censored has the entry {shown(statistic)}: {shown(pair)}; it must be a pair of a lower "
                    f"and an upper limit, one of which may be None, such as {example}"
                )
            for given, limits in zip(pair, (found.lower, found.upper), strict=True):
                if given is None:
                    continue
                try:
                    limit = np.asarray(given, dtype=float)
                except (TypeError, ValueError):
                    limit = np.full((1, 1), np.nan)
                if limit.ndim > 1 or np.any(np.isnan(limit)):
                    raise TypeError(
                        f"a limit of {statistic!r} in censored is {shown(given)}; it must be a number, or "
                        "one a trial"
                    )
                limits[column] = limit
            low, high = (
                limits.get(column, far) for limits, far in ((found.lower, -np.inf), (found.upper, np.inf))
            )
            if np.any(low >= high):
                raise ValueError(f"the lower limit of {statistic!r} in censored is not below the upper")
        return found

    @property
    def columns(self) -> tuple[int, ...]:
        """Numbers of the statistics that have a limit."""
        return tuple(sorted({*self.lower, *self.upper}))

    def check(self, observed: np.ndarray, what: str, names: Sequence[str] | None = None) -> None:
        """Refuse observations (n, d) beyond the limits, and those of which it is not known."""
        for column in self.columns:
            x, name = observed[:, column], repr(names[column]) if names else f"column {column}"
            # Left out in silence, trials beyond a deadline would spoil all others.
            if np.any(np.isnan(x)):
                raise ValueError(
                    f"{what} is NaN in row {np.flatnonzero(np.isnan(x))[0]} of {name}, which is censored: a "
                    "value beyond a limit is given as the limit; leave out a row whose value is lost"
                )
            for limits, side in ((self.lower, -1), (self.upper, 1)):
                if column not in limits:
                    continue
                limit = limits[column]
                if limit.ndim and limit.shape != x.shape:
                    raise ValueError(
                        f"censored has {len(limit)} limits of {name}, and {what} has {len(x)} rows; give a "
                        "number, or one a row"
                    )
                beyond = np.flatnonzero(side * (x - limit) > 0)
                if len(beyond):
                    raise ValueError(
                        f"{what} is {x[beyond[0]]:.6g} in row {beyond[0]} of {name}, beyond its limit "
                        f"{np.broadcast_to(limit, x.shape)[beyond[0]]:.6g}; a value beyond a limit is "
                        "given as the limit"
                    )

    def bounds(self, observed: Any, xp: Any = np) -> tuple[Any, Any]:
        """Between which values observations (n, d) lie: equal ones where a statistic is observed."""
        found = []
        for limits, far, side in ((self.lower, -np.inf, -1), (self.upper, np.inf, 1)):
            columns = []
            for j in range(self.size):
                x = observed[:, j]
                hidden = xp.isnan(x)
                if j in limits:
                    hidden = hidden | (side * (x - limits[j]) >= 0)
                columns.append(xp.where(hidden, far, x))
            found.append(xp.stack(columns, axis=1))
        return found[0], found[1]

    def clipped(self, drawn: np.ndarray) -> np.ndarray:
        """Draws (..., n, d), those beyond a limit at it."""
        for limits, clip in ((self.lower, np.maximum), (self.upper, np.minimum)):
            for column, limit in limits.items():
                drawn[..., column] = clip(drawn[..., column], limit)
        return drawn


class Part(NamedTuple):
    """Some of the observations, and the evaluation that they have: others of their statistics are missing."""

    # Shapes: rows (m,), numbers of the observations.
    evaluation: Evaluation
    rows: np.ndarray
    prepared: Prepared


def parts_of(evaluation: Evaluation, lower: np.ndarray, upper: np.ndarray, raw: np.ndarray) -> list[Part]:
    """Observations, each between two ends (n, d), by which of their statistics are hidden."""
    varies = evaluation.of_statistics.kept
    missing = np.isneginf(lower) & np.isposinf(upper)
    hidden = lower < upper
    # What never varies says nothing, whether it is there or not.
    pattern = np.where(missing, 2, np.where(hidden, 1, 0)) * varies
    found = []
    patterns, which = np.unique(pattern, axis=0, return_inverse=True)
    for number, each in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == number)
        if not np.any(each[varies] < 2):
            continue
        gone, cut = np.flatnonzero(each == 2), np.flatnonzero(each == 1)
        part = part_evaluation(evaluation, gone, cut)
        if not len(gone) and not len(cut):
            found.append(Part(part, rows, part.prepare(lower[rows])))
        else:
            found.append(Part(part, rows, prepare_between(part, gone, cut, lower[rows], upper[rows], raw)))
    return found


def part_evaluation(evaluation: Evaluation, missing: np.ndarray, censored: np.ndarray) -> Evaluation:
    """The evaluation of observations of which some statistics, by their numbers, are hidden."""
    if not len(missing) and not len(censored):
        return evaluation
    form, summary = evaluation.form, evaluation.of_statistics
    there = np.setdiff1d(np.arange(summary.size), missing)
    if isinstance(summary, Transformed):
        by_cells = isinstance(form, LocationScale) and len(form.whiten) == 1
        if by_cells or (isinstance(form, Autoregressive) and form.series is None):
            return _with_cells(evaluation, np.concatenate([missing, censored]))
        if len(censored) == 1 and isinstance(form, LocationScale):
            found = integrated_out(evaluation, there, censored=int(censored[0]))
            assert found is not None
            return found
    if not len(censored) and (found := integrated_out(evaluation, there)) is not None:
        return found
    raise ValueError(
        f"statistics are {'censored' if len(censored) else 'missing'} in some observations, and the "
        f"likelihood has the form {type(form).__name__}, which does not allow that"
        + (" of several at once" if len(censored) > 1 else "")
        + '; fit `KernelLikelihood("autoregressive")`'
    )


def _with_cells(evaluation: Evaluation, columns: np.ndarray) -> Evaluation:
    """The same, where continuous statistics of these numbers may have masses between two ends."""
    form, summary = evaluation.form, evaluation.of_statistics
    assert isinstance(summary, Transformed)
    assert isinstance(form, Autoregressive | LocationScale)
    grids: list[Grid | None] = list(form.grids or (None,) * len(summary.curves))
    for place in (np.cumsum(summary.kept) - 1)[columns[summary.kept[columns]]].tolist():
        categorical = isinstance(form, Autoregressive) and isinstance(form.conditionals[place], Categorical)
        if grids[place] is None and not categorical:
            grids[place] = summary.everywhere(place)
    return replace(evaluation, form=replace(form, grids=tuple(grids) if any(grids) else ()))


class Node(NamedTuple):
    """A piece of the range of a hidden statistic: a value in it, its ends, and where it is empty."""

    # Shapes: all (n,); in the statistic's own units.
    value: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    empty: np.ndarray


def prepare_between(
    part: Evaluation,
    missing: np.ndarray,
    censored: np.ndarray,
    lower: np.ndarray,
    upper: np.ndarray,
    raw: np.ndarray,
) -> Prepared:
    """Observations between two ends (n, d) in the units of an evaluation that has these hidden."""
    summary = part.of_statistics
    if summary.size < lower.shape[1]:  # what is missing was integrated out
        there = np.setdiff1d(np.arange(lower.shape[1]), missing)
        censored, missing = np.flatnonzero(np.isin(there, censored)), missing[:0]
        lower, upper, raw = lower[:, there], upper[:, there], raw[:, there]
    if not isinstance(summary, Transformed):
        return part.prepare(lower)
    filled = np.where(lower == upper, lower, raw[len(raw) // 2])
    places = np.cumsum(summary.kept) - 1
    hidden = [int(column) for column in (*missing, *censored) if summary.kept[column]]
    says = {int(places[c]) for c in range(summary.size) if summary.kept[c] and c not in missing}
    needed = _needed(part.form, says)
    rests = _rests(part.form, np.flatnonzero(summary.kept), hidden)
    nodes = [
        [Node(filled[:, c], lower[:, c], upper[:, c], np.zeros(len(filled), dtype=bool))]
        if c in rests
        else _nodes(part, int(places[c]), (lower[:, c], upper[:, c]), raw[:, c], int(places[c]) in needed)
        for c in hidden
    ]
    return _joined(part, hidden, filled, nodes, rests)


class Rest(NamedTuple):
    """What other columns leave of a total, in the statistics' units."""

    columns: list[int]
    total: float
    unit: float

    def of(self, rows: np.ndarray) -> np.ndarray:
        """Of rows (n, d), of which the others are there, shape (n,)."""
        number: np.ndarray = np.round((self.total - rows[:, self.columns].sum(axis=1)) / self.unit)
        return number * self.unit


def _rests(form: Any, columns: np.ndarray, hidden: list[int]) -> dict[int, Rest]:
    """Of each total the last hidden count: whatever the others are, it is the rest."""
    # Shapes: columns (e,), of the places of the form.
    found: dict[int, Rest] = {}
    if not isinstance(form, Autoregressive):
        return found
    for j, (conditional, past) in enumerate(zip(form.conditionals, form.pasts, strict=True)):
        if not isinstance(conditional, PartOf) or conditional.logit is not None:
            continue
        assert isinstance(past, Left)
        members = columns[[*past.members, j]].tolist()
        unknown = [c for c in members if c in hidden]
        if unknown:
            unit = conditional.grid.cells.spacing
            others = [c for c in members if c != unknown[-1]]
            found[unknown[-1]] = Rest(others, past.total * unit, unit)
    return found


def _needed(form: Any, says: set[int]) -> set[int]:
    """Places of the statistics that those which say something, or are needed, were learnt given."""
    needed: set[int] = set()
    if isinstance(form, Autoregressive):
        for j in reversed(form.order or range(len(form.pasts))):
            if j in says or j in needed:
                needed |= set(form.pasts[j].columns)
    return needed


def _nodes(
    part: Evaluation, place: int, ends: tuple[np.ndarray, np.ndarray], simulated: np.ndarray, needed: bool
) -> list[Node]:
    """The pieces of a hidden statistic's range (n,), whose probabilities are summed."""
    form, summary = part.form, part.of_statistics
    assert isinstance(summary, Transformed)
    low, high = ends
    conditional = form.conditionals[place] if isinstance(form, Autoregressive) else None
    if isinstance(conditional, PartOf):
        unit = conditional.grid.cells.spacing
        assert isinstance(form, Autoregressive)
        left = form.pasts[place]
        assert isinstance(left, Left)
        values = [np.full(len(low), unit * count) for count in range(left.total + 1)]
        near = EVEN * unit
        inside = [(v >= low - near) & (v <= high + near) for v in values]
        found = [Node(v, v, v, ~there) for v, there in zip(values, inside, strict=True)]
        return [node for node in found if not np.all(node.empty)] or found[:1]
    if isinstance(conditional, Categorical):
        values = [np.full(len(low), value) for value in conditional.levels.values]
        return [Node(v, v, v, ~((v >= low) & (v <= high))) for v in values]
    cells = summary.cells[place]
    if cells is not None and not cells.between:
        found = _of_lattice(cells, low, high, simulated, needed or isinstance(conditional, Hurdles))
    elif needed:
        found = _in_pieces(part, place, low, high, simulated)
    else:
        found = [Node(_within(np.median(simulated), low, high), low, high, np.zeros(len(low), dtype=bool))]
    seen, first = low == high, found[0]
    value, lower, upper = (np.where(seen, low, each) for each in (first.value, first.lower, first.upper))
    rest = [node._replace(empty=node.empty | seen) for node in found[1:]]
    return [Node(value, lower, upper, first.empty & ~seen), *rest]


def _within(value: Any, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """A value, or the finite end that it is beyond."""
    return np.minimum(np.maximum(value, low), high)


def _in_pieces(
    part: Evaluation, place: int, low: np.ndarray, high: np.ndarray, simulated: np.ndarray
) -> list[Node]:
    """Pieces of a continuous statistic that are even in the coordinates of the fit, and what is beyond."""
    summary = part.of_statistics
    assert isinstance(summary, Transformed)
    # What is structured stays in its own units, in which there is no curve.
    curve = summary.curves[place]
    unit, scale = float(simulated.std()), float(summary.scaler.scale[place])
    forward, backward = (
        (lambda x: x / unit, lambda y: y * unit)
        if place in part._places
        else (lambda x: curve.forward(x) / scale, lambda y: curve.backward(y * scale))
    )
    ends = forward(np.array([simulated.min(), simulated.max()]))
    first = np.where(np.isfinite(low), forward(np.where(np.isfinite(low), low, simulated.min())), ends[0] - 1)
    first = np.where(np.isfinite(first), first, ends[0] - 1)
    beyond = np.maximum(ends[1] + 1, first + 2)
    last = np.where(np.isfinite(high), forward(np.where(np.isfinite(high), high, simulated.max())), beyond)
    at = first + (last - first) * np.linspace(0, 1, 2 * CELLS + 1)[:, None]
    at = _within(backward(at), low, high)
    cuts = at[::2]
    cuts[0], cuts[-1] = low, high
    return [Node(value, a, b, ~(b > a)) for a, b, value in zip(cuts[:-1], cuts[1:], at[1::2], strict=True)]


def _of_lattice(
    cells: Cells, low: np.ndarray, high: np.ndarray, simulated: np.ndarray, each: bool
) -> list[Node]:
    """Of a discrete statistic: `each` value, several of the high ones together; or all of them together."""
    if cells.spacing:
        steps = round(float(np.ptp(simulated)) / cells.spacing)
        values = simulated.min() + cells.spacing * np.arange(steps + 1)
        # Limits between two values are those at the next one.
        low = values[0] + cells.spacing * np.ceil((low - values[0]) / cells.spacing - EVEN)
        high = values[0] + cells.spacing * np.floor((high - values[0]) / cells.spacing + EVEN)
    else:
        values = np.unique(simulated)
    groups = [values]
    if each:
        rest = values[CELLS:]
        groups = [values[i : i + 1] for i in range(min(CELLS, len(values)))]
        groups += [group for group in np.array_split(rest, CELLS) if len(group)]
    found = []
    for i, group in enumerate(groups):
        a = np.maximum(low, -np.inf if i == 0 else group[0])
        b = np.minimum(high, np.inf if i == len(groups) - 1 else group[-1])
        value = _within(group[len(group) // 2], a, b)
        found.append(Node(cells.nearest(value), a, b, ~(b >= a)))
    return found


def _joined(
    part: Evaluation,
    hidden: list[int],
    filled: np.ndarray,
    nodes: list[list[Node]],
    rests: Mapping[int, Rest],
) -> Prepared:
    """Observations (n, d) at all combinations of the pieces, whose likelihoods are summed."""
    summary = part.of_statistics
    assert isinstance(summary, Transformed)
    places, grids, own = np.cumsum(summary.kept) - 1, part._grids, part._places
    celled = [j for j, grid in enumerate(grids) if grid is not None]
    q, g = int(summary.kept.sum()), len(celled)
    points: list[np.ndarray] = []
    volumes: list[np.ndarray] = []
    for combination in product(*nodes):
        rows = np.array(filled)
        chosen = list(combination)
        for column, node in zip(hidden, chosen, strict=True):
            rows[:, column] = node.value
        for number, column in enumerate(hidden):
            if column in rests:
                _, low, high, _ = chosen[number]
                value = rests[column].of(rows)
                near = EVEN * rests[column].unit
                wrong = (value < np.maximum(low, 0) - near) | (value > high + near)
                rows[:, column] = value = np.where(wrong, rows[:, column], value)
                chosen[number] = Node(value, value, value, wrong)
        if points and np.all(np.any([node.empty for node in chosen], axis=0)):
            continue
        at, volume = summary.points(rows, part._levels(), own, grids)
        for j in set(own) & set(celled):  # what is structured has its ends in its own units
            k = q + celled.index(j)
            at[:, 0, k] = at[:, 0, k + g] = at[:, 0, j]
        for column, node in zip(hidden, chosen, strict=True):
            j = int(places[column])
            volume = np.where(node.empty[:, None], -np.inf, volume)
            if j not in celled:
                continue  # a level, whose probability this is
            k, inside = q + celled.index(j), (node.upper > node.lower) & ~node.empty
            if j in own:
                ends = np.nan_to_num(node.lower, neginf=-NO_END), np.nan_to_num(node.upper, posinf=NO_END)
            else:
                grid = grids[j]
                assert grid is not None
                # The volume of a value that has a density is none of its piece.
                alone = np.subtract(*grid.ends(node.value)) == 0
                slope = grid.curve.log_slope(node.value) - np.log(summary.scaler.scale[j])
                volume = volume - np.where(inside & alone, slope, 0.0)[:, None]
                ends = _ends(grid, node)
            for place, end in zip((k, k + g), ends, strict=True):
                at[:, 0, place] = np.where(inside, end, at[:, 0, place])
        points.append(at)
        volumes.append(volume)
    count = np.log(len(points))
    return Prepared(np.concatenate(points, axis=1), np.concatenate(volumes, axis=1) + count)


def _ends(grid: Grid, node: Node) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates of the ends of pieces (n,)."""
    found = []
    for side, end, far in ((0, node.lower, -FAR), (1, node.upper, FAR)):
        at = grid.ends(np.where(np.isfinite(end), end, node.value))[side]
        # Below the lowest value of a curve there is nothing.
        found.append(np.where(np.isfinite(end), np.where(np.isnan(at), -FAR, at), far))
    return found[0], found[1]
