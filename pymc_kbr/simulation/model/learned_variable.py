"""A learned likelihood as a random variable of PyTensor: draws, and a log density with gradients."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pytensor
from pymc.logprob.abstract import _logprob
from pytensor import tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.scalar import Cast
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable

from pymc_kbr.simulation.model.differentiated import GraphFunctions, expressed

GRAPH = GraphFunctions()
OUTSIDE = ("-inf", "extrapolate")
SIGNATURES = {"one": "(g,p),(n)->(d)", "rows": "(g,p),(n)->(n,d)", "numbers": "(g,p),(n)->(n)"}
"""How the value lies: one observation (d,), rows of them (n, d), or, where d = 1, a number a row (n,)."""

WITH_LAPSES = {layout: signature.replace("->", ",(g)->") for layout, signature in SIGNATURES.items()}
"""The same, with a probability of a lapse for each set of parameters."""


class Likelihood(Protocol):
    """What a variable asks of a fitted likelihood of d statistics given p parameters."""

    # Shapes: simulated_range_ (2, p).
    parameters_size: int
    statistics_size: int
    simulated_range_: np.ndarray

    def prepare(self, observed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Observations (n, d) in the likelihood's units: points (n, s, e) and log volumes (n, s)."""

    def describe(self, parameters: Any, xp: Any = np) -> Any:
        """What the density needs of parameters (k, p): shape (k, w)."""

    def log_density(self, described: Any, prepared: Any, xp: Any = np) -> Any:
        """Log densities (n,) of n prepared observations, one for each row of what is described."""

    def draw_statistics(self, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, d) for each of k parameters."""


def simulated(likelihood: Likelihood, theta: Any, xp: Any = np) -> Any:
    """Which of the parameters (g, p) are where the likelihood's simulations were, shape (g,)."""
    region = getattr(likelihood, "simulated_region_", None)
    if region is not None:
        return region.holds(theta, xp)
    lowest, highest = np.asarray(likelihood.simulated_range_, dtype=float)
    return xp.all((theta >= lowest) & (theta <= highest), axis=1)


class Simulated(Op):
    """Which parameters are where the simulations were: it has no gradient, and one operation is enough."""

    def __init__(self, likelihood: Likelihood) -> None:
        self.likelihood = likelihood

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Simulated) and self.likelihood is other.likelihood

    def __hash__(self) -> int:
        return hash((Simulated, id(self.likelihood)))

    def make_node(self, theta: Variable) -> Apply:
        """Of parameters (g, p), booleans (g,)."""
        return Apply(self, [theta], [pt.bvector()])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list[list[Any]]) -> None:
        """By NumPy."""
        output_storage[0][0] = np.asarray(simulated(self.likelihood, inputs[0]), dtype=np.int8)

    def infer_shape(self, *arguments: Any) -> list[Any]:
        """One for each row of parameters."""
        return [(arguments[-1][0][0],)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Nothing is differentiated."""
        return [[False]]

    def in_pytensor(self, theta: Variable) -> list[Variable]:
        """The same as an expression."""
        return [simulated(self.likelihood, theta, pt).astype("int8")]


class Lapse(NamedTuple):
    """What is observed where a trial is a lapse: each statistic by itself, whatever the parameters."""

    # A continuous one is even between two numbers, another takes any of its values with the same probability.

    ranges: tuple[tuple[float, float] | None, ...]
    values: tuple[tuple[float, ...], ...]

    def log_densities(self, lower: Any, upper: Any, xp: Any = np) -> Any:
        """Of observations between two ends (n, d), which are equal where one is observed, shape (n,)."""
        total = 0.0
        for j, (between, values) in enumerate(zip(self.ranges, self.values, strict=True)):
            low, high = lower[:, j], upper[:, j]
            if between is not None:
                width = between[1] - between[0]
                inside = (low <= between[1]) & (high >= between[0])
                length = xp.minimum(high, between[1]) - xp.maximum(low, between[0])
                share = xp.where(low < high, length, 1.0 * inside) / width
            else:
                each = np.array(values)
                share = xp.mean(1.0 * ((each >= low[:, None]) & (each <= high[:, None])), axis=1)
            there = share > 0
            total = total + xp.where(there, xp.log(xp.where(there, share, 1.0)), -np.inf)
        return total

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Observations (count, d)."""
        columns = [
            rng.choice(values, count) if between is None else rng.uniform(*between, count)
            for between, values in zip(self.ranges, self.values, strict=True)
        ]
        return np.column_stack(columns)


class LearnedSimulatorRV(RandomVariable):
    """Statistics drawn from a learned likelihood, or from a lapse."""

    name = "LearnedSimulator"
    _print_name = ("LearnedSimulator", "\\operatorname{LearnedSimulator}")
    __props__ = ("likelihood", "limits", "layout", "in_order", "outside", "dtype", "inplace", "lapse")

    def __init__(
        self,
        likelihood: Likelihood,
        layout: str,
        in_order: bool,
        outside: str,
        dtype: str | None = None,
        inplace: bool = False,
        lapse: Lapse | None = None,
        limits: Any = None,
    ) -> None:
        self.likelihood = likelihood
        self.limits = limits
        self.lapse = lapse
        self.layout = layout
        self.in_order = in_order
        self.outside = outside
        signatures = SIGNATURES if lapse is None else WITH_LAPSES
        super().__init__(dtype=dtype or pytensor.config.floatX, inplace=inplace, signature=signatures[layout])

    # A fitted likelihood is what it is: two that hold the same arrays are not compared entry by entry.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        more = (getattr(self, name) for name in self.__props__[2:])
        return (type(self), id(self.likelihood), id(self.limits), *more)

    def __str__(self) -> str:
        return f"{self.name}({self.likelihood})"

    def _supp_shape_from_params(self, dist_params: Any, param_shapes: Any = None) -> tuple[Any, ...]:
        if self.layout == "one":
            return (self.likelihood.statistics_size,)
        rows = dist_params[1].shape[-1] if param_shapes is None else param_shapes[1][-1]
        return (rows, self.likelihood.statistics_size) if self.layout == "rows" else (rows,)

    def rng_fn(self, rng: np.random.Generator, *args: Any, **kwargs: Any) -> np.ndarray:
        """Draws for a batch of parameters (..., g, p), rows (..., n), and shares of lapses (..., g)."""
        theta, rows, *lapse, size = args
        batch = np.broadcast_shapes(theta.shape[:-2], rows.shape[:-1]) if size is None else tuple(size)
        theta = np.broadcast_to(theta, (*batch, *theta.shape[-2:]))
        rows = np.broadcast_to(rows, (*batch, rows.shape[-1]))
        each = np.take_along_axis(theta, rows[..., None], axis=-2)
        drawn = self._draw(each.reshape(-1, each.shape[-1]), rng)
        if self.lapse is not None:
            share = np.broadcast_to(lapse[0], (*batch, theta.shape[-2]))
            lapses = rng.random(len(drawn)) < np.take_along_axis(share, rows, axis=-1).reshape(-1)
            # A parameter that was not simulated has no draws, of lapses either.
            lapses &= ~np.isnan(drawn).any(axis=1)
            drawn[lapses] = self.lapse.draw(int(lapses.sum()), rng)
        drawn = drawn.reshape(*each.shape[:-1], -1)
        if self.limits is not None:
            drawn = self.limits.clipped(drawn)
        if self.layout == "one":
            return drawn[..., 0, :]
        return drawn if self.layout == "rows" else drawn[..., 0]

    def _draw(self, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if self.outside == "extrapolate":
            return self.likelihood.draw_statistics(theta, rng)
        inside = simulated(self.likelihood, theta)
        drawn = np.full((len(theta), self.likelihood.statistics_size), np.nan)
        if inside.any():
            drawn[inside] = self.likelihood.draw_statistics(theta[inside], rng)
        return drawn


class Prepare(Op):
    """Observations in a likelihood's units, by NumPy: no gradient goes through it."""

    __props__ = ()

    _last: tuple[np.ndarray, Any] | None = None

    def __init__(self, name: str, likelihood: Likelihood) -> None:
        self.name = name
        self.likelihood = likelihood

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.likelihood is other.likelihood  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), id(self.likelihood)))

    def make_node(self, observed: Variable) -> Apply:
        """Points (n, s, e) and log volumes (n, s) of observations (n, d)."""
        observed = pt.as_tensor(observed)
        return Apply(self, [observed], [pt.dtensor3("points"), pt.dmatrix("log_volume")])

    def perform(self, node: Apply, inputs: list[np.ndarray], output_storage: list[list[Any]]) -> None:
        """As `prepare` of the likelihood, and NaN is refused."""
        observed = np.array(inputs[0], dtype=float)
        # A sampler asks at every step, of the same data: what is warned of once need not be each time.
        last = self._last
        if last is None or not np.array_equal(last[0], observed):
            refuse_gaps(self.name, observed)
            last = self._last = observed, self.likelihood.prepare(observed)
        points, log_volume = last[1][:2]
        # Copies: what is handed out may be overwritten in the graph.
        output_storage[0][0] = np.array(points, dtype=float)
        output_storage[1][0] = np.array(log_volume, dtype=float)

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Nothing is differentiated by the observations."""
        return [[False, False]]


def refuse_gaps(name: str, observed: np.ndarray, *, missing: bool = False) -> None:
    """Refuse observations (n, d) with infinity, or with NaN unless statistics may be `missing`."""
    gaps = np.flatnonzero(np.any(np.isinf(observed) if missing else ~np.isfinite(observed), axis=1))
    if len(gaps):
        shown = ", ".join(map(str, gaps[:5])) + (", ..." if len(gaps) > 5 else "")
        what = "infinity" if missing else "NaN or infinity"
        raise ValueError(
            f"the observed values of {name!r} contain {what} in {len(gaps)} of {len(observed)} rows "
            f"(row {shown}); "
            + (
                "give NaN where a statistic is missing, or say by censored= that it is beyond a limit"
                if missing
                else "the density of part of a row is not known; leave these rows out"
            )
        )


@_logprob.register(LearnedSimulatorRV)
def learned_log_density(
    op: LearnedSimulatorRV,
    values: Any,
    rng: Any,
    size: Any,
    theta: Any,
    rows: Any,
    *lapse: Any,
    **kwargs: Any,
) -> Variable:
    """Log density of each observation: a scalar for one (d,), otherwise shape (n,)."""
    (value,) = values
    if theta.type.ndim != 2 or value.type.ndim != op.ndim_supp:
        raise ValueError(
            "the log density of a learned simulator is that of one set of parameters (g, p) and its data; "
            f"got parameters with {theta.type.ndim} dimensions and data with {value.type.ndim}"
        )
    theta = theta.astype("float64")
    inside = None
    if op.outside == "-inf":
        inside = pt.neq(Simulated(op.likelihood)(theta), 0)
        # Outside, the formula is evaluated at the border: NaN there would reach the gradient inside.
        theta = pt.clip(theta, *map(pt.constant, np.asarray(op.likelihood.simulated_range_, dtype=float)))
    density, ends = _densities(op, value, theta, None if op.in_order else rows)
    if op.lapse is not None:
        share = lapse[0] if op.in_order else lapse[0][rows]
        xp = np if isinstance(ends[0], np.ndarray) else pt
        density = _with_lapses(density, share, op.lapse.log_densities(*ends, xp))
    if inside is not None:
        density = pt.where(inside if op.in_order else inside[rows], density, -np.inf)
    return density[0] if op.layout == "one" else density


def _densities(
    op: LearnedSimulatorRV, value: Variable, theta: Variable, rows: Variable | None
) -> tuple[Variable, tuple[Any, Any]]:
    """Log densities (n,), and the ends (n, d) between which observations lie."""
    # Constant data are prepared now: NumPy's part is then no part of the graph.
    name, likelihood, limits = value.name or op.name, op.likelihood, op.limits

    def of(evaluation: Any, prepared: Any, some: np.ndarray | None = None) -> Variable:
        described = evaluation.describe(theta, xp=GRAPH)
        if rows is not None:
            described = described[rows if some is None else rows[some]]
        elif some is not None:
            described = described[some]
        return evaluation.log_density(described, prepared, xp=GRAPH)

    data = _constant(value)
    if data is None:
        observed = _as_rows(op, value)
        if limits is None:
            return of(likelihood, PreparedGraph(*Prepare(name, likelihood)(observed))), (observed, observed)
        between = likelihood.between(limits)  # type: ignore[attr-defined]
        prepared = PreparedGraph(*Prepare(name, between)(observed))
        return of(between.evaluation, prepared), limits.bounds(observed, pt)
    observed = _as_rows(op, data).astype(float)
    parts = getattr(likelihood, "prepare_parts", None)
    refuse_gaps(name, observed, missing=parts is not None)
    if parts is None or (limits is None and not np.any(np.isnan(observed))):
        return of(likelihood, likelihood.prepare(observed)), (observed, observed)
    lower, upper = ends = (likelihood.limits(None) if limits is None else limits).bounds(observed)  # type: ignore[attr-defined]
    density = pt.zeros(len(observed))
    for part in parts(lower, upper, conditioned=False):
        of_part = of(part.evaluation, part.prepared, part.rows)
        density = pt.set_subtensor(density[part.rows], of_part)
    return density, ends


def _with_lapses(density: Any, share: Any, lapse: Any) -> Variable:
    """Log density of the mixture: a trial that one of the two cannot make is the other's."""
    learned, other = pt.gt(density, -np.inf), lapse > -np.inf
    own = pt.log1p(-share) + pt.where(learned, density, 0.0)
    lapsed = pt.log(share) + (np if isinstance(lapse, np.ndarray) else pt).where(other, lapse, 0.0)
    one = pt.where(learned, own, pt.where(other, lapsed, -np.inf))
    return pt.where(learned & other, pt.logaddexp(own, lapsed), one)


class PreparedGraph(NamedTuple):
    """Prepared observations as variables of a graph: the fields of what a likelihood prepares."""

    points: Variable
    log_volume: Variable


def _constant(value: Variable) -> np.ndarray | None:
    if isinstance(value, Constant):
        return np.asarray(value.data)
    node = value.owner
    if node is not None and isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast):
        data = _constant(node.inputs[0])
        return None if data is None else data.astype(value.dtype)
    return None


def _as_rows(op: LearnedSimulatorRV, value: Any) -> Any:
    if op.layout == "one":
        return value[None, :]
    return value if op.layout == "rows" else value[:, None]


expressed(Simulated)
