"""Declared structure: parameters that shift, scale or bound a statistic, and need not be learnt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.dependence import independence_pvalue
from pymc_kbr.arrays.names import Names
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.estimators.summaries.transformed import Cells

KINDS = ("shift", "scale", "lower", "upper")


class Declared(NamedTuple):
    """What the arguments of a `KernelLikelihood` say: of statistics a parameter, or the number of an edge."""

    shift: dict[Any, Any]
    scale: dict[Any, Any]
    lower: dict[Any, Any]
    upper: dict[Any, Any]

    @classmethod
    def of(cls, shift: Any, scale: Any, lower: Any, upper: Any) -> Declared:
        """The arguments, refused where they have another type."""
        found = []
        for kind, given in zip(KINDS, (shift, scale, lower, upper), strict=True):
            edge = kind in ("lower", "upper")
            value = "a parameter or a number" if edge else "a parameter"
            if not isinstance(given, Mapping | None):
                raise TypeError(
                    f"{kind} is {shown(given)}; it must be a dict from statistics to {value}, such as "
                    f"{kind}={{'rt': 't0'}}"
                )
            for statistic, of in (given or {}).items():
                if not _is_column(statistic) or not (_is_column(of) or (edge and isinstance(of, float))):
                    several = isinstance(of, list | tuple)
                    few = "; a statistic has one of each kind" if several else ""
                    raise TypeError(
                        f"{kind} has the entry {shown(statistic)}: {shown(of)}; it must be the name, or the "
                        f"column, of a statistic and {value}{few}"
                    )
                if isinstance(of, float) and not np.isfinite(of):
                    raise ValueError(f"{kind} of {statistic!r} is {of}; leave out an edge that is infinite")
            found.append(dict(given or {}))
        return cls(*found)

    def __bool__(self) -> bool:
        return any(map(len, self))

    @classmethod
    def nothing(cls) -> Declared:
        """Of no statistic."""
        return cls({}, {}, {}, {})

    def of_columns(self, columns: np.ndarray) -> Declared:
        """Of some of the statistics, by their numbers, in this order."""
        numbers = columns.tolist()
        return Declared(*({i: each[c] for i, c in enumerate(numbers) if c in each} for each in self))

    def by_names(self, names: Names) -> dict[str, dict[Any, Any]]:
        """The arguments that declare the same of columns, which are numbered here."""

        def parameter(column: int) -> Any:
            return column if names.parameters is None else names.parameters[column]

        def statistic(column: int) -> Any:
            return column if names.statistics is None else names.statistics[column]

        return {
            kind: {statistic(column): parameter(number) for column, number in given.items()}
            for kind, given in zip(KINDS, self, strict=True)
            if given
        }


def _is_column(value: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    return whole or isinstance(value, str)


def column_of(name: Any, names: Sequence[str] | None, count: int, what: str) -> int:
    """The number of a column that is named, or numbered."""
    if isinstance(name, str):
        if names is None:
            raise ValueError(
                f"{what} is {name!r}, and the columns have no names: fit to a table or to data frames, or "
                "give the number of the column"
            )
        if name not in names and f"{name}[0]" in names and f"{name}[1]" not in names:
            name = f"{name}[0]"  # the one column of a variable
        if name not in names:
            raise ValueError(f"{what} is {name!r}, which the table lacks; it has {list(names)}")
        return list(names).index(name)
    if not 0 <= name < count:
        raise ValueError(f"{what} is column {name}; there are {count}, from 0 to {count - 1}")
    return int(name)


# --- what a table shows ---


def candidates(
    statistics: np.ndarray,
    parameters: np.ndarray,
    *,
    # Rows by which most pairs of parameters are passed over, before all rows are tested.
    first_rows: int = 1_000,
) -> Declared:
    """Shifts and scales that no row of statistics (n, d) and parameters (n, p) contradicts."""
    # A continuous statistic depends on the parameters, and no longer does once they are taken off.
    found = Declared.nothing()
    for column, x in enumerate(statistics.T):
        if np.ptp(x) == 0 or Cells.of(x) is not None:
            continue
        best: tuple[bool, float] = (False, NOT_UNIFORM)
        for y, moves in _reduced(x, parameters):
            numbers = list(moves.values())
            pair = len(numbers) > 1
            if pair and _independent(y, parameters, numbers, first_rows) < NOT_UNIFORM:
                continue
            pvalue = _independent(y, parameters, numbers)
            # Two parameters explain more than one of them.
            if pvalue >= NOT_UNIFORM and (pair, pvalue) >= best:
                best = (pair, pvalue)
                for kind in ("shift", "scale"):
                    getattr(found, kind).pop(column, None)
                    if kind in moves:
                        getattr(found, kind)[column] = moves[kind]
    return found


def _reduced(x: np.ndarray, parameters: np.ndarray) -> Iterator[tuple[np.ndarray, dict[str, int]]]:
    """A statistic (n,) without a shift, a scale, or both, by some parameters, where every row allows it."""

    def depends(y: np.ndarray, j: int) -> bool:
        return independence_pvalue(y, parameters[:, j]) < NOT_UNIFORM

    by = [j for j in range(parameters.shape[1]) if depends(x, j)]
    scales = np.flatnonzero(np.all(parameters > 0, axis=0)).tolist()
    for j in by:
        theta, rest = parameters[:, j], x - parameters[:, j]
        if np.all(x > theta) or np.all(x < theta):
            yield rest, {"shift": j}
        # A scale shows itself in what a shift leaves, where it may not in the statistic.
        for i in scales:
            if i != j and depends(rest, i):
                yield rest / parameters[:, i], {"shift": j, "scale": i}
        if j in scales:
            yield x / theta, {"scale": j}


def _independent(y: np.ndarray, parameters: np.ndarray, numbers: Sequence[int], rows: int = 10_000) -> float:
    """The smallest p-value of the independence of y (n,) from some parameters, given all others."""
    return min(
        min(
            independence_pvalue(y, parameters[:, j], besides, rows_tested=rows)
            for besides in (None, np.delete(parameters, j, axis=1))
        )
        for j in numbers
    )


# --- what is declared, of the columns of a table ---


@dataclass(frozen=True, eq=False)
class Structure:
    """Statistics x that enter as (x - origin) / width, both linear in the parameters, and their ranges.

    Parameters
    ----------
    columns : ndarray of int, shape (m,)
        Numbers of these among all d statistics.
    origin, width : ndarray of shape (1 + p, m)
        Coefficients of one and of the parameters.
    signs : ndarray of shape (m,)
        Of the widths.
    ranges : tuple of str, length m
        Where (x - origin) / width lies: "line", "positive" or "unit".
    free : ndarray of bool, shape (d, p)
        Whether a statistic, once it is in these units, may depend on a parameter still.
    edges : dict of int to pair of float
        Lowest and highest value of a statistic that stays in its units, of which the edges are numbers.
    """

    columns: np.ndarray
    origin: np.ndarray
    width: np.ndarray
    signs: np.ndarray
    ranges: tuple[str, ...]
    free: np.ndarray
    edges: dict[int, tuple[float, float]]
    fitted: np.ndarray | None = None
    """Numbers of the parameters that a form was fitted to, of some of whose statistics this is."""

    @classmethod
    def of(cls, declared: Declared, names: Names, p: int, d: int) -> Structure:
        """Of p parameters and d statistics, by their names."""
        rules: dict[int, dict[str, Any]] = {}
        for kind, given in zip(KINDS, declared, strict=True):
            for statistic, of in given.items():
                column = column_of(statistic, names.statistics, d, f"a statistic of {kind}")
                rule = rules.setdefault(column, {})
                if kind in rule:
                    raise ValueError(
                        f"the statistic {names.statistic(column)} has two entries in {kind}; give one"
                    )
                rule[kind] = (
                    float(of)
                    if kind in ("lower", "upper") and not isinstance(of, str)
                    else column_of(of, names.parameters, p, f"{kind} of {names.statistic(column)}")
                )
        free, edges = np.ones((d, p), dtype=bool), {}
        found: list[tuple[int, np.ndarray, np.ndarray, float, str]] = []
        for column, rule in sorted(rules.items()):
            name = names.statistic(column)
            _check_rule(rule, name)
            shift, scale, lower, upper = (rule.get(kind) for kind in KINDS)
            free[column, [each for each in (shift, scale) if each is not None]] = False
            if shift is None and scale is None and not any(type(edge) is int for edge in (lower, upper)):
                edges[column] = (
                    -np.inf if lower is None else float(lower),
                    np.inf if upper is None else float(upper),
                )
            zero, one = np.zeros(1 + p), _linear(1.0, p)
            width, sign, kind = one if scale is None else _linear(scale, p), 1.0, "line"
            origin = zero if shift is None else _linear(shift, p)
            if lower is not None and upper is not None:
                origin, kind = _linear(lower, p), "unit"
                width = _linear(upper, p) - origin
            elif lower is not None:
                origin, kind = _linear(lower, p), "positive"
            elif upper is not None:
                origin, kind, width, sign = _linear(upper, p), "positive", -width, -1.0
            found.append((column, origin, width, sign, kind))
        columns, origins, widths, signs, kinds = zip(*found, strict=True)
        return cls(
            np.array(columns), np.array(origins).T, np.array(widths).T, np.array(signs), kinds, free, edges
        )

    def without(self, columns: Sequence[int]) -> Structure:
        """The same without some of its statistics, by their numbers among all: these stay in their units."""
        kept = ~np.isin(self.columns, columns)
        return Structure(
            self.columns[kept],
            self.origin[:, kept],
            self.width[:, kept],
            self.signs[kept],
            tuple(kind for kind, each in zip(self.ranges, kept, strict=True) if each),
            self.free,
            self.edges,
        )

    def with_curves(self, kinds: Mapping[int, str]) -> Structure:
        """The same where curves, by the statistics' numbers, have an end that was not declared."""
        ranges = tuple(
            "positive" if kinds[int(column)] in ("log", "softplus") else kind
            for column, kind in zip(self.columns, self.ranges, strict=True)
        )
        return replace(self, ranges=ranges)

    def of_columns(self, columns: np.ndarray) -> Structure:
        """Of some of the statistics, by their numbers, in this order."""
        places = {int(column): place for place, column in enumerate(self.columns)}
        rows = [places[int(c)] for c in columns if int(c) in places]
        return Structure(
            np.array([i for i, c in enumerate(columns) if int(c) in places], dtype=int),
            self.origin[:, rows],
            self.width[:, rows],
            self.signs[rows],
            tuple(self.ranges[row] for row in rows),
            self.free[columns],
            {i: self.edges[int(c)] for i, c in enumerate(columns) if int(c) in self.edges},
            self.used,
        )

    @property
    def used(self) -> np.ndarray:
        """Numbers of the parameters on which some statistic may depend still."""
        if self.fitted is not None:
            return self.fitted
        return np.flatnonzero(self.free.any(axis=0))

    def inputs(self, kept: np.ndarray) -> tuple[tuple[int, ...], ...]:
        """Of each statistic that is kept (d,) the places of its parameters among those `used`."""
        free = self.free[kept][:, self.used]
        if free.all():
            return ()
        return tuple(tuple(np.flatnonzero(row).tolist()) for row in free)

    @property
    def size(self) -> int:
        """How many numbers `affine` has of each set of parameters."""
        return 2 * len(self.columns)

    def affine(self, parameters: Any, xp: Any = np) -> Any:
        """Origins and widths at parameters (k, p), side by side: shape (k, 2 m)."""
        both = np.hstack([self.origin, self.width])
        return xp.dot(parameters, both[1:]) + both[0]

    def reduced(self, statistics: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Statistics (n, d) of parameters (n, p) in these units."""
        m = len(self.columns)
        found, affine = np.array(statistics, dtype=float), self.affine(parameters)
        found[:, self.columns] = (found[:, self.columns] - affine[:, :m]) / affine[:, m:]
        return found

    def restored(self, reduced: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Statistics (n, d) in the user's units."""
        m = len(self.columns)
        found, affine = np.array(reduced, dtype=float), self.affine(parameters)
        found[:, self.columns] = affine[:, :m] + found[:, self.columns] * affine[:, m:]
        return found

    def check_rows(self, statistics: np.ndarray, parameters: np.ndarray, names: Names) -> None:
        """Refuse a table with values beyond the edges, or scales that are not positive."""
        m, affine = len(self.columns), self.affine(parameters)
        for place, column in enumerate(self.columns.tolist()):
            name, origin, width = names.statistic(column), affine[:, place], affine[:, m + place]
            x, signed = statistics[:, column], width * self.signs[place]
            if np.ptp(x) == 0:
                raise ValueError(
                    f"the statistic {name} is {x[0]:.6g} in every simulation; nothing shifts, scales or "
                    "bounds it: leave it out"
                )
            if np.any(signed <= 0):
                what = (
                    "its upper edge is not above its lower one"
                    if self.ranges[place] == "unit"
                    else ("its scale is not above zero")
                )
                raise ValueError(
                    f"in {np.sum(signed <= 0)} rows of the table {what} for the statistic {name} (row "
                    f"{np.flatnonzero(signed <= 0)[0]}); a scale must be positive, and edges in order"
                )
            if self.ranges[place] == "line":
                continue
            y = (x - origin) / width
            # A value of a lattice may be its edge; where there is a density there is none at the edge itself.
            off = (y < 0) | (y > 1) if self.ranges[place] == "unit" else y < 0
            if column not in self.edges:
                off |= (y == 0) | (y == 1) if self.ranges[place] == "unit" else y == 0
            if np.any(off):
                row = int(np.flatnonzero(off)[0])
                raise ValueError(
                    f"the statistic {name} lies on or beyond its edge in {off.sum()} of {len(x)} simulations "
                    f"(row {row}: {x[row]:.6g}, where the edges are "
                    f"{_edges_in_words(self.ranges[place], origin[row], width[row])}); the edge is another "
                    "one, or another parameter's"
                )

    def impossible(
        self, lower: np.ndarray, upper: np.ndarray, lowest: np.ndarray, highest: np.ndarray
    ) -> np.ndarray:
        """Which observations (k,), between ends (k, d), lie beyond the edges at all simulated parameters."""
        off = np.zeros(len(lower), dtype=bool)
        for column, (low, high) in self.edges.items():
            off |= (upper[:, column] < low) | (lower[:, column] > high)
        ends = np.stack([lowest, highest])
        for place, column in enumerate(self.columns):
            if self.ranges[place] == "line" or int(column) in self.edges:
                continue
            origin = self.origin[:, place]
            far = [origin[0] + self._extreme(origin[1:], ends, side) for side in (min, max)]
            if self.ranges[place] == "positive":
                off |= upper[:, column] <= far[0] if self.signs[place] > 0 else lower[:, column] >= far[1]
            else:
                edge = origin + self.width[:, place]
                highest_edge = edge[0] + self._extreme(edge[1:], ends, max)
                off |= (upper[:, column] <= far[0]) | (lower[:, column] >= highest_edge)
        return off

    @staticmethod
    def _extreme(slopes: np.ndarray, ends: np.ndarray, side: Any) -> float:
        return float(sum(side(slope * ends[0, i], slope * ends[1, i]) for i, slope in enumerate(slopes)))


def _linear(of: int | float, p: int) -> np.ndarray:
    """Coefficients (1 + p,) of a parameter's column, or of a number."""
    found = np.zeros(1 + p)
    if isinstance(of, float):
        found[0] = of
    else:
        found[1 + of] = 1.0
    return found


def _check_rule(rule: dict[str, Any], name: str) -> None:
    """Refuse what cannot be true of one statistic."""
    shift, scale, lower, upper = (rule.get(kind) for kind in KINDS)
    if shift is not None and shift == scale:
        raise ValueError(f"one parameter shifts and scales the statistic {name}; it can do one of them")
    if type(lower) is int and type(upper) is int and lower == upper:
        raise ValueError(f"the lower and the upper edge of the statistic {name} are the same parameter")
    if isinstance(lower, float) and isinstance(upper, float) and lower >= upper:
        raise ValueError(f"the lower edge of the statistic {name}, {lower}, is not below the upper, {upper}")
    for kind, edge in (("lower", lower), ("upper", upper)):
        if edge is None or (shift is None and scale is None):
            continue
        moves = "is shifted" if shift is not None else "is scaled"
        parameter = type(edge) is int
        fits = (parameter and edge == shift) if shift is not None else (not parameter and edge == 0)
        fits |= shift is None and kind == "upper" and parameter and edge == scale
        if not fits:
            raise ValueError(
                f"the statistic {name} {moves} by a parameter, and its {kind} edge is another one: an edge "
                "moves with the statistic; it must be the parameter that shifts it, or, of one that is "
                "scaled alone, 0 or, as the upper one, the scale; or leave the "
                f"{'shift' if shift is not None else 'scale'} out, which is then learnt"
            )


def _edges_in_words(kind: str, origin: float, width: float) -> str:
    if kind == "unit":
        return f"{origin:.6g} and {origin + width:.6g}"
    return f"{origin:.6g} and infinity" if width > 0 else f"minus infinity and {origin:.6g}"
