"""A belief by its moments: the Gaussian filter and smoother on regressions learnt from the training."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm, qmc
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.filtering.training import Training
from pymc_kbr.kernels import Gaussian, median_heuristic
from pymc_kbr.regression.kernel_ridge import KernelRegression, RidgeRegression


def applies(training: Training, rows_for_each: int = 10) -> bool:
    """Whether there are enough rows for regressions and covariances of all columns, ten for each."""
    columns = training.states.shape[1] + (0 if training.controls is None else training.controls.shape[1])
    columns = max(columns, training.observations.shape[1])
    rows = (
        len(training.pairs)
        if not len(training.previous)
        else min(len(training.pairs), len(training.previous))
    )
    return rows >= rows_for_each * columns


def better(gains: np.ndarray) -> bool:
    """Whether gains (n,) are above zero by two standard errors."""
    return bool(gains.mean() > 2 * gains.std(ddof=1) / np.sqrt(len(gains)))


# --- what is learnt of one step, or of an observation ---


class Mean:
    """A linear regression, plus a kernel regression of what it leaves where that is better on evidence."""

    # Shapes: x (n, q); y (n, t); residuals (n, t), of rows that are left out.
    def __init__(self, x: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> None:
        self._centre = x.mean(axis=0)
        centred = x - self._centre
        self._linear = RidgeRegression(centred, y)
        self.residuals, self._rest = self._linear.residuals, None
        # Of columns that are the same in all rows nothing is learnt.
        self._inverse = np.linalg.pinv(centred.T @ centred)
        self._count = len(x)
        left = self.residuals
        unit = unit_deviations(left)
        # A wide kernel's smallest eigenvalues bend it: they are kept.
        rest = KernelRegression(x, left, rng, tolerance=1e-9) if np.ptp(x, axis=0).any() else None
        if rest is not None and better(
            np.sum((self.residuals / unit) ** 2 - (rest.residuals / unit) ** 2, 1)
        ):
            self._rest, self.residuals = rest, rest.residuals

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Means (k, t) at rows (k, q): away from the training they go on along the linear regression."""
        found = self._linear.predict(x - self._centre)
        return found if self._rest is None else found + self._rest.predict(x)

    def excess(self, x: np.ndarray) -> float:
        """The variance of the estimate at x (q,), in variances of the residuals: it grows with distance."""
        apart = x - self._centre
        return float(1 / self._count + apart @ self._inverse @ apart)


class Noise:
    """The errors about a mean: a covariance, local where that is better, in the shape of a mixture."""

    # Shapes: x (n, q); residuals (n, t); unit (t,), the targets' deviations.
    def __init__(
        self,
        x: np.ndarray,
        residuals: np.ndarray,
        unit: np.ndarray,
        scales: tuple[float, ...] = (0.25, 0.5, 1.0),
        most: int = 2000,
        components: int = 3,
    ) -> None:
        rows = spread_out(len(x), most)
        x, residuals = x[rows], residuals[rows]
        t = residuals.shape[1]
        self._outer = residuals[:, :, None] * residuals[:, None]
        # What is known without error would leave a singular covariance: rounding alone is left of it.
        self._outer = self._outer + 1e-9 * np.diag(unit**2)
        self._whole = self._outer.mean(axis=0)
        self._rows = x
        self._kernel: Gaussian | None = None
        covariances = np.broadcast_to(self._whole, self._outer.shape)
        base, best = _log_densities(residuals, covariances), 0.0
        # As many rows of the whole covariance as it has coefficients in each column.
        self._rows_of_whole = 2.0 * t
        for kernel in [Gaussian(scale * median_heuristic(x)) for scale in scales if np.ptp(x, axis=0).any()]:
            near = kernel(x)
            np.fill_diagonal(near, 0)
            local = self._local(near)
            gains = _log_densities(residuals, local) - base
            if gains.mean() > best and better(gains):
                best, self._kernel, covariances = float(gains.mean()), kernel, local
        roots = np.linalg.cholesky(covariances)
        self.mixture = Mixture.of(np.linalg.solve(roots, residuals[:, :, None])[:, :, 0], components)

    def _local(self, near: np.ndarray) -> np.ndarray:
        total = np.tensordot(near, self._outer, 1) + self._rows_of_whole * self._whole
        return total / (near.sum(axis=1) + self._rows_of_whole)[:, None, None]

    def root(self, x: np.ndarray) -> np.ndarray:
        """The Cholesky factor (t, t) of the covariance at x (q,)."""
        covariance = self._whole
        if self._kernel is not None:
            covariance = self._local(self._kernel(x[None], self._rows))[0]
        return np.linalg.cholesky(covariance)

    def at(self, x: np.ndarray, excess: float) -> tuple[np.ndarray, np.ndarray]:
        """Means (k, t) and covariances (k, t, t) of the components at x, with the mean's own variance."""
        root = self.root(x)
        covariances = root @ self.mixture.covariances @ root.T + excess * root @ root.T
        return self.mixture.means @ root.T, covariances


def _log_densities(residuals: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """Of normal distributions of mean zero, up to a constant."""
    solved = np.linalg.solve(covariances, residuals[:, :, None])[:, :, 0]
    return -0.5 * np.sum(solved * residuals, axis=1) - 0.5 * np.linalg.slogdet(covariances)[1]


def _of_components(residuals: np.ndarray, covariances: np.ndarray) -> np.ndarray:
    """The same (k, m) of m residuals (k, m, t) from each of k components (k, t, t)."""
    solved = np.linalg.solve(covariances, np.swapaxes(residuals, 1, 2))
    squares = np.sum(solved * np.swapaxes(residuals, 1, 2), axis=1)
    return -0.5 * squares - 0.5 * np.linalg.slogdet(covariances)[1][:, None]


class Mixture(NamedTuple):
    """Normal components: logarithms of shares (k,), means (k, t), covariances (k, t, t)."""

    shares: np.ndarray
    means: np.ndarray
    covariances: np.ndarray

    @classmethod
    def of(cls, rows: np.ndarray, components: int) -> Mixture:
        """Of rows (n, t) of mean about zero, with as many components as the BIC asks for."""
        t = rows.shape[1]
        single = cls(np.zeros(1), np.zeros((1, t)), np.eye(t)[None])
        found = []
        for k in range(1, components + 1):
            # A component needs more rows than a covariance has coefficients.
            if len(rows) > k * (t + 1) * (t + 2):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    made = GaussianMixture(k, random_state=0).fit(rows)
                found.append((made.bic(rows), made))
        if not found:
            return single
        best = min(found, key=lambda one: one[0])[1]
        if best.n_components == 1:
            return single
        # The mean is the regression's alone.
        return cls(np.log(best.weights_), best.means_ - best.weights_ @ best.means_, best.covariances_)


# --- the belief ---


@dataclass(frozen=True, eq=False)
class Moments:
    """A normal belief: mean (p,) and covariance (p, p), scaled."""

    mean: np.ndarray
    covariance: np.ndarray


@cache
def standard_points(p: int, least: int) -> np.ndarray:
    """Points (m, p) of mean zero and covariance one, spread evenly over the standard normal distribution."""
    # Each has its mirror image: odd moments are exact, too.
    power = int(np.ceil(np.log2(max(least / 2, 2 * p))))
    count = 2**power
    # Without scrambling they are multiples of 1 / count: in the middle between them none is zero.
    scores = norm.ppf(qmc.Sobol(p, scramble=False).random_base2(power) + 0.5 / count)
    scores = np.vstack([scores, -scores])
    scores = np.linalg.solve(np.linalg.cholesky(scores.T @ scores / (2 * count)), scores.T).T
    scores.flags.writeable = False  # all callers share them
    return scores


def normal_atoms(moments: Moments, least: int = 512) -> np.ndarray:
    """Equally weighted points (m, p) with these moments, spread evenly over the normal distribution."""
    points = standard_points(len(moments.mean), least)
    return moments.mean + points @ roots_of(moments.covariance[None])[0].T


class Step(NamedTuple):
    """One step ahead: components of the prediction, and the covariance of the state with its mean."""

    # Shapes: shares (k,); means (k, p); covariances (k, p, p); cross (p, p).
    shares: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    cross: np.ndarray


class Seen(NamedTuple):
    """What is expected of an observation: components of its prediction; covariance with the state."""

    # A component is one of the state's prediction (k) with one of the observation's errors (l).

    # Shapes: shares (k, l); means (k, l, d); covariances (k, l, d, d); cross (k, p, d).
    shares: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    cross: np.ndarray

    @property
    def mixture(self) -> Mixture:
        """The prediction of the observation (k l components)."""
        d = self.means.shape[2]
        shares = self.shares.ravel()
        return Mixture(
            shares - logsumexp(shares), self.means.reshape(-1, d), self.covariances.reshape(-1, d, d)
        )


def merged(shares: np.ndarray, means: np.ndarray, covariances: np.ndarray) -> Moments:
    """The moments of a mixture, of which the shares are logarithms up to a constant."""
    weights = np.exp(shares - logsumexp(shares))
    mean = weights @ means
    apart = means - mean
    covariance = np.tensordot(weights, covariances, 1) + (weights[:, None] * apart).T @ apart
    return Moments(mean, (covariance + covariance.T) / 2)


def roots_of(covariances: np.ndarray) -> np.ndarray:
    """Factors R (k, p, p) with R R' the covariances, which may be singular."""
    values, vectors = np.linalg.eigh(covariances)
    return vectors * np.sqrt(np.maximum(values, 0))[:, None]


def sigma_points(
    means: np.ndarray,
    covariances: np.ndarray,
    # On systems that bend within a belief the 2 p points of cubature have up to a tenth more error, and 128
    # points have the same as 32.
    least: int = 32,
) -> np.ndarray:
    """Points (k, m, p) with the moments of each of k normal distributions."""
    points = standard_points(means.shape[1], least)
    return means[:, None] + points @ np.swapaxes(roots_of(covariances), 1, 2)


class GaussianFilter:
    """Moments of the state at each time, from learnt regressions of the next state and of the observation."""

    # A mixture after each update is merged before the next step (Alspach and Sorenson 1972); points with the
    # belief's moments go through the regressions (Särkkä and Svensson 2023, chapter 8); the smoother is that
    # of Rauch, Tung and Striebel within each component of the step ahead.

    def __init__(
        self, training: Training, draw: object = None, seed: int = 0, like: GaussianFilter | None = None
    ) -> None:
        rng = np.random.default_rng(seed)
        z, pairs = training.states, training.pairs
        if like is None:
            self._sees = Mean(z[pairs], training.observations, rng)
            self._seen_noise = Noise(z[pairs], self._sees.residuals, unit_deviations(training.observations))
        else:
            # Another transition alone: what is seen of a state is the same.
            self._sees, self._seen_noise = like._sees, like._seen_noise
        self._controlled = training.controls is not None
        rows, spread = z[training.previous], None
        if draw is None:
            after = z[training.following]
        else:
            rows = rows if self._controlled else z[pairs]
            draws = draw(training.controls, rows)  # type: ignore[operator]
            after, count = draws.mean(axis=1), draws.shape[1]
            spread = draws - after[:, None]
        if training.controls is not None:
            rows = np.hstack([rows, training.controls])
        self._moves = Mean(rows, after, rng)
        if spread is None:
            self._step_noise = Noise(rows, self._moves.residuals, unit_deviations(z))
        else:
            flat = spread.reshape(-1, spread.shape[2]) * np.sqrt(count / max(count - 1, 1))
            self._step_noise = Noise(np.repeat(rows, count, axis=0), flat, unit_deviations(z))
        self.start = moments_of_draws(z[pairs])

    def predict(self, belief: Moments, control: np.ndarray | None = None) -> Step:
        """One step ahead."""
        points = sigma_points(belief.mean[None], belief.covariance[None])[0]
        mean = belief.mean
        rows = points
        if control is not None:
            rows = np.hstack([points, np.tile(control, (len(points), 1))])
            mean = np.concatenate([mean, control])
        after = self._moves(rows)
        centre = after.mean(axis=0)
        apart = after - centre
        shifts, covariances = self._step_noise.at(mean, self._moves.excess(mean))
        return Step(
            self._step_noise.mixture.shares,
            centre + shifts,
            apart.T @ apart / len(points) + covariances,
            (points - belief.mean).T @ apart / len(points),
        )

    def seen(self, ahead: Step) -> Seen:
        """What is expected of the observation of a predicted state."""
        k, p = ahead.means.shape
        points = sigma_points(ahead.means, ahead.covariances)
        count = points.shape[1]
        seen = self._sees(points.reshape(-1, p)).reshape(k, count, -1)
        expected = seen.mean(axis=1)
        apart = seen - expected[:, None]
        spread = np.swapaxes(apart, 1, 2) @ apart / count
        cross = np.swapaxes(points - ahead.means[:, None], 1, 2) @ apart / count
        at = merged(ahead.shares, ahead.means, ahead.covariances).mean
        shifts, covariances = self._seen_noise.at(at, self._sees.excess(at))
        return Seen(
            ahead.shares[:, None] + self._seen_noise.mixture.shares,
            expected[:, None] + shifts,
            spread[:, None] + covariances,
            cross,
        )

    def update(self, ahead: Step, observation: np.ndarray, seen: Seen | None = None) -> Moments:
        """The moments given an observation (d,), whose NaN columns are left out."""
        there = np.flatnonzero(~np.isnan(observation))
        if not len(there):
            return merged(ahead.shares, ahead.means, ahead.covariances)
        p = ahead.means.shape[1]
        seen = self.seen(ahead) if seen is None else seen
        errors = observation[there] - seen.means[:, :, there]
        covariance = seen.covariances[:, :, there][:, :, :, there]
        crossed = np.broadcast_to(seen.cross[:, None, :, there], (*errors.shape[:2], p, len(there)))
        gains = np.swapaxes(np.linalg.solve(covariance, np.swapaxes(crossed, 2, 3)), 2, 3)
        means = ahead.means[:, None] + (gains @ errors[..., None])[..., 0]
        after = ahead.covariances[:, None] - gains @ np.swapaxes(crossed, 2, 3)
        flat = (-1, len(there))
        logs = _log_densities(errors.reshape(flat), covariance.reshape(-1, len(there), len(there)))
        shares = seen.shares + logs.reshape(errors.shape[:2])
        return merged(shares.ravel(), means.reshape(-1, p), after.reshape(-1, p, p))

    def run(
        self, observations: np.ndarray, controls: np.ndarray | None, first: Step
    ) -> tuple[list[Moments], list[Step], list[Mixture]]:
        """Filtered beliefs at observations (T, d), steps ahead of all but the last, and predictions."""
        beliefs: list[Moments] = []
        steps, predictions = [first], []
        for t, row in enumerate(observations):
            if t:
                steps.append(self.predict(beliefs[-1], None if controls is None else controls[t - 1]))
            seen = self.seen(steps[-1])
            predictions.append(seen.mixture)
            beliefs.append(self.update(steps[-1], row, seen))
        return beliefs, steps[1:], predictions

    @staticmethod
    def smooth(beliefs: list[Moments], steps: list[Step]) -> list[Moments]:
        """Smoothed beliefs: each filtered one is corrected for how the next differs from its prediction."""
        smoothed = [beliefs[-1]]
        for belief, step in zip(beliefs[-2::-1], steps[::-1], strict=True):
            later = smoothed[-1]
            gains = np.swapaxes(np.linalg.solve(step.covariances, step.cross.T), 1, 2)
            # Points of the later belief, each with shares of its own: (k, s, p).
            points = sigma_points(later.mean[None], later.covariance[None])[0]
            apart = points - step.means[:, None]
            means = belief.mean + apart @ np.swapaxes(gains, 1, 2)
            left = belief.covariance - gains @ step.covariances @ np.swapaxes(gains, 1, 2)
            shares = step.shares[:, None] + _of_components(apart, step.covariances)
            shares = shares - logsumexp(shares, axis=0)
            k, count, p = means.shape
            covariances = np.broadcast_to(left[:, None], (k, count, p, p)).reshape(-1, p, p)
            smoothed.append(merged(shares.ravel(), means.reshape(-1, p), covariances))
        return smoothed[::-1]

    @staticmethod
    def draw_paths(
        beliefs: list[Moments], steps: list[Step], draws: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Draws (draws, T, p) of whole paths: backward from the last belief, each state given the next."""
        p = len(beliefs[-1].mean)
        path = np.empty((draws, len(beliefs), p))
        last = beliefs[-1]
        path[:, -1] = last.mean + rng.normal(size=(draws, p)) @ roots_of(last.covariance[None])[0].T
        for t in range(len(steps) - 1, -1, -1):
            belief, step = beliefs[t], steps[t]
            gains = np.swapaxes(np.linalg.solve(step.covariances, step.cross.T), 1, 2)
            apart = path[:, t + 1] - step.means[:, None]
            logs = _of_components(apart, step.covariances)
            # The largest of logarithms with Gumbel noise is a draw by their shares.
            k = np.argmax(step.shares[:, None] + logs + rng.gumbel(size=logs.shape), axis=0)
            left = belief.covariance - gains @ step.covariances @ np.swapaxes(gains, 1, 2)
            noise = roots_of(left)[k] @ rng.normal(size=(draws, p, 1))
            there = np.arange(draws)
            path[:, t] = belief.mean + (gains[k] @ apart[k, there, :, None] + noise)[..., 0]
        return path


def as_step(belief: Moments) -> Step:
    """A belief before the first observation, as the update takes it."""
    p = len(belief.mean)
    return Step(np.zeros(1), belief.mean[None], belief.covariance[None], np.zeros((p, p)))


def moments_of_draws(draws: np.ndarray) -> Moments:
    """Mean and covariance of draws (l, p)."""
    mean = draws.mean(axis=0)
    return Moments(mean, (draws - mean).T @ (draws - mean) / len(draws))
