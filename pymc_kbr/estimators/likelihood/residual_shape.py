"""The distribution of standardised residuals: a normal mixture whose parts may move with the inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.mixture import GaussianMixture

from pymc_kbr.estimators.likelihood.normal_mixture import UNSETTLED

LOG_ROOT_2PI = 0.5 * float(np.log(2 * np.pi))

MOST_SHAPE_PARTS = 6
ROWS_FOR_PARTS = 6000
"""Rows on which the number of parts is chosen."""

SHARE_FOR_PARTS = 0.25
"""Share of these that choose it."""

GAIN_OF_PART = 1e-3
"""Of mean held-out log density, besides its standard error, for which another part is taken."""

LEAST_DEVIATION = 0.03
"""Of a part, in deviations of the residuals."""


@dataclass(frozen=True)
class ResidualShape:
    """A normal mixture in one dimension, the same for all inputs.

    Attributes
    ----------
    log_shares, means, deviations : ndarray of shape (c,)
    """

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

    def distribution(self, z: np.ndarray, theta: Any = None, past: Any = None) -> np.ndarray:
        """Distribution function, of the shape of z."""
        return ndtr((z[..., None] - self.means) / self.deviations) @ np.exp(self.log_shares)

    def draw(self, theta: np.ndarray, past: Any, rng: np.random.Generator) -> np.ndarray:
        """One residual for each row of parameters (k, q), shape (k,)."""
        n, shares = len(theta), np.exp(self.log_shares)
        part = rng.choice(len(shares), size=n, p=shares / shares.sum())
        return self.means[part] + self.deviations[part] * rng.standard_normal(n)


def log_sum_exp(terms: list[Any], xp: Any = np) -> Any:
    """Log of the sum of exponentials of arrays of one shape."""
    highest = terms[0]
    for term in terms[1:]:
        highest = xp.maximum(highest, term)
    total = xp.exp(terms[0] - highest)
    for term in terms[1:]:
        total = total + xp.exp(term - highest)
    return highest + xp.log(total)


def fit_shape(z: np.ndarray, rng: np.random.Generator) -> ResidualShape:
    """The mixture with the largest held-out density among those of one to `MOST_SHAPE_PARTS` parts.

    Parameters
    ----------
    z : ndarray of shape (n,)
        Residuals, each standardised by functions fitted to other rows.
    rng : numpy.random.Generator
    """
    some = rng.permutation(z)[:ROWS_FOR_PARTS]
    fitted, held_out = np.split(some, [int((1 - SHARE_FOR_PARTS) * len(some))])
    best = fit_parts(fitted, 1, rng)
    logs = best.log_density(held_out)
    for parts in range(2, MOST_SHAPE_PARTS + 1):
        tried = fit_parts(fitted, parts, rng)
        new = tried.log_density(held_out)
        gain = new - logs
        if gain.mean() > GAIN_OF_PART + gain.std() / np.sqrt(len(gain)):
            best, logs = tried, new
        # Two modes of three parts may show with the third only: one size that gains nothing ends it not yet.
        elif parts > len(best.means) + 1:
            break
    return fit_parts(some, len(best.means), rng, best)


def fit_parts(
    z: np.ndarray, parts: int, rng: np.random.Generator, start: ResidualShape | None = None
) -> ResidualShape:
    """The mixture of largest likelihood, near a start if there is one, with a floor under its deviations."""
    mean, seed = float(z.mean()), int(rng.integers(2**31))
    least = float((LEAST_DEVIATION * z.std()) ** 2)
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
