"""Seventy-three statistics of a sample of haplotypes: frequencies, linkage by distance, haplotypes.

The seven of `model.py` are among them, made of the same sample, so that both can be compared row by row.
"""

from __future__ import annotations

from collections import Counter

import msprime
import numpy as np

from case_studies.coalescent.model import (
    BASE_PAIRS,
    HAPLOTYPES,
    STATISTICS,
    sampled_haplotypes,
    seven_statistics,
)

DISTANCES = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.65, 1.0])
"""Edges of the classes of pairs of sites, as shares of the region."""

COMMONEST = 12
"""Haplotypes whose frequencies are statistics, the most frequent first."""

FEW_COPIES = 5
"""Haplotypes with so many copies and fewer are counted, each number by itself."""

WINDOWS = (2, 4, 8)
"""Parts of equal length into which the region is cut, to count haplotypes in each."""

CLASSES = range(1, len(DISTANCES))
RICHER = (
    *STATISTICS,
    *(f"minor_{count}" for count in range(1, HAPLOTYPES // 2 + 1)),
    *(f"r2_{i}" for i in CLASSES),
    *(f"four_gametes_{i}" for i in CLASSES),
    *(f"common_{i}" for i in range(1, COMMONEST + 1)),
    *(f"copies_{i}" for i in range(1, FEW_COPIES + 1)),
    *(f"haplotypes_in_{parts}" for parts in WINDOWS),
    "homozygosity",
    "recombinations",
    "congruent",
    "tajima_d",
    "variance_differences",
)


def simulate_richer(
    rng: np.random.Generator,
    theta: float,
    rho: float,
    size: tuple[int, ...] | None = None,
    demography: msprime.Demography | None = None,
) -> np.ndarray:
    """All statistics of one sample of haplotypes, shape (73,), in the order of `RICHER`.

    Parameters are those of `case_studies.coalescent.model.simulate_statistics`.
    """
    genotypes, positions = sampled_haplotypes(rng, theta, rho, demography)
    seven = seven_statistics(genotypes, positions, rng.uniform(0, 25))
    return np.concatenate([seven, richer_statistics(genotypes, positions)])


def richer_statistics(genotypes: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """What comes after the seven, from 0/1 genotypes (sites, haplotypes) and positions (sites,)."""
    copies = genotypes.sum(axis=1)
    minor = np.minimum(copies, HAPLOTYPES - copies)
    spectrum = np.bincount(minor, minlength=HAPLOTYPES // 2 + 1)[1:]
    shared = minor > 1  # a mutation of one haplotype says nothing of linkage
    of_pairs = linkage_by_distance(genotypes[shared], positions[shared])
    frequent = _copies_of_haplotypes(genotypes)
    return np.concatenate(
        [
            spectrum,
            *of_pairs,
            np.pad(frequent[:COMMONEST], (0, max(0, COMMONEST - len(frequent)))),
            [np.sum(frequent == few) for few in range(1, FEW_COPIES + 1)],
            [_haplotypes_in_windows(genotypes, positions, parts) for parts in WINDOWS],
            [
                np.sum((frequent / HAPLOTYPES) ** 2),
                recombinations(genotypes[shared]),
                _congruent(genotypes[shared]),
                tajima_d(copies),
                _variance_of_differences(genotypes),
            ],
        ]
    )


def linkage_by_distance(genotypes: np.ndarray, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each class of distances, mean squared correlation and share of pairs with all four gametes.

    Both are 0 where a class has no pair.
    """
    first, second = np.triu_indices(len(positions), k=1)
    place = np.searchsorted(DISTANCES[1:-1], (positions[second] - positions[first]) / BASE_PAIRS, "right")
    count = np.maximum(np.bincount(place, minlength=len(CLASSES)), 1)
    both = _gametes(genotypes)[first, second]
    copies = genotypes.sum(axis=1, dtype=float)
    p, q, joint = copies[first] / HAPLOTYPES, copies[second] / HAPLOTYPES, both / HAPLOTYPES
    r2 = (joint - p * q) ** 2 / (p * (1 - p) * q * (1 - q))
    four = _all_four(both, copies[first], copies[second])
    return (
        np.bincount(place, r2, minlength=len(CLASSES)) / count,
        np.bincount(place, four, minlength=len(CLASSES)) / count,
    )


def recombinations(genotypes: np.ndarray) -> int:
    """The least number of recombinations that the sample needs (Hudson and Kaplan 1985)."""
    copies = genotypes.sum(axis=1, dtype=float)
    four = _all_four(_gametes(genotypes), copies[:, None], copies[None])
    found = last = 0
    for right in range(1, len(genotypes)):
        if np.any(four[last:right, right]):
            found, last = found + 1, right  # each interval begins where the one before it ends
    return found


def tajima_d(copies: np.ndarray) -> float:
    """Tajima's D of the derived alleles' copies (sites,); 0 without sites (Tajima 1989)."""
    sites, n = len(copies), HAPLOTYPES
    if sites == 0:
        return 0.0
    harmonic, squares = np.sum(1 / np.arange(1, n)), np.sum(1 / np.arange(1, n) ** 2)
    b = (n + 1) / (3 * (n - 1)) - 1 / harmonic
    c = 2 * (n**2 + n + 3) / (9 * n * (n - 1)) - (n + 2) / (harmonic * n) + squares / harmonic**2
    variance = b / harmonic * sites + c / (harmonic**2 + squares) * sites * (sites - 1)
    differences = np.sum(copies * (n - copies)) / (n * (n - 1) / 2)
    return float((differences - sites / harmonic) / np.sqrt(variance))


def _gametes(genotypes: np.ndarray) -> np.ndarray:
    """Haplotypes with both derived alleles, for each pair of sites."""
    whole = genotypes.astype(float)
    both: np.ndarray = whole @ whole.T
    return both


def _all_four(both: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Whether all four gametes of two sites are there: no tree without recombination makes them."""
    found: np.ndarray = (both > 0) & (both < first) & (both < second) & (first + second - both < HAPLOTYPES)
    return found


def _congruent(genotypes: np.ndarray) -> float:
    """Share of neighbouring sites that split the haplotypes alike (Wall's B); 0 without a pair."""
    if len(genotypes) < 2:
        return 0.0
    split = genotypes ^ genotypes[:, :1]  # which allele is called derived is left out
    return float(np.mean(np.all(split[1:] == split[:-1], axis=1)))


def _variance_of_differences(genotypes: np.ndarray) -> float:
    """Variance of the number of differences between two haplotypes, which recombination makes smaller."""
    whole = genotypes.astype(float)
    alike = whole.T @ whole
    own = np.diag(alike)
    differences = own[:, None] + own[None] - 2 * alike
    return float(np.var(differences[np.triu_indices(HAPLOTYPES, k=1)]))


def _copies_of_haplotypes(genotypes: np.ndarray) -> np.ndarray:
    """Copies of each haplotype, the most frequent first."""
    found = Counter(row.tobytes() for row in np.ascontiguousarray(genotypes.T))
    return np.array(sorted(found.values(), reverse=True))


def _haplotypes_in_windows(genotypes: np.ndarray, positions: np.ndarray, parts: int) -> float:
    """Mean number of different haplotypes in parts of the region."""
    edges = np.searchsorted(positions, np.arange(1, parts) * BASE_PAIRS / parts)
    return float(np.mean([len(_copies_of_haplotypes(part)) for part in np.split(genotypes, edges)]))
