"""A mixture of normals against one of Laplace distributions: the lengthscale with its posterior, by NUTS."""

from __future__ import annotations

import logging
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from pymc_kbr.arrays import plotting as palette
from pymc_kbr.embedding.learnt_lengthscale import Maximum, learn_lengthscale

CENTRES = (-3.0, 0.0, 3.0)
PRIOR = "gamma(1, 1)"

NEAR = 0.2
"""Of a maximum, in log lengthscale: chains beyond that are left out of the witness function."""

CHAINS, DRAWS = 8, 200
"""Chains of 400 steps, of which the first 200 warm up, as in the paper."""

SETS = 8
"""Data sets of which the maxima alone are found, to see how far they vary."""


def pair(points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """So many points of each component, of deviation one: normals, and Laplace distributions."""
    centres = np.repeat(CENTRES, points)
    return rng.normal(centres), rng.laplace(centres, np.sqrt(0.5))


def chain_of(x: np.ndarray, y: np.ndarray, chain: int, draws: int) -> np.ndarray:
    """Draws of the lengthscale (draws,) by one chain, from a start drawn as Stan draws it."""
    start = np.exp(np.random.default_rng([2, chain]).uniform(-2, 2))
    with pk.kernel_embedding_model(np.concatenate([x, y]), prior=PRIOR):
        idata = pm.sample(
            draws,
            tune=draws,
            chains=1,
            cores=1,
            initvals=[{"lengthscale": start}],
            init="adapt_diag",
            random_seed=chain,
            progressbar=False,
            compute_convergence_checks=False,
        )
    return np.asarray(idata.posterior["lengthscale"])[0]


def maxima_by_length(points: np.ndarray) -> list[Maximum]:
    """The maxima of the marginal likelihood, the shortest lengthscale first."""
    return sorted(learn_lengthscale(points).maxima, key=lambda m: float(m.lengthscale[0]))


def mixtures(quick: bool, output: Path) -> None:
    """The chains (chains.csv), their modes (modes.csv), and the picture (mixtures.png)."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    x, y = pair(20 if quick else 100, np.random.default_rng(0))
    chains, draws = (3, 20) if quick else (CHAINS, DRAWS)
    maxima = maxima_by_length(np.concatenate([x, y]))
    highest = max(m.log_likelihood for m in maxima)
    lines: list[dict[str, float | str]] = [
        {
            "prior": "none: maximum",
            "mode": k,
            "chains": 0,
            "mean": m.lengthscale[0],
            "deviation": 0.0,
            "below_highest": highest - m.log_likelihood,
        }
        for k, m in enumerate(maxima)
    ]
    found = np.array([chain_of(x, y, chain, draws) for chain in range(chains)])
    modes = pk.chain_modes(found)
    traces = [
        {"prior": PRIOR, "chain": c, "draw": i, "lengthscale": value}
        for c, chain in enumerate(found)
        for i, value in enumerate(chain)
    ]
    lines += [
        {"prior": PRIOR, "mode": k, "chains": int(np.sum(modes.mode == k)), "mean": mean, "deviation": sd}
        for k, (mean, sd) in enumerate(zip(modes.means, modes.deviations, strict=True))
    ]
    pd.DataFrame(lines).round(4).to_csv(output / "modes.csv", index=False)
    pd.DataFrame(traces).round(4).to_csv(output / "chains.csv", index=False)
    print(pd.DataFrame(lines).to_string(index=False), flush=True)
    draw(x, y, found, [float(m.lengthscale[0]) for m in maxima], output)


def data_sets(quick: bool, output: Path) -> None:
    """The shortest and the longest maximum of data sets drawn alike (mixture_sets.csv)."""
    lines = []
    for seed in range(2 if quick else SETS):
        x, y = pair(20 if quick else 100, np.random.default_rng(seed))
        maxima = maxima_by_length(np.concatenate([x, y]))
        shortest, longest = maxima[0], maxima[-1]
        lines.append(
            {
                "set": seed,
                "maxima": len(maxima),
                "shortest": shortest.lengthscale[0],
                "longest": longest.lengthscale[0],
                "longest_over_shortest": longest.log_likelihood - shortest.log_likelihood,
            }
        )
    pd.DataFrame(lines).round(4).to_csv(output / "mixture_sets.csv", index=False)
    print(pd.DataFrame(lines).describe().to_string(), flush=True)


def draw(x: np.ndarray, y: np.ndarray, found: np.ndarray, maxima: list[float], output: Path) -> None:
    """The trace, and the witness function at both ends and with the lengthscale integrated out."""
    at, noise = np.linspace(-6, 6, 121)[:, None], 1 / len(x)
    near = [chain for chain in found if np.abs(np.log(chain.mean() / np.array(maxima))).min() < NEAR]
    draws = np.concatenate(near or list(found))[:, None]
    panels = {
        f"lengthscale {min(maxima):.2f}": pk.witness(x, y, at, lengthscale=min(maxima), noise=noise),
        f"lengthscale {max(maxima):.2f}": pk.witness(x, y, at, lengthscale=max(maxima), noise=noise),
        "integrated out": pk.witness(
            x, y, at, lengthscale=draws[:: max(1, len(draws) // 200)], noise=noise, random_seed=1
        ),
    }
    picture, axes = plt.subplots(1, 4, figsize=(14, 3.4), layout="constrained")
    for number, chain in enumerate(found):
        axes[0].plot(chain, color=palette.COLOURS[number % len(palette.COLOURS)], linewidth=0.8)
    axes[0].set(title="Lengthscale, each chain", xlabel="draw", yscale="log")
    for axis, (title, result) in zip(axes[1:], panels.items(), strict=True):
        axis.fill_between(at[:, 0], result.lower, result.upper, color=palette.BAND, label="80% interval")
        axis.plot(at, result.mean, color=palette.POSTERIOR)
        axis.axhline(0, color=palette.RULE, linewidth=0.8)
        axis.set(title=f"Witness, {title}", xlabel="x", ylim=(-0.15, 0.15))
    picture.savefig(output / "mixtures.png", dpi=110)
    plt.close(picture)
