"""Bad stores, files, executors and limits: the words of each error, and that nothing is lost or left behind.

Bad models and arguments are in `test_refusals`, bad rows and frames in `test_reference_table`.
"""

import concurrent.futures
import json
import shutil
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytest
import zarr

import pymc_kbr as pk
from tests import models
from tests.models import model, table, vector_model

ROWS = 700


def by_hand():
    return vector_model(models.two_statistics_by_hand)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a store and a file of the same table."""
    folder = tmp_path_factory.mktemp("kept")
    made = table(ROWS, by_hand(), batched=False, store=folder / "table.zarr")
    made.save(folder / "table.nc")
    return folder


@pytest.fixture
def folder(kept, tmp_path):
    return Path(shutil.copytree(kept, tmp_path / "here"))


def contents(folder):
    """Every file under a folder, with what it holds."""
    return {p.relative_to(folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def no_work(rng, mean, scale, size=None):
    raise AssertionError("simulated")


def simulated(folder, *, name="table.zarr", made=None, draws=ROWS, **kwargs):
    return table(draws, made or by_hand(), **{"store": folder / name, **kwargs})


def other_prior():
    with pm.Model() as made:
        mean = pm.Normal("mean", 0, 2)
        scale = pm.HalfNormal("scale", 1)
        pk.vector_simulator("y", models.two_statistics_by_hand, mean, scale, observed=np.array([0.1, 1.0]))
    return made


def other_parameter():
    with pm.Model() as made:
        location = pm.Normal("location", 0, 1)
        scale = pm.HalfNormal("scale", 1)
        pk.vector_simulator(
            "y", models.two_statistics_by_hand, location, scale, observed=np.array([0.1, 1.0])
        )
    return made


def other_support():
    with pm.Model() as made:
        mean = pm.Uniform("mean", -3, 3)
        scale = pm.HalfNormal("scale", 1)
        pk.vector_simulator("y", models.two_statistics_by_hand, mean, scale, observed=np.array([0.1, 1.0]))
    return made


def shifted(rng, mean, scale, size=None):
    return models.two_statistics_by_hand(rng, mean, scale, size) + 1e-6


def metadata(folder, change):
    path = folder / "table.zarr" / "zarr.json"
    document = json.loads(path.read_text())
    change(document["attributes"])
    path.write_text(json.dumps(document))


def cut(path, share=0.5):
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])


def replaced(path, old, new):
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


def then(action, call):
    """A fault that is made before the call; what it changed is no loss."""

    def fault(folder):
        action(folder)
        return lambda: call(folder)

    return fault


def only(call):
    return then(lambda folder: None, call)


def opened(folder):
    return pk.StoredTable.open(folder / "table.zarr")


def loaded(folder, name="table.nc"):
    return pk.ReferenceTable.load(folder / name)


STORES = {
    "store: another seed": (
        only(lambda f: simulated(f, random_seed=2)),
        ValueError,
        "other random_seed: 1, and now 2",
    ),
    "store: another prior": (
        only(lambda f: simulated(f, made=other_prior())),
        ValueError,
        "another prior: row 0",
    ),
    "store: another parameter": (
        only(lambda f: simulated(f, made=other_parameter())),
        ValueError,
        "other parameters: .*'mean'.*'location'",
    ),
    "store: another support": (
        only(lambda f: simulated(f, made=other_support())),
        ValueError,
        "other support of the prior",
    ),
    "store: another simulator": (
        only(lambda f: simulated(f, made=vector_model(shifted))),
        ValueError,
        "another simulator: row 0 was",
    ),
    "store: other statistics": (
        only(lambda f: simulated(f, made=model())),
        ValueError,
        "other statistics: .*(2,).*(4,)",
    ),
    "store: batches asked for": (
        only(lambda f: simulated(f, batched=True)),
        ValueError,
        "simulated row by row, and batched is True",
    ),
    "store: another version": (
        then(lambda f: metadata(f, lambda a: a.update(format_version=9)), simulated),
        ValueError,
        "format version 9 and this pymc_kbr reads version 1",
    ),
    "store: another format": (
        then(lambda f: metadata(f, lambda a: a.update(format="x")), simulated),
        ValueError,
        "no store of simulations: it lacks the mark",
    ),
    "store: changed attributes": (
        then(lambda f: metadata(f, lambda a: a.update(seed='"7"')), simulated),
        ValueError,
        "do not match their checksum",
    ),
    "store: lost attributes": (
        then(lambda f: metadata(f, lambda a: a.pop("support")), opened),
        ValueError,
        "damaged",
    ),
    "store: no metadata": (
        then(lambda f: (f / "table.zarr/zarr.json").unlink(), simulated),
        ValueError,
        "cannot be read as a Zarr group",
    ),
    "store: cut metadata": (
        then(lambda f: cut(f / "table.zarr/zarr.json"), simulated),
        ValueError,
        "cannot be read as a Zarr group",
    ),
    "store: empty metadata": (
        then(lambda f: cut(f / "table.zarr/zarr.json", 0), simulated),
        ValueError,
        "cannot be read as a Zarr group",
    ),
    "store: an array is gone": (
        then(lambda f: shutil.rmtree(f / "table.zarr/statistics"), simulated),
        ValueError,
        "is damaged.*restore it, or move it away",
    ),
    "store: an array's metadata are cut": (
        then(lambda f: cut(f / "table.zarr/status/zarr.json"), simulated),
        ValueError,
        "is damaged",
    ),
    "store: a chunk is cut and read": (
        then(lambda f: cut(f / "table.zarr/statistics/c/0/0"), lambda f: opened(f).load()),
        ValueError,
        "damaged in the statistics of rows 0 to",
    ),
    "store: the path is a file": (
        only(lambda f: simulated(f, name="table.nc")),
        ValueError,
        "table.nc is a file; a store is a folder",
    ),
    "store: an empty folder": (
        then(lambda f: (f / "empty").mkdir(), lambda f: simulated(f, name="empty")),
        ValueError,
        "cannot be read as a Zarr group",
    ),
    "store: a folder of something else": (
        then(
            lambda f: (f / "notes").mkdir() or (f / "notes/a.txt").write_text("a"),
            lambda f: simulated(f, name="notes"),
        ),
        ValueError,
        "cannot be read as a Zarr group",
    ),
    "store: a foreign group": (
        then(lambda f: zarr.create_group(f / "foreign.zarr"), lambda f: simulated(f, name="foreign.zarr")),
        ValueError,
        "no store of simulations",
    ),
    "store: a Zarr array": (
        then(
            lambda f: zarr.save(str(f / "array.zarr"), np.zeros(3)), lambda f: simulated(f, name="array.zarr")
        ),
        ValueError,
        "cannot be read as a Zarr group",
    ),
    "store: no such folder": (
        only(lambda f: simulated(f, name="nowhere/table.zarr")),
        FileNotFoundError,
        "there is no folder .*nowhere; make it first",
    ),
    "store: under a file": (
        only(lambda f: simulated(f, name="table.nc/table.zarr")),
        FileNotFoundError,
        "there is no folder .*table.nc",
    ),
    "store: empty name": (only(lambda f: simulated(f, store="")), TypeError, "must be the path of a folder"),
    "store: no path": (only(lambda f: simulated(f, store=3)), TypeError, "store is 3; it must be the path"),
    "store: not there": (
        only(lambda f: pk.StoredTable.open(f / "none.zarr")),
        FileNotFoundError,
        "there is no store .*none.zarr",
    ),
    "store: opened as a file": (
        only(lambda f: pk.StoredTable.open(f / "table.nc")),
        ValueError,
        "table.nc is a file",
    ),
    "store: and a table": (
        only(lambda f: pk.sample_abc(10, reference_table=loaded(f), store=f / "t.zarr", progressbar=False)),
        ValueError,
        "both a reference table and a store",
    ),
    "store: slices with steps": (
        only(lambda f: opened(f).statistics[0:10:2]),
        TypeError,
        "slices of step one.*load the table",
    ),
    "store: adjusted by neighbours in all rows": (
        only(
            lambda f: pk.Adjusted(adjustment="joint_neighbours").fit(
                opened(f).parameters, opened(f).statistics
            )
        ),
        TypeError,
        "load some rows",
    ),
    "store: another observation": (
        only(lambda f: opened(f).with_observed({"a": 1.0})),
        ValueError,
        "the observation lacks",
    ),
}

FILES = {
    "file: cut": (
        then(lambda f: cut(f / "table.nc"), loaded),
        ValueError,
        "cannot be read as NetCDF: it is damaged",
    ),
    "file: empty": (then(lambda f: cut(f / "table.nc", 0), loaded), ValueError, "cannot be read as NetCDF"),
    "file: text": (
        then(lambda f: (f / "a.nc").write_text("mean,scale\n1,2\n"), lambda f: loaded(f, "a.nc")),
        ValueError,
        "cannot be read as NetCDF",
    ),
    "file: not there": (
        only(lambda f: loaded(f, "none.nc")),
        FileNotFoundError,
        "there is no file .*none.nc",
    ),
    "file: a folder": (
        then(lambda f: (f / "b.nc").mkdir(), lambda f: loaded(f, "b.nc")),
        FileNotFoundError,
        "there is no file",
    ),
    "file: a store": (
        only(lambda f: loaded(f, "table.zarr")),
        ValueError,
        "is a store of simulations; open it with",
    ),
    "file: another mark": (
        then(
            lambda f: replaced(f / "table.nc", b"pymc_kbr reference table", b"another reference table."),
            loaded,
        ),
        ValueError,
        "lacks the mark",
    ),
    "file: written over": (
        only(lambda f: loaded(f).save(f / "table.nc")),
        FileExistsError,
        "is there already",
    ),
    "file: no folder": (
        only(lambda f: loaded(f).save(f / "nowhere/table.nc")),
        FileNotFoundError,
        "there is no folder",
    ),
    "file: appended to itself": (
        only(lambda f: loaded(f).append(loaded(f))),
        ValueError,
        "both tables were simulated with the seed 1",
    ),
}


def no_pickle():
    lock = __import__("threading").Lock()

    def fn(rng, mean, scale, size=None):
        with lock:
            return models.normal_by_hand(rng, mean, scale, size)

    return model(fn)


def in_threads(**kwargs):
    with concurrent.futures.ThreadPoolExecutor(1) as executor:
        return table(10, model(no_work), executor=executor, **kwargs)


ARGUMENTS = {
    "executor: a word": (
        only(lambda f: table(10, model(no_work), executor="dask")),
        TypeError,
        "give a concurrent.futures.Executor",
    ),
    "executor: a class": (
        only(lambda f: table(10, model(no_work), executor=concurrent.futures.ThreadPoolExecutor)),
        TypeError,
        "give a concurrent.futures.Executor",
    ),
    "executor: threads and a limit": (
        only(lambda f: in_threads(timeout=1)),
        ValueError,
        "threads, which cannot be interrupted",
    ),
    "executor: a simulator that cannot be sent": (
        only(lambda f: simulated(f, name="n.zarr", made=no_pickle(), timeout=5)),
        TypeError,
        "simulator of 'y' cannot be sent",
    ),
    "timeout: zero": (only(lambda f: table(10, model(no_work), timeout=0)), ValueError, "timeout is 0"),
    "timeout: negative": (
        only(lambda f: table(10, model(no_work), timeout=-2.5)),
        ValueError,
        "timeout is -2.5",
    ),
    "timeout: infinite": (
        only(lambda f: table(10, model(no_work), timeout=np.inf)),
        ValueError,
        "timeout is inf",
    ),
    "timeout: a word": (
        only(lambda f: table(10, model(no_work), timeout="1 s")),
        TypeError,
        "a number of seconds",
    ),
    "timeout: True": (only(lambda f: table(10, model(no_work), timeout=True)), TypeError, "timeout is True"),
    "timeout: and batches": (
        only(lambda f: table(10, model(no_work), timeout=1, batched=True)),
        ValueError,
        "that of one simulation",
    ),
    "draws: none, with a store": (
        only(lambda f: simulated(f, draws=0, name="n.zarr")),
        ValueError,
        "draws is 0",
    ),
    "model: two shapes, with a store": (
        only(
            lambda f: simulated(
                f, name="n.zarr", made=vector_model(lambda rng, mean, scale, size=None: np.zeros(3))
            )
        ),
        ValueError,
        r"returned an array of shape \(3,\)",
    ),
    "model: fails, with a store": (
        only(lambda f: simulated(f, draws=20, name="n.zarr", made=vector_model(no_work), on_failure="drop")),
        pk.SimulationError,
        "20 of 20 simulations failed",
    ),
}

FAULTS = {**STORES, **FILES, **ARGUMENTS}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_nothing_is_lost_or_left_behind(name, folder):
    fault, error, words = FAULTS[name]
    call = fault(folder)
    before = contents(folder)
    with pytest.raises(error, match=words):
        quietly(call)
    after = {path: held for path, held in contents(folder).items() if path.parts[0] != "n.zarr"}
    assert after == before
    assert not [path for path in folder.rglob("*") if path.suffix in (".partial", ".lock")]


def test_there_are_forty_faults():
    assert len(FAULTS) >= 40


# --- fuzz ---


def harm(path, rng):
    """Change, drop or add some bytes of a file."""
    content = bytearray(path.read_bytes())
    how = rng.integers(4)
    at = int(rng.integers(max(1, len(content))))
    if how == 0 and content:
        content[at] ^= 1 << int(rng.integers(8))
    elif how == 1:
        del content[at:]
    elif how == 2:
        del content[at : at + int(rng.integers(1, 64))]
    else:
        content[at:at] = rng.bytes(int(rng.integers(1, 64)))
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("seed", range(30))
def test_a_harmed_file_is_refused_or_gives_the_same_table(seed, folder):
    whole = loaded(folder)
    harm(folder / "table.nc", np.random.default_rng(seed))
    assert_same_or_refused(lambda: loaded(folder), whole, "table.nc")


@pytest.mark.parametrize("seed", range(30))
def test_a_harmed_store_is_refused_or_gives_the_same_table(seed, folder, kept):
    rng = np.random.default_rng(seed)
    files = sorted(p for p in (folder / "table.zarr").rglob("*") if p.is_file())
    harm(files[rng.integers(len(files))], rng)
    assert_same_or_refused(lambda: simulated(folder), loaded(kept), "table.zarr")


def quietly(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call()


def assert_same_or_refused(call, two, name):
    try:
        one = quietly(call)
    except ValueError as error:
        refused = str(error)
    else:
        refused = name
        assert_same(one, two)
    assert name in refused


def assert_same(one, two):
    np.testing.assert_array_equal(one.parameters, two.parameters)
    np.testing.assert_array_equal(one.statistics, two.statistics)
    np.testing.assert_array_equal(one.observed, two.observed)
    assert (one.support, one.seed) == (two.support, two.seed)
    assert one.parameter_names == two.parameter_names
