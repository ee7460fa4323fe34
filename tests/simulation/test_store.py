"""Simulations that outlive whatever ends their process."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import pymc_kbr as pk
from pymc_kbr.simulation.workers import executors
from pymc_kbr.tables.store import locked
from tests import models, survival
from tests.models import model, same, table, vector_model

ROWS = 1100


@pytest.fixture(scope="module", autouse=True)
def chunks_of_many_rows():
    """How many rows are written at once depends on the seconds that one takes, and on nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        for cut_up in (executors.rows_a_chunk, executors.rows_a_stored_chunk):
            patch.setitem(cut_up.__kwdefaults__, "seconds_a_chunk", 1e9)
        yield


@pytest.fixture(scope="module")
def whole():
    return table(ROWS, vector_model(models.two_statistics_by_hand), batched=False)


@pytest.fixture(scope="module")
def kept(tmp_path_factory, whole):
    """A store in chunks of 512 rows."""
    path = tmp_path_factory.mktemp("kept") / "table.zarr"
    same(table(ROWS, vector_model(models.two_statistics_by_hand), batched=False, store=path), whole)
    return path


@pytest.fixture
def store(kept, tmp_path):
    return shutil.copytree(kept, tmp_path / "table.zarr")


def again(store, draws=ROWS, fn=models.two_statistics_by_hand, **kwargs):
    return table(draws, vector_model(fn), store=store, **kwargs)


def hardly(rng, mean, scale, size=None):
    """Simulates what `two_statistics_by_hand` does: a resumed run tries a row, and a chunk of those there."""
    hardly.calls += 1
    return models.two_statistics_by_hand(rng, mean, scale, size)


def files_of(store):
    """Every file of a store, with what it holds."""
    return {path.relative_to(store): path.read_bytes() for path in store.rglob("*") if path.is_file()}


# --- what is there ---


def test_xarray_alone_reads_a_store(store, whole):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xr.open_zarr(store)
    assert dict(dataset.sizes)["row"] == ROWS
    assert list(dataset["parameter"].values) == ["mean", "scale"]
    assert list(dataset["statistic"].values) == whole.statistic_names
    np.testing.assert_array_equal(dataset["parameters"].values, whole.parameters)
    np.testing.assert_array_equal(dataset["statistics"].values, whole.statistics)
    assert dataset["parameters"].dims == ("row", "parameter")
    assert np.all(dataset["status"].values == 1)


def test_a_store_changes_no_bit_and_leaves_nothing_beside_it(tmp_path):
    made = model()
    same(table(2500, made), table(2500, made, store=tmp_path / "t.zarr"))
    assert os.listdir(tmp_path) == ["t.zarr"]
    assert not list(tmp_path.rglob("*.partial"))


def test_a_stored_table_knows_what_a_table_knows(store, whole):
    stored = pk.StoredTable.open(store)
    assert (len(stored), stored.unfinished, len(stored.failures)) == (ROWS, 0, 0)
    assert "1100 rows in table.zarr" in repr(stored)
    loaded = stored.load()
    same(loaded, whole)
    assert (loaded.seed, loaded.support) == (whole.seed, whole.support)
    np.testing.assert_array_equal(loaded.observed, whole.observed)
    np.testing.assert_array_equal(loaded.observed_data["y"], whole.observed_data["y"])
    few = stored.load(10)
    assert len(few) == 10
    assert np.isin(few.statistics[:, 0], whole.statistics[:, 0]).all()
    other = stored.with_observed({"y[0]": 1.0, "y[1]": 2.0})
    np.testing.assert_array_equal(other.load().observed, [1.0, 2.0])


def test_sample_abc_reads_a_stored_table_a_part_at_a_time(store, whole):
    there, here = (
        pk.sample_abc(50, reference_table=t, estimator=pk.Localised(100), random_seed=1, progressbar=False)
        for t in (pk.StoredTable.open(store), whole)
    )
    np.testing.assert_allclose(
        there["posterior"]["mean"].values.mean(), here["posterior"]["mean"].values.mean(), atol=0.2
    )
    np.testing.assert_array_equal(
        pk.Rejection(100).fit(pk.StoredTable.open(store)).weights(whole.observed),
        pk.Rejection(100).fit(whole).weights(whole.observed),
    )
    assert pk.ReferenceTable.from_arviz(here).seed == whole.seed
    path = there["posterior"].attrs["reference_table"]
    np.testing.assert_array_equal(pk.StoredTable.open(path).load().statistics, whole.statistics)
    with pytest.raises(ValueError, match=r"StoredTable.open\('/"):
        pk.ReferenceTable.from_arviz(there)
    with pytest.raises(ValueError, match=r"stays on the disk, with 1100 rows, and `prior`"):
        pk.sample_abc(50, reference_table=pk.StoredTable.open(store), prior=np.zeros((9, 1)))


def test_auto_chooses_on_some_rows_of_a_stored_table_and_fits_all(store, monkeypatch):
    monkeypatch.setattr("pymc_kbr.sample.IN_MEMORY", 300)
    monkeypatch.setattr("pymc_kbr.selection.select.IN_MEMORY", 300)
    stored = pk.StoredTable.open(store)
    few = ["localised", pk.Rejection(50)]
    result = pk.sample_abc(50, reference_table=stored, candidates=few, random_seed=1, progressbar=False)
    assert result["posterior"].attrs["simulations"] == len(stored) + len(stored.failures)
    assert result["posterior"].attrs["fitted_rows"] == len(stored)
    assert "the lowest energy score of" in result["posterior"].attrs["chosen"]
    picking = pk.Adjusted(pk.Rejection(50), "local_linear")
    chosen = pk.select(stored, candidates=[picking], random_seed=1, progressbar=False)
    assert len(chosen.weights(stored.observed)) == chosen.fitted_rows_ == len(stored)
    assert chosen.selection_.chosen.estimator is not chosen
    for whole in (pk.ConditionalMean(), pk.Adjusted(pk.Rejection(50), "joint_neighbours")):
        chosen = pk.select(stored, candidates=[whole], random_seed=1, progressbar=False)
        assert len(chosen.weights(stored.observed)) == chosen.fitted_rows_ == 300


# --- going on ---


def test_the_same_call_simulates_nothing_again(store, whole):
    before = files_of(store)
    for seed in (1, None):  # a call without a seed goes on with the store's
        hardly.calls = 0
        with pytest.warns(UserWarning, match=r"the code of 'y' is another\); 512 of its rows"):
            same(again(store, fn=hardly, random_seed=seed), whole)
        assert hardly.calls == 1 + 512
    assert files_of(store) == before


def test_a_longer_call_extends_and_a_shorter_one_takes_the_beginning(store, whole):
    longer = table(ROWS + 700, vector_model(models.two_statistics_by_hand), batched=False)
    same(again(store, ROWS + 700), longer)
    same(again(store, ROWS), whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dict(xr.open_zarr(store).sizes)["row"] == ROWS + 700


def test_another_observation_uses_the_same_simulations(store, whole):
    before = files_of(store)
    made = vector_model(models.two_statistics_by_hand, observed=(5.0, 5.0))
    there = table(ROWS, made, store=store)
    assert files_of(store) == before
    np.testing.assert_array_equal(there.statistics, whole.statistics)
    np.testing.assert_array_equal(there.observed, [5.0, 5.0])


@pytest.mark.parametrize(
    ("array", "how"),
    [
        ("statistics", "gone"),
        ("statistics", "cut"),
        ("parameters", "flipped"),
        ("status", "empty"),
        ("message", "cut"),
    ],
)
def test_a_damaged_chunk_is_recognised_and_simulated_again(store, whole, array, how):
    part = store / array / "c" / ("1/0" if array in ("parameters", "statistics") else "1")
    if array == "message":  # empty ones take no file
        part.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"what a power cut has left")
    content = part.read_bytes()
    if how == "gone":
        part.unlink()
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 16]) + content[middle + 1 :]
        part.write_bytes({"empty": b"", "cut": content[:middle], "flipped": flipped}[how])
    lost = how != "gone" or array in ("parameters", "statistics")
    expected = pytest.warns(UserWarning, match="1 of 3 chunks .* are damaged") if lost else _silent()
    with expected:
        same(again(store), whole)
    with _silent():
        same(again(store), whole)


def _silent():
    return warnings.catch_warnings(action="error", category=UserWarning)


def test_failures_are_kept_and_simulated_again_only_where_they_stop(tmp_path):
    path, made = tmp_path / "t.zarr", model(models.fails_when_high)
    with pytest.raises(pk.SimulationError, match="failed at mean"):
        table(1200, made, store=path)
    assert len(pk.StoredTable.open(path).failures)  # the row that stopped it was written before
    with pytest.warns(UserWarning, match="failed and were dropped"):
        there = table(1200, made, store=path, on_failure="drop")
    with pytest.warns(UserWarning, match="failed and were dropped"):
        here = table(1200, made, on_failure="drop")
    same(here, there)
    np.testing.assert_array_equal(here.failures.rows, there.failures.rows)
    np.testing.assert_array_equal(here.failures.parameters, there.failures.parameters)
    assert here.failures.messages == there.failures.messages
    mended = model(lambda rng, mean, scale, size=None: models.normal_by_hand(rng, mean, 1.0, size))
    complete = table(1200, mended, store=path)  # the rows that did not fail are the same
    assert len(complete.failures) == 0
    np.testing.assert_array_equal(complete.statistics, table(1200, mended, batched=False).statistics)


# --- the second writer, the full disk, the folder that may not be written ---


def test_a_second_writer_is_refused_and_the_lock_ends_with_its_process(store, whole):
    code = (
        "import sys, time; from pathlib import Path; from pymc_kbr.tables.store import locked\n"
        "with locked(Path(sys.argv[1])): print('locked', flush=True); time.sleep(100)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, store], stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "locked\n"
    link = store.with_name("link.zarr")
    link.symlink_to(store, target_is_directory=True)
    (store.parent / "folder").symlink_to(store.parent, target_is_directory=True)
    for name in (store, link, store.parent / "folder" / "table.zarr", store.parent / "folder" / "link.zarr"):
        with pytest.raises(BlockingIOError, match="another process is writing to the store"):
            again(name, ROWS + 10)
        assert len(pk.StoredTable.open(name)) == ROWS  # reading is no matter
        same(again(name), whole)
    writer.kill()
    writer.wait()
    writer.stdout.close()
    same(again(store), whole)


def test_a_full_disk_stops_with_what_is_finished(tmp_path, whole):
    path, made = tmp_path / "t.zarr", vector_model(models.two_statistics_by_hand)
    table(512, made, batched=False, store=path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    largest = max(file.stat().st_size for file in path.rglob("*") if "/c/" in str(file))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest // 2, before[1]))
    try:
        with pytest.raises(OSError, match=r"cannot be written any more: File too large; 512 of \d+ rows"):
            table(ROWS, made, batched=False, store=path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    finished = pk.StoredTable.open(path)
    assert (len(finished), finished.unfinished) == (512, ROWS - 512)
    np.testing.assert_array_equal(finished.load().statistics, whole.statistics[:512])
    same(again(path), whole)


@contextmanager
def as_another_user():
    """As a user for whom permissions hold, which they do not for root.

    That user need not be able to read what is installed for this interpreter, as PyTensor does at any time:
    this is for the files of a store alone.
    """
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.fixture
def read_only(kept):
    """A folder that may not be written, with a finished store."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # whose parents anyone may enter
    shutil.copytree(kept, folder / "table.zarr")
    for each in (folder, folder / "table.zarr"):
        each.chmod(0o555)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["table.zarr", "new.zarr"])
def test_a_folder_that_may_not_be_written_is_named_before_any_work(read_only, name, monkeypatch):
    def no_work(rng, mean, scale, size=None):
        raise AssertionError("simulated")

    words, before = "may not be written; choose a store elsewhere", files_of(read_only)
    with as_another_user(), pytest.raises(PermissionError, match=words), locked(read_only / name):
        pass
    if os.geteuid() == 0:
        monkeypatch.setattr("os.access", lambda path, mode, **_: not mode & ~(os.stat(path).st_mode >> 6))
    with pytest.raises(PermissionError, match=words):
        again(read_only / name, ROWS + 1, fn=no_work)
    assert files_of(read_only) == before


def test_a_finished_store_that_may_not_be_written_is_read(read_only, whole, monkeypatch):
    with as_another_user():
        same(pk.StoredTable.open(read_only / "table.zarr").load(), whole)
    before, changed = files_of(read_only), os.stat(read_only).st_mtime_ns

    @contextmanager
    def not_locked(path):
        raise AssertionError("locked")
        yield

    monkeypatch.setattr("pymc_kbr.simulation.resume_store.locked", not_locked)
    same(again(read_only / "table.zarr"), whole)
    assert files_of(read_only) == before
    assert os.stat(read_only).st_mtime_ns == changed  # a lock that is gone by now would show


# --- kills ---


def test_a_table_is_equal_after_its_caller_was_killed():
    """`python -m tests.survival` kills twenty times, every second time a worker; so do the tests below."""
    said = []
    assert survival.survive(kills=1, draws=600, seconds=0.2, seed=1, show=said.append, resume_on=1) == 0
    assert "the caller" in said[0]
    assert "equal after resuming" in said[0]


# --- simulations that hang or end their process ---


def test_simulations_that_hang_or_end_their_process_fail_alone():
    whole = table(60, model(models.normal_by_hand))
    order = np.argsort(whole.parameters[:, 0])
    interrupted, crashes, stuck = order[[-1, -2, 0]]
    highest, high, lowest = whole.parameters[[interrupted, crashes, stuck], 0]

    def harmful(rng, mean, scale, size=None):
        if mean == lowest:  # what follows is not interrupted, as a loop in C is not
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
            time.sleep(600)
        if mean == high:
            os.kill(os.getpid(), signal.SIGSEGV)
        while mean == highest:
            try:
                time.sleep(60)
            except Exception:
                continue
        return models.normal_by_hand(rng, mean, scale, size)

    with pytest.warns(UserWarning, match="failed and were dropped"):
        made = table(60, model(harmful), timeout=0.3, on_failure="drop")
    said = dict(zip(made.failures.rows.tolist(), made.failures.messages, strict=True))
    assert set(said) == {interrupted, crashes, stuck}
    assert "it did not end within 0.3 s" in said[interrupted]
    assert "its process had to be ended" in said[stuck]
    assert "the simulator ended its process (SIGSEGV(-11))" in said[crashes]
    np.testing.assert_array_equal(made.failures.parameters, whole.parameters[made.failures.rows])
    np.testing.assert_array_equal(made.statistics, np.delete(whole.statistics, made.failures.rows, axis=0))
