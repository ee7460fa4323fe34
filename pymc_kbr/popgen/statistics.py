"""Statistics of variants, the same function for observed data and for tree sequences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import hypergeom

from pymc_kbr.arrays.refusals import names_of, positive, shown
from pymc_kbr.popgen.genotypes import Genotypes, Populations, as_populations, read_trees, read_vcf, spans_of

if TYPE_CHECKING:
    import pandas as pd

Columns = dict[str, float]


@dataclass(frozen=True, eq=False)
class Statistics:
    """Named statistics of variants, the same for a VCF and for a tree sequence.

    Parameters
    ----------
    populations : mapping of str to sequence of str, or of str to int, optional
        The samples of each population, by their names in the VCF. In a tree sequence, its individuals of the
        population of that name, as many. A number is that of its samples, where there is no VCF. Where
        left out, all samples are one population, "all".
    statistics : sequence of str
        Of each population "sfs" (folded site frequency spectrum), "pi" (nucleotide diversity), "theta_w"
        (Watterson's theta), "tajima_d", "ld" (r2 by distance), "haplotypes" (number, diversity, and Garud's
        H1, H12 and H2/H1), "roh" (share of the sequence in runs of homozygosity); of each two "joint_sfs"
        (folded), "fst" (Hudson's), "dxy" and "f2"; of each three "f3"; of each four "f4".
    windows : int or sequence of float, optional
        Equal windows, or their edges: the variances over windows of "pi", "theta_w", "tajima_d", "fst" and
        "dxy" are then columns, too.
    mask : path of a BED file, or array_like of shape (m, 2), optional
        Intervals [start, end) that are left out, on both sides.
    projection : mapping of str to int, optional
        Haplotypes of each population to which spectra are projected; all of them where left out. Sites with
        fewer genotypes are left out of spectra.
    distances : sequence of float
        Edges of the bins of "ld", in bases.
    sites : int
        Segregating sites of which "ld" compares all pairs, evenly spread over the sequence where there are
        more.
    run : float
        Bases that a run of homozygosity has at least.

    Notes
    -----
    Diversities are per base that is not masked. Genotypes may be missing: a site's diversity is that of the
    genotypes which are there, as in scikit-allel, and the sample size of Watterson's theta and of Tajima's D
    is the largest of any site. Sites with several alleles count as one less than their alleles segregating
    sites, and in spectra as half a site for each allele, as in tskit. Hudson's Fst is the ratio of sums,
    1 - (mean pi within) / dxy. "ld" needs no phase: it is the squared correlation of the individuals' numbers
    of copies of an allele. "haplotypes" needs phased genotypes, and leaves out sites where one is missing.
    A statistic that is not defined, such as Tajima's D without a segregating site, is NaN.

    Examples
    --------
    >>> genotypes = [[[0, 0], [0, 1]], [[0, 1], [1, 1]], [[0, 0], [0, -1]]]
    >>> counted = Statistics(statistics=["pi", "sfs"]).from_genotypes(genotypes, [3, 5, 8], 10)
    >>> counted.round(3).to_dict()
    {'pi_all': 0.1, 'sfs_all_1': 2.0, 'sfs_all_2': 0.0}
    """

    populations: Populations = None
    statistics: Sequence[str] = ("pi", "theta_w", "tajima_d", "fst", "dxy", "sfs")
    windows: int | Sequence[float] | None = None
    mask: Any = None
    projection: Mapping[str, int] | None = None
    distances: Sequence[float] = (0, 1_000, 10_000, 100_000)
    sites: int = 500
    run: float = 100_000
    _masked: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "populations", as_populations(self.populations))
        names = names_of("statistics", self.statistics)
        unknown = [name for name in names if name not in FAMILIES]
        if unknown or not names:
            raise ValueError(f"statistics names {unknown or 'nothing'}; it may name {', '.join(FAMILIES)}")
        few = [name for name in names if self.populations and len(self.populations) < FAMILIES[name][0]]
        # The default has those of pairs, for one population without them.
        if few and tuple(names) != type(self).statistics:
            raise ValueError(
                f"statistics names {few}, of at least {FAMILIES[few[0]][0]} populations; there are "
                f"{list(self.populations or ())}"
            )
        edges = np.asarray(self.distances, dtype=float)
        if edges.ndim != 1 or len(edges) < 2 or not np.all(np.diff(edges) > 0) or edges[0] < 0:
            raise ValueError(f"distances is {shown(self.distances)}; give rising edges of at least one bin")
        if isinstance(self.sites, bool) or not isinstance(self.sites, int | np.integer) or self.sites < 2:
            raise ValueError(f"sites is {shown(self.sites)}; give a whole number of at least 2")
        positive("run", self.run)
        object.__setattr__(self, "_masked", spans_of(self.mask))

    def from_vcf(
        self, path: str | Path, *, contig: str | None = None, sequence_length: float | None = None
    ) -> pd.Series:
        """The statistics of a VCF or BCF file.

        Parameters
        ----------
        path : str or Path
            Compressed or not; sorted by position.
        contig : str, optional
            Which to read; needed where there are records of several.
        sequence_length : float, optional
            Bases of the contig; that of the file's header where left out.

        Returns
        -------
        pandas.Series
            Statistics by name.

        Raises
        ------
        FileNotFoundError, ImportError
            If there is no such file, or cyvcf2 (extra `popgen`) is not installed.
        ValueError
            If the file has no samples or not those that are named, no genotypes, records of several contigs,
            out of order or beyond the sequence, is truncated, its length is not known, or "haplotypes" is
            asked of genotypes without phase.
        """
        return self.of(read_vcf(path, self.populations, contig, sequence_length))

    def from_trees(self, trees: Any) -> pd.Series:
        """The statistics of a tree sequence with mutations.

        Parameters
        ----------
        trees : tskit.TreeSequence

        Returns
        -------
        pandas.Series
            Statistics by name.

        Raises
        ------
        ValueError
            If a population is not there, or has another number of individuals.
        """
        return self.of(read_trees(trees, self.populations))

    def from_genotypes(self, genotypes: Any, positions: Any, sequence_length: float) -> pd.Series:
        """The statistics of an array of genotypes.

        Parameters
        ----------
        genotypes : array_like of shape (v, n) or (v, n, ploidy)
            Numbers of alleles, negative where missing, phased. Populations take the samples in order.
        positions : array_like of shape (v,)
            From zero to below `sequence_length`, not falling.
        sequence_length : float

        Returns
        -------
        pandas.Series
            Statistics by name.
        """
        return self.of(Genotypes.of_array(genotypes, positions, sequence_length, self.populations))

    def of(self, genotypes: Genotypes) -> pd.Series:
        """The statistics of genotypes that were read.

        Parameters
        ----------
        genotypes : Genotypes

        Returns
        -------
        pandas.Series
            Statistics by name.
        """
        import pandas as pd

        columns: Columns = {}
        counted = Counted.of(genotypes.without(self._masked), self._masked)
        if counted.span() <= 0:
            raise ValueError(f"mask leaves nothing of the {genotypes.length:g} bases of the sequence")
        for name in self.statistics:
            least, function = FAMILIES[name]
            if len(genotypes.populations) >= least:
                columns |= function(self, counted)
        return pd.Series(columns, dtype=float)

    def size(self, name: str, haplotypes: int) -> int:
        """Haplotypes to which a population's spectrum is projected."""
        size = (self.projection or {}).get(name, haplotypes)
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size <= haplotypes:
            raise ValueError(
                f"projection has {shown(size)} for {name!r}; give a whole number from 1 to its {haplotypes} "
                "haplotypes"
            )
        return int(size)

    def edges(self, length: float) -> np.ndarray | None:
        """Edges of the windows of a sequence."""
        if self.windows is None:
            return None
        if isinstance(self.windows, int | np.integer) and not isinstance(self.windows, bool):
            if self.windows < 2:
                raise ValueError(f"windows is {self.windows}; give two or more, or their edges")
            return np.linspace(0, length, int(self.windows) + 1)
        edges = np.asarray(self.windows, dtype=float)
        if edges.ndim != 1 or len(edges) < 3 or not np.all(np.diff(edges) > 0):
            raise ValueError(f"windows is {shown(self.windows)}; give rising edges of two or more windows")
        if edges[0] < 0 or edges[-1] > length:
            raise ValueError(
                f"windows reach from {edges[0]:g} to {edges[-1]:g}; the sequence has {length:g} bases"
            )
        return edges


# --- counts of alleles, and what is made of them site by site ---


@dataclass(frozen=True, eq=False)
class Counted:
    """Counts of alleles of each population, of the sites that are not masked."""

    # Shapes: counts (v, alleles) each; called (v,) each; masked (m, 2).
    genotypes: Genotypes
    counts: dict[str, np.ndarray]
    called: dict[str, np.ndarray]
    masked: np.ndarray

    @classmethod
    def of(cls, genotypes: Genotypes, masked: np.ndarray) -> Counted:
        """From genotypes."""
        alleles = range(int(genotypes.alleles.max(initial=0)) + 1)
        counts = {}
        for name, columns in genotypes.columns.items():
            own = genotypes.alleles[:, columns]
            counts[name] = np.stack([np.sum(own == k, axis=1) for k in alleles], axis=1)
        return cls(genotypes, counts, {name: own.sum(axis=1) for name, own in counts.items()}, masked)

    def span(self, start: float = 0.0, end: float | None = None) -> float:
        """Bases between two places that are not masked."""
        end = self.genotypes.length if end is None else end
        cut = np.clip(self.masked, start, end)
        return float(end - start - np.sum(cut[:, 1] - cut[:, 0]))

    def within(self, name: str) -> np.ndarray:
        """Mean differences of two haplotypes of a population at each site (v,); NaN of fewer than two."""
        counts, n = self.counts[name], self.called[name]
        same = np.sum(counts * (counts - 1), axis=1)
        pairs = n * (n - 1)
        return np.divide(pairs - same, pairs, out=np.full(len(n), np.nan), where=pairs > 0)

    def between(self, one: str, other: str) -> np.ndarray:
        """Mean differences of a haplotype of each of two populations at each site (v,)."""
        pairs = self.called[one] * self.called[other]
        same = np.sum(self.counts[one] * self.counts[other], axis=1)
        return np.divide(pairs - same, pairs, out=np.full(len(pairs), np.nan), where=pairs > 0)

    def drawn(self, name: str, yes: int, no: int) -> np.ndarray:
        """Probabilities (v, alleles) that of draws without replacement `yes` are of an allele, `no` not."""
        counts, n = self.counts[name], self.called[name][:, None]
        top, bottom = np.ones(counts.shape), np.ones(n.shape)
        for i in range(yes):
            top = top * (counts - i)
        for i in range(no):
            top = top * (n - counts - i)
        for i in range(yes + no):
            bottom = bottom * (n - i)
        return np.divide(top, bottom, out=np.full(top.shape, np.nan), where=n >= yes + no)

    def density(self, probabilities: np.ndarray) -> float:
        """The sum of probabilities (v, alleles), of the sites where all are defined, a base."""
        return _ratio(float(np.nansum(np.sum(probabilities, axis=1))), self.span())

    def segregating(self, name: str) -> np.ndarray:
        """Alleles less one of each site (v,)."""
        return np.maximum(np.sum(self.counts[name] > 0, axis=1) - 1, 0)

    def in_windows(self, edges: np.ndarray) -> list[tuple[np.ndarray, float]]:
        """The sites (v,) of each window, and its bases that are not masked."""
        at = self.genotypes.positions
        return [((at >= start) & (at < end), self.span(start, end)) for start, end in pairwise(edges)]


def _ratio(one: float, other: float) -> float:
    return float(one / other) if other > 0 else float("nan")


def _with_windows(
    name: str, settings: Statistics, data: Counted, value: Callable[[np.ndarray, float], float]
) -> Columns:
    """A statistic of all sites, and its variance over windows where there are some."""
    everywhere = np.ones(len(data.genotypes.positions), dtype=bool)
    found = {name: value(everywhere, data.span())}
    edges = settings.edges(data.genotypes.length)
    if edges is not None:
        values = np.array([value(*window) for window in data.in_windows(edges)])
        defined = values[np.isfinite(values)]
        found[f"{name}_variance"] = float(np.var(defined, ddof=1)) if len(defined) > 1 else np.nan
    return found


def _density(name: str, settings: Statistics, data: Counted, sites: np.ndarray, unit: float = 1.0) -> Columns:
    """The sum of what sites (v,) have, in some unit, a base."""

    def value(at: np.ndarray, span: float) -> float:
        return _ratio(np.nansum(sites[at]) / unit, span)

    return _with_windows(name, settings, data, value)


def _pi(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for name in data.counts:
        found |= _density(f"pi_{name}", settings, data, data.within(name))
    return found


def _harmonic(n: int, power: int = 1) -> float:
    return float(np.sum(1 / np.arange(1, max(n, 1)) ** power))


def _theta_w(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for name in data.counts:
        a1 = _harmonic(data.called[name].max(initial=0)) or 1.0  # of one haplotype no site segregates
        found |= _density(f"theta_w_{name}", settings, data, data.segregating(name), a1)
    return found


def _tajima_d(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for name in data.counts:
        own, within = data.segregating(name), data.within(name)
        n = int(data.called[name].max(initial=0))

        def d(at: np.ndarray, span: float, own: Any = own, within: Any = within, n: int = n) -> float:
            return tajima_d(n, float(own[at].sum()), float(np.nansum(within[at])))

        found |= _with_windows(f"tajima_d_{name}", settings, data, d)
    return found


def tajima_d(n: int, segregating: float, differences: float) -> float:
    """Tajima's D of n haplotypes, by the number of segregating sites and the mean pairwise differences."""
    if n < 2 or segregating == 0:
        return float("nan")
    a1, a2 = _harmonic(n), _harmonic(n, 2)
    c1 = (n + 1) / (3 * (n - 1)) - 1 / a1
    c2 = 2 * (n * n + n + 3) / (9 * n * (n - 1)) - (n + 2) / (a1 * n) + a2 / a1**2
    variance = c1 / a1 * segregating + c2 / (a1**2 + a2) * segregating * (segregating - 1)
    return float((differences - segregating / a1) / np.sqrt(variance)) if variance > 0 else float("nan")


def _dxy(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for one, other in combinations(data.counts, 2):
        found |= _density(f"dxy_{one}_{other}", settings, data, data.between(one, other))
    return found


def _fst(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for one, other in combinations(data.counts, 2):
        between = data.between(one, other)
        top = between - (data.within(one) + data.within(other)) / 2
        bottom = np.where(np.isnan(top), np.nan, between)

        def ratio(at: np.ndarray, span: float, top: Any = top, bottom: Any = bottom) -> float:
            return _ratio(np.nansum(top[at]), np.nansum(bottom[at]))

        found |= _with_windows(f"fst_{one}_{other}", settings, data, ratio)
    return found


def _f2(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for a, b in combinations(data.counts, 2):
        agree = data.drawn(a, 2, 0) * data.drawn(b, 0, 2)
        cross = data.drawn(a, 1, 1) * data.drawn(b, 1, 1)
        found[f"f2_{a}_{b}"] = data.density(agree - cross)
    return found


def _f3(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    names = list(data.counts)
    for of in names:
        for a, b in combinations([name for name in names if name != of], 2):
            agree = data.drawn(of, 2, 0) * data.drawn(b, 0, 1)
            cross = data.drawn(of, 1, 1) * data.drawn(b, 1, 0)
            found[f"f3_{of}_{a}_{b}"] = data.density((agree - cross) * data.drawn(a, 0, 1))
    return found


def _f4(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for a, b, c, d in combinations(data.counts, 4):
        # The third division is the difference of these.
        for w, x, y, z in ((a, b, c, d), (a, c, b, d)):
            agree = data.drawn(y, 1, 0) * data.drawn(z, 0, 1)
            cross = data.drawn(y, 0, 1) * data.drawn(z, 1, 0)
            found[f"f4_{w}_{x}_{y}_{z}"] = data.density(
                (agree - cross) * data.drawn(w, 1, 0) * data.drawn(x, 0, 1)
            )
    return found


# --- spectra ---


def _sfs(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for name in data.counts:
        spectrum = _spectrum(settings, data, [name])
        found |= {f"sfs_{name}_{i}": float(spectrum[i]) for i in range(1, (len(spectrum) - 1) // 2 + 1)}
    return found


def _joint_sfs(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for one, other in combinations(data.counts, 2):
        spectrum = _spectrum(settings, data, [one, other])
        n, m = (size - 1 for size in spectrum.shape)
        for i in range(n + 1):
            for j in range(m + 1):
                if i + j > 0 and _is_folded(i, j, n, m):
                    found[f"joint_sfs_{one}_{other}_{i}_{j}"] = float(spectrum[i, j])
    return found


def _is_folded(i: int, j: int, n: int, m: int) -> bool:
    """Whether an allele with so many copies is the rarer one; of two equally common ones, one."""
    return (2 * (i + j), 2 * i) <= (n + m, n)


def _spectrum(settings: Statistics, data: Counted, names: list[str]) -> np.ndarray:
    """The folded spectrum of one or two populations, of which each allele makes half a site."""
    sizes = [settings.size(name, len(data.genotypes.columns[name])) for name in names]
    fine = np.all([data.called[name] >= size for name, size in zip(names, sizes, strict=True)], axis=0)
    there = np.sum(list(data.counts.values()), axis=0) > 0
    unfolded = np.zeros([size + 1 for size in sizes])
    for k in range(there.shape[1]):
        used = fine & there[:, k]
        shares = [
            _projected(data.counts[name][used, k], data.called[name][used], size)
            for name, size in zip(names, sizes, strict=True)
        ]
        unfolded += shares[0].sum(axis=0) / 2 if len(names) == 1 else shares[0].T @ shares[1] / 2
    folded = unfolded + np.flip(unfolded)
    middle = np.array(sizes) == np.indices(unfolded.shape).reshape(len(names), -1).T * 2
    return np.where(np.all(middle, axis=1).reshape(unfolded.shape), unfolded, folded)


def _projected(copies: np.ndarray, called: np.ndarray, size: int) -> np.ndarray:
    """Probabilities (v, size + 1) of copies among so many of the haplotypes, at sites with these (v,)."""
    if np.all(called == size):
        return np.eye(size + 1)[copies]
    pairs, which = np.unique(np.stack([copies, called]), axis=1, return_inverse=True)
    found = hypergeom.pmf(np.arange(size + 1), pairs[1][:, None], pairs[0][:, None], size)
    return np.asarray(found[which.reshape(-1)])


# --- pairs of sites, haplotypes and runs ---


def _ld(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    edges = np.asarray(settings.distances, dtype=float)
    if edges[-2] >= data.genotypes.length:
        raise ValueError(
            f"distances has a bin from {edges[-2]:g} bases on, and the sequence has "
            f"{data.genotypes.length:g}; give shorter ones"
        )
    for name in data.counts:
        sites = np.flatnonzero(np.sum(data.counts[name] > 0, axis=1) == 2)
        if len(sites) > settings.sites:
            sites = sites[np.linspace(0, len(sites) - 1, settings.sites).round().astype(int)]
        r2 = squared_correlations(data.genotypes.dosages(name, sites))
        first, second = np.triu_indices(len(sites), 1)
        values, at = r2[first, second], data.genotypes.positions[sites]
        bins = np.searchsorted(edges, at[second] - at[first], side="right") - 1
        for i, (start, end) in enumerate(pairwise(edges)):
            mine = values[(bins == i) & np.isfinite(values)]
            found[f"ld_{name}_{start:g}_{end:g}"] = float(mine.mean()) if len(mine) else np.nan
    return found


def squared_correlations(dosages: np.ndarray) -> np.ndarray:
    """Squared correlations (v, v) of numbers of copies (v, n), NaN where missing, of those that both have."""
    there = np.isfinite(dosages).astype(float)
    x = np.where(there > 0, dosages, 0.0)
    n, sums, squares = there @ there.T, x @ there.T, x**2 @ there.T
    # Sums of whole numbers, which are exact.
    top = n * (x @ x.T) - sums * sums.T
    spread = n * squares - sums**2
    bottom = spread * spread.T
    return np.divide(top**2, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)


def _haplotypes(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    for name, columns in data.genotypes.columns.items():
        data.genotypes.refuse_unphased(name)
        own = data.genotypes.alleles[:, columns]
        whole = own[np.all(own >= 0, axis=1)]
        n = whole.shape[1]
        times = Counter(one.tobytes() for one in np.ascontiguousarray(whole.T))
        shares = np.sort(list(times.values()))[::-1] / n
        h1, h12 = float(np.sum(shares**2)), float(shares[:2].sum() ** 2 + np.sum(shares[2:] ** 2))
        found |= {
            f"haplotypes_{name}": float(len(shares)),
            f"haplotype_diversity_{name}": (1 - h1) * n / (n - 1) if n > 1 else np.nan,
            f"h1_{name}": h1,
            f"h12_{name}": h12,
            f"h2_h1_{name}": (h1 - float(shares[0]) ** 2) / h1,
        }
    return found


def _roh(settings: Statistics, data: Counted) -> Columns:
    found: Columns = {}
    length = data.span()
    if settings.run > length:
        raise ValueError(
            f"run is {settings.run:g} bases, and {length:g} are not masked: no run is as long; give a "
            "shorter one"
        )
    # Places on the sequence without its masked parts, in none of which a site is.
    at, masked = data.genotypes.positions, data.masked
    removed = np.cumsum(np.r_[0.0, masked[:, 1] - masked[:, 0]])
    places = at - removed[np.searchsorted(masked[:, 0], at, side="right")]
    for name in data.counts:
        shares = []
        for columns in data.genotypes.individuals[name]:
            own = data.genotypes.alleles[:, columns]
            mixed = np.any((own != own[:, :1]) & (own >= 0) & (own[:, :1] >= 0), axis=1)
            runs = np.diff(np.r_[0.0, places[mixed], length])
            shares.append(_ratio(runs[runs >= settings.run].sum(), length))
        found[f"roh_{name}"] = float(np.mean(shares))
    return found


FAMILIES: dict[str, tuple[int, Callable[[Statistics, Counted], Columns]]] = {
    "sfs": (1, _sfs),
    "joint_sfs": (2, _joint_sfs),
    "pi": (1, _pi),
    "theta_w": (1, _theta_w),
    "tajima_d": (1, _tajima_d),
    "fst": (2, _fst),
    "dxy": (2, _dxy),
    "f2": (2, _f2),
    "f3": (3, _f3),
    "f4": (4, _f4),
    "ld": (1, _ld),
    "haplotypes": (1, _haplotypes),
    "roh": (1, _roh),
}
"""The populations that each needs at least, and its columns."""
