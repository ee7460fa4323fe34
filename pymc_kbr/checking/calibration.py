"""Simulation-based calibration on held-out rows of a reference table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from rich.progress import track
from scipy.stats import binom, kstest
from sklearn.base import clone

from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.posterior.arviz import pack
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.posterior.shown import Shown
from pymc_kbr.tables.columns import Columns
from pymc_kbr.tables.reference_table import ReferenceTable

OBSERVATIONS_AT_ONCE = 50
"""Observations that are conditioned on together."""


@dataclass(frozen=True, eq=False, repr=False)
class Calibration:
    """How an estimator's posteriors agree with the parameters of held-out rows.

    Parameters
    ----------
    pit : ndarray of shape (k, p)
        Probability integral transforms in [0, 1]: the posterior probability below the true value, ties
        broken at random. Uniform where the estimator is calibrated.
    contraction : ndarray of shape (k, p)
        One minus the posterior's variance over the prior's.
    energy_scores : ndarray of shape (k,)
        Of the draws, over the parameters' standard deviations.
    columns : Columns
        Names and shapes of the parameters.
    draws : int
        Of each posterior.
    """

    pit: np.ndarray
    contraction: np.ndarray
    energy_scores: np.ndarray
    columns: Columns
    draws: int

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        """The summary of the first parameters, and what coverage is expected."""
        low, high = self.band(0.9)
        return Shown(
            f"Calibration on {len(self.pit):,} held-out rows, with {self.draws:,} draws of each posterior",
            self.summary(),
            len(self.names),
            [f"coverage of 90% is expected between {low:.1%} and {high:.1%}"],
        )

    @property
    def names(self) -> list[str]:
        """Name of each parameter column."""
        return self.columns.names

    def coverage(self, levels: float | Sequence[float] | np.ndarray = 0.9) -> np.ndarray:
        """Share of the rows whose parameter lies in the central interval of each probability.

        Parameters
        ----------
        levels : float or array_like of shape (l,)

        Returns
        -------
        ndarray of shape (p,) or (l, p)
        """
        asked = np.atleast_1d(np.asarray(levels, dtype=float))
        if np.any(~((asked >= 0) & (asked <= 1))):
            raise ValueError(f"levels are {levels}; probabilities lie in [0, 1]")
        inside = np.abs(self.pit - 0.5)[None] <= asked[:, None, None] / 2
        found = inside.mean(axis=1)
        return found[0] if np.ndim(levels) == 0 else found

    def band(self, levels: float | Sequence[float] | np.ndarray, probability: float = 0.95) -> np.ndarray:
        """Between which shares a calibrated estimator's coverage lies, shape (2,) or (l, 2)."""
        asked = np.atleast_1d(np.asarray(levels, dtype=float))
        tail, rows = (1 - probability) / 2, len(self.pit)
        bounds = np.column_stack([binom.ppf(tail, rows, asked), binom.isf(tail, rows, asked)]) / rows
        return bounds[0] if np.ndim(levels) == 0 else bounds

    def uniformity(self) -> np.ndarray:
        """p-value of each parameter's transforms being uniform (Kolmogorov and Smirnov), shape (p,)."""
        return np.array([kstest(column, "uniform").pvalue for column in self.pit.T])

    def recalibrated(self, draws: np.ndarray) -> np.ndarray:
        """Draws whose marginal intervals have the coverage that was found wanting.

        Parameters
        ----------
        draws : ndarray of shape (m, p)
            Of a posterior of the same estimator.

        Returns
        -------
        ndarray of shape (m, p)
            Inside the range of `draws`, in the same joint order.

        Notes
        -----
        With F the distribution of the transforms on held-out rows, an interval that should end at the
        quantile u ends at the quantile F^-1(u): the draw of rank u is replaced by the quantile F^-1(u) of the
        draws of that parameter [1]_. Nothing can be moved beyond the outermost draws: intervals that are
        much too narrow stay so.

        References
        ----------
        .. [1] V. Kuleshov, N. Fenner, S. Ermon, Accurate uncertainties for deep learning using calibrated
           regression, ICML (2018).
        """
        draws = np.asarray(draws, dtype=float)
        if draws.ndim != 2 or draws.shape[1] != self.pit.shape[1]:
            raise ValueError(
                f"draws have shape {draws.shape}; the calibration is of {self.pit.shape[1]} parameters, so "
                f"they must have shape (m, {self.pit.shape[1]})"
            )
        m, result = len(draws), np.empty_like(draws)
        for i, (column, pit) in enumerate(zip(draws.T, self.pit.T, strict=True)):
            # By ranks, so that the joint order of the draws, their copula, stays as it is.
            levels = (np.argsort(np.argsort(column)) + 0.5) / m
            known = (np.arange(len(pit)) + 0.5) / len(pit)
            result[:, i] = np.quantile(column, np.interp(levels, known, np.sort(pit)))
        return result

    def to_arviz(self) -> Any:
        """The transforms in the group ``prior_sbc``, as ArviZ's ``plot_ecdf_pit`` expects them."""
        variables = {}
        for name, values in self.columns.split(self.pit).items():
            dims = ("chain", "draw", *(f"{name}_dim_{i}" for i in range(values.ndim - 1)))
            variables[name] = (dims, values[None])
        dataset = xr.Dataset(variables, coords={"chain": [0], "draw": np.arange(len(self.pit))})
        dataset.attrs = {"inference_library": "pymc_kbr", "draws_per_posterior": self.draws}
        return pack({"prior_sbc": dataset})

    def summary(self) -> list[dict[str, Any]]:
        """One row a parameter: coverage of 50%, 90% and 95% intervals, uniformity, median contraction."""
        covered, uniformity = self.coverage([0.5, 0.9, 0.95]), self.uniformity()
        return [
            {
                "parameter": name,
                "coverage_50": float(covered[0, i]),
                "coverage_90": float(covered[1, i]),
                "coverage_95": float(covered[2, i]),
                "uniformity_p": float(uniformity[i]),
                "contraction": float(np.median(self.contraction[:, i])),
            }
            for i, name in enumerate(self.names)
        ]


def calibrate(
    estimator: str | Estimator,
    table: ReferenceTable,
    *,
    rows: int = 1000,
    draws: int = 500,
    random_seed: int | np.random.Generator | None = None,
    progressbar: bool = True,
) -> Calibration:
    """Condition an estimator on held-out rows and compare its posteriors with their parameters.

    Parameters
    ----------
    estimator : str or Estimator
        A name, or an estimator; one with settings of its own keeps them. It is fitted anew to the rows
        that are not held out, and itself stays as it is.
    table : ReferenceTable
        Its observation plays no part.
    rows : int
        Rows to hold out; at most half of the table.
    draws : int
        Of each posterior.
    random_seed : int or numpy.random.Generator, optional
    progressbar : bool

    Returns
    -------
    Calibration

    Raises
    ------
    TypeError, ValueError
        If the estimator's name is unknown, there are fewer than 10 or more than half of the rows to
        hold out, or the rows are no draws of the prior, as those of `refine`.

    Notes
    -----
    Simulation-based calibration [1]_: parameters drawn from the prior are distributed as draws of the
    posterior given the data that they have simulated. Held-out rows are such pairs. A fitted summary that
    is given as the estimator's `scale` is not fitted anew: it may have seen them.

    References
    ----------
    .. [1] S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A. Gelman, Validating Bayesian inference
       algorithms with simulation-based calibration, arXiv:1804.06788.
    """
    chosen = clone(make_estimator(estimator))
    if table.prior_ratio is not None:
        raise ValueError(
            "the rows of the table are no draws of the prior (they have a prior_ratio), and calibration is "
            "over the prior: simulate a table for it with `simulate`"
        )
    n = len(table)
    if not 10 <= rows <= n // 2:
        raise ValueError(
            f"rows is {rows}; of a table of {n} rows between 10 and {n // 2} can be held out for calibration"
        )
    rng = np.random.default_rng(random_seed)
    held_out = rng.choice(n, rows, replace=False)
    rest = np.setdiff1d(np.arange(n), held_out)
    chosen.fit(table.parameters[rest], table.statistics[rest], table.support, random_seed=rng)
    variance = table.parameters[rest].var(axis=0)
    unit = np.sqrt(np.where(variance > 0, variance, 1.0))
    pit = np.empty((rows, len(unit)))
    contraction, scores = np.empty_like(pit), np.empty(rows)
    parts = np.array_split(np.arange(rows), -(-rows // OBSERVATIONS_AT_ONCE))
    for part in track(parts, "calibrating", disable=not progressbar, transient=True):
        posteriors = chosen.condition(table.statistics[held_out[part]])
        for i, posterior in zip(part, posteriors, strict=True):
            drawn, truth = posterior.draw(draws, rng), table.parameters[held_out[i]]
            # The truth is one more draw; its place among those that equal it is drawn, too.
            below, equal = np.sum(drawn < truth, axis=0), np.sum(drawn == truth, axis=0)
            pit[i] = (below + rng.random(len(unit)) * (equal + 1)) / (draws + 1)
            contraction[i] = 1 - drawn.var(axis=0) / unit**2
            scores[i] = energy_score(drawn / unit, truth / unit)
    return Calibration(pit, contraction, scores, table.parameter_columns, draws)


def recalibrated(draws: np.ndarray, calibration: Calibration, table: ReferenceTable) -> np.ndarray:
    """Recalibrated draws, if the support lets each parameter be moved by itself."""
    if calibration.names != table.parameter_names:
        raise ValueError(
            f"the calibration is of the parameters {calibration.names}; the table has {table.parameter_names}"
        )
    moved = calibration.recalibrated(draws)
    outside = ~table.support.contains(moved)
    if np.any(outside):
        raise ValueError(
            f"{outside.mean():.1%} of the recalibrated draws lie outside the prior's support, which ties "
            "parameters to each other; recalibration moves each by itself: leave `calibration` out"
        )
    return moved
