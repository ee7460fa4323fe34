"""How much each statistic contributes: the posteriors of held-out rows without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import refuse_sets
from pymc_kbr.arrays.plotting import BARS, PAPER, RULE, SEQUENTIAL, drawn_on
from pymc_kbr.arrays.refusals import flag, generator_of, names_of, one_of, whole
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.checking.held_out import hold_out
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.likelihood.success import refuse_weighted_for_success
from pymc_kbr.estimators.missing import on_statistics
from pymc_kbr.hypothesis_tests import hsic_test
from pymc_kbr.posterior.posterior import Display, Shown
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.simulation.progress import tracked
from pymc_kbr.tables.reference_table import ReferenceTable, check_table, columns_named


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class StatisticContributions(Display):
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
        A name, or an estimator; it is fitted again for each statistic that is left out.
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
    *,
    # Draws of each posterior.
    draws_scored: int = 200,
) -> tuple[np.ndarray, np.ndarray]:
    """Energy scores (k,) of held-out rows, and median contractions (p,); the same draws each time."""
    # The same random numbers with and without a statistic, so that their noise hardly enters the difference.
    rng = np.random.default_rng(seeds)
    drawn = [posterior.draw(draws_scored, rng) for posterior in fitted.for_scores().condition(statistics)]
    scores = [energy_score(d / unit, truth / unit, fair=True) for d, truth in zip(drawn, truths, strict=True)]
    contraction = [1 - d.var(axis=0) / unit**2 for d in drawn]
    return np.array(scores), np.median(contraction, axis=0)


# --- dependence of each parameter on each statistic ---


@default_arithmetic
@dataclass(frozen=True, eq=False)
class StatisticRelevance:
    """The dependence of statistics and parameters.

    Parameters
    ----------
    dependence : ndarray of shape (d, p)
        The Hilbert-Schmidt criterion of each pair over the root of the product of each one's with itself,
        between zero and one. NaN where a statistic is constant in the rows that were used.
    pvalue : ndarray of shape (d, p)
        Of independence, pair by pair.
    statistics, parameters : list of str
    """

    dependence: np.ndarray
    pvalue: np.ndarray
    statistics: list[str]
    parameters: list[str]

    def to_dataframe(self) -> pd.DataFrame:
        """All pairs.

        Returns
        -------
        pandas.DataFrame
            A line a pair: statistic, parameter, dependence, pvalue.
        """
        pairs = [(s, p) for s in self.statistics for p in self.parameters]
        return pd.DataFrame(pairs, columns=["statistic", "parameter"]).assign(
            dependence=self.dependence.ravel(), pvalue=self.pvalue.ravel()
        )

    def _repr_html_(self) -> str:
        lines = [
            {"statistic": name, **dict(zip(self.parameters, row.tolist(), strict=True))}
            for name, row in zip(self.statistics, self.dependence, strict=True)
        ]
        return Shown("Dependence of statistics and parameters, from 0 to 1", lines, len(lines)).html()

    def plot(self, *, ax: Any = None, level: float = 0.01) -> Any:
        """A heat map of the dependences; pairs without evidence at `level`, over their number, are crossed.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        level : float
            Of all pairs together.

        Returns
        -------
        matplotlib Axes

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If several axes were given.
        """
        size = 2 + 0.7 * len(self.parameters), 1.5 + 0.35 * len(self.statistics)
        (ax,) = drawn_on(ax, 1, size)
        image = ax.imshow(self.dependence, vmin=0, cmap=SEQUENTIAL, aspect="auto")
        ax.figure.colorbar(image, ax=ax, label="dependence")
        ax.set_xticks(range(len(self.parameters)), self.parameters, rotation=45, ha="right")
        ax.set_yticks(range(len(self.statistics)), self.statistics)
        ax.set(xlabel="parameter", ylabel="statistic")
        # Not `>`, since the p-value of a constant statistic is NaN, and no evidence either.
        rows, columns = np.nonzero(~(self.pvalue <= level / self.pvalue.size))
        ax.scatter(columns, rows, marker="x", color=PAPER)
        return ax


@default_arithmetic
def statistic_relevance(
    table: ReferenceTable, *, rows: int = 1000, bandwidth: str = "median"
) -> StatisticRelevance:
    """Test every statistic and every parameter of a table for independence.

    Parameters
    ----------
    table : ReferenceTable
    rows : int
        How many are used, evenly spread.
    bandwidth : "median" or "bayesian"
        Of each column's kernel.

    Returns
    -------
    StatisticRelevance

    Raises
    ------
    TypeError, ValueError
        If the table is none, there are fewer than five rows, or an argument is out of range.

    Notes
    -----
    `hsic_test`, biased, with the gamma approximation. A statistic that is uninformative alone may be
    informative together with another one. Of weighted rows (`prior_ratio`) the dependence is that of the rows
    as they were drawn.
    """
    check_table("table", table)
    refuse_sets(table)
    whole("rows", rows)
    if min(rows, len(table)) < 5:  # of which `hsic_test` knows no null distribution
        raise ValueError(f"rows is {rows} and the table has {len(table)}; the tests need at least 5 of them")
    one_of("bandwidth", bandwidth, ("median", "bayesian"))
    chosen = spread_out(len(table), rows)
    sides = table.statistics[chosen], table.parameters[chosen]
    kernels, own = zip(*(_alone(side, bandwidth) for side in sides), strict=True)
    shape = sides[0].shape[1], sides[1].shape[1]
    dependence, pvalue = np.full(shape, np.nan), np.full(shape, np.nan)
    for i, j in np.ndindex(shape):
        if kernels[0][i] is None or kernels[1][j] is None:
            continue
        # Made once a column, or every pair would choose its bandwidths again.
        pair = kernels[0][i], kernels[1][j]
        found = hsic_test(sides[0][:, i], sides[1][:, j], kernel=pair, **GAMMA)
        # At most one, by the inequality of Cauchy and Schwarz.
        dependence[i, j] = found.statistic / np.sqrt(own[0][i] * own[1][j])
        pvalue[i, j] = found.pvalue
    return StatisticRelevance(dependence, pvalue, table.statistic_names, table.parameter_names)


GAMMA: dict[str, Any] = {"null": "gamma", "statistic": "biased"}


def _alone(side: np.ndarray, bandwidth: str) -> tuple[list[Any], np.ndarray]:
    """The kernel of each column, None where it is constant, and its dependence on itself."""
    kernels: list[Any] = []
    own = np.full(side.shape[1], np.nan)
    for i, column in enumerate(side.T):
        if np.ptp(column) == 0:
            kernels.append(None)
            continue
        found = hsic_test(column, column, bandwidth=bandwidth, **GAMMA)
        kernels.append(found.kernels[0])
        own[i] = found.statistic
    return kernels, own
