"""The posterior of a kernel mean embedding, given a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.stats import norm

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import flag, positive, whole
from pymc_kbr.arrays.refusals import probability as refuse_probability
from pymc_kbr.arrays.rows import as_points, column_names, in_order, refuse_constant
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import choose_lengthscale, gaussian
from pymc_kbr.embedding.marginal_likelihood import LebesgueMeasure, Measure, check_measure


@default_arithmetic
class BayesianKernelEmbedding:
    """A Gaussian process on the kernel mean embedding of a sample's distribution.

    Parameters
    ----------
    lengthscale : "bayesian", "median", float or sequence of float, length D
        Of the Gaussian kernel; learnt by maximum marginal likelihood, the median heuristic, or given, one
        for all dimensions or one for each.
    noise : float
        sigma^2, the variance of the empirical embedding about the true one at a point; 0.1 as in the paper.
    measure : Measure, optional
        nu, from which the prior's covariance is made: a `LebesgueMeasure` or `GaussianMeasure` of
        `pymc_kbr.embedding.marginal_likelihood`; the normalised Lebesgue measure where left out.
    separate : bool
        Whether each dimension has a learnt lengthscale of its own.
    landmarks : int, optional
        Rows through which the posterior is formed where there are more than 3000; 500 where left out.

    Attributes
    ----------
    lengthscale_ : ndarray of shape (D,)
    kernel_ : Gaussian
    learnt_ : LearntLengthscale or None
        All maxima of the marginal likelihood, where the lengthscale was learnt.

    Notes
    -----
    The prior mu ~ GP(0, r), r(x, y) = int k(x, u) k(u, y) nu(du) (eq. 3 and 4 of [1]_), gives draws that lie
    in the kernel's space. The empirical embedding m at each row is normal about mu there (eq. 5), so that
    mu given the rows is normal (eq. 7 and 8): with C = R + sigma^2 I its mean at x is r(x)' C^-1 m, its
    covariance r(x, y) - r(x)' C^-1 r(y). The variance is about m, whose own error falls with the number of
    rows; at sigma^2 = 0.1 intervals say more of the prior than of that error.

    References
    ----------
    .. [1] S. Flaxman, D. Sejdinovic, J. Cunningham, S. Filippi, Bayesian learning of kernel embeddings, UAI
       (2016).

    Examples
    --------
    >>> x = np.random.default_rng(1).normal(size=200)
    >>> embedding = BayesianKernelEmbedding(0.5, noise=0.01).fit(x)
    >>> embedding.mean([0.0]).round(1)  # of a normal distribution it is 0.447
    array([0.5])
    """

    def __init__(
        self,
        lengthscale: str | float | Sequence[float] = "bayesian",
        noise: float = 0.1,
        measure: Measure | None = None,
        separate: bool = False,
        landmarks: int | None = None,
    ) -> None:
        self.lengthscale, self.noise, self.measure = lengthscale, noise, measure
        self.separate, self.landmarks = separate, landmarks

    def fit(self, points: Any) -> Self:
        """Condition on a sample.

        Parameters
        ----------
        points : array_like of shape (n,) or (n, D)

        Returns
        -------
        BayesianKernelEmbedding
            Itself.

        Raises
        ------
        TypeError, ValueError
            If it is no array of finite numbers, has one row, or a constant column, or an argument is out of
            range.
        numpy.linalg.LinAlgError
            If the covariance is singular with so little noise.
        """
        positive("noise", self.noise)
        flag("separate", self.separate)
        if self.landmarks is not None:
            whole("landmarks", self.landmarks)
        self._names = column_names(points)
        points = as_points("the points", points)
        check_measure(self.measure, points.shape[1])
        refuse_constant("the points", points)
        self.points_ = points
        self.measure_ = LebesgueMeasure() if self.measure is None else self.measure
        self.lengthscale_, self.learnt_ = choose_lengthscale(
            self.lengthscale, points, separate=self.separate, noise=self.noise, measure=self.measure_
        )
        self.kernel_ = gaussian(self.lengthscale_)
        self._solved = self._conditioned(points, self.empirical(points))
        return self

    def empirical(self, at: Any) -> np.ndarray:
        """The empirical embedding (eq. 2): the mean of the kernel between points and the sample.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)

        Returns
        -------
        ndarray of shape (l,)

        Raises
        ------
        ValueError
            If nothing was fitted, or the points have other columns.
        """
        at = self._at(at)
        # So that four million entries of a matrix are formed at once.
        parts = np.array_split(at, -(-len(at) * len(self.points_) // 4_000_000))
        return np.concatenate([self.kernel_(part, self.points_).mean(axis=1) for part in parts])

    def mean(self, at: Any) -> np.ndarray:
        """The posterior mean (eq. 7) of the embedding.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)

        Returns
        -------
        ndarray of shape (l,)

        Raises
        ------
        ValueError
            If nothing was fitted, or the points have other columns.
        """
        at = self._at(at)
        return self._cross(at) @ self._solved.weights

    def covariance(self, at: Any) -> np.ndarray:
        """The posterior covariance (eq. 8) of the embedding's values.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)

        Returns
        -------
        ndarray of shape (l, l)

        Raises
        ------
        ValueError
            If nothing was fitted, or the points have other columns.
        """
        at = self._at(at)
        cross = self._cross(at)
        return self.measure_.covariance(at, at, self.lengthscale_) - cross @ self._solved.explained(cross)

    def deviation(self, at: Any) -> np.ndarray:
        """The posterior's standard deviation.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)

        Returns
        -------
        ndarray of shape (l,)

        Raises
        ------
        ValueError
            If nothing was fitted, or the points have other columns.
        """
        at = self._at(at)
        cross = self._cross(at)
        explained = np.einsum("ij,ji->i", cross, self._solved.explained(cross))
        variance = self.measure_.variance(at, self.lengthscale_) - explained
        return np.sqrt(np.maximum(variance, 0))  # rounding may leave less than zero

    def interval(self, at: Any, probability: float = 0.8) -> np.ndarray:
        """Central intervals of the embedding at each point by itself.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)
        probability : float, between 0 and 1

        Returns
        -------
        ndarray of shape (l, 2)

        Raises
        ------
        TypeError, ValueError
            If nothing was fitted, or the points have other columns, or the probability is out of range.
        """
        refuse_probability("probability", probability)
        half = norm.ppf(0.5 + probability / 2) * self.deviation(at)
        mean = self.mean(at)
        return np.stack([mean - half, mean + half], axis=1)

    def draw(self, at: Any, draws: int, random_seed: int | np.random.Generator | None = None) -> np.ndarray:
        """Draws from the posterior of the embedding's values.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)
        draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of shape (draws, l)

        Raises
        ------
        TypeError, ValueError
            If nothing was fitted, or the points have other columns, or there is to be no draw.
        """
        return self.mean(at) + _drawn(self.covariance(at), draws, random_seed)

    def draw_prior(
        self, at: Any, draws: int, random_seed: int | np.random.Generator | None = None
    ) -> np.ndarray:
        """Draws from the prior (eq. 3) of the embedding's values.

        Parameters
        ----------
        at : array_like of shape (l,) or (l, D)
        draws : int
        random_seed : int or numpy.random.Generator, optional

        Returns
        -------
        ndarray of shape (draws, l)

        Raises
        ------
        TypeError, ValueError
            If nothing was fitted, or the points have other columns, or there is to be no draw.
        """
        at = self._at(at)
        return _drawn(self.measure_.covariance(at, at, self.lengthscale_), draws, random_seed)

    def _conditioned(
        self,
        points: np.ndarray,
        values: np.ndarray,
        *,
        # Rows up to which the prior's covariance is formed whole.
        most_whole: int = 3000,
    ) -> Conditioned | ThroughLandmarks:
        """The prior's process given the empirical embedding (n,) at points (n, D)."""
        given = self.measure_, self.lengthscale_, self.noise
        try:
            if len(points) <= most_whole and self.landmarks is None:
                return Conditioned.on(points, values, *given)
            # Landmarks that coincide would make their covariance singular.
            landmarks = np.unique(points[spread_out(len(points), self.landmarks or 500)], axis=0)
            return ThroughLandmarks.on(points, values, landmarks, *given)
        except np.linalg.LinAlgError:
            raise np.linalg.LinAlgError(
                f"the covariance is not positive definite with noise {self.noise}; take a larger one"
            ) from None

    def _cross(self, at: np.ndarray) -> np.ndarray:
        return self.measure_.covariance(at, self._solved.landmarks, self.lengthscale_)

    def _at(self, at: Any) -> np.ndarray:
        if not hasattr(self, "points_"):
            raise ValueError("this BayesianKernelEmbedding is not fitted; call `fit` first")
        name = "the points at which it is evaluated"
        at = as_points(name, in_order(name, at, "those it was fitted to", self._names), least=1)
        if at.shape[1] != self.points_.shape[1]:
            raise ValueError(
                f"the points have {at.shape[1]} columns; it was fitted to {self.points_.shape[1]}"
            )
        return at


def _drawn(
    covariance: np.ndarray,
    draws: int,
    seed: int | np.random.Generator | None,
    *,
    # Added to the diagonal before draws are made, over the mean variance: against rounding.
    drawn_jitter: float = 1e-10,
) -> np.ndarray:
    """Draws (draws, l) of a normal distribution about zero whose covariance may be singular."""
    whole("draws", draws)
    rng = np.random.default_rng(seed)
    covariance = covariance + drawn_jitter * np.mean(np.diag(covariance)) * np.eye(len(covariance))
    values, vectors = np.linalg.eigh(covariance)
    return rng.normal(size=(draws, len(values))) * np.sqrt(np.maximum(values, 0)) @ vectors.T


# --- Gaussian process regression, exact or by landmarks ---


@dataclass(frozen=True, eq=False)
class Conditioned:
    """The process given its values at all its points."""

    # Shapes: landmarks (m, D); weights (m,).
    landmarks: np.ndarray
    weights: np.ndarray
    factor: Any

    @classmethod
    def on(
        cls, points: np.ndarray, values: np.ndarray, measure: Measure, lengthscale: np.ndarray, noise: float
    ) -> Self:
        """Given values (n,) at points (n, D)."""
        covariance = measure.covariance(points, points, lengthscale)
        covariance.flat[:: len(points) + 1] += noise
        factor = cho_factor(covariance, lower=True)
        return cls(points, cho_solve(factor, values), factor)

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """E (m, l), with c' E the variance that the values explain, of covariances c (l, m)."""
        return cho_solve(self.factor, cross.T)


@dataclass(frozen=True, eq=False)
class ThroughLandmarks:
    """The same with Nystroem's covariance U A^-1 U', of the rows with m landmarks (U) and theirs (A)."""

    # Shapes: triangle (m, m).
    landmarks: np.ndarray
    weights: np.ndarray
    triangle: np.ndarray
    factor: Any
    noise: float

    @classmethod
    def on(
        cls,
        points: np.ndarray,
        values: np.ndarray,
        landmarks: np.ndarray,
        measure: Measure,
        lengthscale: np.ndarray,
        noise: float,
        *,
        # Of the mean variance, added to the covariance of the landmarks.
        jitter: float = 1e-7,
        # Of matrices of many rows.
        entries_at_once: int = 4_000_000,
    ) -> Self:
        """Given values (n,) at points (n, D), through landmarks (m, D) of which no two coincide."""
        own = measure.covariance(landmarks, landmarks, lengthscale)
        own.flat[:: len(own) + 1] += jitter * np.mean(np.diag(own))
        triangle = cholesky(own, lower=True)
        inner, projected = noise * np.eye(len(own)), np.zeros(len(own))
        for rows in np.array_split(np.arange(len(points)), -(-len(points) * len(own) // entries_at_once)):
            cross = measure.covariance(points[rows], landmarks, lengthscale)
            v = solve_triangular(triangle, cross.T, lower=True)
            inner += v @ v.T
            projected += v @ values[rows]
        factor = cho_factor(inner, lower=True)
        weights = solve_triangular(triangle, cho_solve(factor, projected), lower=True, trans="T")
        return cls(landmarks, weights, triangle, factor, noise)

    def explained(self, cross: np.ndarray) -> np.ndarray:
        """As of `Conditioned`: A^-1 - sigma^2 (L B L')^-1, times the covariances."""
        # By Woodbury's identity, which makes that of A^-1 U' C^-1 U A^-1.
        half = solve_triangular(self.triangle, cross.T, lower=True)
        return solve_triangular(
            self.triangle, half - self.noise * cho_solve(self.factor, half), lower=True, trans="T"
        )
