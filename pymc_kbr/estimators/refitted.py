"""Estimators fitted anew: to all rows of a table, of which they have seen some."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.kernel_likelihood import KernelLikelihood
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM


def after_comparison(estimator: Estimator, compared: Estimator | None) -> Estimator:
    """A copy to be fitted to all rows, which need not find out again what the one `compared` has."""
    copied: Estimator = clone(estimator)
    if isinstance(copied, KernelLikelihood) and isinstance(compared, KernelLikelihood):
        copied.settled = compared.choice_ if compared.choice_.pvalue >= NOT_UNIFORM else None
    return copied


def on_all_rows(chosen: Any, stored: Any, rng: np.random.Generator) -> Any:
    """A fitted estimator that was chosen on some rows of a table, fitted to all of them if it picks rows."""
    # Rows that carry weights are fitted in memory.
    weighted = chosen.table_.ratio is not None or stored.prior_ratio is not None
    if not (chosen.streams and chosen.picks) or weighted:
        return chosen
    fitted = clone(chosen).fit(stored, random_seed=rng)
    return fitted.chosen_by(chosen.selection_, len(stored))
