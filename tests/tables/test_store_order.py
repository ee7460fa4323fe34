"""In which order a store is written: what is on the disk at any moment is finished, or known to be not."""

import concurrent.futures
import json

import numpy as np
import pytest
import xarray as xr

import pymc_kbr as pk
from pymc_kbr.simulation.workers import executors
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables import layout
from pymc_kbr.tables.file import PRIOR_RATIO
from pymc_kbr.tables.layout import ROW_ARRAYS
from pymc_kbr.tables.origin import Origin
from pymc_kbr.tables.store import TableStore, locked
from tests import models
from tests.models import model, same, table

ROWS, CHUNK = 40, 10


@pytest.fixture
def store(tmp_path):
    """Four chunks, of which none is finished."""
    return TableStore.create(
        tmp_path / "table.zarr",
        rows=ROWS,
        chunk_rows=CHUNK,
        parameters=["a"],
        statistics=["s", "t"],
        arrays={},
        documents={
            "parameter_columns": [{"name": "a", "shape": [], "discrete": False, "labels": None}],
            "statistic_columns": [
                {"name": name, "shape": [], "discrete": False, "labels": None} for name in "st"
            ],
            "support": pk.Support.unbounded(1).to_json(),
            "seed": "1",
            "provenance": {},
            "timings": {},
        },
    )


def write(store, start, failures=None):
    rows = np.arange(start, start + CHUNK, dtype=float)
    statistics = np.column_stack([rows, -rows])
    statistics[[row - start for row in failures or {}]] = np.nan
    store.write(start, rows[:, None], statistics, failures or {})


class PowerCut(BaseException):
    """Ends the writer between two writes."""


class EndsAt:
    """An array of a store whose process ends as it is written or resized."""

    def __init__(self, array):
        self.array = array

    def __getattr__(self, name):
        return getattr(self.array, name)

    def __getitem__(self, part):
        return self.array[part]

    def __setitem__(self, part, values):
        raise PowerCut

    def resize(self, shape):
        raise PowerCut


@pytest.mark.parametrize("name", ROW_ARRAYS)
def test_a_chunk_counts_only_when_all_of_it_is_there(store, name):
    write(store, 0)
    store._arrays[name] = EndsAt(store._arrays[name])
    with pytest.raises(PowerCut):
        write(store, CHUNK, {CHUNK + 1: "no"})
    again = TableStore.open(store.path)
    assert again.state(0, CHUNK) == "finished"
    assert again.state(CHUNK, 2 * CHUNK) == "unfinished"
    assert len(pk.StoredTable.open(store.path)) == CHUNK


@pytest.mark.parametrize("name", ROW_ARRAYS)
def test_a_store_is_longer_only_when_all_of_it_is(store, name):
    write(store, 0)
    store._arrays[name] = EndsAt(store._arrays[name])
    with pytest.raises(PowerCut):
        store.extend(3 * ROWS)
    again = TableStore.open(store.path)
    assert again.rows == ROWS
    assert again.state(0, CHUNK) == "finished"
    again.extend(3 * ROWS)
    assert TableStore.open(store.path).rows == 3 * ROWS
    assert again.parameters(0, CHUNK)[:, 0].tolist() == list(range(CHUNK))


@pytest.mark.parametrize("rows", [2, 15, 100, None])
def test_rows_that_are_loaded_are_finished(store, rows):
    write(store, CHUNK)
    write(store, 3 * CHUNK, {32: "no", 39: "no"})
    stored = pk.StoredTable.open(store.path)
    assert stored.unfinished == 2 * CHUNK
    loaded = stored.load(rows)
    assert len(loaded) == min(rows or ROWS, 18)
    finished = {*range(10, 20), *range(30, 40)} - {32, 39}
    assert set(loaded.parameters[:, 0]) <= finished
    assert np.array_equal(loaded.statistics, loaded.parameters * [1, -1])
    # Of the failures as large a share as of the rows.
    assert len(loaded.failures) == round(2 * len(loaded) / 18)
    assert set(loaded.failures.rows.tolist()) <= {32, 39}


def test_a_chunk_whose_rows_failed_for_no_known_reason_is_damaged(store):
    write(store, 0, {3: "no"})
    assert TableStore.open(store.path).state(0, CHUNK) == "failed"
    (store.path / "message" / "c" / "0").unlink()
    assert TableStore.open(store.path).state(0, CHUNK) == "damaged"


def test_of_the_first_rows_of_a_store_no_later_one_is_looked_at(store):
    write(store, 0, {3: "no"})
    write(store, 2 * CHUNK, {25: "no"})
    first = pk.StoredTable(store, 2 * CHUNK, None)
    assert len(first) == CHUNK - 1
    assert first.unfinished == CHUNK
    assert first.failures.rows.tolist() == [3]


@pytest.mark.parametrize("failures", [{}, {2: "no", 17: "no"}])
def test_each_row_has_its_own_ratio_whichever_are_left_out(store, failures):
    for start in range(0, ROWS, CHUNK):
        write(store, start, {row: text for row, text in failures.items() if start <= row < start + CHUNK})
    store.note("origin", Origin(from_proposal=True).to_json())
    store.keep(PRIOR_RATIO, ("row",), np.arange(ROWS) + 1.0)
    stored = pk.StoredTable(store, 2 * CHUNK, None)
    assert np.array_equal(stored.prior_ratio, stored.parameters[0 : len(stored)][:, 0] + 1)
    for rows in (None, 7):
        loaded = stored.load(rows)
        assert np.array_equal(loaded.prior_ratio, loaded.parameters[:, 0] + 1)


def test_statistics_that_are_named_again_are_those_of_the_first_choice(store):
    for start in range(0, ROWS, CHUNK):
        write(store, start)
    whole = pk.StoredTable(store, ROWS, np.array([1.0, 2.0]))
    turned = whole.with_statistics(["t", "s"])
    for held, names, observed in ((turned, ["t", "s"], [2, 1]), (turned.with_statistics(["s"]), ["s"], [1])):
        assert held.statistic_names == names
        assert held.observed.tolist() == observed
        for read in (held.statistics[0:ROWS], held.load().statistics):
            assert np.array_equal(
                read, np.arange(ROWS)[:, None] * [{"s": 1, "t": -1}[name] for name in names]
            )


@pytest.mark.parametrize(("fn", "within"), [(models.normal, None), (models.normal_by_hand, (0.0, 1.0))])
def test_a_store_of_before_that_says_it_in_words_is_gone_on_with(fn, within, tmp_path):
    path, made = tmp_path / "table.zarr", model(fn)
    bounds = None if within is None else {"mean": within, "scale": within}
    table(20, made, store=path, within=bounds)
    held = TableStore.open(path)
    texts = {name: json.dumps(held.documents[name], sort_keys=True) for name in held.documents}
    del texts["batched"], texts["origin"]
    marks = {"format": layout.STORE_FORMAT, "format_version": layout.STORE_VERSION}
    held._group.attrs.put({**marks, **texts, "checksum": layout.checksum_of(texts)})
    longer = table(30, made, store=path, within=bounds)
    same(longer, table(30, made, within=bounds))
    assert longer.origin.between_bounds == (within is not None)
    with pytest.raises(ValueError, match=f"was simulated {longer.provenance['simulated']}"):
        table(30, made, store=path, within=bounds, batched=fn is not models.normal)


# --- partial files ---


def test_what_a_killed_writer_left_is_removed_by_the_next_one(store):
    path = store.path
    part = f".{'0a' * 16}.partial"
    write(store, 0)
    left = [path / f"zarr{part}", path / "status" / f"zarr{part}", path / "status" / "c" / f"0{part}"]
    left += [path / "statistics" / "c" / "0" / f"0{part}", path.parent / f".{path.name}.pymc_kbr.partial"]
    others = [path / "film.partial", path / "status" / "c.0.partial", path / f"notes{part}"]
    others += [path.parent / f".{path.name}.abc.partial", path.parent / ".other.zarr.pymc_kbr.partial"]
    for each in [*left[:-1], *others[:-2], path.parent / f"0{part}"]:
        each.write_bytes(b"x")
    for each in [left[-1], *others[-2:]]:
        each.mkdir()
        (each / "file").write_bytes(b"x")
    with locked(path):
        assert not any(each.exists() for each in left)
    assert all(each.exists() for each in others)
    assert (path.parent / f"0{part}").exists()
    assert not [each for each in path.parent.iterdir() if each.name.endswith(".lock")]


def test_a_store_or_a_file_that_cannot_be_made_leaves_nothing(store, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    folder = tmp_path / "full"
    folder.mkdir()
    monkeypatch.setattr(layout, "consolidate", full)
    with pytest.raises(OSError, match="free space"):
        table(20, model(), store=folder / "table.zarr")
    assert list(folder.iterdir()) == []
    monkeypatch.setattr(xr.Dataset, "to_netcdf", full)
    with pytest.raises(OSError, match="No space"):
        table_file.write(folder / "table.nc", {"a": (("i",), np.zeros(3))}, {})
    assert list(folder.iterdir()) == []


# --- lost workers of a cluster ---


class KilledWorker(Exception):
    """Of the name of Dask's error for a task that has ended several workers."""


class Loses(concurrent.futures.ThreadPoolExecutor):
    """Loses the tasks of some numbers."""

    def __init__(self, lost):
        super().__init__(1)
        self.lost, self.count = lost, -1  # the first task only tries whether there is an executor

    def submit(self, fn, /, *arguments, **keywords):
        self.count += 1
        if self.count - 1 not in self.lost:
            return super().submit(fn, *arguments, **keywords)
        future = concurrent.futures.Future()
        future.set_exception(KilledWorker("chunk"))
        return future


def test_chunks_that_a_cluster_has_lost_are_simulated_here(set_default):
    set_default(executors.rows_a_chunk, most_rows=5)
    made = model(models.normal_by_hand)
    alone = table(20, made)
    with Loses({1, 3}) as executor:
        with pytest.warns(UserWarning, match="died while they ran rows"):
            there = table(20, made, executor=executor)
        assert executor.count >= 4
    same(alone, there)


# --- reading never runs code ---


def planted(path, name, **changes):
    document = json.loads((path / name / "zarr.json").read_text())
    (path / name / "zarr.json").write_text(json.dumps({**document, **changes}))


BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


@pytest.mark.parametrize(
    ("name", "codecs"),
    [
        ("message", [BYTES, {"name": "numcodecs.pickle", "configuration": {}}]),
        ("statistics", ["numcodecs.pickle"]),
        ("parameter", [{"name": "numcodecs.json2"}, BYTES]),
        ("message", [{"name": "sharding_indexed", "configuration": {"codecs": [{"name": "pickle"}]}}]),
    ],
)
def test_codecs_that_may_run_code_are_refused_before_anything_is_decoded(store, name, codecs, monkeypatch):
    import zarr

    def never(*_, **__):
        raise AssertionError("opened")

    planted(store.path, name, codecs=codecs)
    monkeypatch.setattr(zarr, "open_group", never)
    with pytest.raises(ValueError, match=f"array '{name}' asks for the codec .*which may run code"):
        pk.StoredTable.open(store.path)


def test_a_pickled_object_in_a_store_is_not_loaded(tmp_path):
    """A store of format 2 with a pickle filter, as an attacker would make it, with all marks of ours."""
    import numcodecs
    import zarr

    ran = tmp_path / "ran"

    class Runs:
        def __reduce__(self):
            return (ran.touch, ())

    group = zarr.open_group(tmp_path / "bad.zarr", mode="w", zarr_format=2)
    group.attrs.update({"format": layout.STORE_FORMAT, "format_version": layout.STORE_VERSION})
    group.attrs["checksum"] = layout.checksum_of({})
    for name in ROW_ARRAYS:
        folder = tmp_path / "bad.zarr" / name
        folder.mkdir()
        values = np.array([Runs()], dtype=object)
        (folder / "0").write_bytes(numcodecs.Pickle().encode(values))
        (folder / ".zarray").write_text(
            '{"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": "|O", "compressor": null, '
            '"fill_value": null, "order": "C", "filters": [{"id": "pickle", "protocol": 5}]}'
        )
    with pytest.raises(ValueError, match="Zarr format 2"):
        pk.StoredTable.open(tmp_path / "bad.zarr")
    assert not ran.exists()


@pytest.mark.parametrize("how", ["lzf", "external", "link", "group", "virtual"])
def test_netcdf_files_that_need_more_than_hdf5_itself_are_refused(tmp_path, how):
    import h5py

    path = table(20, model()).save(tmp_path / "table.nc")
    with h5py.File(path, "a") as file:
        values = file["statistics"][...]
        if how == "lzf":
            file.create_dataset("more", data=values, compression="lzf")
        elif how == "external":
            file.create_dataset("more", (4,), "f8", external=[(str(tmp_path / "other"), 0, 32)])
        elif how == "link":
            file["more"] = h5py.ExternalLink(str(tmp_path / "other.nc"), "/statistics")
        elif how == "group":
            file.create_group("more")
        else:
            virtual = h5py.VirtualLayout((4,), "f8")
            virtual[:] = h5py.VirtualSource(str(tmp_path / "other.nc"), "x", (4,))
            file.create_virtual_dataset("more", virtual)
    with pytest.raises(ValueError, match="more"):
        pk.ReferenceTable.load(path)
