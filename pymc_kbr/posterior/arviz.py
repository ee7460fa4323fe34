"""A posterior as an ArviZ result: the only place that knows which ArviZ is installed."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import arviz as az
import numpy as np
import xarray as xr

from pymc_kbr.tables.columns import Columns, Variable

if TYPE_CHECKING:
    import pymc as pm

    from pymc_kbr.tables.reference_table import ReferenceTable

ARVIZ_MAJOR = int(version("arviz").split(".")[0])

WEIGHTED_ATOMS = "weighted_atoms_data"
"""The group of atoms and weights. ArviZ takes no group for draws whose name has "data" in it: of any other
without chains, `InferenceData.to_dataframe` fails.
"""


def to_arviz(
    posterior: Any,
    draws: int | np.ndarray = 1000,
    *,
    random_seed: int | np.random.Generator | None = None,
    table: ReferenceTable | None = None,
    model: pm.Model | None = None,
    estimator: str = "",
    timings: dict[str, float] | None = None,
    notes: dict[str, Any] | None = None,
) -> Any:
    """Pack a posterior and its draws for ArviZ; also the method `Posterior.to_arviz`.

    Parameters
    ----------
    posterior : Posterior
    draws : int or ndarray of shape (draws, p)
        Draws made by `Posterior.draw`, or their number. They are independent: there is one chain, and
        `r_hat` is not defined.
    random_seed : int or numpy.random.Generator, optional
        For draws that are made here.
    table : ReferenceTable, optional
        Gives names, shapes, the observation and the account of the simulations.
    model : pymc.Model, optional
        Gives dims and coords, and the deterministic variables.
    estimator : str
        Which estimator made it.
    timings : dict of str to float
        Seconds of the stages after the simulation.
    notes : dict, optional
        More attributes of the result, such as the warnings of `pymc_kbr.checking.diagnostics`.

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        Groups ``posterior``; ``observed_data`` where there is an observation; ``weighted_atoms_data`` with
        the simulated parameters as variables of dimension ``atom``, the estimator's signed ``weight``
        and its projection ``simplex_weight``.
    """
    drawn: np.ndarray = (
        draws if isinstance(draws, np.ndarray) else posterior.draw(draws, np.random.default_rng(random_seed))
    )
    p = drawn.shape[1]
    columns = table.parameter_columns if table else Columns.scalars([f"theta_{i}" for i in range(p)])
    attributes = _attributes(posterior, table, estimator, timings or {}) | (notes or {})
    dims, coords = _dims(columns, model)
    groups = {"posterior": _dataset(columns.split(drawn), columns, dims, coords, ("chain", "draw"))}
    if model is not None and model.deterministics:
        groups["posterior"] = _with_deterministics(groups["posterior"], model)
    weighted = _dataset(columns.split(posterior.atoms), columns, dims, coords, ("atom",))
    weighted["weight"] = ("atom", posterior.weights)
    weighted["simplex_weight"] = ("atom", posterior.simplex_weights)
    groups[WEIGHTED_ATOMS] = weighted
    if table is not None and table.observed is not None:
        groups["observed_data"] = _observed_data(table, model)
    for dataset in groups.values():
        dataset.attrs = attributes
    return pack(groups)


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
    lead: tuple[str, ...],
) -> xr.Dataset:
    variables = {}
    used: dict[str, Any] = {}
    for variable in columns.variables:
        array = values[variable.name]
        names = (*lead, *dims[variable.name])
        variables[variable.name] = (names, array[None] if lead[0] == "chain" else array)
        used |= {dim: coords[dim] for dim in dims[variable.name]}
    if lead[0] == "chain":
        used |= {"chain": [0], "draw": np.arange(len(array))}
    return xr.Dataset(variables, coords=used)


def _dims(columns: Columns, model: pm.Model | None) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """The dimensions of each variable and their coordinates: the model's own, or ArviZ's usual ones."""
    dims: dict[str, tuple[str, ...]] = {}
    coords: dict[str, Any] = {}
    for variable in columns.variables:
        own = model.named_vars_to_dims.get(variable.name) if model is not None else None
        dims[variable.name] = tuple(str(d) for d in own) if own else _usual_dims(variable)
        for dim, length in zip(dims[variable.name], variable.shape, strict=True):
            given = model.coords.get(dim) if model is not None else None
            coords[dim] = list(given) if given is not None else np.arange(length)
    return dims, coords


def _usual_dims(variable: Variable) -> tuple[str, ...]:
    return tuple(f"{variable.name}_dim_{i}" for i in range(len(variable.shape)))


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
        "note": "draws are independent, in one chain; r_hat is not defined for them",
        "estimator": estimator,
        "total_weight": posterior.total_weight,
        "effective_sample_size": posterior.effective_sample_size,
        "negative_share": posterior.negative_share,
        **posterior.settings,
        **{f"seconds_{stage}": seconds for stage, seconds in timings.items()},
    }
    if table is not None:
        attributes |= {
            "simulations": table.simulations,
            "simulations_failed": len(table.failures),
            "seed": "" if table.seed is None else str(table.seed),
            "provenance": json.dumps(table.provenance),
            **{f"seconds_{stage}": seconds for stage, seconds in table.timings.items()},
        }
    attributes["sampling_time"] = sum(v for k, v in attributes.items() if k.startswith("seconds_"))
    return attributes
