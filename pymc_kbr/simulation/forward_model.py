"""A PyMC model that is read, checked and compiled once, for any number of tables."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from pymc.distributions.simulator import gaussian
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.type import RandomType

from pymc_kbr.arrays.bijections import ZeroSum
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.simulation.model.graphs import CannotBatch, Program, forward_batch, substitute
from pymc_kbr.simulation.model.known import LogDensity, known_log_likelihood, log_density_of
from pymc_kbr.simulation.model.read import QUICK, ModelGraph, is_simulator, read_model
from pymc_kbr.simulation.model.simulators import function_of
from pymc_kbr.simulation.model.user_functions import compiled, plainly
from pymc_kbr.simulation.options import Clock
from pymc_kbr.simulation.prior.draws import DrawnPrior, PriorSampler
from pymc_kbr.simulation.prior.mass import support_of_model
from pymc_kbr.simulation.prior.proposal import Proposal, ProposalSampler
from pymc_kbr.simulation.prior.truncated import (
    TruncatedSampler,
    Within,
    check_can_be_truncated,
    truncated_support,
)
from pymc_kbr.simulation.progress import say
from pymc_kbr.simulation.streams import ROW_STREAM, NotRowByRow, RowStreams, streams
from pymc_kbr.simulation.workers.row_simulator import Chunk, RowSimulator, undisturbed
from pymc_kbr.tables.checks import check_varies, describe

if TYPE_CHECKING:
    import pymc as pm


@dataclass(eq=False)
class ForwardModel:
    """A model's prior and its simulators."""

    # log_known: From parameters (n, p) to the log-likelihoods (n,) of the observed variables whose density is
    # known, with the model's Potentials; None where there is nothing of the kind.

    graph: ModelGraph
    prior: PriorSampler
    support: Support
    log_known: LogDensity | None
    _simulator: RowSimulator
    _seconds: float = 0.0
    _batches: dict[bool | None, tuple[Program | None, str]] = field(default_factory=dict)

    @classmethod
    def read(cls, model: pm.Model | None) -> ForwardModel:
        """Read a model, that of the surrounding ``with`` block where it is None."""
        clock = Clock()
        graph = read_model(model)
        check_signatures(graph)
        _warn_of_unused(graph)
        # Bounds are read from draws of a fixed seed: the same model has the same support in every table.
        prior = PriorSampler(graph, 0)
        draws = prior.block(0)
        check_varies(draws, graph.parameters)
        log_known = known_log_likelihood(graph)
        support = support_of_model(graph, draws, log_known)
        simulator = RowSimulator.of(graph, 0)
        clock.lap("compile")
        return cls(graph, prior, support, log_known, simulator, clock.laps["compile"])

    @classmethod
    def of_columns(cls, model: pm.Model | None) -> ForwardModel:
        """Read a model whose statistics are columns, as predictions of statistics need them."""
        forward = cls.read(model)
        forward.check_has_columns()
        return forward

    def check_has_columns(self) -> None:
        """Refuse statistics that hold data sets."""
        sets = self.graph.statistics.set_names
        if sets:
            raise ValueError(
                f"{sets} are data sets, of which columns are made when the table is there; their rows are "
                "not predicted, and have the noise that the simulator gives them: take `zoom` without "
                "`noise`, or `refine`"
            )

    def take_seconds(self) -> float:
        """Seconds that reading took; the first table has them on its account, later ones none."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

    def check_can_be_truncated(self) -> None:
        """Refuse a prior that cannot be drawn between bounds."""
        check_can_be_truncated(self.seen_support(), self.graph.parameters)
        self._refuse_without_density("draws between bounds")

    def seen_support(self) -> Support:
        """The support, with what draws of the prior show of whole numbers and point masses."""
        return self.support.of_rows(self.prior.block(0))

    def sampler(
        self, entropy: int, within: Within | None, even: bool = False, proposal: Proposal | None = None
    ) -> tuple[PriorSampler | TruncatedSampler | ProposalSampler, Support]:
        """Draws of the prior, of all of it or between bounds, or of a proposal; and their support."""
        # `even` is that of `TruncatedSampler`; draws of the whole prior are always independent.
        whole = self.prior.with_entropy(entropy)
        if proposal is not None:
            return ProposalSampler(whole, proposal, entropy), self.support
        if within is None:
            return whole, self.support
        self._refuse_without_density("draws between bounds")
        support = truncated_support(self.support, self.graph.parameters, within)
        return TruncatedSampler(whole, self._log_density, support, entropy, even), support

    def draw(
        self, count: int, entropy: int, within: Within | None, even: bool = False
    ) -> tuple[np.ndarray, Support]:
        """Draws (count, p) of the prior, of all of it or between bounds, and their support: as `sampler`."""
        sampler, support = self.sampler(entropy, within, even)
        return DrawnPrior(sampler, support)[:count], support

    def row_simulator(self, entropy: int, timeout: float | None) -> RowSimulator:
        """The row simulator, without batches."""
        return dataclasses.replace(self._simulator, entropy=entropy, timeout=timeout)

    def in_batches(
        self, simulator: RowSimulator, first_rows: PilotRun, batched: bool | None, progressbar: bool = False
    ) -> tuple[RowSimulator, str]:
        """The simulator in batches where it may be, and the reason: found out at the first table."""
        # Where it may not be although nobody asked for rows, and there is a `progressbar`, a line says so.
        # Rounds simulate one model many times; what was found out once holds for all of them.
        if batched not in self._batches:
            decided, reason = decide_batches(self.graph, simulator, first_rows, batched)
            self._batches[batched] = decided.batch, reason
            asked = batched is not None or self.graph.statistics.set_names
            if decided.batch is None and not asked and simulator.timeout is None and progressbar:
                say(f"Simulating row by row, which is slower than in batches: {reason}")
        program, reason = self._batches[batched]
        return dataclasses.replace(simulator, batch=program), reason

    def log_prior(self, parameters: np.ndarray) -> np.ndarray:
        """Log density (n,) of the prior at parameters (n, p), of integral one over its support."""
        # Volume is measured as `Support.log_jacobian` does.
        self._refuse_without_density("rounds that draw elsewhere than from the prior")
        density = self._log_density
        inside = self.support.contains(parameters)
        return np.where(inside, density(parameters) + _hyperplanes(self.support) - self._log_mass, -np.inf)

    def log_target(self, parameters: np.ndarray) -> np.ndarray:
        """Log density (n,) of the prior times the likelihood of what is known, not of integral one."""
        log_prior = self.log_prior(parameters)
        if self.log_known is None:
            return log_prior
        inside = np.isfinite(log_prior)
        log_prior[inside] += self.log_known(parameters[inside])
        return log_prior

    def _refuse_without_density(self, what: str) -> None:
        try:
            _ = self._log_density
        except NotImplementedError as error:
            raise ValueError(
                f"the prior of {self.graph.parameters.names} has no density that PyMC knows ({error}); "
                f"{what} need it: give these parameters distributions of PyMC"
            ) from error

    @cached_property
    def _log_density(self) -> LogDensity:
        return log_density_of(self.graph)

    @cached_property
    def _log_mass(self) -> float:
        """Log of the share of the prior that lies in its support: a transform may confine it to less."""
        inside = self.support.contains(self.prior.block(0))
        if inside.all():
            return 0.0
        # A hundred blocks of draws: the log of a share of a half is known to 0.003.
        others = [self.support.contains(self.prior.block(number)) for number in range(1, 100)]
        return float(np.log(np.mean([inside, *others])))


def _warn_of_unused(graph: ModelGraph) -> None:
    """Say which settings of a `pm.Simulator` play no part: estimators have distances of their own."""
    unused = []
    for rv in graph.simulated:
        if not is_simulator(rv):
            continue
        op = type(rv.owner.op)
        epsilon = op.epsilon
        if not (isinstance(epsilon, Constant) and np.all(epsilon.data == 1)):
            unused.append(f"epsilon of {rv.name!r}")
        if op.__dict__["_distance"] is not gaussian:
            unused.append(f"distance of {rv.name!r}")
    if unused:
        warnings.warn(
            f"the {' and the '.join(unused)} belong to PyMC's own SMC-ABC and play no part here: estimators "
            "measure distances of statistics by themselves; `sum_stat` is used",
            UnusedSettingWarning,
            stacklevel=users_line(),
        )


class UnusedSettingWarning(UserWarning):
    """A `pm.Simulator` was given settings that play no part."""


def _hyperplanes(support: Support) -> float:
    """Log of the volume in hyperplanes, as PyMC's densities measure it, over that of all columns but one."""
    # Columns that sum to zero: their hyperplane is as steep to each axis as to the others.
    sums = [
        len(block.columns) for block in support.blocks for step in block.steps if isinstance(step, ZeroSum)
    ]
    return 0.5 * float(np.sum(np.log(sums)))


# --- a trial of the first rows ---


def enough_first_rows(
    graph: ModelGraph,
    *,
    # One row cannot show whether a batch keeps rows apart, and two may have equal values.
    fewest: int = 3,
) -> int:
    """How many first rows have to succeed: some, or more: no size in the model."""
    sizes: set[int] = set()
    shapes = [variable.shape for variable in (*graph.parameters.variables, *graph.statistics.variables)]
    shapes += [data.shape for data in graph.observed_data.values()]
    for variable in ancestors([*graph.simulated, *graph.summaries]):
        if hasattr(variable, "get_value") and not isinstance(variable.type, RandomType):
            shapes.append(np.shape(variable.get_value(borrow=True)))
        else:
            shapes.append(getattr(variable.type, "shape", ()))
    for shape in shapes:
        lengths = [length for length in shape if length is not None]
        sizes |= {*lengths, math.prod(lengths)}
    return next(count for count in itertools.count(fewest) if count not in sizes)


def check_signatures(graph: ModelGraph) -> None:
    """Whether each simulator takes the arguments that PyMC will call it with."""
    for rv in graph.simulated:
        if not is_simulator(rv):
            continue
        function = function_of(rv.owner.op)
        parameters = rv.owner.op.dist_params(rv.owner)
        if function is not type(rv.owner.op).fn:  # a vector's last parameter is ours, and not given to it
            parameters = parameters[:-1]
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # compiled functions may not tell
            continue
        try:
            signature.bind(None, *[None] * len(parameters), None)
        except TypeError as error:
            names = [_shown_as(parameter, i + 1) for i, parameter in enumerate(parameters)]
            call = ", ".join(["rng", *names, "size"])
            raise TypeError(
                f"the simulator of {rv.name!r} is called as fn({call}), but its signature is "
                f"{getattr(function, '__name__', 'fn')}{signature} ({error}); give it one argument for each, "
                "in this order"
            ) from None


def _shown_as(parameter: Variable, number: int) -> str:
    """A simulator's parameter by its name in the model, or its place where it has none."""
    while parameter.name is None and parameter.owner and isinstance(parameter.owner.op, DimShuffle):
        parameter = parameter.owner.inputs[0]  # PyMC has brought it into the data's dimensions
    name = (parameter.name or "").split("::")[-1]
    return name if name.isidentifier() else f"parameter_{number}"


TryRow = Callable[[int, np.ndarray], "list[np.ndarray] | str"]
"""From a row's number and parameters to its outputs, or what went wrong: see `RowSimulator.try_row`."""


@dataclass(frozen=True)
class PilotRun:
    """The first rows, simulated one by one."""

    # Shapes: parameters (t, p).
    parameters: np.ndarray
    chunk: Chunk
    outputs: dict[int, list[np.ndarray]]
    seconds: float
    repeatable: bool = True


def simulate_first_rows(
    simulator: RowSimulator, parameters: np.ndarray, try_row: TryRow, enough: int
) -> PilotRun:
    """Simulate rows at parameters (t, p) until `enough` of them succeeded."""
    outcomes: list[list[np.ndarray] | str] = []
    outputs: dict[int, list[np.ndarray]] = {}
    # Of the quickest: one that imports something, or waits for a busy machine, would make chunks of a row.
    seconds = np.inf
    for row in range(len(parameters)):
        started = time.perf_counter()
        outcomes.append(try_row(row, parameters[row]))
        seconds = min(seconds, time.perf_counter() - started)
        if not isinstance(outcomes[row], str):
            outputs[row] = outcomes[row]  # type: ignore[assignment]
        if len(outputs) == enough:
            break
    # A store that is gone on with has asked this question when it was begun.
    repeatable = enough == 1 or not outputs or _repeatable(simulator, parameters, outputs, try_row)
    return PilotRun(parameters, simulator.chunk(0, outcomes), outputs, seconds, repeatable)


def _repeatable(
    simulator: RowSimulator, parameters: np.ndarray, outputs: dict[int, list[np.ndarray]], try_row: TryRow
) -> bool:
    row = min(outputs)
    again = try_row(row, parameters[row])
    for k, (name, _) in enumerate(simulator.simulated):
        if isinstance(again, str) or not np.array_equal(outputs[row][k], again[k], equal_nan=True):
            warnings.warn(
                f"the simulator {name!r} gave two results from one state of its generator: it draws "
                "randomness from elsewhere than its `rng` argument, so random_seed cannot repeat "
                "this table; draw everything from `rng`",
                UserWarning,
                stacklevel=users_line(),
            )
            return False
    return True


def decide_batches(
    graph: ModelGraph, simulator: RowSimulator, first_rows: PilotRun, batched: bool | None
) -> tuple[RowSimulator, str]:
    """The simulator, with a program for batches where there may be one, and the reason."""
    if batched is False:
        return simulator, "asked for"
    if simulator.timeout is not None:  # `SimulationOptions` has refused `batched=True` with it
        return simulator, "a time limit is that of one simulation"
    program, reason = _batch_program(graph, simulator, first_rows)
    if program is None and batched:
        raise ValueError(f"batched=True, but {reason}; leave `batched` out to simulate row by row")
    return dataclasses.replace(simulator, batch=program), reason


def _batch_program(
    graph: ModelGraph, simulator: RowSimulator, first_rows: PilotRun
) -> tuple[Program | None, str]:
    """The program for batches of rows, or None, and the reason."""
    enough = enough_first_rows(graph)
    if len(first_rows.outputs) < enough:
        return None, f"fewer than {enough} of the first rows could be simulated"
    if graph.statistics.set_names:
        return None, "data sets are simulated one by one"
    try:
        program = forward_batch(graph)
    except CannotBatch as reason:
        return None, str(reason)
    rows = sorted(first_rows.outputs)
    together = [np.stack([first_rows.outputs[row][k] for row in rows]) for k in range(len(graph.simulated))]
    values = simulator.values(first_rows.parameters[rows])
    for k, rv in enumerate(graph.simulated):
        if is_simulator(rv):
            number = simulator.rows.sources.index(rv.owner.inputs[0])
            generators = [streams(simulator.entropy, ROW_STREAM, row, number + 1)[number] for row in rows]
            arguments = _arguments(program, k, values, together)
            op = program.outputs[k].owner.op
            why_not = _differs(op, RowStreams(generators), arguments, together[k])
            if why_not:
                return None, f"the simulator {rv.name!r} cannot be called in batches: {why_not}"
    return program, "every simulator gave for a batch what it gave row by row"


def _arguments(program: Program, k: int, values: list[np.ndarray], simulated: list[np.ndarray]) -> list[Any]:
    """Size and parameters of the k-th simulator of a batch, given what the other ones simulated."""
    nodes = [output.owner for output in program.outputs[: len(simulated)]]
    others = {node.outputs[1]: node.outputs[1].type() for j, node in enumerate(nodes) if j != k}
    given = [
        np.asarray(value, dtype=node.outputs[1].dtype)
        for j, (node, value) in enumerate(zip(nodes, simulated, strict=True))
        if j != k
    ]
    function = compiled(
        [*program.inputs, *others.values()],
        substitute(nodes[k].inputs[1:], others),
        mode=QUICK,
        on_unused_input="ignore",
    )
    return function(*values, *given)


def _differs(op: Any, rng: RowStreams, arguments: list[Any], expected: np.ndarray) -> str | None:
    size, *parameters = arguments
    size = None if size is None else tuple(int(s) for s in size)
    try:
        with undisturbed(), warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # an array taken for a number
            result = plainly(op.rng_fn, rng, *parameters, size)
    except NotRowByRow as reason:
        return str(reason)
    except (Exception, SystemExit) as error:
        return f"it raised {describe(error)}"
    if result.shape != expected.shape:
        return f"it returned shape {result.shape} and not {expected.shape}"
    # Relative to the largest number: in small units an absolute tolerance would let everything pass.
    atol = 1e-12 * float(np.nan_to_num(np.abs(expected), posinf=0.0).max(initial=0.0))
    if not np.allclose(result, expected, rtol=1e-7, atol=atol, equal_nan=True):
        return "its results were not those of its rows alone"
    return None
