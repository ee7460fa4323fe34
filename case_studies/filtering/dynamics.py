"""A point that turns on a circle, or on one whose radius goes up and down; and it is seen with noise.

Fukumizu 2013, section 5.3, and Xu 2022, section 5.2. The angle is that of the state, noise included. The
radius is a function of the next step's angle, as Fukumizu prints it; Xu's text has that of this step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

BURN_IN = 50
"""Steps that are left out, so that a sequence starts where it will be later, too."""


@dataclass(frozen=True)
class Dynamics:
    """z' = (1 + b sin(M a)) (cos a, sin a) + noise with a = angle(z) + omega; x = z + noise.

    Parameters
    ----------
    omega, b, periods : float
        `periods` is M.
    state_noise, observation_noise : float
        Standard deviations.
    """

    omega: float
    b: float = 0.0
    periods: float = 8.0
    state_noise: float = 0.2
    observation_noise: float = 0.2

    def mean(self, states: np.ndarray) -> np.ndarray:
        """The next state without its noise, at states (..., 2)."""
        angle = np.arctan2(states[..., 1], states[..., 0]) + self.omega
        radius = 1 + self.b * np.sin(self.periods * angle)
        return radius[..., None] * np.stack([np.cos(angle), np.sin(angle)], axis=-1)

    def step(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Next states, with noise: what a filter with a known transition is given."""
        return self.mean(states) + self.state_noise * rng.normal(size=states.shape)

    def jacobian(self, state: np.ndarray) -> np.ndarray:
        """Derivative (2, 2) of `mean` at a state (2,)."""
        squared = state @ state
        angle = np.arctan2(state[1], state[0]) + self.omega
        of_angle = np.array([-state[1], state[0]]) / squared
        radius = 1 + self.b * np.sin(self.periods * angle)
        slope = self.b * self.periods * np.cos(self.periods * angle)
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        return np.outer(slope * along + radius * across, of_angle)

    def simulate(self, steps: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """States and observations (steps, 2)."""
        states = np.empty((steps + BURN_IN, 2))
        states[0] = rng.normal(size=2)
        for t in range(1, len(states)):
            states[t] = self.step(states[t - 1 : t], rng)[0]
        states = states[BURN_IN:]
        return states, states + self.observation_noise * rng.normal(size=states.shape)


DYNAMICS = {"rotation": Dynamics(0.3), "oscillation": Dynamics(0.4, 0.4)}
"""The two of the papers."""
