"""A camera that turns in a room: 20 x 20 frames of RGB pixels, and rotations on a smooth random walk.

A ray through each pixel meets one of the six walls of a box; its colour there is the wall's own with its
light, or that of what hangs there.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial.transform import Rotation

SIZE, RAYS = 20, 2
"""Pixels a side, and rays a side of a pixel, whose colours are averaged."""

FIELD = np.deg2rad(120)
"""The camera's field of view, along both sides of a frame."""

EYE = np.array([0.25, -0.2, 0.1])
"""Where the camera is: the walls are at -1 and 1."""

WALLS = np.array(
    [
        [[0.85, 0.75, 0.60], [0.80, 0.45, 0.35]],
        [[0.55, 0.70, 0.85], [0.60, 0.80, 0.55]],
        [[0.35, 0.25, 0.20], [0.95, 0.95, 0.90]],
    ]
)
"""Colours: of the walls at -1 and at 1, along each axis. The last are the floor and the ceiling."""

THINGS = (
    # axis, side, the middle (u, v) and half the width and height on the wall, colour
    (0, 0, (-0.3, 0.1), (0.35, 0.45), (0.25, 0.45, 0.90)),  # a window
    (0, 1, (0.5, -0.3), (0.30, 0.70), (0.30, 0.15, 0.10)),  # a door
    (0, 1, (-0.5, 0.3), (0.25, 0.25), (0.95, 0.85, 0.20)),  # a picture
    (1, 0, (0.0, 0.2), (0.50, 0.25), (0.10, 0.35, 0.20)),  # a blackboard
    (1, 1, (0.4, -0.5), (0.45, 0.40), (0.75, 0.15, 0.40)),  # a chest
    (1, 1, (-0.6, 0.4), (0.20, 0.20), (0.15, 0.15, 0.35)),  # a clock
    (2, 0, (0.3, 0.3), (0.45, 0.45), (0.80, 0.20, 0.15)),  # a carpet
    (2, 1, (-0.2, -0.2), (0.25, 0.25), (0.60, 0.60, 0.25)),  # a lamp
)
"""Rectangles on the walls."""


def rays() -> np.ndarray:
    """Directions of the camera's rays, shape (SIZE RAYS, SIZE RAYS, 3)."""
    places = ((np.arange(SIZE * RAYS) + 0.5) / (SIZE * RAYS) * 2 - 1) * np.tan(FIELD / 2)
    across, down = np.meshgrid(places, -places)
    return np.stack([np.ones_like(across), -across, down], axis=-1)


def colours(directions: np.ndarray) -> np.ndarray:
    """What is seen from `EYE` in directions (..., 3) of the room: RGB, shape (..., 3)."""
    with np.errstate(divide="ignore"):
        far = np.abs((np.sign(directions) - EYE) / directions)
    axis = far.argmin(axis=-1)
    at = EYE + directions * far.min(axis=-1)[..., None]
    side = (np.take_along_axis(at, axis[..., None], -1)[..., 0] > 0).astype(int)
    found = WALLS[axis, side]
    u = np.where(axis == 0, at[..., 1], at[..., 0])
    v = np.where(axis == 2, at[..., 1], at[..., 2])
    for wall, end, middle, half, colour in THINGS:
        inside = (axis == wall) & (side == end)
        inside &= (np.abs(u - middle[0]) < half[0]) & (np.abs(v - middle[1]) < half[1])
        found = np.where(inside[..., None], colour, found)
    light = 0.8 + 0.2 * at[..., 2] + 0.1 * np.sin(2 * at[..., 0] + at[..., 1])
    return np.clip(found * light[..., None], 0, 1)


def frames(rotations: np.ndarray, most: int = 300) -> np.ndarray:
    """Frames (T, 20, 20, 3) of a camera with rotations (T, 3, 3), from its coordinates to the room's."""
    own, found = rays(), []
    for part in (rotations[i : i + most] for i in range(0, len(rotations), most)):
        seen = colours(np.einsum("tij,abj->tabi", part, own))
        shape = (len(part), SIZE, RAYS, SIZE, RAYS, 3)
        found.append(seen.reshape(shape).mean(axis=(2, 4)))
    return np.concatenate(found)


def walk(steps: int, rng: np.random.Generator, speed: float = 0.2, memory: float = 0.9) -> np.ndarray:
    """Rotations (steps, 3, 3): the camera turns about its own axes by an autoregression of order one.

    `speed` is the deviation of a step's angle about each axis.
    """
    turns = np.empty((steps, 3))
    turn = speed * rng.normal(size=3)
    for t in range(steps):
        turn = memory * turn + speed * np.sqrt(1 - memory**2) * rng.normal(size=3)
        turns[t] = turn
    now, found = Rotation.random(random_state=rng), np.empty((steps, 3, 3))
    for t, one in enumerate(Rotation.from_rotvec(turns)):
        now = now * one
        found[t] = now.as_matrix()
    return found
