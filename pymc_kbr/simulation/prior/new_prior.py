"""Another prior for a table that is simulated already: its draws, its density ratio, its support."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.names import parameters_by_name
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.rows import check_range
from pymc_kbr.arrays.support import Support
from pymc_kbr.simulation import ModelPrior, model_prior
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pymc as pm


@dataclass(frozen=True, eq=False)
class NewPrior:
    """Another prior of a table's parameters."""

    # Shapes: draws (l, p); ratio (n,), or None.
    draws: np.ndarray
    support: Support
    ratio: np.ndarray | None

    @classmethod
    def of(
        cls,
        prior: Any,
        table: ReferenceTable,
        model: pm.Model | None,
        rng: np.random.Generator,
        *,
        # Draws of a model's prior, for its share outside the table's support and for density ratios.
        prior_draws: int = 5000,
    ) -> NewPrior:
        """Read a new prior."""
        # Shapes: prior (l, p).
        import pymc as pm

        ratio, support = None, table.support
        if isinstance(prior, pm.Model):
            if prior.potentials and prior is not model:
                raise ValueError(
                    f"the prior's model has the potentials {[p.name for p in prior.potentials]}; write them "
                    "as priors"
                )
            new = model_prior(prior, table.parameter_columns, prior_draws, rng)
            draws, support = new.draws, new.support
            _refuse_points(draws, table)
        else:
            draws = _draws(prior, table)
        outside = ~table.support.contains(draws)
        if np.any(outside):
            first = dict(zip(table.parameter_names, draws[outside][0].round(4).tolist(), strict=True))
            raise ValueError(
                f"{outside.mean():.1%} of the new prior's mass lies outside the support of the reference "
                f"table, for instance at {first}; nothing was simulated there: narrow the prior, or simulate "
                "a table from it"
            )
        if isinstance(prior, pm.Model) and model is not None and model is not prior:
            # Its draws are not looked at, only its density.
            old = model_prior(model, table.parameter_columns, 2, rng)
            ratio = _exact_ratio(new, old, table)
        return cls(draws, support, ratio)


def _exact_ratio(new: ModelPrior, old: ModelPrior, table: ReferenceTable) -> np.ndarray | None:
    """The ratio of two densities at a table's rows (n,), the largest one; None where one is not known."""
    try:
        with np.errstate(invalid="ignore"):  # rows that neither reaches
            log_ratio = new.log_density(table.parameters) - old.log_density(table.parameters)
    except NotImplementedError:
        return None
    log_ratio[~new.support.contains(table.parameters)] = -np.inf
    if not np.any(np.isfinite(log_ratio)):
        return np.zeros(len(log_ratio))
    return np.exp(log_ratio - log_ratio.max())


def _refuse_points(draws: np.ndarray, table: ReferenceTable) -> None:
    """Refuse a prior that has all its mass in one value of a continuous parameter that varies elsewhere."""
    discrete = [v.discrete for v in table.parameter_columns.variables for _ in range(v.size)]
    points = (np.ptp(draws, axis=0) == 0) & (np.ptp(table.parameters, axis=0) > 0) & ~np.array(discrete)
    if np.any(points):
        fixed = {table.parameter_names[i]: float(draws[0, i]) for i in np.flatnonzero(points)}
        raise ValueError(
            f"the new prior has all its mass in one point of {fixed}, so that no row of the table represents "
            "it; give these parameters a prior with a deviation above zero, or simulate a table in which "
            "they are constants of the model"
        )


def _draws(prior: Any, table: ReferenceTable) -> np.ndarray:
    try:
        draws = parameters_by_name(prior, table.parameter_names, "the prior's draws")
    except TypeError as error:
        raise TypeError(
            f"prior is {shown(prior)}, which cannot be draws: {error}; give a PyMC model, "
            f"or draws of the parameters {table.parameter_names} of shape (l, p)"
        ) from None
    p = len(table.parameter_names)
    if draws.ndim != 2 or draws.shape[1] != p or len(draws) < 2:
        raise ValueError(
            f"the prior's draws have shape {draws.shape}; they must be at least two rows of the {p} "
            f"parameters {table.parameter_names}"
        )
    if not np.all(np.isfinite(draws)):
        raise ValueError("the prior's draws hold NaN or infinity; leave those rows out")
    check_range("the prior's draws", draws, table.parameter_names)
    return draws
