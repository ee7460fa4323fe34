"""A kernel embedding: draws of its prior, its empirical estimate, its posterior, and the truth."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import pymc_kbr as pk
from pymc_kbr.arrays import plotting as palette
from pymc_kbr.kernels import gaussian_mean

LENGTHSCALE, ROWS = 0.25, 60
PARTS = ((-1.2, 0.4, 0.6), (1.0, 0.3, 0.4))
"""Mean, deviation and weight of the normal distributions that the sample is from."""


def sample(rng: np.random.Generator) -> np.ndarray:
    """A sample of the mixture, shape (60, 1)."""
    means, deviations, weights = np.array(PARTS).T
    part = rng.choice(len(PARTS), ROWS, p=weights)
    return rng.normal(means[part], deviations[part])[:, None]


def truth(at: np.ndarray) -> np.ndarray:
    """The mixture's embedding at points (l, 1), in closed form."""
    variance = np.array([LENGTHSCALE**2])
    return np.sum(
        [
            weight * gaussian_mean(at, np.array([mean]), np.array([[deviation**2]]), variance)
            for mean, deviation, weight in PARTS
        ],
        axis=0,
    )


def figure(quick: bool, output: Path) -> None:
    """The picture (embedding.png) and the errors of the empirical and the posterior mean (embedding.csv)."""
    at = np.linspace(-3, 3, 241)[:, None]
    x = sample(np.random.default_rng(3))
    lines = []
    for noise in (0.1, 0.01, 0.001):
        found = pk.BayesianKernelEmbedding(LENGTHSCALE, noise).fit(x)
        lower, upper = found.interval(at, 0.8).T
        lines.append(
            {
                "noise": noise,
                "error_empirical": np.sqrt(np.mean((found.empirical(at) - truth(at)) ** 2)),
                "error_posterior": np.sqrt(np.mean((found.mean(at) - truth(at)) ** 2)),
                "covered_80": np.mean((lower <= truth(at)) & (truth(at) <= upper)),
            }
        )
    pd.DataFrame(lines).round(4).to_csv(output / "embedding.csv", index=False)
    print(pd.DataFrame(lines).to_string(index=False), flush=True)
    found = pk.BayesianKernelEmbedding(LENGTHSCALE, 0.01).fit(x)
    lower, upper = found.interval(at, 0.8).T
    picture, axes = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for number, curve in enumerate(found.draw_prior(at, 3, 1)):
        axes[0].plot(at, curve, **palette.line_style(number))
    axes[0].set(title="Three draws of the prior", xlabel="x")
    axes[1].plot(at, found.empirical(at), color=palette.BLUE, label="empirical")
    axes[1].plot(x, np.full(len(x), -0.02), "|", color=palette.GREY)
    axes[1].plot(at, truth(at), color=palette.TRUTH, linestyle="--", label="truth")
    axes[1].set(title=f"Empirical embedding of {ROWS} points", xlabel="x")
    axes[2].fill_between(at[:, 0], lower, upper, color=palette.BAND, label="80% interval")
    axes[2].plot(at, found.mean(at), color=palette.POSTERIOR, label="posterior mean")
    axes[2].plot(at, truth(at), color=palette.TRUTH, linestyle="--", label="truth")
    axes[2].set(title="Posterior, noise 0.01", xlabel="x")
    for axis in axes[1:]:
        axis.legend(fontsize="small")
    picture.savefig(output / "embedding.png", dpi=110)
    plt.close(picture)
