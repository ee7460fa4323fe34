import dataclasses

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.posterior.arviz import PriorRows
from pymc_kbr.tables import file as saved
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables.origin import Failures, Origin

FRAME = pd.DataFrame({"a": [0.1, 0.4, 0.9], "s": [1, 5, 8], "t": [2.0, 3.0, 5.0], "word": ["x", "y", "z"]})


def make(frame=FRAME, parameters=("a",), statistics=("s", "t"), **kwargs):
    return pk.ReferenceTable.from_dataframe(frame, parameters=parameters, statistics=statistics, **kwargs)


def assert_same(one, two):
    for name in ("parameters", "statistics", "observed"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.failures.rows, two.failures.rows)
    np.testing.assert_array_equal(one.failures.parameters, two.failures.parameters)
    assert one.failures.messages == two.failures.messages
    for name in ("parameter_columns", "statistic_columns", "support", "seed", "provenance", "timings"):
        assert getattr(one, name) == getattr(two, name), name


def test_a_data_frame_goes_in_and_comes_out():
    table = make(observed={"t": 4.0, "s": 3})
    pd.testing.assert_frame_equal(
        table.to_dataframe(), FRAME[["a", "s", "t"]].astype(float), check_column_type=False
    )
    assert table.observed.tolist() == [3.0, 4.0]


def test_an_observation_may_be_a_row_of_another_frame():
    assert make(observed=FRAME.iloc[1]).observed.tolist() == [5.0, 3.0]


def test_a_table_cannot_be_changed():
    table = make()
    with pytest.raises(ValueError, match="read-only"):
        table.statistics[0, 0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.seed = 3


def test_a_table_does_not_change_with_its_data_frame():
    frame = FRAME.copy()
    table = make(frame)
    frame.loc[0, "a"] = 99.0
    assert table.parameters[0, 0] == 0.1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"parameters": ["b"]}, "no column"),
        ({"parameters": []}, "no parameters are named"),
        ({"statistics": []}, "no statistics are named"),
        ({"statistics": ["s", "s"]}, "more than once"),
        ({"statistics": ["s", "a"]}, "more than once"),
        ({"statistics": ["s", "word"]}, "not numeric"),
        ({"frame": pd.concat([FRAME, FRAME[["s"]]], axis=1)}, "more than one column called"),
        ({"frame": FRAME.iloc[:1]}, "at least two rows"),
        ({"frame": FRAME.assign(t=[1.0, np.nan, 2.0])}, "first of them row 1 in 't'"),
        ({"frame": FRAME.assign(a=[1.0, np.inf, 2.0])}, "first of them row 1 in 'a'"),
        ({"observed": [1.0]}, "2 statistics"),
        ({"observed": [1.0, np.inf]}, "infinite in \\['t'\\]; give NaN"),
        ({"observed": [np.nan, np.nan]}, "all 2 statistics of the observation are missing"),
        ({"observed": {"s": 1.0}}, "lacks \\['t'\\]"),
        ({"observed": ["x", "y"]}, "texts in the observation"),
        ({"bounds": {"a": (0, 0.5)}}, "outside the given bounds, the first of them row 2"),
        ({"bounds": {"s": (0, 1)}}, "the parameters are"),
        ({"bounds": {"a": (0, 1, 2)}}, r"bounds of 'a' are \(0, 1, 2\); give a pair"),
        ({"bounds": {"a": "01"}}, "give a pair"),
        ({"bounds": {"a": (np.nan, 1)}}, "real numbers, or None"),
        ({"bounds": {"a": (-1e300, 1e300)}}, r"bounds of 'a' are .* leaves no digit"),
        ({"bounds": {"a": (-1e300, None)}}, "leaves no digit"),
        ({"frame": FRAME.assign(a=0.3)}, r"the parameter 'a' is \[0.3\] in all rows"),
        ({"frame": FRAME.assign(a=FRAME["a"] * 1e307)}, r"beyond 1e\+300 in the parameters, columns \['a'\]"),
        ({"frame": FRAME.assign(t=FRAME["t"] * -1e307)}, r"in the statistics, columns \['t'\]"),
        ({"frame": FRAME.assign(t=FRAME["t"] + 1j)}, "not numeric"),
        ({"observed": [1.0, 1e305]}, r"beyond 1e\+300 in the observation, columns \['t'\]"),
        ({"observed": [1.0, 2j]}, "imaginary part"),
        ({"parameters": "a"}, r"a list of names: \['a'\]"),
        ({"statistics": "st"}, r"a list of names: \['st'\]"),
        (
            {"frame": FRAME.assign(a=[2**53 + 1, 2, 3])},
            r"beyond 2\*\*53 in the parameters, 'a', such as 90071992547",
        ),
    ],
)
def test_bad_tables_are_refused(arguments, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make(**arguments)


def test_save_and_load_return_the_same_bits(tmp_path, rng):
    table = dataclasses.replace(
        make(observed=[1.0, 2.0], bounds={"a": (0, 1)}),
        failures=Failures(np.array([4]), np.array([[0.3]]), ("ValueError: no",)),
        seed=2**100 + 1,
        provenance={"why": "é"},
        timings={"simulate": 1.5},
        observed_data={"y": rng.normal(size=(2, 3))},
    )
    loaded = pk.ReferenceTable.load(table.save(tmp_path / "table.nc"))
    assert_same(table, loaded)
    np.testing.assert_array_equal(table.observed_data["y"], loaded.observed_data["y"])


def test_a_saved_table_is_open_to_xarray_alone(tmp_path):
    import xarray as xr

    make().save(tmp_path / "table.nc")
    with xr.open_dataset(tmp_path / "table.nc", engine="h5netcdf") as dataset:
        assert dataset["statistics"].sel(statistic="t").values.tolist() == [2.0, 3.0, 5.0]


def test_a_file_is_not_overwritten_unasked(tmp_path):
    path = make().save(tmp_path / "table.nc")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        make(FRAME.assign(t=0.0)).save(path)
    assert path.read_bytes() == before
    make(FRAME.assign(t=[0.0, 1.0, 2.0])).save(path, overwrite=True)
    assert pk.ReferenceTable.load(path).statistics[:, 1].tolist() == [0.0, 1.0, 2.0]
    assert [p.name for p in tmp_path.iterdir()] == ["table.nc"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        make().save(tmp_path / "nowhere" / "table.nc")


def test_damaged_foreign_and_future_files_are_refused(tmp_path):
    path = make().save(tmp_path / "table.nc")
    whole = path.read_bytes()
    with pytest.raises(FileNotFoundError, match="no file"):
        pk.ReferenceTable.load(tmp_path / "other.nc")
    for name, content in {"text": b"hello", "cut": whole[: len(whole) // 2], "empty": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="damaged"):
            pk.ReferenceTable.load(tmp_path / name)
    import h5py
    import xarray as xr

    xr.Dataset({"x": ("i", [1, 2])}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="no reference table"):
        pk.ReferenceTable.load(tmp_path / "foreign.nc")
    with h5py.File(path, "a") as file:
        file["statistics"][0, 0] = 7.0
    with pytest.raises(ValueError, match="checksum"):
        pk.ReferenceTable.load(path)
    with h5py.File(path, "a") as file:
        file.attrs["format_version"] = table_file.FILE_VERSION + 1
    with pytest.raises(ValueError, match="format version"):
        pk.ReferenceTable.load(path)


def test_append_joins_rows_and_failures():
    first = dataclasses.replace(make(observed=[1.0, 2.0]), seed=1, timings={"simulate": 1.0})
    second = dataclasses.replace(
        make(observed=[1.0, 2.0]),
        seed=2,
        timings={"simulate": 2.0, "check": 0.5},
        failures=Failures(np.array([9]), np.array([[0.3]]), ("no",)),
    )
    both = first.append(second)
    assert len(both) == 6
    assert both.failures.messages == ("no",)
    assert both.timings == {"simulate": 3.0, "check": 0.5}
    assert both.provenance["appended_seeds"] == "1, 2"
    assert len(first) == 3


def of_other_rows(table):
    return dataclasses.replace(table, statistics=table.statistics + 0.25)


@pytest.mark.parametrize("part", [slice(None), slice(1, 3)])
def test_rows_are_not_appended_a_second_time(part):
    table = make()
    again = make(FRAME.iloc[part])
    with pytest.raises(ValueError, match=f"{len(again)} row.* of the table to append are in this one"):
        table.append(again)
    with pytest.raises(ValueError, match=r"3 row\(s\) of the table to append"):
        table.append(table)
    assert len(table.append(of_other_rows(table))) == 6


def test_whole_numbers_may_agree_by_chance():
    counts = pd.DataFrame({"a": [1, 2, 3, 1], "s": [0, 1, 0, 1], "t": [1, 1, 0, 0]})
    one, other = make(counts), make(counts.iloc[::-1])
    assert len(one.append(other)) == 8
    with pytest.raises(ValueError, match=r"4 row\(s\) of the table to append"):
        one.append(make(counts))


def with_noise(*deviations):
    return dataclasses.replace(make(), origin=Origin(noise=deviations))


@pytest.mark.parametrize("between", [(False, False), (True, False), (False, True)])
def test_rows_between_bounds_stay_so_whichever_table_has_them(between):
    one, other = (dataclasses.replace(make(), origin=Origin(between_bounds=each)) for each in between)
    assert one.append(of_other_rows(other)).origin.between_bounds is any(between)


def test_append_keeps_the_noise_of_the_observation_whichever_table_knows_of_it():
    assert with_noise(0.1).append(of_other_rows(make())).noise.tolist() == [0.1, 0.1]
    assert make().append(of_other_rows(with_noise(0.1))).noise.tolist() == [0.1, 0.1]
    assert with_noise(0.1).append(of_other_rows(with_noise(0.1))).origin.noise == (0.1,)
    with pytest.raises(ValueError, match=r"\(0.1,\) and \(0.2,\)"):
        with_noise(0.1).append(with_noise(0.2))


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lambda: make(statistics=["s"]), "has statistics \\['s'\\]; this one has"),
        (lambda: make(parameters=["t"], statistics=["s", "a"]), "has parameters"),
        (lambda: make(bounds={"a": (0, 1)}), "another prior support"),
        (lambda: make(observed=[1.0, 2.0]), "another observation"),
        (lambda: dataclasses.replace(make(), seed=5), "repeat each other"),
    ],
)
def test_append_refuses_other_tables(other, words):
    table = dataclasses.replace(make(), seed=5)
    with pytest.raises(ValueError, match=words):
        table.append(other())


def test_another_observation_leaves_the_simulations_alone():
    table = make(observed=[1.0, 2.0])
    other = table.with_observed({"s": 3.0, "t": 4.0})
    assert other.observed.tolist() == [3.0, 4.0]
    assert other.parameters is table.parameters


# --- what a table is made of ---


def pieces(**changes):
    table = make(observed=[1.0, 2.0])
    names = [field.name for field in dataclasses.fields(table)]
    return pk.ReferenceTable(**{**{name: getattr(table, name) for name in names}, **changes})


PARAMETERS, STATISTICS = FRAME[["a"]], FRAME[["s", "t"]].astype(float)


@pytest.mark.parametrize("noise", [(), (0.5,), (0.1, 0.2)])
def test_the_noise_of_some_statistics_is_theirs(noise):
    table = dataclasses.replace(make(), origin=Origin(noise=noise))
    turned = table.with_statistics(["t", "s"])
    np.testing.assert_array_equal(turned.noise, table.noise[::-1])
    np.testing.assert_array_equal(turned.with_statistics(["t"]).noise, table.noise[1:])


def test_rows_that_represent_another_prior_have_weight_in_both_ratios():
    frame = pd.DataFrame({"a": np.arange(10.0), "s": np.arange(10.0)})
    own, ratio = np.repeat([0.0, 1.0], 5), np.array([1.0] * 5 + [3.0, 0.0, 1.0, 0.0, 1.0])
    table = dataclasses.replace(make(frame, statistics=("s",)), prior_ratio=own)
    # At ten even steps of 3, 1 and 1 fifths.
    np.testing.assert_array_equal(PriorRows.of(table, ratio).rows, [5] * 6 + [7] * 2 + [9] * 2)
    np.testing.assert_array_equal(PriorRows.of(table).rows, np.repeat(np.arange(5, 10), 2))


def test_frames_and_lists_make_the_table_that_arrays_make():
    one = pieces()
    for changes in (
        {"parameters": PARAMETERS, "statistics": STATISTICS},
        {"parameters": PARAMETERS.to_numpy().tolist(), "observed": [1, 2]},
        {"parameters": PARAMETERS.set_axis([2, 0, 1]), "statistics": STATISTICS.set_axis([2, 0, 1])},
        {"statistics": np.ma.array(STATISTICS.to_numpy(), mask=False)},
    ):
        made = pieces(**changes)
        assert_same(one, made)
        assert type(made.parameters) is type(made.statistics) is type(made.observed) is np.ndarray
        with pytest.raises(ValueError, match="read-only"):
            made.parameters[0, 0] = 1.0


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"parameters": PARAMETERS.iloc[::-1], "statistics": STATISTICS}, ValueError, "one order"),
        ({"parameters": PARAMETERS, "statistics": STATISTICS.set_axis(list("xyz"))}, ValueError, "one order"),
        ({"statistics": np.ma.masked_less(STATISTICS.to_numpy(), 2)}, ValueError, "1 masked"),
        ({"parameters": PARAMETERS.to_numpy() + 1j}, TypeError, "imaginary part"),
        ({"parameters": PARAMETERS.to_numpy().astype(object)}, TypeError, "astype"),
        ({"observed": np.array([1.0, 2j])}, TypeError, "imaginary part"),
        ({"statistics": STATISTICS.iloc[:2].to_numpy()}, ValueError, "each simulation is one row of both"),
    ],
)
def test_what_would_be_mixed_up_or_lost_is_refused(changes, error, words):
    with pytest.raises(error, match=words):
        pieces(**changes)


def test_a_constant_entry_of_an_array_is_no_constant_parameter(rng):
    """The diagonal of a correlation matrix, say; and whole numbers that are the same by chance."""
    from pymc_kbr.tables.columns import Columns, Variable

    for variable, values in (
        (Variable("matrix", (2,)), np.column_stack([np.ones(3), rng.normal(size=3)])),
        (Variable("count", (), discrete=True), np.ones((3, 1))),
    ):
        made = pieces(
            parameters=values,
            parameter_columns=Columns((variable,)),
            support=pk.Support.unbounded(variable.size),
            failures=Failures.none(variable.size),
        )
        assert np.array_equal(made.parameters, values)


# --- what a table knows of its history ---


@pytest.mark.parametrize(
    "origin",
    [
        Origin(),
        Origin(simulations=100, noise=(0.1, 0.25), between_bounds=True, seeds=(2**100 + 1, None, 3)),
        Origin(noise=(0.5,)),
        Origin(from_proposal=True, known=("y", "lift"), prior_mass=None, rounds="2 rounds"),
        Origin(left_out=7, prior_edges=((-2.0, 0.5), (2.0, 1e9)), cut_edges=((None, 0.5), (1.0, None))),
    ],
)
def test_history_survives_a_file(origin, tmp_path):
    made = pieces(origin=origin)
    loaded = pk.ReferenceTable.load(made.save(tmp_path / "table.nc"))
    assert loaded.origin == origin
    assert loaded.simulations == made.simulations == (origin.simulations or 3)
    assert loaded.seeds == (origin.seeds or (None,))
    assert loaded.noise.shape == (2,)
    assert loaded.noise.tolist() == list(np.broadcast_to(origin.noise or 0.0, 2))


@pytest.mark.parametrize(
    ("provenance", "origin"),
    [
        ({"simulated_by": "a PyMC model"}, Origin()),
        (
            {
                "simulations": "700",
                "noise": "0.1 0.2",
                "prior_truncated": "x",
                "appended_seeds": "1, None, 3",
            },
            Origin(700, (0.1, 0.2), True, (1, None, 3), prior_mass=None),
        ),
        ({"noise": "0.001"}, Origin(noise=(0.001,))),
        (
            {"refined": "40 rows of 50", "known_densities": "y, lift", "rounds": "2 rounds"},
            Origin(from_proposal=True, known=("y", "lift"), prior_mass=None, rounds="2 rounds"),
        ),
    ],
)
def test_files_of_before_say_it_in_words(provenance, origin, tmp_path):
    made = pieces(provenance=provenance)
    arrays, documents = saved.arrays_of(made), saved.documents_of(made)
    del documents["origin"]  # as the file was written then
    table_file.write(tmp_path / "table.nc", arrays, documents)
    assert pk.ReferenceTable.load(tmp_path / "table.nc").origin == origin
    assert {**provenance, **origin.words} == provenance


@pytest.mark.parametrize(
    ("known", "provenance", "from_proposal"),
    [
        (["y"], {"known_densities": "y"}, False),
        (["y"], {"known_densities": "y", "refined": "40 rows of 50"}, True),
        ([], {"refined": "40 rows of 50", "rounds": "2 rounds"}, True),
        ([], {}, True),  # one round's store
    ],
)
def test_one_mark_of_before_was_for_proposals_and_for_known_densities(known, provenance, from_proposal):
    fields = {"simulations": None, "noise": [], "between_bounds": False, "seeds": [], "known": known}
    documents = {"origin": {**fields, "proposed": True}, "provenance": provenance}
    found = Origin.from_documents(documents)
    assert found == Origin(
        from_proposal=from_proposal,
        known=tuple(known),
        prior_mass=None if "refined" in provenance else 1.0,
        rounds=provenance.get("rounds", ""),
    )
    assert found.weighted
    assert Origin.from_documents({**documents, "proposal": {}}).from_proposal
    assert not Origin.from_documents({**documents, "origin": fields}).from_proposal
    # What is written today says it itself, whatever the words are.
    kept = {"origin": found.to_json(), "provenance": {"refined": "", "rounds": "other"}}
    assert Origin.from_documents(kept) == found


@pytest.mark.parametrize("from_proposal", [False, True])
def test_a_known_density_is_no_part_of_a_prior_but_a_proposal_is_taken_out(from_proposal):
    """Whatever the provenance says in words."""
    made = pieces(
        prior_ratio=np.array([0.0, 1.0, 0.0]), origin=Origin(from_proposal=from_proposal, known=("y",))
    )
    found = PriorRows.of(dataclasses.replace(made, provenance={"refined": "40 rows of 50"}))
    assert found.rows.tolist() == ([1, 1, 1] if from_proposal else [0, 1, 2])
    assert ("times the known likelihood of y" in found.words) == from_proposal


COUNTS = pd.DataFrame(
    {
        "a": [0.1, 0.4, 0.9, 0.2],
        "count": [3, 0, 7, 3],
        "flag": [True, False, True, True],
        "zero_one": [0.0, 1.0, 1.0, 0.0],
        "whole": [2.0, 1.0, 5.0, 2.0],
        "s": [1.0, 2.0, 3.0, 4.0],
    }
)
ALL = ["a", "count", "flag", "zero_one", "whole"]


def discrete_of(**kwargs):
    table = make(COUNTS, parameters=ALL, statistics=["s"], **kwargs)
    return table, [v.name for v in table.parameter_columns.variables if v.discrete]


@pytest.mark.parametrize(
    ("discrete", "found"), [(None, ["count", "flag", "zero_one"]), (["whole"], ["whole"]), ([], [])]
)
def test_whole_numbers_are_noticed_or_named(discrete, found):
    table, names = discrete_of(discrete=discrete)
    assert names == found
    smooth = {c for block in table.support.blocks if block.smooth for c in block.columns}
    assert smooth == {i for i, name in enumerate(ALL) if name not in found}


def test_draws_of_discrete_columns_are_simulated_values():
    table, _ = discrete_of(bounds={"a": (0, 1), "count": (0, 10)})
    estimator = pk.Rejection(4).fit(table.parameters, table.statistics, table.support)
    draws = estimator.condition([2.0]).draw(100, 0)
    for column in (1, 2, 3):
        assert set(draws[:, column]) <= set(table.parameters[:, column])
    assert not np.isin(draws[:, [0, 4]], table.parameters[:, [0, 4]]).all()
    assert draws[:, 0].min() > 0
    assert draws[:, 0].max() < 1


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"discrete": ["b"]}, ValueError, r"discrete names \['b'\]; the parameters are"),
        ({"discrete": ["a"]}, ValueError, r"discrete names 'a', which is 0.1 in row 0"),
        ({"discrete": "count"}, TypeError, "give a list of names"),
        ({"bounds": {"count": (0, 5)}}, ValueError, r"1 row\(s\) of parameters lie outside .* row 2"),
    ],
)
def test_columns_that_are_not_discrete_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        discrete_of(**arguments)


def test_a_notebook_shows_ranges_of_all_columns():
    frame = pd.DataFrame({"a<b": [0.1, 0.4, 0.9], "count": [1, 5, 8]})
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a<b"], statistics=["count"])
    html = table._repr_html_()
    assert "a&lt;b" in html
    assert "a<b" not in html
    assert "8.0" in html


def test_a_table_is_saved_where_dasks_default_scheduler_is_a_lost_cluster(tmp_path):
    dask = pytest.importorskip("dask", reason="dask (extra `dask`) is not installed")
    with dask.config.set(scheduler="dask.distributed"):  # as a client that was lost leaves it
        path = make().save(tmp_path / "table.nc")
    assert np.array_equal(pk.ReferenceTable.load(path).parameters, make().parameters)
