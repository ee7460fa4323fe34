"""Draws from a model's prior, and the prior's support as plain data."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import numpy as np
import pytensor
from pymc.distributions import transforms as pm_transforms
from pymc.distributions.transforms import _default_transform
from pymc.logprob import transforms as logprob_transforms
from pytensor import tensor as pt
from pytensor.graph.basic import Variable as GraphVariable

from pymc_kbr.bijections import Circular, Interval, Ordered, Simplex, Step, ZeroSum
from pymc_kbr.columns import Variable
from pymc_kbr.simulation.graphs import CannotBatch, Program, prior_batch, prior_rows, substitute
from pymc_kbr.simulation.model import QUICK, ModelGraph
from pymc_kbr.simulation.streams import BLOCK_ROWS, PRIOR, streams
from pymc_kbr.support import Block, Support


class PriorSampler:
    """Draws blocks of `BLOCK_ROWS` rows, each from streams of its own."""

    def __init__(self, graph: ModelGraph, entropy: int) -> None:
        self._graph, self._entropy = graph, entropy
        try:
            self._use(prior_batch(graph), batched=True)
        except Exception:  # whatever PyTensor cannot draw in batches; a faulty prior fails again below
            self._use(prior_rows(graph), batched=False)

    def _use(self, program: Program, *, batched: bool) -> None:
        self._program, self.batched = program, batched
        self._function = program.compile()
        self.block(0)

    def with_entropy(self, entropy: int) -> PriorSampler:
        """The same prior, drawn from other streams."""
        other = copy.copy(self)
        other._entropy = entropy
        return other

    def block(self, number: int) -> np.ndarray:
        """Block `number` of draws, shape (BLOCK_ROWS, p)."""
        count = len(self._program.generators)
        if self.batched:
            generators = streams(self._entropy, PRIOR, number, count)
            values = self._function(*generators, BLOCK_ROWS)
        else:
            first = number * BLOCK_ROWS
            rows = [
                self._function(*streams(self._entropy, PRIOR, row, count))
                for row in range(first, first + BLOCK_ROWS)
            ]
            values = [np.stack(column) for column in zip(*rows, strict=True)]
        for variable, drawn in zip(self._graph.parameters.variables, values, strict=True):
            if np.shape(drawn) != (BLOCK_ROWS, *variable.shape):
                raise CannotBatch(f"{variable.name} was drawn with shape {np.shape(drawn)} in a batch")
        return self._graph.parameters.stack(values)

    def provenance(self) -> dict[str, str]:
        """Nothing to say about the whole prior."""
        return {}

    def account(self) -> dict[str, str]:
        """Nothing, as before."""
        return {}


class Sampler(Protocol):
    """What draws a prior in blocks."""

    @property
    def batched(self) -> bool:
        """Whether a block is drawn at once."""
        ...

    def block(self, number: int) -> np.ndarray:
        """Block `number` of draws, shape (any, p)."""
        ...


class PriorRows:
    """Draws from the prior that lie in its support, made when they are asked for and then forgotten.

    So the prior is drawn while workers simulate, and a table of any length takes no memory here. Draws
    outside are thrown away and counted: they occur where a transform of the model confines a variable to
    less than its distribution's support (as `transform=ordered` does), and PyMC's posterior has a prior
    confined in the same way.

    Parameters
    ----------
    sampler : Sampler
    support : Support
    """

    def __init__(self, sampler: Sampler, support: Support) -> None:
        self._sampler, self._support = sampler, support
        self._parts: list[np.ndarray] = []
        self._first = self._made = self._blocks = self._drawn = self._rejected = 0

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows of a slice, shape (length, p); rows before its start are forgotten.

        Raises
        ------
        ValueError
            If the prior is not finite, or has next to no mass where the transforms confine it to.
        """
        start = rows.start or 0
        assert start >= self._first, "prior rows are asked for in order"
        while self._made < rows.stop:
            self._draw_block()
        while self._parts and self._first + len(self._parts[0]) <= start:
            self._first += len(self._parts.pop(0))
        needed, there = [], self._first
        for part in self._parts:
            if there >= rows.stop:
                break
            needed.append(part)
            there += len(part)
        return np.concatenate(needed)[start - self._first : rows.stop - self._first]

    @property
    def rejected_share(self) -> float:
        """Share of what was drawn that lay outside the support."""
        return self._rejected / max(1, self._drawn)

    def _draw_block(self) -> None:
        block = self._sampler.block(self._blocks)
        if not np.all(np.isfinite(block)):
            raise ValueError("the prior drew NaN or infinity; check the parameters of its distributions")
        inside = block[self._support.contains(block)]
        self._parts.append(inside)
        self._made += len(inside)
        self._blocks += 1
        self._drawn += len(block)
        self._rejected += len(block) - len(inside)
        if self._made < self._blocks and self._blocks >= 100:
            raise ValueError(
                f"of {self._drawn} draws from the prior only {self._made} satisfy the model's "
                "transforms; write the constraint into the prior itself (sort it, or truncate it)"
            )


def prior_support(graph: ModelGraph, parameters: np.ndarray) -> Support:
    """The support of a model's prior, from the transforms that PyMC would sample it with.

    Parameters
    ----------
    graph : ModelGraph
    parameters : ndarray of shape (n, p)
        Some draws of the prior, from which bounds that depend on other parameters are found.
    """
    blocks: list[Block] = []
    slices = graph.parameters.slices()
    for rv, variable in zip(graph.free, graph.parameters.variables, strict=True):
        columns = tuple(range(slices[variable.name].start, slices[variable.name].stop))
        blocks.extend(_blocks(graph, rv, variable, columns, parameters))
    return Support(graph.parameters.size, tuple(blocks))


def _blocks(
    graph: ModelGraph,
    rv: GraphVariable,
    variable: Variable,
    columns: tuple[int, ...],
    parameters: np.ndarray,
) -> list[Block]:
    if variable.discrete:
        return [Block(columns, smooth=False)]
    chosen = graph.model.rvs_to_transforms.get(rv)
    transform = chosen if chosen is not None else _default_transform(rv.owner.op, rv)
    if transform is None:
        return [Block(columns)]
    chain = getattr(transform, "transform_list", [transform])
    steps: list[Step] = []
    along_last_axis = False
    for link in chain:
        step = _step(graph, rv, variable, link, parameters)
        if step is None:
            return [Block(columns, smooth=False)]
        along_last_axis |= not isinstance(step, Interval | Circular)
        steps.append(step)
    if not along_last_axis or len(variable.shape) == 1:
        return [Block(columns, tuple(steps))]
    if any(isinstance(step, Interval) for step in steps):
        return [Block(columns, smooth=False)]
    width = variable.shape[-1]
    return [Block(columns[i : i + width], tuple(steps)) for i in range(0, len(columns), width)]


def _step(
    graph: ModelGraph, rv: GraphVariable, variable: Variable, link: Any, parameters: np.ndarray
) -> Step | None:
    """The step that a transform of PyMC is, or None where there is no such step."""
    size = variable.size
    if isinstance(link, logprob_transforms.LogTransform | pm_transforms.LogExpM1):
        return Interval((0.0,) * size, (np.inf,) * size)
    if isinstance(link, logprob_transforms.LogOddsTransform):
        return Interval((0.0,) * size, (1.0,) * size)
    if isinstance(link, logprob_transforms.IntervalTransform):
        return _interval(graph, rv, variable, link, parameters)
    if isinstance(link, logprob_transforms.SimplexTransform | pm_transforms.SumTo1):
        return Simplex()
    if isinstance(link, pm_transforms.Ordered):
        return Ordered()
    if isinstance(link, pm_transforms.ZeroSumTransform) and len(link.zerosum_axes) == 1:
        return ZeroSum()
    if isinstance(link, logprob_transforms.CircularTransform):
        return Circular()
    return None


def _interval(
    graph: ModelGraph, rv: GraphVariable, variable: Variable, link: Any, parameters: np.ndarray
) -> Interval | None:
    """An interval whose bounds are constants or affine in the parameters; None for other bounds."""
    ends: list[tuple[tuple[float, ...], Any]] = []
    for bound, without in zip(link.args_fn(*rv.owner.inputs), (-np.inf, np.inf), strict=True):
        values = np.full((len(parameters), variable.size), without)
        if bound is not None:
            values = _bound_values(graph, bound, variable, parameters)
        fitted = _fit_affine(values, parameters)
        if fitted is None:
            return None
        ends.append(fitted)
    (lower, lower_slopes), (upper, upper_slopes) = ends
    return Interval(lower, upper, lower_slopes, upper_slopes)


def _bound_values(graph: ModelGraph, bound: Any, variable: Variable, parameters: np.ndarray) -> np.ndarray:
    """The value of a bound for each row of parameters, shape (n, size of the variable)."""
    inputs = [rv.type() for rv in graph.free]
    replaced = substitute([pt.as_tensor(bound)], dict(zip(graph.free, inputs, strict=True)))
    function = pytensor.function(inputs, replaced, mode=QUICK, on_unused_input="ignore")
    parts = list(graph.parameters.split(parameters).values())
    rows = []
    for row in range(len(parameters)):
        given = [np.asarray(p[row], dtype=rv.dtype) for p, rv in zip(parts, graph.free, strict=True)]
        rows.append(np.broadcast_to(function(*given)[0], variable.shape).ravel())
    return np.array(rows, dtype=float)


def _fit_affine(
    values: np.ndarray, parameters: np.ndarray
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...] | None] | None:
    """Constants and slopes of an affine map that gives the values exactly, or None."""
    if np.all(values == values[0]):
        return tuple(values[0].tolist()), None
    if not np.all(np.isfinite(values)):
        return None
    design = np.column_stack([np.ones(len(parameters)), parameters])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    solution[np.abs(solution) < 1e-9 * np.abs(solution).max()] = 0.0
    if not np.allclose(design @ solution, values, rtol=1e-8, atol=1e-8 * np.abs(values).max()):
        return None
    rounded = [[float(f"{number:.12g}") for number in row] for row in solution]
    return tuple(rounded[0]), tuple(zip(*rounded[1:], strict=True))
