"""Twenty systems whose densities are known, and the particle filter and smoother that use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp
from scipy.stats import t as student

from case_studies.filtering.dynamics import DYNAMICS

Array = np.ndarray
BURN_IN = 50


@dataclass(frozen=True)
class System:
    """A hidden Markov model: functions of states (k, p), and of a next state (p,) or an observation (d,)."""

    name: str
    columns: int
    step: Callable[[Array, np.random.Generator], Array]
    seen: Callable[[Array, np.random.Generator], Array]
    log_step: Callable[[Array, Array], Array]
    log_seen: Callable[[Array, Array], Array]

    def simulate(self, steps: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """States (steps, p) and observations (steps, d), after a burn-in."""
        state = 0.5 * rng.normal(size=(1, self.columns))
        states = np.empty((steps, self.columns))
        for t in range(-BURN_IN, steps):
            state = self.step(state, rng)
            if t >= 0:
                states[t] = state[0]
        return states, self.seen(states, rng)

    def particles(
        self, observations: Array, count: int, paths: int, rng: np.random.Generator
    ) -> tuple[Array, Array, Array, Array]:
        """Filtered means and 90% intervals, smoothed means (T, p) and intervals, by backward simulation."""
        steps = len(observations)
        cloud = 0.5 * rng.normal(size=(count, self.columns))
        for _ in range(BURN_IN):
            cloud = self.step(cloud, rng)
        clouds, means, bands = [], [], []
        logs: list[Array] = []
        for t, row in enumerate(observations):
            if t:
                weights = np.exp(logs[-1])
                at = np.searchsorted(np.cumsum(weights), (rng.random() + np.arange(count)) / count)
                cloud = self.step(cloud[np.minimum(at, count - 1)], rng)
            log = self.log_seen(row, cloud)
            log = log - logsumexp(log)
            weights = np.exp(log)
            clouds.append(cloud)
            logs.append(log)
            means.append(weights @ cloud)
            chosen = rng.choice(count, 2000, p=weights)
            bands.append(np.quantile(cloud[chosen], [0.05, 0.95], axis=0))
        path = np.empty((steps, paths, self.columns))
        path[-1] = clouds[-1][rng.choice(count, paths, p=np.exp(logs[-1]))]
        for t in range(steps - 2, -1, -1):
            # A sample of the cloud by its weights: equal ones are left.
            few = clouds[t][rng.choice(count, 1000, p=np.exp(logs[t]))]
            for i in range(paths):
                log = self.log_step(path[t + 1, i], few)
                log += rng.gumbel(size=len(log))
                path[t, i] = few[np.argmax(log)]
        return (
            np.array(means),
            np.array(bands),
            path.mean(axis=1),
            np.quantile(path, [0.05, 0.95], axis=1).transpose(1, 0, 2),
        )


def normal_log(apart: Array, deviation: float | Array) -> Array:
    """Of independent normal errors, up to a constant."""
    return -0.5 * np.sum((apart / deviation) ** 2, axis=-1)


def of(
    name: str,
    columns: int,
    mean: Any,
    noise: float,
    law: str = "normal",
    sight: Any = None,
    sight_noise: float = 0.0,
    sight_law: str = "normal",
    **more: Any,
) -> System:
    """A system of a mean of the next state and of the observation with independent errors."""

    def draws(shape, how, rng):
        if how == "normal":
            return rng.normal(size=shape)
        return rng.standard_t(float(how), size=shape)

    def log(apart, deviation, how):
        if how == "normal":
            return normal_log(apart, deviation)
        return student.logpdf(apart / deviation, float(how)).sum(axis=-1)

    given = {
        "step": lambda z, rng: mean(z) + noise * draws(z.shape, law, rng),
        "log_step": lambda after, z: log(after - mean(z), noise, law),
        "seen": lambda z, rng: (s := sight(z)) + sight_noise * draws(s.shape, sight_law, rng),
        "log_seen": lambda x, z: log(x - sight(z), sight_noise, sight_law),
    }
    return System(name, columns, **(given | more))


def counts(rate: Callable[[Array], Array]) -> dict[str, Any]:
    """Poisson observations."""
    return {
        "seen": lambda z, rng: rng.poisson(rate(z)).astype(float),
        "log_seen": lambda x, z: np.sum(x * np.log(rate(z)) - rate(z) - gammaln(x + 1), axis=-1),
    }


def _same(z):
    return z


def _chain(p, slope=0.8, beside=0.1):
    a = slope * np.eye(p) + beside * np.eye(p, k=1)
    return lambda z: z @ a.T


def _turn(angle, damped):
    a = damped * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    return lambda z: z @ a.T


def _pendulum(z, step=0.3):
    speed = 0.97 * z[:, 1] - step * np.sin(z[:, 0])
    return np.column_stack([z[:, 0] + step * speed, speed])


def _lorenz(z, step=0.04):
    x, y, w = (z * [8.0, 9.0, 8.5] + [0, 0, 23.5]).T
    for _ in range(4):
        dx, dy, dw = 10 * (y - x), x * (28 - w) - y, x * y - 8 / 3 * w
        x, y, w = x + step / 4 * dx, y + step / 4 * dy, w + step / 4 * dw
    return (np.column_stack([x, y, w]) - [0, 0, 23.5]) / [8.0, 9.0, 8.5]


def _ring(z, step=0.05, force=6.0):
    y = 3.0 * z + 2.0
    for _ in range(8):
        y = y + step / 8 * ((np.roll(y, -1, 1) - np.roll(y, 2, 1)) * np.roll(y, 1, 1) - y + force)
    return (y - 2.0) / 3.0


def _well(z, step=0.3):
    return z + step * (z - z**3)


JUMP, JUMP_NOISE, LEVEL_NOISE = 0.04, 2.0, 0.1


def _jump_step(z, rng):
    jumps = rng.random(z.shape) < JUMP
    return 0.98 * z + np.where(jumps, JUMP_NOISE, LEVEL_NOISE) * rng.normal(size=z.shape)


def _jump_log(after, z):
    apart = after - 0.98 * z
    both = [
        np.log(share) - 0.5 * (apart / s) ** 2 - np.log(s)
        for share, s in ((JUMP, JUMP_NOISE), (1 - JUMP, LEVEL_NOISE))
    ]
    return np.logaddexp(*both).sum(axis=-1)


def _switch_step(z, rng):
    """A sign that flips now and then, and a level that follows it."""
    flips = rng.random(len(z)) < 0.05
    regime = np.where(flips, -np.sign(z[:, 0]), np.sign(z[:, 0]))
    return (regime * (1 + 0.3 * rng.normal(size=len(z))))[:, None]


def _switch_log(after, z):
    # The size is drawn anew: a normal about one with either sign, of which a draw may cross zero.
    s = np.sign(z[:, 0])
    logs = [
        np.log(share) - 0.5 * ((after[0] * sign - 1) / 0.3) ** 2 for share, sign in ((0.95, s), (0.05, -s))
    ]
    return np.logaddexp(*logs)


ROTATION, OSCILLATION = DYNAMICS["rotation"], DYNAMICS["oscillation"]

SYSTEMS = (
    of("autoregression", 1, lambda z: 0.9 * z, 0.4, sight=_same, sight_noise=0.5),
    of("sharp plane", 2, lambda z: 0.9 * z, 0.4, sight=_same, sight_noise=0.1),
    of("spiral", 2, _turn(0.4, 0.95), 0.3, sight=_same, sight_noise=0.5),
    of(
        "position",
        2,
        lambda z: np.column_stack([0.95 * z[:, 0] + 0.3 * z[:, 1], 0.9 * z[:, 1]]),
        0.2,
        sight=lambda z: z[:, :1],
        sight_noise=0.4,
    ),
    of(
        "chain of five",
        5,
        _chain(5),
        0.5,
        sight=lambda z: z[:, [0, 2, 4]] + 0.5 * z[:, [1, 3, 3]],
        sight_noise=0.3,
    ),
    of("five apart", 5, lambda z: 0.9 * z, 0.4, sight=_same, sight_noise=0.8),
    of("rotation", 2, ROTATION.mean, 0.2, sight=_same, sight_noise=0.2),
    of("oscillation", 2, OSCILLATION.mean, 0.2, sight=_same, sight_noise=0.2),
    of("pendulum", 2, _pendulum, 0.15, sight=lambda z: np.sin(z[:, :1]), sight_noise=0.2),
    of(
        "bearing",
        2,
        ROTATION.mean,
        0.1,
        sight=lambda z: np.column_stack([np.cos(a := np.arctan2(z[:, 1], z[:, 0])), np.sin(a)]),
        sight_noise=0.3,
    ),
    of("jumps", 1, None, 0, sight=_same, sight_noise=0.4, step=_jump_step, log_step=_jump_log),
    of("switch", 1, None, 0, sight=_same, sight_noise=1.0, step=_switch_step, log_step=_switch_log),
    of("two wells", 1, _well, 0.3, sight=_same, sight_noise=0.7),
    of("heavy observations", 1, lambda z: 0.9 * z, 0.4, sight=_same, sight_noise=0.3, sight_law="2"),
    of("heavy steps", 2, lambda z: 0.8 * z, 0.2, law="3", sight=_same, sight_noise=0.5),
    of("counts", 1, lambda z: 0.9 * z, 0.4, **counts(lambda z: np.exp(1 + z))),
    of("counts of three", 3, lambda z: 0.9 * z, 0.3, **counts(lambda z: np.exp(1 + 0.7 * z))),
    of(
        "volatility",
        1,
        lambda z: 0.95 * z,
        0.3,
        seen=lambda z, rng: np.log(np.abs(np.exp(z / 2) * rng.normal(size=z.shape)) + 1e-3),
        log_seen=lambda x, z: np.sum(-0.5 * (np.exp(x) / np.exp(z / 2)) ** 2 - z / 2, axis=-1),
    ),
    of("convection", 3, _lorenz, 0.08, sight=lambda z: z[:, [0, 2]], sight_noise=0.3),
    of("ring of five", 5, _ring, 0.15, sight=_same, sight_noise=0.4),
)
