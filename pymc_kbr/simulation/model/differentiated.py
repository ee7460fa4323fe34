"""Log densities of a learned likelihood as single operations of PyTensor, each with its own gradient.

As expressions of PyTensor every conditional is some hundred operations, and C or Numba compile each of these.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from pytensor import tensor as pt
from pytensor.compile.mode import optdb
from pytensor.gradient import DisconnectedType, grad
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import in2out, node_rewriter


class WithSlopes(Protocol):
    """A function of parameters (k, q), arrays (k, r) or (1, r), and a past (k, r, l) or (1, r, l)."""

    key: Any
    """The same for functions that are the same."""

    def of_past(self, past: np.ndarray) -> tuple[Any, ...]:
        """What the past alone says, which stays while parameters change."""

    def evaluate(self, *inputs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Values (k, r) and their derivatives (k, r, w) by all inputs, or all but the past."""

    def expression(self, *inputs: Any) -> Variable:
        """The values as an expression of PyTensor."""


class GraphFunctions:
    """PyTensor's functions, and single operations for what knows its own derivatives."""

    def __getattr__(self, name: str) -> Any:
        return getattr(pt, name)

    def operation(self, function: WithSlopes, *inputs: Any) -> Variable:
        """Values (k, r) of a function of parameters, other arrays and the past."""
        variables = [pt.as_tensor(each) for each in inputs]
        return DifferentiatedOp(function, not only_data(variables[-1]))(*variables)[0]


def only_data(variable: Variable) -> bool:
    """Whether an expression is made of constants, and of what has no gradient, such as prepared data."""
    # Whatever else there is may be, or become, a parameter: variables are replaced in graphs.
    seen, stack = set(), [variable]
    while stack:
        each = stack.pop()
        if each in seen or isinstance(each, Constant):
            continue
        seen.add(each)
        if each.owner is None:
            return False
        pattern = getattr(each.owner.op, "connection_pattern", None)
        if pattern is None or any(any(row) for row in pattern(each.owner)):
            stack.extend(each.owner.inputs)
    return True


class DifferentiatedOp(Op):
    """Values (k, r) and their derivatives (k, r, w) by each of the inputs, in their order."""

    # The derivatives come with the values: a gradient computes nothing twice. `moving` says whether the past
    # depends on the parameters.
    _last: tuple[np.ndarray, tuple[Any, ...]] | None = None

    def __init__(self, function: WithSlopes, moving: bool) -> None:
        self.function, self.moving = function, moving

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, DifferentiatedOp) and self.moving == other.moving
        return same and self.function.key == other.function.key  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((DifferentiatedOp, self.function.key, self.moving))

    def make_node(self, *inputs: Variable) -> Apply:
        """Of parameters (k, q), arrays (k, r) or (1, r), and the past (k, r, l) or (1, r, l)."""
        return Apply(self, list(inputs), [pt.dmatrix(), pt.dtensor3()])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list[list[Any]]) -> None:
        """By NumPy, or by loops that are compiled already."""
        theta, *others, past = (np.ascontiguousarray(each, dtype=float) for each in inputs)
        k, r = len(theta), past.shape[1]
        if any(len(e) not in (1, k) for e in (*others, past)) or any(e.shape[1] != r for e in others):
            shapes = ", ".join(str(each.shape) for each in (theta, *others, past))
            raise ValueError(
                f"parameters, values and earlier statistics of a likelihood have the shapes {shapes}; "
                f"all but the first must have 1 or {k} rows, and {r} columns: give as many observations as "
                "there are groups"
            )
        last = self._last
        # Of its own: the memory of an input may be written to.
        if last is None or not np.array_equal(last[0], past):
            last = past.copy(), self.function.of_past(past)
            if not self.moving:  # a sampler asks at every step, of the same data
                self._last = last
        found = self.function.evaluate(theta, *others, past, last[1], self.moving)
        output_storage[0][0], output_storage[1][0] = found

    def in_pytensor(self, *inputs: Any) -> list[Variable]:
        """Values and derivatives as expressions."""
        return [self.function.expression(*inputs, pt), self._slopes(*inputs)]

    def infer_shape(self, *arguments: Any) -> list[Any]:
        """Rows are those of the parameters, columns those of the past."""
        *_, shapes = arguments  # before PyTensor 3 there is one argument more
        (k, q), (_, r, past) = shapes[0], shapes[-1]
        return [(k, r), (k, r, q + len(shapes) - 2 + (past if self.moving else 0))]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """A past of data alone is not differentiated."""
        return [[True, True]] * (len(node.inputs) - 1) + [[self.moving, self.moving]]

    def pullback(
        self, inputs: list[Variable], outputs: list[Variable], output_grads: list[Variable]
    ) -> list[Variable]:
        """Gradients by the derivatives that came with the values."""
        of_values, of_slopes = output_grads
        found = [DisconnectedType()()] * len(inputs)
        if not isinstance(of_values.type, DisconnectedType):
            each = of_values[:, :, None] * outputs[1]
            q = inputs[0].shape[1]
            columns = [each[:, :, :q].sum(axis=1)]
            columns += [_as_input(each[:, :, q + i], given) for i, given in enumerate(inputs[1:-1])]
            if self.moving:
                columns.append(_as_input(each[:, :, q + len(inputs) - 2 :], inputs[-1]))
            found[: len(columns)] = columns
        if not isinstance(of_slopes.type, DisconnectedType):
            # One variable may be several of the inputs, and each has its own part.
            own = [each.copy() for each in inputs]
            cost = pt.sum(of_slopes * self._slopes(*own))
            second = grad(cost, own if self.moving else own[:-1], disconnected_inputs="ignore")
            for place, more in enumerate(second):
                first = found[place]
                found[place] = more if isinstance(first.type, DisconnectedType) else first + more
        return found

    L_op = pullback  # its name before PyTensor 3

    def _slopes(self, *inputs: Variable) -> Variable:
        """The derivatives (k, r, w) as an expression of PyTensor: of k r rows, each with its own inputs."""
        theta, *others, past = inputs
        k, r = theta.shape[0], past.shape[1]
        rows = [pt.repeat(theta, r, axis=0)]
        rows += [pt.broadcast_to(each, (k, r)).reshape((k * r, 1)) for each in others]
        rows.append(pt.broadcast_to(past, (k, r, past.shape[2])).reshape((k * r, 1, past.shape[2])))
        total = pt.sum(self.function.expression(*rows, pt))
        found = grad(total, rows if self.moving else rows[:-1], disconnected_inputs="ignore")
        return pt.concatenate([each.reshape((k * r, -1)) for each in found], axis=1).reshape((k, r, -1))


def _as_input(each: Variable, given: Variable) -> Variable:
    """Derivatives (k, r, ...) summed where one input is that of all rows."""
    return each.sum(axis=0, keepdims=True) if given.type.shape[0] == 1 else each


def expressed(op: type[Op]) -> None:
    """Let compilers that do not call NumPy see an operation as the expression that it stands for."""

    @node_rewriter([op])
    def as_expression(fgraph: Any, node: Apply) -> list[Variable]:
        return list(node.op.in_pytensor(*node.inputs))

    name = f"pymc_kbr_{op.__name__}"
    optdb.register(name, in2out(as_expression, name=name), "jax", position=0.2)


expressed(DifferentiatedOp)
# Its loops are compiled already, and a user has nothing to do about it.
warnings.filterwarnings(
    "ignore", "Numba will use object mode to run (DifferentiatedOp|Simulated)", UserWarning
)
