import numpy as np
import pytest
from scipy.stats import hypergeom

import pymc_kbr as pk
from pymc_kbr.popgen.statistics import FAMILIES, squared_correlations, tajima_d

SIZES = {"A": 5, "B": 4, "C": 3, "D": 2}
ALL = list(FAMILIES)


def random_genotypes(seed, gaps, alleles=2, v=300):
    """Genotypes (v, n, 2) whose frequencies vary between sites, positions, and the length."""
    rng = np.random.default_rng(seed)
    n = sum(SIZES.values())
    shares = rng.dirichlet(np.ones(alleles), v)
    genotypes = np.array([rng.choice(alleles, (n, 2), p=one) for one in shares])
    if gaps:
        genotypes[rng.random(genotypes.shape) < 0.1] = -1
    return genotypes, np.sort(rng.choice(20_000, v, replace=False)).astype(float), 20_000.0


def of(genotypes, positions, length, statistics=ALL, **kwargs):
    settings = {"distances": (0, 500, 5000, 20_000), "run": 500, **kwargs}
    return pk.popgen.Statistics(SIZES, statistics, **settings).from_genotypes(genotypes, positions, length)


def samples():
    ends = np.cumsum([0, *SIZES.values()])
    return {name: np.arange(a, b) for name, a, b in zip(SIZES, ends[:-1], ends[1:], strict=True)}


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_statistics_equal_those_of_scikit_allel(seed, gaps):
    allel = pytest.importorskip("allel")
    genotypes, positions, length = random_genotypes(seed, gaps)
    found = of(genotypes, positions, length)
    g = allel.GenotypeArray(genotypes.astype("i1"))
    # Positions of scikit-allel begin with one.
    at, whole = positions.astype(int) + 1, {"start": 1, "stop": int(length)}
    ac = {name: g.take(own, axis=1).count_alleles(max_allele=1) for name, own in samples().items()}
    wanted = {}
    for name, own in ac.items():
        wanted[f"pi_{name}"] = allel.sequence_diversity(at, own, **whole)
        wanted[f"theta_w_{name}"] = allel.watterson_theta(at, own, **whole)
        wanted[f"tajima_d_{name}"] = allel.tajima_d(own, pos=at, **whole)
        n = genotypes.shape[2] * SIZES[name]
        complete = np.asarray(own)[np.asarray(own).sum(axis=1) == n]
        spectrum = np.pad(allel.sfs_folded(complete), (0, n))
        wanted |= {f"sfs_{name}_{i}": spectrum[i] for i in range(1, n // 2 + 1)}
        mine = g.take(samples()[name], axis=1)
        haplotypes = mine.to_haplotypes().compress(~np.any(mine.to_haplotypes() < 0, axis=1), axis=0)
        wanted[f"haplotype_diversity_{name}"] = allel.haplotype_diversity(haplotypes)
        wanted |= dict(
            zip((f"h1_{name}", f"h12_{name}", "", f"h2_h1_{name}"), allel.garud_h(haplotypes), strict=True)
        )
    wanted.pop("")
    for one, other in (("A", "B"), ("B", "D")):
        wanted[f"dxy_{one}_{other}"] = allel.sequence_divergence(at, ac[one], ac[other], **whole)
        wanted[f"fst_{one}_{other}"] = allel.average_hudson_fst(ac[one], ac[other], 50)[0]
        wanted[f"f2_{one}_{other}"] = np.nansum(allel.patterson_f2(ac[one], ac[other])) / length
    wanted["f3_C_A_B"] = np.nansum(allel.patterson_f3(ac["C"], ac["A"], ac["B"])[0]) / length
    wanted["f4_A_B_C_D"] = np.nansum(allel.patterson_d(*ac.values())[0]) / length
    if gaps:  # the block-jackknife of scikit-allel takes sums of other sites
        num, den = allel.hudson_fst(ac["A"], ac["B"])
        wanted["fst_A_B"] = np.nansum(num) / np.sum(den[~np.isnan(num)])
        num, den = allel.hudson_fst(ac["B"], ac["D"])
        wanted["fst_B_D"] = np.nansum(num) / np.sum(den[~np.isnan(num)])
        # A site without a haplotype of a population has no numerator here, and another one there.
        fine = np.all([own.sum(axis=1) > 1 for own in map(np.asarray, ac.values())], axis=0)
        if not fine.all():
            for name in ("f2_B_D", "f3_C_A_B", "f4_A_B_C_D"):
                wanted.pop(name)
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


@pytest.mark.parametrize("gaps", [False, True])
def test_correlations_equal_those_of_numpy_and_of_scikit_allel(gaps):
    genotypes, _, _ = random_genotypes(3, gaps, v=40)
    own = genotypes[:, :9]
    dosages = np.where((own < 0).any(axis=2), np.nan, own.sum(axis=2))
    found = squared_correlations(dosages)
    for i in range(40):
        for j in range(i):
            both = np.isfinite(dosages[i]) & np.isfinite(dosages[j])
            x, y = dosages[i, both], dosages[j, both]
            if both.sum() < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
                assert np.isnan(found[i, j])
            else:
                assert found[i, j] == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2, abs=1e-12)
    allel = pytest.importorskip("allel")
    if not gaps:  # which computes in single precision
        theirs = allel.rogers_huff_r(dosages.astype("i1")) ** 2
        np.testing.assert_allclose(found[np.triu_indices(40, 1)], theirs, atol=1e-5)


def trees_of(seed, rate=3e-7, ploidy=2, length=2e4):
    msprime = pytest.importorskip("msprime")
    demography = msprime.Demography()
    for name in SIZES:
        demography.add_population(name=name, initial_size=1000)
    demography.set_symmetric_migration_rate(list(SIZES), 1e-3)
    trees = msprime.sim_ancestry(
        SIZES,
        demography=demography,
        sequence_length=length,
        recombination_rate=1e-8,
        ploidy=ploidy,
        random_seed=seed,
    )
    return msprime.sim_mutations(trees, rate=rate, random_seed=seed)


# The last has so many mutations that sites with three and four alleles are many.
@pytest.mark.parametrize(("seed", "rate"), [(1, 3e-7), (10, 3e-6)])
@pytest.mark.parametrize("masked", [False, True])
def test_statistics_equal_those_of_tskit(seed, rate, masked):
    trees = trees_of(seed, rate)
    mask = [(0, 1000), (5000, 7000.5), (6000, 9000)] if masked else None
    found = pk.popgen.Statistics(SIZES, ALL, mask=mask, run=500).from_trees(trees)
    length = trees.sequence_length
    if masked:
        trees = trees.delete_intervals([(0, 1000), (5000, 9000)], simplify=False)
        left = length - 5000
    sets = {name: trees.samples(population=i) for i, name in enumerate(SIZES)}
    density = length / left if masked else 1.0
    a, b, c, d = sets.values()
    n = len(a)
    wanted = {
        "pi_A": trees.diversity(a) * density,
        "theta_w_A": trees.segregating_sites(a) / np.sum(1 / np.arange(1, n)) * density,
        "tajima_d_A": trees.Tajimas_D(a),
        "dxy_A_B": trees.divergence([a, b]) * density,
        "f2_A_B": trees.f2([a, b]) * density,
        "f3_A_B_C": trees.f3([a, b, c]) * density,
        "f4_A_B_C_D": trees.f4([a, b, c, d]) * density,
        "f4_A_C_B_D": trees.f4([a, c, b, d]) * density,
        # Hudson's estimator, of tskit's means.
        "fst_A_B": 1 - (trees.diversity(a) + trees.diversity(b)) / 2 / trees.divergence([a, b]),
    }
    if masked:  # sites that were deleted have no samples, which tskit counts as ancestral
        assert trees.num_sites > 0
    spectrum = {"span_normalise": False, "polarised": False}
    one = trees.allele_frequency_spectrum([a], **spectrum)
    wanted |= {f"sfs_A_{i}": one[i] for i in range(1, n // 2 + 1)}
    two = trees.allele_frequency_spectrum([a, b], **spectrum)
    joint = [name for name in found.index if name.startswith("joint_sfs_A_B_")]
    assert sum(found[joint]) == pytest.approx(two.sum() - two[0, 0])
    wanted |= {name: two[tuple(map(int, name.split("_")[-2:]))] for name in joint}
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, rel=1e-12, abs=1e-12), name


def test_squared_correlations_of_haploids_equal_those_of_tskit():
    trees = trees_of(1, ploidy=1)
    tskit = pytest.importorskip("tskit")
    trees = trees.simplify(trees.samples(population=0), filter_populations=False)
    sites = [v.site.id for v in trees.variants() if len(v.alleles) == 2 and 0 < v.genotypes.sum() < 5]
    trees = trees.delete_sites(sorted(set(range(trees.num_sites)) - set(sites)))
    theirs = tskit.LdCalculator(trees).r2_matrix() if len(sites) else None
    x = trees.genotype_matrix().astype(float)
    np.testing.assert_allclose(squared_correlations(x), theirs, atol=1e-12)


def test_windows_give_variances_that_are_those_of_the_windows_statistics():
    trees = trees_of(2)
    windows = [0, 5000, 8000, 20_000]
    statistics = ["pi", "theta_w", "tajima_d", "dxy", "fst"]
    found = pk.popgen.Statistics(SIZES, statistics, windows=windows).from_trees(trees)
    a, b = (trees.samples(population=i) for i in (0, 1))
    assert found["pi_A_variance"] == pytest.approx(np.var(trees.diversity(a, windows=windows), ddof=1))
    d = trees.Tajimas_D(a, windows=windows)
    assert found["tajima_d_A_variance"] == pytest.approx(np.var(d[np.isfinite(d)], ddof=1))
    dxy = trees.divergence([a, b], windows=windows)
    assert found["dxy_A_B_variance"] == pytest.approx(np.var(dxy, ddof=1))
    equal = pk.popgen.Statistics(SIZES, ["pi"], windows=4).from_trees(trees)
    same = pk.popgen.Statistics(SIZES, ["pi"], windows=[0, 5e3, 1e4, 1.5e4, 2e4]).from_trees(trees)
    assert equal.equals(same)
    assert list(equal.index)[:2] == ["pi_A", "pi_A_variance"]


def test_a_projected_spectrum_is_the_mean_of_subsamples():
    genotypes, positions, length = random_genotypes(1, gaps=True)
    found = of(genotypes, positions, length, ["sfs"], projection={"A": 6, "B": 8, "C": 6, "D": 4})
    own = genotypes[:, :5].reshape(len(genotypes), -1)
    copies, called = np.sum(own == 1, axis=1), np.sum(own >= 0, axis=1)
    wanted = np.zeros(7)
    for k, n in zip(copies, called, strict=True):
        if n >= 6:
            wanted += hypergeom.pmf(np.arange(7), n, k, 6)
    assert found["sfs_A_1"] == pytest.approx(wanted[1] + wanted[5])
    assert found["sfs_A_2"] == pytest.approx(wanted[2] + wanted[4])
    assert found["sfs_A_3"] == pytest.approx(wanted[3])


def test_runs_of_homozygosity_leave_masked_parts_out():
    # One individual, with differences at 1,000 and 4,000 of 10,000 bases.
    genotypes = np.array([[[0, 1]], [[0, 0]], [[1, 0]], [[0, -1]]])
    positions = [1000.0, 2000.0, 4000.0, 5000.0]

    def share(run, mask=None):
        statistics = pk.popgen.Statistics({"A": 1}, ["roh"], run=run, mask=mask)
        return statistics.from_genotypes(genotypes, positions, 10_000)["roh_A"]

    assert share(2000) == pytest.approx(0.9)
    assert share(3001) == pytest.approx(0.6)
    assert share(2000, [(4500, 9000)]) == pytest.approx(3000 / 5500)
    with pytest.raises(ValueError, match="no run is as long"):
        share(5501, [(4500, 9000)])


def test_tajimas_d_of_a_textbook():
    # Tajima 1989, human mitochondrial DNA: n, segregating sites, and mean differences.
    assert tajima_d(10, 16, 3.888889) == pytest.approx(-1.446172, abs=1e-5)
    assert np.isnan(tajima_d(10, 0, 0.0))
    assert np.isnan(tajima_d(1, 1, 0.0))


def test_no_site_at_all_is_no_error():
    found = of(np.zeros((0, 14, 2), int), [], 1000.0, distances=(0, 500))
    assert found["pi_A"] == found["sfs_A_1"] == found["dxy_A_B"] == 0
    assert np.isnan(found["tajima_d_A"])
    assert np.isnan(found["fst_A_B"])
    assert found["haplotypes_A"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"statistics": ["pie"]}, "pie"),
        ({"statistics": []}, "nothing"),
        ({"populations": {"A": 3}, "statistics": ["fst"]}, "at least 2"),
        ({"populations": {"A": ["x", "y", "x"]}}, "twice"),
        ({"populations": {"A": ["x"], "B": ["x"]}}, "twice"),
        ({"populations": {"A": []}}, "no samples"),
        ({"populations": {}}, "dict"),
        ({"distances": [3, 1]}, "rising"),
        ({"sites": 1}, "at least 2"),
        ({"run": 0}, "above zero"),
        ({"mask": [(5, 3)]}, "interval"),
        ({"mask": "nothing.bed"}, "no file"),
    ],
)
def test_settings_that_make_no_statistics_are_refused(arguments, words):
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=words):
        pk.popgen.Statistics(**arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"windows": [0, 10]}, "rising"),
        ({"windows": [0, 10, 1e9]}, "bases"),
        ({"projection": {"A": 11}}, "haplotypes"),
        ({"mask": [(0, 30_000)]}, "leaves nothing"),
        ({"distances": (0, 1000, 20_000, 30_000), "statistics": ["ld"]}, "shorter"),
    ],
)
def test_settings_that_do_not_fit_the_data_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
        of(*random_genotypes(1, gaps=False), **{"statistics": ["pi", "sfs"], **arguments})


def test_tree_sequences_of_other_samples_are_refused():
    trees = trees_of(1)
    with pytest.raises(ValueError, match="5 individuals"):
        pk.popgen.Statistics({"A": 4}, ["pi"]).from_trees(trees)
    with pytest.raises(ValueError, match="'X' has 4 samples"):
        pk.popgen.Statistics({"X": 4}, ["pi"]).from_trees(trees)
    with pytest.raises(TypeError, match="TreeSequence"):
        pk.popgen.Statistics().from_trees("trees")


def test_a_bed_file_is_a_mask(tmp_path):
    (tmp_path / "mask.bed").write_text("# masked\nchr1\t0\t1000\nchr1\t900\t2000\textra\n")
    genotypes, positions, length = random_genotypes(1, gaps=True)
    one = of(genotypes, positions, length, mask=tmp_path / "mask.bed")
    assert one.equals(of(genotypes, positions, length, mask=[(0, 2000)]))
    kept = positions >= 2000
    rest = of(genotypes[kept], positions[kept] - 2000, length - 2000)
    np.testing.assert_allclose(one, rest)
    for text in ("chr1\t0\t10\nchr2\t0\t10\n", "chr1\t0\n", "chr1 a b\n"):
        (tmp_path / "mask.bed").write_text(text)
        with pytest.raises(ValueError, match="mask"):
            pk.popgen.Statistics(mask=tmp_path / "mask.bed")
