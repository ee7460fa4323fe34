"""The third form, for many statistics: a mean and scales of the parameters, and one constant whitening."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.special import ndtr
from sklearn.covariance import ledoit_wolf

from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.estimators.likelihood.basis import Landmarks
from pymc_kbr.estimators.likelihood.conditional_mean import (
    MeanSearch,
    mean_basis,
    regress,
    regress_with_common_weights,
)
from pymc_kbr.estimators.likelihood.conditional_mixture import ConditionalMixture, fit_conditional_mixture
from pymc_kbr.estimators.likelihood.form import Form, hold_out
from pymc_kbr.estimators.likelihood.normal_mixture import (
    LOG_ROOT_2PI,
    NormalMixture,
    ResidualShape,
    fit_mixture,
)
from pymc_kbr.estimators.likelihood.smooth_function import Inputs
from pymc_kbr.estimators.likelihood.spread import LARGEST_LOG, LOG_CHI_SQUARE, spread_basis


@dataclass(frozen=True, eq=False, repr=False)
class DiagonalScale:
    """W x = mu(theta) + exp(-a(theta)) z, W constant, the elements of z independent, of one density."""

    # Shapes: mean_coefficients (1 + q + l, e); spread_coefficients (1 + q + s, e); whiten (e, e); centre
    # (e,).
    mean: Landmarks
    spread: Landmarks
    mean_coefficients: np.ndarray
    spread_coefficients: np.ndarray
    whiten: np.ndarray
    law: PooledDensity
    # Laws that move are younger than the first files: what is read from these has no centre.
    centre: np.ndarray | float = 0.0

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """Values mu and a at parameters (k, q), and the numbers of a conditional density: (k, 2 e + ...)."""
        means = self.mean.combined(theta, self.mean_coefficients, xp)
        logs = self.spread.combined(theta, self.spread_coefficients, xp)
        found = [means, xp.maximum(xp.minimum(logs, LARGEST_LOG), -LARGEST_LOG)]
        if not isinstance(self.law, NormalMixture):
            found.append(describe_distribution(self.law, theta, means - self.centre, found[1], xp))
        return xp.concatenate(found, axis=1)

    def log_density(
        self,
        described: Any,
        points: Any,
        xp: Any = np,
        *,
        # Densities of components in memory at once.
        part_densities_at_once: int = 2**21,
    ) -> Any:
        """Log densities (k, r): see `Form`."""
        whitened = xp.matmul(points, self.whiten.T)
        volume = np.log(np.diag(self.whiten)).sum()
        if xp is not np:
            return self._by_distribution(described, whitened, xp) + volume
        if len(points) == 1 and isinstance(self.law, NormalMixture) and size_of(self.law) == 1:
            return self._normal(described, whitened[0], self.law) + volume
        e = len(self.whiten)
        rows = max(1, part_densities_at_once // max(1, points.shape[1] * e * size_of(self.law)))
        found = np.empty((len(described), points.shape[1]))
        for part in (slice(i, i + rows) for i in range(0, len(described), rows)):
            at = whitened if len(points) == 1 else whitened[part]
            found[part] = self._by_distribution(described[part], at, np) + volume
        return found

    def _by_distribution(self, described: Any, whitened: Any, xp: Any) -> Any:
        e = len(self.whiten)
        logs = described[:, e : 2 * e]
        z = xp.exp(logs)[:, None, :] * (whitened - described[:, None, :e])
        # Part by part: an array of all of them would be as many times as large.
        terms = [c - 0.5 * (p * (z - m)) ** 2 for c, m, p in parts_of(self.law, described[:, 2 * e :], xp)]
        highest = terms[0]
        for term in terms[1:]:
            highest = xp.maximum(highest, term)
        each = highest + xp.log(sum(xp.exp(term - highest) for term in terms))
        return xp.sum(each, axis=2) + xp.sum(logs, axis=1)[:, None]

    def _normal(self, described: np.ndarray, whitened: np.ndarray, density: NormalMixture) -> np.ndarray:
        """The same of points (r, e) under one normal density: by products of matrices, without residuals."""
        e = len(self.whiten)
        mean, precision = float(density.means[0, 0]), float(density.factors[0, 0, 0])
        scales = precision * np.exp(described[:, e:])
        # precision (exp(a) (u - mu) - mean) = scales u - centres: the square then expands into products.
        centres = described[:, :e] * scales + precision * mean
        squares = (scales**2) @ (whitened**2).T - 2 * (scales * centres) @ whitened.T
        squares += np.sum(centres**2, axis=1)[:, None]
        return np.sum(np.log(scales), axis=1)[:, None] - 0.5 * (squares + e * np.log(2 * np.pi))

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each of k parameters."""
        e = len(self.whiten)
        z = draw_elements(self.law, described[:, 2 * e :], e, rng)
        whitened = described[:, :e] + z * np.exp(-described[:, e : 2 * e])
        return solve_triangular(self.whiten, whitened.T, lower=True).T

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Conditional distribution functions (k, e): see `Form`."""
        e = len(self.whiten)
        z = np.exp(described[:, e : 2 * e]) * (points @ self.whiten.T - described[:, :e])
        return transforms_of(self.law, described[:, 2 * e :], z)


def without_columns(form: DiagonalScale, kept: np.ndarray) -> DiagonalScale | None:
    """The density of some statistics, where these are independent of the others given the parameters."""
    # Shapes: kept (m,).
    if np.any(np.tril(form.whiten, -1)):
        return None
    return DiagonalScale(
        form.mean,
        form.spread,
        form.mean_coefficients[:, kept],
        form.spread_coefficients[:, kept],
        form.whiten[np.ix_(kept, kept)],
        form.law,
        np.broadcast_to(form.centre, len(form.whiten))[kept],
    )


def fit_diagonal_scale(
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    *,
    # Landmarks of the mean's kernel.
    landmarks: int = 800,
    pooled: int = 60_000,
    compared: Form | None = None,
    # Principal components of the statistics on which the kernel of the mean is chosen.
    components_for_mean: int = 30,
    # Every other one of a regression's, as it has many columns.
    ridges: slice = slice(None, None, 2),
    # Deviation of log scales among rows above which the mean is fitted with weights.
    least_uneven: float = 0.1,
) -> DiagonalScale:
    """Fit mean, whitening, scales and density, and the mean again with weights of uneven scales."""
    # In the statistics' principal components few depend on the parameters; noise is in all of them.
    # Shapes: theta (n, q); points (n, e).
    n = len(points)
    held_out = hold_out(n, rng)
    seed = int(rng.integers(2**31))
    known, mixed = None, None
    if isinstance(compared, DiagonalScale):
        known, mixed = compared.mean, bool(np.any(np.tril(compared.whiten, -1)))
    centre, unit = points.mean(axis=0), points.std(axis=0)
    standard = (points - centre) / unit
    # `eigh` has the largest last.
    turn = np.linalg.eigh(standard.T @ standard)[1][:, ::-1]
    components = standard @ turn
    # Many statistics show finer waves than a few do.
    scales = (0.04, 0.06, 0.1, 0.16, *MeanSearch().scales)
    search = MeanSearch(scales, turns=4, ridges=ridges, walks=True)
    of_mean, features = mean_basis(theta, components[:, :components_for_mean], landmarks, rng, known, search)
    of_spread, parts = spread_basis(theta, rng)

    def whitened(residuals: np.ndarray) -> Whitened:
        return fit_whitened(residuals @ turn.T, parts, of_spread.penalties, held_out, mixed)

    mean = regress(features, of_mean.penalties, components, ridges)
    found = whitened(mean.residuals)
    common = found.logs.mean(axis=1)
    if common.std() > least_uneven:
        # Rows with little noise know the mean best; a is minus a log deviation, 2 a a log precision.
        weighted = regress_with_common_weights(
            features, of_mean.penalties, components, np.exp(2 * common), ridges
        )
        again = whitened(weighted.residuals)
        if again.held_out > found.held_out:
            mean, found = weighted, again
    of_z = of_mean.mix @ (mean.coefficients @ (turn.T @ found.whiten.T))
    # The first raw function is the constant: the centre that was taken off goes back into it.
    of_all = found.whiten @ (centre / unit)
    means = of_mean.landmarks.combined(theta, of_z)
    of_z[0] += of_all
    return DiagonalScale(
        of_mean.landmarks,
        of_spread.landmarks,
        of_z,
        of_spread.mix @ found.coefficients,
        found.whiten / unit,
        fit_distribution(found.z, theta, (means, found.logs), held_out, seed, rng, pooled),
        of_all,
    )


# --- scales of many statistics ---


class Whitened(NamedTuple):
    """Residuals r of unit scale: z = exp(a(theta)) W r."""

    # Shapes: whiten (e, e); coefficients (f, e); logs (n, e); z (n, e).
    whiten: np.ndarray
    coefficients: np.ndarray
    logs: np.ndarray
    z: np.ndarray
    held_out: float


def fit_whitened(
    residuals: np.ndarray,
    features: np.ndarray,
    penalties: np.ndarray,
    held_out: np.ndarray,
    mixed: bool | None = None,
    *,
    # A step of a log variance, at most: a single outlier must not decide it.
    largest_step: float = 20.0,
    # Nats a statistic, on average, for which statistics are rotated.
    gain_of_rotation: float = 0.01,
) -> Whitened:
    """Choose the frame, and fit the scales in it."""
    # Log squared residuals are regressed: their mean over statistics, and what each statistic adds to it.
    # These know two fifths of what residuals tell of a scale: a step of Fisher's scoring follows.
    # Shapes: residuals (n, e); features (n, f); penalties (f,); held_out (n,).
    apart, together = _frames(residuals, held_out)
    if mixed is None:
        with parallel_map(2) as map_:
            compared = map_(
                lambda w: _common_scales(residuals @ w.T, w, features, penalties, held_out), (apart, together)
            )
        mixed = compared[1].held_out > compared[0].held_out + gain_of_rotation * residuals.shape[1]
    whiten = together if mixed else apart
    u = residuals @ whiten.T
    squares = u**2
    first = features @ _each(_logs(u), features, penalties)
    # The constant by squares: that of the logarithms is right for normal residuals alone.
    first += np.log(np.mean(squares * np.exp(-first), axis=0))
    # The score (z^2 - 1) / 2 over the information 1 / 2 of a log variance.
    scored = first + np.minimum(squares * np.exp(-first), largest_step) - 1
    coefficients = -0.5 * _each(scored, features, penalties)
    return _finished(u, whiten, coefficients, features @ coefficients, held_out)


def _frames(residuals: np.ndarray, held_out: np.ndarray) -> list[np.ndarray]:
    """Each statistic by itself, and all together by their covariance, shrunk towards a multiple of one."""
    fitted = residuals[~held_out]
    unit = np.sqrt(np.mean(fitted**2, axis=0))
    # Of statistics that are hardly fewer than rows a plain covariance has an inverse of noise.
    covariance, _ = ledoit_wolf(fitted / unit, assume_centered=True)
    factor = cholesky(covariance, lower=True)
    return [np.diag(1 / unit), solve_triangular(factor, np.eye(len(unit)), lower=True) / unit]


def _logs(
    u: np.ndarray,
    *,
    # Added to a squared residual, over its variance: the logarithm of zero has no value.
    least_square: float = 1e-12,
) -> np.ndarray:
    """Log squares, whose mean is that of the log variance."""
    return np.log(u**2 + least_square) + LOG_CHI_SQUARE


def _common_scales(
    u: np.ndarray, whiten: np.ndarray, features: np.ndarray, penalties: np.ndarray, held_out: np.ndarray
) -> Whitened:
    """With one function of the parameters for the scales of all statistics."""
    common = -0.5 * regress(features, penalties, _logs(u).mean(axis=1)[:, None]).coefficients
    whole, logs = (np.repeat(one, u.shape[1], axis=1) for one in (common, features @ common))
    return _finished(u, whiten, whole, logs, held_out)


def _each(
    logs: np.ndarray,
    features: np.ndarray,
    penalties: np.ndarray,
    *,
    # It has one column more than there are statistics.
    ridges: slice = slice(None, None, 4),
) -> np.ndarray:
    """Coefficients (f, e) of log variances: of their mean, and of what each adds."""
    common = logs.mean(axis=1)[:, None]
    found = regress(features, penalties, np.hstack([common, logs - common]), ridges).coefficients
    return found[:, :1] + found[:, 1:]


def _finished(
    u: np.ndarray, whiten: np.ndarray, coefficients: np.ndarray, logs: np.ndarray, held_out: np.ndarray
) -> Whitened:
    """With constants such that elements of z have variance one in the rows that are not held out."""
    z = u * np.exp(logs)
    deviations = np.sqrt(np.mean(z[~held_out] ** 2, axis=0))
    coefficients, logs, z = coefficients.copy(), logs - np.log(deviations), z / deviations
    coefficients[0] -= np.log(deviations)
    density = np.mean(np.sum(logs[held_out] - 0.5 * z[held_out] ** 2, axis=1))
    return Whitened(whiten, coefficients, logs, z, float(density + np.log(np.diag(whiten)).sum()))


# --- the density of all elements of z ---


PooledDensity = NormalMixture | ConditionalMixture


def fit_distribution(
    z: np.ndarray,
    theta: np.ndarray,
    levels: tuple[np.ndarray, np.ndarray],
    held_out: np.ndarray,
    seed: int,
    rng: np.random.Generator,
    pooled: int = 60_000,
    *,
    # Parts of the mixture that is the same everywhere,
    sizes: tuple[int, ...] = (1, 2, 3, 4),
    # and elements that it is fitted to.
    searched: int = 20_000,
) -> PooledDensity:
    """The mixture of all elements, and where held-out ones are denser, with parts that move."""
    # A shape that is off a little in each of e elements moves the posterior by the root of e as much.
    # Shapes: z (n, e); theta (n, q); levels (n, e); held_out (n,).
    n, e = z.shape
    order = rng.permutation(n * e)
    some, more = order[:searched], order[:pooled]
    density = fit_mixture(z.reshape(-1, 1)[some], held_out[some // e], seed, sizes)
    base = ResidualShape(np.log(density.weights), density.means[:, 0], 1 / density.factors[:, 0, 0])
    inputs = Inputs(theta[more // e], np.column_stack([each.reshape(-1)[more] for each in levels]))
    again = np.random.default_rng(seed)
    moved = fit_conditional_mixture(
        base, inputs, z.reshape(-1)[more], again, searched=searched, learnt=pooled
    )
    return moved if isinstance(moved, ConditionalMixture) else density


def size_of(density: PooledDensity) -> int:
    """Number of its parts."""
    return len(density) if isinstance(density, NormalMixture) else len(density.base.means)


def describe_distribution(
    density: ConditionalMixture, theta: Any, means: Any, logs: Any, xp: Any = np
) -> Any:
    """Log shares, means and log deviations of c parts: (k, 3 c), or of each of e elements (k, 3 c e)."""
    # Shapes: theta (k, q); means, logs (k, e).
    past = xp.stack([means, logs], axis=2)
    return xp.concatenate([number for part in density.parts(theta, past, xp) for number in part], axis=1)


def parts_of(density: PooledDensity, numbers: Any, xp: Any = np) -> list[tuple[Any, Any, Any]]:
    """Log height, mean and precision root of each part, as numbers, (k, 1, 1) or (k, 1, e)."""
    # Shapes: numbers (k, 3 c) or (k, 3 c e).
    if isinstance(density, NormalMixture):
        means, roots = density.means[:, 0], density.factors[:, 0, 0]
        levels = np.log(density.weights * roots) - LOG_ROOT_2PI
        return list(zip(levels, means, roots, strict=True))
    each = [number[:, None, :] for number in _numbers_of(density, numbers)]
    return [
        (share - log - LOG_ROOT_2PI, mean, xp.exp(-log))
        for share, mean, log in zip(each[0::3], each[1::3], each[2::3], strict=True)
    ]


def _numbers_of(density: ConditionalMixture, numbers: Any) -> list[Any]:
    """The 3 c numbers of a density, each (k, 1) or (k, e)."""
    count = 3 * size_of(density)
    wide = numbers.shape[1] // count
    return [numbers[:, i * wide : (i + 1) * wide] for i in range(count)]


def draw_elements(
    density: PooledDensity, numbers: np.ndarray, e: int, rng: np.random.Generator
) -> np.ndarray:
    """Elements z (k, e) for k parameters, with the numbers of `describe_distribution`."""
    if isinstance(density, NormalMixture):
        return density.draw(len(numbers) * e, rng).reshape(-1, e)
    each = [np.broadcast_to(number, (len(numbers), e)) for number in _numbers_of(density, numbers)]
    shares, means, logs = (np.stack(each[i::3], axis=2) for i in range(3))
    # The largest of logits with Gumbel noise is a draw of a part.
    chosen = np.argmax(shares + rng.gumbel(size=shares.shape), axis=2)[:, :, None]
    means, logs = (np.take_along_axis(one, chosen, axis=2)[:, :, 0] for one in (means, logs))
    return means + np.exp(logs) * rng.standard_normal(means.shape)


def transforms_of(density: PooledDensity, numbers: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Distribution functions of elements z (k, e)."""
    if isinstance(density, NormalMixture):
        return density.transforms(z.reshape(-1, 1)).reshape(z.shape)
    each = _numbers_of(density, numbers)
    parts = zip(each[0::3], each[1::3], each[2::3], strict=True)
    return sum(np.exp(share) * ndtr((z - mean) * np.exp(-log)) for share, mean, log in parts)
