"""The triangular factor of a conditional covariance, as a function of the parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.optimize import minimize

from pymc_kbr.arrays.threads import parallel_map, row_parts
from pymc_kbr.estimators.likelihood.basis import Basis, Landmarks, make_basis
from pymc_kbr.kernels import median_heuristic

LARGEST_LOG = 12.0
"""Of the factor's diagonal, over that of all rows: beyond it a spread is not learnt but extrapolated."""

LOG_CHI_SQUARE = 1.2703628
"""Minus the mean log of a squared standard normal variable: log 2 plus Euler's constant."""


class Below(NamedTuple):
    """Entries of a unit triangular matrix."""

    # Shapes: rows, columns (b,); constants (b,).
    rows: np.ndarray
    columns: np.ndarray
    constants: np.ndarray


class Factor(NamedTuple):
    """At n rows: logarithms of the diagonal (n, e), residuals times it (n, e), entries (n, b), z (n, e)."""

    logs: np.ndarray
    scaled: np.ndarray
    entries: np.ndarray
    z: np.ndarray


def factor_at(values: np.ndarray, residuals: np.ndarray, below: Below) -> Factor:
    """The factor (I + C) exp(a) at rows, from values (n, e + b) of a and of C less its constants."""
    e = residuals.shape[1]
    logs = np.clip(values[:, :e], -LARGEST_LOG, LARGEST_LOG)
    scaled, entries = np.exp(logs) * residuals, values[:, e:] + below.constants
    z = scaled.copy(order="K")
    for place, (j, k) in enumerate(zip(below.rows.tolist(), below.columns.tolist(), strict=True)):
        z[:, j] += entries[:, place] * scaled[:, k]
    return Factor(logs, scaled, entries, z)


def standardised(
    features: np.ndarray, residuals: np.ndarray, coefficients: np.ndarray, below: Below
) -> tuple[np.ndarray, np.ndarray]:
    """T r (n, e) and log det T (n,)."""
    at = factor_at(features @ coefficients, residuals, below)
    return at.z, at.logs.sum(axis=1)


def fit_spread(
    features: np.ndarray,
    residuals: np.ndarray,
    penalties: np.ndarray,
    below: Below,
    start: np.ndarray | None = None,
    steps: int = 40,
    *,
    # Curvature of the likelihood in a direction of the outputs, at least: steps get no longer.
    least_curvature: float = 0.1,
    # Of a function, beside what it would be without a penalty: one of which less is left is not fitted.
    negligible: float = 1e-3,
) -> np.ndarray:
    """Minimise mean_i (|z_i|^2 / 2 - sum_j a_ij) + sum_f penalty_f |W_f|^2 / 2 over coefficients W."""
    # T = (I + C) exp(a): scales that move by themselves leave C as it is. In the units of the eigenvectors of
    # the second derivatives at the start L-BFGS needs few steps, however close to singular the residuals are.
    # Shapes: features (n, f); residuals (n, e); penalties (f,); start (f, e + b); returned: (f, e + b).
    n, e = residuals.shape
    outputs = e + len(below.rows)
    first = np.zeros((features.shape[1], outputs)) if start is None else start
    # Features are orthonormal over the rows: a penalty leaves about one part in one and itself.
    free = penalties < 1 / negligible
    if not free.all():
        whole = np.zeros_like(first)
        whole[free] = fit_spread(features[:, free], residuals, penalties[free], below, first[free], steps)
        return whole
    curvature, directions = _curvature(factor_at(features @ first, residuals, below), below)
    unit = 1 / np.sqrt(np.maximum(curvature, 0) + least_curvature + penalties[:, None])
    # Residuals column by column in memory, as they are worked on.
    parts = [(features[rows], np.asfortranarray(residuals[rows])) for rows in row_parts(n)]

    with parallel_map(len(parts)) as map_:

        def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
            w = (flat.reshape(-1, outputs) * unit) @ directions.T
            found = map_(lambda part: _loss(*part, w, below), parts)
            loss = sum(value for value, _ in found) / n + 0.5 * np.sum(penalties[:, None] * w**2)
            gradient = sum(slopes for _, slopes in found) / n + penalties[:, None] * w
            return float(loss), ((gradient @ directions) * unit).ravel()

        found = minimize(
            objective,
            ((first @ directions) / unit).ravel(),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": steps, "maxcor": 8, "ftol": 1e-7, "gtol": 1e-5},
        )
    return (found.x.reshape(-1, outputs) * unit) @ directions.T


def _loss(
    features: np.ndarray, residuals: np.ndarray, coefficients: np.ndarray, below: Below
) -> tuple[float, np.ndarray]:
    """Sum of |z|^2 / 2 - log det T over rows, and its slopes (f, e + b)."""
    e = residuals.shape[1]
    values = (coefficients.T @ features.T).T  # column by column in memory, too
    at = factor_at(values, residuals, below)
    through, slopes = at.z.copy(order="K"), np.empty_like(values)
    for place, (j, k) in enumerate(zip(below.rows.tolist(), below.columns.tolist(), strict=True)):
        through[:, k] += at.entries[:, place] * at.z[:, j]
        np.multiply(at.z[:, j], at.scaled[:, k], out=slopes[:, e + place])
    # Where a logarithm is cut off the loss does not feel it.
    slopes[:, :e] = (through * at.scaled - 1) * (np.abs(values[:, :e]) < LARGEST_LOG)
    return float(0.5 * np.sum(at.z**2) - at.logs.sum()), (slopes.T @ features).T


def _curvature(at: Factor, below: Below) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of the mean squared derivatives of z by the outputs (e + b, e + b)."""
    n, e = at.z.shape
    whole = np.zeros((e + len(below.rows), e + len(below.rows)))
    for j in range(e):
        mine = np.flatnonzero(below.rows == j)
        # z_j = s_j + sum_k C_jk s_k with s = exp(a) r: by a_k it moves by C_jk s_k, by C_jk by s_k.
        by_logs = np.zeros((n, e))
        by_logs[:, j] = at.scaled[:, j]
        by_logs[:, below.columns[mine]] = at.entries[:, mine] * at.scaled[:, below.columns[mine]]
        derivatives = np.hstack([by_logs, at.scaled[:, below.columns[mine]]])
        places = np.concatenate([np.arange(e), e + mine])
        whole[np.ix_(places, places)] += derivatives.T @ derivatives / n
    values, vectors = np.linalg.eigh(whole)
    return values, vectors


class ChosenSpread(NamedTuple):
    """Coefficients (f, e + b), their ridge, and held-out rows' mean of log det T - |z|^2 / 2."""

    coefficients: np.ndarray
    ridge: float
    held_out: float


def choose_spread(
    features: np.ndarray,
    residuals: np.ndarray,
    penalties: np.ndarray,
    ridges: Sequence[float],
    below: Below,
    held_out: np.ndarray,
    *,
    # With fewer held-out rows any gain decides: they seldom show a gain of one standard error, and the check
    # for coarse tables fits likelihoods to some 300 rows.
    rows_for_errors: int = 100,
    # Nats of a held-out row: a ridge that loses so much ends the search for smaller ones.
    most_lost: float = 0.02,
    # Standard errors that a smaller ridge must gain: see `python -m tests.statistical.ridges_of_spreads`.
    errors_gained: float = 1.0,
) -> ChosenSpread:
    """Fitted to rows that are not held out, at the smallest ridge that helps by more than chance."""
    fitted = ~held_out
    best: ChosenSpread | None = None
    start, before = None, np.zeros(np.count_nonzero(held_out))
    for count, ridge in enumerate(ridges):
        start = fit_spread(features[fitted], residuals[fitted], ridge * penalties, below, start)
        z, logdet = standardised(features[held_out], residuals[held_out], start, below)
        each = logdet - 0.5 * np.sum(z**2, axis=1)
        gain, reached = each - before, float(np.mean(each))
        errors = errors_gained if len(gain) >= rows_for_errors else 0.0
        if best is None or gain.mean() > errors * gain.std() / np.sqrt(len(gain)):
            best, before = ChosenSpread(start, ridge, reached), each
        # The largest ridges may all be far too large, and the second the worse by chance.
        elif reached < best.held_out - most_lost and count > 1:
            break
    assert best is not None
    return best


# --- basis functions of the spread ---


MOST_PAIRED = 24
"""Statistics up to which entries below the diagonal depend on the parameters."""


class Frame(NamedTuple):
    """Residuals in which a factor is looked for."""

    # Shapes: whiten (e, e).
    whiten: np.ndarray
    below: Below


def frames(residuals: np.ndarray) -> list[Frame]:
    """Those that are tried for residuals (n, e)."""
    whole = whitening(residuals)
    e = len(whole)
    rows, columns = np.tril_indices(e, -1) if e <= MOST_PAIRED else (np.empty(0, int), np.empty(0, int))
    found = [Frame(whole, Below(rows, columns, np.zeros(len(rows))))]
    if len(rows):
        diagonal = np.diag(whole)
        found.insert(0, Frame(np.diag(diagonal), Below(rows, columns, (whole / diagonal)[rows, columns])))
    return found


class SpreadChoice(NamedTuple):
    """Place of the frame in `frames`, and the joint kernel's share."""

    frame: int
    share: float


def choose_basis(
    theta: np.ndarray,
    residuals: np.ndarray,
    held_out: np.ndarray,
    rng: np.random.Generator,
    known: SpreadChoice | None = None,
) -> tuple[SpreadChoice, Basis, np.ndarray]:
    """The frame, and the share of the joint kernel, that held-out rows prefer, and the basis of these."""
    # Shapes: theta (n, q); residuals (n, e); held_out (n,).
    groups = _groups(theta, rng)
    choice = known or _chosen(theta, groups, residuals, held_out)
    basis, values = _basis(theta, groups, choice.share)
    return choice, basis, values


def _chosen(
    theta: np.ndarray,
    groups: list[Landmarks],
    residuals: np.ndarray,
    held_out: np.ndarray,
    *,
    # Rows on which rotations and shares are compared.
    rows_for_frames: int = 1500,
    # Ridges with which they are compared.
    ridges_compared: tuple[float, ...] = (100.0, 1.0, 1e-1, 1e-2, 1e-3),
    # Of the kernel of all parameters over those of one: small where scales multiply, large where they do not.
    shares: tuple[float, ...] = (1.0, 10.0, 0.1),
) -> SpreadChoice:
    rest = np.flatnonzero(~held_out)[:rows_for_frames]
    some = np.concatenate([rest, np.flatnonzero(held_out)[:rows_for_frames]])
    left = held_out[some]
    tried = frames(residuals)
    # One parameter has no joint kernel.
    shares = shares if theta.shape[1] > 1 else shares[:1]

    def held_out_density(place: int, share: float) -> float:
        frame = tried[place]
        basis, values = _basis(theta[some], groups, share)
        found = choose_spread(
            values, residuals[some] @ frame.whiten.T, basis.penalties, ridges_compared, frame.below, left
        )
        # Densities in two frames are compared in one unit.
        return found.held_out + float(np.log(np.diag(frame.whiten)).sum())

    with parallel_map(2) as map_:
        by_frame = map_(lambda k: held_out_density(k, shares[0]), range(len(tried)))
        place = int(np.argmax(by_frame))
        by_share = [by_frame[place], *map_(lambda share: held_out_density(place, share), shares[1:])]
    return SpreadChoice(place, shares[int(np.argmax(by_share))])


def spread_basis(theta: np.ndarray, rng: np.random.Generator) -> tuple[Basis, np.ndarray]:
    """The basis with equal shares, and its values at the rows (n, q), where no other is tried."""
    groups = _groups(theta, rng)
    return _basis(theta, groups)


def _basis(
    theta: np.ndarray,
    groups: list[Landmarks],
    share: float = 1.0,
    *,
    # So that at the largest ridge a spread hardly moves at all.
    linear_penalty: float = 0.1,
) -> tuple[Basis, np.ndarray]:
    """The basis of some kernels, the joint one with a share, and its values at the rows."""
    return make_basis(theta, groups, _weights(groups, share), linear_penalty)


def whitening(residuals: np.ndarray) -> np.ndarray:
    """Lower triangular W with W times the residuals of unit covariance."""
    cov = np.atleast_2d(np.cov(residuals.T))
    unit = np.sqrt(np.diag(cov))
    # In units of one: deviations may differ by more than a float's digits, and then rounding decides.
    factor = cholesky(cov / unit / unit[:, None] + 1e-9 * np.eye(len(cov)), lower=True)
    return solve_triangular(factor, np.eye(len(cov)), lower=True) / unit


def _groups(
    theta: np.ndarray,
    rng: np.random.Generator,
    *,
    # Landmarks of the kernel of all parameters.
    joint_landmarks: int = 300,
    # Kernels of one parameter
    wide_points: int = 16,
    # and their bandwidth over its deviation.
    wide_bandwidth: float = 0.5,
    # The same of second ones, for kinks.
    narrow_points: int = 50,
    narrow_bandwidth: float = 0.12,
) -> list[Landmarks]:
    """Two kernels of each parameter by itself, and, last, one of all where there are several."""
    n, q = theta.shape
    groups = [
        _of_one(theta, j, points, bandwidth)
        for points, bandwidth in ((wide_points, wide_bandwidth), (narrow_points, narrow_bandwidth))
        for j in range(q)
    ]
    if q > 1:
        chosen = theta[rng.permutation(n)[:joint_landmarks]]
        groups.append(Landmarks(chosen, np.full(chosen.shape, median_heuristic(theta) ** -2)))
    return groups


def _of_one(theta: np.ndarray, j: int, points: int, bandwidth: float) -> Landmarks:
    levels = (np.arange(points) + 0.5) / points
    centres, precisions = np.zeros((points, theta.shape[1])), np.zeros((points, theta.shape[1]))
    centres[:, j] = np.quantile(theta[:, j], levels)
    precisions[:, j] = (bandwidth * theta[:, j].std()) ** -2
    return Landmarks(centres, precisions)


def _weights(
    groups: list[Landmarks],
    share: float,
    *,
    # Of the second kernels: functions with kinks cost ten times as much.
    narrow: float = 0.1,
) -> list[float]:
    """Of each group's kernel."""
    q = groups[0].centres.shape[1]
    return [1.0] * q + [narrow] * q + [share] * (len(groups) - 2 * q)
