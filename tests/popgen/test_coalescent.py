import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from tests.popgen.test_vcf import text_of

msprime = pytest.importorskip("msprime")
demes = pytest.importorskip("demes")
NAMES = {"A": ["a0", "a1", "a2", "a3"], "B": ["b0", "b1", "b2"]}
LENGTH, MUTATION, RECOMBINATION = 20_000, 1e-6, 1e-8
STATISTICS = pk.popgen.Statistics(NAMES, ["pi", "theta_w", "fst", "dxy"])


def split(size, time):
    demography = msprime.Demography()
    for name in ("A", "B", "AB"):
        demography.add_population(name=name, initial_size=size)
    demography.add_population_split(time, derived=["A", "B"], ancestral="AB")
    return demography


def as_demes(size, time):
    builder = demes.Builder()
    builder.add_deme("AB", epochs=[{"start_size": size, "end_time": time}])
    for name in ("A", "B"):
        builder.add_deme(name, ancestors=["AB"], epochs=[{"start_size": size}])
    return builder.resolve()


def trees_of(seed=1, size=1000, time=500):
    trees = msprime.sim_ancestry(
        {name: len(own) for name, own in NAMES.items()},
        demography=split(size, time),
        sequence_length=LENGTH,
        recombination_rate=RECOMBINATION,
        random_seed=seed,
    )
    return msprime.sim_mutations(trees, rate=MUTATION, random_seed=seed)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    pytest.importorskip("cyvcf2")
    trees = trees_of()
    genotypes = trees.genotype_matrix().reshape(trees.num_sites, -1, 2)
    genotypes[np.random.default_rng(1).random(genotypes.shape[:2]) < 0.05] = -1
    path = tmp_path_factory.mktemp("vcf") / "data.vcf"
    positions = np.floor(trees.tables.sites.position).astype(int)
    path.write_text(text_of(genotypes, positions, [one for own in NAMES.values() for one in own]))
    return path


def model_of(observed, demography=split, statistics=STATISTICS, **kwargs):
    with pm.Model() as model:
        size = pm.LogNormal("size", np.log(1000), 0.5)
        time = pm.Uniform("time", 0, 2000)
        given = {
            "mutation_rate": MUTATION,
            "recombination_rate": RECOMBINATION,
            "size": size,
            "time": time,
            "sequence_length": LENGTH,
        }
        given = {key: value for key, value in {**given, **kwargs}.items() if value is not None}
        pk.popgen.coalescent("y", demography, statistics, observed=observed, **given)
    return model


def simulated(model, **kwargs):
    return pk.simulate(20, model=model, random_seed=1, progressbar=False, **kwargs)


def test_a_model_of_a_vcf_in_ten_lines(data):
    with pm.Model() as model:
        pm.LogNormal("size", np.log(1000), 0.5)
        pm.Uniform("time", 0, 2000)
        pk.popgen.coalescent(  # demography's arguments are variables of the model
            "y", split, STATISTICS, observed=data, mutation_rate=MUTATION, recombination_rate=RECOMBINATION
        )
        idata = pk.sample_abc(100, simulations=60, estimator="rejection", random_seed=1, progressbar=False)
    assert list(model.coords["y_statistic"]) == list(STATISTICS.from_vcf(data).index)
    np.testing.assert_allclose(idata["observed_data"]["y"].values, STATISTICS.from_vcf(data))
    assert idata["posterior"]["time"].values.min() > 0


def test_same_seeds_make_same_tables_with_any_cores_and_by_either_kind_of_demography(data):
    one = simulated(model_of(data))
    two = simulated(model_of(data), cores=2)
    np.testing.assert_array_equal(one.statistics, two.statistics)
    graph = simulated(model_of(data, as_demes))
    np.testing.assert_allclose(one.parameters, graph.parameters)
    assert one.statistic_names == graph.statistic_names
    assert one.statistics.std(axis=0).min() > 0


def test_a_simulation_is_what_msprime_and_the_statistics_make_of_it():
    with pm.Model():
        theta = pm.Uniform("size", 500, 2000)
        y = pk.popgen.coalescent(
            "y",
            split,
            STATISTICS,
            observed=trees_of(),
            mutation_rate=MUTATION,
            recombination_rate=RECOMBINATION,
            size=theta,
            time=500,
        )
    drawn, size = pm.draw([y, theta], random_seed=3)
    assert drawn.shape == (len(STATISTICS.from_trees(trees_of())),)
    assert np.all(np.isfinite(drawn))
    # pi is about 4 N mu, within its deviation over genealogies, about as large as itself.
    assert 0 < drawn[0] < 40 * size * MUTATION


def test_genotypes_are_missing_in_simulations_as_in_the_data(data):
    gaps = pk.popgen.Statistics(NAMES, ["sfs"], projection={"A": 6, "B": 4})
    table = simulated(model_of(data, statistics=gaps))
    whole = simulated(model_of(trees_of(), statistics=pk.popgen.Statistics(NAMES, ["sfs"])))
    assert table.statistics.shape[1] == 3 + 2
    assert whole.statistics.shape[1] == 4 + 3
    # Sites with fewer than 6 of 8, or 4 of 6, genotypes are in no spectrum.
    assert np.mean(table.statistics.sum(axis=1)) < np.mean(whole.statistics.sum(axis=1))


def test_rates_and_lengths_may_be_variables_and_maps(data):
    with pm.Model() as model:
        size = pm.LogNormal("size", np.log(1000), 0.2)
        mu = pm.Uniform("mu", 1e-7, 1e-6)
        pk.popgen.coalescent(
            "y",
            split,
            STATISTICS,
            observed=data,
            mutation_rate=mu,
            recombination_rate=msprime.RateMap(position=[0, 1e4, 2e4], rate=[0, 1e-7]),
            sequence_length=LENGTH,
            size=size,
            time=300,
        )
    table = simulated(model)
    product = table.parameters[:, 0] * table.parameters[:, 1]
    assert np.corrcoef(product, table.statistics[:, 0])[0, 1] > 0.5


def test_failures_are_counted_and_stores_resumed(tmp_path):
    def fails(size, time):
        if time > 1500:
            raise RuntimeError("too old")
        return split(size, time)

    with pytest.warns(UserWarning, match="failed"):
        table = simulated(model_of(trees_of(), fails), on_failure="drop")
    assert 0 < len(table.failures) < 20
    whole = model_of(trees_of())
    asked = {"random_seed": 1, "progressbar": False}
    pk.simulate_to_store(10, tmp_path / "store", model=whole, **asked)
    more = pk.simulate_to_store(20, tmp_path / "store", model=whole, **asked)
    np.testing.assert_array_equal(more.load().statistics, simulated(whole).statistics)

    def other(size, time):
        return split(2 * size, time)

    fewer = pk.popgen.Statistics(NAMES, ["pi", "theta_w", "fst", "dxy"], mask=[(0, 5000)])
    for model in (model_of(trees_of(), other), model_of(trees_of(), statistics=fewer)):
        with pytest.raises(ValueError, match=r"another simulator|observation|words"):
            pk.simulate_to_store(30, tmp_path / "store", model=model, **asked)


def test_statistics_may_be_given_by_name():
    found = STATISTICS.from_trees(trees_of())
    table = simulated(model_of(found))
    again = simulated(model_of(trees_of()))
    np.testing.assert_array_equal(table.statistics, again.statistics)
    turned = simulated(model_of(found[::-1].to_dict()))
    np.testing.assert_array_equal(turned.statistics[:, ::-1], table.statistics)


def nothing(size, time):
    return None


def others(size, time):
    return msprime.Demography.isolated_model([size, size])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"demography": nothing}, "must return an msprime.Demography"),
        ({"demography": others}, "has no populations \\['A', 'B'\\]"),
        ({"demography": 3}, "give a function"),
        ({"statistics": "pi"}, "Statistics"),
        ({"speed": 3.0}, "does not take the parameters"),
        ({"mutation_rate": -1.0}, "above zero"),
        ({"sequence_length": 10.0}, "10 bases"),
        ({"observed": trees_of(), "sequence_length": 3e4}, "20000 bases"),
        ({"ploidy": 0}, "ploidy"),
        ({"observed": 3}, "path of a VCF"),
        ({"observed": {"pi": 1.0}, "sequence_length": 2e4}, "observed has the statistics .*'pi'.*'pi_A'"),
        ({"observed": {"pi_A": "low"}, "sequence_length": 2e4}, "observed has .*'low'.*numbers"),
        ({"observed": {"pi_A": 1.0}, "sequence_length": None}, "sequence_length"),
    ],
)
def test_what_makes_no_model_is_refused(change, words, data):
    arguments = {"observed": data, **change}
    with pytest.raises((ValueError, TypeError), match=words):
        model_of(**arguments)
