"""The prior's support, as a bijection between arrays.

Posterior draws are smoothed in a space without edges and carried back, so that no draw leaves the
support of the prior. A `Support` is that bijection written as plain data: it knows no PyMC, can be
saved to a file as JSON, and works on whole arrays of parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.bijections import (
    Interval,
    Simplex,
    Step,
    ZeroSum,
    ends_of,
    step_from_json,
    step_to_json,
)
from pymc_kbr.arrays.refusals import instance, names_of, shown


@dataclass(frozen=True)
class Block:
    """Some columns, the steps that free them, and whether a draw of them may be smoothed.

    Columns that may not be smoothed (`smooth=False`) are discrete, or constrained in a way that no
    step describes: a draw of them is always one of the simulated values, so it is in the support too.
    """

    columns: tuple[int, ...]
    steps: tuple[Step, ...] = ()
    smooth: bool = True


@dataclass(frozen=True)
class Support:
    """The bijection from a table's parameters to a space without edges.

    Parameters
    ----------
    size : int
        Number p of parameter columns.
    blocks : tuple of Block
        The blocks, each column in exactly one; bounds may depend on columns of earlier blocks.

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

        Returns
        -------
        Support

        Raises
        ------
        ValueError
            If a name is unknown, bounds are not two numbers, a lower one is not below its upper one, or an
            end is finite and beyond 1e100, where no digit of a parameter would be left.
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
        return cls(len(names), (*blocks, *([Block(kept, smooth=False)] if kept else [])))

    def forward(self, parameters: np.ndarray) -> np.ndarray:
        """Parameters to the unconstrained space; an edge goes to infinity.

        Parameters
        ----------
        parameters : ndarray of shape (n, p)

        Returns
        -------
        ndarray of shape (n, q)
        """
        pieces = []
        for block in self.blocks:
            values = parameters[:, list(block.columns)]
            for step in block.steps:
                values = step.forward(values, parameters)
            pieces.append(values)
        return np.hstack(pieces)

    def backward(self, free: np.ndarray) -> np.ndarray:
        """The unconstrained space to parameters.

        Parameters
        ----------
        free : ndarray of shape (n, q)

        Returns
        -------
        ndarray of shape (n, p)
        """
        parameters = np.zeros((len(free), self.size))
        # In order: the bounds of a block may be functions of the parameters before it.
        for block, part in zip(self.blocks, self._parts(), strict=True):
            values = free[:, part]
            for step in reversed(block.steps):
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
        return inside

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
            # Where a sum is fixed, the last column is known from the others.
            width = len(block.columns) - sum(isinstance(s, Simplex | ZeroSum) for s in block.steps)
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
                }
                for block in self.blocks
            ],
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
            Block(tuple(block["columns"]), tuple(map(step_from_json, block["steps"])), block["smooth"])
            for block in document["blocks"]
        ]
        return cls(document["size"], tuple(blocks))


def support_of(support: Support | None, size: int) -> Support:
    """The support, that without edges where there is none; refused where it is of other parameters."""
    support = Support.unbounded(size) if support is None else support
    instance("support", support, Support, "a Support, such as `Support.from_bounds(bounds, names)`")
    if support.size != size:
        raise ValueError(f"the support is one of {support.size} parameters; there are {size}")
    return support
