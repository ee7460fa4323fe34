"""The infinite-sites coalescent with recombination, as a PyMC model whose simulator is msprime."""

from __future__ import annotations

from collections import Counter

import msprime
import numpy as np
import pymc as pm

import pymc_kbr as pk

HAPLOTYPES = 50
BASE_PAIRS = 5_001
NEAR = 0.1 * BASE_PAIRS
"""Pairs of sites closer than this count in R2."""

STATISTICS = ("segsites", "unif", "meandiff", "R2", "nhap", "fhap", "shap")


def simulate_statistics(
    rng: np.random.Generator,
    theta: float,
    rho: float,
    size: tuple[int, ...] | None = None,
    demography: msprime.Demography | None = None,
) -> np.ndarray:
    """Seven statistics of one sample of haplotypes.

    Parameters
    ----------
    rng : numpy.random.Generator
    theta, rho : float
        Mutation and recombination rate of the whole region, each scaled by twice the population size.
    size : None or ()
        One sample; msprime makes no batches.
    demography : msprime.Demography, optional
        Of a population of size one today; of constant size where left out.

    Returns
    -------
    ndarray of shape (7,)
        In the order of `STATISTICS`.
    """
    genotypes, positions = sampled_haplotypes(rng, theta, rho, demography)
    return seven_statistics(genotypes, positions, rng.uniform(0, 25))


def sampled_haplotypes(
    rng: np.random.Generator, theta: float, rho: float, demography: msprime.Demography | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """One sample: 0/1 genotypes (sites, haplotypes) and the positions of the sites (sites,)."""
    ancestry_seed, mutation_seed = (int(seed) for seed in rng.integers(1, 2**31, size=2))
    ancestry = msprime.sim_ancestry(
        samples=HAPLOTYPES,
        ploidy=1,
        population_size=1 if demography is None else None,
        demography=demography,
        sequence_length=BASE_PAIRS,
        recombination_rate=float(rho) / 2 / (BASE_PAIRS - 1),
        discrete_genome=False,
        random_seed=ancestry_seed,
        record_provenance=False,
    )
    mutated = msprime.sim_mutations(
        ancestry,
        rate=float(theta) / 2 / BASE_PAIRS,
        discrete_genome=False,
        model=msprime.BinaryMutationModel(),
        random_seed=mutation_seed,
        record_provenance=False,
    )
    return mutated.genotype_matrix(), mutated.sites_position


def seven_statistics(genotypes: np.ndarray, positions: np.ndarray, unif: float) -> np.ndarray:
    """Those of `STATISTICS`, of which `unif` is noise that is drawn elsewhere."""
    copies = sorted(Counter(row.tobytes() for row in np.ascontiguousarray(genotypes.T)).values())
    return np.array(
        [
            len(genotypes),
            unif,
            mean_differences(genotypes),
            25 * mean_r_squared(genotypes, positions),
            len(copies),
            copies[-1],
            copies.count(1),
        ]
    )


def mean_differences(genotypes: np.ndarray) -> float:
    """Mean number of differences between two haplotypes, from 0/1 genotypes (sites, haplotypes)."""
    n = genotypes.shape[1]
    derived = genotypes.sum(axis=1, dtype=float)
    return float(np.sum(derived * (n - derived)) / (n * (n - 1) / 2))


def mean_r_squared(genotypes: np.ndarray, positions: np.ndarray) -> float:
    """Mean squared correlation of the pairs of sites closer than `NEAR`; 0 where there is no pair."""
    first, second = np.triu_indices(len(positions), k=1)
    near = positions[second] - positions[first] < NEAR
    if not np.any(near):
        return 0.0
    centred = genotypes - genotypes.mean(axis=1, keepdims=True)
    centred /= np.sqrt(np.sum(centred**2, axis=1, keepdims=True))
    return float(np.mean((centred @ centred.T)[first[near], second[near]] ** 2))


def coalescent_model(observed: np.ndarray, epsilon: float | np.ndarray = 1.0) -> pm.Model:
    """Theta ~ Uniform(2, 10), rho ~ Uniform(0, 10), and the seven statistics of a sample.

    Parameters
    ----------
    observed : ndarray of shape (7,)
        In the order of `STATISTICS`.
    epsilon : float or ndarray of shape (7,)
        Of `pm.sample_smc`, for each statistic; nothing else uses it.
    """
    with pm.Model(coords={"statistic": STATISTICS}) as model:
        theta = pm.Uniform("theta", 2, 10)
        rho = pm.Uniform("rho", 0, 10)
        pk.vector_simulator(
            "sample", simulate_statistics, theta, rho, observed=observed, dims="statistic", epsilon=epsilon
        )
    return model
