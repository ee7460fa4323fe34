"""How functions of the user are called: with copies of arrays, whose results are copied.

A wrapper of C or Fortran returns its own buffer, which its next call overwrites; `p /= p.sum()` writes into
what it is given. Neither may reach the arrays of a table, or the constants of a graph that is run again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytensor
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.simulator import SimulatorRV
from pytensor.compile.ops import FromFunctionOp
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.c.op import COp
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.random.op import RandomVariable

from pymc_kbr.arrays.arithmetic import errors_of_caller
from pymc_kbr.arrays.rows import as_rows

OURS = {"pytensor", "pymc", "pymc_extras", "pymc_kbr"}
"""Packages whose operations leave their inputs as they are, and return arrays of their own."""


class Raised(BaseException):
    """An error of a function of the user, on its way through PyTensor."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def plainly(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a function returns; an error of the user's own function as it was raised."""
    try:
        return function(*args, **kwargs)
    except Raised as raised:
        error = raised.error
    raise error


def compiled(inputs: Any, outputs: Any, **options: Any) -> Callable[..., Any]:
    """A function of PyTensor in which errors of the user's functions are those that were raised."""
    function = plainly(pytensor.function, inputs, outputs, **options)
    return lambda *arguments: plainly(function, *arguments)


def guarded(node: Apply) -> Op:
    """The operation of a node; where a function of the user is in it, on copies and for copies."""
    op = node.op
    if isinstance(op, SimulatorRV):
        return _guarded_simulator(op, node)
    if isinstance(op, RandomVariable):
        draw = op.rng_fn
        of_user = isinstance(op, CustomDistRV) or _is_foreign(op)
        return _with_draws(op, lambda *args: _own(draw(*args))) if of_user else op
    if isinstance(op, Blockwise) and _runs_python_of_user(op.core_op):
        return Blockwise(OnCopies(op.core_op), signature=op.signature, name=op.name)
    return OnCopies(op) if _runs_python_of_user(op) else op


def _runs_python_of_user(op: Op) -> bool:
    return isinstance(op, FromFunctionOp) or (_is_foreign(op) and not isinstance(op, COp))


def _is_foreign(op: Op) -> bool:
    return type(op).__module__.partition(".")[0] not in OURS


class OnCopies(Op):
    """An operation of the user, no random variable, on copies of its inputs and for copies of its outputs."""

    __props__ = ("op",)

    def __init__(self, op: Op, check: Callable[[Any], None] = lambda result: None) -> None:
        def perform(node: Any, inputs: Any, outputs: Any) -> None:
            op.perform(node, inputs, outputs)
            for output in outputs:
                check(output[0])
                output[0] = _own(output[0])

        self.op, self._called = op, _calling(perform)

    def make_node(self, *inputs: Any) -> Apply:
        """As the operation's own."""
        made = self.op.make_node(*inputs)
        return Apply(self, made.inputs, [output.type() for output in made.outputs])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        """As the operation's own."""
        self._called(node, [_own(one) for one in inputs], outputs)


def _guarded_simulator(op: SimulatorRV, node: Apply) -> Op:
    """One whose function may return real numbers alone: PyTensor drops masks and imaginary parts."""
    simulator, variable = type(op), node.outputs[1]
    name, shape, dtype = variable.name, variable.type.shape, np.dtype(variable.dtype)
    of_scalars = op.ndim_supp == 0 and variable.type.ndim > 0
    hint = (
        f". PyMC gives parameters to a pm.Simulator in the {variable.type.ndim} dimension(s) of its value; "
        "for a vector of statistics take pk.vector_simulator, which gives numbers as numbers"
        if of_scalars
        else ""
    )

    def draw(*args: Any) -> np.ndarray:
        return numbers_of(name, shape, dtype, simulator.rng_fn(*args), hint)

    return _with_draws(op, draw)


def _with_draws(op: RandomVariable, draw: Callable[..., Any]) -> Op:
    called = _calling(draw)

    def rng_fn(_: type, rng: np.random.Generator, *args: Any) -> Any:
        return called(rng, *map(_own, args))

    # A class, since PyTensor makes operations anew from it as it simplifies a graph.
    safe, kind = copy.copy(op), type(op)
    safe.__class__ = type(kind.__name__, (kind,), {"rng_fn": classmethod(rng_fn)})
    return safe


def _calling(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function in the user's error state, which no call leaves changed; its errors are `Raised`."""
    errors = errors_of_caller()

    def call(*args: Any) -> Any:
        try:
            with np.errstate(**errors):  # type: ignore[arg-type]
                return function(*args)
        except Exception as error:
            raise Raised(error) from None

    return call


def _own(value: Any) -> Any:
    """A copy of an array, in its own order; anything else as it is."""
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def numbers_of(
    name: str | None, shape: tuple[int | None, ...], kind: np.dtype, result: Any, hint: str = ""
) -> np.ndarray:
    """What a simulator returned as an array of its own, in which there are real numbers alone."""
    try:
        if isinstance(result, Mapping):
            raise TypeError("names have no order here")
        made = np.array(as_rows("what it returned", result))
    except (TypeError, ValueError) as error:
        known = f" of shape {shape}" if None not in shape else ""
        advice = f": {error}" if isinstance(result, np.ndarray) else ""
        raise type(error)(
            f"the simulator {name!r} returned {_shown(result)}, and must return an array of real numbers"
            f"{known}{advice}{hint if isinstance(error, ValueError) else ''}"
        ) from None
    if kind.kind in "iub" and np.any(np.isfinite(made) & (made != np.round(made))):
        raise ValueError(
            f"the simulator {name!r} returned numbers that are not whole, and its dtype is {kind}; leave "
            "`dtype` out, or return whole numbers"
        )
    return made


def _shown(result: Any) -> str:
    """An object that is no array of numbers, by its type and the shapes in it."""
    if result is None:
        return "None"
    kind = type(result).__name__
    if isinstance(result, list | tuple):
        return f"a {kind} of {_shapes(result)}"
    if hasattr(result, "dtype") and hasattr(result, "shape"):
        return f"{kind} of type {result.dtype} and shape {tuple(result.shape)}"
    return f"{kind} {result!r}" if isinstance(result, str | bytes | complex) else f"an object of type {kind}"


def _shapes(entries: list[Any] | tuple[Any, ...]) -> str:
    found = []
    for entry in entries[:5]:
        try:
            found.append(str(np.shape(entry)) if not isinstance(entry, str) else "str")
        except ValueError:
            found.append("unequal lengths")
    return f"{len(entries)} entries of the shapes {', '.join(found)}{', ...' if len(entries) > 5 else ''}"
