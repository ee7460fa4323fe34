"""Rows of a table that stand for its prior: draws of it as they are, others resampled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.arrays.weighted import effective_sample_size

ROWS_SHOWN = 10_000
"""Rows that are shown of a prior."""


@dataclass(frozen=True, eq=False)
class PriorRows:
    """Which rows, and what they are.

    Parameters
    ----------
    rows : ndarray of int, shape (k,)
        At most `ROWS_SHOWN`; a row may be there several times where rows were resampled.
    words : str
        How they come to stand for the prior.
    """

    rows: np.ndarray
    words: str

    @classmethod
    def of(cls, table: Any, ratio: np.ndarray | None = None) -> PriorRows:
        """Rows of a `ReferenceTable` for its prior, or for another one.

        Parameters
        ----------
        table : ReferenceTable
        ratio : ndarray of shape (n,), optional
            Density of another prior over that of the table's, or what else weights the rows.

        Notes
        -----
        Rows that are no draws of the prior are resampled systematically, at even steps of the summed
        weights, which are the table's `prior_ratio` times `ratio`. A likelihood that is known is no part of a
        prior: where the ratio is that alone, rows are draws of the prior and are left as they are.
        """
        elsewhere = table.origin.from_proposal
        weights = table.prior_ratio if elsewhere or not table.origin.known else None
        between = ", between the bounds within which it was simulated" if table.origin.between_bounds else ""
        if table.origin.left_out:
            between += f", without {table.origin.left_out} rows that lie far from the posterior"
        if len(table.failures) and table.origin.on_failure == "drop":
            between += ", of simulations that succeeded"
        if ratio is not None:
            weights = ratio if weights is None else weights * ratio
        if weights is None:
            return cls(spread_out(len(table), ROWS_SHOWN), f"rows of the reference table, as drawn{between}")
        known = (
            f" times the known likelihood of {', '.join(table.origin.known)}" if table.origin.known else ""
        )
        words = (
            f"rows of the reference table, resampled by the density of the prior{known if elsewhere else ''} "
            f"over that of the rows, of which {effective_sample_size(weights):.0f} are effective{between}"
        )
        count = min(len(weights), ROWS_SHOWN)
        steps = (np.arange(count) + 0.5) / count
        rows = np.searchsorted(np.cumsum(weights) / weights.sum(), steps)
        # Rounding may leave the summed weights below the last step.
        return cls(np.minimum(rows, len(weights) - 1), words)
