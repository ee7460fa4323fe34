import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk

HEADER = """data.snp
8 parameters and 3 summary statistics

2 scenarios: 5 4
scenario 1 [0.5] (5)
N1 N2 N3
0 sample 1
0 sample 2
t21 varNe 2 N2+N1
t32 merge 1 2
t21 split 3 1 2 ra

scenario 2 [0.5] (3)
N2 N1
0 sample 1
t32+fixed merge 2 1

historical parameters priors (7,1)
N1 N UN[10,1000,0.0,0.0]
N2 N LU[10,1000,0.0,0.0]
N3 N LN[10.0,10000.0,100.0,2.0]
t21 T UN[1,500,0,0]
t32 T NO[1,500,200.0,100.0]
ra A UN[0.05,0.95,0.0,0.0]
fixed T UN[5,5,0,0]
t21<t32
DRAW UNTIL

loci description (1)
50 [M] G1 from 1

group priors (1)
group G1 [M]
MEANMU UN[1E-4,1E-3,0.0005,2.0]
GAMMU GA[1e-05,1E-02,Mean_u,2.0]

group summary statistics (3)
group G1 (3)
NAL_1

scenario   N1 N2 N3 t21 t32 ra µmic_1  NAL_1_1 HET_1_1 FST_1_1_2
"""
OWN = {1: ["N1", "N2", "N3", "t21", "t32", "ra", "µmic_1"], 2: ["N2", "N1", "t32", "µmic_1"]}
STATISTICS = ["NAL_1_1", "HET_1_1", "FST_1_1_2"]


def simulated(rng, records=300):
    rows = []
    for _ in range(records):
        t21, t32 = np.sort(rng.choice(np.arange(1, 501), 2, replace=False))
        values = {
            "N1": rng.integers(10, 1001),
            "N2": rng.integers(10, 1001),
            "N3": rng.integers(10, 10_001),
            "t21": t21,
            "t32": t32,
            "ra": rng.uniform(0.05, 0.95),
            "µmic_1": rng.uniform(1e-4, 1e-3),
        }
        scenario = int(rng.integers(1, 3))
        x = [values["N1"] * values["µmic_1"], values["t32"] + rng.normal(0, 50), scenario + rng.normal()]
        rows.append((scenario, [values[name] for name in OWN[scenario]], x))
    return rows


def binary(rows, counts=None, own=(7, 4), statistics=3):
    found = [sum(row[0] == i for row in rows) for i in (1, 2)]
    head = [len(rows), 2, *(found if counts is None else counts), *own, statistics]
    parts = [np.array(head, "<i4").tobytes()]
    for scenario, theta, x in rows:
        parts += [np.array([scenario], "<i4").tobytes(), np.array([*theta, *x], "<f4").tobytes()]
    return b"".join(parts)


@pytest.fixture
def project(tmp_path):
    rows = simulated(np.random.default_rng(1))
    (tmp_path / "reftableRF.bin").write_bytes(binary(rows))
    (tmp_path / "headerRF.txt").write_text(HEADER, encoding="utf-8")
    (tmp_path / "statobsRF.txt").write_text("  HET_1_1 NAL_1_1 FST_1_1_2\n 200.5  .25 1.5\n")
    return tmp_path, rows


def read(folder):
    names = ("reftableRF.bin", "headerRF.txt", "statobsRF.txt")
    return pk.popgen.read_diyabc(*(folder / name for name in names))


def test_diyabc_tables_have_each_scenarios_own_columns_in_the_order_of_its_description(project):
    folder, rows = project
    tables = read(folder)
    assert list(tables) == [1, 2]
    for scenario, table in tables.items():
        assert table.parameter_names == OWN[scenario]
        assert table.statistic_names == STATISTICS
        wanted = [(theta, x) for of, theta, x in rows if of == scenario]
        np.testing.assert_array_equal(table.parameters, np.float32([theta for theta, _ in wanted]))
        np.testing.assert_array_equal(table.statistics, np.float32([x for _, x in wanted]))
        assert table.observed.tolist() == [0.25, 200.5, 1.5]  # by name, in any order
        assert not any(variable.discrete for variable in table.parameter_columns.variables)


def test_diyabc_bounds_and_conditions_hold_for_draws(project):
    folder, _ = project
    table = read(folder)[1]
    assert [one.text for one in table.support.constraints] == ["t21<t32"]
    assert not read(folder)[2].support.constraints  # it has no t21
    posterior = pk.Adjusted().fit(table).condition([0.3, 20.0, 1.0])
    draws = posterior.draw(5000, 1)
    assert np.all(draws[:, 3] < draws[:, 4])
    assert np.all((draws[:, 0] >= 10) & (draws[:, 0] <= 1000) & (draws[:, 3] >= 1) & (draws[:, 4] <= 500))
    ends = np.float32([1e-4, 1e-3])
    assert np.all((draws[:, 6] >= ends[0]) & (draws[:, 6] <= ends[1]))


@pytest.mark.parametrize("cut", [1, 4000, -5])
def test_a_truncated_or_too_long_binary_is_refused(project, cut):
    folder, _ = project
    path = folder / "reftableRF.bin"
    data = path.read_bytes()
    path.write_bytes(data[:-cut] if cut > 0 else data + b"\0" * -cut)
    with pytest.raises(ValueError, match=r"truncated|follows"):
        read(folder)


@pytest.mark.parametrize("data", [b"", b"\1\0\0", np.array([3, 2], "<i4").tobytes(), b"scenario 1 of a text"])
def test_what_is_no_binary_table_is_refused(project, data):
    folder, _ = project
    (folder / "reftableRF.bin").write_bytes(data)
    with pytest.raises(ValueError, match="no reftableRF"):
        read(folder)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("split 3 1 2 ra", "split 3 1 2 0.5", "scenario 1 has 7 there and 6 here"),
        ("scenario 2 [0.5] (3)\nN2 N1\n0 sample 1\nt32+fixed merge 2 1\n\n", "", "2 scenarios"),
        (" ra µmic_1", "", "differ"),
        ("priors (7,1)", "priors (8,1)", "has 7 priors"),
        ("N1 N UN[10,1000", "N1 N UN[10,100", "outside the given bounds"),
        ("N1 N UN[10,1000", "N1 N GA[10,1000", "UN, LU, NO or LN"),
        ("t21<t32", "t21>t32", "break the constraint 't21>t32'"),
        ("t21<t32", "t21>t32\nt32>t21", "contradict each other"),
        ("t21<t32", "t21<tX", "no prior"),
        ("historical parameters priors", "priors", "is no headerRF"),
    ],
)
def test_a_header_that_does_not_match_is_refused(project, old, new, words):
    folder, _ = project
    assert old in HEADER
    (folder / "headerRF.txt").write_text(HEADER.replace(old, new), encoding="utf-8")
    with pytest.raises(ValueError, match=words.replace("'", ".")):
        read(folder)


def test_a_scenario_without_records_is_named(project):
    folder, rows = project
    (folder / "reftableRF.bin").write_bytes(binary([row for row in rows if row[0] == 1]))
    with pytest.warns(UserWarning, match="scenario 2 has 0 record"):
        assert list(read(folder)) == [1]


def test_records_of_a_strange_scenario_are_refused(project):
    folder, rows = project
    (folder / "reftableRF.bin").write_bytes(binary(rows, counts=(200, 100)))
    with pytest.raises(ValueError, match=r"truncated|follows|counts"):
        read(folder)


@pytest.mark.parametrize("text", ["1 2\n", "a b c\n1 2 3\n", "", "NAL_1_1 HET_1_1 FST_1_1_2\n1 x 3\n"])
def test_observed_statistics_of_another_project_are_refused(project, text):
    folder, _ = project
    (folder / "statobsRF.txt").write_text(text)
    with pytest.raises(ValueError, match="statobsRF"):
        read(folder)


EST = """// Priors and rules file
[PARAMETERS]
//#isInt? #name #dist. #min #max
1 ANC unif 100 10000 output
0 TDIV logunif 10 100 output bounded
0 TEXP unif 1 100 hide

[RULES]
TEXP < TDIV // younger
[COMPLEX PARAMETERS]
0 RATE = ANC/TDIV hide
"""


def text_table(rng, n=400):
    tdiv = rng.uniform(10, 100, n)
    frame = pd.DataFrame({"Sim": np.arange(n), "ANC": rng.integers(100, 10_001, n), "TDIV": tdiv})
    frame["TEXP"] = rng.uniform(1, tdiv)
    frame["pi"], frame["S"] = frame["ANC"] + rng.normal(0, 100, n), rng.poisson(tdiv)
    return frame


def test_text_tables_take_bounds_and_rules_from_an_est_file(tmp_path):
    frame = text_table(np.random.default_rng(1))
    frame.to_csv(tmp_path / "sims.txt", sep="\t", index=False)
    (tmp_path / "model.est").write_text(EST)
    (tmp_path / "data.obs").write_text("S\tpi\tmore\n40\t5000.5\t1\n")
    table = pk.popgen.read_table(
        tmp_path / "sims.txt", est=tmp_path / "model.est", observed=tmp_path / "data.obs"
    )
    assert (table.parameter_names, table.statistic_names) == (["ANC", "TDIV", "TEXP"], ["pi", "S"])
    assert table.observed.tolist() == [5000.5, 40]
    draws = pk.Adjusted().fit(table).condition(table.observed).draw(3000, 1)
    assert np.all(draws[:, 2] < draws[:, 1])
    assert np.all((draws >= [100, 10, 1]) & (draws <= [10_000, 100, 100]))


def test_parameters_and_statistics_in_two_files_stand_side_by_side(tmp_path):
    frame = text_table(np.random.default_rng(1))
    frame[["ANC", "TDIV"]].to_csv(tmp_path / "params.txt", sep=" ", index=False)
    frame[["pi", "S"]].to_csv(tmp_path / "stats.txt", sep=" ", index=False)
    table = pk.popgen.read_table(
        [tmp_path / "params.txt", tmp_path / "stats.txt"], parameters=["ANC", "TDIV"]
    )
    np.testing.assert_allclose(table.statistics, frame[["pi", "S"]])


@pytest.mark.parametrize(
    ("text", "words"),
    [("a b\n1 2\n3\n", "row 1"), ("a b\n1 x\n2 3\n", "no number"), ("a b\n", "1 line"), ("", "0 line")],
)
def test_text_tables_that_are_none_are_refused(tmp_path, text, words):
    (tmp_path / "sims.txt").write_text(text)
    with pytest.raises(ValueError, match=words):
        pk.popgen.read_table(tmp_path / "sims.txt", parameters=["a"])


def frame_of_models(n=60):
    rng = np.random.default_rng(2)
    scenario = np.repeat([1, 2, 3], n)
    frame = pd.DataFrame({"scenario": scenario, "s": rng.normal(scenario), "t": rng.normal(size=3 * n)})
    frame["only_of_1"] = np.where(scenario == 1, 0.5, np.nan)
    return frame


def test_models_of_one_frame_are_compared_as_their_tables_are():
    frame = frame_of_models()
    tables = {
        str(i): pk.ReferenceTable.from_dataframe(
            part.assign(a=np.arange(len(part)) % 7), parameters=["a"], statistics=["s", "t"]
        )
        for i, part in frame.groupby("scenario")
    }
    asked = {"model": "scenario", "statistics": ["s", "t"], "random_seed": 1}
    choice = pk.compare_models(frame, [1.0, 0.0], **asked)
    same = pk.compare_models(tables, [1.0, 0.0], random_seed=1)
    pd.testing.assert_series_equal(choice.probabilities, same.probabilities)
    shuffled = pk.compare_models(frame.astype({"scenario": float}), [1.0, 0.0], **asked)
    pd.testing.assert_series_equal(choice.probabilities, shuffled.probabilities)
    polars = pytest.importorskip("polars")
    again = pk.compare_models(polars.from_pandas(frame), {"t": 0.0, "s": 1.0}, **asked)
    pd.testing.assert_series_equal(choice.probabilities, again.probabilities)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model": "scenarios"}, "scenarios"),
        ({"model": None}, "data frame with"),
        ({"statistics": None}, "data frame with"),
        ({"statistics": ["s", "nothing"]}, "no column"),
        ({"statistics": ["s", "scenario"]}, "leave it out"),
        ({"statistics": ["s", "only_of_1"]}, "missing"),
        ({"method": "evidence"}, "needs the parameters"),
    ],
)
def test_frames_that_say_nothing_of_models_are_refused(change, words):
    asked = {"model": "scenario", "statistics": ["s", "t"], **change}
    with pytest.raises((TypeError, ValueError), match=words):
        pk.compare_models(frame_of_models(), [1.0, 0.0], **asked)
