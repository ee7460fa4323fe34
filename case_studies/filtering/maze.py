"""An agent that turns at a place in a maze: 36 x 48 frames of RGB pixels by casting a ray a column.

Xu 2022, section 5.3: the direction grows by omega a step, with noise; the frame is that of a direction with
noise of its own. The maze is this file's.
"""

from __future__ import annotations

import numpy as np

HEIGHT, WIDTH = 36, 48
PLAN = (
    "#########",
    "#.......#",
    "#.##.##.#",
    "#.#...#.#",
    "#...#...#",
    "#.#...#.#",
    "#.##.##.#",
    "#.......#",
    "#########",
)
"""Walls and floor, a unit a letter."""

EYE = np.array([5.3, 3.4])
"""Where the agent stands: column and row of the plan."""

FIELD = np.pi / 2
"""The angle between the first ray and the last."""

OMEGA, TURN_NOISE, DIRECTION_NOISE = 0.4, 0.2, 0.2


def walls() -> tuple[np.ndarray, np.ndarray]:
    """The blocks' corners (b, 2) and their colours (b, 3)."""
    blocks = np.array([(x, y) for y, row in enumerate(PLAN) for x, letter in enumerate(row) if letter == "#"])
    hue = (blocks @ [0.37, 0.73]) % 1.0
    return blocks, 0.55 + 0.35 * np.cos(2 * np.pi * (hue[:, None] + [0, 1 / 3, 2 / 3]))


def hits(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of rays in directions `angles` (k,): distances (k,), places along the wall (k,), and colours (k, 3)."""
    blocks, tints = walls()
    direction = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    with np.errstate(divide="ignore"):
        one = (blocks - EYE) / direction[:, None]
        two = (blocks + 1 - EYE) / direction[:, None]
    enter, leave = np.minimum(one, two), np.maximum(one, two)
    near, side = enter.max(axis=2), enter.argmax(axis=2)
    near = np.where((near < leave.min(axis=2)) & (near > 0), near, np.inf)
    first = near.argmin(axis=1)
    rows = np.arange(len(angles))
    far, across = near[rows, first], side[rows, first]
    at = EYE + far[:, None] * direction
    place = at[rows, 1 - across] % 1.0
    return far, place, tints[first] * np.where(across == 0, 1.0, 0.75)[:, None]


def frames(directions: np.ndarray) -> np.ndarray:
    """Frames (T, 36, 48, 3) in directions (T,), without noise of pixels."""
    across = np.tan(FIELD / 2) * (2 * (np.arange(WIDTH) + 0.5) / WIDTH - 1)
    angles = (directions[:, None] + np.arctan(across)).ravel()
    far, place, tint = hits(angles)
    depth = far / np.sqrt(1 + np.tile(across, len(directions)) ** 2)
    down = 2 * (np.arange(HEIGHT) + 0.5) / HEIGHT - 1
    edge = (0.5 / depth)[:, None]
    at = down / edge  # from -1 at the top of the wall to 1 at its foot
    # Bricks: a dark joint every third of the height, and one between stones.
    row = np.floor(3 * (at + 1) / 2)
    joint = (np.abs(3 * (at + 1) / 2 - row - 0.5) > 0.42) | (
        np.abs((place[:, None] * 2 + 0.5 * row) % 1 - 0.5) > 0.45
    )
    shade = (0.35 + 0.65 / (1 + 0.15 * depth**2))[:, None] * np.where(joint, 0.6, 1.0)
    wall = shade[..., None] * tint[:, None]
    floor, sky = np.array([0.35, 0.30, 0.25]), np.array([0.55, 0.70, 0.90])
    ground = np.where(down > 0, 0.4 + 0.6 * np.abs(down), 1.0)[:, None] * np.where(
        (down > 0)[:, None], floor, sky
    )
    found = np.where((np.abs(at) < 1)[..., None], wall, ground)
    return found.reshape(len(directions), WIDTH, HEIGHT, 3).transpose(0, 2, 1, 3)


def turns(steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Cosines and sines of directions (steps, 2), and frames (steps, 36, 48, 3) without noise of pixels."""
    first = rng.uniform(0, 2 * np.pi)
    angles = first + np.cumsum(OMEGA + TURN_NOISE * rng.normal(size=steps))
    seen = angles + DIRECTION_NOISE * rng.normal(size=steps)
    return np.column_stack([np.cos(angles), np.sin(angles)]), frames(seen)
