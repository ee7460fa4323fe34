"""Statistics of a simulator without noise, predicted instead of simulated."""

from __future__ import annotations

import dataclasses
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import eigh

from pymc_kbr.bijections import Interval
from pymc_kbr.gram import Gram, make_solver
from pymc_kbr.kernels import Gaussian, choose_kernel_and_ridge, deviations, median_heuristic
from pymc_kbr.reference_table import Failures, ReferenceTable
from pymc_kbr.simulation import Forward, Within, entropy_of
from pymc_kbr.summaries import Scaler
from pymc_kbr.support import Support

if TYPE_CHECKING:
    import pymc as pm

SCALES = tuple(2.0 ** np.arange(-2, 5))
"""Bandwidths that are tried, as multiples of the median heuristic."""

RIDGES = tuple(10.0 ** np.arange(-10.0, 1.1))
"""Ridges n * lambda that are tried: a function without noise needs next to none."""

MOST_ROWS = 200
"""Rows on which bandwidth and ridge are chosen."""

SKETCH = 32
"""Statistics from which on errors are measured on so many random combinations of them."""

LARGE = 0.05
"""Error, as a share of a statistic's deviation in the table, above which a warning is given."""

BLOCK = 2_000
"""Rows that are predicted at once."""

CLOSER = 5
"""Times, at most, that rows close in on the observation."""

PILOT = 4_000
"""Rows drawn for that each time."""

DEVIATIONS = 4.5
"""Of the noise, by which a row may be less likely than the likeliest one and is kept."""

ENOUGH = 0.8
"""Share of its range to which a parameter must shrink to have been narrowed."""

MARGIN, FEW_MARGIN, FEW = 0.05, 0.5, 100
"""What is added to the range of likely rows on each side, as a share of it; of fewer than so many rows."""


@dataclass(frozen=True, eq=False)
class Emulator:
    """Kernel ridge regression of a table's statistics on its parameters, next to interpolation.

    Attributes
    ----------
    error : float
        Leave-one-out error, root mean square over rows and statistics, in the units given to `fit`.
    """

    error: float
    _gram: Gram
    _coefficients: np.ndarray
    _directions: np.ndarray
    _means: np.ndarray
    _scaler: Scaler

    @classmethod
    def fit(cls, table: ReferenceTable, units: np.ndarray, rng: np.random.Generator) -> Emulator:
        """Choose bandwidth and ridge by the leave-one-out error in closed form, and solve.

        Parameters
        ----------
        table : ReferenceTable
        units : ndarray of shape (d,)
            In which errors of the statistics are added up.
        rng : numpy.random.Generator
            For a table so long that its Gram matrix is approximated.
        """
        scaler = Scaler.fit(table.parameters)
        x = scaler.transform(table.parameters)
        means = table.statistics.mean(axis=0)
        targets = (table.statistics - means) / units
        median = median_heuristic(x)
        choice = choose_kernel_and_ridge(
            x,
            x,
            [Gaussian(multiple * median) for multiple in SCALES],
            RIDGES,
            targets=_sketched(targets, rng),
            most=MOST_ROWS,
        )
        # What varies less than it is predicted wrongly is not predicted.
        directions = _directions(targets, choice.error)
        gram = make_solver("auto").gram(choice.kernel, x, rng, choice.ridge)
        coefficients = gram.regularised(choice.ridge).solve(targets @ directions)
        error = float(np.sqrt(choice.error / len(units)))
        return cls(error, gram, coefficients, directions.T * units, means, scaler)

    def __call__(self, parameters: np.ndarray) -> np.ndarray:
        """Statistics (k, d) of parameters (k, p)."""
        x = self._scaler.transform(parameters)
        parts = np.array_split(x, max(1, len(x) // BLOCK))
        predicted = np.vstack([self._gram.cross(part).T @ self._coefficients for part in parts])
        return self._means + predicted @ self._directions


def _sketched(targets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Few random combinations of columns (n, d), whose squares add up to theirs on average."""
    if targets.shape[1] <= SKETCH:
        return targets
    return targets @ rng.normal(scale=SKETCH**-0.5, size=(targets.shape[1], SKETCH))


def _directions(targets: np.ndarray, error: float) -> np.ndarray:
    """Principal directions (d, r) of targets (n, d), without the least: those of a variance below `error`."""
    if targets.shape[1] <= SKETCH:
        return np.eye(targets.shape[1])
    values, vectors = eigh(targets.T @ targets / len(targets), driver="evd")
    kept = np.cumsum(np.maximum(values, 0)) >= error
    kept[-1] = True
    return vectors[:, kept]


def emulate(
    table: ReferenceTable,
    draws: int,
    *,
    model: pm.Model | None = None,
    noise: Any = None,
    random_seed: int | np.random.Generator | None = None,
) -> ReferenceTable:
    """Make a long table from a short one by predicting statistics from parameters.

    For simulators whose statistics are a function of the parameters, such as equations that are solved. A
    thousand simulations near the posterior, for instance from `zoom`, often predict all others.

    Parameters
    ----------
    table : ReferenceTable
        What was simulated.
    draws : int
        Rows of the new table: draws of the model's prior in the table's support, which between bounds are
        not independent but fill it evenly.
    model : pymc.Model, optional
        That the table was simulated from; that of the surrounding ``with`` block where left out.
    noise : float or array_like of shape (d,), optional
        Standard deviations of the normal noise on the observation that the simulator leaves out, as
        in `zoom`. With it rows are drawn where they are likely, and errors are measured against it.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    ReferenceTable
        Its statistics are without noise, too. ``provenance["emulated"]`` has the number of rows it was
        predicted from and the leave-one-out error.

    Raises
    ------
    TypeError, ValueError
        If `draws` is no whole number above one, the model has other parameters or another support, the table
        has no observation although there is `noise`, or `noise` is not positive.

    Warns
    -----
    UserWarning
        If the leave-one-out error is above 5% of the statistics' deviations: the statistics are noisy, or too
        few; or, with `noise`, if the errors of all statistics together are above one deviation of it.

    Notes
    -----
    The prediction is (G + r I)^-1 applied to the statistics, with a Gaussian kernel on the parameters over
    their deviations in the table: the conditional mean of the statistics, and that of a Gaussian process
    [1]_. With normal noise of deviation h on every statistic, `NadarayaWatson` with ``bandwidth=h,
    scale=False`` weights each row with its likelihood.

    References
    ----------
    .. [1] R. D. Wilkinson, Accelerating ABC methods using Gaussian processes, AISTATS (2014), 1015-1023.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_kbr as pk
    >>> times = np.arange(1, 6)
    >>> def fn(rng, rate, size):
    ...     return np.exp(-rate * times)
    >>> with pm.Model():
    ...     rate = pm.HalfNormal("rate", 1)
    ...     _ = pk.vector_simulator("y", fn, rate, observed=np.exp(-0.5 * times))
    ...     few = pk.zoom(600, rounds=2, noise=0.01, random_seed=1, progressbar=False)
    ...     many = pk.emulate(few, 5000, noise=0.01, random_seed=1)
    >>> estimator = pk.NadarayaWatson(0.01, scale=False).fit(many.parameters, many.statistics)
    >>> bool(abs(estimator.condition(many.observed).mean()[0] - 0.5) < 0.01)
    True
    """
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer):
        raise TypeError(f"draws is {draws!r}; it must be a whole number")
    if draws < 2:
        raise ValueError(f"draws is {draws}; a reference table has at least two rows")
    forward = Forward.read(model)
    if forward.graph.parameters != table.parameter_columns:
        raise ValueError(
            f"the model's parameters are {forward.graph.parameters.names} and the table's "
            f"{table.parameter_names}; give the model that the table was simulated from"
        )
    size = len(table.statistic_names)
    deviation = deviations(table.statistics)
    scales = None if noise is None else noise_of(noise, size)
    if scales is not None and table.observed is None:
        raise ValueError(
            "the table has no observation, and noise draws rows where it is likely; leave noise out"
        )
    within = None if table.support == forward.support else _bounds(table.support, table)
    if scales is not None:
        forward.check_can_be_truncated()
    started = time.perf_counter()
    rng = np.random.default_rng(entropy_of(random_seed))
    seeds = rng.integers(2**63, size=CLOSER + 1)
    units = np.where(deviation > 0, deviation, 1.0) if scales is None else scales
    emulator = Emulator.fit(table, units, rng)
    _warn_of_errors(emulator.error, size, scales is not None)
    if scales is not None:
        for seed in seeds[:-1]:
            narrowed, closer = likely_bounds(emulator, table, forward, int(seed), within, scales)
            if not narrowed:
                break
            within = closer
    parameters, support = forward.draw(draws, int(seeds[-1]), within, even=True)
    unit = "noise" if scales is not None else "deviation"
    return dataclasses.replace(
        table,
        parameters=parameters,
        statistics=emulator(parameters),
        support=support,
        failures=Failures.none(parameters.shape[1]),
        seed=None,
        provenance={
            **table.provenance,
            "simulations": str(table.simulations),
            "emulated": f"from {len(table)} rows; leave-one-out error {emulator.error:.2g} of the {unit}",
            **noted(scales),
        },
        timings={**table.timings, "emulate": time.perf_counter() - started},
    )


def noise_of(noise: Any, size: int) -> np.ndarray:
    """Deviations (d,) of the noise on each statistic.

    Raises
    ------
    TypeError, ValueError
        If they are not positive finite numbers, one or as many as statistics.
    """
    try:
        values = np.asarray(noise, dtype=float)
    except (TypeError, ValueError):
        raise TypeError(f"noise is {noise!r}; it must be a number or one for each statistic") from None
    if values.shape not in ((), (size,)):
        raise ValueError(
            f"noise has shape {values.shape}; it must be one number or one for each of {size} statistics"
        )
    if not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"noise is {noise!r}; deviations of noise must be positive and finite")
    return np.broadcast_to(values, (size,))


def noted(noise: np.ndarray | None) -> dict[str, str]:
    """What a table's provenance says about noise that it is without, for `ReferenceTable.noise`."""
    if noise is None:
        return {}
    return {"noise": " ".join(map(repr, noise.tolist() if np.ptp(noise) > 0 else noise[:1].tolist()))}


def _warn_of_errors(error: float, size: int, noise: bool) -> None:
    if noise and error * np.sqrt(size) > 1:
        warnings.warn(
            f"statistics are predicted with a leave-one-out error of {error:.2g} of the noise, for all "
            f"{size} together {error * np.sqrt(size):.2g}, and likelihoods are off by as much; zoom in "
            "further, or simulate more rows",
            UserWarning,
            stacklevel=3,
        )
    elif not noise and error > LARGE:
        warnings.warn(
            f"statistics are predicted with a leave-one-out error of {error:.0%} of their deviations in the "
            "table; where the simulator is noisy put an estimator on the table itself, otherwise simulate "
            "more rows, or zoom in",
            UserWarning,
            stacklevel=3,
        )


def likely_bounds(
    emulator: Emulator,
    table: ReferenceTable,
    forward: Forward,
    seed: int,
    within: Within | None,
    noise: np.ndarray,
) -> tuple[bool, Within]:
    """Bounds around the parameters that are likely, and whether they are much narrower than those so far.

    Parameters
    ----------
    emulator : Emulator
        Fitted to `table`, its error in units of `noise`.
    table : ReferenceTable
        With an observation.
    forward : Forward
        Of its model.
    seed : int
    within : dict of str to pair of ndarray, optional
        The bounds so far.
    noise : ndarray of shape (d,)
        Standard deviations of the normal noise on the observation.
    """
    parameters, _ = forward.draw(PILOT, seed, within, even=True)
    away = np.linalg.norm((emulator(parameters) - table.observed) / noise, axis=1)
    # An error of the emulator moves the likelihood by as many deviations as it is long, at most.
    reach = DEVIATIONS + emulator.error * np.sqrt(len(noise))
    kept = 10 + 2 * parameters.shape[1]
    most_away = max(np.hypot(away.min(), reach), np.partition(away, kept)[kept])
    likely = parameters[away <= most_away]
    added = (MARGIN if len(likely) >= FEW else FEW_MARGIN) * np.ptp(likely, axis=0)
    return closed_in(likely.min(axis=0) - added, likely.max(axis=0) + added, parameters, within, table)


def closed_in(
    lower: np.ndarray, upper: np.ndarray, parameters: np.ndarray, within: Within | None, table: ReferenceTable
) -> tuple[bool, Within]:
    """New bounds inside the old ones, and whether some are much narrower.

    Parameters
    ----------
    lower, upper : ndarray of shape (p,)
        The new bounds, which may lie outside the old ones.
    parameters : ndarray of shape (n, p)
        Draws between the old bounds, whose range is taken for these where there are none.
    within : dict of str to pair of ndarray, optional
        The old bounds.
    table : ReferenceTable
        Whose parameters they are.
    """
    least, most = parameters.min(axis=0), parameters.max(axis=0)
    if within is not None:
        least, most = (np.concatenate([np.ravel(pair[i]) for pair in within.values()]) for i in (0, 1))
    lower, upper = np.maximum(lower, least), np.minimum(upper, most)
    # Where a parameter is not much narrower its bounds stay: chance alone would move them inwards.
    narrowed = upper - lower < ENOUGH * (most - least)
    lower, upper = np.where(narrowed, lower, least), np.where(narrowed, upper, most)
    return bool(narrowed.any()), by_name(lower, upper, table)


def _bounds(support: Support, table: ReferenceTable) -> Within:
    """The bounds of a table that was simulated between bounds."""
    steps = support.blocks[0].steps
    if len(support.blocks) > 1 or len(steps) != 1 or not isinstance(steps[0], Interval):
        raise ValueError(
            "the table's support is neither that of the model's prior nor bounds on each parameter; give the "
            "model that the table was simulated from"
        )
    interval = steps[0]
    return by_name(np.array(interval.lower), np.array(interval.upper), table)


def by_name(lower: np.ndarray, upper: np.ndarray, table: ReferenceTable) -> Within:
    """Bounds of a table's parameter columns, each (p,), by the names of its variables."""
    sides = [table.parameter_columns.split(side[None]) for side in (lower, upper)]
    return {name: (sides[0][name][0], sides[1][name][0]) for name in sides[0]}
