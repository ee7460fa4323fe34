"""Where a prior has mass, asked of its density, or of its draws, where PyMC's transforms do not say it."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
from pymc.distributions.multivariate import _LKJCholeskyCovRV

from pymc_kbr.arrays.bijections import DrawnRange, Interval
from pymc_kbr.arrays.support import Block, Inside, Support
from pymc_kbr.simulation.model.known import LogDensity, log_density_of
from pymc_kbr.simulation.model.read import ModelGraph
from pymc_kbr.simulation.prior.density import without_density
from pymc_kbr.simulation.prior.support import fit_affine, prior_support, says_its_support

Holds = Callable[[np.ndarray], np.ndarray]
"""From parameters (n, p) to a bool (n,) each: whether the prior has mass there."""


def support_of_model(graph: ModelGraph, draws: np.ndarray, log_known: LogDensity | None = None) -> Support:
    """The support of a model's prior: from transforms, and where these do not say it from the density."""
    # Shapes: draws (n, p).
    support = prior_support(graph, draws)
    slices = graph.parameters.slices()
    smooth = support.moved()
    places = {
        rv: tuple(range(slices[v.name].start, slices[v.name].stop))
        for rv, v in zip(graph.free, graph.parameters.variables, strict=True)
        if smooth[slices[v.name]].all()
    }
    unknown = without_density(graph)
    for rv in unknown:
        if rv in places:
            support = _between_draws(support, places[rv], draws)
    asked = [c for rv in places if not says_its_support(rv) and rv not in unknown for c in places[rv]]
    if not asked and log_known is None:
        return support
    log_prior = log_density_of(graph, unknown)

    def has_density(parameters: np.ndarray) -> np.ndarray:
        return _above_zero(log_prior, parameters)

    if asked:
        support = _between_ends(graph, support, asked, draws, log_prior)
    needing = tuple(asked) if asked and not _say_all(support, draws, has_density) else ()

    def holds(parameters: np.ndarray) -> np.ndarray:
        found = has_density(parameters)
        if log_known is not None and np.any(found):
            found[found] = _above_zero(log_known, parameters[found])
        return found

    return dataclasses.replace(support, inside=Inside(holds, needing))


def _above_zero(log_density: LogDensity, parameters: np.ndarray) -> np.ndarray:
    """Whether a density is more than zero."""
    return np.asarray(_logs(log_density, parameters) > -np.inf)


def _logs(log_density: LogDensity, parameters: np.ndarray) -> np.ndarray:
    """Log densities, minus infinity where there is none or it cannot be computed."""
    if not len(parameters):
        return np.zeros(0)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            logs = log_density(parameters)
    except Exception:
        if len(parameters) == 1:
            return np.full(1, -np.inf)
        return np.concatenate([_logs(log_density, half) for half in np.array_split(parameters, 2)])
    return np.where(np.isnan(logs), -np.inf, logs)


def _between_draws(support: Support, columns: tuple[int, ...], draws: np.ndarray) -> Support:
    some = draws[:, columns]
    step = DrawnRange(tuple(some.min(axis=0).tolist()), tuple(some.max(axis=0).tolist()))
    return _with_blocks(support, {columns: Block(columns, (step,))})


def _with_blocks(support: Support, new: dict[tuple[int, ...], Block]) -> Support:
    blocks = tuple(new.get(block.columns, block) for block in support.blocks)
    return dataclasses.replace(support, blocks=blocks)


def _between_ends(
    graph: ModelGraph,
    support: Support,
    asked: list[int],
    draws: np.ndarray,
    log_density: LogDensity,
    *,
    # Draws at which the ends of a parameter are searched, beyond the number of parameters it may depend on.
    extra_rows: int = 8,
) -> Support:
    """Intervals with the ends that the density has, for blocks of these columns that are no other kind."""
    known = draws[_above_zero(log_density, draws)]
    rows = known[: draws.shape[1] + extra_rows]
    # The rows of a factor confine each other, if anything does.
    slices = graph.parameters.slices()
    read = {
        column
        for rv in graph.free
        if isinstance(rv.owner.op, _LKJCholeskyCovRV)
        for column in range(slices[rv.name].start, slices[rv.name].stop)
    }
    movable = [
        block
        for block in support.blocks
        if block.smooth
        and set(block.columns) <= set(asked)
        and (not block.steps or (len(block.steps) == 1 and type(block.steps[0]) is Interval))
        and not set(block.columns) & read
    ]
    columns = [c for block in movable for c in block.columns]
    if len(rows) < 2 or not columns:
        return support
    lowest, highest = (_ends(rows, columns, side, known, log_density) for side in (-1, 1))
    place, before, new = {c: i for i, c in enumerate(columns)}, list[int](), {}
    for block in support.blocks:
        if block in movable:
            at = [place[c] for c in block.columns]
            step = _interval(block, rows, lowest[:, at], highest[:, at], before)
            new[block.columns] = Block(block.columns, () if step is None else (step,))
        before += block.columns
    return _with_blocks(support, new)


def _interval(
    block: Block, rows: np.ndarray, lowest: np.ndarray, highest: np.ndarray, before: list[int]
) -> Interval | None:
    """Ends (n, k) at some rows (n, p) as an interval: constant, affine in the columns before, or none."""
    own = block.steps[0] if block.steps else None
    assert own is None or isinstance(own, Interval)
    size, p = len(block.columns), rows.shape[1]
    constants, slopes = np.empty((2, size)), np.zeros((2, size, p))
    for side, (ends, without) in enumerate(((lowest, -np.inf), (highest, np.inf))):
        if own is not None:
            constants[side] = (own.lower, own.upper)[side]
            mine = (own.lower_slopes, own.upper_slopes)[side]
            slopes[side] = 0.0 if mine is None else np.array(mine)
        else:
            constants[side] = without
        for j in range(size):
            # What a transform says of an end is exact.
            if np.isfinite(constants[side, j]) or not np.all(np.isfinite(ends[:, j])):
                continue
            end = _one_number(ends[:, j], rows[:, block.columns[j]])
            if end is not None:
                constants[side, j] = end
                continue
            fitted = fit_affine(ends[:, [j]], rows[:, before]) if before else None
            if fitted is not None and fitted[1] is not None:
                constants[side, j] = fitted[0][0]
                slopes[side, j, before] = np.array(fitted[1])[0]
    if not np.any(np.isfinite(constants)):
        return None
    lower, upper = (tuple(row.tolist()) for row in constants)
    tied = [None if not np.any(s) else tuple(map(tuple, s.tolist())) for s in slopes]
    return Interval(lower, upper, *tied)


def _one_number(ends: np.ndarray, values: np.ndarray) -> float | None:
    """Ends (n,) that are one to within their digits, as the shortest decimal number among them; or None."""
    width = max(float(np.ptp(values)), np.finfo(float).tiny)
    # As many digits as halvings leave, of the end or, near zero, of the width.
    apart = 1e-12 * max(float(np.abs(ends).max()), width)
    if np.ptp(ends) > apart:
        return None
    middle = float(np.median(ends))
    for digits in range(16):
        rounded = float(f"{middle:.{digits}e}") if abs(middle) > apart else 0.0
        if abs(rounded - middle) <= apart:
            return rounded
    return middle


def _ends(
    rows: np.ndarray,
    columns: list[int],
    side: int,
    draws: np.ndarray,
    log_density: LogDensity,
    *,
    # Steps outwards, each four times the one before: a million millions of widths away there is no end.
    steps: int = 20,
    # Of the draws, which are tried first, so that a gap is no end.
    quantiles: int = 32,
    # Of the step in which there is an end: to its last digits.
    halvings: int = 60,
) -> np.ndarray:
    """Where each column (n, c) ends for the others of each row, infinite where it does not."""
    n, c = len(rows), len(columns)

    def logs_at(values: np.ndarray) -> np.ndarray:
        """Log densities where each row has one of its columns at a value (n, c)."""
        points = np.repeat(rows[:, None], c, axis=1)
        points[:, range(c), columns] = values
        return _logs(log_density, points.reshape(n * c, -1)).reshape(n, c)

    def at(values: np.ndarray) -> np.ndarray:
        return logs_at(values) > -np.inf

    own = rows[:, columns]
    width = np.ptp(draws[:, columns], axis=0)
    width = np.where(width > 0, width, 1.0)
    inner = own.copy()
    for quantile in np.quantile(draws[:, columns], np.linspace(0, 1, quantiles + 1), axis=0):
        values = np.where(side * (quantile - inner) > 0, quantile, inner)
        inner = np.where(at(values), values, inner)
    start, outer, open_ = inner.copy(), np.full((n, c), np.nan), np.zeros((n, c), dtype=bool)
    for rung in range(steps + 1):
        values = start + side * width * 4.0**rung
        inside = at(values)
        inner = np.where(inside, values, inner)
        outer = np.where(inside, np.nan, np.where(np.isnan(outer), values, outer))
        open_ = inside
    if np.all(open_):
        return np.full((n, c), side * np.inf)
    for _ in range(halvings):
        middle = (inner + outer) / 2
        inside = at(np.where(open_, own, middle))
        inner, outer = np.where(inside & ~open_, middle, inner), np.where(inside | open_, outer, middle)
    # No end is where a density that falls and falls is too small to be a number.
    open_ |= logs_at(inner) - logs_at(own) < np.log(np.finfo(float).tiny)
    return np.where(open_, side * np.inf, inner)


def _say_all(
    support: Support,
    draws: np.ndarray,
    holds: Holds,
    *,
    # Points between the draws at which the density must be above zero.
    trials: int = 2048,
) -> bool:
    """Whether the density is more than zero wherever the bijections lead, as far as trials show."""
    rng = np.random.default_rng(0)
    with np.errstate(all="ignore"):
        free = support.forward(draws)
    free = free[np.isfinite(free).all(axis=1)]
    if len(free) < 2:
        return False
    # Each column by itself, between any two draws and somewhat beyond.
    one, other = (np.column_stack([rng.choice(column, trials) for column in free.T]) for _ in range(2))
    share = rng.uniform(-0.5, 1.5, size=one.shape)
    mixed = one + share * (other - one)
    fixed = ~support.smooth()
    mixed[:, fixed] = free[rng.integers(len(free), size=trials)][:, fixed]
    return bool(np.all(holds(support.backward(mixed))))
