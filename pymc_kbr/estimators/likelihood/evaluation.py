"""The fitted form at observations, in the user's units: of values, of cells, of independent trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.likelihood.autoregressive import Autoregressive
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable
from pymc_kbr.estimators.likelihood.form import Form, Prepared
from pymc_kbr.estimators.likelihood.order_statistics import OrderStatistics
from pymc_kbr.estimators.likelihood.parameter_scale import ParameterScale
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.estimators.summaries import Dependent, Summary, Transformed
from pymc_kbr.estimators.summaries.cells import Levels

RESIDUALS_AT_ONCE = 2**20
"""Of residuals that are held at once."""

LEAST_LOG = np.array(-1e300)
"""From which logs are averaged: where all are minus infinity, so is their average. No float, which PyTensor
takes for one of 32 bits.
"""

MOST_TOGETHER = 100
"""Values of a data set up to which several are evaluated together: steps of one would be small."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A form between the user's parameters and statistics.

    Parameters
    ----------
    form : Form
    of_parameters : ParameterScale
    of_statistics : Summary
    success : Success, optional
        The likelihood of each observation includes its probability; a description's last number is its
        logarithm.
    """

    form: Form
    of_parameters: ParameterScale
    of_statistics: Summary
    success: Success | None = None

    def describe(self, parameters: Any, xp: Any = np) -> Any:
        """What of the density depends on parameters (k, p) alone, shape (k, w)."""
        described = self.form.describe(self.of_parameters(parameters, xp), xp)
        if self.success is None:
            return described
        return xp.concatenate([described, self.success.log_probability(parameters, xp)[:, None]], axis=1)

    def _logs(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points, in the units of the fit."""
        if self.success is None:
            return self.form.log_density(described, points, xp)
        return self.form.log_density(described[:, :-1], points, xp) + described[:, -1:]

    def prepare(self, statistics: np.ndarray) -> Prepared:
        """Observations (n, d) in the units of the fit: see `Prepared`."""
        summary = self.of_statistics
        if isinstance(summary, Dependent):
            summary = summary.curved
        if isinstance(summary, Transformed):
            return Prepared(*summary.points(statistics, self._levels()))
        scaled = summary.transform(statistics)
        if isinstance(self.form, Exchangeable | OrderStatistics):
            self.form.check(scaled)
        points = scaled[:, None, :]
        # A density in the user's units is that in scaled ones over the product of the scales. Summaries have
        # no inverse, and their densities stay in their own units.
        volume = -np.log(summary.scale[summary.kept]).sum() if isinstance(summary, Scaler) else 0.0
        return Prepared(points, np.full((len(points), 1), volume))

    def _levels(self) -> tuple[Levels | None, ...]:
        """Of the summary's statistics; empty where none is one of few values."""
        levels = self.form.levels if isinstance(self.form, Autoregressive) else ()
        return levels if any(levels) else ()

    def standing_for(self, statistics: np.ndarray) -> tuple[np.ndarray, list[tuple[int, float, float]]]:
        """Observations (n, d) with the values that rare ones stand for replaced by these, and which they are.

        Of each the column, the value, and the rare one.
        """
        summary, found = self.of_statistics, []
        summary = summary.curved if isinstance(summary, Dependent) else summary
        replaced = np.array(statistics, dtype=float)
        for number, levels in enumerate(self._levels()):
            if levels is None or not isinstance(summary, Transformed):
                continue
            column = int(np.flatnonzero(summary.kept)[number])
            numbers, missed = levels.standing_for(replaced[:, column])
            for row in np.flatnonzero(missed).tolist():
                found.append((column, float(statistics[row, column]), float(levels.values[numbers[row]])))
                replaced[row, column] = levels.values[numbers[row]]
        return replaced, found

    def log_density(self, described: Any, prepared: Prepared, xp: Any = np) -> Any:
        """Log densities (n,) of n observations, each under its own row of `described` (n, w)."""
        logs = self._logs(described, prepared.points, xp) + prepared.log_volume
        if prepared.log_volume.shape[1] == 1:
            return logs[:, 0]
        highest = xp.maximum(xp.max(logs, axis=1), LEAST_LOG)
        with np.errstate(divide="ignore"):
            return highest + xp.log(xp.mean(xp.exp(logs - highest[:, None]), axis=1))

    def log_likelihood(self, described: np.ndarray, trials: Prepared) -> np.ndarray:
        """Log-likelihoods (k,) of one data set of r trials, summed over these.

        Parameters
        ----------
        described : ndarray of shape (k, w)
        trials : Prepared
            Of r trials.
        """
        parts = [each.sum(axis=1) for each in self._each(described, trials)]
        return np.concatenate(parts)

    def log_likelihoods(self, described: np.ndarray, trials: Sequence[Prepared]) -> np.ndarray:
        """Log-likelihoods (g, m) of g data sets, each at its own rows of `described` (g, m, w)."""
        g, m, w = described.shape
        (r, s, e), sizes = trials[0].points.shape, {data.points.shape for data in trials}
        if g == 1 or len(sizes) > 1 or r * s * e > MOST_TOGETHER:
            pairs = zip(described, trials, strict=True)
            return np.stack([self.log_likelihood(rows, data) for rows, data in pairs])
        points = np.stack([data.points.reshape(r * s, e) for data in trials])
        if not isinstance(self.form, Autoregressive):
            points = np.repeat(points, m, axis=0)
        logs = self._logs(described.reshape(g * m, w), points).reshape(g, m, r, s)
        return _averaged(logs + np.stack([data.log_volume for data in trials])[:, None]).sum(axis=2)

    def at_rows(self, described: np.ndarray, trials: Sequence[Prepared]) -> np.ndarray:
        """Log-likelihoods (g, k) of g data sets of r trials each, at every row of `described` (k, w)."""
        points, volumes = (np.concatenate(arrays) for arrays in zip(*trials, strict=True))
        parts = self._each(described, Prepared(points, volumes))
        return np.concatenate([each.reshape(len(each), len(trials), -1).sum(axis=2) for each in parts]).T

    def log_densities(self, described: np.ndarray, observations: Prepared) -> np.ndarray:
        """Log densities (k, r) of r observations, each under every row of `described` (k, w)."""
        return np.concatenate(list(self._each(described, observations)))

    def _each(self, described: np.ndarray, trials: Prepared) -> Iterator[np.ndarray]:
        """Of some rows of `described` after others."""
        r, s, e = trials.points.shape
        step = max(1, RESIDUALS_AT_ONCE // max(1, r * s * e))
        points = trials.points.reshape(1, r * s, e)
        for i in range(0, max(1, len(described)), step):
            logs = self._logs(described[i : i + step], points)
            yield _averaged(logs.reshape(len(logs), r, s) + trials.log_volume)

    def draw(self, parameters: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, d) of the statistics for each of k parameters.

        Raises
        ------
        ValueError
            If the form is one of summaries, from which there is no way back.
        """
        summary = self.of_statistics
        drawn = self.form.draw(self.form.describe(self.of_parameters(parameters)), rng)
        if isinstance(summary, Transformed):
            return summary.complete(summary.backward(drawn))
        if not isinstance(summary, Scaler):
            raise ValueError(
                f"the likelihood was fitted to the summaries of a {type(summary).__name__}, from which there "
                "is no way back to statistics; take scale=True or False to draw"
            )
        whole = np.tile(summary.centre, (len(drawn), 1))
        whole[:, summary.kept] = drawn * summary.scale[summary.kept] + summary.centre[summary.kept]
        return whole


def _averaged(each: np.ndarray) -> np.ndarray:
    """Log densities (..., r, s), averaged over the s points of each trial: (..., r)."""
    if each.shape[-1] == 1:
        return each[..., 0]
    highest = np.maximum(each.max(axis=-1, keepdims=True), LEAST_LOG)
    with np.errstate(invalid="ignore", divide="ignore"):
        return highest[..., 0] + np.log(np.mean(np.exp(each - highest), axis=-1))
