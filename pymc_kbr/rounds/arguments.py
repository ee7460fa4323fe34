"""What `sample_abc` cannot be told together."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from pymc_kbr.arrays.refusals import names_of, shown
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators import Estimator
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.rounds.adaptive import check_rounds
from pymc_kbr.simulation import SimulationOptions
from pymc_kbr.simulation.model.read import check_model
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

USUAL_SIMULATIONS = 10_000
"""Of `sample_abc`, where none are asked for."""


def check_kinds(reference_table: Any, model: Any, statistics: Any) -> None:
    """Refuse arguments of another kind than `sample_abc` takes."""
    if not isinstance(reference_table, ReferenceTable | StoredTable | None):
        raise TypeError(
            f"reference_table is {shown(reference_table)}; give a ReferenceTable or a StoredTable, as "
            "`simulate`, `ReferenceTable.from_dataframe` and `StoredTable.open` make them"
        )
    if model is not None:
        check_model("model", model)
    if statistics is not None:
        names_of("statistics", statistics)


def warn_of_no_effect(options: SimulationOptions) -> None:
    """Say which settings of simulations are given where nothing is simulated."""
    usual = SimulationOptions(USUAL_SIMULATIONS)
    given = {"simulations": options.draws != usual.draws}
    given |= {
        name: getattr(options, name) != getattr(usual, name)
        for name in ("cores", "executor", "on_failure", "timeout")
    }
    named = [name for name, is_given in given.items() if is_given]
    if named:
        warnings.warn(
            f"{', '.join(named)} {'has' if len(named) == 1 else 'have'} no effect beside a reference table: "
            "nothing is simulated",
            UserWarning,
            stacklevel=users_line(),
        )


def validate_arguments(
    estimator: Estimator | None,
    prior: Any,
    calibration: Any,
    reference_table: ReferenceTable | StoredTable | None,
    store: str | Path | None,
    rounds: int | str | None,
    statistics: Any,
) -> None:
    """Refuse arguments that do not go together, before any work."""
    if prior is not None and getattr(estimator, "prior", None) is not None:
        raise ValueError("both the estimator and `prior` give a prior; leave one of them out")
    if (conditions := getattr(estimator, "conditions", None)) is not None:
        raise ValueError(
            f"the estimator has the conditions {conditions}, whose values no model says; fit it to a table, "
            "and give them to `condition(observed, conditions=...)`"
        )
    if reference_table is not None and store is not None:
        raise ValueError("both a reference table and a store are given; leave one of them out")
    if isinstance(reference_table, StoredTable) and (prior is not None or calibration is not None):
        raise ValueError(
            f"the reference table stays on the disk, with {len(reference_table)} rows, and `prior` and "
            "`calibration` need it in memory; leave them out, or load the table or some of its rows: "
            "`stored.load(20_000)`"
        )
    if isinstance(reference_table, StoredTable) and weighting_of(reference_table).ratio is not None:
        raise ValueError(
            "the reference table stays on the disk, and its rows are no draws of the prior and carry "
            "weights, which needs them in memory; load the table or some of its rows: `stored.load(20_000)`"
        )
    if statistics is not None and rounds is not None:
        raise ValueError(
            "statistics names some of them, and rounds go by all that the data have; leave rounds out, or "
            "give NaN in the model's data for the others"
        )
    if rounds is not None:
        check_rounds(rounds)
        _refuse_with_rounds(rounds, prior, reference_table, store)


def _refuse_with_rounds(rounds: int | str, prior: Any, reference_table: Any, store: Any) -> None:
    """Refuse what does not go together with rounds."""
    if reference_table is not None:
        raise ValueError(
            f"rounds is {shown(rounds)} and a reference table is given, of which nothing is simulated; "
            "leave one of them out, or make the table with `refine` or `zoom`"
        )
    if store is not None:
        raise ValueError(
            f"rounds is {shown(rounds)} and a store is given, which holds one table; leave one of them "
            "out, or take `refine(..., store=...)`, with a folder of stores, and give its table as "
            "`reference_table`"
        )
    if prior is not None:
        raise ValueError(
            f"rounds is {shown(rounds)} and another prior is given; rounds simulate near the posterior under "
            "the model's own prior: leave one of them out, or simulate from the model with the other prior"
        )
