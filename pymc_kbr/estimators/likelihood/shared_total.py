"""Counts that share a constant total: each is a part of what those before it leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import null_space
from scipy.special import betaln, expit, gammaln
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import row_parts
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.estimators.likelihood.basis import ParameterScale, fixed_bounds
from pymc_kbr.estimators.likelihood.categorical import Logit, fit_part
from pymc_kbr.estimators.likelihood.smooth_function import Effort, Inputs, for_rows
from pymc_kbr.estimators.summaries.transformed import EVEN, Cells, Grid

ROWS_FOR_TOTALS = 2000
"""In which constant totals are looked for, before all are asked."""


class Total(NamedTuple):
    """Columns of counts, in their order, and the sum that they have in every row, as a count."""

    columns: tuple[int, ...]
    total: int
    unit: float = 1.0
    """What one is: of shares of a constant total its inverse."""


def shared_totals(statistics: np.ndarray) -> list[Total]:
    """Counts, or their shares, among statistics (n, d) whose sum is the same in every row."""
    # Each is in one total at most: two that share a count would each have a part of its probability.
    units: dict[float, list[int]] = {}
    for j, x in enumerate(statistics.T):
        unit = _unit(x)
        if unit is not None:
            # Of shares the unit is found from each column, up to rounding.
            same = next((each for each in units if np.isclose(each, unit, rtol=EVEN, atol=0)), unit)
            units.setdefault(same, []).append(j)
    found = []
    for unit, columns in units.items():
        counts = np.round(statistics[:, columns] / unit)
        if len(columns) > 1:
            found += [Total(tuple(columns[i] for i in each), sum_, unit) for each, sum_ in _constant(counts)]
    return found


def _unit(column: np.ndarray) -> float | None:
    """Of which all values (n,) are multiples, none below zero; or None."""
    if np.ptp(column) == 0 or column.min() < 0:
        return None
    cells = Cells.of(column)
    if cells is None or not cells.spacing:
        return None
    steps = column / cells.spacing
    return cells.spacing if np.all(np.abs(steps - np.round(steps)) <= EVEN * np.maximum(steps, 1)) else None


def _constant(counts: np.ndarray) -> list[tuple[list[int], int]]:
    """Which counts (n, c) have a sum that is the same in every row, and that sum."""
    some = counts[spread_out(len(counts), ROWS_FOR_TOTALS)]
    found: list[tuple[list[int], int]] = []
    taken: set[int] = set()
    for vector in _reduced(null_space(some - some.mean(axis=0), rcond=1e-9)):
        members = np.flatnonzero(np.abs(vector) > 1e-6).tolist()
        sums = counts[:, members].sum(axis=1)
        same = np.ptp(vector[members]) < 1e-6 and np.all(sums == sums[0])
        if len(members) > 1 and same and taken.isdisjoint(members):
            found.append((members, int(sums[0])))
            taken.update(members)
    return found


def scale_for_totals(
    of_parameters: ParameterScale,
    parameters: np.ndarray,
    support: Support,
    statistics: np.ndarray,
    totals: Sequence[Total],
) -> ParameterScale:
    """The scale with logits of those bounded parameters (n, p) whose logits predict the shares better."""
    # Where a share is a parameter its logit is infinite at both bounds, and no smooth function of that one
    # follows it. Logistic regressions on cubic polynomials say which of the two predicts better.
    rows = spread_out(len(parameters), ROWS_FOR_TOTALS)
    some = parameters[rows]

    def loss(scale: ParameterScale) -> float:
        values = scale(some)
        powers = np.hstack([values, values**2, values**3])
        return sum(_loss_of_logits(powers, statistics[rows], total) for total in totals)

    least = loss(of_parameters)
    taken, ends = [], []
    for column, lower, upper in fixed_bounds(support):
        x = parameters[:, column]
        if np.isfinite(lower) and np.isfinite(upper) and x.min() > lower and x.max() < upper:
            ends_of = np.array([[lower], [upper]])
            if loss(of_parameters.with_logits(parameters, [column], ends_of)) < least:
                taken.append(column)
                ends.append((lower, upper))
    return of_parameters.with_logits(parameters, taken, np.array(ends).T) if taken else of_parameters


def _loss_of_logits(features: np.ndarray, statistics: np.ndarray, total: Total) -> float:
    """Minus the log likelihood of shares of a total by logistic regressions on features (n, f)."""
    twice, labels = np.vstack([features, features]), np.repeat([1, 0], len(features))
    found = 0.0
    for column in total.columns:
        counts = np.round(statistics[:, column] / total.unit)
        weights = np.concatenate([counts, total.total - counts])
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        model.fit(twice, labels, logisticregression__sample_weight=weights)
        found += log_loss(labels, model.predict_proba(twice), sample_weight=weights, normalize=False)
    return found


def _reduced(basis: np.ndarray) -> np.ndarray:
    """A basis (c, m) in reduced row echelon form, one vector a row (m, c)."""
    rows = basis.T.copy()
    for i in range(len(rows)):
        pivot = int(np.argmax(np.abs(rows[i])))
        rows[i] /= rows[i, pivot]
        for other in range(len(rows)):
            if other != i:
                rows[other] -= rows[other, pivot] * rows[i]
    return rows


@dataclass(frozen=True)
class Left:
    """What a count is learnt given: those before it that share its total leave so much, and others."""

    # Shapes: centre, scale ().
    members: tuple[int, ...]
    grids: tuple[Grid, ...]
    total: int
    centre: float
    scale: float
    others: Any
    """A `Past` of earlier statistics without a part in the total; None where there are none."""

    @classmethod
    def of(
        cls, values: np.ndarray, members: Sequence[int], grids: Sequence[Grid], total: int, others: Any = None
    ) -> Self:
        """Of a table's values (n, e) in coordinates."""
        raw = cls(tuple(members), tuple(grids), total, 0.0, 1.0, None)
        shares = raw(values)[:, 0]
        deviation = float(shares.std())
        return cls(raw.members, raw.grids, total, float(shares.mean()), deviation or 1.0, others)

    @property
    def columns(self) -> tuple[int, ...]:
        """Of all statistics that are seen."""
        return self.members + (() if self.others is None else self.others.columns)

    def among(self, places: Mapping[int, int], size: int) -> Self:
        """The same of some columns, by their places there."""
        members = tuple(places[column] for column in self.members)
        return replace(
            self, members=members, others=None if self.others is None else self.others.among(places, size)
        )

    def __call__(self, points: Any, xp: Any = np) -> Any:
        """Shares, others, and numbers last (..., l), of points (..., e), of NumPy or of PyTensor."""
        number = self.total + 0.0 * points[..., 0]
        for column, grid in zip(self.members, self.grids, strict=True):
            number = number - counted(grid, points[..., column], xp)
        share = (number / self.total - self.centre) / self.scale
        if self.others is not None:
            seen = self.others(points, xp)
            return xp.concatenate([share[..., None], seen, number[..., None]], axis=-1)
        first = np.array([1.0, 0.0])
        return share[..., None] * first + number[..., None] * (1 - first)


def counted(grid: Grid, y: Any, xp: Any = np) -> Any:
    """The counts at coordinates, of NumPy or of PyTensor."""
    return xp.round(grid.curve.backward(y * grid.scale + grid.centre, xp) / grid.cells.spacing)


@dataclass(frozen=True)
class PartOf:
    """y of the n that are left: beta-binomial, with a learned logit of its share, or all of them."""

    grid: Grid
    logit: Logit | None
    correlation: float

    def _log_probability(self, theta: Any, y: Any, past: Any, xp: Any, shared: bool) -> Any:
        if shared and xp is np:
            y, left = for_rows(y, len(theta)), for_rows(past[..., -1], len(theta))
        else:
            left = past[..., -1]
        count = counted(self.grid, y, xp)
        g = None if self.logit is None else self.logit(theta, past[..., :-1], xp, shared=shared)
        return self._of_count(g, count, left, xp)

    def _of_count(self, g: Any, count: Any, left: Any, xp: Any) -> Any:
        """Log probabilities of counts of what is left, for logits g of their share; None of all that is."""
        inside = (count >= 0) & (count <= left)
        if g is None:
            return xp.where(xp.abs(count - left) < 0.5, 0.0, -np.inf)
        k = xp.where(inside, count, 0.0)
        gamma = gammaln if xp is np else xp.gammaln
        choose = gamma(left + 1) - gamma(k + 1) - gamma(left - k + 1)
        if not self.correlation:
            softplus = (lambda v: np.logaddexp(0.0, v)) if xp is np else xp.softplus
            logs = choose - k * softplus(-g) - (left - k) * softplus(g)
        else:
            size = 1 / self.correlation - 1
            share = expit(g) if xp is np else xp.sigmoid(g)
            a, b = size * share, size * (1 - share)
            logs = choose + (
                gamma(k + a) + gamma(left - k + b) - gamma(left + size) + gamma(size) - gamma(a) - gamma(b)
            )
        return xp.where(inside, logs, -np.inf)

    def log_mass(
        self,
        theta: Any,
        y: Any,
        ends: tuple[Any, Any],
        past: Any,
        xp: Any = np,
        *,
        shared: bool = False,
        between: bool = False,
    ) -> Any:
        """Log probabilities (k, r) of the counts in whose cells y lies."""
        return self._log_probability(theta, y, past, xp, shared)

    def log_density(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """The same of points spread over the cells: over their widths."""
        logs = self._log_probability(theta, y, past, xp, shared)
        values = counted(self.grid, for_rows(y, len(theta)) if shared else y)
        return logs - np.log(self._edge(values, 0.5) - self._edge(values, -0.5))

    def _edge(self, values: np.ndarray, side: float) -> np.ndarray:
        return self._coordinates(values + side)

    def _coordinates(self, counts: np.ndarray) -> np.ndarray:
        return self.grid.coordinates(counts * self.grid.cells.spacing)

    def distribution(self, theta: np.ndarray, y: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k,) of points (k,), even over each cell."""
        count = counted(self.grid, y)
        lower, upper = self._edge(count, -0.5), self._edge(count, 0.5)
        within = np.clip((y - lower) / (upper - lower), 0, 1)
        if self.logit is None:
            return np.where(count < past[:, -1], 0.0, np.where(count > past[:, -1], 1.0, within))
        below, at = self._tables(theta, past, count)
        return below + at * within

    def _tables(
        self,
        theta: np.ndarray,
        past: np.ndarray,
        count: np.ndarray,
        *,
        # Probabilities of every count, of some rows, that are in memory.
        cells_at_once: int = 1_000_000,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities below each count (k,), and at it."""
        assert self.logit is not None
        left = past[:, -1:]
        every = np.arange(int(left.max(initial=0)) + 1.0)
        number = np.clip(count, 0, len(every) - 1).astype(int)
        g = self.logit.at(Inputs(theta, past[:, :-1]))[:, None]
        below, at = np.empty(len(theta)), np.empty(len(theta))
        for rows in row_parts(len(theta), max(1, cells_at_once // len(every))):
            each = np.exp(self._of_count(g[rows], every[None], left[rows], np))
            at[rows] = np.take_along_axis(each, number[rows, None], axis=1)[:, 0]
            below[rows] = np.where(every < number[rows, None], each, 0.0).sum(axis=1)
        return below, at

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One coordinate for each row of the inputs, shape (k,)."""
        left = past[:, -1].astype(int)
        if self.logit is None:
            return self._coordinates(left.astype(float))
        share = expit(self.logit.at(Inputs(theta, past[:, :-1])))
        if self.correlation:
            size = 1 / self.correlation - 1
            share = rng.beta(size * share, size * (1 - share))
        return self._coordinates(rng.binomial(left, share).astype(float))


def fit_part_of(
    theta: np.ndarray,
    past: np.ndarray,
    grid: Grid,
    y: np.ndarray,
    rng: np.random.Generator,
    effort: Effort,
    *,
    # Of the units of one count: with less, a beta-binomial distribution is as good as a binomial one.
    least_correlation: float = 1e-4,
) -> PartOf:
    """Fit the logit by the binomial likelihood, then the correlation of units that overdisperses it."""
    # Shapes: theta (n, q); past (n, l), as `Left` gives it; y (n,).
    count, left = counted(grid, y), past[:, -1]
    some = left > 0
    inputs = Inputs(theta, past[:, :-1])
    logit, left_out = fit_part(inputs.rows(some), count[some], inputs, rng, effort, left[some])
    share, k, n = expit(left_out), count[some], left[some]

    def score(correlation: float) -> float:
        if not correlation:
            return float(np.sum(k * np.log(share) + (n - k) * np.log1p(-share)))
        size = 1 / correlation - 1
        a, b = size * share, size * (1 - share)
        return float(np.sum(betaln(k + a, n - k + b) - betaln(a, b)))

    tried = [0.0, *np.geomspace(least_correlation, 0.5, 25)]
    scores = [score(each) for each in tried]
    best = int(np.argmax(scores))
    # Half of a chi square's 99% point, of one more parameter: binomial unless rows say otherwise.
    correlation = tried[best] if scores[best] > scores[0] + 2.7 else 0.0
    return PartOf(grid, logit, float(correlation))
