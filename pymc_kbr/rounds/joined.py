"""The rows of several rounds as one table."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import numpy as np

from pymc_kbr.arrays.support import Support
from pymc_kbr.tables.failures import Failures
from pymc_kbr.tables.reference_table import ReferenceTable


def joined(
    tables: list[ReferenceTable],
    support: Support | None = None,
    prior_ratio: np.ndarray | None = None,
    failed_ratio: np.ndarray | None = None,
    word: str = "zoomed",
    further: str = "",
) -> ReferenceTable:
    """All rows of some tables that lie in a support, that of the last table where left out.

    Parameters
    ----------
    tables : list of ReferenceTable
        In a support of draws of the prior between bounds that include it, or with a `prior_ratio`.
    support : Support, optional
    prior_ratio : ndarray of shape (n,), optional
        Of all rows, in their order, where they are not draws of the prior.
    failed_ratio : ndarray of shape (f,), optional
        The same of all failures.
    word : str
        Under which the provenance says how many rows come from each table.
    further : str
        What it says after that.
    """
    # Each table is a draw of the prior between its bounds, so between the last ones all are of one law. The
    # prior's mass there is the product of the shares that bounds leave of the rows between those before.
    last = tables[-1]
    shares_left = [np.mean(b.support.contains(drawn_in(a))) for a, b in pairwise(tables)]
    support = last.support if support is None else support
    inside = [support.contains(table.parameters) for table in tables]
    drawn = [len(table) + len(table.failures) for table in tables]
    before = np.cumsum([0, *drawn[:-1]])
    origin = dataclasses.replace(last.origin, simulations=sum(drawn), prior_mass=float(np.prod(shares_left)))
    shares = "; ".join(f"{rows.sum()} rows of {n}" for rows, n in zip(inside, drawn, strict=True))
    return dataclasses.replace(
        last,
        support=support,
        prior_ratio=None if prior_ratio is None else prior_ratio[np.concatenate(inside)],
        parameters=np.vstack([t.parameters[rows] for t, rows in zip(tables, inside, strict=True)]),
        statistics=np.vstack([t.statistics[rows] for t, rows in zip(tables, inside, strict=True)]),
        failures=Failures(
            np.concatenate([start + t.failures.rows for start, t in zip(before, tables, strict=True)]),
            np.vstack([t.failures.parameters for t in tables]),
            tuple(message for t in tables for message in t.failures.messages),
            failed_ratio,
        ),
        seed=None,
        provenance={**last.provenance, **origin.words, word: shares + further},
        timings={name: sum(t.timings.get(name, 0.0) for t in tables) for name in last.timings},
        origin=origin,
    )


def drawn_in(table: ReferenceTable) -> np.ndarray:
    """All parameters that were drawn for a table, those of failures last."""
    return np.vstack([table.parameters, table.failures.parameters])
