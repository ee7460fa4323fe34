"""Which statistics tell about which parameters: the dependence of every pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import refuse_sets
from pymc_kbr.arrays.pictures.axes import drawn_on
from pymc_kbr.arrays.pictures.palette import PAPER, SEQUENTIAL
from pymc_kbr.arrays.refusals import one_of, whole
from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.hypothesis_tests import hsic_test
from pymc_kbr.posterior.shown import Shown
from pymc_kbr.tables.reference_table import ReferenceTable, check_table

if TYPE_CHECKING:
    import pandas as pd


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
        import pandas as pd

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
    `hsic_test`, biased, with the gamma approximation. A statistic that says nothing alone may say much
    together with another one. Of weighted rows (`prior_ratio`) the dependence is that of the rows as they
    were drawn.
    """
    check_table("table", table)
    refuse_sets(table)
    whole("rows", rows)
    if min(rows, len(table)) < LEAST_FOR_HSIC:
        raise ValueError(
            f"rows is {rows} and the table has {len(table)}; the tests need at least {LEAST_FOR_HSIC} of them"
        )
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


LEAST_FOR_HSIC = 5
"""Rows of which `hsic_test` knows its null distribution."""

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
