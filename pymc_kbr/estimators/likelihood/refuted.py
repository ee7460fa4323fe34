"""The words where rows that a likelihood was not fitted to refute it."""

from __future__ import annotations

from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM


def refuted(pvalue: float, worst: str | None, whose: str = "") -> str | None:
    """What is wrong where transforms of held-out rows are not uniform, and what to do; None where they are.

    Parameters
    ----------
    pvalue : float
        See `Choice`.
    worst : str, optional
        The statistic whose transforms are farthest from uniform, in quotes or as a column.
    whose : str
        Whose likelihood it is, such as " of 'y'".
    """
    if pvalue >= NOT_UNIFORM:
        return None
    which = "" if worst is None else f", least of all {worst}"
    return (
        f"the learned likelihood{whose} does not hold: held-out rows' statistics, transformed by their "
        f"fitted distribution functions, are not uniform{which} (p = {pvalue:.1e}); simulate more rows, "
        "transform the statistics, or compare with another estimator"
    )
