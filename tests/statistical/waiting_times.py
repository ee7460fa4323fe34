"""The exact posterior of the model of README and of the first pages, by 20 million simulations.

``python -m tests.statistical.waiting_times`` prints means and standard deviations, in a minute: of the
8,000 rows nearest to the observation, moved there by a local linear regression of the parameters' logarithms.
"""

from __future__ import annotations

import numpy as np

OBSERVED = np.array([1.9, 1.2, 1.7])
EXACT = {"rate": (1.348, 0.318), "shape": (2.548, 0.565)}
"""What the command prints: means and standard deviations, with errors of about 1%."""


def nearest_rows(million: int, nearest: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Parameters and statistics of the rows nearest to the observation, statistics in units of noise."""
    rng = np.random.default_rng(seed)
    noise = np.array([0.17, 0.13, 0.2])
    parameters, statistics = np.empty((0, 2)), np.empty((0, 3))
    for _ in range(20 * million):
        rate, shape = np.abs(rng.normal(0, 2, 50_000)), rng.uniform(0.5, 5, 50_000)
        # Where even the mean of 50 times is far from the observation, no row is among the nearest.
        near = np.abs(shape / rate - OBSERVED[0]) < 6 * np.sqrt(shape / 50) / rate
        rate, shape = rate[near], shape[near]
        y = rng.gamma(shape[:, None], 1 / rate[:, None], (len(rate), 50))
        made = (np.stack([y.mean(1), y.std(1), np.median(y, 1)], axis=1) - OBSERVED) / noise
        parameters = np.concatenate([parameters, np.stack([rate, shape], axis=1)])
        statistics = np.concatenate([statistics, made])
        kept = np.argsort(np.linalg.norm(statistics, axis=1))[:nearest]
        parameters, statistics = parameters[kept], statistics[kept]
    return parameters, statistics


def exact(million: int = 20, nearest: int = 8_000, seed: int = 1) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of each parameter."""
    parameters, statistics = nearest_rows(million, nearest, seed)
    logs = np.log(parameters)
    design = np.column_stack([np.ones(len(statistics)), statistics])
    slopes = np.linalg.lstsq(design, logs, rcond=None)[0][1:]
    moved = np.exp(logs - statistics @ slopes)
    return {
        name: (float(x.mean()), float(x.std())) for name, x in zip(("rate", "shape"), moved.T, strict=True)
    }


if __name__ == "__main__":
    for parameter, (mean, deviation) in exact().items():
        print(f"{parameter}: mean {mean:.3f}, standard deviation {deviation:.3f}")
