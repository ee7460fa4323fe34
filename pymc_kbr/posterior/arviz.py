"""A posterior as an ArviZ result: the only place that knows which ArviZ is installed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import arviz as az
import numpy as np
import xarray as xr

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import some
from pymc_kbr.arrays.names import parameters_by_name
from pymc_kbr.arrays.refusals import generator_of, instance, path_of, shown, whole
from pymc_kbr.arrays.rows import as_rows, check_finite
from pymc_kbr.arrays.weighted import effective_sample_size, spread_out
from pymc_kbr.tables.checks import check_variable_names, usual_dims
from pymc_kbr.tables.columns import Columns, Variable
from pymc_kbr.tables.file import DOCUMENTS, IN_A_RESULT, PATH, arrays_of, documents_of

if TYPE_CHECKING:
    import pymc as pm

    from pymc_kbr.tables.reference_table import ReferenceTable

ARVIZ_MAJOR = int(version("arviz").split(".")[0])

WEIGHTED_ATOMS = "weighted_atoms_data"
"""The group of atoms and weights: ArviZ takes no group for draws whose name has "data" in it."""


@default_arithmetic
def to_arviz(
    posterior: Any,
    draws: int | np.ndarray = 1000,
    *,
    chains: int = 2,
    random_seed: int | np.random.Generator | None = None,
    table: ReferenceTable | None = None,
    model: pm.Model | None = None,
    prior: Any = None,
    weights: np.ndarray | None = None,
    store: str | Path | None = None,
    estimator: str = "",
    timings: dict[str, float] | None = None,
    notes: dict[str, Any] | None = None,
    log_densities: dict[str, dict[str, np.ndarray]] | None = None,
    var_names: Sequence[str] | None = None,
) -> Any:
    """Pack a posterior and its draws for ArviZ; also the method `Posterior.to_arviz`.

    Parameters
    ----------
    posterior : Posterior
    draws : int or ndarray of shape (chains * draws, p)
        Draws of each chain, or those of all chains, made by `Posterior.draw`, one chain after the other.
    chains : int
        Parts into which the draws are split. They are independent of each other, within chains and between
        them: several chains are there for what in ArviZ compares them.
    random_seed : int or numpy.random.Generator, optional
        For draws that are made here.
    table : ReferenceTable, optional
        Gives names, shapes, the observation and the account of the simulations.
    model : pymc.Model, optional
        Gives dims and coords, and the deterministic variables.
    prior : NewPrior, optional
        Another prior than the table's, by its `draws` and, where it is known, its `ratio` at the rows.
    weights : ndarray of shape (n,), optional
        Of the rows, beside the table's own, where these do not represent the prior without them.
    store : str or Path, optional
        Where the table stays: its path is kept in place of its rows.
    estimator : str
        Which estimator made it.
    timings : dict of str to float
        Seconds of the stages after the simulation.
    notes : dict, optional
        More attributes of the result, such as the warnings of `pymc_kbr.checking.diagnostics`. A list of
        dicts with the same keys becomes a group: the key is its dimension, those of the dicts its variables.
    log_densities : dict of dict of ndarray of shape (chains * draws,), optional
        Groups of log densities at the draws, by the names of the variables whose densities they are.
    var_names : sequence of str, optional
        The variables, free or deterministic, that ``posterior`` has; all where left out.

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        Groups ``posterior``; ``observed_data`` where there is an observation; ``weighted_atoms_data`` with
        the simulated parameters as variables of dimension ``atom``, the estimator's signed ``weight``
        and its projection ``simplex_weight`` (``atom_weight``, ``atom_simplex_weight`` where a parameter is
        called so). With a table also ``prior`` and ``prior_predictive``, which are
        rows of it: parameters and, under the names of the simulators, their statistics as the table holds
        them; their attribute ``rows`` says how they represent the prior. And
        ``reference_table_data``, of which `ReferenceTable.from_arviz` makes the table; of a table that stays
        in a store the attribute ``reference_table`` has the path. Groups ``log_prior`` and
        ``log_likelihood`` where they are given: one number a draw, for power scaling.

    Raises
    ------
    TypeError, ValueError
        If an argument is of another kind, the draws given are no chains of one length, the table, the model
        or the weights are not those of the posterior, or a variable has the name of a dimension.

    Examples
    --------
    >>> from pymc_kbr.estimators import Rejection
    >>> fitted = Rejection(3).fit(np.arange(9.0)[:, None], np.arange(9.0)[:, None])
    >>> idata = to_arviz(fitted.condition([4.0]), draws=10, chains=2, random_seed=1)
    >>> dict(idata["posterior"].sizes)
    {'chain': 2, 'draw': 10}
    """
    _check_kinds(posterior, table, model, prior, store, estimator)
    for name, value in (("timings", timings), ("notes", notes), ("log_densities", log_densities)):
        instance(name, value, Mapping | NoneType, "a dict")
    whole("chains", chains)
    drawn = _drawn(posterior, draws, chains, random_seed)
    p = drawn.shape[1]
    names = posterior.names or [f"theta_{i}" for i in range(p)]
    columns = table.parameter_columns if table else Columns.scalars(list(names))
    _check_together(posterior, table, model, weights)
    lists = {name: rows for name, rows in (notes or {}).items() if isinstance(rows, list)}
    plain = {name: note for name, note in (notes or {}).items() if name not in lists}
    attributes = _attributes(posterior, table, estimator, timings or {}) | plain
    dims, coords = _dims(columns, model)
    statistics = {} if table is None else _dims(table.statistic_columns, model)[0]
    check_variable_names(dims, statistics)
    groups = {"posterior": _dataset(columns.split(drawn), columns, dims, coords, chains)}
    if model is not None and model.deterministics:
        groups["posterior"] = _with_deterministics(groups["posterior"], model)
    if var_names is not None:
        check_var_names(var_names, list(map(str, groups["posterior"].data_vars)))
        groups["posterior"] = groups["posterior"][list(var_names)]
    weighted = _dataset(columns.split(posterior.atoms), columns, dims, coords)
    # A parameter may have such a name.
    prefix = "atom_" if {"weight", "simplex_weight"} & set(weighted.variables) else ""
    weighted[f"{prefix}weight"] = ("atom", posterior.weights)
    weighted[f"{prefix}simplex_weight"] = ("atom", posterior.simplex_weights)
    groups[WEIGHTED_ATOMS] = weighted
    if table is not None and table.observed is not None:
        groups["observed_data"] = _observed_data(table, model)
    if table is not None:
        groups |= _of_prior(table, model, prior, weights)
    if table is not None and store is None:
        groups[IN_A_RESULT] = xr.Dataset(arrays_of(table), attrs={DOCUMENTS: json.dumps(documents_of(table))})
    for group, held in (log_densities or {}).items():
        numbers = Columns.scalars(list(held))
        values = {name: np.asarray(logs) for name, logs in held.items()}
        groups[group] = _dataset(values, numbers, dict.fromkeys(held, ()), {}, chains)
    for name, rows in lists.items():
        groups[name] = xr.Dataset({key: (name, [row[key] for row in rows]) for key in rows[0]})
    if store is not None:
        attributes[PATH] = str(Path(store).resolve())
    for dataset in groups.values():
        # What a group says of itself goes before what is said of all.
        dataset.attrs = attributes | dataset.attrs
    return pack(groups)


def check_var_names(var_names: Any, known: Sequence[str]) -> None:
    """Refuse names that are none of a posterior's variables."""
    if isinstance(var_names, str) or not isinstance(var_names, Sequence):
        raise TypeError(f"var_names is {shown(var_names)}; give a list of names of variables")
    unknown = [name for name in var_names if name not in known]
    if unknown or not var_names:
        raise ValueError(f"var_names is {list(var_names)}; give some of the variables {list(known)}")


def _check_kinds(posterior: Any, table: Any, model: Any, prior: Any, store: Any, estimator: Any) -> None:
    """Refuse arguments of another kind than `to_arviz` takes."""
    if not hasattr(posterior, "simplex_weights") or not hasattr(posterior, "atoms"):
        raise TypeError(f"posterior is {shown(posterior)}; give a Posterior, as `condition` makes one")
    if table is not None and not hasattr(table, "parameter_columns"):
        raise TypeError(f"table is {shown(table)}; give a ReferenceTable")
    if model is not None and not hasattr(model, "named_vars_to_dims"):
        raise TypeError(f"model is {shown(model)}; give a pymc.Model")
    if prior is not None and not (hasattr(prior, "ratio") and hasattr(prior, "draws")):
        raise TypeError(f"prior is {shown(prior)}; give a NewPrior, or leave it out")
    if store is not None:
        path_of("store", store)
    instance("estimator", estimator, str, "its name")


def _check_together(posterior: Any, table: Any, model: Any, weights: Any) -> None:
    """Refuse a table, a model or weights that are not those of the posterior."""
    names = posterior.names if table is None else table.parameter_names
    if table is not None and posterior.names is not None and list(posterior.names) != list(names):
        raise ValueError(
            f"the table has the parameters {some(names)}; the posterior has {some(posterior.names)}: give "
            "the table that its estimator was fitted to"
        )
    if table is not None and posterior.atoms.shape[1] != len(names):
        raise ValueError(
            f"the table has {len(names)} parameters; the posterior has {posterior.atoms.shape[1]}: give the "
            "table that its estimator was fitted to"
        )
    variables = [variable.name for variable in table.parameter_columns.variables] if table else names or ()
    unknown = [name for name in variables if model is not None and name not in model.named_vars]
    if unknown:
        raise ValueError(
            f"the model has no variables {some(unknown)}, which are parameters of the posterior; give the "
            "model that was simulated, or leave it out"
        )
    if weights is None:
        return
    if table is None:
        raise ValueError("weights are of the rows of a table, and no table is given; give it, or no weights")
    found = as_rows("weights", weights)
    if found.shape != (len(table),) or not np.all(np.isfinite(found) & (found >= 0)):
        raise ValueError(
            f"weights have shape {found.shape}; give a finite one that is not negative for each of the "
            f"{len(table)} rows of the table"
        )


def _drawn(
    posterior: Any, draws: int | np.ndarray, chains: int, random_seed: int | np.random.Generator | None
) -> np.ndarray:
    """Draws (chains * draws, p), those of the first chain first."""
    if isinstance(draws, int | np.integer):
        whole("draws", draws)
        return posterior.draw(chains * draws, generator_of(random_seed))
    draws, p = parameters_by_name(draws, posterior.names, "the draws"), posterior.atoms.shape[1]
    if draws.ndim != 2 or draws.shape[1] != p or not len(draws):
        raise ValueError(
            f"the draws have shape {draws.shape}; give draws (chains * draws, {p}), a column for each "
            "parameter of the posterior, or how many are to be made"
        )
    check_finite("the draws", draws)
    if len(draws) % chains:
        raise ValueError(
            f"{len(draws)} draws are given, which are no {chains} chains of one length; give chains=1, or a "
            "number of draws that the chains divide"
        )
    return draws


def pack(groups: dict[str, xr.Dataset]) -> Any:
    """Datasets by group name as the result type of the ArviZ that is installed."""
    if ARVIZ_MAJOR == 0:
        return az.InferenceData(**groups, warn_on_custom_groups=False)  # type: ignore[attr-defined]
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})


def _dataset(
    values: dict[str, np.ndarray],
    columns: Columns,
    dims: dict[str, tuple[str, ...]],
    coords: dict[str, Any],
    chains: int = 0,
) -> xr.Dataset:
    """Variables (n, ...) as chains of n / chains draws; without chains, as n atoms."""
    variables = {}
    used: dict[str, Any] = {}
    for variable in columns.variables:
        array = values[variable.name]
        lead = ("chain", "draw") if chains else ("atom",)
        if chains:
            array = array.reshape(chains, -1, *variable.shape)
            used |= {"chain": np.arange(chains), "draw": np.arange(array.shape[1])}
        variables[variable.name] = ((*lead, *dims[variable.name]), array)
        used |= {dim: coords[dim] for dim in dims[variable.name]}
    return xr.Dataset(variables, coords=used)


def _dims(columns: Columns, model: pm.Model | None) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """The dimensions of each variable and their coordinates: the model's own, or ArviZ's usual ones."""
    dims: dict[str, tuple[str, ...]] = {}
    coords: dict[str, Any] = {}
    for variable in columns.variables:
        own = model.named_vars_to_dims.get(variable.name) if model is not None else None
        # Statistics of a simulator's data can be of another shape than these.
        fits = own and len(own) == len(variable.shape) and _lengths_fit(own, variable, model)
        dims[variable.name] = tuple(str(d) for d in own) if own and fits else usual_dims(variable)
        for dim, length in zip(dims[variable.name], variable.shape, strict=True):
            given = model.coords.get(dim) if model is not None else None
            coords[dim] = list(given) if given is not None else np.arange(length)
    return dims, coords


def _lengths_fit(own: Any, variable: Variable, model: Any) -> bool:
    """Whether a model's dimensions are as long as a variable's, where it says how long they are."""
    known = [model.coords.get(dim) for dim in own]
    return all(held is None or len(held) == k for held, k in zip(known, variable.shape, strict=True))


def _of_prior(
    table: ReferenceTable, model: pm.Model | None, prior: Any, weights: np.ndarray | None
) -> dict[str, xr.Dataset]:
    """Parameters and statistics of rows that represent the prior."""
    columns = table.parameter_columns
    dims, coords = _dims(columns, model)
    if prior is not None and prior.ratio is None:  # which rows would be draws of it is only estimated
        drawn = _dataset(columns.split(prior.draws), columns, dims, coords, 1)
        drawn.attrs = {"rows": "draws of the prior, without simulations"}
        return {"prior": drawn}
    ratio = None if prior is None else prior.ratio
    if weights is not None:
        ratio = weights if ratio is None else ratio * weights
    found = PriorRows.of(table, ratio)
    groups = {"prior": _dataset(columns.split(table.parameters[found.rows]), columns, dims, coords, 1)}
    columns = table.statistic_columns
    dims, coords = _dims(columns, model)
    statistics = columns.split(table.statistics[found.rows])
    groups["prior_predictive"] = _dataset(statistics, columns, dims, coords, 1)
    for group in groups.values():
        group.attrs = {"rows": found.words}
    return groups


def _with_deterministics(posterior: xr.Dataset, model: pm.Model) -> xr.Dataset:
    import pymc as pm

    computed = pm.compute_deterministics(
        posterior, model=model, progressbar=False, compile_kwargs={"mode": "FAST_COMPILE"}
    )
    return xr.merge([posterior, computed])


def _observed_data(table: ReferenceTable, model: pm.Model | None) -> xr.Dataset:
    assert table.observed is not None
    whole = table.observed_data
    own = Columns(tuple(Variable(name, value.shape) for name, value in whole.items()))
    columns = own if whole else table.statistic_columns
    dims, coords = _dims(columns, model)
    values = whole or {name: row[0] for name, row in columns.split(table.observed[None]).items()}
    return xr.Dataset({v.name: (dims[v.name], values[v.name]) for v in columns.variables}, coords=coords)


def _attributes(
    posterior: Any, table: ReferenceTable | None, estimator: str, timings: dict[str, float]
) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "created_at": datetime.now(UTC).isoformat(),
        "inference_library": "pymc_kbr",
        "inference_library_version": version("pymc_kbr"),
        "note": "draws are independent of each other, within chains and between them",
        "estimator": estimator,
        "total_weight": posterior.total_weight,
        "effective_sample_size": posterior.effective_sample_size,
        "negative_share": posterior.negative_share,
        **posterior.settings,
        **{f"seconds_{stage}": seconds for stage, seconds in timings.items()},
    }
    if posterior.statistics is not None:
        attributes["statistics_used"] = "\n".join(posterior.statistics)
    if table is not None:
        attributes |= {
            "simulations": table.simulations,
            "simulations_failed": len(table.failures),
            "seed": "" if table.seed is None else str(table.seed),
            **{f"provenance_{name}": words for name, words in table.provenance.items()},
            **{f"seconds_{stage}": seconds for stage, seconds in table.timings.items()},
        }
    attributes["sampling_time"] = sum(v for k, v in attributes.items() if k.startswith("seconds_"))
    return attributes


def power_scaling(result: Any, component: str) -> xr.Dataset:
    """How much a result's posterior moves with a power of its "prior" or "likelihood": ArviZ's diagnostic."""
    if ARVIZ_MAJOR == 0:
        return az.psens(result, component=component)  # type: ignore[attr-defined]
    return az.psense(result, group=component)


# --- rows that represent the prior ---


@dataclass(frozen=True, eq=False)
class PriorRows:
    """Which rows, and what they are."""

    # Shapes: rows (k,).
    rows: np.ndarray
    words: str

    @classmethod
    def of(
        cls,
        table: Any,
        ratio: np.ndarray | None = None,
        *,
        # Rows of the prior in the result.
        rows_shown: int = 10_000,
    ) -> PriorRows:
        """Rows of a `ReferenceTable` for its prior, or for another one."""
        # Shapes: ratio (n,).
        elsewhere = table.origin.from_proposal
        weights = table.prior_ratio if elsewhere or not table.origin.known else None
        between = ", between the bounds within which it was simulated" if table.origin.between_bounds else ""
        if table.origin.left_out:
            between += f", without {table.origin.left_out} rows that lie far from the posterior"
        if len(table.failures) and table.origin.on_failure == "drop":
            between += ", of simulations that succeeded"
        if ratio is not None:
            weights = ratio if weights is None else weights * ratio
        if weights is None:
            return cls(spread_out(len(table), rows_shown), f"rows of the reference table, as drawn{between}")
        known = (
            f" times the known likelihood of {', '.join(table.origin.known)}" if table.origin.known else ""
        )
        words = (
            f"rows of the reference table, resampled by the density of the prior{known if elsewhere else ''} "
            f"over that of the rows, of which {effective_sample_size(weights):.0f} are effective{between}"
        )
        count = min(len(weights), rows_shown)
        steps = (np.arange(count) + 0.5) / count
        rows = np.searchsorted(np.cumsum(weights) / weights.sum(), steps)
        # Rounding may leave the summed weights below the last step.
        return cls(np.minimum(rows, len(weights) - 1), words)
