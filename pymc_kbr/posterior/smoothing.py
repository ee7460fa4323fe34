"""From resampled atoms to draws: Gaussian noise that leaves the posterior's variance as it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import KDTree

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.scaling import unit_deviations, units_of
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.weighted import effective_sample_size


def unsmoothed(
    atoms: np.ndarray, weights: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """The resampled atoms as they are."""
    return atoms[rows]


def globally(
    atoms: np.ndarray, weights: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Noise of the posterior's own covariance and one bandwidth."""
    mean = weights @ atoms
    h = silverman(effective_sample_size(weights), atoms.shape[1])
    # No Cholesky factor: weights on few atoms, or atoms on a line, have a singular covariance.
    root = _square_root((weights[:, None] * (atoms - mean)).T @ (atoms - mean))
    noise = rng.standard_normal((len(rows), atoms.shape[1])) @ root
    return mean + np.sqrt(1 - h**2) * (atoms[rows] - mean) + h * noise


def locally(
    atoms: np.ndarray,
    weights: np.ndarray,
    rows: np.ndarray,
    rng: np.random.Generator,
    *,
    # Neighbours of an atom for each entry of a covariance,
    neighbours_an_entry: int = 4,
    # for each column at most,
    neighbours_a_column: int = 20,
    # and at least.
    fewest_neighbours: int = 12,
    # Different atoms, at least, whose variances correct for one-sided neighbours.
    atoms_for_variances: int = 20,
    # Random numbers that are held.
    numbers_at_once: int = 2**22,
) -> np.ndarray:
    """Noise of the covariance among each atom's neighbours."""
    carrying = np.flatnonzero(weights > 0)
    count, q = len(carrying), atoms.shape[1]
    k = min(count, max(2 * q + 2, round(count ** max(0.5, q / (q + 2)))))
    if k < 2:
        return atoms[rows]
    points = atoms[carrying]
    scaled = points / unit_deviations(points)
    # Each atom's neighbours once, however often it was drawn.
    drawn, place = np.unique(np.searchsorted(carrying, rows), return_inverse=True)
    enough = max(fewest_neighbours, min(neighbours_an_entry * q**2, neighbours_a_column * q))
    used, among = min(k, enough), np.arange(count)
    if used < k:
        among = rng.choice(count, max(used, round(count * used / k)), replace=False)
    # Median splits take longer than they save, for one question an atom.
    near = among[KDTree(scaled[among], balanced_tree=False).query(scaled[drawn], k=used)[1]]
    shares = weights[carrying][near]
    shares /= np.einsum("rk->r", shares)[:, None]
    # Columns first, each of shape (drawn atoms, neighbours).
    apart = np.ascontiguousarray(points.T)[:, near]
    means = np.einsum("rk,qrk->qr", shares, apart)
    apart -= means[:, :, None]
    apart *= np.sqrt(shares)
    h = silverman(k, q)
    shrunk = means.T + np.sqrt(1 - h**2) * (points[drawn] - means.T)
    widened = np.ones(q)
    if len(drawn) >= atoms_for_variances:
        v = weights[carrying][drawn] / weights[carrying][drawn].sum()
        target, kept = _variance(points[drawn], v), _variance(shrunk, v)
        made = kept + h**2 * np.einsum("r,qrk,qrk->q", v, apart, apart)
        widened = np.sqrt(np.divide(target, made, out=np.ones(q), where=made > 0))
        centre = v @ shrunk
        shrunk = centre + widened * (shrunk - centre)
    result = np.empty((len(rows), q))
    # Weighted sums of the neighbours' deviations have their covariance, without one being factored.
    for part in np.array_split(np.arange(len(rows)), max(1, len(rows) * used * q // numbers_at_once)):
        noise = np.einsum("rk,qrk->rq", rng.standard_normal((len(part), used)), apart[:, place[part]])
        result[part] = shrunk[place[part]] + h * widened * noise
    return result


def repeats_locally(
    atoms: np.ndarray, weights: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Local noise on atoms that were drawn before; the first time each is left where it is."""
    again = np.ones(len(rows), dtype=bool)
    again[np.unique(rows, return_index=True)[1]] = False
    moved = atoms[rows]
    if np.any(again):
        moved[again] = locally(atoms, weights, rows[again], rng)
    return moved


SMOOTHINGS: dict[str, Callable[..., np.ndarray]] = {
    "local": locally,
    "global": globally,
    "repeats": repeats_locally,
    "none": unsmoothed,
}
"""The name of each way from atoms (m, q), their weights on the simplex (m,) and rows (k,) to draws (k, q)."""


def smoothed(
    atoms: np.ndarray,
    weights: np.ndarray,
    support: Support,
    rows: np.ndarray,
    rng: np.random.Generator,
    smoothing: str,
    *,
    # Times that noise is drawn again where it leaves the support.
    most_redraws: int = 10,
) -> np.ndarray:
    """Resampled atoms with noise in the unconstrained space, shape (k, p)."""
    # Shapes: atoms (m, p); weights (m,); rows (k,).
    if smoothing == "none":
        return atoms[rows]
    drawn = _with_noise(atoms, weights, support, rows, rng, smoothing)
    if not support.restricted:
        return drawn
    for _ in range(most_redraws):
        outside = np.flatnonzero(~support.allows(drawn))
        if not len(outside):
            return drawn
        drawn[outside] = _with_noise(atoms, weights, support, rows[outside], rng, smoothing)
    outside = np.flatnonzero(~support.allows(drawn))
    drawn[outside] = atoms[rows[outside]]
    return drawn


def _with_noise(
    atoms: np.ndarray,
    weights: np.ndarray,
    support: Support,
    rows: np.ndarray,
    rng: np.random.Generator,
    smoothing: str,
) -> np.ndarray:
    drawn = atoms[rows]
    for among, columns in support.strata(atoms):
        mine = among[rows]
        if np.any(mine):
            drawn[mine] = _smoothed_among(atoms, weights, support, rows[mine], rng, smoothing, among, columns)
    return drawn


def _smoothed_among(
    atoms: np.ndarray,
    weights: np.ndarray,
    support: Support,
    rows: np.ndarray,
    rng: np.random.Generator,
    smoothing: str,
    among: np.ndarray,
    columns: np.ndarray,
) -> np.ndarray:
    """The same of rows that are at the same atoms as others (m,), in the other parameters (p,)."""
    free = support.forward(atoms)
    smooth = support.free_columns(columns)
    inside = among & np.all(np.isfinite(free[:, smooth]), axis=1)
    v = np.where(inside, weights, 0)
    chosen = free[rows]
    moving = inside[rows]
    if np.any(smooth) and v.sum() > 0 and np.any(moving):
        # Numbers of atoms become numbers among those inside.
        place = np.cumsum(inside) - 1
        points = free[inside][:, smooth]
        units = units_of(points)
        moved = SMOOTHINGS[smoothing](points / units, v[inside] / v.sum(), place[rows[moving]], rng)
        chosen[np.ix_(moving, smooth)] = moved * units
    drawn = support.backward(chosen, np.full(len(chosen), 1 / len(chosen)))
    # There and back a count would lose digits, and be no count.
    kept = ~(support.moved() & columns)
    drawn[:, kept] = atoms[rows][:, kept]
    return drawn


def check_smoothing(smoothing: str) -> None:
    """Refuse a name that is not in `SMOOTHINGS`."""
    if not isinstance(smoothing, str) or smoothing not in SMOOTHINGS:
        raise ValueError(
            f"smoothing is {shown(smoothing)}; it may be one of {', '.join(map(repr, SMOOTHINGS))}"
        )


def refuse_infinite(what: str, points: np.ndarray) -> np.ndarray:
    """Atoms or draws (m, p) as they are, refused with their number where some are not finite."""
    broken = int(np.sum(~np.isfinite(points).all(axis=1)))
    if broken:
        raise ValueError(
            f"{broken} of {len(points)} {what} are infinite or no numbers: the observation lies so far from "
            "what was simulated that parameters were carried beyond all numbers; look at "
            "`plot_observation_support(table)`, check the observation and the model, simulate nearer to it "
            "(`zoom`, or a wider prior), or take estimator='rejection', whose atoms are simulated ones"
        )
    return points


def silverman(
    size: float,
    dimensions: int,
    *,
    # Share of a neighbourhood's deviation that smoothing may replace by noise.
    largest_bandwidth: float = 0.9,
) -> float:
    """Silverman's bandwidth for `size` standardised draws, at most `largest_bandwidth`."""
    return float(min(largest_bandwidth, (4 / (max(size, 1.0) * (dimensions + 2))) ** (1 / (dimensions + 4))))


def _variance(points: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Variance of each column of points (m, q) under weights (m,) of sum one."""
    return weights @ (points - weights @ points) ** 2


def _square_root(covariance: np.ndarray) -> np.ndarray:
    """R with R' R = covariance, for a covariance that may be singular."""
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.maximum(values, 0))).T
