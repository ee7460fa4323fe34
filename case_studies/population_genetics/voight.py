"""Three histories of a human population, in place of ``human.rda`` where the reader's has two statistics.

Priors, loci and statistics are those that Voight et al. (2005, PNAS 102, 18508-18513) describe: 50 loci of
2,000 bases, ten sequences, mutation rate 2.5e-8, generations of 25 years. msprime simulates them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LOCI, BASES, SEQUENCES, MUTATION, YEARS = 50, 2_000, 10, 2.5e-8, 25
STATISTICS = ["pi", "TajD.m", "TajD.v"]
OBSERVED = pd.DataFrame(
    [[0.0011, -0.20, 0.55], [0.00085, 0.28, 1.19], [0.00079, 0.18, 1.08]],
    index=["Hausa", "Italian", "Chinese"],
    columns=STATISTICS,
)
"""Of the paper's table 1."""


def prior(rng: np.random.Generator) -> dict[str, float]:
    """Size, fold change, and years of the beginning and the duration of the change."""
    size, fold = rng.uniform(0, 30_000), 10 ** rng.uniform(1, 2)
    return {"Ne": size, "a": fold, "duration": rng.uniform(2_500, 10_000), "start": rng.uniform(4e4, 6e4)}


def demography(model: str, Ne: float, a: float, duration: float, start: float) -> Any:
    """Constant, grown at once by a factor, or smaller by it for some years."""
    import msprime

    found = msprime.Demography()
    found.add_population(name="all", initial_size=Ne * a if model == "exp" else Ne)
    if model == "exp":
        found.add_population_parameters_change(start / YEARS, initial_size=Ne)
    if model == "bott":
        found.add_population_parameters_change((start - duration) / YEARS, initial_size=Ne / a)
        found.add_population_parameters_change(start / YEARS, initial_size=Ne)
    return found


def tajima_constants() -> tuple[float, float, float]:
    """Those of Tajima's D for the number of sequences."""
    n, i = SEQUENCES, np.arange(1, SEQUENCES)
    one, two = np.sum(1 / i), np.sum(1 / i**2)
    first = ((n + 1) / (3 * (n - 1)) - 1 / one) / one
    second = 2 * (n * n + n + 3) / (9 * n * (n - 1)) - (n + 2) / (n * one) + two / one**2
    return one, first, second / (one**2 + two)


def loci(past: Any, rate: float, rng: np.random.Generator) -> np.ndarray:
    """Mutations (LOCI, SEQUENCES - 1) of each locus that so many sequences carry."""
    import msprime

    trees = msprime.sim_ancestry(
        SEQUENCES // 2,
        demography=past,
        sequence_length=BASES,
        recombination_rate=rate,
        num_replicates=LOCI,
        random_seed=int(rng.integers(1, 2**31)),
        record_provenance=False,
    )
    # Given the branches their mutations are Poisson, as no site has two.
    branches = [
        one.allele_frequency_spectrum(mode="branch", polarised=True, span_normalise=False) for one in trees
    ]
    return rng.poisson(MUTATION * np.array(branches)[:, 1:SEQUENCES])


def statistics(past: Any, rng: np.random.Generator) -> np.ndarray:
    """Mean diversity, and mean and variance of Tajima's D over loci that have a segregating site."""
    one, first, second = tajima_constants()
    rate = rng.lognormal(-18.148, 0.5802**2)  # the same at all loci
    carried, spectra = np.arange(1, SEQUENCES), loci(past, rate, rng)
    differences = spectra @ (carried * (SEQUENCES - carried)) / (SEQUENCES * (SEQUENCES - 1) / 2)
    sites = spectra.sum(axis=1)
    there = sites > 0
    s = sites[there]
    d = (differences[there] - s / one) / np.sqrt(first * s + second * s * (s - 1))
    return np.array([differences.mean() / BASES, d.mean(), d.var(ddof=1)] if len(d) > 1 else [np.nan] * 3)


def simulate(rows: int, random_seed: int = 1) -> pd.DataFrame:
    """As many rows of each history: model, parameters and statistics."""
    rng = np.random.default_rng(random_seed)
    lines: list[dict[str, Any]] = []
    for number, model in enumerate(("const", "exp", "bott"), 1):
        while len(lines) < number * rows:
            drawn = prior(rng)
            values = statistics(demography(model, **drawn), rng)
            if np.isfinite(values).all():  # of tiny sizes nothing segregates
                lines.append({"model": model, **drawn, **dict(zip(STATISTICS, values, strict=True))})
    return pd.DataFrame(lines)


def as_human(rows: int, folder: Path | None) -> dict[str, Any]:
    """The objects of ``human.rda``, of simulations that a folder keeps."""
    kept = None if folder is None else folder / f"voight_{rows}.csv"
    table = pd.read_csv(kept) if kept is not None and kept.exists() else simulate(rows)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        table.to_csv(kept, index=False)
    own = table.loc[table["model"] == "bott", ["Ne", "a", "duration", "start"]].reset_index(drop=True)
    found = {"stat.3pops.sim": table[STATISTICS], "stat.voight": OBSERVED, "models": table["model"]}
    return found | {"par.italy.sim": own}
