"""The mean once more, by the law that its residuals turn out to have.

Least squares weigh all residuals alike. Where their law is a thin ring, or a narrow peak with wide tails, a
residual says far more about the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from pymc_kbr.arrays.row_parts import row_parts
from pymc_kbr.arrays.threads import side_by_side
from pymc_kbr.estimators.likelihood.conditional_mean import BasisRegression
from pymc_kbr.estimators.likelihood.normal_mixture import NormalMixture

FUNCTIONS = 400
"""Of the basis, smoothest first, with which the mean is fitted."""

SHRINKS = (1.0, 0.1, 0.01)
"""Factors of the ridges before, which are tried: a sharper law supports rougher functions."""

LBFGS_STEPS = 40
"""Of L-BFGS, at most."""

LAW_GAIN = 0.01
"""Nats of a row, by the others, for which least squares are left."""

HARDLY = 2.0
"""Standard errors below that at which held-out rows, which are fewer, save asking all."""

LAW_FOLDS = 5


class Law(NamedTuple):
    """The density of residuals c (n, e) at n rows: that of z = A c under a mixture.

    Attributes
    ----------
    factors : ndarray of shape (n, e, e)
    mixture : NormalMixture
    """

    factors: np.ndarray
    mixture: NormalMixture

    def rows(self, chosen: np.ndarray | slice) -> Law:
        """Of some rows."""
        return Law(self.factors[chosen], self.mixture)

    def log_density(self, residuals: np.ndarray) -> np.ndarray:
        """Up to a constant of each row, shape (n,)."""
        return self.mixture.log_density(self._z(residuals)[:, None, :])[:, 0]

    def slopes(self, residuals: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log densities (n,), and their derivatives by the residuals (n, e)."""
        values, by_z = self.mixture.slopes(self._z(residuals))
        return values, np.matmul(by_z[:, None, :], self.factors)[:, 0]

    def _z(self, residuals: np.ndarray) -> np.ndarray:
        return np.matmul(self.factors, residuals[:, :, None])[:, :, 0]


@dataclass(frozen=True, eq=False)
class _PenalisedRegression:
    """Penalised likelihood of the coefficients of the smoothest functions.

    Parameters
    ----------
    features : ndarray of shape (n, f)
    penalties : ndarray of shape (f, e)
        Ridge times squared norm, for each statistic.
    points : ndarray of shape (n, e)
    law : Law
    """

    features: np.ndarray
    penalties: np.ndarray
    points: np.ndarray
    law: Law

    def fit(self, rows: np.ndarray, shrink: float) -> np.ndarray:
        """Coefficients (f, e) by some rows, from those of least squares on."""
        f, points, law = self.features[rows], self.points[rows], self.law.rows(rows)
        first = self._least_squares(rows)
        residuals = points - f @ first
        # Squared scores stand for second derivatives: in these units L-BFGS needs few steps.
        information = np.mean(law.slopes(residuals)[1] ** 2, axis=0)
        # A ridge of squared errors, over their variance, is one of log densities.
        prior = shrink * self.penalties / np.mean(residuals**2, axis=0)
        unit = 1 / np.sqrt(information + prior)

        parts = row_parts(len(f))
        pieces = [(f[part], points[part], law.rows(part)) for part in parts]

        with side_by_side(len(parts)) as map_:

            def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
                w = flat.reshape(unit.shape) * unit
                found = map_(lambda piece: _likelihood(*piece, w), pieces)
                loss = -sum(value for value, _ in found) / len(f) + 0.5 * float(np.sum(prior * w**2))
                slopes = sum(slopes for _, slopes in found) / len(f)
                return loss, ((slopes + prior * w) * unit).ravel()

            options = {"maxiter": LBFGS_STEPS, "maxcor": 10, "ftol": 1e-8, "gtol": 1e-6}
            found = minimize(objective, (first / unit).ravel(), jac=True, method="L-BFGS-B", options=options)
        return found.x.reshape(unit.shape) * unit

    def _least_squares(self, rows: np.ndarray) -> np.ndarray:
        f, points = self.features[rows], self.points[rows]
        squares, right = f.T @ f / len(f), f.T @ points / len(f)
        columns = [
            cho_solve(cho_factor(squares + np.diag(penalty)), right[:, j])
            for j, penalty in enumerate(self.penalties.T)
        ]
        return np.column_stack(columns)

    def left_out(self, others: np.ndarray, shrink: float) -> np.ndarray:
        """Residuals of some rows by a fit to all the others."""
        return self.points[others] - self.features[others] @ self.fit(~others, shrink)


def _likelihood(
    features: np.ndarray, points: np.ndarray, law: Law, coefficients: np.ndarray
) -> tuple[float, np.ndarray]:
    """Summed log density of rows, and minus its slopes in the coefficients (f, e)."""
    values, slopes = law.slopes(points - features @ coefficients)
    return float(values.sum()), features.T @ slopes


def regress_by_law(
    features: np.ndarray,
    penalties: np.ndarray,
    points: np.ndarray,
    before: BasisRegression,
    law: Law,
    held_out: np.ndarray,
    rng: np.random.Generator,
) -> BasisRegression | None:
    """The mean by penalised likelihood under a law of its residuals, where rows gain by it.

    Parameters
    ----------
    features : ndarray of shape (n, f)
        Orthonormal over the rows.
    penalties : ndarray of shape (f,)
    points : ndarray of shape (n, e)
    before : BasisRegression
        By least squares, or another law.
    law : Law
    held_out : ndarray of bool, shape (n,)
    rng : numpy.random.Generator

    Returns
    -------
    BasisRegression or None
        None where rows gain nothing.
    """
    smooth = np.argsort(penalties, kind="stable")[:FUNCTIONS]
    regression = _PenalisedRegression(
        features[:, smooth], penalties[smooth, None] * before.ridges, points, law
    )
    at, now = law.rows(held_out), law.log_density(before.residuals)
    gain, shrink = np.full(np.count_nonzero(held_out), -np.inf), 0.0
    for tried in SHRINKS:
        found = at.log_density(regression.left_out(held_out, tried)) - now[held_out]
        if found.mean() <= gain.mean():
            break
        gain, shrink = found, tried
    if not shrink or gain.mean() <= LAW_GAIN - HARDLY * gain.std() / np.sqrt(len(gain)):
        return None
    n = len(points)
    # Under this law there is no closed form without a row: each fifth is predicted by the others.
    left_out = np.empty_like(points)
    for rows in np.array_split(rng.permutation(n), LAW_FOLDS):
        others = np.zeros(n, dtype=bool)
        others[rows] = True
        left_out[others] = regression.left_out(others, shrink)
    if np.mean(law.log_density(left_out) - now) <= LAW_GAIN:
        return None
    coefficients = np.zeros((features.shape[1], points.shape[1]))
    coefficients[smooth] = regression.fit(np.ones(n, dtype=bool), shrink)
    return BasisRegression(coefficients, left_out, shrink * before.ridges)
