"""The support of a model's prior, read from its transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
from pymc.distributions import transforms as pm_transforms
from pymc.distributions.custom import CustomDistRV
from pymc.distributions.multivariate import LKJCorrRV, WishartRV, ZeroSumNormalRV, _LKJCholeskyCovRV
from pymc.distributions.simulator import SimulatorRV
from pymc.distributions.transforms import _default_transform
from pymc.logprob import transforms as logprob_transforms
from pytensor import tensor as pt
from pytensor.graph.basic import Variable as GraphVariable
from pytensor.tensor.random.basic import CategoricalRV
from pytensor.tensor.random.op import RandomVariable

from pymc_kbr.arrays.bijections import (
    Circular,
    Correlations,
    Covariance,
    Interval,
    Ordered,
    Simplex,
    Step,
    UnitRows,
    ZeroSum,
)
from pymc_kbr.arrays.support import Block, Support, repeats
from pymc_kbr.simulation.model.graphs import substitute
from pymc_kbr.simulation.model.known import log_density_of
from pymc_kbr.simulation.model.read import QUICK, ModelGraph, is_simulator
from pymc_kbr.tables.columns import Variable


def says_its_support(rv: GraphVariable) -> bool:
    """Whether PyMC says by the transform of a variable, or by giving it none, where its prior has mass."""
    op = rv.owner.op
    if isinstance(op, LKJCorrRV | ZeroSumNormalRV):
        return True
    own = type(op).__module__.startswith(("pymc.", "pytensor."))
    return own and isinstance(op, RandomVariable) and not isinstance(op, SimulatorRV | CustomDistRV)


def prior_support(
    graph: ModelGraph,
    parameters: np.ndarray,
    *,
    # Draws from which bounds that depend on other parameters are found.
    rows: int = 256,
) -> Support:
    """The support of a model's prior, from the transforms that PyMC would sample it with."""
    # Shapes: parameters (n, p).
    blocks: list[Block] = []
    slices = graph.parameters.slices()
    some = parameters[:rows]
    for rv, variable in zip(graph.free, graph.parameters.variables, strict=True):
        columns = tuple(range(slices[variable.name].start, slices[variable.name].stop))
        # A function of others, such as their floor, may be discrete whatever its type.
        discrete = variable.discrete or (
            not says_its_support(rv) and any(repeats(parameters[:, column]) for column in columns)
        )
        blocks.extend(_blocks(graph, rv, variable, columns, some, discrete))
    return Support(graph.parameters.size, tuple(blocks))


def _blocks(
    graph: ModelGraph,
    rv: GraphVariable,
    variable: Variable,
    columns: tuple[int, ...],
    parameters: np.ndarray,
    discrete: bool,
) -> list[Block]:
    # A smoothed count would be no whole number any more.
    if discrete:
        labels = isinstance(rv.owner.op, CategoricalRV)
        numbers = not labels and _varies_freely(graph, columns, parameters)
        return [Block(columns, smooth=False, numbers=numbers)]
    matrices = _of_matrices(rv, variable, columns)
    if matrices is not None:
        return matrices
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
            # Of others the density is asked.
            return [Block(columns, smooth=not says_its_support(rv))]
        along_last_axis |= not isinstance(step, Interval | Circular)
        steps.append(step)
    if not along_last_axis or len(variable.shape) == 1:
        return [Block(columns, tuple(steps))]
    # An interval has bounds for all columns together, and is not cut into those of single vectors.
    if any(isinstance(step, Interval) for step in steps):
        return [Block(columns, smooth=False)]
    # Each vector of an array is ordered, or sums to one, by itself.
    width = variable.shape[-1]
    return [Block(columns[i : i + width], tuple(steps)) for i in range(0, len(columns), width)]


def _of_matrices(rv: GraphVariable, variable: Variable, columns: tuple[int, ...]) -> list[Block] | None:
    """The blocks of correlation and covariance matrices, one a matrix; None of other variables."""
    op, size = rv.owner.op, (*variable.shape, 0)[-2 if variable.shape else 0]
    if isinstance(op, _LKJCholeskyCovRV):
        # Rows of a lower triangle, one after the other, of which the last entry is positive.
        k = int(np.sqrt(2 * size))
        ends = np.cumsum(np.arange(1, k + 1)) - 1
        lower = np.where(np.isin(np.array(variable.kept) % size, ends), 0.0, -np.inf)
        return [Block(columns, (Interval(tuple(lower.tolist()), (np.inf,) * len(columns)),))]
    step: Step
    if isinstance(op, LKJCorrRV) and op.ndim_supp == 1:
        step, entries, wanted = Correlations(), size, size
    elif isinstance(op, LKJCorrRV):
        step, entries, wanted = UnitRows(), size**2, size * (size + 1) // 2 - 1
    elif isinstance(op, WishartRV):
        step, entries, wanted = Covariance(), size**2, size * (size + 1) // 2
    else:
        return None
    matrix = np.array(variable.kept) // entries
    numbers, counts = np.unique(matrix, return_counts=True)
    if np.any(counts != wanted):
        return [Block(columns, smooth=False)]
    return [Block(tuple(np.array(columns)[matrix == number].tolist()), (step,)) for number in numbers]


def _varies_freely(
    graph: ModelGraph,
    columns: tuple[int, ...],
    parameters: np.ndarray,
    *,
    # Rows by which a column is moved to see whether it varies freely.
    shifts: tuple[int, int, int] = (1, 7, 31),
) -> bool:
    """Whether each column's values are possible beside other rows' values of all other columns."""
    try:
        density = log_density_of(graph, [rv for rv in graph.free if is_simulator(rv)])
        for column in columns:
            for shift in shifts:
                moved = parameters.copy()
                moved[:, column] = np.roll(moved[:, column], shift)
                if not np.all(np.isfinite(density(moved))):
                    return False
    except (NotImplementedError, ValueError, TypeError):
        return False
    return True


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
            found = _bound_values(graph, bound, variable, parameters)
            if found is None:
                return None
            values = found
        fitted = fit_affine(values, parameters)
        if fitted is None:
            return None
        ends.append(fitted)
    (lower, lower_slopes), (upper, upper_slopes) = ends
    return Interval(lower, upper, lower_slopes, upper_slopes)


def _bound_values(
    graph: ModelGraph, bound: Any, variable: Variable, parameters: np.ndarray
) -> np.ndarray | None:
    """The value of a bound for each row of parameters, shape (n, size of the variable)."""
    inputs = [rv.type() for rv in graph.free]
    replaced = substitute([pt.as_tensor(bound)], dict(zip(graph.free, inputs, strict=True)))
    function = pytensor.function(inputs, replaced, mode=QUICK, on_unused_input="ignore")
    parts = list(graph.parameters.split(parameters).values())
    rows = []
    for row in range(len(parameters)):
        given = [np.asarray(p[row], dtype=rv.dtype) for p, rv in zip(parts, graph.free, strict=True)]
        (value,) = function(*given)
        if np.broadcast_shapes(np.shape(value), variable.shape) != variable.shape:
            return None
        rows.append(np.broadcast_to(value, variable.shape).ravel()[variable.kept])
    return np.array(rows, dtype=float)


def fit_affine(
    values: np.ndarray, parameters: np.ndarray
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...] | None] | None:
    """Constants and slopes of an affine map that gives the values exactly, or None."""
    if np.all(values == values[0]):
        return tuple(values[0].tolist()), None
    if not np.all(np.isfinite(values)):
        return None
    design = np.column_stack([np.ones(len(parameters)), parameters])
    solution, *_ = np.linalg.lstsq(design, values, rcond=None)
    # Slopes that are rounding errors would make every bound depend on every parameter.
    solution[np.abs(solution) < 1e-9 * np.abs(solution).max()] = 0.0
    if not np.allclose(design @ solution, values, rtol=1e-8, atol=1e-8 * np.abs(values).max()):
        return None
    # The regression leaves errors in the last digits, and a bound of 1 is to be 1.
    rounded = [[float(f"{number:.12g}") for number in row] for row in solution]
    return tuple(rounded[0]), tuple(zip(*rounded[1:], strict=True))
