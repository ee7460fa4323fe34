"""Demographies as simulators of a PyMC model, by msprime."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

from pymc_kbr.arrays.extras import brought_by
from pymc_kbr.arrays.refusals import instance, positive, shown, whole
from pymc_kbr.popgen.genotypes import Genotypes, read_trees, read_vcf
from pymc_kbr.popgen.statistics import Statistics
from pymc_kbr.simulation import vector_simulator


def coalescent(
    name: str,
    demography: Callable[..., Any],
    statistics: Statistics,
    *,
    observed: Any,
    mutation_rate: Any,
    recombination_rate: Any = 0.0,
    sequence_length: Any = None,
    contig: str | None = None,
    ploidy: int = 2,
    ancestry: Mapping[str, Any] | None = None,
    mutations: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> Any:
    """Statistics of genomes that msprime simulates, as an observed variable of the PyMC model.

    Parameters
    ----------
    name : str
        Name of the observed variable.
    demography : callable
        ``demography(**parameters)`` returns an `msprime.Demography` or a `demes.Graph`, whose populations
        have the names that `statistics` has.
    statistics : Statistics
        Computed of the observed genotypes and of each simulation, by the same function.
    observed : path, tskit.TreeSequence, Genotypes, or Series or dict of statistics
        The data: a VCF or BCF file, or the same in memory. Genotypes that are missing there are missing in
        simulations, too: each simulated site has the gaps of an observed one, which is drawn at random.
    mutation_rate, recombination_rate, sequence_length : float or variable of the model
        A base and generation, and in bases. The length is that of the observed data where left out. A map of
        rates (`msprime.RateMap`) will do for either rate.
    contig : str, optional
        Of the VCF, where it has several.
    ploidy : int
        Of the populations: time is scaled by it. Samples have the ploidy that they have in the data.
    ancestry, mutations : dict, optional
        Other arguments of `msprime.sim_ancestry` and `msprime.sim_mutations`, such as ``{"model": "dtwf"}``.
    **parameters
        Those of `demography`: variables of the model, or numbers. Those left out are variables of the model
        that have the names of its arguments.

    Returns
    -------
    TensorVariable
        The observed random variable; its coords are the names of the statistics.

    Raises
    ------
    ImportError
        If msprime, or for a VCF cyvcf2, is not installed (extra `popgen`).
    TypeError, ValueError
        If `demography` does not take these parameters, returns something else, or has not the populations of
        `statistics`, if the data cannot be read (see `Statistics.from_vcf`), or have no statistic.

    Notes
    -----
    A simulation takes its two seeds from the generator of the table: the same seed makes the same table
    with any number of cores. One that fails, or has an undefined statistic, is counted as failed.
    """
    with brought_by("popgen", "msprime"):
        import msprime
    instance("statistics", statistics, Statistics, "a pk.popgen.Statistics")
    whole("ploidy", ploidy)
    model = pm.modelcontext(None)
    given = _parameters(demography, parameters, model)
    data, found = _observed(statistics, observed, contig, sequence_length)
    rates = {"mutation_rate": mutation_rate, "recombination_rate": recombination_rate}
    maps = {key: value for key, value in rates.items() if isinstance(value, msprime.RateMap)}
    length = sequence_length if sequence_length is not None or data is None else data.length
    if data is not None and isinstance(length, int | float) and length != data.length:
        raise ValueError(
            f"sequence_length is {shown(length)}, and the observed sequence has {data.length:g} bases; "
            "leave it out"
        )
    if length is None:
        raise ValueError("sequence_length is left out, and statistics as `observed` do not say it; give it")
    numbers = {"sequence_length": length, **{key: rates[key] for key in rates if key not in maps}}
    for key, value in numbers.items():
        if isinstance(value, int | float) and not (key == "recombination_rate" and value == 0):
            positive(key, value)
    samples = _samples(statistics, data, ploidy)
    if data is None:
        _check_names(statistics, samples, list(found), length)
    simulator = Coalescent(
        demography,
        statistics,
        tuple(given),
        tuple(numbers),
        tuple(found),
        samples,
        None if data is None or not np.any(data.alleles < 0) else data.alleles < 0,
        ploidy,
        maps,
        dict(ancestry or {}),
        dict(mutations or {}),
    )
    simulator.check(list(given.values()))
    dim = f"{name}_statistic"
    model.add_coord(dim, list(found))
    values = [*given.values(), *numbers.values()]
    return vector_simulator(name, simulator, *values, observed=list(found.values()), dims=dim)


def _parameters(
    demography: Callable[..., Any], parameters: dict[str, Any], model: pm.Model
) -> dict[str, Any]:
    """The arguments of a demography, by name."""
    needed, optional = parameters_of(demography)
    others = [
        key
        for key in (*needed, *(one for one in optional if one in model.named_vars))
        if key not in parameters
    ]
    lacking = [key for key in others if key not in model.named_vars]
    if lacking:
        raise ValueError(
            f"demography takes {lacking}, and the model has no such variables; it has "
            f"{list(model.named_vars)}: name them so, or give them by keyword"
        )
    parameters = parameters | {key: model.named_vars[key] for key in others}
    try:
        inspect.signature(demography).bind(**parameters)
    except TypeError as error:
        raise TypeError(f"demography does not take the parameters {list(parameters)}: {error}") from None
    if not parameters:
        raise ValueError("demography takes no parameters, so that there is nothing to infer")
    return parameters


def _observed(
    statistics: Statistics, observed: Any, contig: str | None, sequence_length: Any
) -> tuple[Genotypes | None, dict[str, float]]:
    """The observed genotypes, where there are some, and their statistics by name."""
    if isinstance(observed, str | Path):
        given = sequence_length if isinstance(sequence_length, int | float) else None
        data = read_vcf(observed, statistics.populations, contig, given)
    elif hasattr(observed, "genotype_matrix"):
        data = read_trees(observed, statistics.populations)
    elif isinstance(observed, Genotypes):
        data = observed
    elif hasattr(observed, "items"):
        wrong = {key: one for key, one in observed.items() if not isinstance(one, int | float | np.number)}
        if wrong:
            raise TypeError(f"observed has {shown(wrong)}; statistics are numbers, NaN where one is missing")
        return None, {str(key): float(value) for key, value in observed.items()}
    else:
        raise TypeError(
            f"observed is {shown(observed)}; give the path of a VCF, a tree sequence, or statistics by name"
        )
    named = ["all"] if statistics.populations is None else list(statistics.populations)
    if data.populations != named:
        raise ValueError(f"observed has the populations {data.populations}, and `statistics` {named}")
    found = {str(key): float(value) for key, value in statistics.of(data).items()}
    if not np.any(np.isfinite(list(found.values()))):
        raise ValueError(f"no statistic of {list(found)[:6]} is defined for the observed data; take others")
    return data, found


def _samples(
    statistics: Statistics, data: Genotypes | None, ploidy: int
) -> list[tuple[str | None, int, int]]:
    """Population, number and ploidy of samples, in the order of the data."""
    if data is None:
        if statistics.populations is None:
            raise ValueError(
                "statistics names no populations, and `observed` has no genotypes: how many samples "
                "there are is not known; give populations with their samples"
            )
        sizes = {
            key: own if isinstance(own, int) else len(own) for key, own in statistics.populations.items()
        }
        return [(key, size, ploidy) for key, size in sizes.items()]
    return [
        (None if statistics.populations is None else key, len(list(group)), ploidy_of_group)
        for key, own in data.ploidies().items()
        for ploidy_of_group, group in groupby(own)
    ]


def _check_names(
    statistics: Statistics, samples: list[tuple[str | None, int, int]], found: list[str], length: Any
) -> None:
    """Refuse observed statistics that are not those of simulations, before there are any."""
    haplotypes, individuals = 0, dict[str, list[np.ndarray]]()
    for population, count, ploidy in samples:
        ends = haplotypes + ploidy * np.arange(count + 1)
        individuals[str(population)] = [np.arange(*pair) for pair in pairwise(ends.tolist())]
        haplotypes = int(ends[-1])
    none = np.empty((0, haplotypes), dtype=int)
    bases = float(length) if isinstance(length, int | float) else float(2**31)  # beyond every mask
    made = [str(name) for name in statistics.of(Genotypes(none, np.empty(0), bases, individuals)).index]
    if sorted(made) != sorted(found):
        raise ValueError(
            f"observed has the statistics {shown(found)}, and `statistics` makes {shown(made)} of "
            "simulations; give those of the same `Statistics`"
        )


class Coalescent:
    """A function from parameters to the statistics of one simulation."""

    def __init__(
        self,
        demography: Callable[..., Any],
        statistics: Statistics,
        parameters: tuple[str, ...],
        numbers: tuple[str, ...],
        names: tuple[str, ...],
        samples: list[tuple[str | None, int, int]],
        missing: np.ndarray | None,
        ploidy: int,
        maps: dict[str, Any],
        ancestry: dict[str, Any],
        mutations: dict[str, Any],
    ) -> None:
        self.demography, self.statistics = demography, statistics
        self.parameters, self.numbers, self.names = parameters, numbers, names
        self.samples, self.missing, self.ploidy = samples, missing, ploidy
        self.maps, self.ancestry, self.mutations = maps, ancestry, mutations
        self.__name__ = getattr(demography, "__name__", "demography")
        # What a store compares: the user's function, and these words of what is no plain value.
        self.__module__ = getattr(demography, "__module__", __name__)
        self.words = repr((statistics, parameters, numbers, names, samples, maps, ancestry, mutations))
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(key, inspect.Parameter.POSITIONAL_ONLY)
                for key in ("rng", *(f"of_{one}" for one in (*parameters, *numbers)), "size")
            ]
        )

    def __call__(self, rng: np.random.Generator, *arguments: Any) -> np.ndarray:
        """The statistics of one simulation."""
        *values, size = arguments
        if size is not None and len(size):
            raise ValueError("genomes are simulated one by one")
        trees = self.trees(rng, values)
        genotypes = read_trees(trees, self.statistics.populations)
        if self.missing is not None:
            genotypes = genotypes.missing_as(self.missing, rng)
        found = self.statistics.of(genotypes)
        lacking = [key for key in self.names if key not in found.index]
        if lacking or len(found) != len(self.names):
            raise ValueError(
                f"simulations have the statistics {list(found.index)[:6]} and the data "
                f"{list(self.names)[:6]}; give observed statistics of the same `Statistics`"
            )
        return found[list(self.names)].to_numpy()

    def trees(self, rng: np.random.Generator, values: list[Any]) -> Any:
        """One simulated tree sequence with mutations."""
        import msprime

        of_demography, numbers = values[: len(self.parameters)], values[len(self.parameters) :]
        rates = {**self.maps, **{key: float(one) for key, one in zip(self.numbers, numbers, strict=True)}}
        demography = as_demography(self.called(of_demography))
        seeds = rng.integers(1, 2**31, size=2)
        trees = msprime.sim_ancestry(
            [
                msprime.SampleSet(
                    count, population=population or demography.populations[0].name, ploidy=ploidy
                )
                for population, count, ploidy in self.samples
            ],
            demography=demography,
            sequence_length=rates["sequence_length"],
            recombination_rate=rates["recombination_rate"],
            ploidy=self.ploidy,
            random_seed=int(seeds[0]),
            **self.ancestry,
        )
        return msprime.sim_mutations(
            trees, rate=rates["mutation_rate"], random_seed=int(seeds[1]), **self.mutations
        )

    def called(self, values: list[Any]) -> Any:
        """What the user's function returns for some parameters, scalars as numbers."""
        numbers = [one.item() if np.ndim(one) == 0 else np.asarray(one) for one in map(np.asarray, values)]
        return self.demography(**dict(zip(self.parameters, numbers, strict=True)))

    def check(self, parameters: list[Any]) -> None:
        """Refuse what is no demography of these populations, at one draw of the prior."""
        try:
            found = self.called(_one_draw(parameters))
        except Exception:  # where it fails at some parameters, simulations do, and are counted
            return
        made = as_demography(found)
        there = [population.name for population in made.populations]
        wanted = [population for population, _, _ in self.samples if population is not None]
        absent = [population for population in dict.fromkeys(wanted) if population not in there]
        if absent:
            raise ValueError(
                f"the demography has no populations {absent}, which `statistics` names; it has {there}"
            )
        if not wanted and len(there) > 1:
            raise ValueError(
                f"the demography has the populations {there}, and `statistics` names none; name those of the "
                "samples"
            )


def as_demography(made: Any) -> Any:
    """A demography of msprime, from what the user's function returned."""
    import msprime

    if type(made).__name__ == "Graph" and hasattr(made, "demes"):
        made = msprime.Demography.from_demes(made)
    if not isinstance(made, msprime.Demography):
        raise TypeError(
            f"demography returned {shown(made)}; it must return an msprime.Demography or a demes.Graph"
        )
    return made


def parameters_of(demography: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """Names of the arguments of the user's function: those that it needs, and those with defaults."""
    if not callable(demography) or isinstance(demography, type):
        raise TypeError(f"demography is {shown(demography)}; give a function that returns a demography")
    named = [
        one
        for one in inspect.signature(demography).parameters.values()
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    ]
    needed = [one.name for one in named if one.default is one.empty]
    return needed, [one.name for one in named if one.default is not one.empty]


def _one_draw(parameters: list[Any]) -> list[Any]:
    """Values of the parameters at one draw of the prior."""
    variables = [one for one in parameters if hasattr(one, "eval")]
    drawn: Iterator[Any] = iter(pm.draw(variables, random_seed=0) if variables else [])
    return [next(drawn) if hasattr(one, "eval") else one for one in parameters]
