"""A mixture of normals against one of Laplace distributions: the lengthscale with its posterior, by NUTS."""

from __future__ import annotations

import logging
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale

CENTRES = (-3.0, 0.0, 3.0)
PRIOR = "gamma(1, 1)"

NEAR = 0.2
"""Of a maximum, in log lengthscale: chains beyond that are left out of the witness function."""

CHAINS, DRAWS = 6, 100
"""Chains, and draws of each after as many to warm up; the paper has 8 of 200."""


def pair(points: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """So many points of each component, of deviation one: normals, and Laplace distributions."""
    centres = np.repeat(CENTRES, points)
    return rng.normal(centres), rng.laplace(centres, np.sqrt(0.5))


def sampled(x: np.ndarray, y: np.ndarray, prior: str, chains: int, draws: int) -> np.ndarray:
    """Draws of the lengthscale (chains, draws), from starts spread over the prior's range."""
    starts = [{"lengthscale": start} for start in np.geomspace(0.1, 6.0, chains)]
    with pk.kernel_embedding_model(np.concatenate([x, y]), prior=prior):
        idata = pm.sample(
            draws,
            tune=draws,
            chains=chains,
            cores=1,
            initvals=starts,
            init="adapt_diag",
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    return np.asarray(idata.posterior["lengthscale"])


def mixtures(quick: bool, output: Path) -> None:
    """Chains of both priors (chains.csv), their modes (modes.csv), and the picture (mixtures.png)."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    x, y = pair(20 if quick else 100, np.random.default_rng(0))
    chains, draws = (3, 20) if quick else (CHAINS, DRAWS)
    maxima = learn_lengthscale(np.concatenate([x, y])).maxima
    lines = [
        {"prior": "none: maximum", "mode": k, "chains": 0, "mean": m.lengthscale[0], "deviation": 0.0}
        for k, m in enumerate(reversed(maxima))
    ]
    found = sampled(x, y, PRIOR, chains, draws)
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
    axes[0].plot(found.T, linewidth=0.8)
    axes[0].set(title="Lengthscale, each chain", xlabel="draw", yscale="log")
    for axis, (title, result) in zip(axes[1:], panels.items(), strict=True):
        axis.fill_between(at[:, 0], result.lower, result.upper, color="0.8", label="80% interval")
        axis.plot(at, result.mean, color="black")
        axis.axhline(0, color="tab:red", linewidth=0.8)
        axis.set(title=f"Witness, {title}", xlabel="x", ylim=(-0.15, 0.15))
    picture.savefig(output / "mixtures.png", dpi=110)
    plt.close(picture)
