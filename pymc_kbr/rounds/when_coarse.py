"""Simulations of one budget: of the prior, and in rounds at posterior draws where these are too coarse."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pymc_kbr.arrays.refusals import whole
from pymc_kbr.estimators import Adjusted, Estimator, KernelLikelihood, Rejection
from pymc_kbr.rounds.sequence import DRAWS, Rounds, least_rows
from pymc_kbr.simulation import Forward, SimulationOptions, check_can_be_proposed
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pymc as pm

FIRST_SHARE = 0.5
"""Of the simulations, which are draws of the prior, where it is open whether these will do."""

FURTHER_ROUNDS = 3
"""After the first one, at most."""

PRIOR_SHARE = 0.1
"""Of the rows of further rounds: see `refine`."""

MOST_FOR_LIKELIHOOD = 20
"""Statistics above which rounds go by linear estimates of the parameters, and not by a learned likelihood."""


def simulate_in_rounds(
    model: pm.Model | None,
    rounds: int | str,
    is_coarse: Callable[[ReferenceTable], bool],
    options: SimulationOptions,
) -> ReferenceTable:
    """Simulate a table in rounds, or only where one round would be too coarse.

    Parameters
    ----------
    model : pymc.Model, optional
    rounds : int or str
        So many of equal size, as in `refine`. "auto": half of the simulations are draws of the prior; where
        that table is too coarse the others are made in up to three rounds at draws of the posterior, and
        otherwise they are draws of the prior, too.
    is_coarse : callable
        From the first table to whether it is too coarse; asked where `rounds` is "auto".
    options : SimulationOptions
        Its draws are the simulations of all rounds.

    Returns
    -------
    ReferenceTable
        ``provenance["rounds"]`` says what was done.

    Raises
    ------
    TypeError, ValueError, SimulationError
        As `refine`.
    """
    draws = options.draws
    forward = Forward.of_columns(model)
    columns, d = forward.graph.parameters, forward.graph.statistics.size
    check_can_be_proposed(forward.support, columns)
    forward.log_prior(forward.prior.block(0)[:2])
    estimator = _going_by(d)
    least = least_rows(columns.size, d, estimator)
    sizes = _sizes(draws, rounds, least)
    asked = {"draws": draws, "rounds": len(sizes), "sizes": sizes, "prior_share": PRIOR_SHARE}
    goes_on = is_coarse if rounds == "auto" else None
    made = Rounds(forward, estimator, options, asked, None, goes_on=goes_on)
    table = made.run()
    return dataclasses.replace(table, provenance={**table.provenance, "rounds": _told(made)})


def _told(made: Rounds) -> str:
    """What was done, in words."""
    sizes = ", ".join(str(len(table) + len(table.failures)) for table in made.tables)
    elsewhere = sum(proposal is not None for proposal in made.proposals)
    found = "" if made.goes_on is None else ("too coarse" if elsewhere else "fine enough")
    return (
        f"{len(made.tables)} round(s) of {sizes} simulations, {elsewhere} of them at draws of the posterior"
        + (f": the table of the first one was {found}" if found else "")
    )


def _going_by(statistics: int) -> Estimator:
    """What the rounds go by."""
    if statistics <= MOST_FOR_LIKELIHOOD:
        return KernelLikelihood("location_scale", DRAWS)  # the other form takes several times as long
    near = Rejection(0.3, kernel="epanechnikov", scale="linear_posterior_mean")
    return Adjusted(near, "heteroscedastic_local_linear")


def _sizes(draws: int, rounds: int | str, least: int) -> list[int]:
    """Simulations of each round, at least so many; where "auto" has few it makes fewer rounds."""
    if rounds != "auto":
        size = draws // int(rounds)
        if size < least:
            raise ValueError(
                f"simulations is {draws}, of which each of {rounds} rounds has {size}; give each at least "
                f"{least}: more simulations, fewer rounds, or rounds='auto'"
            )
        return [size] * (int(rounds) - 1) + [draws - size * (int(rounds) - 1)]
    if draws < 2 * least:
        raise ValueError(
            f"simulations is {draws}, and rounds='auto' takes at least {2 * least} with this model: the "
            "first half must show a posterior; give more simulations, or leave `rounds` out"
        )
    first = max(least, int(FIRST_SHARE * draws))
    further = min(FURTHER_ROUNDS, (draws - first) // least)
    size = (draws - first) // further
    return [first, *[size] * (further - 1), draws - first - size * (further - 1)]


def check_rounds(rounds: Any) -> None:
    """Refuse what is neither "auto" nor a number of rounds."""
    if isinstance(rounds, str):
        if rounds != "auto":
            raise ValueError(f"rounds is {rounds!r}; it may be 'auto', a number of rounds, or None")
        return
    whole("rounds", rounds)
