"""Tables and stores that were damaged or crafted: refused with their names, or equal, and nothing is run.

``PYMC_KBR_HOSTILE_TABLES=3000 python -m pytest tests/tables/test_hostile_tables.py`` tries 3,000 of each.
"""

import json
import os
import shutil
import tracemalloc
from pathlib import Path

import h5py
import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables import layout
from tests.hostile_tables import made, made_store, main

NUMBER = int(os.environ.get("PYMC_KBR_HOSTILE_TABLES", "60"))


@pytest.fixture
def saved(tmp_path):
    return made().save(tmp_path / "table.nc")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("store") / "table.zarr"
    made_store(path)
    return path


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_damaged_and_crafted_tables_are_refused_or_equal_and_run_nothing(kind, capsys):
    status = main(kind, NUMBER, seed=2)  # which reads them in another process
    said = capsys.readouterr().out
    assert status == 0, said[-3_000:]
    assert sum(json.loads(said)["counts"].values()) == NUMBER


@pytest.mark.parametrize("name", ["parameters", "statistics", "observed", "more"])
def test_a_dataset_longer_than_its_bytes_takes_no_memory(name, saved):
    with h5py.File(saved, "a") as file:
        if name in file:
            del file[name]
        file.create_dataset(name, shape=(10**10,), dtype="f8", chunks=(1000,), compression=4)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"{saved} cannot be read .*its dataset '{name}' needs"):
            pk.ReferenceTable.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "kind", [h5py.ref_dtype, h5py.vlen_dtype(float), np.dtype([("a", float)]), np.dtype("V8")]
)
def test_datasets_of_other_types_are_refused(kind, saved):
    with h5py.File(saved, "a") as file:
        file.create_dataset("more", shape=(3,), dtype=kind)
    with pytest.raises(ValueError, match=f"{saved} cannot be read .*'more' is of type"):
        pk.ReferenceTable.load(saved)


def test_a_heap_of_texts_that_does_not_add_up_is_refused(saved):
    """HDF5 would go over it without an end."""
    data = bytearray(saved.read_bytes())
    at = data.find(b"GCOL")
    data[at + 16 : at + 48] = bytes(32)
    saved.write_bytes(data)
    with pytest.raises(ValueError, match=f"{saved} cannot be read .*heap of texts"):
        pk.ReferenceTable.load(saved)


def test_dimensions_that_were_damaged_are_not_looked_at(saved):
    """xarray would read them, of bytes that HDF5 takes for a list without an end."""
    with h5py.File(saved, "a") as file:
        for dataset in file.values():
            dataset.attrs.pop("DIMENSION_LIST", None)
            dataset.attrs["REFERENCE_LIST"] = 3
    np.testing.assert_array_equal(pk.ReferenceTable.load(saved).parameters, made().parameters)


@pytest.mark.parametrize("name", ["format", "format_version", "checksum", "support", "more"])
def test_attributes_of_any_kind_are_refused(name, saved):
    for value in (np.arange(3), "x", 1.5, h5py.Empty("f8"), np.array([b"a"])):
        with h5py.File(saved, "a") as file:
            file.attrs[name] = value
        with pytest.raises(ValueError, match=f"{saved} "):
            pk.ReferenceTable.load(saved)


@pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000, "null", "{}", '[{"name": 3}]', "x"])
@pytest.mark.parametrize("name", ["parameter_columns", "origin", "seed"])
def test_documents_that_no_table_has_are_refused(name, text, saved):
    with h5py.File(saved, "a") as file:
        file.attrs[name] = text
    with h5py.File(saved, "a") as file:  # with the checksum that is theirs
        arrays = {one: table_file._array(file[one]) for one in table_file.variables_in(file)}
        others = {"format", "format_version", "checksum", *table_file.OF_NETCDF}
        texts = {one: file.attrs[one] for one in file.attrs if one not in others}
        file.attrs["checksum"] = table_file._checksum(arrays, texts)
    if (name, text) != ("seed", "null"):  # as a table without one has it
        with pytest.raises(ValueError, match=f"{saved} holds no reference table"):
            pk.ReferenceTable.load(saved)


def copied(stored, tmp_path):
    return Path(shutil.copytree(stored, tmp_path / "it.zarr"))


@pytest.mark.parametrize("name", ["parameter_columns", "statistic_columns", "support", "origin", "seed"])
@pytest.mark.parametrize("value", [3, {}])
def test_documents_that_no_store_has_are_refused(name, value, stored, tmp_path):
    path = copied(stored, tmp_path)
    text = path / "zarr.json"
    document = json.loads(text.read_text())
    texts = {k: v for k, v in document["attributes"].items() if k not in layout.MARKS}
    texts[name] = json.dumps(value)
    document["attributes"] |= texts | {"checksum": layout.checksum_of(texts)}
    text.write_text(json.dumps(document))
    if (name, value) != ("seed", 3):
        with pytest.raises(ValueError, match=f"{path} "):
            pk.StoredTable.open(path).load()


@pytest.mark.parametrize("codec", ["pickle", {"name": "json2"}, None])
def test_other_codecs_of_a_store_are_refused(codec, stored, tmp_path):
    path = copied(stored, tmp_path)
    text = path / "parameters" / "zarr.json"
    text.write_text(json.dumps(json.loads(text.read_text()) | {"codecs": [codec]}))
    with pytest.raises(ValueError, match=f"{path} cannot be read"):
        pk.StoredTable.open(path)


def test_an_array_of_a_store_longer_than_memory_is_refused(stored, tmp_path):
    path = copied(stored, tmp_path)
    text = path / "observed" / "zarr.json"
    text.write_text(json.dumps(json.loads(text.read_text()) | {"shape": [10**14]}))
    with pytest.raises(ValueError, match=f"{path} cannot be read .*'observed' needs .* more than there is"):
        pk.StoredTable.open(path)


def test_a_table_is_not_written_onto_a_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for overwrite, kind in ((True, ValueError), (False, FileExistsError)):
        with pytest.raises(kind, match=f"{folder} is a folder; give the name of a file"):
            made().save(folder, overwrite=overwrite)
    assert list(tmp_path.iterdir()) == [folder]
