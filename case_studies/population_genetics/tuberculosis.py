"""Clusters of identical genotypes under birth, death and mutation: tuberculosis of San Francisco.

A population begins with one case. Each case has the rates of a birth (a transmission), a death (or recovery)
and a mutation, which makes a genotype that is new. When there are 10,000 cases, 473 of them are sampled.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from pymc_kbr.arrays.plotting import COLOURS

OBSERVED_SIZES = {1: 282, 2: 20, 3: 13, 4: 4, 5: 2, 8: 1, 10: 1, 15: 1, 23: 1, 30: 1}
"""Clusters of each size: Small et al. (1994), as in Tanaka et al. (2006)."""

POPULATION, SAMPLE = 10_000, sum(size * count for size, count in OBSERVED_SIZES.items())

MOST_BIRTH, MOST_RATIO = 5.0, 0.99
"""Edges of the prior: of births a case and year, and of deaths over births. The paper's prior has none."""

PAPER, BY_TWO, BY_SIZES = "Tanaka et al. (2006)", "clusters and diversity", "sizes of clusters"
PUBLISHED = {"net rate": (0.69, 0.38, 1.08), "doubling time": (1.08, 0.64, 1.82)}
"""Mean and 95% interval of Tanaka et al. (2006), a year and in years."""

EDGES = (1, 2, 3, 4, 5, 8, 16, np.inf)
"""Between which numbers of clusters of a size are counted together."""

TWO = ("clusters", "diversity")
SIZES = (*(f"from {size}" for size in EDGES[:-1]), "largest")


def sizes_of_population(ratio: float, rng: np.random.Generator, population: int) -> np.ndarray:
    """Sizes after each birth or death, from one to the population's, of a process that does not die out."""
    upwards, sizes, now = 1 / (1 + ratio), list[np.ndarray](), 1
    block = 64
    while True:
        steps = np.where(rng.random(block) < upwards, 1, -1)
        walk = now + np.cumsum(steps)
        ends = np.flatnonzero((walk == 0) | (walk == population))
        if len(ends) == 0:
            sizes.append(walk)
            now, block = int(walk[-1]), min(2 * block, 2**16)
        elif walk[ends[0]] == population:
            return np.concatenate([[1], *sizes, walk[: ends[0] + 1]])
        else:  # extinct: the process begins anew
            sizes, now, block = [], 1, 64


def clusters(
    rng: np.random.Generator,
    birth: float,
    death: float,
    mutation: float,
    population: int = POPULATION,
    sample: int = SAMPLE,
) -> np.ndarray:
    """Sizes of the clusters of one sample, the largest first."""
    # The sample's tree is drawn backwards in time: the two cases of a birth are any two of those after it.
    sizes = sizes_of_population(death / birth, rng, population)
    waits = rng.exponential(size=len(sizes) - 2) / ((birth + death) * sizes[1:-1])
    ages = np.append(0.0, np.cumsum(waits[::-1]))  # of each birth or death; the last one ends the growth
    after = sizes[:0:-1]
    births = np.flatnonzero(after > sizes[-2::-1])
    n = after[births].astype(float)
    places = rng.random(len(births)) * n * (n - 1)
    near = np.flatnonzero(places < sample * (sample - 1))
    joined, limits = births[near], places[near]
    # Of each lineage: its sampled cases without a mutation so far, and the age up to which this is known.
    counts, since, found = [1] * sample, [0.0] * sample, list[int]()

    def without_mutation(k: int, age: float) -> int:
        if counts[k] and rng.random() > np.exp(-mutation * (age - since[k])):
            found.append(counts[k])
            return 0
        return counts[k]

    for at, limit in zip(joined.tolist(), limits.tolist(), strict=True):
        k = len(counts)
        if k == 1:
            break
        if limit >= k * (k - 1):
            continue
        age = float(ages[at])
        one = int(rng.integers(k))
        other = (one + int(rng.integers(1, k))) % k
        counts[one] = without_mutation(one, age) + without_mutation(other, age)
        since[one] = age
        counts[other], since[other] = counts[-1], since[-1]
        counts.pop()
        since.pop()
    # Beyond the birth that all sampled cases have in common mutations part none of them.
    found += [count for count in counts if count]
    return np.sort(np.array(found))[::-1]


def statistics_of(sizes: np.ndarray) -> np.ndarray:
    """Number of clusters and gene diversity, both as in the paper, and numbers of clusters of each size."""
    cases = sizes.sum()
    counts = np.histogram(sizes, EDGES)[0]
    return np.array([len(sizes) / cases, 1 - np.sum((sizes / cases) ** 2), *counts, sizes.max()])


def simulated(
    rng: np.random.Generator, birth: Any, death: Any, mutation: Any, size: Any = None
) -> np.ndarray:
    """The statistics of one sample."""
    return statistics_of(clusters(rng, float(birth), float(death), float(mutation)))


def observed() -> np.ndarray:
    """Those of the 473 cases."""
    return statistics_of(np.repeat(list(OBSERVED_SIZES), list(OBSERVED_SIZES.values())))


def model() -> pm.Model:
    """Births and deaths uniform where births are more; the mutation rate is known roughly."""
    with pm.Model(coords={"statistic": TWO + SIZES}) as made:
        # Uniform over the pairs: the larger the rate of births, the more rates of deaths there are.
        share = pm.Beta("share", 2, 1)
        birth = pm.Deterministic("birth", MOST_BIRTH * share)
        death = pm.Uniform("death", 0, MOST_RATIO * birth)
        mutation = pm.TruncatedNormal("mutation", 0.198, 0.06735, lower=0)
        pm.Deterministic("net rate", birth - death)
        pm.Deterministic("doubling time", np.log(2) / (birth - death))
        pk.vector_simulator(
            "sample", simulated, birth, death, mutation, observed=observed(), dims="statistic"
        )
    return made


def run(simulations: int, cores: int, stores: Path | None = None) -> dict[str, pd.DataFrame]:
    """Mean and 95% interval of what the paper reports, by its two statistics and by the sizes of clusters."""
    with model():
        store = None if stores is None else stores / "tuberculosis.zarr"
        table = pk.simulate(simulations, cores=cores, random_seed=1, store=store, progressbar=False)
        drawn = {by: _posterior(table, names) for by, names in {BY_TWO: TWO, BY_SIZES: SIZES}.items()}
    lines = []
    for name, published in PUBLISHED.items():
        found = {PAPER: published}
        for by, result in drawn.items():
            values = result[name].to_numpy().ravel()
            found[by] = (values.mean(), *np.quantile(values, [0.025, 0.975]))
        for by, (mean, lower, upper) in found.items():
            lines.append({"quantity": name, "by": by, "mean": mean, "lower": lower, "upper": upper})
    return {"tuberculosis": pd.DataFrame(lines)}


def _posterior(table: pk.ReferenceTable, names: tuple[str, ...]) -> Any:
    """Given some of the statistics."""
    some = [f"sample[{name}]" for name in names]
    draws = 10_000 if len(table) > 1_000 else 500
    found = pk.sample_abc(draws, reference_table=table, statistics=some, random_seed=1, progressbar=False)
    print(found["posterior"].attrs["chosen"], flush=True)
    return found["posterior"]


def draw(found: dict[str, pd.DataFrame], folder: Path) -> None:
    """The intervals beside the published ones."""
    lines = found["tuberculosis"]
    figure, axes = plt.subplots(1, 2, figsize=(8, 2.4), layout="constrained", sharey=True)
    for ax, (name, part) in zip(axes, lines.groupby("quantity", sort=False), strict=True):
        for place, line in enumerate(part.to_dict("records")):
            ax.plot([line["lower"], line["upper"]], [-place, -place], color=COLOURS[place], linewidth=3)
            ax.plot(line["mean"], -place, "o", color=COLOURS[place])
        unit = "a year" if name == "net rate" else "years"
        ax.set(xlabel=f"{name} ({unit})", xlim=(0, None), ylim=(-2.5, 0.5))
        ax.set_yticks([0, -1, -2], list(part["by"]))
    figure.savefig(folder / "tuberculosis.png", dpi=100)
    plt.close(figure)
