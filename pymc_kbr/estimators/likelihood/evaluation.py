"""The fitted form at observations, in the user's units: of values, of cells, of independent trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp, ndtr

from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.likelihood.autoregressive import Autoregressive, without_unseen
from pymc_kbr.estimators.likelihood.basis import ParameterScale
from pymc_kbr.estimators.likelihood.diagonal_scale import DiagonalScale, without_columns
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable, OrderStatistics
from pymc_kbr.estimators.likelihood.form import Form, Prepared
from pymc_kbr.estimators.likelihood.linear_statistics import LinearStatistics
from pymc_kbr.estimators.likelihood.location_scale import LocationScale
from pymc_kbr.estimators.likelihood.normal_mixture import LOG_ROOT_2PI, log_between
from pymc_kbr.estimators.likelihood.smooth_function import for_rows
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG
from pymc_kbr.estimators.likelihood.structure import Structure
from pymc_kbr.estimators.likelihood.success import Success
from pymc_kbr.estimators.summaries import Dependent, Summary, Transformed
from pymc_kbr.estimators.summaries.transformed import FAR, Grid, Levels

RESIDUALS_AT_ONCE = 2**20
"""Of residuals that are held at once."""

LEAST_LOG = np.array(-1e300)
"""From which logs are averaged; no float, which PyTensor takes for one of 32 bits."""

NO_END = 1e100
"""In the place of an end that is infinite, in a statistic's own units."""

WIDEST = 4.0
"""Coordinates of a piece of a statistic's range, in its deviations, of which the middle is taken."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A form between the user's parameters and statistics."""

    form: Form
    of_parameters: ParameterScale
    of_statistics: Summary
    success: Success | None = None
    structure: Structure | None = None
    linear: LinearStatistics | None = None
    atoms: np.ndarray | None = None
    """Of independent draws the values with probabilities, as the user has them."""

    def describe(self, parameters: Any, xp: Any = np) -> Any:
        """What of the density depends on parameters (k, p) alone, shape (k, w)."""
        described = [self.form.describe(self._seen(parameters, xp), xp)]
        if self.structure is not None:
            described.append(self.structure.affine(parameters, xp))
        if self.success is not None:
            described.append(self.success.log_probability(parameters, xp)[:, None])
        return described[0] if len(described) == 1 else xp.concatenate(described, axis=1)

    def _seen(self, parameters: Any, xp: Any = np) -> Any:
        """What the form sees of parameters (k, p)."""
        theta = self.of_parameters(parameters, xp)
        return theta if self.structure is None else seen_of(theta, self.structure.used)

    def _logs(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points, in the units of the fit."""
        more = 0.0
        if self.success is not None:
            more, described = described[:, -1:], described[:, :-1]
        if self.structure is not None and self.structure.size:
            size = self.structure.size
            affine, described = described[:, -size:], described[:, :-size]
            moved, volume = self._in_units(points, affine, xp)
            more = more + volume
            if xp is np and isinstance(self.form, Autoregressive) and len(points) == 1:
                return self.form.log_density(described, points, moved=moved) + more
            like = 0.0 * moved[self._places[0]]
            if xp is np:
                points = for_rows(points, len(described))
            columns = [moved.get(j, points[:, :, j] + like) for j in range(self._width)]
            points = xp.stack(columns, axis=-1)
        found = self.form.log_density(described, points, xp)
        return found if isinstance(more, float) else found + more

    def _in_units(self, points: Any, affine: Any, xp: Any) -> tuple[dict[int, Any], Any]:
        """Coordinates (k, r) of structured statistics by their places, and log volumes (k, r)."""
        # Beyond a statistic's edge the density is zero; what is evaluated in its place has a finite gradient.
        # Shapes: points (k, r, w) or (1, r, w), or those of some neighbouring rows together; affine (k, 2 m).
        structure, summary = self.structure, self.of_statistics
        assert structure is not None
        assert isinstance(summary, Transformed)
        m, moved, volume, inside = len(structure.columns), {}, 0.0, None
        celled = [j for j, grid in enumerate(self._grids) if grid is not None]

        def at(column: int) -> Any:
            return for_rows(points[:, :, column], len(affine)) if xp is np else points[:, :, column]

        for i, j in enumerate(self._places):
            curve, sign = summary.curves[j], float(structure.signs[i])
            centre, scale = float(summary.scaler.centre[j]), float(summary.scaler.scale[j])
            origin, width = affine[:, i : i + 1], affine[:, m + i : m + i + 1]
            there = sign * width > 0
            width = xp.where(there, width, sign)
            y = (at(j) - origin) / width
            seen = there & curve.inside(y)
            y = xp.where(seen, y, summary.middle_of(j))
            coordinate = (curve.forward(y, xp) - centre) / scale
            of_value = curve.log_slope(y, xp) - np.log(scale) - xp.log(sign * width)
            if j in celled:
                places = [self._size + celled.index(j) + side * len(celled) for side in (0, 1)]
                ends = [at(place) for place in places]
                hidden = ends[1] > ends[0]
                lower, upper = (
                    self._end_of(j, end, far, origin, width, xp)
                    for end, far in zip(ends if sign > 0 else ends[::-1], (-FAR, FAR), strict=True)
                )
                some = upper > lower
                seen = xp.where(hidden, there & some, seen)
                # Where nothing is hidden ends are equal; what later statistics see of a piece is its middle.
                lower, upper = xp.where(some, lower, -FAR), xp.where(some, upper, FAR)
                middle = (xp.clip(lower, -WIDEST, WIDEST) + xp.clip(upper, -WIDEST, WIDEST)) / 2
                coordinate = xp.where(hidden, middle, coordinate)
                of_value = xp.where(hidden, 0.0, of_value)
                moved[places[0]] = xp.where(hidden, lower, coordinate)
                moved[places[1]] = xp.where(hidden, upper, coordinate)
            moved[j], volume = coordinate, volume + of_value
            inside = seen if inside is None else inside & seen
        return moved, xp.where(inside, volume, -np.inf)

    def _end_of(self, j: int, end: Any, far: float, origin: Any, width: Any, xp: Any) -> Any:
        """The coordinate (k, r) of an end, in its own units, of a statistic that is structured."""
        summary = self.of_statistics
        assert isinstance(summary, Transformed)
        curve = summary.curves[j]
        none = abs(end) >= NO_END
        y = (xp.where(none, 0.0, end) - origin) / width
        within = curve.inside(y) & ~none
        found = curve.forward(xp.where(within, y, summary.middle_of(j)), xp)
        found = (found - float(summary.scaler.centre[j])) / float(summary.scaler.scale[j])
        # Below an edge, or above an upper one, there is nothing.
        beyond = xp.where(y > curve.origin, FAR, -FAR)
        return xp.where(none, far, xp.where(within, found, beyond))

    @property
    def _size(self) -> int:
        """Number of statistics that vary."""
        return int(self.of_statistics.kept.sum())

    @property
    def _grids(self) -> tuple[Grid | None, ...]:
        """Of statistics whose cells have probabilities."""
        form = self.form
        return form.grids if isinstance(form, Autoregressive | LocationScale | MarginalLocationScale) else ()

    @property
    def _width(self) -> int:
        """Numbers of a prepared observation."""
        return self._size + 2 * sum(grid is not None for grid in self._grids)

    @property
    def _places(self) -> list[int]:
        """Of structured statistics among those that vary."""
        if self.structure is None:
            return []
        number = np.cumsum(self.of_statistics.kept) - 1
        return [int(number[column]) for column in self.structure.columns]

    def prepare(self, statistics: np.ndarray) -> Prepared:
        """Observations (n, d) in the units of the fit: see `Prepared`."""
        summary = self.of_statistics
        if isinstance(summary, Dependent):
            summary = summary.curved
        if isinstance(summary, Transformed):
            prepared = Prepared(*summary.points(statistics, self._levels(), self._places, self._grids))
            if self.linear is None:
                return prepared
            off = self.linear.wrong(statistics)[:, None]
            return prepared._replace(log_volume=np.where(off, -np.inf, prepared.log_volume))
        scaled = summary.transform(statistics)
        if isinstance(self.form, Exchangeable | OrderStatistics):
            self.form.check(scaled)
        points = scaled[:, None, :]
        # A density in the user's units is that in scaled ones over the product of the scales. Summaries have
        # no inverse, and their densities stay in their own units.
        volume = -np.log(summary.scale[summary.kept]).sum() if isinstance(summary, Scaler) else 0.0
        if isinstance(self.form, Exchangeable | OrderStatistics) and isinstance(summary, Scaler):
            # A probability has no unit.
            volume = volume * self.form.has_density(scaled).mean(axis=1, keepdims=True)
        return Prepared(points, np.full((len(points), 1), volume))

    def _levels(self) -> tuple[Levels | None, ...]:
        """Of the summary's statistics; empty where none is one of few values."""
        levels = self.form.levels if isinstance(self.form, Autoregressive) else ()
        return levels if any(levels) else ()

    def nearest_level(self, statistics: np.ndarray) -> tuple[np.ndarray, list[tuple[int, float, float]]]:
        """Observations (n, d) with unseen values replaced by the nearest rare ones, and which they are."""
        summary, found = self.of_statistics, []
        summary = summary.curved if isinstance(summary, Dependent) else summary
        replaced = np.array(statistics, dtype=float)
        for number, levels in enumerate(self._levels()):
            if levels is None or not isinstance(summary, Transformed):
                continue
            column = int(np.flatnonzero(summary.kept)[number])
            numbers, missed = levels.nearest_level(replaced[:, column])
            for row in np.flatnonzero(missed).tolist():
                found.append((column, float(statistics[row, column]), float(levels.values[numbers[row]])))
                replaced[row, column] = levels.values[numbers[row]]
        return replaced, found

    def above_counts(self, statistics: np.ndarray) -> list[tuple[int, float, float]]:
        """Columns of observations (n, d) that are above the highest count of draws, what they are, and it."""
        form = self.form
        if not isinstance(form, Exchangeable) or form.masses is None or not form.masses.atoms.higher:
            return []
        assert self.atoms is not None
        assert isinstance(self.of_statistics, Scaler)
        places = form.atoms_above(self.of_statistics.transform(statistics))
        columns = np.flatnonzero(self.of_statistics.kept)[places[:, 1]]
        values = statistics[places[:, 0], columns]
        return [(int(j), float(v), float(self.atoms[-1])) for j, v in zip(columns, values, strict=True)]

    def log_density(self, described: Any, prepared: Prepared, xp: Any = np) -> Any:
        """Log densities (n,) of n observations, each under its own row of `described` (n, w)."""
        logs = self._logs(described, prepared.points, xp) + prepared.log_volume
        if prepared.log_volume.shape[1] == 1:
            return logs[:, 0]
        highest = xp.maximum(xp.max(logs, axis=1), LEAST_LOG)
        mean = xp.mean(xp.exp(logs - highest[:, None]), axis=1)
        # The logarithm of zero has no gradient, not even where it is not taken.
        some = mean > 0
        return xp.where(some, highest + xp.log(xp.where(some, mean, 1.0)), -np.inf)

    def log_likelihood(self, described: np.ndarray, trials: Prepared) -> np.ndarray:
        """Log-likelihoods (k,) of one data set of r trials, summed over these."""
        # Shapes: described (k, w).
        parts = [each.sum(axis=1) for each in self._each(described, trials)]
        return np.concatenate(parts)

    def log_likelihoods(
        self,
        described: np.ndarray,
        trials: Sequence[Prepared],
        *,
        # Values of a data set up to which several are evaluated together: steps of one would be small.
        most_together: int = 100,
    ) -> np.ndarray:
        """Log-likelihoods (g, m) of g data sets, each at its own rows of `described` (g, m, w)."""
        g, m, w = described.shape
        (r, s, e), sizes = trials[0].points.shape, {data.points.shape for data in trials}
        if g == 1 or len(sizes) > 1 or r * s * e > most_together:
            pairs = zip(described, trials, strict=True)
            return np.stack([self.log_likelihood(rows, data) for rows, data in pairs])
        points = np.stack([data.points.reshape(r * s, e) for data in trials])
        if not isinstance(self.form, Autoregressive):
            points = np.repeat(points, m, axis=0)
        logs = self._logs(described.reshape(g * m, w), points).reshape(g, m, r, s)
        return _averaged(logs + np.stack([data.log_volume for data in trials])[:, None]).sum(axis=2)

    def at_rows(self, described: np.ndarray, trials: Sequence[Prepared]) -> np.ndarray:
        """Log-likelihoods (g, k) of g data sets of r trials each, at every row of `described` (k, w)."""
        points = np.concatenate([data.points for data in trials])
        parts = self._each(described, Prepared(points, np.concatenate([data.log_volume for data in trials])))
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
        """One draw (k, d) of the statistics for each of k parameters."""
        summary = self.of_statistics
        drawn = self.form.draw(self.form.describe(self._seen(parameters)), rng)
        if isinstance(summary, Transformed):
            whole = summary.complete(summary.backward(drawn))
            whole = whole if self.structure is None else self.structure.restored(whole, parameters)
            return whole if self.linear is None else self.linear.filled(whole)
        if not isinstance(summary, Scaler):
            raise ValueError(
                f"the likelihood was fitted to the summaries of a {type(summary).__name__}, from which there "
                "is no way back to statistics; take scale=True or False to draw"
            )
        whole = np.tile(summary.centre, (len(drawn), 1))
        values = drawn * summary.scale[summary.kept] + summary.centre[summary.kept]
        if self.atoms is not None and isinstance(self.form, Exchangeable | OrderStatistics):
            number = self.form.number(drawn)  # without what units and back leave of rounding
            values = np.where(number < len(self.atoms), np.append(self.atoms, 0.0)[number], values)
        whole[:, summary.kept] = values
        return whole


class Trials(NamedTuple):
    """Observations of which the same statistics are there, each with its conditions."""

    # Shapes: conditions (n, c); counts (n,), of observations that are the same.
    evaluation: Evaluation
    prepared: Prepared
    conditions: np.ndarray
    counts: np.ndarray


@dataclass(frozen=True, eq=False)
class DataInParts:
    """The observations of a data set that an `AtConditions` evaluates."""

    parts: tuple[Trials, ...]

    @property
    def points(self) -> np.ndarray:
        """Of the observations of the first part, in the units of the fit."""
        return self.parts[0].prepared.points if self.parts else np.empty((0, 1, 1))

    @property
    def impossible(self) -> bool:
        """Whether the model cannot make one of the observations."""
        return any(each.prepared.impossible for each in self.parts)

    def of_the_rest(self) -> DataInParts:
        """As if what the model cannot make were possible: see `Prepared`."""
        return DataInParts(tuple(each._replace(prepared=each.prepared.of_the_rest()) for each in self.parts))


@dataclass(frozen=True, eq=False)
class AtConditions:
    """An evaluation at parameters without those that are conditions, of data sets in parts."""

    # Shapes: conditions, others (c,), (q,).
    whole: Evaluation
    conditions: np.ndarray
    others: np.ndarray

    @property
    def form(self) -> Form:
        """That of the whole."""
        return self.whole.form

    def describe(self, parameters: Any, xp: Any = np) -> Any:
        """The parameters (k, q) themselves: what there is more depends on conditions."""
        return parameters

    def log_likelihood(self, described: np.ndarray, data: DataInParts) -> np.ndarray:
        """Log-likelihoods (k,) of one data set at parameters (k, q)."""
        theta = np.empty((len(described), len(self.conditions) + len(self.others)))
        theta[:, self.others] = described
        total = np.zeros(len(described))
        for evaluation, prepared, conditions, counts in data.parts:
            values, places = np.zeros((1, 0)), np.zeros(len(counts), dtype=int)
            if conditions.shape[1]:
                values, places = np.unique(conditions, axis=0, return_inverse=True)
            for number, value in enumerate(values):
                theta[:, self.conditions] = value
                rows = places.reshape(-1) == number
                some = Prepared(prepared.points[rows], prepared.log_volume[rows])
                at = evaluation.describe(theta)
                if np.all(counts[rows] == 1):
                    total += evaluation.log_likelihood(at, some)
                else:
                    total += evaluation.log_densities(at, some) @ counts[rows]
        return total

    def log_likelihoods(self, described: np.ndarray, trials: Sequence[DataInParts]) -> np.ndarray:
        """Log-likelihoods (g, m) of g data sets, each at its own parameters (g, m, q)."""
        return np.stack([self.log_likelihood(*pair) for pair in zip(described, trials, strict=True)])

    def at_rows(self, described: np.ndarray, trials: Sequence[DataInParts]) -> np.ndarray:
        """Log-likelihoods (g, k) of g data sets, at every row of parameters (k, q)."""
        return np.stack([self.log_likelihood(described, data) for data in trials])


def seen_of(theta: Any, used: np.ndarray) -> Any:
    """Parameters (k, q) that matter, or one that never varies where none does."""
    if not len(used):
        return 0.0 * theta[:, :1]
    return theta if len(used) == theta.shape[1] else theta[:, list(map(int, used))]


def _averaged(each: np.ndarray) -> np.ndarray:
    """Log densities (..., r, s), averaged over the s points of each trial: (..., r)."""
    if each.shape[-1] == 1:
        return each[..., 0]
    highest = np.maximum(each.max(axis=-1, keepdims=True), LEAST_LOG)
    with np.errstate(invalid="ignore", divide="ignore"):
        return highest[..., 0] + np.log(np.mean(np.exp(each - highest), axis=-1))


# --- marginals over some of the statistics ---


@dataclass(frozen=True, eq=False)
class MarginalLocationScale:
    """The density of some statistics of a `LocationScale`, of which the last one may be between two ends."""

    # Shapes: kept (m,).
    whole: LocationScale
    kept: np.ndarray
    grids: tuple[Grid | None, ...] = ()

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """As of the whole form."""
        return self.whole.describe(theta, xp)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of points (k, r, m) or (1, r, m), or with two ends: see `Form`."""
        if xp is not np:
            return self._log_density(described, points, xp)
        found = np.empty((len(described), points.shape[1]))
        for rows in self._parts(len(described)):
            at = points if len(points) == 1 else points[rows]
            found[rows] = self._log_density(described[rows], at, np)
        return found

    def _log_density(self, described: Any, points: Any, xp: Any) -> Any:
        m = len(self.kept)
        last = next((j for j, grid in enumerate(self.grids) if grid is not None), m - 1)
        order = [*(j for j in range(m) if j != last), last]
        between = bool(self.grids) and (xp is not np or points.shape[-1] > m)
        # All parts of the mixture together: as a graph, a few operations however many there are.
        means, roots = self._mixture(described, order, xp)
        u: list[Any] = []

        def standardised(x: Any) -> Any:
            j = len(u)
            away = x[:, None, :] - means[:, :, j][:, :, None]
            for i in range(j):
                away = away - roots[:, :, j, i][:, :, None] * u[i]
            return away / roots[:, :, j, j][:, :, None]

        for column in order[:-1]:
            u.append(standardised(points[:, :, column]))
        value = standardised(points[:, :, last])
        terms = [
            -xp.log(roots[:, :, j, j])[:, :, None] - 0.5 * at**2 - LOG_ROOT_2PI
            for j, at in enumerate([*u, value])
        ]
        if between:
            ends = [points[:, :, m + side] for side in (0, 1)]
            hidden = (ends[1] > ends[0])[:, None, :]
            lower, upper = (standardised(end) for end in ends)
            inside = log_between(lower, xp.where(hidden, upper, lower + 1.0), xp)
            terms[-1] = xp.where(hidden, inside, terms[-1])
        parts = np.log(self.whole.mixture.weights)[:, None]
        for term in terms:
            parts = parts + term
        highest = xp.max(parts, axis=1)
        return highest + xp.log(xp.sum(xp.exp(parts - highest[:, None]), axis=1))

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, m) for each of k parameters."""
        return self.whole.draw(described, rng)[:, self.kept]

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, m): see `Form`."""
        means, roots = self._mixture(described, list(range(len(self.kept))), np)
        logs, at = [], []
        for c, share in enumerate(self.whole.mixture.weights):
            root = roots[:, c]
            u = _solved(root, (points - means[:, c])[:, None, :])[:, 0]
            terms = -np.log(np.diagonal(root, axis1=1, axis2=2)) - 0.5 * u**2
            before = np.concatenate([np.zeros((len(u), 1)), np.cumsum(terms, axis=1)[:, :-1]], axis=1)
            logs.append(np.log(share) + before)
            at.append(ndtr(u))
        shares = np.exp(np.array(logs) - logsumexp(logs, axis=0))
        return np.sum(shares * np.array(at), axis=0)

    def _parts(
        self,
        count: int,
        *,
        # Entries of factors that are held at once.
        factor_entries_at_once: int = 2**22,
    ) -> Iterator[slice]:
        step = max(1, factor_entries_at_once // len(self.whole.whiten) ** 2)
        return (slice(first, first + step) for first in range(0, count, step))

    def _mixture(self, described: Any, order: list[int], xp: Any) -> tuple[Any, Any]:
        """Means (k, c, m) and lower triangular roots (k, c, m, m) of the covariances of all parts."""
        form, e, kept = self.whole, len(self.whole.whiten), self.kept[order]
        logs = xp.clip(described[:, e : 2 * e], -LARGEST_LOG, LARGEST_LOG)
        factor = xp.exp(logs)[:, :, None] * form.whiten
        if form.paired:
            below = xp.reshape(described[:, 2 * e :], (-1, e, e))
            factor = factor + xp.matmul(below, factor)
        # By a product: indices by an array make graphs that some versions of PyTensor do not simplify.
        chosen = np.eye(e)[kept]
        back = xp.matmul(chosen, xp.linalg.inv(factor))
        spread = xp.matmul(back[:, None], np.linalg.inv(form.mixture.factors))
        if xp is np:
            # By orthogonal steps: products of roots would lose half of the digits.
            upper = np.linalg.qr(np.swapaxes(spread, 2, 3), mode="r")
            # Diagonals of either sign are as good for densities; distribution functions need positive ones.
            signs = np.sign(np.diagonal(upper, axis1=2, axis2=3))
            roots = np.swapaxes(upper * signs[..., None], 2, 3)
        else:
            roots = xp.linalg.cholesky(xp.matmul(spread, xp.swapaxes(spread, 2, 3)))
        moved = xp.swapaxes(xp.matmul(back, form.mixture.means.T), 1, 2)
        return xp.matmul(described[:, :e], chosen.T)[:, None] + moved, roots


def integrated_out(
    evaluation: Evaluation, columns: np.ndarray, censored: int | None = None
) -> Evaluation | None:
    """A likelihood of some of its statistics, by their numbers, of which one may be between two ends."""
    form, summary = evaluation.form, evaluation.of_statistics
    if isinstance(summary, Dependent):
        of_these = integrated_out(replace(evaluation, of_statistics=summary.curved), columns)
        return None if of_these is None else replace(of_these, of_statistics=summary.of_columns(columns))
    if not isinstance(summary, Scaler | Transformed):
        return None
    linear = evaluation.linear
    if linear is not None and linear.lost_by(columns):
        return None
    varying = columns[summary.kept[columns]]
    if not len(varying):
        return None
    places = np.cumsum(summary.kept)[varying] - 1
    found: Form | None = None
    if isinstance(form, LocationScale):
        grids: tuple[Grid | None, ...] = ()
        if censored is not None and isinstance(summary, Transformed):
            place = int(np.cumsum(summary.kept)[censored]) - 1
            grids = tuple(
                summary.everywhere(place) if j == place else None for j in range(len(summary.curves))
            )
            grids = tuple(grids[j] for j in places)
        found = MarginalLocationScale(form, places, grids)
    elif isinstance(form, Autoregressive):
        found = without_unseen(form, places)
    elif isinstance(form, DiagonalScale):
        found = without_columns(form, places)
    elif isinstance(form, Exchangeable):
        found = OrderStatistics(form, places) if form.in_order else replace(form, size=len(places))
    if found is None:
        return None
    structure = None if evaluation.structure is None else evaluation.structure.of_columns(columns)
    return replace(
        evaluation,
        form=found,
        of_statistics=summary.of_columns(columns),
        structure=structure,
        linear=None if linear is None else linear.of_columns(columns),
    )


def _solved(root: np.ndarray, away: np.ndarray) -> np.ndarray:
    """Lower triangular roots (k, m, m), divided into differences (k, r, m), shape (k, r, m)."""
    return np.swapaxes(np.linalg.solve(root, np.swapaxes(away, 1, 2)), 1, 2)
