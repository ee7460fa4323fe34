"""The density of one statistic given parameters and earlier statistics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.estimators.likelihood.evidence import Effort, choose_kernel
from pymc_kbr.estimators.likelihood.moving_shape import MovingShape, let_move
from pymc_kbr.estimators.likelihood.product_kernel import Inputs, for_rows
from pymc_kbr.estimators.likelihood.residual_shape import ResidualShape, fit_shape
from pymc_kbr.estimators.likelihood.smooth_function import (
    SmoothFit,
    SmoothFunction,
    WhitenedBasis,
    choose_size,
    fit_log_variance,
    fit_mean,
)
from pymc_kbr.estimators.likelihood.spread import LOG_CHI_SQUARE, UNEVEN

BEYOND_FITTED = 0.5
"""How far log deviations go beyond those of the fitted rows."""


@dataclass(frozen=True)
class Conditional:
    """y = centre + scale (mean(u) + deviation(u) z), for inputs u = (parameters, standardised past).

    Log deviations stay within `BEYOND_FITTED` of those at the fitted rows: a linear trend of a log far
    outside them would claim a precision, or a spread, that no row has shown.

    Attributes
    ----------
    mean, log_variance : SmoothFunction
    shape : ResidualShape
    range : tuple of float
        Lowest and highest log variance.
    centre, scale : float
    """

    mean: SmoothFunction
    log_variance: SmoothFunction
    shape: ResidualShape | MovingShape
    range: tuple[float, float]
    centre: float
    scale: float

    def standardised(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Residuals in units of their deviations, and the logs of these, both (k, r).

        What is `shared` is of one parameter after another: see `SmoothFunction.__call__`.
        """
        if shared and xp is np:
            y = for_rows(y, len(theta))
        log_variance = self.log_variance(theta, past, xp, shared=shared)
        half = 0.5 * xp.clip(log_variance, *self.range)
        mean = self.mean(theta, past, xp, shared=shared)
        return ((y - self.centre) / self.scale - mean) * xp.exp(-half), half

    def log_density(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Log densities (k, r) of statistics (k, r), or of `shared` ones."""
        z, log_deviation = self.standardised(theta, y, past, xp, shared=shared)
        if shared and xp is np:
            past = for_rows(past, len(theta))
        return self.shape.log_density(z, theta, past, xp) - log_deviation - float(np.log(self.scale))

    def distribution(self, theta: np.ndarray, y: np.ndarray, past: np.ndarray) -> np.ndarray:
        """Distribution functions (k,) of statistics (k,) given parameters (k, q) and the past (k, l)."""
        z, _ = self.standardised(theta, y[:, None], past[:, None])
        return self.shape.distribution(z, theta, past[:, None])[:, 0]

    def draw(self, theta: np.ndarray, past: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One statistic for each row of the inputs, shape (k,)."""
        inputs = Inputs(theta, past)
        deviation = np.exp(0.5 * np.clip(self.log_variance.at(inputs), *self.range))
        z = self.shape.draw(theta, past, rng)
        return self.centre + self.scale * (self.mean.at(inputs) + deviation * z)


def fit_conditional(inputs: Inputs, y: np.ndarray, rng: np.random.Generator, effort: Effort) -> Conditional:
    """Fit mean, spread and shape of one statistic, each to what the one before leaves of left-out rows.

    Parameters
    ----------
    inputs : Inputs
        n rows; the past standardised.
    y : ndarray of shape (n,)
    rng : numpy.random.Generator
    effort : Effort
    """
    centre, scale = float(y.mean()), float(y.std())
    target = (y - centre) / scale
    landmarks = inputs.rows(rng.permutation(len(y))[: effort.landmarks])
    chosen = choose_kernel(inputs, target, rng, effort=effort)
    mean = fit_mean(WhitenedBasis(chosen[0], inputs, landmarks), target, np.full(len(y), chosen[1]))
    basis, start = _spread_basis(inputs, landmarks, _squares(target - mean.left_out), rng, effort)
    basis, log_variance = _choose_size(basis, _squares(target - mean.left_out), start)
    # Only ratios count: the factor is the noise of the next choice of a kernel.
    deviations = np.exp(0.5 * (log_variance.left_out - np.mean(log_variance.left_out)))
    if np.std(np.log(deviations)) > UNEVEN:
        # Once more, now that it is known where residuals are small.
        chosen = choose_kernel(inputs, target, rng, deviations=deviations, start=chosen, effort=effort)
        mean = fit_mean(WhitenedBasis(chosen[0], inputs, landmarks), target, chosen[1] * deviations**2)
        log_variance = fit_log_variance(basis, _squares(target - mean.left_out), log_variance.left_out)
    g = log_variance.left_out
    z = (target - mean.left_out) * np.exp(-0.5 * g)
    shape = let_move(fit_shape(z, rng), inputs, z, rng)
    # Of log variances, which go twice as far as log deviations.
    limits = (float(g.min()) - 2 * BEYOND_FITTED, float(g.max()) + 2 * BEYOND_FITTED)
    return Conditional(mean.function, log_variance.function, shape, limits, centre, scale)


def _spread_basis(
    inputs: Inputs, landmarks: Inputs, squares: np.ndarray, rng: np.random.Generator, effort: Effort
) -> tuple[WhitenedBasis, np.ndarray]:
    """A basis for log variances, by a regression of log squares, and a first guess of them (n,)."""
    # The logarithm of a squared normal lies below that of its variance by a constant, on average.
    logs = np.log(squares) + LOG_CHI_SQUARE
    constant, unit = logs.mean(), logs.std()
    standard = (logs - constant) / unit
    kernel, noise = choose_kernel(inputs, standard, rng, effort=effort)
    basis = WhitenedBasis(kernel, inputs, landmarks)
    first = fit_mean(basis, standard, np.full(len(logs), noise))
    return basis.larger(unit), constant + unit * first.left_out


def _choose_size(
    basis: WhitenedBasis, squares: np.ndarray, start: np.ndarray
) -> tuple[WhitenedBasis, SmoothFit]:
    """Log variances in a prior of the size under which left-out rows are likeliest, and its basis.

    The kernel was chosen for logarithms of squares, which tell less of a spread than its likelihood does.
    """

    def score(left_out: np.ndarray) -> float:
        return -float(np.mean(left_out + squares * np.exp(-left_out)))

    return choose_size(basis, lambda size, first: fit_log_variance(size, squares, first), start, score)


def _squares(residuals: np.ndarray) -> np.ndarray:
    """Squared residuals, none so near to zero that its logarithm would weigh more than all others."""
    squares = residuals**2
    return np.maximum(squares, 1e-6 * np.median(squares) + 1e-300)
