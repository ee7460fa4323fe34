"""Normal mixtures of many small clouds of points at once, and moves that leave them as they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_kbr.estimators.likelihood.streams import Streams

FREEDOM = 15.0
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

    def replaced(self, other: LocalMixture, which: np.ndarray) -> LocalMixture:
        """The other's mixtures for some clouds."""
        return LocalMixture(
            *(
                np.where(which.reshape(-1, *[1] * (mine.ndim - 1)), theirs, mine)
                for mine, theirs in zip(self, other, strict=True)
            )
        )

    def rows(self, which: np.ndarray) -> LocalMixture:
        """The mixtures of some clouds."""
        return LocalMixture(*(part[which] for part in self))


def fit_mixtures(
    points: np.ndarray, spread: np.ndarray, sizes: tuple[int, ...], streams: Streams, rounds: int = 10
) -> LocalMixture:
    """Penalised expectation-maximisation for all clouds at the same time, of the size that fits each best.

    Parameters
    ----------
    points : ndarray of shape (b, n, q)
    spread : ndarray of shape (q,)
        Scale below whose millionth no covariance shrinks, so that clouds of one point have a mixture too.
    sizes : tuple of int
        Numbers of components, rising; each cloud gets the best of them by its penalised log-likelihood, and
        components of weight zero up to the largest.
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
    pooled = np.swapaxes(points - centre, 1, 2) @ (points - centre) / n
    pooled += 1e-12 * np.diag(spread**2) + 1e-9 * pooled * np.eye(q)
    unwhiten = np.linalg.cholesky(pooled)
    inverse = np.linalg.inv(unwhiten)
    white = (points - centre) @ np.swapaxes(inverse, 1, 2)
    best, score = None, np.full(len(points), -np.inf)
    for size in sizes:
        mixture = _padded(_maximise(white, size, streams, rounds), sizes[-1])
        # Points repeat after resampling and count less than they are: the penalty is doubled.
        penalty = 2 * size * (1 + q * (q + 3) / 2)
        found = log_normal_mixture(mixture, white).sum(axis=1) - penalty if len(sizes) > 1 else score
        better = found > score
        score = np.where(better, found, score)
        best = mixture if best is None else best.replaced(mixture, better)
    assert best is not None
    return LocalMixture(
        best.log_weights,
        centre + best.means @ np.swapaxes(unwhiten, 1, 2),
        unwhiten[:, None] @ best.factors,
        best.inverses @ inverse[:, None],
    )


def _maximise(white: np.ndarray, size: int, streams: Streams, rounds: int) -> LocalMixture:
    b, n, q = white.shape
    products = (white[..., :, None] * white[..., None, :]).reshape(b, n, q * q)
    shares = _start(white, size, streams)
    identity, prior = np.eye(q), q + 2.0
    for _ in range(rounds if size > 1 else 1):
        counts = shares.sum(axis=2)
        means = shares @ white / np.maximum(counts, 1e-300)[..., None]
        scatter = (shares @ products).reshape(b, size, q, q)
        scatter -= counts[..., None, None] * means[..., :, None] * means[..., None, :]
        # Each component borrows a few points' worth of the mean within-component covariance.
        within = scatter.sum(axis=1) / n + 1e-9 * identity
        covariances = (scatter + prior * within[:, None]) / (counts + prior)[..., None, None]
        factors = np.linalg.cholesky(covariances)
        mixture = LocalMixture(np.log((counts + 1) / (n + size)), means, factors, np.linalg.inv(factors))
        parts = _normal_parts(mixture, white)
        shares = np.exp(parts - parts.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
    return mixture


def _padded(mixture: LocalMixture, size: int) -> LocalMixture:
    """Copies of the first component, of weight zero, up to a number of components."""
    more = size - mixture.means.shape[1]
    parts = [np.concatenate([part, np.repeat(part[:, :1], more, axis=1)], axis=1) for part in mixture]
    parts[0][:, size - more :] = -np.inf
    return LocalMixture(*parts)


def parts(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The separate parts of each mixture.

    Components with one's mean within a few deviations of the other belong to one part, as do those with
    components between them: several components may describe one curved or heavy-tailed part.

    Parameters
    ----------
    mixture : LocalMixture of b mixtures
    points : ndarray of shape (b, n, q)

    Returns
    -------
    within : ndarray of shape (b, q, q)
        Mean covariance within parts.
    membership : ndarray of int, shape (b, n)
        The part of each point.
    """
    covariances = mixture.factors @ np.swapaxes(mixture.factors, 2, 3)
    gaps = mixture.means[:, :, None] - mixture.means[:, None]
    white = np.swapaxes(mixture.inverses, 2, 3)
    squares = ((gaps @ white) ** 2).sum(axis=3)
    # Near in the metric of either: a narrow component may lie within a wide one.
    joined = (np.minimum(squares, np.swapaxes(squares, 1, 2)) < SEPARATE**2).astype(float)
    # Each product doubles the length of the chains that are followed: eight components have no longer one.
    for _ in range(3):
        joined = (joined @ joined > 0).astype(float)
    weights = np.exp(mixture.log_weights)
    shares = joined * weights[:, None]
    shares /= shares.sum(axis=2, keepdims=True)
    between = mixture.means - shares @ mixture.means
    around = covariances + between[..., None] * between[..., None, :]
    within = (weights[..., None, None] * around).sum(axis=1) / weights.sum(axis=1)[:, None, None]
    closest = _normal_parts(mixture, points).argmax(axis=1)
    return within, np.take_along_axis(joined.argmax(axis=2), closest, axis=1)


def _start(white: np.ndarray, components: int, streams: Streams) -> np.ndarray:
    """Shares (b, C, n) of points by the nearest of centres that are far apart (k-means++)."""
    n = white.shape[1]
    rows = np.arange(len(white))
    first = (streams.uniform(1)[:, 0] * n).astype(int)
    centres = white[rows, first][:, None]
    nearest = ((white - centres) ** 2).sum(axis=2)
    for _ in range(1, components):
        # The first of clocks with these rates is a draw in proportion to squared distances.
        race = streams.exponential(n) / np.maximum(nearest, 1e-300)
        centres = np.concatenate([centres, white[rows, race.argmin(axis=1)][:, None]], axis=1)
        nearest = np.minimum(nearest, ((white - centres[:, -1:]) ** 2).sum(axis=2))
    shares = np.empty(0)
    for _ in range(4):
        cross = centres @ np.swapaxes(white, 1, 2)
        closest = ((centres**2).sum(axis=2)[..., None] - 2 * cross).argmin(axis=1)
        shares = (closest[:, None] == np.arange(components)[:, None]).astype(float)
        counts = shares.sum(axis=2)[..., None]
        moved = shares @ white / np.maximum(counts, 1)
        centres = np.where(counts > 0, moved, centres)
    return shares


def _distances(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Squared Mahalanobis distances (b, C, m) and log determinants of the factors (b, C)."""
    b, size, q = mixture.means.shape
    white = mixture.inverses.reshape(b, size * q, q) @ np.swapaxes(points, 1, 2)
    white -= (mixture.inverses @ mixture.means[..., None]).reshape(b, size * q, 1)
    white *= white
    # Sums over coordinates as a product: reductions along short axes are slow.
    squares = np.repeat(np.eye(size), q, axis=1) @ white
    return squares, np.log(np.diagonal(mixture.factors, axis1=2, axis2=3)).sum(axis=2)


def log_normal_mixture(mixture: LocalMixture, points: np.ndarray) -> np.ndarray:
    """Log densities (b, m) of points (b, m, q) under the mixtures of normals."""
    return log_sum(_normal_parts(mixture, points)) - points.shape[2] / 2 * np.log(2 * np.pi)


def _normal_parts(mixture: LocalMixture, points: np.ndarray) -> np.ndarray:
    squares, log_det = _distances(mixture, points)
    return (mixture.log_weights - log_det)[..., None] - squares / 2


def _student_parts(mixture: LocalMixture, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log of each component's share of the density (b, C, m), and the squared distances."""
    q = points.shape[2]
    squares, log_det = _distances(mixture, points)
    constant = gammaln((FREEDOM + q) / 2) - gammaln(FREEDOM / 2) - q / 2 * np.log(FREEDOM * np.pi)
    parts = (mixture.log_weights - log_det)[..., None] + constant
    return parts - (FREEDOM + q) / 2 * np.log1p(squares / FREEDOM), squares


def log_sum(parts: np.ndarray) -> np.ndarray:
    """Log of the sum of exponentials along the middle axis, of which one at least is finite."""
    top = parts.max(axis=1)
    return top + np.log(np.exp(parts - top[:, None]).sum(axis=1))


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
    density = log_sum(parts)
    logs = np.where(fresh[:, None], mixture.log_weights[..., None], parts - density[:, None])
    shares = np.cumsum(np.exp(logs), axis=1)
    picked = np.minimum((shares < streams.uniform(1, m) * shares[:, -1:]).sum(axis=1), logs.shape[1] - 1)
    rows = np.arange(b)[:, None]
    square = np.where(fresh, 0.0, np.take_along_axis(squares, picked[:, None], axis=1)[:, 0])
    # Given the point, the precision of Student's law is gamma distributed with q degrees of freedom more.
    shape = np.where(fresh, FREEDOM / 2, (FREEDOM + q) / 2)
    precision = streams.gamma(shape) / ((FREEDOM + square) / 2)
    noise = np.matmul(mixture.factors[rows, picked], streams.normal(m, q)[..., None])[..., 0]
    centre = mixture.means[rows, picked]
    keep = np.where(fresh, 0.0, np.sqrt(1 - step**2))[..., None]
    size = np.where(fresh, 1.0, step) / np.sqrt(precision)
    proposed = centre + keep * (points - centre) + size[..., None] * noise
    return proposed, density - log_sum(_student_parts(mixture, proposed)[0])
