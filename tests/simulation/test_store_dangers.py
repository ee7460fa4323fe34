"""What a store must not do: touch what is not its own, lose rows in silence, or go on with another model.

``PYMC_KBR_HARMED_STORES=1000 python -m pytest tests/simulation/test_store_dangers.py`` damages 1,000 of them.
"""

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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pymc_kbr as pk
from pymc_kbr.simulation import resume_store
from pymc_kbr.simulation.resume_store import changes, code_of
from pymc_kbr.simulation.workers import executors
from pymc_kbr.tables import layout
from pymc_kbr.tables import store as store_module
from pymc_kbr.tables.store import TableStore
from tests import models
from tests.models import model, table, vector_model

from .test_simulate import same


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


@pytest.mark.parametrize(
    "name", ["*", "a[b]?", "[home]", "poetry", "film", "ho*", "~", "a b", "ü.zarr", "-rf"]
)
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


@pytest.mark.parametrize("within", ["sub", "parameters/sub", "parameters/c/sub", "sub.zarr/"])
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


def test_a_name_that_no_path_has_is_refused_with_words():
    with pytest.raises(ValueError, match=r"'a\\x00b' cannot be followed .*; choose another name"):
        table(20, model(no_work), store="a\0b")


def test_a_table_is_never_saved_over_a_folder(home):
    made = table(20, model())
    before = contents(home.parent)
    for path in (home, home.parent / "link", home.parent / "empty", home.parent / "foreign.zarr"):
        with pytest.raises(FileExistsError, match=r"is a folder.*such as .*table\.nc"):
            made.save(path)
        with pytest.raises(ValueError, match=r"is a folder.*such as .*table\.nc"):
            made.save(path, overwrite=True)
        with (
            pytest.raises(FileNotFoundError, match="that is a folder")
            if path.name != "foreign.zarr"
            else (pytest.raises(ValueError, match="store"))
        ):
            pk.ReferenceTable.load(path)
    assert contents(home.parent) == before


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
    ("then", "now"),
    [
        ({}, {"p": 3.0}),
        ({"p": 3.0}, {}),
        ({"p": 3.0}, {"p": 1.0}),
        ({"p": 3.0}, {"q": 3.0}),
        ({"p": 3.0}, {"p": 3.0, "q": 1.0}),
    ],
)
@pytest.mark.parametrize("rows", [200, 400])
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
    for rows, z in ((200, [0.0]), (150, [1.0]), (300, [0.0]), (300, [2.0])):
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
@pytest.mark.parametrize("rows", [300, 3000])
def test_a_simulator_that_differs_only_where_few_rows_are_is_refused(then, now, rows, tmp_path):
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
        (scaled(np.ones(3)[:1]), scaled(np.zeros(1)), "value of factor was float64"),
        (by_default(2), by_default(3), "default of factor was 2 and is 3"),
        (Method(2), Method(3), "attribute factor was 2 and is 3"),
        (from_source(1), from_source(2), "value of FACTOR was 1 and is 2"),
        (from_source(), from_source(half="(0.5 if np.min(rate) < 1e6 else 3)"), "code of 'y' is another"),
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
        ({"data": (1.0, 3.0)}, r"value of times was float64 \(2,\)"),
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
        (Method(2.0), Method(2.0)),
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


def test_where_code_is_not_to_be_seen_it_is_not_compared():
    found = code_of(read(of_rate(np.frompyfunc(lambda *a: 0, 3, 1))))
    assert found == {"y": {}}
    assert changes({}, found) == changes({"y": {"/code": "3.9:0"}}, found) == []
    other_python = {"y": {"/code": "2.7:12345678"}}
    assert changes(other_python, {"y": {"/code": "3.11:00000000"}}) == []


def read(made):
    return pk.simulation.ForwardModel.read(made).graph


def test_a_simulator_that_fails_now_is_said(tmp_path):
    path = tmp_path / "t.zarr"
    made = table(50, of_rate(poisson_one), store=path, batched=False)

    def license_expired(rng, rate, size=None):
        raise RuntimeError("no licence")

    with pytest.warns(UserWarning, match=r"were simulated again, and [0-9]+ of them fail now"):
        same(table(50, of_rate(license_expired), store=path), made)


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


def test_a_potential_that_a_store_of_before_did_not_have_is_refused(tmp_path):
    path = tmp_path / "t.zarr"
    table(100, with_potentials(), store=path)
    as_before(path)
    with pytest.raises(ValueError, match="other known densities and Potentials"):
        table(100, with_potentials(p=1.0), store=path)


def beyond(rng, mean, scale, size=None):
    y = models.normal_by_hand(rng, mean, scale, size)
    return y * 1e301 if mean > 1.5 else y


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


@pytest.mark.parametrize("name", ["first_parameters", "first_statistics", "observed", "observed_data_y"])
@pytest.mark.parametrize("how", ["zarr.json", "all", "chunk", "flipped"])
@pytest.mark.parametrize("old", [False, True])
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
    if old and (how == "chunk" or name == "observed_data_y"):
        return  # not to be known there
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


@pytest.mark.parametrize("source", ["parameters/c/0/0", "first_parameters/c/0/0", "status/c/0"])
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


def test_an_array_of_numbers_is_never_read_as_texts(tmp_path):
    path = tmp_path / "t.zarr"
    table(20, model(), store=path)
    shutil.copyfile(path / "statistic" / "zarr.json", path / "observed" / "zarr.json")
    with pytest.raises(ValueError, match=r"is damaged: its array 'observed' .*it is of type"):
        pk.StoredTable.open(path)


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
