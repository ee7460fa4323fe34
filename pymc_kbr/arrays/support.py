"""The prior's support, as a bijection between arrays.

Posterior draws are smoothed in a space without edges and carried back, so that no draw leaves the
support of the prior. A `Support` is that bijection written as plain data: it knows no PyMC, can be
saved to a file as JSON, and works on whole arrays of parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.bijections import Interval, Lattice, Step, ends_of, step_from_json, step_to_json
from pymc_kbr.arrays.constraints import Constraint, parse
from pymc_kbr.arrays.refusals import instance, names_of, shown
from pymc_kbr.arrays.scaling import unit_deviations


@dataclass(frozen=True)
class Block:
    """Some columns, the steps that free them, and whether a draw of them may be smoothed."""

    columns: tuple[int, ...]
    steps: tuple[Step, ...] = ()
    smooth: bool = True
    numbers: bool = True
    atoms: tuple[tuple[float, ...], ...] = ()

    @property
    def continuous(self) -> bool:
        """Whether draws have a density."""
        whole = any(isinstance(step, Lattice) for step in self.steps)
        return self.smooth and not whole and not any(self.atoms)


@dataclass(frozen=True, eq=False)
class Inside:
    """Where a prior has mass, for a support whose bijections do not say it all."""

    holds: Callable[[np.ndarray], np.ndarray]
    columns: tuple[int, ...]


@default_arithmetic
@dataclass(frozen=True)
class Support:
    """The bijection from a table's parameters to a space without edges.

    Parameters
    ----------
    size : int
        Number p of parameter columns.
    blocks : tuple of Block
        The blocks, each column in exactly one; bounds may depend on columns of earlier blocks.
    inside : Inside, optional
        Where the prior has mass, which draws that are made are asked for. It is no plain data: what is
        saved, pickled or copied is without it, and columns that need it are then not smoothed.
    constraints : tuple of Constraint
        Linear inequalities that every draw satisfies, such as that one parameter is below another.

    Examples
    --------
    >>> support = Support.from_bounds({"rate": (0, 10)}, names=["rate", "mean"])
    >>> free = support.forward(np.array([[5.0, -3.0]]))
    >>> free
    array([[ 0., -3.]])
    >>> support.backward(free)
    array([[ 5., -3.]])
    """

    size: int
    blocks: tuple[Block, ...]
    inside: Inside | None = field(default=None, compare=False, repr=False)
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        columns = sorted(c for block in self.blocks for c in block.columns)
        if columns != list(range(self.size)):
            raise ValueError(
                f"the blocks of a Support cover columns {columns}; each of the {self.size} "
                "parameter columns must be in exactly one block"
            )

    @classmethod
    def unbounded(cls, size: int) -> Support:
        """The identity on `size` columns.

        Parameters
        ----------
        size : int

        Returns
        -------
        Support
        """
        return cls(size, (Block(tuple(range(size))),) if size else ())

    @classmethod
    def from_bounds(
        cls,
        bounds: Mapping[str, tuple[float | None, float | None]] | None,
        names: Sequence[str],
        discrete: Sequence[str] = (),
        constraints: Sequence[str] = (),
    ) -> Support:
        """One interval a column.

        Parameters
        ----------
        bounds : mapping of str to (lower, upper), optional
            Bounds by parameter name; a name left out is unbounded, an end may be infinite or None.
        names : sequence of str, length p
            The parameters, in the table's order.
        discrete : sequence of str
            Those that may not be smoothed: they are left without bounds.
        constraints : sequence of str
            Linear inequalities such as ``"ta < ts"`` or ``"2 * ta + 10 <= ts < 500"``.

        Returns
        -------
        Support

        Raises
        ------
        ValueError
            If a name is unknown, bounds are not two numbers, a lower one is not below its upper one, or an
            end is finite and beyond 1e100, where no digit of a parameter would be left, or a constraint is no
            linear inequality of the parameters.
        """
        if bounds is not None and not isinstance(bounds, Mapping):
            raise TypeError(f"bounds is {shown(bounds)}; give a dict of parameter names to (lower, upper)")
        names, discrete = names_of("names", names), names_of("discrete", discrete)
        bounds = dict(bounds or {})
        unknown = [name for name in bounds if name not in names]
        if unknown:
            raise ValueError(f"bounds are given for {unknown}; the parameters are {list(names)}")
        ends = [ends_of(name, bounds.get(name, (None, None))) for name in names]
        moved = tuple(i for i, name in enumerate(names) if name not in discrete)
        kept = tuple(i for i, name in enumerate(names) if name in discrete)
        step = Interval(tuple(ends[i][0] for i in moved), tuple(ends[i][1] for i in moved))
        blocks = [Block(moved, (step,))] if moved else []
        found = tuple(one for text in names_of("constraints", constraints) for one in parse(text, names))
        blocks += [Block(kept, smooth=False)] if kept else []
        return cls(len(names), tuple(blocks), constraints=found)

    @property
    def restricted(self) -> bool:
        """Whether the bijections do not say all: `allows` then refuses some of what they lead to."""
        return self.inside is not None or bool(self.constraints)

    def of_rows(self, parameters: np.ndarray) -> Support:
        """The support in which estimators move rows, with what these show of whole numbers and point masses.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)
            Simulated ones.

        Returns
        -------
        Support
            Itself where they show none. Whole numbers of many values become a `Lattice`; columns of few
            values stay as they are: each has rows of its own. A value of other columns that far more rows
            have than the values beside it is an atom.
        """
        blocks: list[Block] = []
        for block in self.blocks:
            if block.smooth:
                blocks.append(_with_atoms(block, parameters))
                continue
            numbers = block.numbers and not block.steps
            lattices = [c for c in block.columns if numbers and _is_lattice(parameters[:, c])]
            kept = tuple(c for c in block.columns if c not in lattices)
            blocks += [replace(block, columns=kept)] if kept else []
            blocks += [Block((c,), (Lattice.of(parameters[:, c]),)) for c in lattices]
        return self if tuple(blocks) == self.blocks else replace(self, blocks=tuple(blocks))

    def of_columns(self, columns: np.ndarray) -> Support:
        """The support of some columns.

        Parameters
        ----------
        columns : ndarray of int, shape (m,)

        Returns
        -------
        Support
            Without what it says of them together with others.

        Raises
        ------
        ValueError
            If bounds of theirs depend on columns that are left out.
        """
        places = {int(column): place for place, column in enumerate(columns)}
        blocks: list[Block] = []
        for block in self.blocks:
            kept = [i for i, column in enumerate(block.columns) if column in places]
            whole = len(kept) == len(block.columns)
            numbers = tuple(places[block.columns[i]] for i in kept)
            steps: list[Step] = []
            for step in block.steps:
                if isinstance(step, Interval) and step.lower_slopes is None and step.upper_slopes is None:
                    lower, upper = (tuple(end[i] for i in kept) for end in (step.lower, step.upper))
                    steps.append(Interval(lower, upper))
                elif kept and (not whole or isinstance(step, Interval)):
                    raise ValueError(
                        f"the bounds of the parameters in columns {block.columns} depend on each other, and "
                        f"only {[block.columns[i] for i in kept]} of them are taken; take all or none"
                    )
                else:
                    steps.append(step)
            if kept:
                atoms = tuple(block.atoms[i] for i in kept) if block.atoms else ()
                blocks.append(replace(block, columns=numbers, steps=tuple(steps), atoms=atoms))
        return Support(len(columns), tuple(blocks))

    def lattices(self) -> np.ndarray:
        """Which parameters are whole numbers that are moved.

        Returns
        -------
        ndarray of bool, shape (p,)
        """
        found = np.zeros(self.size, dtype=bool)
        for block in self.blocks:
            found[list(block.columns)] = any(isinstance(step, Lattice) for step in block.steps)
        return found

    def moved(self) -> np.ndarray:
        """Which parameters may be smoothed.

        Returns
        -------
        ndarray of bool, shape (p,)
        """
        found = np.zeros(self.size, dtype=bool)
        for block in self.blocks:
            found[list(block.columns)] = block.smooth
        return found

    def strata(self, parameters: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows that are at the same atoms, and which parameters are at none of theirs.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)

        Returns
        -------
        list of pair of ndarray of bool, shape (n,) and (p,)
            All rows and parameters together where there are no atoms.
        """
        at = np.zeros(parameters.shape, dtype=int)
        for block in self.blocks:
            for column, atoms in zip(block.columns, block.atoms, strict=False):
                for number, atom in enumerate(atoms, 1):
                    at[parameters[:, column] == atom, column] = number
        if not at.any():
            return [(np.ones(len(at), dtype=bool), np.ones(self.size, dtype=bool))]
        found, which = np.unique(at, axis=0, return_inverse=True)
        return [(which.reshape(-1) == number, pattern == 0) for number, pattern in enumerate(found)]

    def free_columns(self, parameters: np.ndarray) -> np.ndarray:
        """Which unconstrained columns may be smoothed and are of some parameters.

        Parameters
        ----------
        parameters : ndarray of bool, shape (p,)

        Returns
        -------
        ndarray of bool, shape (q,)
        """
        parts = []
        for block, part in zip(self.blocks, self._parts(), strict=True):
            own = parameters[list(block.columns)]
            width = part.stop - part.start
            # Columns that are tied to each other have no atoms, and are free together.
            parts.append(block.smooth & (own if len(own) == width else np.full(width, own.all())))
        return np.concatenate(parts)

    def forward(self, parameters: np.ndarray, spread: np.random.Generator | None = None) -> np.ndarray:
        """Parameters to the unconstrained space; an edge goes to infinity.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)
        spread : numpy.random.Generator, optional
            Moves whole numbers to random places of their intervals, so that they have a
            density; `backward` takes these moves back.

        Returns
        -------
        ndarray of shape (n, q)
        """
        pieces = []
        for block in self.blocks:
            values = parameters[:, list(block.columns)]
            for step in block.steps:
                if spread is not None and isinstance(step, Lattice):
                    values = step.spread(values, spread)
                values = step.forward(values, parameters)
            pieces.append(values)
        return np.hstack(pieces)

    def backward(self, free: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """The unconstrained space to parameters.

        Parameters
        ----------
        free : ndarray of shape (n, q)
        weights : ndarray of shape (n,), optional
            Of sum one, of points that were moved: whole numbers are then rounded so that their variance
            stays.

        Returns
        -------
        ndarray of shape (n, p)
        """
        parameters = np.zeros((len(free), self.size))
        # In order: the bounds of a block may be functions of the parameters before it.
        for block, part in zip(self.blocks, self._parts(), strict=True):
            values = free[:, part]
            for step in reversed(block.steps):
                if weights is not None and isinstance(step, Lattice):
                    values = step.settled(values, weights)
                else:
                    values = step.backward(values, parameters)
            parameters[:, list(block.columns)] = values
        return parameters

    def log_jacobian(self, free: np.ndarray) -> np.ndarray:
        """Log ``|d backward(free) / d free|``: densities in the free space are those of parameters times it.

        Parameters
        ----------
        free : ndarray of shape (n, q)

        Returns
        -------
        ndarray of shape (n,)
            Where columns sum to one or to zero, of all but the last of them, as densities on them are
            given. Minus infinity where an angle is more than half a turn. Columns that may not be smoothed
            add nothing.
        """
        parameters, total = np.zeros((len(free), self.size)), np.zeros(len(free))
        for block, part in zip(self.blocks, self._parts(), strict=True):
            values = free[:, part]
            for step in reversed(block.steps):
                total += step.log_jacobian(values, parameters)
                values = step.backward(values, parameters)
            parameters[:, list(block.columns)] = values
        return total

    def smooth(self) -> np.ndarray:
        """Which of the unconstrained columns may be smoothed.

        Returns
        -------
        ndarray of bool, shape (q,)
        """
        return np.concatenate(
            [
                np.full(part.stop - part.start, block.smooth)
                for block, part in zip(self.blocks, self._parts(), strict=True)
            ]
        )

    def contains(self, parameters: np.ndarray) -> np.ndarray:
        """Whether each row lies in the support, edges included.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        inside = np.all(np.isfinite(parameters), axis=1)
        for block in self.blocks:
            values = parameters[:, list(block.columns)]
            for step in block.steps:
                inside &= step.contains(values, parameters)
                # The last step need not be taken: nothing is asked of what it gives.
                values = step.forward(values, parameters) if step is not block.steps[-1] else values
        for constraint in self.constraints:
            inside &= constraint.holds(parameters)
        return inside

    def allows(self, parameters: np.ndarray) -> np.ndarray:
        """Whether the prior has mass at each row, as far as it is known: what a draw must satisfy.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)

        Returns
        -------
        ndarray of bool, shape (n,)
        """
        allowed = self.contains(parameters)
        if self.inside is not None and np.any(allowed):
            allowed[allowed] = self.inside.holds(parameters[allowed])
        return allowed

    def returned(self, before: np.ndarray, after: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points that were moved to where the prior has no mass, brought back inside.

        Parameters
        ----------
        before, after : ndarray of shape (m, p)
            Points where the prior has mass, and where they were moved to.

        Returns
        -------
        points : ndarray of shape (m, p)
            Those of `after` that are allowed as they are. The way of the others in the unconstrained space is
            reflected where it leaves the support, as often as it needs.
        outside : ndarray of bool, shape (m,)
            Which they are.
        """
        outside = ~self.allows(after)
        points = after.copy()
        if not np.any(outside):
            return points, outside
        start, origin, columns = self.forward(before[outside]), before[outside], self.moved()
        with np.errstate(invalid="ignore"):
            way = self.forward(after[outside]) - start
        way[~np.isfinite(way)] = 0.0  # on an edge, where it stays

        def at(share: np.ndarray) -> np.ndarray:
            made = self.backward(np.where(way == 0, start, start + share[:, None] * way))
            made[:, ~columns] = origin[:, ~columns]
            return np.where(share[:, None] == 0, origin, made)

        last, beyond = np.zeros(len(start)), np.ones(len(start))
        for _ in range(20):  # then the share is known to a millionth
            middle = (last + beyond) / 2
            fine = self.allows(at(middle))
            last, beyond = np.where(fine, middle, last), np.where(fine, beyond, middle)
        # The whole way is one long; folded into what is inside it goes to and fro between its ends.
        folded = np.abs((1 + last) % np.where(last > 0, 2 * last, 1.0) - last)
        found = at(np.where(last > 0, folded, 0.0))
        wrong = ~self.allows(found)  # inside may be more than one piece
        found[wrong] = at(last)[wrong]
        points[outside] = found
        return points, outside

    def plain(self) -> Support:
        """The support as plain data alone.

        Returns
        -------
        Support
            Without `inside`; blocks that need it may not be smoothed.
        """
        if self.inside is None:
            return self
        blocks = (
            replace(block, smooth=block.smooth and not set(block.columns) & set(self.inside.columns))
            for block in self.blocks
        )
        return Support(self.size, tuple(blocks), constraints=self.constraints)

    def __reduce__(self) -> Any:
        # A density is a compiled function of a model.
        return Support, (self.size, self.plain().blocks, None, self.constraints)

    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The unconstrained columns of each block.

        Returns
        -------
        tuple of tuple of int
            In the order of `blocks`; together 0 to q - 1.
        """
        return tuple(tuple(range(part.start, part.stop)) for part in self._parts())

    def _parts(self) -> list[slice]:
        parts, start = [], 0
        for block in self.blocks:
            width = len(block.columns)
            for step in block.steps:
                width = step.width(width)
            parts.append(slice(start, start + width))
            start += width
        return parts

    def to_json(self) -> dict[str, Any]:
        """The support as plain data, with infinities written as text.

        Returns
        -------
        dict
            Of numbers, strings, lists and dictionaries alone.
        """
        return {
            "size": self.size,
            "blocks": [
                {
                    "columns": list(block.columns),
                    "smooth": block.smooth,
                    "steps": [step_to_json(step) for step in block.steps],
                    **({} if block.numbers else {"numbers": False}),
                }
                for block in self.plain().blocks
            ],
            **({"constraints": [vars(one) for one in self.constraints]} if self.constraints else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Support:
        """The support that `to_json` has written.

        Parameters
        ----------
        document : dict

        Returns
        -------
        Support

        Raises
        ------
        KeyError
            If a part of the document is missing, or a kind of step is unknown.
        ValueError
            If its blocks do not cover each column once.
        """
        blocks = [
            Block(
                tuple(block["columns"]),
                tuple(map(step_from_json, block["steps"])),
                block["smooth"],
                block.get("numbers", True),
            )
            for block in document["blocks"]
        ]
        constraints = tuple(Constraint.from_json(one) for one in document.get("constraints", ()))
        return cls(document["size"], tuple(blocks), constraints=constraints)


def _with_atoms(block: Block, parameters: np.ndarray) -> Block:
    """A block with the atoms of its columns, where each column is free by itself."""
    if len(block.steps) > 1 or not all(isinstance(step, Interval) for step in block.steps):
        return block
    columns = [parameters[:, column] for column in block.columns]
    atoms = tuple(map(_atoms_of, columns))
    if not any(atoms):
        return block
    step = Interval((-np.inf,) * len(columns), (np.inf,) * len(columns))
    for known in block.steps:
        assert isinstance(known, Interval)
        step = known
    lower, upper = list(step.lower), list(step.upper)
    for i, (own, column) in enumerate(zip(atoms, columns, strict=True)):
        if column.min() in own and step.lower_slopes is None:
            lower[i] = max(lower[i], float(column.min()))
        if column.max() in own and step.upper_slopes is None:
            upper[i] = min(upper[i], float(column.max()))
    step = replace(step, lower=tuple(lower), upper=tuple(upper))
    return replace(block, steps=(step,), atoms=atoms)


def _atoms_of(
    column: np.ndarray,
    *,
    # Rows of an atom over those of the values beside it: of values with one row on average, as of redrawn
    # draws, one in ten million has so many by chance.
    least_ratio: int = 10,
) -> tuple[float, ...]:
    """Values that far more rows (n,) have than the values beside them."""
    values, counts = np.unique(column, return_counts=True)
    if len(values) == len(column) or len(values) == 1:
        return ()
    compared = counts < least_ratio if np.median(counts) == 1 else np.ones(len(values), dtype=bool)
    padded, places = np.r_[0, np.where(compared, counts, 0), 0], np.arange(len(values) + 2)
    ends = np.r_[True, compared, True]
    left = np.maximum.accumulate(np.where(ends, places, 0))[:-2]
    right = np.minimum.accumulate(np.where(ends, places, len(values) + 1)[::-1])[::-1][2:]
    beside = np.maximum(padded[left], padded[right])
    return tuple(values[counts >= least_ratio * beside].tolist())


def repeats(column: np.ndarray) -> bool:
    """Whether draws (n,) are of a discrete distribution: most values are of several, and none is an atom."""
    _, counts = np.unique(column, return_counts=True)
    return bool(np.median(counts) > 1) and not _atoms_of(column)


def _is_lattice(column: np.ndarray, *, most_levels: int = 5) -> bool:
    """Whether a column (n,) has whole numbers alone, and more than a few of them."""
    if not np.all(column == np.rint(column)) or np.abs(column).max() >= 2**53:
        return False
    return len(np.unique(column)) > most_levels


def support_of(support: Support | None, size: int) -> Support:
    """The support, that without edges where there is none; refused where it is of other parameters."""
    support = Support.unbounded(size) if support is None else support
    instance("support", support, Support, "a Support, such as `Support.from_bounds(bounds, names)`")
    if support.size != size:
        raise ValueError(f"the support is one of {support.size} parameters; there are {size}")
    return support


# --- the region of draws, and the rows near it ---


class Region(NamedTuple):
    """Where draws lie in the unconstrained space: their mean, and a root of their covariance."""

    centre: np.ndarray
    root: np.ndarray
    support: Support

    def distances(self, parameters: np.ndarray) -> np.ndarray:
        """Of parameters (n, p) from the mean, in deviations, shape (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            free = self.support.forward(parameters) - self.centre
        inside = np.isfinite(free).all(axis=1)
        found = np.full(len(free), np.inf)
        found[inside] = np.linalg.norm(np.linalg.solve(self.root, free[inside].T), axis=0)
        return found

    def ends(self) -> np.ndarray:
        """Parameters (2 p, p) a deviation from the mean along each principal axis, those above it first."""
        axes = self.axes()
        return self.support.backward(self.centre + np.concatenate([axes, -axes]))

    def axes(self) -> np.ndarray:
        """Principal axes (q, q) of the draws, each a deviation long."""
        values, vectors = np.linalg.eigh(self.root @ self.root.T)
        return (vectors * np.sqrt(np.maximum(values, 0))).T

    def nearest(
        self,
        parameters: np.ndarray,
        ratio: np.ndarray | None,
        *,
        # Deviations, a root of a parameter.
        reach: float = 3.0,
    ) -> tuple[np.ndarray, np.ndarray]:
        """All rows that have a weight by their distance, and those of them that are within reach."""
        away = self.distances(parameters)
        if ratio is not None:
            away = np.where(ratio > 0, away, np.inf)
        order = np.argsort(away, kind="stable")
        order = order[np.isfinite(away[order])]
        # The distance of p normal numbers from their mean is about sqrt(p).
        return order, order[away[order] < reach * np.sqrt(len(self.centre))]

    def rows(
        self,
        parameters: np.ndarray,
        ratio: np.ndarray | None,
        rng: np.random.Generator,
        fewest: int = 200,
        *,
        most: int = 300,
    ) -> NearRows:
        """Rows within reach, some of them at random where they are many, the nearest where they are few."""
        order, inside = self.nearest(parameters, ratio)
        if len(inside) < fewest:
            inside = order[:fewest]
        return NearRows(rng.permutation(inside)[:most], order[: max(len(inside), fewest)])

    def simulations(
        self,
        parameters: np.ndarray,
        *,
        # Rows in a posterior's own mass that let any estimator resolve it.
        rows_wanted: int = 100,
    ) -> float:
        """How many simulations, drawn as these rows were, put `rows_wanted` into the posterior's mass."""
        p = len(self.centre)
        # A normal distribution has 93 to 95% of its mass within 1 + sqrt(p) deviations, and volumes go with
        # the p-th power: so many times as many rows have the hundredth nearest there.
        farthest = np.sort(self.distances(parameters))[min(rows_wanted, len(parameters)) - 1]
        times = (farthest / (1 + np.sqrt(p))) ** p if np.isfinite(farthest) else np.inf
        return float(len(parameters) * max(times, 2.0))


class NearRows(NamedTuple):
    """Numbers of the rows from which a likelihood is learnt, and of those from which its summaries are."""

    rows: np.ndarray
    more: np.ndarray


def region_of(draws: np.ndarray, support: Support) -> Region | None:
    """Where draws (m, p) lie; None where not two are inside the support."""
    with np.errstate(divide="ignore"):
        free = support.forward(draws)
    free = free[np.isfinite(free).all(axis=1)]
    if len(free) < 2:
        return None
    unit, q = unit_deviations(free), free.shape[1]
    # A combination of parameters that does not vary among the draws must have a root, too.
    covariance = np.cov((free / unit).T).reshape(q, q) + 1e-6 * np.eye(q)
    return Region(free.mean(axis=0), unit[:, None] * np.linalg.cholesky(covariance), support)
