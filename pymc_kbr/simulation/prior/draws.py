"""Draws from a model's prior, and the prior's support as plain data."""

from __future__ import annotations

import copy
from typing import Protocol

import numpy as np

from pymc_kbr.arrays.rows import check_range
from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation.model.graphs import CannotBatch, Program, prior_batch, prior_rows
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.streams import PRIOR_STREAM, ROWS_A_STREAM, streams
from pymc_kbr.tables.checks import describe


class PriorSampler:
    """Draws blocks of `ROWS_A_STREAM` rows, each from streams of its own."""

    def __init__(self, graph: ModelGraph, entropy: int) -> None:
        self._graph, self._entropy = graph, entropy
        try:
            self._use(prior_batch(graph), batched=True)
        except Exception:  # whatever PyTensor cannot draw in batches; a faulty prior fails again below
            try:
                self._use(prior_rows(graph), batched=False)
            except Exception as error:
                raise ValueError(
                    f"the prior of {self._undrawable()} cannot be drawn ({describe(error)}); check the "
                    "parameters of its distributions, which must be proper"
                ) from error

    def _use(self, program: Program, *, batched: bool) -> None:
        self._program, self.batched = program, batched
        self._function = program.compile()
        self.block(0)  # a graph that compiles may still not draw

    def _undrawable(self) -> list[str]:
        """The first variable that cannot be drawn by itself, or all of them."""
        for rv in self._graph.free:
            program = Program.make([], [rv])
            try:
                program.compile()(*streams(self._entropy, PRIOR_STREAM, 0, len(program.generators)))
            except Exception:
                return [rv.name]
        return [rv.name for rv in self._graph.free]

    def with_entropy(self, entropy: int) -> PriorSampler:
        """The same prior, drawn from other streams."""
        other = copy.copy(self)
        other._entropy = entropy
        return other

    def block(self, number: int) -> np.ndarray:
        """Block `number` of draws, shape (ROWS_A_STREAM, p)."""
        count = len(self._program.generators)
        if self.batched:
            generators = streams(self._entropy, PRIOR_STREAM, number, count)
            values = self._function(*generators, ROWS_A_STREAM)
        else:
            first = number * ROWS_A_STREAM
            rows = [
                self._function(*streams(self._entropy, PRIOR_STREAM, row, count))
                for row in range(first, first + ROWS_A_STREAM)
            ]
            values = [np.stack(column) for column in zip(*rows, strict=True)]
        for variable, drawn in zip(self._graph.parameters.variables, values, strict=True):
            if np.shape(drawn) != (ROWS_A_STREAM, *variable.shape):
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


class DrawnPrior:
    """Draws from the prior that lie in its support, made when they are asked for and then forgotten."""

    def __init__(self, sampler: Sampler, support: Support) -> None:
        self._sampler, self._support = sampler, support
        self._parts: list[np.ndarray] = []
        self._first = self._made = self._blocks = self._drawn = self._rejected = 0

    def __getitem__(self, rows: slice) -> np.ndarray:
        """The rows of a slice, shape (length, p); rows before its start are forgotten."""
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
    def made(self) -> int:
        """How many rows were drawn so far, those that were asked for among them."""
        return self._made

    @property
    def rejected_share(self) -> float:
        """Share of what was drawn that lay outside the support."""
        return self._rejected / max(1, self._drawn)

    def _draw_block(self) -> None:
        block = self._sampler.block(self._blocks)
        if not np.all(np.isfinite(block)):
            raise ValueError("the prior drew NaN or infinity; check the parameters of its distributions")
        check_range("the prior's draws", block)
        inside = block[self._support.contains(block)]
        self._parts.append(inside)
        self._made += len(inside)
        self._blocks += 1
        self._drawn += len(block)
        self._rejected += len(block) - len(inside)
        # Less than one row a block, a thousandth: the caller would wait for ever.
        if self._made < self._blocks and self._blocks >= 100:
            raise ValueError(
                f"of {self._drawn} draws from the prior only {self._made} satisfy the model's "
                "transforms; write the constraint into the prior itself (sort it, or truncate it)"
            )
