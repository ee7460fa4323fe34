"""How much each statistic contributes: the posteriors of held-out rows without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.pictures.axes import drawn_on
from pymc_kbr.arrays.pictures.palette import BARS, RULE
from pymc_kbr.arrays.refusals import flag, generator_of, names_of, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.checking.held_out import hold_out
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.likelihood.success import refuse_weighted_for_success
from pymc_kbr.estimators.missing import on_statistics
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.posterior.shown import Shown
from pymc_kbr.simulation.progress import tracked
from pymc_kbr.tables.reference_table import ReferenceTable, check_table
from pymc_kbr.tables.selected import columns_named

DRAWS_SCORED = 200
"""Of each posterior."""


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class StatisticContributions:
    """Posteriors of held-out rows with all statistics, and without some of them.

    Parameters
    ----------
    without : tuple of str
        What is left out in turn.
    energy_score : ndarray of shape (g,)
        How much the score rises, as a share of that with all: above zero where a statistic is needed.
    standard_error : ndarray of shape (g,)
    contraction : ndarray of shape (g, p)
        Median contraction of each parameter without the statistics: one minus the posterior's variance over
        the prior's.
    contraction_of_all : ndarray of shape (p,)
        With all statistics.
    parameters : tuple of str
    rows : int
        How many were held out.
    """

    without: tuple[str, ...]
    energy_score: np.ndarray
    standard_error: np.ndarray
    contraction: np.ndarray
    contraction_of_all: np.ndarray
    parameters: tuple[str, ...]
    rows: int

    def summary(self) -> pd.DataFrame:
        """The statistics, the one that is missed most first.

        Returns
        -------
        pandas.DataFrame
            By the names of what was left out.
        """
        table = pd.DataFrame(
            {"score_rises_by": self.energy_score, "standard_error": self.standard_error},
            index=pd.Index(self.without, name="without"),
        )
        lost = self.contraction_of_all - self.contraction
        for number, name in enumerate(self.parameters):
            table[f"contraction_lost[{name}]"] = lost[:, number]
        return table.sort_values("score_rises_by", ascending=False)

    def plot(self, *, ax: Any = None) -> Any:
        """By how much the score rises without each statistic, with two standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
            With the 20 statistics that are missed most.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If several axes were given.
        """
        table = self.summary()[:20][::-1]
        (ax,) = drawn_on(ax, 1, (4.8, 0.6 + 0.28 * len(table)))
        ax.barh(range(len(table)), table["score_rises_by"], xerr=2 * table["standard_error"], color=BARS)
        ax.axvline(0, color=RULE, linewidth=0.8)
        ax.set(
            yticks=range(len(table)), yticklabels=table.index, xlabel="rise of the energy score without it"
        )
        return ax

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        table = self.summary()
        lines = [
            {"without": name, "score rises by": float(line[0]), "standard error": float(line[1])}
            for name, line in zip(table.index, table.to_numpy(), strict=True)
        ]
        return Shown(f"What statistics contribute, on {self.rows:,} held-out rows", lines, len(lines))


@default_arithmetic
def statistic_contributions(
    estimator: str | Estimator,
    table: ReferenceTable,
    *,
    groups: Sequence[str] | None = None,
    observed: Any = None,
    rows: int = 200,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> StatisticContributions:
    """How much wider and worse posteriors are without each statistic.

    Parameters
    ----------
    estimator : str or Estimator
        A name, or an estimator; it is fitted anew for each statistic that is left out.
    table : ReferenceTable
        Whose rows are draws of the prior.
    groups : sequence of str, optional
        Names of columns, or of variables all of whose columns are left out together. Each column where left
        out.
    observed : array_like of shape (d,), optional
        Rows are held out near its posterior, as by `calibrate`; of the whole prior where left out.
    rows : int
        Rows to hold out; at most half of the table.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool

    Returns
    -------
    StatisticContributions

    Raises
    ------
    TypeError, ValueError
        If a name is unknown, there is one statistic only, rows are no draws of the prior, there are too few
        of them, or the estimator's scale is a fitted summary.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=500)
    >>> frame = pd.DataFrame({"a": theta, "s": theta + rng.normal(size=500), "noise": rng.normal(size=500)})
    >>> table = ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s", "noise"])
    >>> found = statistic_contributions("adjusted", table, random_seed=1, progressbar=False)
    >>> found.summary().index[0]
    's'
    """
    check_table("table", table)
    whole("rows", rows)
    flag("progressbar", progressbar)
    names = table.statistic_names if groups is None else names_of("groups", groups)
    left_out = [columns_named([name], table.statistic_columns) for name in names]
    d = len(table.statistic_names)
    of_all = [name for name, columns in zip(names, left_out, strict=True) if len(columns) == d]
    if of_all:
        raise ValueError(f"without {of_all[0]!r} there is no statistic left; name parts of the statistics")
    if table.prior_ratio is not None:
        raise ValueError(
            "the rows of the table are no draws of the prior (they have a prior_ratio); simulate a table for "
            "it with `simulate`"
        )
    refuse_weighted_for_success(table, "scores are over the prior")
    rng = generator_of(random_seed)
    held = hold_out(clone(make_estimator(estimator)), table, rows, observed, rng)
    truths, statistics = table.parameters[held.rows], table.statistics[held.rows]
    unit = unit_deviations(table.parameters[held.fitted])
    seeds = np.random.SeedSequence(int(rng.integers(2**63)))
    before, contraction = _scores(held.estimator, statistics, truths, unit, seeds)
    rises, errors, contractions = [], [], []
    for columns in tracked(left_out, "leaving statistics out", progressbar):
        rest = np.setdiff1d(np.arange(d), columns)
        fitted = on_statistics(held.estimator, rest)
        scores, of_these = _scores(fitted, statistics[:, rest], truths, unit, seeds)
        rises.append(np.mean(scores - before) / np.mean(before))
        # Of paired differences: how hard a row is by itself is in both of its scores.
        errors.append(np.std(scores - before) / np.sqrt(len(before)) / np.mean(before))
        contractions.append(of_these)
    return StatisticContributions(
        tuple(names),
        np.array(rises),
        np.array(errors),
        np.array(contractions),
        contraction,
        tuple(table.parameter_names),
        len(held.rows),
    )


def _scores(
    fitted: Estimator,
    statistics: np.ndarray,
    truths: np.ndarray,
    unit: np.ndarray,
    seeds: np.random.SeedSequence,
) -> tuple[np.ndarray, np.ndarray]:
    """Energy scores (k,) of held-out rows, and median contractions (p,); the same draws each time."""
    # The same random numbers with and without a statistic, so that their noise hardly enters the difference.
    rng = np.random.default_rng(seeds)
    drawn = [posterior.draw(DRAWS_SCORED, rng) for posterior in fitted.for_scores().condition(statistics)]
    scores = [energy_score(d / unit, truth / unit, fair=True) for d, truth in zip(drawn, truths, strict=True)]
    contraction = [1 - d.var(axis=0) / unit**2 for d in drawn]
    return np.array(scores), np.median(contraction, axis=0)
