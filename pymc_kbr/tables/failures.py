"""Simulations that are no rows of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import one_of

ON_FAILURE = ("raise", "drop", "condition")
"""What becomes of a table when a simulation fails."""


@dataclass(frozen=True, eq=False)
class Failures:
    """The simulations that gave no usable statistics.

    Parameters
    ----------
    rows : ndarray of shape (f,)
        Number of the draw that failed, counted from 0 over all draws asked for.
    parameters : ndarray of shape (f, p)
        The parameters of these draws.
    messages : tuple of str, length f
        What went wrong.
    prior_ratio : ndarray of shape (f,), optional
        Of these draws, as `ReferenceTable.prior_ratio` of the rows and in its unit.
    """

    rows: np.ndarray
    parameters: np.ndarray
    messages: tuple[str, ...]
    prior_ratio: np.ndarray | None = None

    @classmethod
    def none(cls, size: int) -> Failures:
        """No failures, of draws with `size` parameters."""
        return cls(np.empty(0, dtype=np.int64), np.empty((0, size)), ())

    def __len__(self) -> int:
        return len(self.rows)

    def some(self, chosen: np.ndarray) -> Failures:
        """Some of them, by their places."""
        ratio = None if self.prior_ratio is None else self.prior_ratio[chosen]
        messages = tuple(self.messages[place] for place in chosen.tolist())
        return Failures(self.rows[chosen], self.parameters[chosen], messages, ratio)


def meaning_of_failures(table: Any, meaning: str) -> dict[str, Any]:
    """The fields of a table that say what its failures mean.

    Raises
    ------
    ValueError
        If the meaning is none.
    """
    one_of("the meaning of failures", meaning, ON_FAILURE[1:])
    origin = replace(table.origin, on_failure=meaning)
    return {"origin": origin, "provenance": provenance_with(table.provenance, origin)}


def provenance_with(provenance: dict[str, str], origin: Any) -> dict[str, str]:
    """A provenance that says of failures what the origin of the table says."""
    words = {name: text for name, text in provenance.items() if name != "on_failure"}
    return {**words, **origin.words}
