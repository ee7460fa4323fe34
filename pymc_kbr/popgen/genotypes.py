"""Genotypes by populations, from a VCF or a tree sequence."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.extras import brought_by
from pymc_kbr.arrays.refusals import names_of, path_of, positive, shown

Populations = Mapping[str, Sequence[str] | int] | None

END_OF_BGZF = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")
"""The empty block that ends a whole file of bgzip."""


@dataclass(frozen=True, eq=False)
class Genotypes:
    """Alleles of haplotypes at sites, and which haplotypes make an individual and a population.

    Parameters
    ----------
    alleles : ndarray of int, shape (v, h)
        Numbers of alleles, -1 where missing.
    positions : ndarray of shape (v,)
        From zero, not falling.
    length : float
        Of the sequence, in bases.
    individuals : dict of str to list of ndarray
        Haplotypes of each individual, by population.
    unphased : dict of str to int
        Heterozygous genotypes without phase, by population.
    """

    alleles: np.ndarray
    positions: np.ndarray
    length: float
    individuals: dict[str, list[np.ndarray]]
    unphased: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def populations(self) -> list[str]:
        """Their names."""
        return list(self.individuals)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Haplotypes of each population."""
        return {name: np.concatenate(own) for name, own in self.individuals.items()}

    def ploidies(self) -> dict[str, list[int]]:
        """Haplotypes of each individual."""
        return {name: [len(one) for one in own] for name, own in self.individuals.items()}

    def of_sites(self, sites: np.ndarray) -> Genotypes:
        """Some of the sites."""
        return dataclasses.replace(self, alleles=self.alleles[sites], positions=self.positions[sites])

    def without(self, masked: np.ndarray) -> Genotypes:
        """The sites that lie in none of the intervals (m, 2)."""
        if not len(masked):
            return self
        before = np.searchsorted(masked[:, 0], self.positions, side="right") - 1
        return self.of_sites((before < 0) | (self.positions >= masked[before, 1]))

    def missing_as(self, pattern: np.ndarray, rng: np.random.Generator) -> Genotypes:
        """The same with genotypes missing as in rows (w, h) of others, which are drawn at random."""
        if not np.any(pattern):
            return self
        missing = pattern[rng.integers(len(pattern), size=len(self.alleles))]
        return dataclasses.replace(self, alleles=np.where(missing, -1, self.alleles))

    def dosages(self, name: str, sites: np.ndarray) -> np.ndarray:
        """Copies of the second allele of sites with two of them (v, n), NaN where an individual has a gap."""
        own = self.alleles[sites]
        first = np.where(own >= 0, own, np.iinfo(own.dtype).max)[:, self.columns[name]].min(
            axis=1, keepdims=True
        )
        parts = []
        for columns in self.individuals[name]:
            mine = own[:, columns]
            parts.append(np.where(np.any(mine < 0, axis=1), np.nan, np.sum(mine != first, axis=1)))
        return np.stack(parts, axis=1)

    def refuse_unphased(self, name: str) -> None:
        """Refuse genotypes whose haplotypes are not known."""
        if self.unphased.get(name):
            raise ValueError(
                f"{self.unphased[name]} heterozygous genotypes of {name!r} have no phase, which 'haplotypes' "
                "needs; phase them, or leave it out ('ld' and 'roh' need no phase)"
            )

    @classmethod
    def of_array(cls, genotypes: Any, positions: Any, length: float, populations: Populations) -> Genotypes:
        """From an array (v, n) or (v, n, ploidy)."""
        found, at = np.asarray(genotypes), np.asarray(positions, dtype=float)
        found = found[:, :, None] if found.ndim == 2 else found
        if found.ndim != 3 or found.dtype.kind not in "iu" or at.shape != (len(found),):
            raise ValueError(
                f"genotypes have the shape {found.shape} and the type {found.dtype}, positions {at.shape}; "
                "give whole numbers (v, n, ploidy), and (v,)"
            )
        _check_positions(at, length)
        v, n, ploidy = found.shape
        sizes = {"all": n} if populations is None else {k: _size(own) for k, own in populations.items()}
        if sum(sizes.values()) != n:
            raise ValueError(
                f"the populations have {sizes} samples, and the genotypes are of {n}; give as many"
            )
        places = iter(np.arange(n * ploidy).reshape(n, ploidy))
        individuals = {name: [next(places) for _ in range(size)] for name, size in sizes.items()}
        alleles = np.where(found < 0, -1, found).reshape(v, n * ploidy).astype(np.int16)
        return cls(alleles, at, float(length), individuals)


def _size(samples: Sequence[str] | int) -> int:
    return samples if isinstance(samples, int) else len(samples)


def _check_positions(at: np.ndarray, length: float) -> None:
    positive("sequence_length", length)
    if np.any(np.diff(at) < 0):
        first = int(np.flatnonzero(np.diff(at) < 0)[0])
        raise ValueError(
            f"positions fall from {at[first]:g} to {at[first + 1]:g}; sort the sites (`bcftools sort`)"
        )
    if len(at) and (at[0] < 0 or at[-1] >= length):
        raise ValueError(
            f"sites lie from {at[0]:g} to {at[-1]:g}, and the sequence has {length:g} bases; give its length"
        )


def as_populations(populations: Any) -> Populations:
    """Names of samples, or their number, by population."""
    if populations is None:
        return None
    if not isinstance(populations, Mapping) or not populations:
        raise TypeError(
            f"populations is {shown(populations)}; give a dict of their names to lists of samples"
        )
    found: dict[str, Sequence[str] | int] = {}
    for name, samples in populations.items():
        if isinstance(samples, int | np.integer) and not isinstance(samples, bool):
            found[str(name)] = int(samples)
        else:
            found[str(name)] = tuple(names_of(f"the population {name!r}", samples))
        if _size(found[str(name)]) < 1:
            raise ValueError(f"the population {name!r} has no samples; name some, or leave it out")
    named = [one for own in found.values() if not isinstance(own, int) for one in own]
    twice = sorted({one for one in named if named.count(one) > 1})
    if twice:
        raise ValueError(f"populations has the samples {twice} twice; name each once")
    return found


def spans_of(mask: Any) -> np.ndarray:
    """Intervals (m, 2) of a BED file or an array, joined where they overlap."""
    if mask is None:
        return np.empty((0, 2))
    if isinstance(mask, str | Path):
        path = path_of("mask", mask, "a BED file")
        if not path.is_file():
            raise FileNotFoundError(f"there is no file {path}")
        lines = [line.split() for line in path.read_text().splitlines()]
        lines = [
            words for words in lines if words and words[0] not in ("track", "browser") and words[0][0] != "#"
        ]
        if len({words[0] for words in lines}) > 1:
            raise ValueError(f"{path} has intervals of several contigs; give those of one")
        try:
            found = np.array([words[1:3] for words in lines], dtype=float).reshape(len(lines), 2)
        except ValueError:
            raise ValueError(f"{path} is no BED file: its lines are to be 'contig, start, end'") from None
    else:
        found = np.asarray(mask, dtype=float)
        found = found.reshape(0, 2) if not found.size else found
    if found.ndim != 2 or found.shape[1] != 2:
        raise ValueError(
            f"mask has the shape {found.shape}; give intervals (m, 2), each [start, end) from zero"
        )
    wrong = np.flatnonzero(~(found[:, 0] >= 0) | ~(found[:, 0] <= found[:, 1]))
    if len(wrong):
        raise ValueError(
            f"mask has the interval {found[wrong[0]].tolist()}; give [start, end) with a start from zero "
            "on and an end that is not before it"
        )
    joined: list[list[float]] = []
    for start, end in found[np.argsort(found[:, 0])].tolist():
        if joined and start <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([start, end])
    return np.array(joined).reshape(len(joined), 2)


# --- tree sequences ---


def read_trees(trees: Any, populations: Populations) -> Genotypes:
    """Genotypes of a tree sequence of tskit."""
    if not hasattr(trees, "genotype_matrix"):
        raise TypeError(f"trees is {shown(trees)}; give a tskit.TreeSequence")
    of_population: dict[str, list[np.ndarray]] = {}
    seen: set[int] = set()
    places = {int(node): place for place, node in enumerate(trees.samples())}
    for node in trees.samples():
        if int(node) in seen:
            continue
        number = trees.node(node).individual
        nodes = (
            [int(node)]
            if number < 0
            else [int(n) for n in trees.individual(number).nodes if int(n) in places]
        )
        seen.update(nodes)
        of_population.setdefault(_name(trees, node), []).append(np.array([places[n] for n in nodes]))
    if populations is None:
        individuals = {"all": [one for own in of_population.values() for one in own]}
    else:
        for name, samples in populations.items():
            there = len(of_population.get(name, ()))
            if there != _size(samples):
                sizes = {key: len(own) for key, own in of_population.items()}
                raise ValueError(
                    f"the population {name!r} has {_size(samples)} samples and the tree sequence {there} "
                    f"individuals of it; it has {sizes}"
                )
        individuals = {name: of_population[name] for name in populations}
    alleles = np.asarray(trees.genotype_matrix(), dtype=np.int16).reshape(trees.num_sites, len(places))
    positions = np.floor(trees.tables.sites.position)
    return _own_columns(Genotypes(alleles, positions, float(trees.sequence_length), individuals))


def _name(trees: Any, node: int) -> str:
    number = trees.node(node).population
    if number < 0:
        return "all"
    metadata = trees.population(number).metadata
    named = metadata.get("name") if isinstance(metadata, Mapping) else None
    return str(number) if named is None else str(named)


def _own_columns(genotypes: Genotypes) -> Genotypes:
    """The same with the columns of its populations alone, one population after the other."""
    order = np.concatenate([one for own in genotypes.individuals.values() for one in own])
    ends = iter(np.cumsum([0, *(len(one) for own in genotypes.individuals.values() for one in own)]))
    bounds = pairwise(ends)
    individuals = {
        name: [np.arange(*next(bounds)) for _ in own] for name, own in genotypes.individuals.items()
    }
    return dataclasses.replace(genotypes, alleles=genotypes.alleles[:, order], individuals=individuals)


# --- VCF ---


def read_vcf(
    path: str | Path,
    populations: Populations,
    contig: str | None = None,
    sequence_length: float | None = None,
) -> Genotypes:
    """Genotypes of a VCF or BCF file."""
    with brought_by("popgen", "cyvcf2"):
        import cyvcf2
    path = path_of("path", path, "a VCF file")
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    _refuse_cut(path)
    try:
        reader = cyvcf2.VCF(str(path))
    except Exception as error:
        raise ValueError(f"{path} cannot be read as a VCF: it is damaged, or none ({error})") from error
    chosen = _chosen(path, list(reader.samples), populations)
    kept = [one for own in chosen.values() for one in own]
    places = np.array([list(reader.samples).index(one) for one in kept])
    rows, positions, contigs, unphased = [], [], [], np.zeros(len(kept), dtype=int)
    for chrom, position, found in _records(path, reader):
        contigs.append(chrom)
        if contig is not None and chrom != contig:
            continue
        mine = found[places]
        rows.append(mine[:, :-1])
        positions.append(max(position - 1, 0))  # from one in a VCF, where zero is the end of a chromosome
        called = mine[:, :-1] >= 0
        mixed = np.any(called & (mine[:, :-1] != mine[:, :1]) & called[:, :1], axis=1)
        unphased += mixed & (mine[:, -1] == 0)
    several = list(dict.fromkeys(contigs))
    if not rows:
        raise ValueError(f"{path} has no record{f' of {contig!r}; it has {several}' if several else ''}")
    if contig is None and len(several) > 1:
        raise ValueError(f"{path} has records of {several[:8]}; choose one by `contig`")
    at = np.array(positions, dtype=float)
    length = _length(path, reader, several[0] if contig is None else contig, sequence_length)
    try:
        _check_positions(at, length)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    ploidy = max(row.shape[1] for row in rows)
    alleles = np.full((len(rows), len(kept), ploidy), -2, dtype=np.int16)
    for i, row in enumerate(rows):
        alleles[i, :, : row.shape[1]] = row
    # Places that no record of a sample has are no haplotypes, as on a sex chromosome.
    there = np.any(alleles != -2, axis=0)
    individuals, order = {}, iter(range(len(kept)))
    for name, own in chosen.items():
        individuals[name] = [i * ploidy + np.flatnonzero(there[i]) for i in (next(order) for _ in own)]
    flat = np.where(alleles < 0, -1, alleles).reshape(len(rows), -1)
    starts = np.cumsum([0, *map(len, chosen.values())])
    for name, (a, b) in zip(chosen, pairwise(starts), strict=True):
        if not np.any(alleles[:, a:b] >= 0):
            raise ValueError(
                f"{path} has no genotype of the population {name!r} that is not missing; leave it out"
            )
    without = {name: int(unphased[a:b].sum()) for name, (a, b) in zip(chosen, pairwise(starts), strict=True)}
    return _own_columns(Genotypes(flat, at, length, individuals, without))


def _refuse_cut(path: Path) -> None:
    """Refuse a file of bgzip without its end, which a reader takes for a shorter one."""
    with path.open("rb") as file:
        first = file.read(18)
        if first[:4] != b"\x1f\x8b\x08\x04" or first[12:14] != b"BC":
            return
        file.seek(max(path.stat().st_size - len(END_OF_BGZF), 0))
        if file.read() != END_OF_BGZF:
            raise ValueError(
                f"{path} is truncated: it has not the block that ends a bgzip file; copy it again"
            )


def _chosen(path: Path, samples: list[str], populations: Populations) -> dict[str, list[str]]:
    """Names of samples by population."""
    if not samples:
        raise ValueError(f"{path} has no samples; give a VCF with genotypes")
    if populations is None:
        return {"all": samples}
    counted = [name for name, own in populations.items() if isinstance(own, int)]
    if counted:
        raise ValueError(f"populations has numbers for {counted}; for a VCF give the names of their samples")
    chosen = {name: list(own) for name, own in populations.items() if not isinstance(own, int)}
    for name, own in chosen.items():
        absent = [one for one in own if one not in samples]
        if absent:
            raise ValueError(
                f"{path} has not the samples {shown(absent)} of the population {name!r}; it has "
                f"{shown(samples)}"
            )
    return chosen


def _records(path: Path, reader: Any) -> Iterator[tuple[str, int, np.ndarray]]:
    """Contig, position and genotypes of each record: alleles, and a last column that says phase."""
    records, number = iter(reader), 0
    while True:
        try:
            record = next(records)
        except StopIteration:
            return
        except Exception as error:
            raise ValueError(
                f"{path} cannot be read beyond record {number}: it is truncated or damaged ({error})"
            ) from error
        if "GT" not in record.FORMAT:
            raise ValueError(
                f"{path} has no genotypes (GT) at {record.CHROM}:{record.POS}, where its format is "
                f"{shown(record.FORMAT)}; leave such sites out"
            )
        try:
            found = np.asarray(record.genotype.array())
        except Exception as error:
            raise ValueError(
                f"{path} has genotypes that cannot be read at {record.CHROM}:{record.POS}: it is damaged "
                f"({error})"
            ) from error
        yield record.CHROM, int(record.POS), found
        number += 1


def _length(path: Path, reader: Any, contig: str, given: float | None) -> float:
    if given is not None:
        positive("sequence_length", given)
        return float(given)
    try:
        return float(dict(zip(reader.seqnames, reader.seqlens, strict=True))[contig])
    except (AttributeError, KeyError):
        raise ValueError(
            f"the header of {path} does not say how long {contig!r} is; give `sequence_length`"
        ) from None
