"""Linear inequalities among parameters, as plain data."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog

from pymc_kbr.arrays.refusals import shown

ADVICE = "give linear inequalities of them, such as 'ta < ts', 'ta <= ts' or '2 * ta + 10 < ts < 500'"


@dataclass(frozen=True)
class Constraint:
    """That a weighted sum of parameters is below a limit, or at most that where it is not strict."""

    text: str
    columns: tuple[int, ...]
    slopes: tuple[float, ...]
    limit: float
    strict: bool

    def holds(self, parameters: np.ndarray) -> np.ndarray:
        """Which of parameters (n, p) satisfy it, bool (n,)."""
        sums = np.zeros(len(parameters))
        with np.errstate(all="ignore"):
            # One column after the other: of two of them the sign of the difference is exact.
            for column, slope in zip(self.columns, self.slopes, strict=True):
                sums = sums + slope * parameters[:, column]
            return sums < self.limit if self.strict else sums <= self.limit

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Constraint:
        """The constraint whose fields a file holds."""
        return cls(
            str(document["text"]),
            tuple(map(int, document["columns"])),
            tuple(map(float, document["slopes"])),
            float(document["limit"]),
            bool(document["strict"]),
        )


def parse(text: Any, names: Sequence[str]) -> list[Constraint]:
    """The inequalities of a text such as ``"ta < ts"``, of parameters by name; each link of a chain."""
    if not isinstance(text, str):
        raise TypeError(f"constraints has the entry {shown(text)}; {ADVICE}")
    # Names need not be identifiers: each is replaced by one, the longest first.
    longest = sorted(names, key=len, reverse=True)
    pattern = "|".join(re.escape(name) for name in longest)
    code = re.sub(rf"(?<![\w.])(?:{pattern})(?![\w.\[])", lambda found: f"_{names.index(found[0])}_", text)
    try:
        tree = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        tree = None
    allowed = ast.Lt | ast.LtE | ast.Gt | ast.GtE
    if not isinstance(tree, ast.Compare) or not all(isinstance(op, allowed) for op in tree.ops):
        raise ValueError(
            f"the constraint {text!r} is no inequality of the parameters {list(names)}; {ADVICE}"
        )
    sides = [_linear(side, text, names) for side in (tree.left, *tree.comparators)]
    found = []
    for left, op, right in zip(sides, tree.ops, sides[1:], strict=False):
        difference = left - right if isinstance(op, ast.Lt | ast.LtE) else right - left
        columns = np.flatnonzero(difference[:-1])
        if not len(columns) or not np.all(np.isfinite(difference)):
            raise ValueError(
                f"the constraint {text!r} says nothing of the parameters {list(names)}; {ADVICE}"
            )
        strict = isinstance(op, ast.Lt | ast.Gt)
        slopes = tuple(difference[columns].tolist())
        found.append(Constraint(text, tuple(columns.tolist()), slopes, float(0.0 - difference[-1]), strict))
    return found


def _linear(node: ast.expr, text: str, names: Sequence[str]) -> np.ndarray:
    """The slopes of all parameters and the constant (p + 1,) of a linear expression."""
    match node:
        case ast.Name(id=name) if re.fullmatch(r"_\d+_", name) and int(name[1:-1]) < len(names):
            return np.eye(len(names) + 1)[int(name[1:-1])]
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return np.array([*np.zeros(len(names)), value])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_linear(operand, text, names)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _linear(operand, text, names)
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _linear(left, text, names), _linear(right, text, names)
            if isinstance(op, ast.Add | ast.Sub):
                return one + other if isinstance(op, ast.Add) else one - other
            if isinstance(op, ast.Mult) and not np.any(one[:-1]):
                return one[-1] * other
            if isinstance(op, ast.Mult) and not np.any(other[:-1]):
                return one * other[-1]
            if isinstance(op, ast.Div) and not np.any(other[:-1]) and other[-1] != 0:
                return one / other[-1]
    what = ast.unparse(node)
    for number in reversed(range(len(names))):
        what = what.replace(f"_{number}_", names[number])
    raise ValueError(f"the constraint {text!r} has {what!r}; the parameters are {list(names)}: {ADVICE}")


def check_constraints(
    constraints: Sequence[Constraint],
    parameters: np.ndarray,
    names: Sequence[str],
    bounds: Sequence[tuple[float, float]],
) -> None:
    """Refuse constraints that rows (n, p) break, and say where they contradict each other."""
    broken = [~one.holds(parameters) for one in constraints]
    if not np.any(broken):
        return
    if np.all(np.any(broken, axis=0)) and _contradict(constraints, len(names), bounds):
        texts = list(dict.fromkeys(one.text for one in constraints))
        raise ValueError(
            f"the constraints {texts} contradict each other, or the bounds: no parameters satisfy all of "
            "them; correct them"
        )
    worst = int(np.argmax(np.sum(broken, axis=1)))
    row = int(np.flatnonzero(broken[worst])[0])
    values = {names[c]: float(parameters[row, c]) for c in constraints[worst].columns}
    raise ValueError(
        f"{broken[worst].sum()} of {len(parameters)} rows of parameters break the constraint "
        f"{constraints[worst].text!r}, the first of them row {row}, where {values}; correct the constraint, "
        "or leave those rows out if the prior does"
    )


def _contradict(constraints: Sequence[Constraint], size: int, bounds: Sequence[tuple[float, float]]) -> bool:
    """Whether no parameters (p,) between bounds satisfy them all, by a linear programme."""
    # Parameters in units of their bounds: a rate of 1e-8 is not nearer to zero than a time of 1e5.
    unit = np.array(
        [max((abs(end) for end in ends if np.isfinite(end)), default=0) or 1.0 for ends in bounds]
    )
    slopes = np.zeros((len(constraints), size + 1))
    for row, one in enumerate(constraints):
        slopes[row, list(one.columns)] = np.array(one.slopes) * unit[list(one.columns)]
    size_of = np.abs(slopes).max(axis=1)
    slopes[:, -1] = np.where([one.strict for one in constraints], size_of, 0.0)
    # By how much strict ones hold is made as large as possible.
    within = [(lower / u, upper / u) for (lower, upper), u in zip(bounds, unit, strict=True)]
    limits = np.array([one.limit for one in constraints])
    found = linprog(
        [*np.zeros(size), -1.0],
        A_ub=slopes / size_of[:, None],
        b_ub=limits / size_of,
        bounds=[*((None if np.isinf(a) else a, None if np.isinf(b) else b) for a, b in within), (0, 1)],
    )
    return bool(
        found.status == 2 or (found.status == 0 and any(o.strict for o in constraints) and -found.fun < 1e-9)
    )


def never_broken(parameters: np.ndarray, names: Sequence[str], rows: int = 100_000) -> list[str]:
    """Orders such as ``"ta < ts"`` that rows (n, p) never break, though their values overlap."""
    # Of fewer than `rows` rows there are none: an order may then be there by chance.
    n, p = parameters.shape
    if n < rows or p < 2:
        return []
    below = np.zeros((p, p), dtype=bool)
    for one in range(p):
        for other in range(p):
            if one != other and np.all(parameters[:, one] < parameters[:, other]):
                # How many rows would break it if the two were independent: each with the values of all.
                among = np.sort(parameters[:, other])
                expected = np.searchsorted(among, parameters[:, one], side="right").sum() / n
                # The chance of none, exp(-expected), is below a hundredth for all pairs together.
                below[one, other] = expected > np.log(100 * p * (p - 1))
    # What follows from two others is left out.
    follows = (below.astype(int) @ below.astype(int)) > 0
    return [f"{names[i]} < {names[j]}" for i, j in np.argwhere(below & ~follows)]
