import gzip
import io

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from tests.popgen.test_statistics import ALL, SIZES, trees_of

pytest.importorskip("cyvcf2")
NAMES = {name: [f"{name.lower()}{i}" for i in range(n)] for name, n in SIZES.items()}
SAMPLES = [one for own in NAMES.values() for one in own]
LENGTH = 20_000


def text_of(genotypes, positions, samples, contigs=("1",), header=True, phase="|", alleles=4):
    """A VCF of genotypes (v, n, ploidy), of which -1 is missing and -2 not there."""
    lines = ["##fileformat=VCFv4.2", '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">']
    length = f",length={LENGTH}" if header else ""
    lines += [f"##contig=<ID={name}{length}>" for name in dict.fromkeys(contigs)]
    names = ["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT"]
    lines.append("\t".join([*names, *samples]))
    contigs = np.resize(contigs, len(positions)) if len(contigs) == 1 else contigs
    for contig, at, row in zip(contigs, positions, genotypes, strict=True):
        calls = [phase.join("." if a == -1 else str(a) for a in one if a > -2) for one in row]
        most = max(int(np.max(row)), 1)
        fields = [contig, str(at + 1), ".", "A", ",".join("CGT"[:most]), ".", "PASS", ".", "GT", *calls]
        lines.append("\t".join(fields))
    return "\n".join(lines) + "\n"


@pytest.fixture
def case():
    trees = trees_of(4)
    genotypes = trees.genotype_matrix().reshape(trees.num_sites, -1, 2)
    return trees, genotypes, np.floor(trees.tables.sites.position).astype(int)


def write(folder, text, name="data.vcf"):
    path = folder / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


def settings(**kwargs):
    return pk.popgen.Statistics(NAMES, ALL, run=500, **kwargs)


@pytest.mark.parametrize("name", ["data.vcf", "data.vcf.gz"])
def test_a_vcf_and_the_tree_sequence_it_was_written_from_have_the_same_statistics(tmp_path, case, name):
    trees, genotypes, positions = case
    path = write(tmp_path, text_of(genotypes, positions, SAMPLES), name)
    for more in ({}, {"mask": [(100, 900), (5000, 9000)], "windows": 4}):
        pd.testing.assert_series_equal(settings(**more).from_vcf(path), settings(**more).from_trees(trees))


def test_a_vcf_that_tskit_writes_is_read(tmp_path, case):
    trees, _, _ = case
    text = io.StringIO()
    trees.write_vcf(text, position_transform=lambda x: 1 + np.floor(x), individual_names=SAMPLES)
    path = write(tmp_path, text.getvalue())
    found = settings().from_vcf(path, sequence_length=LENGTH)
    pd.testing.assert_series_equal(found, settings().from_trees(trees))


def test_samples_are_found_by_name_in_any_order_and_others_left_out(tmp_path, case):
    trees, genotypes, positions = case
    order = np.random.default_rng(1).permutation(len(SAMPLES))
    other = np.concatenate([genotypes[:, order], 1 - genotypes[:, :1].clip(0, 1)], axis=1)
    path = write(tmp_path, text_of(other, positions, [*(SAMPLES[i] for i in order), "stranger"]))
    pd.testing.assert_series_equal(settings().from_vcf(path), settings().from_trees(trees))


def test_missing_genotypes_haploids_and_several_alleles_are_as_in_the_array(tmp_path):
    rng = np.random.default_rng(1)
    genotypes = rng.integers(0, 4, (200, 14, 2))
    genotypes[rng.random(genotypes.shape) < 0.05] = -1
    positions = np.sort(rng.choice(LENGTH, 200, replace=False))
    path = write(tmp_path, text_of(genotypes, positions, SAMPLES))
    wanted = settings().from_genotypes(genotypes, positions, LENGTH)
    pd.testing.assert_series_equal(settings().from_vcf(path), wanted)
    # Haploid samples among diploid ones: their second haplotype is not there, and not missing.
    haploid = genotypes.copy()
    haploid[:, 5:9, 1] = -2
    path = write(tmp_path, text_of(haploid, positions, SAMPLES))
    found = pk.popgen.Statistics(NAMES, ["pi", "sfs"]).from_vcf(path)
    of_b = pk.popgen.Statistics({"B": 4}, ["pi", "sfs"])
    only = of_b.from_genotypes(haploid[:, 5:9, :1], positions, LENGTH)
    pd.testing.assert_series_equal(found[only.index.intersection(found.index)], only)


def test_unphased_genotypes_have_no_haplotypes_and_all_else(tmp_path, case):
    _, genotypes, positions = case
    path = write(tmp_path, text_of(genotypes, positions, SAMPLES, phase="/"))
    with pytest.raises(ValueError, match="no phase"):
        settings().from_vcf(path)
    others = [name for name in ALL if name not in ("haplotypes", "roh")]
    rng = np.random.default_rng(1)
    turned = np.where(rng.random(genotypes.shape[:2])[..., None] < 0.5, genotypes, genotypes[..., ::-1])
    again = write(tmp_path, text_of(turned, positions, SAMPLES, phase="/"), "turned.vcf")
    statistics = pk.popgen.Statistics(NAMES, others)
    pd.testing.assert_series_equal(statistics.from_vcf(path), statistics.from_vcf(again))
    homozygous = genotypes[:, :, :1].repeat(2, axis=2)
    path = write(tmp_path, text_of(homozygous, positions, SAMPLES, phase="/"))
    assert settings().from_vcf(path)["haplotypes_A"] > 0  # there the phase is known


def test_all_samples_are_one_population_where_none_is_named(tmp_path, case):
    trees, genotypes, positions = case
    path = write(tmp_path, text_of(genotypes, positions, SAMPLES))
    found = pk.popgen.Statistics().from_vcf(path)
    assert found["pi_all"] == pytest.approx(trees.diversity())


def broken(kind, case):
    _, genotypes, positions = case
    if kind == "unsorted":
        return text_of(genotypes, positions[::-1], SAMPLES), "sort"
    if kind == "no samples":
        text = text_of(genotypes, positions, SAMPLES)
        cut = ["\t".join(line.split("\t")[:8]) if line[:2] != "##" else line for line in text.splitlines()]
        return "\n".join(cut) + "\n", "no samples"
    if kind == "absent":
        return text_of(genotypes, positions, ["a0", "x", *SAMPLES[2:]]), "'a1'.*population 'A'"
    if kind == "several contigs":
        contigs = ["1"] * 5 + ["2"] * (len(positions) - 5)
        return text_of(genotypes, positions, SAMPLES, contigs), "choose one by `contig`"
    if kind == "no length":
        return text_of(genotypes, positions, SAMPLES, header=False), "sequence_length"
    if kind == "beyond":
        return text_of(genotypes, positions + LENGTH, SAMPLES), "20000 bases"
    if kind == "no genotypes":
        return text_of(genotypes, positions, SAMPLES).replace("GT", "XX"), r"no genotypes \(GT\) at 1:\d+.*XX"
    if kind == "cut":
        return text_of(genotypes, positions, SAMPLES)[:-20], "truncated"
    if kind == "all missing":
        genotypes = genotypes.copy()
        genotypes[:, 5:9] = -1
        return text_of(genotypes, positions, SAMPLES), "no genotype of the population 'B'"
    if kind == "no record":
        return text_of(genotypes[:0], positions[:0], SAMPLES), "no record"
    return "hello\n", "cannot be read as a VCF"


@pytest.mark.parametrize(
    "kind",
    [
        "unsorted",
        "no samples",
        "absent",
        "several contigs",
        "no length",
        "beyond",
        "no genotypes",
        "cut",
        "no record",
        "all missing",
        "no vcf",
    ],
)
def test_what_is_no_whole_vcf_of_these_samples_is_refused(tmp_path, case, kind):
    text, words = broken(kind, case)
    with pytest.raises(ValueError, match=words):
        settings().from_vcf(write(tmp_path, text))


def test_one_of_several_contigs_is_read(tmp_path, case):
    _, genotypes, positions = case
    contigs = ["1"] * 5 + ["2"] * (len(positions) - 5)
    several = write(tmp_path, text_of(genotypes, positions, SAMPLES, contigs))
    alone = write(tmp_path, text_of(genotypes[5:], positions[5:], SAMPLES), "alone.vcf")
    pd.testing.assert_series_equal(settings().from_vcf(several, contig="2"), settings().from_vcf(alone))
    with pytest.raises(ValueError, match="no record of '3'"):
        settings().from_vcf(several, contig="3")


def test_files_that_are_cut_or_not_there_are_refused(tmp_path, case):
    _, genotypes, positions = case
    data = gzip.compress(text_of(genotypes, positions, SAMPLES).encode())
    (tmp_path / "cut.vcf.gz").write_bytes(data[:-40])
    with pytest.raises(ValueError, match=r"damaged|truncated"):
        settings().from_vcf(tmp_path / "cut.vcf.gz")
    # The beginning of a block of bgzip, and nothing of the one that ends the file.
    (tmp_path / "cut.vcf.bgz").write_bytes(b"\x1f\x8b\x08\x04" + b"\0" * 8 + b"BC" + b"\0" * 50)
    with pytest.raises(ValueError, match="truncated"):
        settings().from_vcf(tmp_path / "cut.vcf.bgz")
    with pytest.raises(FileNotFoundError, match="nothing"):
        settings().from_vcf(tmp_path / "nothing.vcf")
