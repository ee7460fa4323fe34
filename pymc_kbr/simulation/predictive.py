"""Data simulated at given parameters, before they are summarised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.data_sets import DataSets
from pymc_kbr.simulation.model.read import ModelGraph, is_simulator, read_model
from pymc_kbr.simulation.workers.row_simulator import RowSimulator

if TYPE_CHECKING:
    import pymc as pm


def simulate_data(
    model: pm.Model | None, draws: dict[str, np.ndarray], rng: np.random.Generator
) -> tuple[dict[str, Any], dict[str, Any], dict[str, bool]]:
    """Simulate a model's data, as its observed variables hold them, at draws of its free variables."""
    # Shapes: draws (k, *shape); returned: (k, *data shape).
    # model: That of the surrounding ``with`` block where None.
    # draws: Of every free variable.
    # Returned: Whether the entries of a variable's first axis are independent draws: those of an ordinary
    # `pm.Simulator` and of a distribution are, and rows of data sets; a vector simulator's are not.
    graph = read_model(model, simulate_known=True)
    missing = [v.name for v in graph.parameters.variables if v.name not in draws]
    if missing:
        raise ValueError(f"there are no draws of {missing}; the model has {graph.parameters.names}")
    columns = graph.parameters.stack([draws[v.name] for v in graph.parameters.variables])
    simulated, _ = _simulate(graph, columns, rng)
    observed: dict[str, Any] = dict(graph.observed_data)
    exchangeable = {
        rv.name: not (is_simulator(rv) and rv.owner.op.ndim_supp > 0) and observed[rv.name].ndim > 0
        for rv in graph.simulated
    }
    for one in graph.statistics.variables:
        if one.set_columns:
            sets = DataSets.of_padded(simulated[one.name], one.set_columns)
            simulated[one.name] = [sets[i] for i in range(len(sets))]
            observed[one.name] = DataSets.of_padded(observed[one.name][None], one.set_columns)[0]
            exchangeable[one.name] = True
    return simulated, observed, exchangeable


def simulate_held_out(
    model: pm.Model | None, parameters: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Simulate a model's data and their statistics at parameters (k, p), in the columns of its tables."""
    # Shapes: returned: (k, *data shape).
    return _simulate(read_model(model), parameters, rng)


def _simulate(
    graph: ModelGraph, columns: np.ndarray, rng: np.random.Generator
) -> tuple[dict[str, Any], np.ndarray]:
    """Data by variable, and statistics (k, d), row by row."""
    # Row by row: a draw of the posterior may be one at which a batch would fail as a whole.
    simulator = RowSimulator.of(graph, int(rng.integers(2**63)))
    rows = []
    for row, parameters in enumerate(columns):
        outcome = simulator.try_row(row, parameters)
        if isinstance(outcome, str):
            raise ValueError(f"the simulation at draw {row}, {parameters.tolist()}, failed: {outcome}")
        rows.append(outcome)
    names = [rv.name for rv in graph.simulated]
    simulated = {name: np.array([row[i] for row in rows], dtype=float) for i, name in enumerate(names)}
    return simulated, simulator.chunk(0, list(rows)).statistics
