"""Normal mixtures of many small clouds of points at once, and moves that leave them as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, logsumexp

from pymc_kbr.estimators.likelihood.streams import Streams

FREEDOM = 8.0
"""Degrees of freedom of the components that moves are proposed from: tails above those of most targets."""

SEPARATE = 4.0
"""Deviations between the means of components that share a part of the target."""


class LocalMixture(NamedTuple):
    """One mixture of C components for each of b clouds in q dimensions.

    Attributes
    ----------
    log_weights : ndarray of shape (b, C)
    means : ndarray of shape (b, C, q)
    factors : ndarray of shape (b, C, q, q)
        Lower Cholesky factors of the covariances.
    inverses : ndarray of shape (b, C, q, q)
        Inverses of the factors.
    """

    log_weights: np.ndarray
    means: np.ndarray
    factors: np.ndarray
    inverses: np.ndarray

    def rows(self, which: np.ndarray) -> LocalMixture:
        """The mixtures of some clouds."""
        return LocalMixture(*(part[which] for part in self))


def fit_mixtures(
    points: np.ndarray, spread: np.ndarray, components: int, streams: Streams, rounds: int = 12
) -> LocalMixture:
    """Penalised expectation-maximisation, for all clouds at the same time.

    Parameters
    ----------
    points : ndarray of shape (b, n, q)
    spread : ndarray of shape (q,)
        Scale below whose millionth no covariance shrinks, so that clouds of one point have a mixture too.
    components : int
    streams : Streams
        One for each cloud.
    rounds : int, optional
        Rounds of expectation and maximisation.

    Returns
    -------
    LocalMixture
    """
    n, q = points.shape[1:]
    centre = points.mean(axis=1, keepdims=True)
    floor = 1e-12 * np.diag(spread**2)
    pooled = np.swapaxes(points - centre, 1, 2) @ (points - centre) / n
    pooled += floor + 1e-9 * pooled * np.eye(q)
    inverse = np.linalg.inv(np.linalg.cholesky(pooled))
    white = (points - centre) @ np.swapaxes(inverse, 1, 2)
    shares = _start(white, components, streams)
    identity, prior = np.eye(q), q + 2.0
    means = covariances = weights = np.empty(0)
    for _ in range(rounds):
        counts = shares.sum(axis=1)
        weights = (counts + 1) / (n + components)
        means = np.swapaxes(shares, 1, 2) @ white / np.maximum(counts, 1e-300)[..., None]
        gaps = white[:, None] - means[:, :, None]
        scatter = np.swapaxes(gaps * np.swapaxes(shares, 1, 2)[..., None], 2, 3) @ gaps
        # Each component borrows a few points' worth of the mean within-component covariance.
        within = scatter.sum(axis=1) / n + 1e-6 * identity
        covariances = (scatter + prior * within[:, None]) / (counts + prior)[..., None, None]
        factors = np.linalg.cholesky(covariances)
        mixture = LocalMixture(np.log(weights), means, factors, np.linalg.inv(factors))
        shares = np.exp(_normal_parts(mixture, white)[0])
        shares /= np.maximum(shares.sum(axis=2, keepdims=True), 1e-300)
    unwhiten = np.linalg.cholesky(pooled)
    factors = unwhiten[:, None] @ mixture.factors
    return LocalMixture(
        mixture.log_weights,
        centre + means @ np.swapaxes(unwhiten, 1, 2),
        factors,
        mixture.inverses @ inverse[:, None],
    )


def within_parts(mixture: LocalMixture) -> np.ndarray:
    """Covariances (b, q, q) within the separate parts of each mixture.

    Components whose means are within a few deviations of one another belong to one part, as do those with
    components between them: several components may describe one curved or heavy-tailed part.
    """
    covariances = mixture.factors @ np.swapaxes(mixture.factors, 2, 3)
    gaps = mixture.means[:, :, None] - mixture.means[:, None]
    both = (covariances[:, :, None] + covariances[:, None]) / 2
    squares = (gaps * np.linalg.solve(both, gaps[..., None])[..., 0]).sum(axis=3)
    joined = (squares < SEPARATE**2).astype(float)
    for _ in range(3):
        joined = (joined @ joined > 0).astype(float)
    weights = np.exp(mixture.log_weights)
    shares = joined * weights[:, None]
    shares /= shares.sum(axis=2, keepdims=True)
    between = mixture.means - shares @ mixture.means
    parts = covariances + between[..., None] * between[..., None, :]
    return (weights[..., None, None] * parts).sum(axis=1) / weights.sum(axis=1)[:, None, None]


def _start(white: np.ndarray, components: int, streams: Streams) -> np.ndarray:
    """Shares (b, n, C) of points by the nearest of centres that are far apart (k-means++)."""
    n = white.shape[1]
    rows = np.arange(len(white))
    first = (streams.uniform(1)[:, 0] * n).astype(int)
    centres = white[rows, first][:, None]
    nearest = ((white - centres) ** 2).sum(axis=2)
    for _ in range(1, components):
        race = streams.exponential(n) / np.maximum(nearest, 1e-300)
        centres = np.concatenate([centres, white[rows, race.argmin(axis=1)][:, None]], axis=1)
        nearest = np.minimum(nearest, ((white - centres[:, -1:]) ** 2).sum(axis=2))
    shares = np.empty(0)
    for _ in range(4):
        cross = white @ np.swapaxes(centres, 1, 2)
        closest = (((centres**2).sum(axis=2))[:, None] - 2 * cross).argmin(axis=2)
        shares = (closest[..., None] == np.arange(components)).astype(float)
        counts = shares.sum(axis=1)[..., None]
        moved = np.swapaxes(shares, 1, 2) @ white / np.maximum(counts, 1)
        centres = np.where(counts > 0, moved, centres)
    return shares


def _distances(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared Mahalanobis distances (b, m, C) and log determinants of the factors (b, C)."""
    gaps = points[:, None] - mixture.means[:, :, None]
    white = gaps @ np.swapaxes(mixture.inverses, 2, 3)
    squares = np.einsum("bcmq,bcmq->bmc", white, white)
    return squares, np.log(np.diagonal(mixture.factors, axis1=2, axis2=3)).sum(axis=2)


def log_normal_mixture(mixture: LocalMixture, points: np.ndarray) -> np.ndarray:
    """Log densities (b, m) of points (b, m, q) under the mixtures of normals."""
    squares, log_det = _distances(mixture, points)
    parts = (mixture.log_weights - log_det)[:, None] - squares / 2
    return logsumexp(parts, axis=2) - points.shape[2] / 2 * np.log(2 * np.pi)


def _normal_parts(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    squares, log_det = _distances(mixture, points)
    parts = (mixture.log_weights - log_det)[:, None] - squares / 2
    return parts - parts.max(axis=2, keepdims=True), squares


def _student_parts(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of each component's share of the density (b, m, C), and the squared distances."""
    q = points.shape[2]
    squares, log_det = _distances(mixture, points)
    constant = gammaln((FREEDOM + q) / 2) - gammaln(FREEDOM / 2) - q / 2 * np.log(FREEDOM * np.pi)
    parts = (mixture.log_weights - log_det)[:, None] + constant
    return parts - (FREEDOM + q) / 2 * np.log1p(squares / FREEDOM), squares


def propose_within(
    mixture: LocalMixture, points: np.ndarray, fresh: np.ndarray, step: np.ndarray, streams: Streams
) -> tuple[np.ndarray, np.ndarray]:
    """Moves that leave the mixture (with Student components) as it is.

    A point takes a component and a scale from their distribution given the point, or fresh ones, and then
    a step of an autoregressive process that the component's normal, of this scale, is stationary under.

    Parameters
    ----------
    mixture : LocalMixture of b mixtures
    points : ndarray of shape (b, m, q)
    fresh : ndarray of bool, shape (b, m)
        Where component and scale are drawn anew, and the step is a whole one.
    step : ndarray of shape (b, m)
        Share of the noise: 1 forgets the point, near 0 hardly moves it.
    streams : Streams

    Returns
    -------
    proposed : ndarray of shape (b, m, q)
    log_ratio : ndarray of shape (b, m)
        log g(point) - log g(proposed), which the target's ratio is multiplied with.

    Notes
    -----
    Preconditioned Crank-Nicolson steps for Student targets (R. D. P. Grumitt, M. Karamanis and U. Seljak,
    2024), one component at a time: reversible with respect to the mixture, as component and scale are
    auxiliary draws.
    """
    b, m, q = points.shape
    parts, squares = _student_parts(mixture, points)
    density = logsumexp(parts, axis=2)
    logs = np.where(fresh[..., None], mixture.log_weights[:, None], parts - density[..., None])
    shares = np.cumsum(np.exp(logs), axis=2)
    picked = np.minimum(
        (shares < streams.uniform(m)[..., None] * shares[..., -1:]).sum(axis=2), logs.shape[2] - 1
    )
    rows = np.arange(b)[:, None]
    square = np.where(fresh, 0.0, np.take_along_axis(squares, picked[..., None], axis=2)[..., 0])
    shape = np.where(fresh, FREEDOM / 2, (FREEDOM + q) / 2)
    precision = streams.gamma(shape) / ((FREEDOM + square) / 2)
    noise = np.matmul(mixture.factors[rows, picked], streams.normal(m, q)[..., None])[..., 0]
    centre = mixture.means[rows, picked]
    keep = np.where(fresh, 0.0, np.sqrt(1 - step**2))[..., None]
    size = np.where(fresh, 1.0, step) / np.sqrt(precision)
    proposed = centre + keep * (points - centre) + size[..., None] * noise
    return proposed, density - logsumexp(_student_parts(mixture, proposed)[0], axis=2)
