"""What a store must not do: touch what is not its own, lose rows in silence, or go on with another model."""

import errno
import json
import os
import shutil
import tracemalloc
import warnings

import numpy as np
import pymc as pm
import pytest
import zarr

import pymc_kbr as pk
from pymc_kbr.simulation import resume_store
from pymc_kbr.simulation.workers import executors
from pymc_kbr.tables import layout
from pymc_kbr.tables import store as store_module
from pymc_kbr.tables.store import TableStore
from tests import models
from tests.models import model, same, table, vector_model


def contents(folder):
    """Everything under a folder: links, folders, and files with what they hold."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


def no_work(rng, mean, scale, size=None):
    raise AssertionError("simulated")


# --- what is not a store's own ---


@pytest.fixture
def home(tmp_path):
    """A folder as users have them, and what lies beside it."""
    home = tmp_path / "home"
    (home / "Downloads" / "deep").mkdir(parents=True)
    part = f"{'0a' * 16}.partial"
    for name in ("a.partial", f"zarr.{part}", "Downloads/film.mkv.partial", f"Downloads/deep/0.{part}"):
        (home / name).write_bytes(b"mine")
    (home / "c").mkdir()
    (home / "c" / f"0.{part}").write_bytes(b"mine")
    for name in ("home.lock", ".home.lock", "poetry.lock", ".home.abcdefgh.partial", "film.partial"):
        (tmp_path / name).write_text("mine")
    (tmp_path / ".home.x.partial").mkdir()
    (tmp_path / ".home.x.partial" / "file").write_text("mine")
    (tmp_path / "link").symlink_to(home)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    zarr.create_group(tmp_path / "foreign.zarr", zarr_format=3).create_array("x", data=np.zeros(3))
    zarr.create_group(tmp_path / "old.zarr", zarr_format=2)
    return home


@pytest.mark.parametrize(
    "name", ["home", "link", "file", "empty", "foreign.zarr", "old.zarr", "loop", ".", "/"]
)
def test_a_path_that_is_no_store_is_refused_and_nothing_is_touched(home, name, monkeypatch):
    monkeypatch.chdir(home)
    path = name if name in (".", "/") else home.parent / name
    before = contents(home.parent)
    for store in (path, os.path.relpath(path)):
        with pytest.raises((ValueError, OSError)) as refused:
            table(20, model(no_work), store=store)
        assert "store" in str(refused.value)
        with pytest.raises((ValueError, OSError)):
            pk.StoredTable.open(store)
    assert contents(home.parent) == before


@pytest.mark.parametrize("name", ["a[b]?", "film", "ho*", "ü.zarr"])
def test_a_store_of_any_name_touches_only_itself(home, name):
    before = contents(home.parent)
    path = home.parent / name
    whole = table(40, model(), store=path)
    same(table(60, model(), store=path), table(60, model()))
    assert {k: v for k, v in contents(home.parent).items() if k.split("/")[0] != name} == before
    same(table(40, model(), store=path), whole)
    same(pk.StoredTable.open(path).load(40), pk.StoredTable.open(path).load(40))


def test_a_link_to_a_place_where_nothing_is_makes_the_store_there(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "t.zarr")
    whole = table(20, model(), store=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    same(pk.StoredTable.open(tmp_path / "elsewhere" / "t.zarr").load(), whole)


def rounds(folder):
    with pm.Model():
        pm.Simulator("y", models.normal, pm.Normal("mean"), 1.0, observed=[0.5])
        pk.refine(400, rounds=2, random_seed=1, store=folder, progressbar=False)


def tables_of_models(folder):
    pk.simulate_models({"a": model()}, 20, random_seed=1, store=folder, progressbar=False)


@pytest.mark.parametrize("call", [rounds, tables_of_models])
def test_a_store_is_no_folder_of_stores(call, tmp_path):
    table(20, model(), store=tmp_path / "t.zarr")
    (tmp_path / "file").write_text("mine")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match="is itself a store; give a folder in which several"):
        call(tmp_path / "t.zarr")
    with pytest.raises(ValueError, match="is a file; give a folder"):
        call(tmp_path / "file")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("within", ["sub", "parameters/c/sub"])
def test_nothing_is_made_within_a_store(within, tmp_path):
    path = tmp_path / "t.zarr"
    whole = table(20, model(), store=path)
    (tmp_path / "link").symlink_to(path)
    before = contents(tmp_path)
    for around in (path, tmp_path / "link"):
        with pytest.raises(ValueError, match=r"is within the store .*t\.zarr, which it would damage; choose"):
            table(20, model(), store=around / within)
        for call in (rounds, tables_of_models):
            with pytest.raises(ValueError, match=r"is within the store|is itself a store"):
                call(around / within)
    assert contents(tmp_path) == before
    same(table(20, model(), store=path), whole)


# --- stores that vanish ---


@pytest.fixture
def small_chunks(set_default):
    set_default(executors.rows_a_chunk, most_rows=20)


def once(path, fault, at=150):
    """A simulator in whose run a fault happens to the store."""
    calls = []

    def fn(rng, mean, scale, size=None):
        calls.append(1)
        if len(calls) == at:
            fault(path)
        return models.normal_by_hand(rng, mean, scale, size)

    return model(fn)


def other_store(path):
    shutil.rmtree(path)
    shutil.copytree(path.parents[1] / "other.zarr", path)


VANISHES = {
    "renamed": (
        lambda p: p.rename(p.with_name("new.zarr")),
        r"renamed to .*new\.zarr.*; \d+ of 300 rows are fin",
    ),
    "moved": (lambda p: shutil.move(p, p.parents[1] / "moved.zarr"), "is gone .*wherever it is now"),
    "removed": (shutil.rmtree, "is gone"),
    "replaced by a folder": (lambda p: (p.rename(p.with_name("b")), p.mkdir()), "renamed to .*b while"),
    "replaced by a store": (other_store, "is gone"),
    "an array removed": (
        lambda p: shutil.rmtree(p / "statistics"),
        r"has lost files .*; 0 of 300 rows are left",
    ),
    "the metadata removed": (
        lambda p: (p / "zarr.json").unlink(),
        r"has lost files .* \d+ of 300 rows are left",
    ),
    "the parent renamed": (lambda p: p.parent.rename(p.parent.with_name("parent")), "is gone"),
}


@pytest.mark.parametrize("how", VANISHES)
def test_a_store_that_vanishes_is_an_error_and_nothing_is_written_where_it_was(how, tmp_path, small_chunks):
    fault, words = VANISHES[how]
    path = tmp_path / "here" / "t.zarr"
    path.parent.mkdir()
    if how == "replaced by a store":
        table(30, model(), store=tmp_path / "other.zarr", random_seed=7)
    kept = {}

    def noted(where):
        fault(where)
        kept.update(contents(tmp_path))

    with pytest.raises(OSError, match=words) as said:
        table(300, once(path, noted), store=path, batched=False)
    assert "the same call continues" in str(said.value)
    after = {name: held for name, held in contents(tmp_path).items() if not name.endswith(".lock")}
    assert after == {name: held for name, held in kept.items() if not name.endswith(".lock")}
    found = {"renamed": "here/new.zarr", "moved": "moved.zarr", "replaced by a folder": "here/b"}.get(how)
    if found is not None:
        rows = len(pk.StoredTable.open(tmp_path / found))
        assert 0 < rows < 300
        with warnings.catch_warnings(action="ignore"):  # that the code has changed
            same(table(300, model(models.normal_by_hand), store=tmp_path / found), plain(300))


def plain(rows):
    return table(rows, model(models.normal_by_hand), batched=False)


def _silent():
    return warnings.catch_warnings(action="error", category=UserWarning)


@pytest.mark.parametrize("array", ["statistics", "parameters", "status"])
def test_chunks_that_are_lost_in_the_middle_are_counted(array, tmp_path, small_chunks):
    path = tmp_path / "t.zarr"

    def remove(path):
        shutil.rmtree(path / array / "c" / "1")

    def remove_status(path):
        (path / array / "c" / "1").unlink()

    made = once(path, remove_status if array == "status" else remove)
    with pytest.raises(
        OSError, match=r"20 of 300 rows .* are gone: .* 280 rows are finished in it, and safe"
    ):
        table(300, made, store=path, batched=False)
    with (
        pytest.warns(UserWarning, match="20 of 300 rows of the store .* damaged")
        if array == "status"
        else (pytest.raises(ValueError, match=f"damaged in the {array} of rows"))
    ):
        assert len(pk.StoredTable.open(path).load()) == 280
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        same(table(300, model(models.normal_by_hand), store=path), plain(300))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_disk_that_fails_keeps_what_is_finished(code, tmp_path, small_chunks, monkeypatch):
    path = tmp_path / "t.zarr"
    before = store_module._Folder.set
    calls = []

    async def fails(self, key, value):
        calls.append(key)
        if len(calls) > 30:
            raise OSError(code, os.strerror(code))
        await before(self, key, value)

    with monkeypatch.context() as patch:
        patch.setattr(store_module._Folder, "set", fails)
        with pytest.raises(OSError, match=r"cannot be written any more: .*; \d+ of 300 rows are finished"):
            table(300, model(models.normal_by_hand), store=path, batched=False)
    stored = pk.StoredTable.open(path)
    assert 0 < len(stored) < 300
    assert np.array_equal(stored.load().statistics, plain(300).statistics[: len(stored)])
    with _silent():
        same(table(300, model(models.normal_by_hand), store=path), plain(300))


# --- other models ---


def with_potentials(**slopes):
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        for name, slope in slopes.items():
            pm.Potential(name, slope * mean)
        pm.Simulator("y", models.normal, mean, 1.0, observed=models.DATA)
    return made


@pytest.mark.parametrize(
    ("then", "now", "rows"),
    [({}, {"p": 3.0}, 200), ({"p": 3.0}, {"p": 1.0}, 400), ({"p": 3.0}, {"p": 3.0, "q": 1.0}, 200)],
)
def test_a_potential_is_part_of_the_model(then, now, rows, tmp_path):
    path = tmp_path / "t.zarr"
    made = table(200, with_potentials(**then), store=path)
    before = contents(tmp_path)
    with pytest.raises(
        ValueError, match=r"made with (other known densities and Potentials|another density of)"
    ):
        table(rows, with_potentials(**now), store=path)
    assert contents(tmp_path) == before
    again = table(200, with_potentials(**dict(reversed(then.items()))), store=path)
    same(again, made)
    np.testing.assert_equal(again.prior_ratio, made.prior_ratio)
    assert contents(tmp_path) == before


def known(z, scale=1.0):
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 1)
        pm.Normal("z", mean, scale, observed=z)
        pm.Simulator("y", models.normal, mean, 1.0, observed=models.DATA)
    return made


def test_a_known_density_is_that_of_the_data_of_the_call_and_of_the_store(tmp_path):
    path = tmp_path / "t.zarr"
    table(200, known([2.0]), store=path)
    for rows, z in ((150, [1.0]), (300, [0.0]), (300, [2.0])):
        there, here = table(rows, known(z), store=path), table(rows, known(z))
        np.testing.assert_allclose(there.prior_ratio, here.prior_ratio)
        if rows == 300 and z == [0.0]:
            with pytest.raises(ValueError, match="make that call again"):
                pk.StoredTable.open(path).prior_ratio  # noqa: B018
        else:
            opened = pk.StoredTable.open(path)
            np.testing.assert_allclose(opened.prior_ratio, table(len(opened), known([2.0])).prior_ratio)
    with pytest.raises(ValueError, match="another density of"):
        table(200, known([2.0], 2.0), store=path)


def of_rate(fn):
    with pm.Model() as made:
        rate = pm.Exponential("rate", 1.0)
        pm.Simulator("y", fn, rate, observed=[1.0, 2.0])
    return made


def poisson(rng, rate, size=None):
    return rng.poisson(rate, size) + 0.5


def poisson_changed(rng, rate, size=None):
    y = rng.poisson(rate, size) + 0.5
    return np.where(rate > 4, 10 * y, y)


def poisson_one(rng, rate, size=None):
    return rng.poisson(float(np.asarray(rate).item()), size) + 0.5


def poisson_one_changed(rng, rate, size=None):
    rate = float(np.asarray(rate).item())
    return (rng.poisson(rate, size) + 0.5) * (10 if rate > 4 else 1)


@pytest.mark.parametrize(
    ("then", "now"), [(poisson, poisson_changed), (poisson_one, poisson_one_changed)], ids=["batches", "rows"]
)
def test_a_simulator_that_differs_only_where_few_rows_are_is_refused(then, now, tmp_path):
    rows = 300
    path = tmp_path / "t.zarr"
    made = table(rows, of_rate(then), store=path)
    assert (made.parameters[:10] < 4).all()
    assert 0 < np.sum(made.parameters > 4) < 0.03 * rows
    before = contents(tmp_path)
    for more in (0, 100):
        with pytest.raises(ValueError, match="made with another simulator: row"):
            table(rows + more, of_rate(now), store=path)
    assert contents(tmp_path) == before
    with _silent():
        same(table(rows, of_rate(then), store=path), made)


def scaled(factor):
    """Simulators of one code, with a value from around them that shows in no row here."""

    def fn(rng, rate, size=None):
        return poisson_one(rng, rate, size) * (factor if np.min(rate) > 1e6 else 1)

    return fn


def by_default(factor):
    def fn(rng, rate, size=None, *, factor=factor):
        return poisson_one(rng, rate, size) * (factor if np.min(rate) > 1e6 else 1)

    return fn


class Method:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, rng, rate, size=None):
        return poisson_one(rng, rate, size) * (self.factor if np.min(rate) > 1e6 else 1)


SOURCE = """
FACTOR = {factor}
def helper(rate, y):{comment}
    return y * (FACTOR if np.min(rate) > 1e6 else 1)

def fn(rng, rate, size=None):
    {docstring}
    return helper(rate, rng.poisson(float(np.asarray(rate).item()), size) + {half})
"""


def from_source(factor=1, comment="", docstring="'a'", half="0.5", before=""):
    names = {"np": np, "__name__": "some_module"}
    exec(
        compile(
            before + SOURCE.format(factor=factor, comment=comment, docstring=docstring, half=half),
            "f",
            "exec",
        ),
        names,
    )
    return names["fn"]


@pytest.mark.parametrize(
    ("then", "now", "words"),
    [
        (scaled(2), scaled(3), "value of factor was 2 and is 3"),
        (by_default(2), by_default(3), "default of factor was 2 and is 3"),
        (Method(2), Method(3), "attribute factor was 2 and is 3"),
        (from_source(1), from_source(2), "value of FACTOR was 1 and is 2"),
        (from_source(), from_source(comment="\n    rate = 1 * rate"), "code of helper is another"),
    ],
)
def test_code_that_changed_is_said_where_the_rows_are_the_same(then, now, words, tmp_path):
    path = tmp_path / "t.zarr"
    made = table(100, of_rate(then), store=path, batched=False)
    with pytest.warns(
        UserWarning, match=f"{words}.*; [0-9]+ of its rows were simulated again and are the same"
    ):
        same(table(100, of_rate(now), store=path), made)
    with pytest.warns(UserWarning, match=words):
        table(120, of_rate(now), store=path)
    with _silent():  # by now there are rows of both
        table(120, of_rate(now), store=path)


def with_input(rng, rate, factor, size=None):
    return poisson_one(rng, rate, size) * (float(np.min(factor)) if np.min(rate) > 1e6 else 1)


def of_input(factor=2.0, data=(1.0, 2.0), power=1):
    with pm.Model() as made:
        times = pm.Data("times", np.array(data))
        rate = pm.Exponential("rate", 1.0)
        pm.Simulator(
            "y",
            lambda rng, rate, factor, times, size=None: with_input(rng, rate, factor * times[..., 0], size),
            rate,
            factor,
            times,
            sum_stat=lambda y: y**power if y.max() > 1e6 else y,
            observed=[1.0, 2.0],
        )
    return made


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({"factor": 3.0}, "value of input 1 was 2.0 and is 3.0"),
        ({"power": 2}, "sum_stat/value of power was 1 and is 2"),
        ({}, None),
    ],
)
def test_what_a_simulator_is_called_with_and_what_summarises_it_are_compared(now, words, tmp_path):
    path = tmp_path / "t.zarr"
    made = table(50, of_input(), store=path)
    with _silent() if words is None else pytest.warns(UserWarning, match=f"{words}.*are the same, so"):
        same(table(50, of_input(**now), store=path), made)


def counting(rng, rate, size=None):
    counting.buffer[:] = poisson_one(rng, rate, size)
    calls.append(1)
    return counting.buffer.copy()


counting.buffer = np.empty(2)
calls = []


@pytest.mark.parametrize(
    ("then", "now"),
    [
        (from_source(), from_source(before="# moved\n" * 9, comment="  # x", docstring="'other'")),
        (scaled(2), scaled(2)),
        (counting, counting),
        (poisson_one, lambda rng, rate, size=None: rng.poisson(float(np.asarray(rate).item()), size) + 0.5),
    ],
)
def test_the_same_code_goes_on_wherever_it_stands(then, now, tmp_path):
    path = tmp_path / "t.zarr"
    table(50, of_rate(then), store=path, batched=False)
    quiet = _silent() if then is not poisson_one else warnings.catch_warnings(action="ignore")
    with quiet:
        assert len(table(80, of_rate(now), store=path)) == 80


# --- stores of before ---


def as_before(path):
    """Make of a store one of the version before: without digests and what is compared since."""
    shutil.rmtree(path / layout.DIGESTS)
    shutil.rmtree(path / resume_store.FIRST_LOG_KNOWN, ignore_errors=True)
    held = TableStore.open(path)
    documents = dict(held.documents)
    documents["identity"].pop(resume_store.KNOWN)
    for name in (layout.ARRAYS, layout.TOKEN, "simulators"):
        documents.pop(name)
    texts = {name: json.dumps(document, sort_keys=True) for name, document in documents.items()}
    marks = {"format": layout.STORE_FORMAT, "format_version": layout.STORE_VERSION}
    held._group.attrs.put({**marks, **texts, "checksum": layout.checksum_of(texts)})


@pytest.mark.parametrize("made", [with_potentials(p=1.0), vector_model(models.two_statistics_by_hand)])
def test_a_store_of_the_version_before_is_read_and_extended(made, tmp_path):
    path = tmp_path / "t.zarr"
    before = table(100, made, store=path)
    as_before(path)
    with _silent():
        same(pk.StoredTable.open(path).load(), before)
        same(table(100, made, store=path), before)
        longer = table(200, made, store=path)
    same(longer, table(200, made))
    np.testing.assert_equal(longer.prior_ratio, table(200, made).prior_ratio)


@pytest.mark.parametrize("old", [True, False])
def test_rows_that_no_table_takes_are_failures_of_the_store(old, tmp_path):
    path, whole = tmp_path / "t.zarr", plain(200)
    table(200, model(models.normal_by_hand), store=path, batched=False)
    rows = np.flatnonzero(whole.parameters[:, 0] > 1.5)
    assert len(rows) > 3
    held = TableStore.open(path)
    if old:
        as_before(path)
        held = TableStore.open(path)
        values = held._arrays["statistics"][...]
        values[rows] *= 1e301
        held._arrays["statistics"][...] = values
    else:
        for start in range(0, 200, held.chunk_rows):
            stop = min(start + held.chunk_rows, 200)
            values = held.statistics(start, stop).copy()
            values[rows[(rows >= start) & (rows < stop)] - start] *= 1e301
            held.write(start, held.parameters(start, stop), values, {})
    stored = pk.StoredTable.open(path)
    assert len(stored) == 200 - len(rows)
    assert stored.failures.rows.tolist() == rows.tolist()
    assert set(stored.failures.messages) == {store_module.BEYOND}
    loaded = stored.load()
    assert np.array_equal(loaded.statistics, np.delete(whole.statistics, rows, axis=0))
    assert len(stored.load(20)) == 20
    assert len(pk.Rejection(20).fit(stored).weights(whole.observed)) == len(stored)
    with pytest.warns(UserWarning, match="failed and were dropped"):
        again = table(200, model(models.normal_by_hand), store=path, on_failure="drop")
    assert len(again) == len(loaded)


# --- damage ---


@pytest.mark.parametrize(
    ("name", "how", "old"),
    [
        ("first_parameters", "zarr.json", False),
        ("first_statistics", "flipped", False),
        ("first_statistics", "all", True),
        ("observed", "all", False),
        ("observed", "flipped", True),
        ("observed_data_y", "chunk", False),
    ],
)
def test_an_array_that_is_gone_is_named(name, how, old, tmp_path):
    path = tmp_path / "t.zarr"
    made = vector_model(models.two_statistics_by_hand)
    table(40, made, store=path)
    if old:
        as_before(path)
    chunk = next(each for each in (path / name / "c").rglob("*") if each.is_file())
    if how == "zarr.json":
        (path / name / "zarr.json").unlink()
    elif how == "all":
        shutil.rmtree(path / name)
    elif how == "chunk":
        chunk.unlink()
    else:
        content = bytearray(chunk.read_bytes())
        content[-5] ^= 1
        chunk.write_bytes(content)
    before = contents(tmp_path)
    with (
        pytest.raises(ValueError, match=f"is damaged: its array '{name}' is gone")
        if not (name.startswith("observed") and old)
        else (warnings.catch_warnings(action="ignore"))
    ):
        table(40, made, store=path)
        table(50, made, store=path)
    if name.startswith("first"):
        assert len(pk.StoredTable.open(path).load()) == 40
        assert contents(tmp_path) == before
    elif not old:
        with pytest.raises(ValueError, match="is damaged: its array"):
            pk.StoredTable.open(path)


@pytest.mark.parametrize("source", ["parameters/c/0/0", "status/c/0"])
def test_texts_for_which_numbers_were_put_take_no_memory(source, tmp_path):
    """Their first bytes would be taken for how many texts there are: memory for up to 4e9 of them."""
    path, failing = tmp_path / "t.zarr", model(models.fails_when_high)
    with pytest.warns(UserWarning, match="failed and were dropped"):
        whole = table(100, failing, store=path, on_failure="drop")
    shutil.copyfile(path / source, path / "message" / "c" / "0")
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="is damaged in the message of rows"):
            pk.StoredTable.open(path).load()
        assert tracemalloc.get_traced_memory()[1] < 10e6
        with pytest.warns(UserWarning, match="are damaged, as a power cut"):
            same(table(100, failing, store=path, on_failure="drop"), whole)
    finally:
        tracemalloc.stop()
