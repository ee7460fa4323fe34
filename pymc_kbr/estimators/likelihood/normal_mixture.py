"""A normal mixture of residuals, its size by held-out density."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pymc_kbr.arrays.threads import one_at_a_time, parallel_map, silence

UNSETTLED = silence(ConvergenceWarning)
"""What mixtures are fitted in, on several threads."""


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """A mixture of c normal densities in e dimensions."""

    # Shapes: weights (c,); means (c, e); factors (c, e, e).
    weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray

    def __len__(self) -> int:
        return len(self.weights)

    def fitted_to(self, z: np.ndarray, seed: int) -> NormalMixture:
        """A mixture of this size fitted to rows (n, e), starting from this one."""
        return _fitted(z, len(self), seed, self)

    def log_density(self, z: Any, xp: Any = np) -> Any:
        """Log densities of z (k, r, e), shape (k, r)."""
        terms, _ = self._terms(z, xp)
        if len(self) == 1:
            return terms[:, :, 0]
        highest = xp.max(terms, axis=2)
        return highest + xp.log(xp.sum(xp.exp(terms - highest[:, :, None]), axis=2))

    def slopes(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (n,) of z (n, e), and their derivatives (n, e)."""
        terms, u = self._terms(z, np)
        # SciPy's `logsumexp` takes as long as all the rest.
        highest = terms.max(axis=1, keepdims=True)
        shares = np.exp(terms - highest)
        total = shares.sum(axis=1, keepdims=True)
        shares /= total
        u *= np.repeat(shares, z.shape[1], axis=1)
        return (highest + np.log(total))[:, 0], -u @ self.factors.reshape(-1, z.shape[1])

    def _terms(self, z: Any, xp: Any) -> tuple[Any, Any]:
        """Log densities (..., c) of the parts, and what each makes standard normal, side by side."""
        # As a graph, a few operations however many parts there are.
        c, e = self.means.shape
        across = self.factors.transpose(2, 0, 1).reshape(e, c * e)
        shift = np.einsum("cij,cj->ci", self.factors, self.means).reshape(-1)
        volumes = np.log(np.einsum("cii->ci", self.factors)).sum(axis=1) - 0.5 * e * np.log(2 * np.pi)
        u = xp.matmul(z, across) - shift
        squares = xp.matmul(u**2, np.kron(np.eye(c), np.ones((e, 1))))
        return np.log(self.weights) + volumes - 0.5 * squares, u

    def draw(self, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Draws (draws, e)."""
        part = rng.choice(len(self), draws, p=self.weights)
        normal = rng.standard_normal((draws, self.means.shape[1]))
        z = np.empty_like(normal)
        for c, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            z[part == c] = mean + np.linalg.solve(factor, normal[part == c].T).T
        return z

    def transforms(self, z: np.ndarray) -> np.ndarray:
        """Distribution functions of each column of z (k, e) given those before it, shape (k, e)."""
        u = np.stack([(z - m) @ p.T for m, p in zip(self.means, self.factors, strict=True)])
        logs = np.log([np.diag(p) for p in self.factors])[:, None, :] - 0.5 * u**2
        before = np.concatenate([np.zeros_like(logs[:, :, :1]), np.cumsum(logs, axis=2)[:, :, :-1]], axis=2)
        before += np.log(self.weights)[:, None, None]
        shares = np.exp(before - logsumexp(before, axis=0))
        return np.sum(shares * ndtr(u), axis=0)


def fit_mixture(
    z: np.ndarray,
    held_out: np.ndarray,
    seed: int,
    sizes: Sequence[int] = (1, 2, 3, 4, 6, 8, 12),
    least: int = 1,
    *,
    # Fitted rows for each free number of a mixture.
    rows_a_number: float = 2.0,
    # Nats of a held-out row for which a larger mixture is taken.
    least_gain: float = 0.003,
) -> NormalMixture:
    """The mixture of the size with the highest density of the rows that are held out, fitted to all."""
    # Sizes below `least` are not tried: what fewer rows have supported, more rows support.
    # Shapes: z (n, e); held_out (n,).
    e = z.shape[1]
    most = (~held_out).sum() / rows_a_number
    allowed = [size for size in sizes if size == 1 or size * (1 + e + e * (e + 1) / 2) <= most]
    allowed = [size for size in allowed if size >= least] or allowed[-1:]

    def tried(size: int) -> tuple[NormalMixture, float]:
        mixture = _fitted(z[~held_out], size, seed)
        return mixture, float(mixture.log_density(z[held_out][:, None]).mean())

    best: NormalMixture | None = None
    density, idle = -np.inf, 0
    # The first alone, then two at a time where there are two cores: the second may turn out not to be needed.
    step = 1 if one_at_a_time() else 2
    groups = [allowed[:1], *(allowed[i : i + step] for i in range(1, len(allowed), step))]
    with parallel_map(step) as map_:
        for group in groups:
            for mixture, reached in map_(tried, group):
                if idle < 2:
                    gains = best is None or reached > density + least_gain
                    best, density, idle = (mixture, reached, 0) if gains else (best, density, idle + 1)
            if idle == 2:
                break
    assert best is not None
    return best.fitted_to(z, seed)


def _fitted(
    z: np.ndarray,
    size: int,
    seed: int,
    start: NormalMixture | None = None,
    *,
    # Of a part, of residuals of unit variance.
    least_variance: float = 1e-5,
) -> NormalMixture:
    mixture = GaussianMixture(size, reg_covar=least_variance, random_state=seed, max_iter=200, tol=1e-4)
    if start is not None:
        precisions = np.swapaxes(start.factors, 1, 2) @ start.factors
        mixture.set_params(weights_init=start.weights, means_init=start.means, precisions_init=precisions)
    # The size is judged on held-out rows, whether or not the last digits have settled.
    with UNSETTLED:
        mixture.fit(z)
    # scikit-learn's are upper triangular: rows times them are standard normal.
    factors = np.ascontiguousarray(np.swapaxes(mixture.precisions_cholesky_, 1, 2))
    return NormalMixture(mixture.weights_, mixture.means_, factors)


# --- the distribution of standardised residuals ---


LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))


@dataclass(frozen=True)
class ResidualShape:
    """A normal mixture in one dimension, the same for all inputs."""

    # Shapes: log_shares, means, deviations (c,).
    log_shares: np.ndarray
    means: np.ndarray
    deviations: np.ndarray

    def log_density(self, z: Any, theta: Any = None, past: Any = None, xp: Any = np) -> Any:
        """Log densities of residuals (k, r), shape (k, r), whatever the inputs."""
        terms = [
            float(share) - float(np.log(s)) - LOG_ROOT_2PI - 0.5 * ((z - float(m)) * (1 / float(s))) ** 2
            for share, m, s in zip(self.log_shares, self.means, self.deviations, strict=True)
        ]
        return log_sum_exp(terms, xp)

    def parts(self, theta: Any = None, past: Any = None, xp: Any = np) -> list[tuple[Any, Any, Any]]:
        """Log share, mean and log deviation of each part."""
        logs = np.log(self.deviations)
        return [
            (float(a), float(m), float(s)) for a, m, s in zip(self.log_shares, self.means, logs, strict=True)
        ]

    def distribution(self, z: np.ndarray, theta: Any = None, past: Any = None) -> np.ndarray:
        """Distribution function, of the shape of z."""
        return ndtr((z[..., None] - self.means) / self.deviations) @ np.exp(self.log_shares)

    def draw(self, theta: np.ndarray, past: Any, rng: np.random.Generator) -> np.ndarray:
        """One residual for each row of parameters (k, q), shape (k,)."""
        n, shares = len(theta), np.exp(self.log_shares)
        part = rng.choice(len(shares), size=n, p=shares / shares.sum())
        return self.means[part] + self.deviations[part] * rng.standard_normal(n)


def mixture_log_mass(parts: Sequence[tuple[Any, Any, Any]], lower: Any, upper: Any, xp: Any = np) -> Any:
    """Log probability between two ends, of a mixture of log shares, means and log deviations."""
    terms = []
    for share, mean, log_deviation in parts:
        unit = xp.exp(-log_deviation)
        terms.append(share + log_between((lower - mean) * unit, (upper - mean) * unit, xp))
    return log_sum_exp(terms, xp)


def log_between(
    lower: Any,
    upper: Any,
    xp: Any = np,
    *,
    # Of a difference of logs: of ends that are one number up to rounding it has no logarithm.
    least_relative: float = 1e-300,
) -> Any:
    """Log probability of a standard normal between two ends, to all digits in either tail."""
    # In the upper tail by the lower one, where differences lose no digits.
    flipped = lower + upper > 0
    a, b = xp.where(flipped, -upper, lower), xp.where(flipped, -lower, upper)
    log_a, log_b = (log_ndtr(a), log_ndtr(b)) if xp is np else (_log_ndtr(a, xp), _log_ndtr(b, xp))
    return log_b + xp.log(-xp.expm1(xp.minimum(log_a - log_b, -least_relative)))


def _log_ndtr(z: Any, xp: Any) -> Any:
    """Log of the normal distribution function, whose gradient is finite everywhere."""
    low, high = xp.minimum(z, -1.0), xp.maximum(z, -1.0)
    tail = xp.log(0.5 * xp.erfcx(-low / np.sqrt(2.0))) - 0.5 * low**2
    return xp.where(z < -1.0, tail, xp.log1p(-0.5 * xp.erfc(high / np.sqrt(2.0))))


def log_sum_exp(terms: list[Any], xp: Any = np) -> Any:
    """Log of the sum of exponentials of arrays of one shape."""
    highest = terms[0]
    for term in terms[1:]:
        highest = xp.maximum(highest, term)
    total = xp.exp(terms[0] - highest)
    for term in terms[1:]:
        total = total + xp.exp(term - highest)
    return highest + xp.log(total)


def fit_shape(
    z: np.ndarray,
    rng: np.random.Generator,
    *,
    most_parts: int = 6,
    # Rows on which the number of parts is chosen, by this share of them.
    rows_for_parts: int = 6000,
    held_out_share: float = 0.25,
    # Nats of a held-out row, besides their standard error, for which another part is taken.
    least_gain: float = 1e-3,
) -> ResidualShape:
    """The mixture with the largest held-out density among those of one to `MOST_SHAPE_PARTS` parts."""
    # Shapes: z (n,).
    some = rng.permutation(z)[:rows_for_parts]
    fitted, held_out = np.split(some, [int((1 - held_out_share) * len(some))])
    best = fit_parts(fitted, 1, rng)
    logs = best.log_density(held_out)
    for parts in range(2, most_parts + 1):
        tried = fit_parts(fitted, parts, rng)
        new = tried.log_density(held_out)
        gain = new - logs
        if gain.mean() > least_gain + gain.std() / np.sqrt(len(gain)):
            best, logs = tried, new
        # Two modes of three parts may show with the third only: one size that gains nothing ends it not yet.
        elif parts > len(best.means) + 1:
            break
    return fit_parts(some, len(best.means), rng, best)


def fit_parts(
    z: np.ndarray,
    parts: int,
    rng: np.random.Generator,
    start: ResidualShape | None = None,
    *,
    # Of a part, in deviations of the residuals.
    least_deviation: float = 0.03,
) -> ResidualShape:
    """The mixture of largest likelihood, near a start if there is one, with a floor under its deviations."""
    mean, seed = float(z.mean()), int(rng.integers(2**31))
    least = float((least_deviation * z.std()) ** 2)
    if not 0 < least < np.inf:
        raise ValueError(
            f"residuals have mean {mean} and floor {least} of variances: no mixture describes them"
        )
    if parts == 1:
        return ResidualShape(np.zeros(1), np.array([mean]), np.array([np.sqrt(z.var() + least)]))
    # In one dimension all covariances are diagonal ones, which scikit-learn handles in a third less time.
    model = GaussianMixture(parts, covariance_type="diag", reg_covar=least, random_state=seed, tol=1e-4)
    if start is not None:
        model.set_params(
            weights_init=np.exp(start.log_shares),
            means_init=start.means[:, None] - mean,
            precisions_init=1 / start.deviations[:, None] ** 2,
        )
    # The likelihood's last digits do not matter: held-out rows choose. A mean far from zero would cost many.
    with UNSETTLED:
        model.fit(z[:, None] - mean)
    deviations = np.sqrt(model.covariances_[:, 0])
    return ResidualShape(np.log(model.weights_), mean + model.means_[:, 0], deviations)
