"""The density of one statistic given parameters and earlier statistics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_kbr.estimators.likelihood.evidence import Effort, choose_kernel
from pymc_kbr.estimators.likelihood.moving_shape import MovingShape, let_move
from pymc_kbr.estimators.likelihood.product_kernel import Inputs, ProductKernel
from pymc_kbr.estimators.likelihood.residual_shape import ResidualShape, fit_shape
from pymc_kbr.estimators.likelihood.smooth_function import Basis, SmoothFunction, fit_log_variance, fit_mean

LOG_CHI_SQUARE = 1.2703628
"""Minus the mean of the logarithm of a squared standard normal variable."""

BEYOND = 0.5
"""How far log deviations go beyond those of the fitted rows."""


@dataclass(frozen=True)
class Conditional:
    """y = centre + scale (mean(u) + deviation(u) z), for inputs u = (parameters, standardised past).

    Log deviations stay within `BEYOND` of those at the fitted rows: a linear trend of a log far outside
    them would claim a precision, or a spread, that no row has shown.

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
        """Residuals in units of their deviations, and the logs of these, both (k, r)."""
        log_variance = self.log_variance(theta, past, xp, shared=shared)
        half = 0.5 * xp.clip(log_variance, *self.range)
        mean = self.mean(theta, past, xp, shared=shared)
        return ((y - self.centre) / self.scale - mean) * xp.exp(-half), half

    def log_density(self, theta: Any, y: Any, past: Any, xp: Any = np, *, shared: bool = False) -> Any:
        """Log densities (k, r) of statistics (k, r) or (1, r)."""
        z, log_deviation = self.standardised(theta, y, past, xp, shared=shared)
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


def fit_conditional(
    inputs: Inputs, y: np.ndarray, held_out: np.ndarray, rng: np.random.Generator, effort: Effort
) -> Conditional:
    """Fit mean, spread and shape of one statistic.

    Parameters
    ----------
    inputs : Inputs
        n rows; the past standardised.
    y : ndarray of shape (n,)
    held_out : ndarray of shape (n,)
        Of bool: rows that choose the shape and are not fitted.
    rng : numpy.random.Generator
    effort : Effort
    """
    centre, scale = float(y[~held_out].mean()), float(y[~held_out].std())
    fitted, target = inputs.rows(~held_out), (y[~held_out] - centre) / scale
    landmarks = fitted.rows(rng.permutation(len(target))[: effort.landmarks])
    chosen = choose_kernel(fitted, target, rng, effort=effort)
    mean = fit_mean(Basis(chosen[0], fitted, landmarks), target, np.full(len(target), chosen[1]))
    squares = _squares(target - mean.left_out)
    logs = np.log(squares) + LOG_CHI_SQUARE
    constant, unit = logs.mean(), logs.std()
    spread, noise = choose_kernel(fitted, (logs - constant) / unit, rng, effort=effort)
    first = fit_mean(Basis(spread, fitted, landmarks), (logs - constant) / unit, np.full(len(logs), noise))
    basis = Basis(_scaled(spread, unit), fitted, landmarks)
    log_variance = fit_log_variance(basis, squares, constant + unit * first.left_out)
    # Once more, now that it is known where residuals are small.
    deviations = np.exp(0.5 * (log_variance.left_out - np.mean(log_variance.left_out)))
    chosen = choose_kernel(fitted, target, rng, deviations=deviations, start=chosen, effort=effort)
    mean = fit_mean(Basis(chosen[0], fitted, landmarks), target, chosen[1] * deviations**2)
    log_variance = fit_log_variance(basis, _squares(target - mean.left_out), log_variance.left_out)
    g = log_variance.left_out
    limits = (float(g.min()) - 2 * BEYOND, float(g.max()) + 2 * BEYOND)
    unshaped = Conditional(mean.function, log_variance.function, _NORMAL, limits, centre, scale)
    outside = inputs.rows(held_out)
    z, _ = unshaped.standardised(outside.theta, y[held_out][:, None], outside.past[:, None])
    residuals = (target - mean.left_out) * np.exp(-0.5 * g)
    shape = let_move(fit_shape(residuals, z[:, 0], rng), fitted, residuals, (outside, z[:, 0]), rng)
    return Conditional(mean.function, log_variance.function, shape, limits, centre, scale)


_NORMAL = ResidualShape(np.zeros(1), np.zeros(1), np.ones(1))


def _squares(residuals: np.ndarray) -> np.ndarray:
    """Squared residuals, none so near to zero that its logarithm would weigh more than all others."""
    squares = residuals**2
    return np.maximum(squares, 1e-6 * np.median(squares) + 1e-300)


def _scaled(kernel: ProductKernel, unit: float) -> ProductKernel:
    """The kernel of functions that are larger by a factor."""
    return replace(
        kernel, slopes=kernel.slopes * unit, level=kernel.level * unit**2, bump=kernel.bump * unit**2
    )
