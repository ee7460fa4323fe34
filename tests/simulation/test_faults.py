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

import pymc_kbr as pk
from tests import models
from tests.models import model, table, vector_model

ROWS = 200


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


# Each with a key word of its error, which is a ValueError where none is named.
STORES = {
    "store: another seed": (only(lambda f: simulated(f, random_seed=2)), "other random_seed: 1, and now 2"),
    "store: another prior": (only(lambda f: simulated(f, made=other_prior())), "another prior: row 0"),
    "store: another parameter": (only(lambda f: simulated(f, made=other_parameter())), "other parameters"),
    "store: another simulator": (
        only(lambda f: simulated(f, made=vector_model(shifted))),
        "another simulator",
    ),
    "store: batches asked for": (only(lambda f: simulated(f, batched=True)), "row by row"),
    "store: another version": (
        then(lambda f: metadata(f, lambda a: a.update(format_version=9)), simulated),
        "format version 9",
    ),
    "store: another format": (
        then(lambda f: metadata(f, lambda a: a.update(format="x")), simulated),
        "lacks the mark",
    ),
    "store: changed attributes": (
        then(lambda f: metadata(f, lambda a: a.update(seed='"7"')), simulated),
        "checksum",
    ),
    "store: cut metadata": (then(lambda f: cut(f / "table.zarr/zarr.json"), simulated), "as a Zarr group"),
    "store: an array is gone": (
        then(lambda f: shutil.rmtree(f / "table.zarr/statistics"), simulated),
        "restore it",
    ),
    "store: a chunk is cut and read": (
        then(lambda f: cut(f / "table.zarr/statistics/c/0/0"), lambda f: opened(f).load()),
        "damaged in the statistics",
    ),
    "store: no such folder": (
        only(lambda f: simulated(f, name="nowhere/table.zarr")),
        "no folder",
        FileNotFoundError,
    ),
    "store: empty name": (only(lambda f: simulated(f, store="")), "must be the path of a folder", TypeError),
    "store: and a table": (
        only(lambda f: pk.sample_abc(10, reference_table=loaded(f), store=f / "t.zarr", progressbar=False)),
        "both",
    ),
    "store: adjusted by neighbours in all rows": (
        only(
            lambda f: pk.Adjusted(adjustment="joint_neighbours").fit(
                opened(f).parameters, opened(f).statistics
            )
        ),
        "load some rows",
        TypeError,
    ),
}

FILES = {
    "file: a store": (only(lambda f: loaded(f, "table.zarr")), "open it with"),
    "file: another mark": (
        then(
            lambda f: replaced(f / "table.nc", b"pymc_kbr reference table", b"another reference table."),
            loaded,
        ),
        "lacks the mark",
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
    "threads and a limit": (only(lambda f: in_threads(timeout=1)), "threads, which cannot be interrupted"),
    "executor: a simulator that cannot be sent": (
        only(lambda f: simulated(f, name="n.zarr", made=no_pickle(), timeout=5)),
        "simulator of 'y' cannot be sent",
        TypeError,
    ),
    "timeout: and batches": (
        only(lambda f: table(10, model(no_work), timeout=1, batched=True)),
        "that of one simulation",
    ),
    "model: two shapes, with a store": (
        only(
            lambda f: simulated(
                f, name="n.zarr", made=vector_model(lambda rng, mean, scale, size=None: np.zeros(3))
            )
        ),
        r"returned an array of shape \(3,\)",
    ),
    "model: fails, with a store": (
        only(lambda f: simulated(f, draws=20, name="n.zarr", made=vector_model(no_work), on_failure="drop")),
        "20 of 20 simulations failed",
        pk.SimulationError,
    ),
}

FAULTS = {**STORES, **FILES, **ARGUMENTS}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_and_nothing_is_lost_or_left_behind(name, folder):
    fault, words, *error = FAULTS[name]
    call = fault(folder)
    before = contents(folder)
    with pytest.raises(*error or [ValueError], match=words):
        quietly(call)
    after = {path: held for path, held in contents(folder).items() if path.parts[0] != "n.zarr"}
    assert after == before
    assert not [path for path in folder.rglob("*") if path.suffix in (".partial", ".lock")]


def quietly(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return call()
