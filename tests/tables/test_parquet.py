"""Tables go to Parquet, as R writes and reads it, and come back as they were."""

import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk

SIDES = {"parameters": ["count", "on", "rate"], "statistics": ["s[0]", "s[1]"]}
BOUNDS = {"rate": (0, 1)}


@pytest.fixture
def frame(rng):
    found = pd.DataFrame(
        {"count": rng.integers(0, 9, 50), "on": rng.random(50) < 0.5, "rate": rng.random(50)}
    )
    found["s[0]"], found["s[1]"] = found["count"] + rng.normal(size=50), rng.normal(size=50)
    return found


def same(one, other):
    np.testing.assert_array_equal(one.parameters, other.parameters)
    np.testing.assert_array_equal(one.statistics, other.statistics)
    return one.support == other.support and one.parameter_columns == other.parameter_columns


def test_a_table_as_a_frame_is_the_table_again(frame):
    table = pk.ReferenceTable.from_dataframe(frame, **SIDES, bounds=BOUNDS)
    back = table.to_dataframe()
    assert [kind.kind for kind in back.dtypes] == ["i", "i", "f", "f", "f"]
    assert same(pk.ReferenceTable.from_dataframe(back, **SIDES, bounds=BOUNDS), table)
    plain = pk.ReferenceTable.from_dataframe(frame, **SIDES, bounds=BOUNDS, discrete=[])
    assert {kind.kind for kind in plain.to_dataframe().dtypes} == {"f"}


@pytest.mark.parametrize("backend", [None, "numpy_nullable", "pyarrow"])
def test_parquet_there_and_back(backend, frame, tmp_path):
    pytest.importorskip("pyarrow", reason="pyarrow (extra `arrow`) is not installed")
    table = pk.ReferenceTable.from_dataframe(frame, **SIDES, bounds=BOUNDS)
    options = {} if backend is None else {"dtype_backend": backend}
    frame.to_parquet(tmp_path / "of_r.parquet")
    table.to_dataframe().to_parquet(tmp_path / "back.parquet")
    for name in ("of_r", "back"):
        read = pd.read_parquet(tmp_path / f"{name}.parquet", **options)
        assert same(pk.ReferenceTable.from_dataframe(read, **SIDES, bounds=BOUNDS), table)


def test_words_and_gaps_are_refused_as_in_other_frames(frame):
    words = frame.assign(on="yes").convert_dtypes()
    with pytest.raises(ValueError, match=r"'on'.*not numeric"):
        pk.ReferenceTable.from_dataframe(words, **SIDES)
    gaps = frame.assign(on=frame["on"].astype("boolean").where(frame.index > 0))
    with pytest.raises(ValueError, match="on"):
        pk.ReferenceTable.from_dataframe(gaps, **SIDES)
