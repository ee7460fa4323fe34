"""From a weighted mean to a point of the state space."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import shown

Point = Callable[[np.ndarray], np.ndarray]
"""From a mean (p,) to a point (p,)."""


def as_it_is(mean: np.ndarray) -> np.ndarray:
    """The mean itself."""
    return mean


def nearest_rotation(mean: np.ndarray) -> np.ndarray:
    """The rotation matrix nearest to a matrix in Frobenius norm, both as rows of nine numbers.

    Notes
    -----
    M = U diag(s) V' becomes U diag(1, 1, det(U V')) V', which has the determinant one.

    References
    ----------
    .. [1] W. Kabsch, A solution for the best rotation to relate two sets of vectors, Acta Crystallographica
       A32 (1976), 922-923.

    Examples
    --------
    >>> nearest_rotation(np.array([2.0, 0, 0, 0, 3, 0, 0, 0, -1])).reshape(3, 3).round(6)
    array([[1., 0., 0.],
           [0., 1., 0.],
           [0., 0., 1.]])
    """
    left, _, right = np.linalg.svd(mean.reshape(3, 3))
    # The singular vectors' product may be a reflection: the least direction then turns round.
    left[:, 2] *= np.sign(np.linalg.det(left @ right))
    return (left @ right).ravel()


POINTS: dict[str, Point] = {"mean": as_it_is, "rotation": nearest_rotation}
"""The name of each."""


def make_point(point: Any, states: np.ndarray) -> Point:
    """A point from its name, or a projection that a user supplies, tried on the states' mean.

    Raises
    ------
    TypeError, ValueError
        If there is no such name, states are no rotation matrices, or a projection returns another shape or
        NaN.
    """
    if isinstance(point, str):
        if point not in POINTS:
            raise ValueError(
                f"point is {shown(point)}; the names are {', '.join(POINTS)}, or give a projection"
            )
        if point == "rotation":
            _check_rotations(states)
        return POINTS[point]
    if not callable(point):
        raise TypeError(
            f"point is {shown(point)}; give a name ({', '.join(POINTS)}) or a function of a mean (p,)"
        )

    def projected(mean: np.ndarray) -> np.ndarray:
        found = np.asarray(point(mean), dtype=float)
        if found.shape != mean.shape or not np.all(np.isfinite(found)):
            raise ValueError(
                f"the projection made {found!r} of a mean of shape {mean.shape}; it must return a "
                "finite point "
                "of the same shape"
            )
        return found

    # Tried at once: an error in a user's function would else come with the first filtered step.
    projected(states.mean(axis=0))
    return projected


def _check_rotations(states: np.ndarray) -> None:
    if states.shape[1] != 9:
        raise ValueError(
            f"point is 'rotation' and the states have {states.shape[1]} columns; rotations are given as "
            "rows of "
            "nine numbers, a matrix row after row"
        )
    matrices = states.reshape(-1, 3, 3)
    apart = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    wrong = (apart > 1e-6) | (np.linalg.det(matrices) < 0)
    if np.any(wrong):
        raise ValueError(
            f"point is 'rotation' and {wrong.sum()} state(s) are no rotation matrices, the first of them row "
            f"{np.flatnonzero(wrong)[0]}; give R with R R' = I and determinant one"
        )
