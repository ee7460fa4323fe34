"""What the user of a table can do where it is too coarse."""

from __future__ import annotations

from pymc_kbr.simulation.prior.proposal import can_be_freed
from pymc_kbr.tables.reference_table import ReferenceTable

_AS_MANY = "which mostly takes as many simulations again; draws of the prior alone would have to be {many}"
REMEDIES = {
    "rounds": f"simulate in rounds near the observation (`rounds='auto'`, `refine` or `zoom`), {_AS_MANY}",
    "forced": f"simulate in rounds near the observation (`rounds=4`, `refine` or `zoom`), {_AS_MANY}",
    "prior": "simulate more draws of the prior, {many}, or take statistics that say more of the parameters",
    "refined": "take more simulations, {many} that are drawn as these were, or more rounds",
    "ended": "take more simulations, {many} that are drawn as these were",
    "zoomed": "simulate more between the bounds, {many}, or between narrower ones (`zoom`)",
}
"""What helps a coarse table: rounds, by their number where "auto" found them needless; more of the prior,
where there can be none; more of the same where the table is one of rounds, or between bounds, and without
more rounds where these ended.
"""


def remedy_of(table: ReferenceTable) -> str:
    """Which of `REMEDIES` is open to the user of a table."""
    origin = table.origin
    if origin.from_proposal:
        return "ended" if rounds_ended(table) else "refined"
    if origin.between_bounds:
        return "zoomed"
    # Where no rounds were made the reason is told: they are impossible, or take more simulations.
    if not can_be_freed(table.support.of_rows(table.parameters)) or rounds_ended(table):
        return "prior"
    return "forced" if origin.rounds.startswith("none") else "rounds"


def rounds_ended(table: ReferenceTable) -> str:
    """Why there were no rounds, or no more, where that was not for the posterior's sake; or nothing."""
    rounds = table.origin.rounds
    return rounds.partition(", since ")[2] or rounds.partition(", but ")[2]
