"""The autoregressive form of a learned likelihood: each statistic given parameters and those before it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.estimators.likelihood.categorical import Categorical, fit_categorical
from pymc_kbr.estimators.likelihood.conditional import Conditional, fit_conditional
from pymc_kbr.estimators.likelihood.evidence import Effort
from pymc_kbr.estimators.likelihood.past import Past
from pymc_kbr.estimators.likelihood.product_kernel import Inputs
from pymc_kbr.estimators.likelihood.screening import screen
from pymc_kbr.estimators.likelihood.series import (
    EFFORT,
    TRIAL_EFFORT,
    TRIAL_ROWS,
    Series,
    choose_lags,
    fit_series,
)
from pymc_kbr.estimators.summaries.cells import Levels

MOST_EARLIER = 10
"""Earlier statistics that a conditional sees."""

ROWS_FOR_INPUTS = 2000
"""On which these are screened."""

SHORTEST_SERIES = 5
"""Statistics from which one conditional for all of them is tried."""

PROBES = 3
"""Statistics on which one conditional for all is compared with one for each."""

ROWS_FITTED_ONCE = 5000
"""From which a conditional fitted to four fifths of them is not fitted again; nor one with less effort."""

TIMES = 10
"""At which series of different lags are compared."""

SPARING = Effort(120, 600, 900, 40, 15)
"""Of one that is only compared."""

MOST_SPARINGLY = 20
"""Statistics above which such a one is a series, or is not fitted."""

LOST_TO_SINGLES = 0.05
"""Nats of a statistic that a series of more may lose to conditionals of single statistics: each of these
takes a second or two, and the comparison is with less effort than the series is fitted with in the end.
"""

EFFORTS = ((12, Effort()), (40, Effort(200, 1000, 1500, 60, 20)), (np.inf, SPARING))
"""Of each conditional, for up to so many statistics."""

CELLS_AT_ONCE = 1_000_000
"""Pairs of parameters and points times landmarks that are in memory at once."""


@dataclass(frozen=True)
class Autoregressive:
    """p(x | theta) = prod_j p(x_j | theta, x_<j), a `Form`.

    Attributes
    ----------
    conditionals : tuple of Conditional or Categorical
        Of the first statistics, or of all.
    pasts : tuple of Past
    series : Series or None
        What describes the statistics after these, where one conditional does for all of them.
    """

    conditionals: tuple[Conditional | Categorical, ...]
    pasts: tuple[Past, ...]
    series: Series | None = None

    @property
    def levels(self) -> tuple[Levels | None, ...]:
        """Of each statistic that has probabilities and no density."""
        return tuple(c.levels if isinstance(c, Categorical) else None for c in self.conditionals)

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """The parameters themselves, (k, q): what is computed from them differs by statistic."""
        return theta

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points (k, r, e) or (1, r, e); see `Form`.

        With NumPy also of points (g, r, e), each of k / g rows one after another: what depends on earlier
        statistics alone is then computed once for all of these.
        """
        if xp is not np:
            return self._log_density(
                described, points, xp, shared=getattr(points, "type", points).shape[0] == 1
            )
        if 1 < len(points) < len(described):
            return self._log_density(described, points, np, shared=True)
        shared = len(points) == 1
        rows = max(1, CELLS_AT_ONCE // (300 * (1 if shared else points.shape[1])))
        parts = [slice(i, i + rows) for i in range(0, len(described), rows)]
        blocks = [
            self._log_density(described[p], points if shared else points[p], np, shared=shared) for p in parts
        ]
        return np.concatenate(blocks) if blocks else np.zeros((0, points.shape[1]))

    def _log_density(self, theta: Any, points: Any, xp: Any, *, shared: bool) -> Any:
        total = 0.0
        for j, (conditional, past) in enumerate(zip(self.conditionals, self.pasts, strict=True)):
            y = points[:, :, j]
            total = total + conditional.log_density(theta, y, past(points), xp, shared=shared)
        if self.series is not None:
            total = total + self.series.log_density(theta, points, xp, shared=shared)
        return total

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each row of parameters (k, q)."""
        size = len(self.pasts) if self.series is None else self.series.size
        drawn = np.zeros((len(described), size))
        for j, (conditional, past) in enumerate(zip(self.conditionals, self.pasts, strict=True)):
            drawn[:, j] = conditional.draw(described, past(drawn), rng)
        if self.series is not None:
            self.series.extend(described, drawn, rng)
        return drawn

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, e) of points (k, e)."""
        pairs = zip(self.conditionals, self.pasts, strict=True)
        columns = [c.distribution(described, points[:, j], past(points)) for j, (c, past) in enumerate(pairs)]
        if self.series is not None:
            columns.append(self.series.transforms(described, points))
        return np.column_stack(columns)


def without_unseen(form: Autoregressive, kept: np.ndarray) -> Autoregressive | None:
    """The density of some statistics, where none of them was learnt given one of those that are left out.

    Parameters
    ----------
    form : Autoregressive
    kept : ndarray of int, shape (m,)
        Numbers of the statistics that are left, rising.

    Returns
    -------
    Autoregressive or None
        The product of their own conditionals: those of the others integrate to one. None where a conditional
        depends on a statistic that is left out, or a series does not end before all of these.

    Notes
    -----
    An integral over statistics that later ones depend on has no closed form here; drawn, it takes as many
    evaluations of each later conditional as there are draws, for each parameter: more than a fit.
    """
    m, alone = len(kept), len(form.pasts)
    if np.any(np.diff(kept) <= 0) or (form.series is not None and np.any(kept != np.arange(m))):
        return None
    places = {int(column): place for place, column in enumerate(kept)}
    single = [int(column) for column in kept if column < alone]
    if any(column not in places for j in single for column in form.pasts[j].columns):
        return None
    pasts = tuple(
        replace(form.pasts[j], columns=tuple(places[column] for column in form.pasts[j].columns), size=m)
        for j in single
    )
    series = None if form.series is None or m <= form.series.start else replace(form.series, size=m)
    return Autoregressive(tuple(form.conditionals[j] for j in single), pasts, series)


def fit_autoregressive(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    effort: Effort | None = None,
    levels: tuple[Levels | None, ...] = (),
) -> Autoregressive:
    """Fit a conditional to each statistic, or one to all of a series, as rows that were left out have it.

    Parameters
    ----------
    theta : ndarray of shape (n, q)
        Parameters in units of about their deviations.
    points : ndarray of shape (n, e)
        Continuous statistics.
    rng : numpy.random.Generator
    effort : Effort, optional
        Of each conditional; by the number of statistics where left out.
    levels : tuple of Levels or None
        Of each statistic of few values, whose points are spread over their cells. With one of these there is
        no series.

    Raises
    ------
    ValueError
        If an effort is given, and there are many statistics which are no series.
    """
    size = points.shape[1]
    own = effort or next(effort for most, effort in EFFORTS if size <= most)
    single = _Single(theta, points, rng, own, levels)
    tried = size >= SHORTEST_SERIES and not levels
    lags = _lags_of_series(theta, points, single, rng, effort) if tried else None
    if effort is not None and lags is None and size > MOST_SPARINGLY:
        raise ValueError(
            f"the {size} statistics do not share one conditional, as values of a series do, and one for each "
            f"of more than {MOST_SPARINGLY} takes longer than a comparison should"
        )
    series = None if lags is None else fit_series(theta, points, lags, rng, effort or EFFORT)
    alone = range(size if series is None else series.start)
    with side_by_side(len(alone)) as map_:
        each = map_(single, alone)
    return Autoregressive(tuple(c for c, _ in each), tuple(past for _, past in each), series)


def _lags_of_series(
    theta: np.ndarray,
    points: np.ndarray,
    single: _Single,
    rng: np.random.Generator,
    effort: Effort | None,
) -> np.ndarray | None:
    """Lags with which rows that were not fitted are likelier than with a conditional for each statistic."""
    n, size = points.shape
    others, fitted = np.split(rng.permutation(n), [n // 5])
    some, seen = (theta[fitted], points[fitted]), (theta[others], points[others])
    of_trial = effort or TRIAL_EFFORT
    tried = [fit_series(*some, lags, rng, of_trial, TRIAL_ROWS) for lags in choose_lags(*some, rng)]
    # A longer lag describes fewer values: all are compared on those that each of them describes.
    first = max(each.start for each in tried)
    times = np.unique(np.linspace(first, size - 1, TIMES).astype(int))
    best = max(tried, key=lambda each: each.log_densities(*seen, times).mean())
    probing = _Single(*some, rng, single.effort)
    probes = np.unique(np.linspace(best.start, size - 1, PROBES).astype(int))
    with side_by_side(len(probes)) as map_:
        own = np.column_stack(map_(lambda j: probing.log_density(j, *seen), probes.tolist()))
    # Single conditionals stand for all: what one shared by all values loses is taken at a few of these.
    lost = own.mean() - best.log_densities(*seen, probes).mean()
    if lost < (LOST_TO_SINGLES if size > MOST_SPARINGLY else 0.0):
        return np.array(best.lags)
    if n >= ROWS_FITTED_ONCE or effort is not None:
        single.adopt(probing)
    return None


class _Single:
    """Conditionals of single statistics, each fitted when it is first asked for."""

    def __init__(
        self,
        theta: np.ndarray,
        points: np.ndarray,
        rng: np.random.Generator,
        effort: Effort,
        levels: tuple[Levels | None, ...] = (),
    ) -> None:
        self._theta, self._points = theta, points
        self._levels = levels or (None,) * points.shape[1]
        # Each has its own random numbers, in whatever order they are asked for.
        self._seeds = rng.integers(2**63, size=(points.shape[1],))
        self._known: dict[int, tuple[Conditional | Categorical, Past]] = {}
        self.effort = effort

    def __call__(self, j: int) -> tuple[Conditional | Categorical, Past]:
        """The conditional of statistic j and what it sees of the earlier ones."""
        if j not in self._known:
            rng = np.random.default_rng(self._seeds[j])
            past = self._past(j, rng)
            inputs, y = Inputs(self._theta, past(self._points)), self._points[:, j]
            if (levels := self._levels[j]) is None:
                self._known[j] = fit_conditional(inputs, y, rng, self.effort), past
            else:
                self._known[j] = fit_categorical(inputs, y, levels, rng, self.effort), past
        return self._known[j]

    def _past(self, j: int, rng: np.random.Generator) -> Past:
        columns = np.arange(j)
        if j > MOST_EARLIER:
            rows = rng.permutation(len(self._points))[:ROWS_FOR_INPUTS]
            columns = screen(self._theta[rows], self._points[rows, :j], self._points[rows, j], MOST_EARLIER)
        return Past.of(self._points, columns, self._levels)

    def log_density(self, j: int, theta: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Log densities (k,) of statistic j of other rows."""
        conditional, past = self(j)
        return conditional.log_density(theta, points[:, None, j], past(points)[:, None])[:, 0]

    def adopt(self, other: _Single) -> None:
        """Keep the conditionals that another has fitted."""
        self._known |= other._known
