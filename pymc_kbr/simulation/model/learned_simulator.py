"""A fitted likelihood as an observed variable of a PyMC model."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.pytensorf import extract_obs_data
from pytensor import tensor as pt
from pytensor.graph.basic import Constant, Variable
from pytensor.raise_op import Assert

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import Names, by_name
from pymc_kbr.arrays.refusals import one_of, shown
from pymc_kbr.simulation.model.learned_variable import (
    OUTSIDE,
    Lapse,
    LearnedSimulatorRV,
    Likelihood,
    refuse_gaps,
)
from pymc_kbr.simulation.model.read import QUICK
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.reference_table import ReferenceTable


@default_arithmetic
def LearnedSimulator(
    name: str,
    likelihood: Likelihood,
    *parameters: Any,
    observed: Any,
    dims: str | Sequence[str] | None = None,
    group: Any = None,
    table: ReferenceTable | None = None,
    outside: str = "-inf",
    lapse: Any = None,
    censored: Any = None,
) -> Any:
    """A learned likelihood in the place of a simulator: an observed variable with gradients.

    What `pm.Simulator` is to a simulator, this is to a fitted `KernelLikelihood`. Its log density is a
    PyTensor expression, so that `pm.sample` (NUTS), `pm.find_MAP` and samplers of JAX and Numba work, beside
    ordinary likelihood terms and any number of other learned simulators; `pm.sample_prior_predictive` and
    `pm.sample_posterior_predictive` draw from it; `pm.compute_log_likelihood` has one value an observation.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    likelihood : KernelLikelihood
        Fitted to simulations of one observation: d statistics given p parameters.
    *parameters : tensors, or one dict of str to tensor
        Random variables, functions of them (and of covariates) and constants, which are the p columns of
        what the likelihood was fitted to, in that order. Either p of them, each a scalar or, for g groups,
        of shape (g,); or fewer, side by side: scalars and vectors (k,) of one parameter set, or, as soon as
        one has two dimensions, (g,) and (g, k) of g groups. Scalars among batches are the same in all
        groups. A dict says them by the names of `table`, or those that the likelihood knows, in any order.
        Where it knows names (it was fitted to a table or to data frames), a variable that has one of them
        must stand in its place; variables of other names, and expressions, are taken by their position.
    observed : array_like or pm.Data
        Shape (d,): one observation. Shape (n, d): n observations. Parameters of one set belong to all n,
        which are independent trials; those of g groups to one observation each, n = g, unless `group` says
        otherwise. Where d = 1, shape (n,) is n observations, too. A Series or a data frame is put in the
        order of the names of the statistics, where the likelihood knows these. What is NaN, or masked, is
        missing by chance, and is integrated out; rows that are missing altogether fill up ragged arrays.
    dims : str or sequence of str, optional
        As everywhere in PyMC, for the dimensions of `observed`.
    group : array_like of int, shape (n,), or pm.Data, optional
        Which of the g groups each observation belongs to, from 0: groups may have different numbers of
        trials, and what depends on the parameters alone is computed once for each group.
    table : ReferenceTable, optional
        The table that the likelihood was fitted to. Parameters that have names must then have those of
        the table, in its order, and the widths of its variables.
    outside : {"-inf", "extrapolate"}
        What becomes of parameters that were not simulated: below the lowest or above the highest of a
        parameter (`simulated_range_`), or within, where parameters of the table depend on each other, a
        combination of them that no row is near (`simulated_region_`: a coarse net, which sees what two
        parameters exclude together better than what three or more do). Probability zero, the default,
        which cuts the prior off there, and draws that are NaN; or whatever the likelihood's formula says,
        which nothing supports.
    lapse : tensor or float, or pair of such and a dict, optional
        Probability that an observation is a lapse, which parameters have no part in: a scalar, or of shape
        (g,). Its statistics then are independent, a continuous one even between its lowest and its highest
        simulated value, and others any of the simulated values. A dict has other ranges of continuous ones,
        such as ``lapse=(p, {"rt": (0, 10)})``, by names or columns. What only a lapse can be is not refused.
        It takes the place of `pm.Mixture`, whose parts have one density for each of their numbers.
    censored : dict, optional
        Of statistics, by names or columns, a pair of a lower and an upper limit, one of which may be None,
        such as ``{"rt": (None, 1.5)}`` for a deadline; each is a number, or of shape (n,). As in
        `pm.Censored`, a value at a limit lies there or beyond, and draws beyond a limit are at it. What else
        is observed of such a trial counts, and may be missing (NaN).

    Returns
    -------
    TensorVariable
        The observed random variable.

    Raises
    ------
    TypeError
        If no model is on the context stack, or `likelihood` is no fitted likelihood.
    ValueError
        If there are too few or too many parameters, or they have other names than the table's or another
        order; `observed` has another width than the statistics, other names, NaN or infinity, values that the
        model cannot make, or another number of rows than there are groups; `group` names a group that there
        is not, now or, as AssertionError, when its data are changed.

    Warns
    -----
    PosteriorWarning
        If the likelihood does not hold in rows that it was not fitted to, or is not good for as many trials
        of one parameter set (`KernelLikelihood.bias_for`); if a statistic is the same in all simulations and
        another in `observed`, which then has no density, or a value that no simulation has is read as a rare
        one beside it.

    Notes
    -----
    Of a likelihood that was fitted to a table with failures the log density includes the log probability that
    a simulation succeeds, once for each observation, unless the table has ``on_failure="condition"``; draws
    are those of simulations that succeed.

    NUTS sees a wall where the simulated region ends. Where the posterior comes close to it, simulate from
    a wider prior, or one whose parameters depend less on each other: divergences say so. `pm.sample` starts
    at random within one unit of the initial point, in the space without edges. Where the simulated region is
    narrower than that, most starts lie outside, and after a few of them it gives up: ``init="adapt_diag"``
    starts at the initial point itself, which ``initvals`` may set. A chain of NUTS hardly leaves the mode in
    which it starts: of a posterior of several it may miss some, which `condition` and `sample_abc` find.

    Data in `pm.Data` may be changed by `pm.set_data`, in number too. They are then prepared by a NumPy
    function inside the graph, which Numba calls in Python at every evaluation, as it calls conditionals
    that are single operations; samplers of JAX take the data as they are when they compile.
    """
    if not isinstance(name, str):
        raise TypeError(f"name is {shown(name)}; it must be a text, the name of the observed variable")
    if table is not None and not hasattr(table, "parameter_columns"):
        raise TypeError(f"table is {shown(table)}; give the ReferenceTable that the likelihood was fitted to")
    model = pm.Model.get_context(error_if_none=False)
    if model is None:
        raise TypeError(f"there is no model to put {name!r} into; call this inside `with pm.Model():`")
    _check(name, likelihood, outside)
    if hasattr(likelihood, "warn_if_refuted"):  # which other likelihoods may not have
        likelihood.warn_if_refuted(repr(name))
    columns = None if table is None else table.parameter_columns
    return register_learned(
        model, name, likelihood, parameters, observed, dims, group, columns, outside, lapse, censored
    )


def register_learned(
    model: pm.Model,
    name: str,
    likelihood: Likelihood,
    parameters: Sequence[Any],
    observed: Any,
    dims: str | Sequence[str] | None = None,
    group: Any = None,
    columns: Columns | None = None,
    outside: str = "-inf",
    lapse: Any = None,
    censored: Any = None,
) -> Any:
    """As `LearnedSimulator`, in this model, of a likelihood that was looked at before."""
    known = getattr(likelihood, "names_", None) or Names()
    inputs = getattr(likelihood, "input_names_", known.parameters)
    parameters_ = parameter_rows(name, parameters, likelihood.parameters_size, columns, inputs)
    value = observed if isinstance(observed, Variable) else _as_array(name, observed, known.statistics)
    data = _data_now(name, value)
    in_parts = hasattr(likelihood, "prepare_parts")
    layout = _layout(name, data, likelihood.statistics_size, missing=in_parts)
    trials = data.reshape(-1, likelihood.statistics_size)
    limits = _limits(name, likelihood, censored, trials)
    lower, upper = (trials, trials) if limits is None else limits.bounds(trials)
    if limits is None and np.any(np.isnan(trials)):
        lower, upper = likelihood.limits(None).bounds(trials)  # type: ignore[attr-defined]
    complete, some = np.all(lower == upper, axis=1), np.any(np.isfinite(lower) | np.isfinite(upper), axis=1)
    if np.any(complete):
        likelihood.prepare(trials[complete])  # refuses what no simulation can be
    share, lapses = (None, None) if lapse is None else _lapse(name, lapse, likelihood, known.statistics)
    certain = np.ones(len(trials), dtype=bool)
    if lapses is not None:
        certain = np.isneginf(lapses.log_densities(lower, upper))
    whole, part = np.flatnonzero(certain & complete), np.flatnonzero(certain & ~complete)
    if hasattr(likelihood, "refuse_impossible") and len(whole):
        likelihood.refuse_impossible(trials[whole], numbers=whole)
    if len(part):
        likelihood.prepare_parts(lower[part], upper[part], numbers=part)  # type: ignore[attr-defined]
    rows = _rows(name, layout, value, data, parameters_, group)
    if hasattr(likelihood, "warn_if_biased"):
        _warn_of_trials(name, likelihood, trials, parameters_, rows, complete, some)
    op = LearnedSimulatorRV(likelihood, layout, rows is None, outside, lapse=lapses, limits=limits)
    theta = parameters_.theta
    rng = pytensor.shared(np.random.default_rng())
    places = pt.arange(theta.type.shape[0] or theta.shape[0]) if rows is None else rows
    shares = [] if share is None else [pt.broadcast_to(share, (theta.shape[0],))]
    variable = op.make_node(rng, None, theta, places, *shares).outputs[1]
    if not np.all(complete) and not isinstance(value, Variable):
        value = pt.constant(value, name=name)  # which PyMC does not take for data to impute
    return model.register_rv(variable, name, observed=value, dims=_dims(model, name, dims, data.shape))


def _limits(name: str, likelihood: Any, censored: Any, trials: np.ndarray) -> Any:
    """Where statistics are censored, checked against the data; None where they are not."""
    if censored is None:
        return None
    if not hasattr(likelihood, "limits"):
        raise TypeError(
            f"censored is given, and the likelihood of {name!r} is {shown(likelihood)}; it must be a "
            "KernelLikelihood"
        )
    limits = likelihood.limits(censored)
    limits.check(trials, f"the observed value of {name!r}", likelihood.names_.statistics)
    likelihood.between(limits)  # refused where the form does not allow it
    return limits


def _lapse(name: str, lapse: Any, likelihood: Any, names: Sequence[str] | None) -> tuple[Variable, Lapse]:
    """The probability of a lapse, and what is observed then."""
    share, ranges = lapse if isinstance(lapse, tuple) and len(lapse) == 2 else (lapse, {})
    if not isinstance(ranges, Mapping) or not hasattr(likelihood, "statistics_values_"):
        raise TypeError(
            f"the lapse of {name!r} is {shown(lapse)}; give a probability, or a pair of it and a dict of "
            "ranges such as {'rt': (0, 10)}; and a KernelLikelihood as the likelihood"
        )
    share = _tensor(name, 0, share)
    if share.type.ndim > 1 or (
        isinstance(share, Constant) and not np.all((share.data >= 0) & (share.data < 1))
    ):
        raise ValueError(
            f"the probability of a lapse of {name!r} is {shown(lapse)}; it must be a number from 0 to below "
            "1, or one for each group"
        )
    values = list(likelihood.statistics_values_)
    between = [each if isinstance(each, tuple) else None for each in values]
    if any(len(each) == 0 for each in values):
        raise ValueError(
            f"{name!r} has a statistic with a density and with values that have a probability of their own; "
            "what a lapse of it is is not known: leave lapse out"
        )
    for statistic, given in ranges.items():
        column = list(names or ()).index(statistic) if names and statistic in names else statistic
        ends = np.asarray(given, dtype=float)
        known = isinstance(column, int | np.integer) and 0 <= column < len(values)
        if not known or between[column] is None or ends.shape != (2,) or not ends[0] < ends[1]:
            raise ValueError(
                f"a lapse of {name!r} has the range {shown(statistic)}: {shown(given)}; it must be a "
                f"continuous one of {list(names or range(len(values)))}, and two numbers, the lower one first"
            )
        between[column] = float(ends[0]), float(ends[1])
    discrete = tuple(
        () if isinstance(each, tuple) else tuple(np.asarray(each, dtype=float).tolist()) for each in values
    )
    return share, Lapse(tuple(between), discrete)


def _warn_of_trials(
    name: str,
    likelihood: Any,
    trials: np.ndarray,
    parameters: ParameterRows,
    rows: Variable | None,
    complete: np.ndarray,
    some: np.ndarray,
) -> None:
    """Warn where a parameter set has more trials than the likelihood is good for: of that with the most."""
    # `some` are the trials of which anything is known, and `complete` those that show where parameters are.
    if parameters.groups not in (None, 1):
        # Sets are the same where they are the same in a draw of the prior.
        theta = parameters.theta if rows is None else parameters.theta[rows]
        try:
            drawn = pm.draw(theta, random_seed=0, mode=QUICK)
        except NotImplementedError:  # of a flat prior there are no draws
            return
        _, places = np.unique(drawn, axis=0, return_inverse=True)
        places = places.reshape(-1)
        some = some & (places == np.argmax(np.bincount(places[some])))
    if some.sum() > 1 and np.any(some & complete):
        likelihood.warn_if_biased(
            repr(name), int(some.sum()), likelihood.where_likely(trials[some & complete])
        )


def _check(name: str, likelihood: Any, outside: str) -> None:
    needed = ("prepare", "describe", "log_density", "draw_statistics")
    lacks = [method for method in needed if not callable(getattr(likelihood, method, None))]
    if lacks or isinstance(likelihood, type):
        raise TypeError(
            f"the likelihood of {name!r} is {shown(likelihood)}; it must be a KernelLikelihood that is "
            "fitted: `pk.KernelLikelihood().fit(table)`"
        )
    try:
        _ = likelihood.simulated_range_, likelihood.parameters_size, likelihood.statistics_size
    except AttributeError:
        raise ValueError(
            f"the likelihood of {name!r}, {likelihood!r}, is not fitted; call its `fit` with a table first"
        ) from None
    one_of("outside", outside, OUTSIDE)


def _as_array(name: str, observed: Any, names: Sequence[str] | None) -> np.ndarray:
    what = f"the observed values of {name!r}"
    # The labels of a Series of numbers, where there is one statistic, are those of observations.
    single = names is not None and len(names) == 1 and getattr(observed, "ndim", 0) == 1
    try:
        found = by_name(observed, None if single else names, what, gaps=True)
    except TypeError as error:
        raise TypeError(f"{what} are no array of numbers: {error}") from error
    return found.astype(pytensor.config.floatX)


def _data_now(name: str, value: Any) -> np.ndarray:
    """The data, or what `pm.Data` holds at the moment."""
    if not isinstance(value, Variable):
        return value
    try:
        return np.ma.filled(np.ma.asarray(extract_obs_data(value)).astype(float), np.nan)
    except TypeError as error:
        raise TypeError(f"the observed values of {name!r} must be an array or pm.Data: {error}") from error


def _layout(name: str, data: np.ndarray, width: int, *, missing: bool = False) -> str:
    """How the observed value lies: a key of `SIGNATURES`; refused if its width or its values cannot be."""
    if data.ndim == 2 and data.shape[1] == width:
        layout, rows = "rows", data
    elif data.ndim == 1 and len(data) == width:
        layout, rows = "one", data[None]
    elif data.ndim == 1 and width == 1:
        layout, rows = "numbers", data[:, None]
    else:
        number = " or (n,)" if width == 1 else ""
        raise ValueError(
            f"the observed value of {name!r} has the shape {data.shape}; its likelihood is one of {width} "
            f"statistics; it must be ({width},) for one observation or (n, {width}){number} for n of them"
        )
    if not len(rows):
        raise ValueError(f"the observed value of {name!r} has no rows; it must have at least one")
    refuse_gaps(name, rows, missing=missing)
    if np.all(np.isnan(rows)):
        raise ValueError(f"the observed value of {name!r} is NaN throughout; it must have some data")
    return layout


def _rows(
    name: str, layout: str, value: Any, data: np.ndarray, parameters: ParameterRows, group: Any
) -> Variable | None:
    """For each observation the row of its parameters; None where they belong together in order."""
    count = 1 if layout == "one" else len(data)
    if group is not None:
        return _grouped(name, layout, group, count, parameters)
    if count == 1 and parameters.groups in (None, 1) and not isinstance(value, Variable):
        return None
    if parameters.groups in (None, 1):  # one group is one set of parameters, to which all observations belong
        # As many as there are data now, or after `pm.set_data`.
        return None if layout == "one" else pt.zeros((pt.as_tensor(value).shape[0],), dtype="int64")
    if parameters.groups != count:
        raise ValueError(
            f"the parameters of {name!r} are those of {parameters.groups} groups, and there are {count} "
            f"observations (shape {data.shape}); pass one observation a group, or say by `group` which "
            "group each belongs to"
        )
    return None


def _grouped(name: str, layout: str, group: Any, count: int, parameters: ParameterRows) -> Variable:
    groups = parameters.groups
    if groups is None:
        raise ValueError(
            f"`group` is given, and {name!r} has one set of parameters, to which all observations belong; "
            "leave `group` out, or give at least one parameter one value a group"
        )
    rows = pt.as_tensor(group)
    if rows.type.ndim != 1 or not rows.type.dtype.startswith(("int", "uint")):
        raise TypeError(
            f"the `group` of {name!r} is of type {rows.type}; it must be one whole number an observation"
        )
    places = _data_now("group", rows).astype(int)
    if len(places) != count or layout == "one":
        raise ValueError(
            f"the `group` of {name!r} has {len(places)} entries, and `observed` is "
            + ("one observation (d,)" if layout == "one" else f"{count} observations")
            + "; there must be one entry for each row of observations (n, d)"
        )
    wrong = np.flatnonzero((places < 0) | (places >= groups))
    if len(wrong):
        raise ValueError(
            f"the `group` of {name!r} is {places[wrong[0]]} at observation {wrong[0]}; with {groups} "
            f"groups it may be 0 to {groups - 1}"
        )
    rows = rows.astype("int64")
    if isinstance(group, Variable):
        # It may be changed: compiled code reads other memory, or counts from the end, where it is wrong.
        there = (rows >= 0) & (rows < parameters.theta.shape[0])
        rows = Assert(
            f"the `group` of {name!r} names a group that there is not; of g groups the first is 0 and the "
            "last g - 1"
        )(rows, pt.all(there))
    return rows


def _dims(model: pm.Model, name: str, dims: Any, shape: tuple[int, ...]) -> tuple[str, ...] | None:
    if dims is None:
        return None
    named = (dims,) if isinstance(dims, str) else tuple(dims)
    if len(named) != len(shape):
        raise ValueError(
            f"the dims of {name!r} are {named}, and its observed value has the shape {shape}; name each "
            "dimension"
        )
    for dim, length in zip(named, shape, strict=True):
        known = model.dim_lengths.get(dim)
        if known is not None and int(known.eval()) != length:
            raise ValueError(
                f"the observed value of {name!r} has the shape {shape}, and its dimension {dim!r} the length "
                f"{int(known.eval())}; they must be the same"
            )
    return named


# --- model variables as parameters of a likelihood ---


@dataclass(frozen=True, eq=False)
class ParameterRows:
    """Parameters as a matrix."""

    theta: Variable
    groups: int | None


class LearnedNames:
    """Names that a likelihood knows of its columns, and of the variables that these are entries of."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self.places = {column: (place, 1) for place, column in enumerate(self.columns)}
        entries = [list(columns) for _, columns in groupby(self.columns, lambda each: each.split("[")[0])]
        self._variables = [group[0].split("[")[0] for group in entries]
        # Of a data frame's columns any may be called anything.
        if len(set(self._variables)) < len(entries):
            self._variables = list(self.columns)
            return
        for variable, group in zip(self._variables, entries, strict=True):
            self.places[variable] = self.places[group[0]][0], len(group)

    def expected(self, given: Collection[str]) -> list[str]:
        """The names of a dict, in order: those of columns where it has one that is no variable's."""
        by_column = any(each in self.columns and each not in self._variables for each in given)
        return list(self.columns) if by_column else self._variables


def parameter_rows(
    name: str,
    parameters: Sequence[Any],
    size: int,
    columns: Columns | None = None,
    names: Sequence[str] | None = None,
) -> ParameterRows:
    """Put parameters side by side, in the order of the columns that a likelihood was fitted to."""
    known = LearnedNames(names) if columns is None and names is not None else None
    ordered = _in_order(name, parameters, columns, known)
    if not ordered:
        raise ValueError(
            f"the learned simulator {name!r} has no parameters; pass the {size} that its likelihood has"
        )
    tensors = [_tensor(name, place, parameter) for place, parameter in enumerate(ordered)]
    shapes = _shapes(tensors)
    cores = _core_dimensions(name, shapes, size, columns)
    widths = [math.prod(shape[len(shape) - core :]) for shape, core in zip(shapes, cores, strict=True)]
    if sum(widths) != size:
        raise ValueError(
            f"the parameters of {name!r}, of shapes {shapes}, are {sum(widths)} columns; its likelihood was "
            f"fitted to {size}; pass all of them, each a scalar or, for g groups, of shape (g,), in the "
            "order of the table's columns"
        )
    if known is not None:
        _check_places(name, parameters, widths, known)
    lengths = {shape[0] for shape, core in zip(shapes, cores, strict=True) if len(shape) > core}
    # A batch of one is the same for all groups.
    if len(lengths - {1}) > 1:
        raise ValueError(
            f"the parameters of {name!r} have the shapes {shapes}: batches of {sorted(lengths)} groups; "
            "all must have the same number of groups, or be the same for all groups"
        )
    batched = [len(shape) > core for shape, core in zip(shapes, cores, strict=True)]
    longest = next(
        (t for t, s, b in zip(tensors, shapes, batched, strict=True) if b and s[0] == max(lengths)), None
    )
    # Its length as a variable, since that of `pm.Data` may change.
    count = 1 if longest is None else longest.shape[0]
    parts = [
        pt.broadcast_to(t.reshape((t.shape[0] if b else 1, width)), (count, width))
        for t, b, width in zip(tensors, batched, widths, strict=True)
    ]
    theta = pt.concatenate(parts, axis=1) if len(parts) > 1 else parts[0]
    return ParameterRows(theta, max(lengths) if lengths else None)


def _tensor(name: str, place: int, parameter: Any) -> Variable:
    try:
        return pt.as_tensor(parameter)
    except (NotImplementedError, TypeError, ValueError) as error:
        raise TypeError(
            f"parameter {place} of {name!r} is {shown(parameter)}; it must be a random variable of the "
            "model, a function of such, or numbers"
        ) from error


def _in_order(
    name: str, parameters: Sequence[Any], columns: Columns | None, known: LearnedNames | None
) -> list[Any]:
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        return _of_dict(name, dict(parameters[0]), columns, known)
    if columns is None:
        return list(parameters)
    expected = [variable.name for variable in columns.variables]
    if len(parameters) != len(expected):
        raise ValueError(
            f"{name!r} is given {len(parameters)} parameters; the table that its likelihood was fitted to "
            f"has {len(expected)}: {expected}"
        )
    names = [_own_name(parameter) for parameter in parameters]
    if any(mine not in (None, yours) for mine, yours in zip(names, expected, strict=True)):
        raise ValueError(
            f"the parameters of {name!r} are {names} in this order; those of the table are {expected}; pass "
            "them in that order, or, where the names are meant to differ, as a dict by the table's names"
        )
    return list(parameters)


def _own_name(parameter: Any) -> str | None:
    """Of a named variable; PyMC puts the names of surrounding models before it."""
    name = getattr(parameter, "name", None) if isinstance(parameter, Variable) else None
    return None if name is None else str(name).split("::")[-1]


def _of_dict(
    name: str, given: dict[str, Any], columns: Columns | None, known: LearnedNames | None
) -> list[Any]:
    """Parameters that are given by names, in order."""
    if columns is not None:
        expected, owner = [variable.name for variable in columns.variables], "the table"
    elif known is not None:
        expected, owner = known.expected(given), "the likelihood"
    else:
        raise ValueError(
            f"the parameters of {name!r} are given by the names {list(given)}, and those of the likelihood "
            "are not known; pass the table that it was fitted to as `table`, or the parameters in its order"
        )
    if set(given) != set(expected):
        raise ValueError(
            f"the parameters of {name!r} are given by the names {list(given)}; {owner} has {expected}"
        )
    return [given[each] for each in expected]


def _check_places(name: str, parameters: Sequence[Any], widths: list[int], known: LearnedNames) -> None:
    """Refuse what has a name of the likelihood's in another place, or in a dict another width."""
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        expected = known.expected(parameters[0])
        if [known.places[each][1] for each in expected] != widths:
            raise ValueError(
                f"the parameters of {name!r} named {expected} are {widths} columns; those of the likelihood "
                f"are {[known.places[each][1] for each in expected]}: {list(known.columns)}"
            )
        return
    begin = 0
    for parameter, width in zip(parameters, widths, strict=True):
        mine = _own_name(parameter)
        if mine in known.places and known.places[mine][0] != begin:
            names = [_own_name(each) for each in parameters]
            raise ValueError(
                f"the parameters of {name!r} are {names} in this order; those of its likelihood are "
                f"{list(known.columns)}, and {mine!r} stands in another place; pass them in that order, or, "
                "where names are meant to differ, as a dict by the likelihood's names"
            )
        begin += width


def _core_dimensions(
    name: str, shapes: list[tuple[int, ...]], size: int, columns: Columns | None
) -> list[int]:
    """How many of each parameter's dimensions belong to one set; the one before is that of groups."""
    if columns is not None:
        cores = [len(variable.shape) for variable in columns.variables]
        for shape, core, variable in zip(shapes, cores, columns.variables, strict=True):
            if shape[len(shape) - core :] != variable.shape or len(shape) not in (core, core + 1):
                raise ValueError(
                    f"the parameter {variable.name!r} of {name!r} has the shape {shape}; the table's has "
                    f"{variable.shape}; it must be this, or this after a first dimension of groups"
                )
        return cores
    dimensions = [len(shape) for shape in shapes]
    if max(dimensions) > 2:
        raise ValueError(
            f"the parameters of {name!r} have the shapes {shapes}; they must be scalars, of shape (g,) or "
            "(g, k)"
        )
    if max(dimensions) == 2:
        return [max(dimension - 1, 0) for dimension in dimensions]
    # As many as there are columns: each is one, so that a dimension can only be that of groups.
    return [0] * len(shapes) if len(shapes) == size else dimensions


def _shapes(tensors: list[Variable]) -> list[tuple[int, ...]]:
    if all(None not in tensor.type.shape for tensor in tensors):
        return [tensor.type.shape for tensor in tensors]
    values = pytensor.function([], [tensor.shape for tensor in tensors], mode=QUICK)()
    return [tuple(int(length) for length in value) for value in values]
