"""A normal mixture of residuals whose shares, means and deviations move with the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from pymc_kbr.estimators.likelihood.mixture_functions import distribution, log_densities
from pymc_kbr.estimators.likelihood.product_kernel import Inputs, gaussian
from pymc_kbr.estimators.likelihood.residual_shape import (
    LOG_ROOT_2PI,
    SHARE_FOR_PARTS,
    ResidualShape,
    fit_parts,
    log_sum_exp,
)
from pymc_kbr.estimators.likelihood.screening import orthonormal

LOWEST, HIGHEST = float(np.log(0.03)), float(np.log(6.0))
"""Logs of the deviations of parts stay between them."""

FEWEST_PARTS = 3
"""Of a mixture that moves: a shape that is normal on average may be none at any one input."""

SHAPE_LANDMARKS, SHAPE_FEATURES = 60, 30
"""Of the smooth functions of inputs that matter; linear ones are beside them."""

BANDWIDTH = 1.0
"""Of one input that matters, in its deviations; of more it grows with the root of their number."""

PENALTIES = (100.0, 30.0, 10.0, 3.0, 1.0)
"""Precisions of the coefficients' prior, tried from the largest until held-out rows are worse off."""

ROWS_FOR_SHAPE = 6000
"""From which the coefficients are learnt, at most, where no other number is given."""

ITERATIONS_A_PENALTY = 60
"""For each penalty, at most."""

NEGLIGIBLE_DIRECTION = 1e-3
"""Of the largest direction of scores, or of functions of an input: less counts for none of a test."""

SURPRISING_SCORE = 5.0
"""Standard deviations of its score test from which an input is said to matter."""


@dataclass(frozen=True)
class ShapeFeatures:
    """Linear and smooth functions of the inputs that matter: u and exp(-|S (u - u')|^2 / 2) R.

    Attributes
    ----------
    by_theta : ndarray of shape (q, s)
        u = theta by_theta + past by_past, in units of their deviations.
    by_past : ndarray of shape (l, s)
    centre : ndarray of shape (s,)
    landmarks : ndarray of shape (m, s)
    rotation : ndarray of shape (m, f)
    """

    by_theta: np.ndarray
    by_past: np.ndarray
    centre: np.ndarray
    landmarks: np.ndarray
    rotation: np.ndarray

    def __call__(self, theta: Any, past: Any, xp: Any = np) -> Any:
        """Features (k, r, s + f), or (k, 1, s + f) where the past does not matter."""
        u = (theta @ self.by_theta - self.centre)[:, None, :]
        if self.by_past.any():
            u = u + past @ self.by_past
        scales = np.full(len(self.centre), 1 / (BANDWIDTH * np.sqrt(len(self.centre))))
        smooth = gaussian(u, self.landmarks, scales, xp) @ self.rotation
        return xp.concatenate([u, smooth], axis=-1)


@dataclass(frozen=True)
class MovingShape:
    """A mixture with logits, means and log deviations linear in features of the inputs.

    Attributes
    ----------
    features : ShapeFeatures
    base : ResidualShape
        c parts.
    slopes : ndarray of shape (f, 3 c)
        Of logits, means and logs of deviations.
    """

    features: ShapeFeatures
    base: ResidualShape
    slopes: np.ndarray

    def parts(self, theta: Any, past: Any, xp: Any = np) -> list[tuple[Any, Any, Any]]:
        """Log share, mean and log deviation of each part, each (k, r) or (k, 1)."""
        moves = self.features(theta, past, xp) @ self.slopes
        c, base = len(self.base.means), self.base
        logits = [float(base.log_shares[i]) + moves[:, :, i] for i in range(c)]
        total = log_sum_exp(logits, xp)
        means = [float(base.means[i]) + moves[:, :, c + i] for i in range(c)]
        logs = [float(np.log(base.deviations[i])) + moves[:, :, 2 * c + i] for i in range(c)]
        return [
            (a - total, m, xp.clip(s, LOWEST, HIGHEST)) for a, m, s in zip(logits, means, logs, strict=True)
        ]

    def log_density(self, z: Any, theta: Any, past: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of residuals (k, r)."""
        return log_densities(self.parts(theta, past, xp), z, xp)

    def distribution(self, z: np.ndarray, theta: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k, r) of residuals (k, r)."""
        return distribution(self.parts(theta, past), z)

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One residual for each row of parameters (k, q) and the past (k, l), shape (k,)."""
        parts = self.parts(theta, past[:, None])
        shares, means, logs = (np.stack([part[i][:, 0] for part in parts], axis=1) for i in range(3))
        # The largest of logits with Gumbel noise is a draw of a part.
        chosen = np.argmax(shares + rng.gumbel(size=shares.shape), axis=1)
        rows = np.arange(len(chosen))
        return means[rows, chosen] + np.exp(logs[rows, chosen]) * rng.standard_normal(len(rows))


def let_move(
    base: ResidualShape,
    inputs: Inputs,
    z: np.ndarray,
    rng: np.random.Generator,
    *,
    searched: int = ROWS_FOR_SHAPE,
    learnt: int = ROWS_FOR_SHAPE,
) -> ResidualShape | MovingShape:
    """The mixture with moving parts, where held-out rows are better off with it.

    Parameters
    ----------
    base : ResidualShape
        The best mixture that does not move.
    inputs : Inputs
    z : ndarray of shape (n,)
        Residuals at the inputs, each standardised by functions fitted to other rows.
    rng : numpy.random.Generator
    searched, learnt : int
        Rows on which the penalty is chosen, and from which the coefficients are then learnt, at most.
    """
    order = rng.permutation(len(z))
    more = order[: max(searched, learnt)]
    every, of_every = inputs.rows(more), z[more]
    inputs, z = inputs.rows(order[:searched]), z[order[:searched]]
    start = base if len(base.means) >= FEWEST_PARTS else fit_parts(z, FEWEST_PARTS, rng)
    matter = np.flatnonzero(surprises(start, inputs, z) > SURPRISING_SCORE)
    if not len(matter):
        return base
    features = _features(inputs, matter)
    phi = features(inputs.theta, inputs.past[:, None])[:, 0]
    first = int((1 - SHARE_FOR_PARTS) * len(z))
    x = np.concatenate([start.log_shares, start.means, np.log(start.deviations)])
    x = np.concatenate([x, np.zeros(phi.shape[1] * len(x))])
    best, score = None, float(np.mean(base.log_density(z[first:])))
    for penalty in PENALTIES:
        x = _maximised(x, phi[:first], z[:first], penalty)
        new = _log_likelihood(x, phi[first:], z[first:]) / (len(z) - first)
        if new > score:
            best, score = (penalty, x), new
        # The two largest may both be too stiff to gain anything.
        elif penalty < PENALTIES[1]:
            break
    if best is None:
        return base
    penalty, x = best
    phi = features(every.theta, every.past[:, None])[:, 0]
    return _shape(_maximised(x, phi, of_every, penalty), features, len(start.means))


def _maximised(x: np.ndarray, phi: np.ndarray, z: np.ndarray, penalty: float) -> np.ndarray:
    options = {"maxiter": ITERATIONS_A_PENALTY}
    return minimize(_objective, x, args=(phi, z, penalty), jac=True, method="L-BFGS-B", options=options).x


def _log_likelihood(x: np.ndarray, phi: np.ndarray, z: np.ndarray) -> float:
    return -_objective(x, phi, z, 0.0)[0]


def _shape(x: np.ndarray, features: ShapeFeatures, c: int) -> MovingShape:
    logits, means, logs = x[: 3 * c].reshape(3, c)
    return MovingShape(features, ResidualShape(logits, means, np.exp(logs)), x[3 * c :].reshape(-1, 3 * c))


def _objective(x: np.ndarray, phi: np.ndarray, z: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """Minus the penalised log-likelihood and its gradient."""
    c = (len(x) // (1 + phi.shape[1])) // 3
    slopes = x[3 * c :].reshape(-1, 3 * c)
    value, scores = _scores(x[: 3 * c, None] + slopes.T @ phi.T, z)
    gradient = np.concatenate([scores.sum(axis=1), ((scores @ phi).T - penalty * slopes).ravel()])
    return 0.5 * penalty * float(np.sum(slopes**2)) - value, -gradient


def _scores(moves: np.ndarray, z: np.ndarray) -> tuple[float, np.ndarray]:
    """Log-likelihood of residuals (n,) and its gradient (3 c, n) by logits, means and log deviations."""
    # One part after another: sums over few numbers that are neighbours in memory take several times as long.
    logits, means, logs = np.split(moves, 3)
    shares = np.exp(logits - logits.max(axis=0))
    shares /= shares.sum(axis=0)
    inside = (logs > LOWEST) & (logs < HIGHEST)  # beyond, the likelihood does not feel them
    inverse = np.exp(-np.clip(logs, LOWEST, HIGHEST))
    t = (z - means) * inverse
    exponents = np.log(np.maximum(shares, 1e-300) * inverse) - 0.5 * t**2
    highest = exponents.max(axis=0)
    densities = np.exp(exponents - highest)
    total = densities.sum(axis=0)
    part = densities / total
    value = float(np.sum(np.log(total) + highest)) - len(z) * LOG_ROOT_2PI
    return value, np.vstack([part - shares, part * t * inverse, part * (t**2 - 1) * inside])


def surprises(base: ResidualShape, inputs: Inputs, z: np.ndarray) -> np.ndarray:
    """Score test of each input for moving the mixture, in standard deviations of its null law, (q + l,).

    Notes
    -----
    Scores of the mixture, whitened, are uncorrelated with functions of an input that does not matter: the
    squared correlations with a few of its polynomials sum to a chi-squared variable.
    """
    moves = np.concatenate([base.log_shares, base.means, np.log(base.deviations)])
    scores = _scores(np.repeat(moves[:, None], len(z), axis=1), z)[1].T
    # A residual far out has a score that looks like dependence on whatever its row's inputs are.
    scores = np.clip(scores, *np.quantile(scores, [0.001, 0.999], axis=0))
    whitened = orthonormal(scores - scores.mean(axis=0), NEGLIGIBLE_DIRECTION)
    found = []
    for column in np.hstack([inputs.theta, inputs.past]).T:
        if column.std() == 0:
            found.append(-np.inf)
            continue
        u = np.clip((column - column.mean()) / column.std(), -3, 3)
        functions = np.column_stack([u, u**2, u**3, np.abs(u)])
        basis = orthonormal(functions - functions.mean(axis=0), NEGLIGIBLE_DIRECTION)
        freedom = whitened.shape[1] * basis.shape[1]
        found.append((np.sum((basis.T @ whitened) ** 2) * len(z) - freedom) / np.sqrt(2 * freedom))
    return np.array(found)


def _features(inputs: Inputs, matter: np.ndarray) -> ShapeFeatures:
    """Features of the inputs in columns `matter` of parameters and past."""
    q = inputs.theta.shape[1]
    columns = np.hstack([inputs.theta, inputs.past])
    selection = np.eye(columns.shape[1])[:, matter] / columns.std(axis=0)[matter]
    u = columns @ selection
    centre = u.mean(axis=0)
    landmarks = (u - centre)[:SHAPE_LANDMARKS]
    scales = np.full(len(matter), 1 / (BANDWIDTH * np.sqrt(len(matter))))
    values, vectors = np.linalg.eigh(gaussian(landmarks, landmarks, scales))
    # Smooth functions have large eigenvalues; over their roots all coefficients have one prior.
    kept = np.flatnonzero(values > 1e-4 * values[-1])[-SHAPE_FEATURES:]
    return ShapeFeatures(
        selection[:q], selection[q:], centre, landmarks, vectors[:, kept] / np.sqrt(values[kept])
    )
