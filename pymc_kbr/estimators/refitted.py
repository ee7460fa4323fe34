"""Estimators fitted anew: to all rows of a table, of which they have seen some."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone


def on_all_rows(chosen: Any, stored: Any, rng: np.random.Generator) -> Any:
    """A fitted estimator that was chosen on some rows of a table, fitted to all of them if it picks rows.

    Parameters
    ----------
    chosen : Estimator
        Fitted, with its `selection_`; it stays as it is.
    stored : StoredTable
    rng : numpy.random.Generator
    """
    # Rows that carry weights are fitted in memory.
    if not (chosen.streams and chosen.picks) or stored.prior_ratio is not None:
        return chosen
    fitted = clone(chosen).fit(stored, random_seed=rng)
    return fitted.chosen_by(chosen.selection_, len(stored))
