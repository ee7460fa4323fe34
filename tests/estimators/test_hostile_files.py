"""Files that were damaged or crafted: refused, or equal to what was saved, and nothing of them is run.

``PYMC_KBR_HOSTILE_FILES=12000 python -m pytest tests/estimators/test_hostile_files.py`` tries 12,000 of them.
"""

import json
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pymc_kbr as pk
from pymc_kbr.estimators import saving
from pymc_kbr.estimators.saving import CHECKSUM, DOCUMENT
from pymc_kbr.selection.selection import Candidate

NUMBER = int(os.environ.get("PYMC_KBR_HOSTILE_FILES", "200"))


@pytest.fixture
def saved(tmp_path):
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(50, 2))
    fitted = pk.Rejection(20).fit(theta, theta + rng.normal(size=(50, 2)), random_seed=1)
    return pk.save(fitted, tmp_path / "rejection.npz")


def arrays_in(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


def crafted(path, nodes, **state):
    """The file with more nodes and attributes of its estimator, and a checksum that is right."""
    arrays = arrays_in(path)
    document = json.loads(arrays[DOCUMENT].tobytes())
    first = len(document["nodes"])
    document["nodes"] += nodes(first) if callable(nodes) else nodes
    for name, node in state.items():
        document["nodes"][document["root"][0]]["state"][name] = [first + node]
    arrays[DOCUMENT] = np.frombuffer(json.dumps(document).encode(), np.uint8)
    arrays[CHECKSUM] = saving._checksum(arrays)
    np.savez(path, **arrays)
    return path


def test_damaged_and_crafted_files_are_refused_or_equal_and_run_nothing():
    pytest.importorskip("pandas")  # these tests also run where only NumPy, SciPy and scikit-learn are
    command = [sys.executable, "-m", "tests.hostile_files", "--number", str(NUMBER), "--seed", "2"]
    root = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=3_000)
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    assert sum(json.loads(done.stdout)["counts"].values()) == NUMBER


@pytest.mark.parametrize("form", ["named", "object"])
@pytest.mark.parametrize(
    "name",
    ["collections.Counter", "functools.partial", "gaussian_kde", "KDTree", "ThreadPoolExecutor", "Path"],
)
def test_classes_that_a_module_imports_are_not_reachable(name, form, saved):
    """Under none of the names that modules of this package have for them."""
    short = name.rpartition(".")[2]
    modules = [
        module
        for module, held in list(sys.modules.items())
        if module.startswith("pymc_kbr.") and isinstance(vars(held).get(short), type)
    ]
    data = saved.read_bytes()
    for module in [*modules, "pymc_kbr.estimators.saving"]:
        saved.write_bytes(data)
        node = {"named": f"{module}:{short}", "items": []}
        if form == "object":
            node = {"object": f"{module}:{short}", "state": {}}
        with pytest.raises(ValueError, match=rf"{saved} (names|holds)"):
            pk.load(crafted(saved, [node], x=0))


@pytest.mark.parametrize(
    "name",
    ["saving:_Reader", "saving:_Writer", "saving:_Refused", "likelihood.tempered:ImpossibleObservation"],
)
def test_the_reader_and_classes_that_are_no_values_are_not_reachable(name, saved):
    node = {"object": f"pymc_kbr.estimators.{name}", "state": {"_class": 1}}
    with pytest.raises(ValueError, match=rf"{saved} names .* which is no"):
        pk.load(crafted(saved, [node], x=0))


@pytest.mark.parametrize("method", ["fit", "__init__", "__class__", "condition", "_log_prior", 3])
def test_methods_are_listed(method, saved):
    with pytest.raises(ValueError, match=rf"{saved} names the method"):
        pk.load(crafted(saved, [{"method": method, "of": [0]}], x=0))


@pytest.mark.parametrize(
    "nodes",
    [
        [{"dtype": "O", "class": False}],
        [{"dtype": "f8,O", "class": True}],
        [{"tree": 3, "leafsize": 1}],
        [{"tree": [0], "leafsize": 1}],
        [{"tuple": [[-1]]}],
        [{"tuple": [[True]]}],
        [{"dict": [[1, 2], [1, 3]]}],
        [{"object": "pymc_kbr.estimators.rejection:Rejection", "state": {}}],
        [{"named": "pymc_kbr.estimators.likelihood.choice:Choice", "items": [1]}],
        [{"list": [], "tuple": []}],
        lambda first: [{"tuple": [[first]]}],
        lambda first: [{"tuple": [[first + 1 + i]]} for i in range(5_000)] + [{"tuple": []}],
        # The hash of the last one would take 2^60 steps.
        lambda first: (
            [{"dict": [[[first + 1], 1]]}]
            + [{"tuple": [[first + 2 + i]] * 2} for i in range(60)]
            + [{"tuple": []}]
        ),
    ],
)
def test_nodes_that_save_does_not_write_are_refused(nodes, saved):
    with pytest.raises(ValueError, match=f"{saved} "):
        pk.load(crafted(saved, nodes, x=0))


def zipped(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members:
            archive.writestr(name, content)


def members_in(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def header(shape, descr="<f8"):
    text = str({"descr": descr, "fortran_order": False, "shape": shape}).replace("}", ", }") + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize("shape", [(10**10,), (10**6, 10**6), (2**62, 8), (10**40,), (3, 10**9), (0, 10**12)])
def test_a_shape_longer_than_the_file_takes_no_memory(shape, saved):
    members = [(n, header(shape) + bytes(24)) if n == "a0.npy" else (n, c) for n, c in members_in(saved)]
    zipped(saved, members)
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"{saved} is broken: 'a0.npy' is not as long as its shape says"):
            pk.load(saved)
        assert tracemalloc.get_traced_memory()[1] < 10e6
    finally:
        tracemalloc.stop()


def test_an_archive_that_claims_more_than_it_can_hold_takes_no_memory(saved):
    """In its directory, where the length of what is unpacked stands beside that of what is packed."""
    data = bytearray(saved.read_bytes())
    at = data.find(b"PK\x01\x02")
    data[at + 24 : at + 28] = (2**32 - 2).to_bytes(4, "little")
    saved.write_bytes(data)
    with pytest.raises(ValueError, match=f"{saved} is broken: .* claims to be longer than it can be"):
        pk.load(saved)


@pytest.mark.parametrize("name", ["../a0.npy", "/tmp/a0.npy", "a0.npz", "b.npy", "a-1.npy", "a0"])
def test_members_of_other_names_are_refused(name, saved, tmp_path):
    zipped(saved, [*members_in(saved), (name, header((1,)) + bytes(8))])
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=f"{saved} is no file of a fitted estimator: it holds"):
        pk.load(saved)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("compression", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(compression, saved):
    members = members_in(saved)
    with zipfile.ZipFile(saved, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    with pytest.raises(ValueError, match=f"{saved} is broken: .* compressed as none is"):
        pk.load(saved)


def test_numbers_of_another_file_are_refused(saved, tmp_path):
    arrays = arrays_in(saved)
    name = next(name for name, array in arrays.items() if array.shape == (50, 2))
    arrays[name] = arrays[name][::-1].copy()
    np.savez(saved, **arrays)
    with pytest.raises(ValueError, match=f"{saved} is damaged, or was changed: .* checksum"):
        pk.load(saved)


def test_a_file_without_a_checksum_is_read(saved):
    """As version 0.2.0.dev0 wrote it."""
    before = pk.load(saved).condition([0.1, 0.2]).atoms
    np.savez(saved, **{name: array for name, array in arrays_in(saved).items() if name != CHECKSUM})
    np.testing.assert_array_equal(pk.load(saved).condition([0.1, 0.2]).atoms, before)


def test_a_bound_on_memory_does_not_refuse_what_compresses_well(tmp_path):
    """Zeros are packed as tightly as anything can be."""
    selection = pk.Selection((Candidate("one", pk.Rejection(20), scores=np.zeros(1_000_000)),), 1.5)
    path = pk.save(selection, tmp_path / "zeros.npz")
    assert path.stat().st_size < 8e6 / 800
    np.testing.assert_array_equal(pk.load(path).chosen.scores, np.zeros(1_000_000))


# --- where a file is written ---


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_folder_is_refused_and_stays_as_it_is(overwrite, saved, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    fitted = pk.load(saved)
    before = sorted(tmp_path.rglob("*"))
    kind = ValueError if overwrite else FileExistsError
    with pytest.raises(kind, match=f"{folder} is a folder; give the name of a file"):
        pk.save(fitted, folder, overwrite=overwrite)
    with pytest.raises(ValueError, match=f"{folder} is a folder"):
        pk.load(folder)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        pk.save(fitted, tmp_path / "gone" / "e.npz", overwrite=overwrite)
    assert sorted(tmp_path.rglob("*")) == before


def test_an_object_that_load_would_refuse_is_not_saved(tmp_path):
    fitted = pk.Rejection(3).fit(np.arange(9.0)[:, None], np.arange(9.0)[:, None])
    for name, value in {
        "condition": 3,
        "extra": np.array([None]),
        "kind": {(1, (2,)): 3},
        "as": fitted.fit,
    }.items():
        fitted.__dict__[name] = value
        with pytest.raises(TypeError, match="cannot be saved without running code"):
            pk.save(fitted, tmp_path / "e.npz")
        del fitted.__dict__[name]
    assert not list(tmp_path.iterdir())
    assert pk.save(fitted, tmp_path / "e.npz").exists()
