"""The rows of two tables as one, refused where they are not of one model."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import instance
from pymc_kbr.tables.failures import Failures


def appended(one: Any, other: Any) -> Any:
    """See `ReferenceTable.append`."""
    instance("other", other, type(one), "a ReferenceTable")
    for what, mine, theirs in (
        ("parameters", one.parameter_names, other.parameter_names),
        ("statistics", one.statistic_names, other.statistic_names),
    ):
        if mine != theirs:
            raise ValueError(
                f"the table to append has {what} {theirs}; this one has {mine}; "
                "only tables of the same model and statistics can be joined"
            )
    if one.support != other.support:
        raise ValueError("the table to append has another prior support; both must come from one prior")
    if one.prior_ratio is not None or other.prior_ratio is not None:
        raise ValueError(
            "the rows of one of the tables are no draws of the prior (it has a prior_ratio), and of both "
            "together the density is not known; give `refine` more draws instead"
        )
    # Rows of one seed are the same simulations: a second time they would only look like more data.
    twice = [seed for seed in one.seeds if seed is not None and seed in other.seeds]
    if twice:
        raise ValueError(
            f"both tables were simulated with the seed {twice[0]}, so their rows repeat each "
            "other; simulate the second one with another random_seed"
        )
    if not _same(one.observed, other.observed):
        raise ValueError("the table to append has another observation; set the same one with `with_observed`")
    seconds = set(one.timings) | set(other.timings)
    origin = dataclasses.replace(
        one.origin,
        simulations=one.simulations + other.simulations,
        noise=_noise(one, other),
        between_bounds=one.origin.between_bounds or other.origin.between_bounds,
        seeds=one.seeds + other.seeds,
        on_failure=_on_failure(one, other),
        prior_mass=one.origin.prior_mass if one.origin.prior_mass == other.origin.prior_mass else None,
    )
    copies = 0 if _of_other_seeds(one, other) else _copies(one, other)
    if copies:
        raise ValueError(
            f"{copies} row(s) of the table to append are in this one, too, to the last digit: a second time "
            "they would only look like more simulations; leave them out, or simulate others"
        )
    return dataclasses.replace(
        one,
        parameters=np.vstack([one.parameters, other.parameters]),
        statistics=np.vstack([one.statistics, other.statistics]),
        failures=Failures(
            np.concatenate([one.failures.rows, other.failures.rows]),
            np.vstack([one.failures.parameters, other.failures.parameters]),
            one.failures.messages + other.failures.messages,
        ),
        # There is no single one any more: `origin.seeds` has both.
        seed=None,
        provenance={**one.provenance, **origin.words},
        timings={k: one.timings.get(k, 0.0) + other.timings.get(k, 0.0) for k in sorted(seconds)},
        origin=origin,
    )


def _on_failure(one: Any, other: Any) -> str:
    """What failures mean, of which there are some in both tables, in one or in none."""
    meanings = {table.origin.on_failure for table in (one, other) if len(table.failures)}
    if len(meanings) > 1:
        raise ValueError(
            f"failures of this table have on_failure={one.origin.on_failure!r}, and those of the table to "
            f"append {other.origin.on_failure!r}; give both the same meaning: "
            f"`other.with_on_failure({one.origin.on_failure!r})`"
        )
    return meanings.pop() if meanings else str(one.origin.on_failure)


def _noise(one: Any, other: Any) -> tuple[float, ...]:
    """Deviations of the noise on the observation, which both tables have and rows of neither."""
    known = {table.origin.noise for table in (one, other)} - {()}
    if len(known) > 1:
        raise ValueError(
            f"the tables are without noise of the deviations {one.origin.noise} and {other.origin.noise} on "
            "the observation; only tables that were made for the same noise can be joined"
        )
    return known.pop() if known else ()


def _of_other_seeds(one: Any, other: Any) -> bool:
    """Whether both tables were simulated with seeds that are known, and differ."""
    return None not in (*one.seeds, *other.seeds)


def _copies(one: Any, other: Any) -> int:
    """How many rows of a table are those of another one. Whole numbers alone may agree by chance."""
    mine, theirs = (np.hstack([table.parameters, table.statistics]) for table in (one, other))
    if np.array_equal(mine, theirs):
        return len(theirs)
    smooth = [column for block in one.support.blocks if block.smooth for column in block.columns]
    if not smooth or not np.any(np.isin(theirs[:, smooth[0]], mine[:, smooth[0]])):
        return 0
    known = {row.tobytes() for row in mine}
    return sum(row.tobytes() in known for row in theirs)


def _same(one: np.ndarray | None, two: np.ndarray | None) -> bool:
    if one is None or two is None:
        return one is two
    return np.array_equal(one, two, equal_nan=True)
