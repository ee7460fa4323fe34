"""Simulations of one budget: of the prior, and in rounds at posterior draws where these are too coarse."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.estimators import Estimator, KernelLikelihood
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY
from pymc_kbr.estimators.likelihood.structure import KINDS
from pymc_kbr.estimators.sets import most_columns
from pymc_kbr.rounds.sequence import DRAWS_FOR_PROPOSAL, Rounds, few_effective, least_rows, near_rows
from pymc_kbr.simulation import (
    ForwardModel,
    Interrupted,
    SimulationOptions,
    check_can_be_proposed,
    simulate_table,
    warn_of_interrupt,
)
from pymc_kbr.simulation.streams import ROWS_A_STREAM
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pymc as pm


MOST_FOR_LEARNING = MOST_SPARINGLY
"""Statistics above which rounds go by regression estimates, unless a likelihood of many was the best."""


class TooCoarse(NamedTuple):
    """The estimator that was fitted to a table, if any, and why that does not do, as in "too coarse"."""

    estimator: Estimator | None
    why: str


def simulate_in_rounds(
    model: pm.Model | None,
    rounds: int | str | None,
    if_coarse: Callable[[ReferenceTable], TooCoarse | None],
    options: SimulationOptions,
    check_first: Callable[[int], None] | None = None,
    *,
    # Of the rows of further rounds: see `refine`.
    prior_share: float = 0.1,
) -> ReferenceTable:
    """Simulate a table in rounds, or only where one round would be too coarse."""
    forward, sizes, alone = ForwardModel.read(model), [options.draws], ""
    if rounds != 1:
        try:
            sizes = _planned(forward, options.draws, rounds or "auto")
        except ValueError as error:
            if rounds is not None:
                raise
            alone = f", since {error}"
    if len(sizes) == 1:
        return _of_the_prior(forward, options, f"1 round: all simulations are draws of the prior{alone}")
    if rounds == "auto" and check_first is not None:
        _check_first(check_first, sizes[0], options.draws)
    statistics = forward.graph.statistics
    asked = {"draws": options.draws, "rounds": len(sizes), "sizes": sizes, "prior_share": prior_share}

    why, not_judged = "", list[str]()

    def needs_refinement(table: ReferenceTable) -> Estimator | None:
        nonlocal why
        try:
            with warnings.catch_warnings():
                # What there is to say of the first rows is said once, of the whole table.
                warnings.simplefilter("ignore")
                found = _left_by_known(table) or if_coarse(table)
        except (ValueError, np.linalg.LinAlgError) as error:
            if rounds is not None:
                raise
            not_judged.append(str(error))
            return None
        if found is None:
            return None
        why = found.why
        return _further(found.estimator, statistics)

    looks = needs_refinement if rounds is None or isinstance(rounds, str) else None
    made = Rounds(forward, _going_by(statistics), options, asked, None, needs_refinement=looks)
    table = made.run()
    if not_judged:
        return _with_words(table, f"none: all {options.draws} are draws of the prior, since {not_judged[0]}")
    return _with_words(table, _told(made, options.draws, why))


def _left_by_known(table: ReferenceTable) -> TooCoarse | None:
    """Why a table does not do of which known densities leave too few rows to learn from."""
    few = few_effective(table)
    words = f"one of which {', '.join(table.origin.known)} leave an effective {few} rows"
    return TooCoarse(None, words) if few else None


def _planned(forward: ForwardModel, draws: int, rounds: int | str) -> list[int]:
    """Simulations of each round, of a model that can be simulated elsewhere than at draws of its prior."""
    columns = forward.graph.parameters
    check_can_be_proposed(forward.seen_support(), columns)
    forward.log_prior(forward.prior.block(0)[:2])
    statistics = forward.graph.statistics
    d = most_columns(statistics, columns.size)
    return _sizes(draws, rounds, least_rows(columns.size, d, _going_by(statistics)))


def _check_first(check: Callable[[int], None], first: int, draws: int) -> None:
    """Refuse what so many simulations, of all, are too few for."""
    try:
        check(first)
    except ValueError as error:
        raise ValueError(
            f"rounds='auto' fits an estimator to the first {first} of {draws} simulations: {error}; or leave "
            "`rounds` out"
        ) from error


def _of_the_prior(forward: ForwardModel, options: SimulationOptions, words: str) -> ReferenceTable:
    """What `simulate` makes of the same seed."""
    try:
        made = simulate_table(dataclasses.replace(options, to_be_extended=True), forward)
    except Interrupted as error:
        warn_of_interrupt(error.words, None)
        made = error.table
    assert isinstance(made, ReferenceTable)
    return _with_words(made, words)


def _with_words(table: ReferenceTable, words: str) -> ReferenceTable:
    origin = dataclasses.replace(table.origin, rounds=words)
    return dataclasses.replace(table, provenance={**table.provenance, **origin.words}, origin=origin)


def _told(made: Rounds, draws: int, why: str) -> str:
    """What was done, in words; `why` is what was found of the first table, if anything."""
    drawn = [len(table) + len(table.failures) for table in made.tables]
    elsewhere = sum(proposal is not None for proposal in made.proposals)
    if made.needs_refinement is not None and not elsewhere:
        if made.ended.startswith("interrupted"):
            return f"none: {made.ended}, all draws of the prior"
        # It is not said that they will do: the finished posterior may be found too coarse for them all.
        found = f"{why}, but {made.ended}" if made.ended else "not found too coarse"
        return f"none: all {draws} are draws of the prior, and the table of the first {drawn[0]} was {found}"
    sizes = ", ".join(map(str, drawn))
    found = "" if made.needs_refinement is None else f": the table of the first one was {why}"
    ended = f"; ended early, since {made.ended}" if made.ended else ""
    return (
        f"{len(made.tables)} round(s) of {sizes} simulations, {elsewhere} of them at draws of the posterior"
        f"{found}{ended}{''.join(f'; {words}' for words in made.refused)}"
    )


def _further(found: Estimator | None, statistics: Columns) -> Estimator:
    """What further rounds go by, after an estimator that was fitted to the first table, if any was."""
    if isinstance(found, KernelLikelihood) and not statistics.set_names:
        # Its form was chosen; the rounds only fit it.
        declared = {kind: getattr(found, kind) for kind in KINDS}
        known = declared | found.found_structure_
        return KernelLikelihood(found.choice_.name, DRAWS_FOR_PROPOSAL, **known)
    return _going_by(statistics)


def _going_by(statistics: Columns) -> Estimator:
    """What the rounds go by where nothing better is known."""
    if statistics.set_names:
        return near_rows(True)  # the columns of data sets are regression estimates already
    if statistics.size <= MOST_FOR_LEARNING:
        # The other form takes several times as long.
        return KernelLikelihood("location_scale", DRAWS_FOR_PROPOSAL)
    return near_rows("joint_posterior_mean")


def _sizes(
    draws: int,
    rounds: int | str,
    least: int,
    *,
    # Of the simulations, at most, which are draws of the prior where it is open whether these will do.
    first_share: float = 0.5,
    # After the first one, at most.
    further_rounds: int = 3,
) -> list[int]:
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
    first = max(least, int(first_share * draws))
    if first >= 2 * ROWS_A_STREAM:  # whole batches, of which none is simulated twice
        first -= first % ROWS_A_STREAM
    further = min(further_rounds, (draws - first) // least)
    size = (draws - first) // further
    return [first, *[size] * (further - 1), draws - first - size * (further - 1)]


def check_rounds(rounds: Any) -> None:
    """Refuse what is neither "auto" nor a number of rounds."""
    if isinstance(rounds, str):
        if rounds != "auto":
            raise ValueError(f"rounds is {shown(rounds)}; it may be 'auto', a number of rounds, or None")
        return
    whole("rounds", rounds)
