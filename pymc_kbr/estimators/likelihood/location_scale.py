"""The first form: a mean and a triangular factor of the parameters, and residuals of one distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.optimize import minimize

from pymc_kbr.arrays.threads import parallel_map, row_parts
from pymc_kbr.estimators.likelihood.basis import Landmarks
from pymc_kbr.estimators.likelihood.conditional_mean import (
    BasisRegression,
    mean_basis,
    regress,
    regress_weighted,
)
from pymc_kbr.estimators.likelihood.form import Form, hold_out
from pymc_kbr.estimators.likelihood.normal_mixture import NormalMixture, fit_mixture, mixture_log_mass
from pymc_kbr.estimators.likelihood.spread import (
    LARGEST_LOG,
    Below,
    SpreadChoice,
    choose_basis,
    choose_spread,
    factor_at,
    fit_spread,
    frames,
    standardised,
    whitening,
)
from pymc_kbr.estimators.summaries.transformed import Grid


@dataclass(frozen=True, eq=False, repr=False)
class LocationScale:
    """x = m(theta) + (T(theta) W)^-1 z, with W constant, T lower triangular and z of a normal mixture."""

    # Shapes: mean_coefficients (1 + q + l, e); spread_coefficients (1 + q + s, e + e * e); whiten (e, e).
    mean: Landmarks
    spread: Landmarks
    mean_coefficients: np.ndarray
    spread_coefficients: np.ndarray
    whiten: np.ndarray
    mixture: NormalMixture
    chosen: SpreadChoice | None = None
    grids: tuple[Grid | None, ...] = ()
    """Of statistics that have probabilities of cells."""

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """m, a and C at parameters (k, q): (k, 2 e + e^2), or (k, 2 e) without C."""
        means = self.mean.combined(theta, self.mean_coefficients, xp)
        if xp is not np:
            spread = self.spread.combined(theta, self.spread_coefficients, xp)
            return xp.concatenate([means, spread], axis=1)
        # From C's diagonal on all is zero: more than half of what there would be to compute.
        used = np.flatnonzero(np.any(self.spread_coefficients, axis=0))
        spread = np.zeros((len(theta), self.spread_coefficients.shape[1]))
        spread[:, used] = self.spread.combined(theta, self.spread_coefficients[:, used])
        return np.concatenate([means, spread], axis=1)

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r): see `Form`."""
        e = len(self.whiten)
        logs = xp.maximum(xp.minimum(described[:, e : 2 * e], LARGEST_LOG), -LARGEST_LOG)
        # Of a table's points the ends of cells are not known, and what counts is a density.
        if self.grids and (xp is not np or points.shape[-1] > e):
            return self._of_one(described, logs, points, xp)
        r = xp.matmul(points - described[:, None, :e], self.whiten.T)
        z = xp.exp(logs)[:, None, :] * r
        if self.paired:
            below = xp.reshape(described[:, 2 * e :], (-1, e, e))
            z = z + xp.matmul(z, xp.swapaxes(below, 1, 2))
        volume = xp.sum(logs, axis=1)[:, None] + np.log(np.diag(self.whiten)).sum()
        return self.mixture.log_density(z, xp) + volume

    def _of_one(self, described: Any, logs: Any, points: Any, xp: Any) -> Any:
        """Log probabilities (k, r) of cells of the one statistic; or densities, where it has no cell."""
        unit = xp.exp(logs) * float(self.whiten[0, 0])
        y, lower, upper = ((points[:, :, i] - described[:, :1]) * unit for i in range(3))
        parts = [
            (float(np.log(share)), float(mean[0]), float(-np.log(factor[0, 0])))
            for share, mean, factor in zip(
                self.mixture.weights, self.mixture.means, self.mixture.factors, strict=True
            )
        ]
        if not self.grids[0].cells.between:  # type: ignore[union-attr]
            return mixture_log_mass(parts, lower, upper, xp)
        cell = points[:, :, 2] > points[:, :, 1]
        inside = mixture_log_mass(parts, lower, xp.where(cell, upper, lower + 1.0), xp)
        density = self.mixture.log_density(xp.where(cell, 0.0, y)[:, :, None], xp) + xp.log(unit)
        return xp.where(cell, inside, density)

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each of k parameters."""
        e = len(self.whiten)
        z = self.mixture.draw(len(described), rng)
        logs = np.clip(described[:, e : 2 * e], -LARGEST_LOG, LARGEST_LOG)
        # (I + C)^-1 z by forward substitution: entries before j are those of the solution already.
        for j in range(1, e if self.paired else 0):
            entries = described[:, 2 * e + j * e : 2 * e + j * e + j]
            z[:, j] -= np.sum(entries * z[:, :j], axis=1)
        r = z * np.exp(-logs)
        return described[:, :e] + solve_triangular(self.whiten, r.T, lower=True).T

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, e): see `Form`."""
        e = len(self.whiten)
        logs = np.clip(described[:, e : 2 * e], -LARGEST_LOG, LARGEST_LOG)
        r = (points - described[:, :e]) @ self.whiten.T
        z = np.exp(logs) * r
        if self.paired:
            below = described[:, 2 * e :].reshape(-1, e, e)
            z = z + np.einsum("kij,kj->ki", below, z)
        return self.mixture.transforms(z)

    @property
    def paired(self) -> bool:
        """Whether T has entries below its diagonal."""
        return self.spread_coefficients.shape[1] > len(self.whiten)


def fit_location_scale(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    # Landmarks of the mean's kernel.
    landmarks: int = 1000,
    compared: Form | None = None,
    # Ridges of the factor, tried from the first on.
    factor_ridges: tuple[float, ...] = (1000.0, 100.0, 10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5),
    # Times, at most, that the mean is regressed by the distribution of the residuals before.
    residual_turns: int = 4,
) -> LocationScale:
    """Fit mean, factor and mixture, one after the other, and the mean again by what these say."""
    # Mean: kernel ridge regression with a linear part, whose leave-one-out residuals go on. Factor: penalised
    # normal likelihood of these. The mean again: weighted, and by the density of its residuals, where that
    # helps.
    # Shapes: theta (n, q); points (n, e).
    n, e = points.shape
    # Every choice below is made on the same rows, so that gains of one and of another can be compared.
    held_out = hold_out(n, rng)
    seed = int(rng.integers(2**31))
    known = compared if isinstance(compared, LocationScale) else None
    least = len(known.mixture) if known else 1
    if not np.any(np.ptp(theta, axis=0)):
        return _of_no_parameter(points, theta.shape[1], held_out, seed, least)
    # Where statistics are correlated, what little noise there is between them says the most.
    into, points = _decorrelated(theta, points)
    of_mean, features = mean_basis(theta, points, landmarks, rng, known.mean if known else None)
    mean = regress(features, of_mean.penalties, points)
    # Linear residuals are still correlated by all that bends; those of the regression are not.
    again = whitening(mean.residuals)
    into, points = again @ into, points @ again.T
    mean = regress(features, of_mean.penalties, points)
    back = solve_triangular(into, np.eye(e), lower=True)
    residuals = mean.residuals @ back.T
    choice, of_spread, parts = choose_basis(theta, residuals, held_out, rng, known.chosen if known else None)
    whiten, below = frames(residuals)[choice.frame]
    r = residuals @ whiten.T
    chosen = choose_spread(parts, r, of_spread.penalties, factor_ridges, below, held_out)
    factors = _factors(parts @ chosen.coefficients, r, below) @ (whiten @ back)
    # Residuals are the inverse factor times independent ones: its rows hold their deviations.
    precisions = 1 / np.sum(np.linalg.inv(factors) ** 2, axis=2)
    mean = regress_weighted(features, of_mean.penalties, points, precisions, mean)
    penalties = chosen.ridge * of_spread.penalties

    def shaped(mixture: Callable[[np.ndarray], NormalMixture]) -> _Shape:
        at = mean.residuals @ back.T
        return _shape(at, choice.frame, parts, penalties, chosen.coefficients, mixture)

    shape = shaped(lambda z: fit_mixture(z, held_out, seed, least=least))
    for _ in range(residual_turns):
        density = ResidualDensity(shape.factors @ back, shape.mixture)
        sharper = regress_by_residuals(features, of_mean.penalties, points, mean, density, held_out, rng)
        if sharper is None:
            break
        mean = sharper
        shape = shaped(partial(shape.mixture.fitted_to, seed=seed))
    spread = of_spread.mix @ _squared(shape.coefficients, e, shape.below)
    # The first function of the basis is the constant.
    spread[0] += _squared(np.concatenate([np.zeros(e), shape.below.constants])[None, :], e, shape.below)[0]
    return LocationScale(
        of_mean.landmarks,
        of_spread.landmarks,
        of_mean.mix @ (mean.coefficients @ back.T),
        spread,
        shape.whiten,
        shape.mixture,
        choice,
    )


def _of_no_parameter(
    points: np.ndarray, q: int, held_out: np.ndarray, seed: int, least: int
) -> LocationScale:
    """One density for all of q parameters."""
    mean, e = points.mean(axis=0), points.shape[1]
    none = Landmarks(np.empty((0, q)), np.empty((0, q)))
    whiten = whitening(points - mean)
    coefficients = np.vstack([mean, np.zeros((q, e))])
    mixture = fit_mixture((points - mean) @ whiten.T, held_out, seed, least=least)
    return LocationScale(none, none, coefficients, np.zeros((1 + q, e)), whiten, mixture)


class _Shape(NamedTuple):
    """What is fitted to residuals."""

    # Shapes: whiten (e, e); coefficients (f, e + b); factors (n, e, e).
    whiten: np.ndarray
    below: Below
    coefficients: np.ndarray
    factors: np.ndarray
    mixture: NormalMixture


def _shape(
    residuals: np.ndarray,
    frame: int,
    parts: np.ndarray,
    penalties: np.ndarray,
    start: np.ndarray,
    mixture: Callable[[np.ndarray], NormalMixture],
) -> _Shape:
    whiten, below = frames(residuals)[frame]
    r = residuals @ whiten.T
    w = fit_spread(parts, r, penalties, below, start)
    z, _ = standardised(parts, r, w, below)
    factors = _factors(parts @ w, r, below) @ whiten
    return _Shape(whiten, below, w, factors, mixture(z))


def _decorrelated(theta: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A lower triangular factor (e, e), and points (n, e) whose linear residuals it makes uncorrelated."""
    columns = np.column_stack([np.ones(len(theta)), theta])
    slopes, *_ = np.linalg.lstsq(columns, points, rcond=None)
    into = whitening(points - columns @ slopes)
    return into, points @ into.T


def _factors(values: np.ndarray, residuals: np.ndarray, below: Below) -> np.ndarray:
    """The factor at each row, (n, e, e)."""
    n, e = residuals.shape
    at = factor_at(values, residuals, below)
    unit = np.tile(np.eye(e), (n, 1, 1))
    unit[:, below.rows, below.columns] = at.entries
    return unit * np.exp(at.logs)[:, None, :]


def _squared(w: np.ndarray, e: int, below: Below) -> np.ndarray:
    """Coefficients of entries below the diagonal in the places of a square matrix, row by row."""
    if not len(below.rows):
        return w
    whole = np.zeros((len(w), e + e * e))
    whole[:, :e] = w[:, :e]
    whole[:, e + below.rows * e + below.columns] = w[:, e:]
    return whole


# --- the mean, fitted again by the residuals' density ---


class ResidualDensity(NamedTuple):
    """The density of residuals c (n, e) at n rows: that of z = A c under a mixture."""

    # Shapes: factors (n, e, e).
    factors: np.ndarray
    mixture: NormalMixture

    def rows(self, chosen: np.ndarray | slice) -> ResidualDensity:
        """Of some rows."""
        return ResidualDensity(self.factors[chosen], self.mixture)

    def log_density(self, residuals: np.ndarray) -> np.ndarray:
        """Up to a constant of each row, shape (n,)."""
        return self.mixture.log_density(self._z(residuals)[:, None, :])[:, 0]

    def slopes(self, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (n,), and their derivatives by the residuals (n, e)."""
        values, by_z = self.mixture.slopes(self._z(residuals))
        return values, np.matmul(by_z[:, None, :], self.factors)[:, 0]

    def _z(self, residuals: np.ndarray) -> np.ndarray:
        return np.matmul(self.factors, residuals[:, :, None])[:, :, 0]


@dataclass(frozen=True, eq=False)
class _PenalisedRegression:
    """Penalised likelihood of the coefficients of the smoothest functions."""

    # Shapes: features (n, f); penalties (f, e); points (n, e).
    features: np.ndarray
    penalties: np.ndarray
    points: np.ndarray
    density: ResidualDensity

    def fit(
        self,
        rows: np.ndarray,
        shrink: float,
        *,
        # Steps of L-BFGS, at most.
        lbfgs_steps: int = 40,
    ) -> np.ndarray:
        """Coefficients (f, e) by some rows, from those of least squares on."""
        f, points, density = self.features[rows], self.points[rows], self.density.rows(rows)
        first = self._least_squares(rows)
        residuals = points - f @ first
        # Squared scores stand for second derivatives: in these units L-BFGS needs few steps.
        information = np.mean(density.slopes(residuals)[1] ** 2, axis=0)
        # A ridge of squared errors, over their variance, is one of log densities.
        prior = shrink * self.penalties / np.mean(residuals**2, axis=0)
        unit = 1 / np.sqrt(information + prior)

        parts = row_parts(len(f))
        pieces = [(f[part], points[part], density.rows(part)) for part in parts]

        with parallel_map(len(parts)) as map_:

            def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
                w = flat.reshape(unit.shape) * unit
                found = map_(lambda piece: _likelihood(*piece, w), pieces)
                loss = -sum(value for value, _ in found) / len(f) + 0.5 * float(np.sum(prior * w**2))
                slopes = sum(slopes for _, slopes in found) / len(f)
                return loss, ((slopes + prior * w) * unit).ravel()

            options = {"maxiter": lbfgs_steps, "maxcor": 10, "ftol": 1e-8, "gtol": 1e-6}
            found = minimize(objective, (first / unit).ravel(), jac=True, method="L-BFGS-B", options=options)
        return found.x.reshape(unit.shape) * unit

    def _least_squares(self, rows: np.ndarray) -> np.ndarray:
        f, points = self.features[rows], self.points[rows]
        squares, right = f.T @ f / len(f), f.T @ points / len(f)
        columns = [
            cho_solve(cho_factor(squares + np.diag(penalty)), right[:, j])
            for j, penalty in enumerate(self.penalties.T)
        ]
        return np.column_stack(columns)

    def left_out(self, others: np.ndarray, shrink: float) -> np.ndarray:
        """Residuals of some rows by a fit to all the others."""
        return self.points[others] - self.features[others] @ self.fit(~others, shrink)


def _likelihood(
    features: np.ndarray, points: np.ndarray, density: ResidualDensity, coefficients: np.ndarray
) -> tuple[float, np.ndarray]:
    """Summed log density of rows, and minus its slopes in the coefficients (f, e)."""
    values, slopes = density.slopes(points - features @ coefficients)
    return float(values.sum()), features.T @ slopes


def regress_by_residuals(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    before: BasisRegression,
    density: ResidualDensity,
    held_out: np.ndarray,
    rng: np.random.Generator,
    *,
    # Factors of the previous ridges that are tried: a narrower residual density supports rougher functions.
    ridge_factors: tuple[float, float, float] = (1.0, 0.1, 0.01),
    # Held-out nats a row for which the mean leaves least squares.
    least_gain: float = 0.01,
    # Standard errors below that gain at which a first fold decides against it.
    errors_behind: float = 2.0,
    # Folds of cross-validation.
    folds: int = 5,
    # Functions of the basis with which the mean is fitted, the smoothest ones.
    most_functions: int = 400,
) -> BasisRegression | None:
    """The mean by penalised likelihood under a density of its residuals, where held-out rows gain by it."""
    # Shapes: features (n, f); penalties (f,); points (n, e); held_out (n,).
    smooth = np.argsort(penalties, kind="stable")[:most_functions]
    regression = _PenalisedRegression(
        features[:, smooth], penalties[smooth, None] * before.ridges, points, density
    )
    at, now = density.rows(held_out), density.log_density(before.residuals)
    gain, shrink = np.full(np.count_nonzero(held_out), -np.inf), 0.0
    for tried in ridge_factors:
        found = at.log_density(regression.left_out(held_out, tried)) - now[held_out]
        if found.mean() <= gain.mean():
            break
        gain, shrink = found, tried
    if not shrink or gain.mean() <= least_gain - errors_behind * gain.std() / np.sqrt(len(gain)):
        return None
    n = len(points)
    # Under this density there is no closed form without a row: each fifth is predicted by the others.
    left_out = np.empty_like(points)
    for rows in np.array_split(rng.permutation(n), folds):
        others = np.zeros(n, dtype=bool)
        others[rows] = True
        left_out[others] = regression.left_out(others, shrink)
    if np.mean(density.log_density(left_out) - now) <= least_gain:
        return None
    coefficients = np.zeros((features.shape[1], points.shape[1]))
    coefficients[smooth] = regression.fit(np.ones(n, dtype=bool), shrink)
    return BasisRegression(coefficients, left_out, shrink * before.ridges)
