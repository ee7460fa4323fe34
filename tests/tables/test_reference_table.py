import dataclasses

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables.reference_table import Failures

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
        ({"observed": [1.0, np.nan]}, "not finite in \\['t'\\]"),
        ({"observed": {"s": 1.0}}, "lacks \\['t'\\]"),
        ({"observed": ["x", "y"]}, "not numeric"),
        ({"bounds": {"a": (0, 0.5)}}, "outside the given bounds, the first of them row 2"),
        ({"bounds": {"s": (0, 1)}}, "the parameters are"),
    ],
)
def test_bad_tables_are_refused(arguments, words):
    with pytest.raises(ValueError, match=words):
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
        file.attrs["format_version"] = table_file.VERSION + 1
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
