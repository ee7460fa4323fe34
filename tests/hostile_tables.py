"""Damaged and crafted tables and stores: ``python -m tests.hostile_tables nc --number 3000 --seed 1``.

As `tests.hostile_files` for `ReferenceTable.load` (``nc``) and `StoredTable.open` with `load` (``zarr``).
Of a damaged store fewer rows may be read, of which it says that they are unfinished. Its observation has no
checksum across files, and is counted where it is lost. The libraries beneath are written in C: files are
tried in a process that may die, and goes on with the next one. Prints counts as JSON; ``died`` are files that
ended the process.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pandas as pd

import pymc_kbr as pk
from pymc_kbr.tables import file as table_file
from pymc_kbr.tables import layout
from tests.hostile_files import Guard, TooLong, _too_long, damaged

ROOT = Path(__file__).parents[1]
PACKAGES = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


def made():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "s"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s"], observed=[0.1], bounds={"a": (-9, 9)}
    )


def made_store(path):
    import pymc as pm

    def fn(rng, mu, size=None):
        return rng.normal(mu, 1.0, size)

    with pm.Model():
        mu = pm.Normal("mu")
        pm.Simulator("y", fn, mu, observed=0.3)
        pk.simulate(40, store=path, random_seed=1, progressbar=False)


VALUES = (
    None,
    True,
    -1,
    0,
    10**30,
    1.5,
    "x",
    "",
    [],
    {},
    [1, 2],
    {"kind": "interval"},
    "pickle",
    [10**9] * 2,
)


def other_json(document, rng):
    """A value of JSON with one part of it changed, left out or added."""
    value = VALUES[int(rng.integers(len(VALUES)))]
    if isinstance(document, dict) and document and rng.random() < 0.9:
        name = str(rng.choice(sorted(document)))
        match int(rng.integers(4)):
            case 0:
                return {k: v for k, v in document.items() if k != name}
            case 1:
                return document | {str(rng.choice(["id", "name", "codecs", "x", "filters"])): value}
            case _:
                return document | {name: other_json(document[name], rng)}
    if isinstance(document, list) and document and rng.random() < 0.9:
        i = int(rng.integers(len(document)))
        return [*document[:i], other_json(document[i], rng), *document[i + 1 :]]
    return value


def crafted_nc(path, rng):
    """The file with other datasets, or other documents and the checksum that is theirs."""
    if rng.random() < 0.5:
        arrays, documents = table_file.read(path)
        name = str(rng.choice(sorted(documents)))
        documents |= {name: other_json(documents[name], rng)}
        documents = {k: json.dumps(v, sort_keys=True) for k, v in documents.items()}
        with h5py.File(path, "a") as file:
            for name in set(file.attrs) - {"format", "format_version", "checksum"}:
                if not name.startswith("_"):
                    del file.attrs[name]
            for name, text in documents.items():
                file.attrs[name] = text
            file.attrs["checksum"] = table_file._checksum(arrays, documents)
        return True
    with h5py.File(path, "a") as file:
        name = str(rng.choice(sorted(file)))
        match int(rng.integers(8)):
            case 0:
                del file[name]
            case 1:
                del file[name]
                file.create_dataset(
                    name, shape=(10 ** int(rng.integers(3, 15)),), chunks=(1000,), compression=4
                )
            case 2:
                del file[name]
                kinds = [
                    h5py.ref_dtype,
                    h5py.vlen_dtype(float),
                    np.dtype([("a", float)]),
                    np.dtype("V8"),
                    "S9",
                ]
                file.create_dataset(name, shape=(3,), dtype=kinds[int(rng.integers(len(kinds)))])
            case 3:
                del file[name]
                kinds = [h5py.SoftLink("/parameters"), h5py.ExternalLink("/etc/passwd", "/x")]
                file[name] = kinds[int(rng.integers(2))]
            case 4:
                del file[name]
                file.create_dataset(name, data=np.arange(9.0).reshape(3, 3), compression="lzf")
            case 5:
                del file[name]
                file.create_dataset(name, (3,), "f8", external=[("/etc/hostname", 0, 24)])
            case 6:
                given = [np.arange(3), "x" * 100, 1.5, np.array([b"a"]), h5py.Empty("f8")]
                on = file if rng.random() < 0.5 else file[name]
                called = [*on.attrs, "_FillValue", "scale_factor", "_Encoding", "coordinates", "dtype"]
                on.attrs[str(rng.choice(called))] = given[int(rng.integers(len(given)))]
            case 7:
                file.create_group("g") if rng.random() < 0.5 else file.create_dataset("more", data=[1.0])
    return False


def changed_nc(path, rng):
    if rng.random() < 0.4:
        return crafted_nc(path, rng)
    data = path.read_bytes()
    if rng.random() < 0.5:  # what describes the arrays lies at the start
        most = min(len(data), 4096)
        data = damaged(data[:most], rng) + data[most:]
    else:
        data = damaged(data, rng)
    path.write_bytes(data)
    return False


def changed_zarr(path, rng):
    files = sorted(file for file in path.rglob("*") if file.is_file())
    one, other = (files[int(i)] for i in rng.integers(0, len(files), 2))
    texts = [file for file in files if file.name == "zarr.json"]
    match int(rng.integers(6)):
        case 0 | 1:
            one.write_bytes(damaged(one.read_bytes(), rng) if one.stat().st_size > 201 else b"")
        case 2:
            data = one.read_bytes()
            one.write_bytes(other.read_bytes())
            other.write_bytes(data)
        case 3:
            one.unlink()
        case 4:
            text = texts[int(rng.integers(len(texts)))]
            text.write_text(json.dumps(other_json(json.loads(text.read_text()), rng)))
            return text.parent == path
        case 5:
            text = path / "zarr.json"
            document = json.loads(text.read_text())
            attributes = document["attributes"]
            texts = {k: v for k, v in attributes.items() if k not in layout.MARKS}
            name = str(rng.choice(sorted(texts)))
            texts[name] = json.dumps(other_json(json.loads(texts[name]), rng))
            document["attributes"] = attributes | texts | {"checksum": layout.checksum_of(texts)}
            text.write_text(json.dumps(document))
            return True
    return False


def read(kind, path):
    if kind == "nc":
        return pk.ReferenceTable.load(path)
    store = pk.StoredTable.open(path)
    return store.load()


def used(table):
    repr(table)
    table.to_dataframe()
    return table.support.size, table.failures.messages, table.provenance, table.origin


def child(kind, number, seed, start, folder):
    """Try files from `start` on; a line for each."""
    guard = Guard(also=("_thread.start_new_thread", "_thread.start_joinable_thread"))  # Zarr reads on threads
    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    warnings.simplefilter("ignore")
    whole, path = folder / f"whole.{kind}", folder / f"it.{kind}"
    before = read(kind, whole)
    for _ in range(2):
        used(before)
        before.to_dataframe()
    for case in range(start, number):
        rng = np.random.default_rng([seed, case])
        shutil.rmtree(path, ignore_errors=True) if kind == "zarr" else path.unlink(missing_ok=True)
        (shutil.copytree if kind == "zarr" else shutil.copy)(whole, path)
        free = (changed_zarr if kind == "zarr" else changed_nc)(path, rng)
        print(json.dumps([case, "begun", []]), flush=True)
        outcome, found = "refused", None
        signal.setitimer(signal.ITIMER_REAL, 20)
        files = [path, *path.rglob("*")] if kind == "zarr" else [path]
        with guard.watching(*files) as seen:
            try:
                found = read(kind, path)
                used(found)
                outcome = "read" if free else "equal"
            except TooLong:
                outcome = "long"
            except ValueError as error:
                if str(path) not in str(error) or len(str(error)) > 3000:
                    outcome = f"refused with other words: {error}"[:300]
            except BaseException as error:
                outcome = f"raised {type(error).__name__}: {error}"[:300]
        signal.setitimer(signal.ITIMER_REAL, 0)
        if outcome == "equal" and not same(found, before):
            outcome = "fewer rows" if kind == "zarr" and rows_of(found) < rows_of(before) else "unequal"
        if outcome == "unequal" and kind == "zarr" and rows_of(found) == rows_of(before):
            outcome = "without its observation"
        print(json.dumps([case, outcome, list(seen)[:3]]), flush=True)


def same(found, before):
    arrays = ("parameters", "statistics", "observed")
    return found.to_dataframe().equals(before.to_dataframe()) and all(
        np.array_equal(getattr(found, name), getattr(before, name)) for name in arrays
    )


def rows_of(table):
    return set(map(tuple, np.hstack([table.parameters, table.statistics]).tolist()))


def main(kind, number, seed):
    counts, faults, start = Counter(), [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if kind == "zarr":
            made_store(folder / "whole.zarr")
        else:
            made().save(folder / "whole.nc")
        while start < number:
            command = [sys.executable, "-m", "tests.hostile_tables", kind, "--number", str(number)]
            command += ["--seed", str(seed), "--start", str(start), "--folder", name]
            done = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, env=os.environ | {"PYTHONPATH": PACKAGES}
            )
            open_simulation = None
            for line in done.stdout.splitlines():
                case, outcome, ran = json.loads(line)
                if outcome == "begun":
                    open_simulation = case
                    continue
                open_simulation = None
                counts[outcome] += 1
                if ran or outcome not in (
                    "refused",
                    "read",
                    "equal",
                    "fewer rows",
                    "without its observation",
                ):
                    faults.append([case, outcome, ran])
                start = case + 1
            if open_simulation is not None:
                counts["died"] += 1
                faults.append([open_simulation, f"died with {done.returncode}", done.stderr[-300:]])
                start = open_simulation + 1
            elif done.returncode:
                print(done.stderr)
                return 2
    print(
        json.dumps({"files": number, "counts": dict(sorted(counts.items())), "faults": faults[:40]}, indent=1)
    )
    return 1 if faults else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=["nc", "zarr"])
    parser.add_argument("--number", type=int, default=3_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.folder is None:
        sys.exit(main(given.kind, given.number, given.seed))
    child(given.kind, given.number, given.seed, given.start, given.folder)
