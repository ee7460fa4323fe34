"""Stores whose writer was killed between two writes, or whose files were damaged: no row is wrong or lost.

``PYMC_KBR_HARMED_STORES=1000 python -m pytest tests/tables/test_damaged_stores.py`` damages 1,000 of them.
"""

import os
import shutil
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pymc_kbr as pk
from pymc_kbr.simulation import resume_store
from pymc_kbr.tables import store as store_module
from pymc_kbr.tables.store import TableStore


def _silent():
    return warnings.catch_warnings(action="error", category=UserWarning)


def documents():
    one = {"shape": [], "discrete": False, "labels": None}
    return {
        "identity": {},
        "parameter_columns": [{"name": "a", **one}],
        "statistic_columns": [{"name": name, **one} for name in "st"],
        "support": pk.Support.unbounded(1).to_json(),
        "seed": "1",
        "provenance": {},
        "timings": {},
    }


EXAMPLES = int(os.environ.get("PYMC_KBR_HARMED_STORES", "30"))

ROWS, CHUNK = 18, 5
TRUTH = np.random.default_rng(3).normal(size=(ROWS, 3))
FAILED = {6: "no", 7: "no", 16: "none"}


class PowerCut(Exception):
    """Ends the writer between two writes."""


def write_all(held, until=None):
    """What `simulate` does with a store: simulate the chunks that it lacks; the number of rows written."""
    rows = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        pieces = resume_store.Stored(held, ROWS, again=False).pieces()
    for piece in pieces:
        values = TRUTH[piece.start : piece.stop].copy()
        failures = {row: text for row, text in FAILED.items() if row in piece}
        values[[row - piece.start for row in failures], 1:] = np.nan
        held.write(piece.start, values[:, :1], values[:, 1:], failures)
        rows += len(values)
    return rows


def killed_at(number, call):
    """Run a call whose process ends before it writes its file of that number; whether it did."""
    before, count = store_module._Folder.set, iter(range(10**9))

    async def until(self, key, value):
        if next(count) >= number:
            raise PowerCut
        await before(self, key, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module._Folder, "set", until)
        try:
            call()
        except PowerCut:
            return True
    return False


def harm(folder, other, draw):
    """Damage a file: gone, empty, cut, flipped, exchanged with another, or taken from another store."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    file = files[draw(st.integers(0, len(files) - 1))]
    how = draw(st.sampled_from(["gone", "empty", "cut", "flipped", "exchanged", "foreign", "array gone"]))
    content = file.read_bytes()
    at = draw(st.integers(0, max(0, len(content) - 1)))
    if how == "gone":
        file.unlink()
    elif how == "empty":
        file.write_bytes(b"")
    elif how == "cut":
        file.write_bytes(content[:at])
    elif how == "flipped" and content:
        file.write_bytes(
            content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        )
    elif how == "exchanged":
        second = files[draw(st.integers(0, len(files) - 1))]
        file.write_bytes(second.read_bytes())
        second.write_bytes(content)
    elif how == "foreign":
        same_place = other / file.relative_to(folder)
        if same_place.exists():
            shutil.copyfile(same_place, file)
    elif how == "array gone" and file.parent != folder:
        shutil.rmtree(folder / file.relative_to(folder).parts[0])


def check(path, finished):
    """No row is wrong, and none is missing without a word; whether the store can be used."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            stored = pk.StoredTable.open(path)
            parameters, statistics = stored.parameters[0 : len(stored)], stored.statistics[0 : len(stored)]
            failures = stored.failures
        except ValueError as error:
            refused = str(error)
        else:
            refused = None
    if refused is not None:
        assert str(path) in refused
        return False
    if len(stored.store.unverified):
        # Nothing tells that chunks were exchanged, as is said; that files are gone is seen all the same.
        assert any("cannot be seen" in str(each.message) for each in said)
        assert np.isfinite(parameters).all()
        assert np.isfinite(statistics).all()
        return True
    rows = [int(np.flatnonzero(TRUTH[:, 0] == value)[0]) for value in parameters[:, 0]]
    assert rows == sorted(set(rows) - set(FAILED))
    assert np.array_equal(statistics, TRUTH[rows, 1:])
    assert {row: text for row, text in FAILED.items() if row in failures.rows} == dict(
        zip(failures.rows.tolist(), failures.messages, strict=True)
    )
    lost = finished - len(rows) - len(failures)
    # Where few rows were finished and the file of digests is gone, too, `unfinished` alone tells of them.
    assert lost <= 0 or said or (not np.any(stored.store._digests) and stored.unfinished >= lost)
    return True


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store without rows, the same with all, and one of another seed."""
    folder = tmp_path_factory.mktemp("stores")
    how = {"rows": ROWS, "chunk_rows": CHUNK, "parameters": ["a"], "statistics": ["s", "t"], "arrays": {}}
    TableStore.create(folder / "new", documents=documents(), **how)
    write_all(TableStore.open(shutil.copytree(folder / "new", folder / "whole")))
    held = TableStore.create(folder / "other", documents={**documents(), "seed": "2"}, **how)
    for start in range(0, ROWS, CHUNK):
        part = TRUTH[start : start + CHUNK] + 100
        held.write(start, part[:, :1], part[:, 1:], {})
    return folder


@pytest.mark.parametrize("rows", [1, 2])
def test_chunks_without_checksums_are_warned_of_and_one_is_simulated_again(rows, stores, tmp_path):
    """A kill leaves one, after its rows were written and before its checksums; a lost file more of them."""
    path = shutil.copytree(stores / "new", tmp_path / "t.zarr")
    held = TableStore.open(path)
    for start in range(0, rows * CHUNK, CHUNK):
        wrong = TRUTH[start : start + CHUNK] + 100
        held.write(start, wrong[:, :1], wrong[:, 1:], {})
        held._write_digest(start // CHUNK, None)
    with pytest.warns(UserWarning, match=rf"has no checksums of {rows} of its 4 chunks: .* cannot be seen"):
        assert len(pk.StoredTable.open(path)) == rows * CHUNK
    write_all(TableStore.open(path))
    stored = pk.StoredTable.open(path)
    if rows == 1:
        with _silent():
            assert np.array_equal(stored.parameters[0:CHUNK], TRUTH[:CHUNK, :1])
        return
    with pytest.warns(
        UserWarning, match="has no checksums of 2 of its 4 chunks"
    ):  # though others have theirs
        assert np.array_equal(stored.parameters[0:CHUNK], TRUTH[:CHUNK, :1] + 100)


@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_damage_makes_a_row_wrong_or_loses_one_in_silence(data, stores, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    path = folder / "t.zarr"
    kills = data.draw(st.lists(st.integers(0, 25), max_size=2))
    shutil.copytree(stores / ("new" if kills else "whole"), path)
    try:
        for number in kills:
            killed_at(number, lambda: write_all(TableStore.open(path)))
            assert check(path, 0)
        stored = pk.StoredTable.open(path)
        # A chunk that a kill has left without checksums may be lost as one that was not finished.
        finished = len(stored) + len(stored.failures) - CHUNK * len(stored.store.unverified)
        for _ in range(data.draw(st.integers(1, 3))):
            if any(p.is_file() for p in path.rglob("*")):
                harm(path, stores / "other", data.draw)
        if not check(path, finished):
            try:
                TableStore.open(path)
            except ValueError:
                return  # refused, with words that `check` has looked at
        write_all(TableStore.open(path))
        assert check(path, ROWS)
        stored = pk.StoredTable.open(path)
        assert len(stored) + len(stored.failures) == ROWS
    finally:
        shutil.rmtree(folder, ignore_errors=True)
