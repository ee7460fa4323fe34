"""What is let in: arguments of a filter, training data, observations, priors and controls."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_kbr.arrays.labelled import in_order
from pymc_kbr.arrays.outliers import outliers
from pymc_kbr.arrays.refusals import positive, shown, times, whole
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.checks import check_scaled
from pymc_kbr.estimators.summaries import check_scale
from pymc_kbr.filtering.training import Training, Units, rows_of
from pymc_kbr.filtering.transitions import RULES
from pymc_kbr.gram import make_solver
from pymc_kbr.kernels import check_kernel

TUNINGS = ("held_out", "published")
NUMBERS = (
    "state_bandwidth",
    "observation_bandwidth",
    "regularisation",
    "prior_regularisation",
    "transition_regularisation",
    "backward_regularisation",
)


def check_arguments(given: Any) -> None:
    """Refuse arguments of a filter that are out of range, before anything is fitted."""
    for name, allowed in (("rule", tuple(RULES)), ("tuning", TUNINGS)):
        if getattr(given, name) not in allowed:
            raise ValueError(
                f"{name} is {getattr(given, name)!r}; it may be {' or '.join(map(repr, allowed))}"
            )
    for name in NUMBERS:
        if getattr(given, name) is not None:
            positive(name, getattr(given, name))
    for side in ("state", "observation", "control"):
        kernel = getattr(given, f"{side}_kernel")
        if kernel is None and side == "observation":
            continue
        check_kernel(f"{side}_kernel", kernel)
        bandwidth = getattr(given, f"{side}_bandwidth", None)
        if bandwidth is not None and not isinstance(kernel, str):
            raise ValueError(
                f"{side}_bandwidth is {shown(bandwidth)} and {side}_kernel is {shown(kernel)}; a kernel "
                "has its own bandwidth: give one of the two"
            )
    if given.features is not None:
        check_features(given)
    whole("transition_draws", given.transition_draws)
    if not (given.correction is None or isinstance(given.correction, bool)):
        raise TypeError(f"correction is {shown(given.correction)}; it may be True, False or None")
    make_solver(given.solver)


def check_features(given: Any) -> None:
    """Refuse features that are no summary, and arguments that do not go with them."""
    if isinstance(given.features, bool | np.bool_):
        raise ValueError(f"features is {shown(given.features)}; give a summary's name, a summary, or None")
    check_scale(given.features, "features")
    if given.tuning == "published":
        raise ValueError("tuning is 'published', which has Gaussian kernels alone, and features are given")
    if given.observation_bandwidth is not None and given.observation_kernel is None:
        raise ValueError(
            f"observation_bandwidth is {shown(given.observation_bandwidth)} and the kernel on features is "
            "linear, which has none; leave it out, or give observation_kernel='gaussian'"
        )


def training_of(
    states: Any, observations: Any, pairs: Any, transitions: Any, controls: Any, known: bool
) -> tuple[Training, tuple[str, ...]]:
    """The training data in one form, and the names of the states' columns where they have names."""
    apart = pairs is not None or transitions is not None
    together = states is not None or observations is not None
    if (
        apart == together
        or (together and (states is None or observations is None))
        or (apart and pairs is None)
    ):
        raise TypeError(
            "give fit either states and observations of training sequences, or pairs=(states, observations) "
            "with transitions=(states, next states)"
        )
    if apart:
        if transitions is None and not known:
            raise ValueError(
                "pairs are given without transitions; the step from a state to the next is learnt from "
                "transitions=(states, next states), or give the filter a known `transition`"
            )
        training = Training.of_parts(pairs, transitions, controls)
    else:
        training = Training.of_sequences(states, observations, controls)
    return _varying(training), training.labels.states or ()


def _varying(training: Training) -> Training:
    """Refuse a training of one state, of which every belief is the same."""
    if not np.any(np.ptp(training.states, axis=0) > 0):
        raise ValueError(
            f"all {len(training.states)} training states are the same, {training.states[0].tolist()}; there "
            "is nothing to filter: look at what is given as states"
        )
    return training


def warn_of_outliers(training: Training) -> None:
    """Say which columns of a training are measured by the deviation of a few of its rows."""
    for side, rows in (("states", training.states), ("observations", training.observations)):
        for found in outliers(rows):
            warnings.warn(
                f"the deviation of column {found.column} of the {side} is that of {len(found.rows)} of "
                f"{len(rows)} rows ({found.shown()}), {times(found.deviation / found.of_the_rest)} that "
                "of the rest: divided by it, the other rows hardly differ, so the column has hardly any "
                "effect; leave these rows out, or take its logarithm",
                UserWarning,
                stacklevel=users_line(),
            )


def observed_rows(units: Units, observations: Any, names: Sequence[str] | None = None) -> np.ndarray:
    """Observations (T, d), scaled; NaN means missing."""
    d = units.observations.size
    rows = in_order(
        "the observations", observations, names, "those of the training's observations", gaps=True
    )
    if rows.ndim != 2 or rows.shape[1] != d or not len(rows):
        raise ValueError(
            f"the observations have shape {rows.shape}; the filter was fitted to observations of {d} "
            f"column(s): give rows (T, {d}), with NaN where a column is missing"
        )
    if np.any(np.isinf(rows)):
        raise ValueError("the observations hold infinity; put NaN where an observation is missing")
    scaled = units.observed(rows)
    # What is missing cannot be too far.
    check_scaled(np.nan_to_num(scaled), np.nan_to_num(rows))
    return scaled


def unlabelled_rows(
    units: Units, training: Training, given: Any, tuning: str, fewest: int = 20
) -> list[np.ndarray]:
    """Sequences of observations without states, scaled; as few steps as held-out ones may be, or more."""
    if given is None:
        return []
    if tuning == "published" or training.controls is not None:
        what = "tuning is 'published'" if tuning == "published" else "the training has controls"
        raise ValueError(f"unlabelled observations are given, and {what}; leave one of the two out")
    several = isinstance(given, list | tuple) and len(given) > 0 and all(np.ndim(one) == 2 for one in given)
    parts = list(given) if several else [given]
    found = [observed_rows(units, part, training.labels.observations) for part in parts]
    seen = sum(int((~np.isnan(rows).all(axis=1)).sum()) for rows in found)
    if seen < fewest:
        raise ValueError(
            f"the unlabelled sequences have {seen} observations; settings are chosen on {fewest} or more: "
            "give more of them, or leave `unlabelled` out"
        )
    return found


def draws_of_states(units: Units, initial: Any, p: int, names: Sequence[str] | None = None) -> np.ndarray:
    """Draws (l, p) of the first state's prior, scaled."""
    rows = rows_of("the draws of the initial prior", initial, names)
    if rows.shape[1] != p:
        raise ValueError(
            f"the initial prior has {rows.shape[1]} column(s) and the training states have {p}; give "
            f"draws (l, {p})"
        )
    return units.states(rows)


def controls_for(
    units: Units,
    controlled: bool,
    controls: Any,
    needed: int,
    allowed: int,
    names: Sequence[str] | None = None,
) -> np.ndarray | None:
    """Controls, scaled, `needed` to `allowed` rows; None where there were none in training."""
    if not controlled:
        if controls is not None:
            raise ValueError("controls are given, and the filter was fitted without; fit it with controls")
        return None
    if controls is None:
        if needed == 0:
            return None
        raise ValueError("the filter was fitted with controls; give a row of them for each step")
    assert units.control_centre is not None
    rows, c = rows_of("controls", controls, names), len(units.control_centre)
    if rows.shape[1] != c or not needed <= len(rows) <= allowed:
        raise ValueError(
            f"the controls have shape {rows.shape}; for these steps {needed} to {allowed} rows of {c} "
            "column(s) are needed: row t acts from time t to the next"
        )
    return units.controls(rows)


# --- points of the state space from weighted means ---


Point = Callable[[np.ndarray], np.ndarray]
"""From a mean (p,) to a point (p,)."""


def as_it_is(mean: np.ndarray) -> np.ndarray:
    """The mean itself."""
    return mean


def nearest_rotation(mean: np.ndarray) -> np.ndarray:
    """The rotation matrix nearest to a matrix in Frobenius norm, both as rows of nine numbers."""
    left, _, right = np.linalg.svd(mean.reshape(3, 3))
    # The singular vectors' product may be a reflection: the least direction then turns round.
    left[:, 2] *= np.sign(np.linalg.det(left @ right))
    return (left @ right).ravel()


POINTS: dict[str, Point] = {"mean": as_it_is, "rotation": nearest_rotation}
"""The name of each."""


def make_point(point: Any, states: np.ndarray) -> Point:
    """A point from its name, or a projection that a user supplies, tried on the states' mean."""
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
                f"the projection made {found!r} of a mean of shape {mean.shape}; it must return a finite "
                "point of the same shape"
            )
        return found

    # Tried at once: an error in a user's function would else come with the first filtered step.
    projected(states.mean(axis=0))
    return projected


def _check_rotations(states: np.ndarray) -> None:
    if states.shape[1] != 9:
        raise ValueError(
            f"point is 'rotation' and the states have {states.shape[1]} columns; rotations are given as rows "
            "of nine numbers, a matrix row after row"
        )
    matrices = states.reshape(-1, 3, 3)
    apart = np.abs(matrices @ matrices.transpose(0, 2, 1) - np.eye(3)).max(axis=(1, 2))
    wrong = (apart > 1e-6) | (np.linalg.det(matrices) < 0)
    if np.any(wrong):
        raise ValueError(
            f"point is 'rotation' and {wrong.sum()} state(s) are no rotation matrices, the first of them row "
            f"{np.flatnonzero(wrong)[0]}; give R with R R' = I and determinant one"
        )
