"""The model that a table belongs to."""

from __future__ import annotations

from typing import Any

import pymc as pm

from pymc_kbr.arrays.refusals import named
from pymc_kbr.simulation.model.imputation import without_imputation
from pymc_kbr.tables.reference_table import ReferenceTable


def check_model(name: str, model: Any) -> None:
    """Refuse what is no model.

    Raises
    ------
    TypeError
    """
    if not isinstance(model, pm.Model):
        raise TypeError(f"{name} is {named(model)}; give a pymc.Model")


def model_in_context(model: pm.Model | None) -> pm.Model:
    """A model, that of the surrounding ``with`` block where it is None; gaps in its data are NaN.

    Raises
    ------
    TypeError
        If there is none.
    """
    if model is not None:
        check_model("model", model)
    try:
        found = pm.modelcontext(model)
    except TypeError:
        raise TypeError(
            "no PyMC model was given and none is on the context stack; pass model=..., "
            "or call this inside `with model:`"
        ) from None
    return without_imputation(found)


def model_of_table(table: ReferenceTable, model: pm.Model | None) -> pm.Model | None:
    """The model that the table's parameters belong to; None where there is none."""
    given = model is not None
    if given:
        check_model("model", model)
    model = pm.modelcontext(model) if given else pm.Model.get_context(error_if_none=False)
    if model is None:
        return None
    model = without_imputation(model)
    mine = {v.name: v.shape for v in table.parameter_columns.variables}
    theirs = {rv.name for rv in model.free_RVs}
    if set(mine) == theirs:
        return model
    if given:
        raise ValueError(
            f"the reference table has the parameters {sorted(mine)}; the model has {sorted(theirs)}; "
            "simulate a table from this model, or leave the model out"
        )
    return None
