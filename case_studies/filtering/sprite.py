"""A shape that moves in the plane: 64 x 64 frames, its place the oscillation's state with noise.

Xu 2022, section 5.3, with the dynamics of section 5.2 and a shape drawn here.
"""

from __future__ import annotations

import numpy as np

from case_studies.filtering.dynamics import Dynamics

SIZE = 64
REACH = 2.2
"""Of the frame: from -REACH to REACH along both axes."""

RADIUS = 0.45
"""Of the shape, a heart."""

MOTION = Dynamics(0.4, 0.4, state_noise=0.05, observation_noise=0.2)


def frames(places: np.ndarray) -> np.ndarray:
    """Frames (T, 64, 64) of a shape at places (T, 2): one inside, zero outside, smooth over about a pixel."""
    line = (2 * (np.arange(SIZE) + 0.5) / SIZE - 1) * REACH
    x = (line[None, None, :] - places[:, 0, None, None]) / RADIUS
    y = (-line[None, :, None] - places[:, 1, None, None]) / RADIUS
    y = y - 0.55 * np.sqrt(np.abs(x)) + 0.25
    inside = 1 - np.sqrt(x**2 + y**2)
    return 1 / (1 + np.exp(-12 * inside))


def moves(steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """States (steps, 2) and frames (steps, 64, 64) without noise of pixels."""
    states, places = MOTION.simulate(steps, rng)
    return states, frames(places)
