"""Damaged and crafted files of estimators: ``python -m tests.hostile_files --number 12000 --seed 1``.

Each file is refused by `pymc_kbr.load` with a ValueError that names it, or is read. What was damaged, and is
read, equals what was saved. What was crafted together with its checksum, and is read, consists of values
alone. Meanwhile, and while the methods of what was read are called, an audit hook of Python notes every file
that is opened for writing, import, compilation, process and socket: there must be none. It prints counts.
"""

import argparse
import contextlib
import copy
import importlib
import io
import json
import os
import pkgutil
import resource
import signal
import sys
import tempfile
import types
import warnings
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
from scipy.spatial import KDTree

import pymc_kbr as pk
from pymc_kbr.estimators import saving
from pymc_kbr.estimators.saving import CHECKSUM, DOCUMENT, METHODS
from pymc_kbr.selection.selection import Candidate
from tests.saved_files import OBSERVED, tables

ALLOWED = {
    "builtins.id",
    "object.__getattr__",
    "object.__setattr__",
    "object.__delattr__",
    "sys._getframe",
    "sys._getframemodulename",
    "array.__new__",
    "mmap.__new__",
}
"""Events of Python that are of no consequence."""


class Guard:
    """Notes events of Python while it is entered."""

    def __init__(self, also=()):
        self.allowed = ALLOWED | {*also}
        self.on, self.reads, self.seen = False, (), []
        sys.addaudithook(self._hook)

    def _hook(self, event, args):
        if not self.on or event in self.allowed:
            return
        if event == "open":
            path, _, flags = args
            writes = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
            there = str(path).startswith(self.reads) if self.reads else False
            if there and not (flags or 0) & writes:
                return
        if event in ("os.listdir", "os.scandir", "os.mkdir") and str(args[0]) in self.reads:  # it is there
            return
        self.on = False  # so that what notes it is not noted
        self.seen.append(f"{event} {args!r}"[:300])
        self.on = True

    @contextlib.contextmanager
    def watching(self, *reads):
        """Within it only these files may be read, and nothing else may happen."""
        self.reads, self.seen, self.on = (*map(str, reads), "/sys/fs/cgroup/memory.max"), [], True
        try:
            yield self.seen
        finally:
            self.on = False


class TooLong(Exception):
    """A call that crafted numbers made long."""


def originals():
    """What is saved: one of several kinds each, and what is called of it."""
    table, other = tables()
    rows = table.parameters, table.statistics
    estimators = [
        pk.Rejection(5),
        pk.Localised(neighbours=12),
        pk.Adjusted(),
        pk.ConditionalMean(solver="nystroem"),
        pk.KernelDensity(),
        pk.KernelLikelihood("location_scale", particles=20),
    ]
    made = [estimator.fit(*rows, random_seed=1) for estimator in estimators]
    made.append(pk.compare_models({"one": table, "two": other}, OBSERVED, method="logistic", random_seed=1))
    made.append(pk.calibrate("adjusted", table, rows=10, random_seed=1, progressbar=False))
    made.append(pk.Selection((Candidate("one", pk.Rejection(20), scores=np.linspace(0, 1, 5)),), 1.5))
    return made


def used(value):
    """Call what a user calls first."""
    for call in (
        lambda: repr(value),
        lambda: value.summary(),
        lambda: value.probabilities,
        lambda: value.get_params(),
        lambda: [(p.mean(), p.draw(5, 1), repr(p)) for p in value.condition(OBSERVED[:1])],
    ):
        with contextlib.suppress(Exception):
            call()


def written(value):
    """All that a value is, as text and bytes."""
    writer = saving._Writer()
    root = writer.node(value, "")
    arrays = [(name, a.dtype.str, a.shape, a.tobytes("A")) for name, a in writer.arrays.items()]
    return json.dumps([root, writer.nodes]), arrays


def foreign(value):
    """The first part of a value that is none of this package, NumPy or plain Python; None where all are."""
    stack, seen = [value], {}
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen[id(one)] = one
        if isinstance(one, types.MethodType):
            if one.__func__.__name__ not in METHODS or not one.__func__.__module__.startswith("pymc_kbr."):
                return one
            stack.append(one.__self__)
        elif type(one) in (list, tuple) or (
            isinstance(one, tuple) and type(one).__module__.startswith("pymc_kbr.")
        ):
            stack.extend(one)
        elif type(one) is dict:
            stack.extend([*one, *one.values()])
        elif type(one) is np.ndarray:
            if one.dtype.kind not in "biufc":
                return one
        elif isinstance(one, type):
            if not issubclass(one, np.generic):
                return one
        elif type(one).__module__.startswith("pymc_kbr."):
            if type(one) is saving._Reader:
                return one
            stack.extend(vars(one).values())
        elif not isinstance(one, bool | int | float | str | np.generic | np.dtype | KDTree | types.NoneType):
            return one
    return None


# --- files as bytes, as members of an archive, as arrays ---


def damaged(data, rng):
    """Bytes that were flipped, cut, moved or doubled."""
    data = bytearray(data)
    n = len(data)
    one, other = sorted(rng.integers(0, n, 2).tolist())
    length = int(rng.integers(1, 65))
    match int(rng.integers(8)):
        case 0:
            for at in rng.integers(0, n, rng.integers(1, 9)).tolist():
                data[at] ^= 1 << int(rng.integers(8))
        case 1:
            for at in rng.integers(0, n, rng.integers(1, 9)).tolist():
                data[at] = int(rng.integers(256))
        case 2:
            del data[one:]
        case 3:
            del data[one : one + length]
        case 4:
            data[one + length : one + length] = data[one : one + length]
        case 5:
            data[one : one + length], data[other : other + length] = (
                data[other : other + length],
                data[one : one + length],
            )
        case 6:
            data[one : one + length] = bytes(len(data[one : one + length]))
        case 7:  # where the archive's directory is
            data[int(rng.integers(n - 200, n))] = int(rng.integers(256))
    return bytes(data)


def members_of(data):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members, compression=zipfile.ZIP_DEFLATED):
    held = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(held, "w", compression) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in members:
            archive.writestr(name, content)
    return held.getvalue()


def other_members(data, rng):
    """Members that were swapped, renamed, doubled, left out, or are others."""
    members = list(members_of(data).items())
    i, j = rng.integers(0, len(members), 2).tolist()
    (name, content), (other, content_other) = members[i], members[j]
    compression = zipfile.ZIP_DEFLATED
    match int(rng.integers(8)):
        case 0:
            members[i], members[j] = (name, content_other), (other, content)
        case 1:
            names = [
                "../" + name,
                "/etc/" + name,
                name.upper(),
                "a/" + name,
                "x.npy",
                "a-1.npy",
                "a/",
                name[:-4],
            ]
            members[i] = (names[int(rng.integers(len(names)))], content)
        case 2:
            members.append((name, content_other))
        case 3:
            del members[i]
        case 4:
            pickled = io.BytesIO()
            np.save(pickled, np.array([{}, print], dtype=object), allow_pickle=True)
            members[i] = (name, pickled.getvalue())
        case 5:
            compression = zipfile.ZIP_BZIP2 if rng.random() < 0.5 else zipfile.ZIP_STORED
        case 6:  # marked as encrypted, or of another length, in the directory alone
            changed = bytearray(archive_of(members))
            at = changed.find(b"PK\x01\x02", int(rng.integers(len(changed) - 100)))
            changed[max(at, 0) + int(rng.choice([8, 10, 20, 24, 28, 30, 42]))] ^= 1 << int(rng.integers(8))
            return bytes(changed)
        case 7:
            members[i] = (name, content[: int(rng.integers(len(content)))] + bytes(int(rng.integers(3))))
    return archive_of(members, compression)


def other_array(data, rng):
    """An array whose header says something else, or whose numbers were changed."""
    members = members_of(data)
    name = str(rng.choice(list(members)))
    with io.BytesIO(members[name]) as file:
        array = np.lib.format.read_array(file)
    flat = array.reshape(-1)
    match int(rng.integers(6)):
        case 0:
            array = np.asfortranarray(array) if rng.random() < 0.5 else array.T
        case 1:
            array = array.astype(rng.choice(["<f4", "<i8", ">f8", "<c16", "|b1", "<f8"]))
        case 2:
            array = array.copy()
            array.reshape(-1)[int(rng.integers(len(flat)))] = 3
        case 3:
            array = flat[: int(rng.integers(len(flat) + 1))]
        case 4:
            shape = rng.choice([10**6, 10**12, 2**63, 10**30, -1, 0], int(rng.integers(1, 5))).tolist()
            header = str({"descr": "<f8", "fortran_order": False, "shape": tuple(shape)}) + "\n"
            start = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
            members[name] = start + flat.tobytes()
            return archive_of(members.items())
        case 5:
            texts = [
                "[" * 5000,
                "(" * 9000,
                "__import__('os').system('id')",
                "{'descr': '|O', 'fortran_order':",
            ]
            texts += ["{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }\n", "9" * 5000]
            header = str(rng.choice(texts)).encode()
            members[name] = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + flat.tobytes()
            return archive_of(members.items())
    held = io.BytesIO()
    np.save(held, array)
    members[name] = held.getvalue()
    return archive_of(members.items())


# --- documents ---


def names_of_classes():
    """All that a file could name: in this package what is defined or imported, and elsewhere what harms."""
    found = []
    for module in pkgutil.walk_packages(pk.__path__, "pymc_kbr."):
        if module.name.rpartition(".")[2] == "__main__":
            continue
        try:
            held = vars(importlib.import_module(module.name))
        except ImportError:  # of an extra
            continue
        found += [f"{module.name}:{name}" for name, value in held.items() if callable(value)]
    elsewhere = ["os:system", "builtins:eval", "functools:partial", "subprocess:Popen", "pathlib:Path"]
    elsewhere += ["scipy.stats:gaussian_kde", "threading:Thread", "pymc_kbr.estimators:saving._Reader"]
    return found, elsewhere * 20


INJECTED = (
    *("condition", "draw", "fit", "mean", "summary", "probabilities", "get_params", "set_params", "_class"),
    *("__class__", "__dict__", "__repr__", "__reduce__", "__call__", "__getattr__", "__del__", "__init__"),
    *("_repr_html_", "_doc_link_module", "posteriors", "log_density", "log_prior_", "kernel_", "bw_method"),
    *("func", "table_", "names_", "random_seed", "kernel", "estimator_", "a b", "", "x"),
)


def other_document(document, rng, names):
    """A document with something else in it."""
    document = copy.deepcopy(document)
    nodes = document["nodes"]
    reference = [int(rng.integers(len(nodes)))]
    classes = [node for node in nodes if "object" in node or "named" in node]
    objects = [node for node in classes if "object" in node]
    node = classes[int(rng.integers(len(classes)))]
    held = objects[int(rng.integers(len(objects)))]
    key = "object" if "object" in node else "named"
    own, elsewhere = names
    values = [
        None,
        True,
        -1,
        0,
        10**400,
        1e308,
        float("nan"),
        "x" * 2000,
        "\ud800",
        [],
        {},
        [0, 1],
        [-1],
        reference,
    ]

    def any_class():
        return str(rng.choice(own if rng.random() < 0.8 else elsewhere))

    def any_value():
        return values[int(rng.integers(len(values)))]

    def added(new):
        nodes.append(new)
        return [len(nodes) - 1]

    match int(rng.integers(14)):
        case 0 | 1:
            node[key] = any_class()
        case 2:
            used_here = sorted({other[k] for other in classes for k in ("object", "named") if k in other})
            node[key] = str(rng.choice(used_here))
        case 3:
            held["state"][str(rng.choice(INJECTED))] = reference if rng.random() < 0.5 else any_value()
        case 4:  # a function in the place of a method or of a number
            owner = [nodes.index(held)] if rng.random() < 0.7 else reference
            method = added({"method": str(rng.choice(INJECTED)), "of": owner})
            names_here = [*held["state"], *INJECTED]
            held["state"][names_here[int(rng.integers(len(names_here)))]] = method
        case 5:  # an object of any class, made of any values
            state = {str(rng.choice(INJECTED)): reference for _ in range(3)}
            new = {"object": any_class(), "state": state}
            if rng.random() < 0.5:
                new = {"named": any_class(), "items": [reference, any_value(), added({"list": [0, "id"]})]}
            state = held["state"]
            state[str(rng.choice([*state, "x"]))] = added(new)
        case 6:
            state = held["state"]
            if state:
                state[str(rng.choice(list(state)))] = any_value()
        case 7:
            state = held["state"]
            if state:
                del state[str(rng.choice(list(state)))]
        case 8:
            i, j = rng.integers(0, len(nodes), 2).tolist()
            nodes[i], nodes[j] = nodes[j], nodes[i]
        case 9:
            name = str(rng.choice(list(document)))
            if rng.random() < 0.5:
                document[name] = any_value()
            else:
                del document[name]
        case 10:
            one = nodes[int(rng.integers(len(nodes)))]
            kind = next(iter(one))
            if isinstance(one[kind], list) and one[kind]:
                one[kind][int(rng.integers(len(one[kind])))] = any_value()
            else:
                one[kind] = any_value()
        case 11:  # trees, kinds of numbers and keys that there are none of
            dtypes = ["O", "V8", "f8,f8", "<f3", "M8[ns]", "<U3", "<f8", "datetime64"]
            new = [
                {"tree": reference, "leafsize": any_value()},
                {"dtype": str(rng.choice(dtypes)), "class": bool(rng.integers(2))},
                {"dict": [[reference, 1], [any_value(), 2]]},
                {"array": str(rng.choice(["a0", "a9", DOCUMENT])), "scalar": bool(rng.integers(2))},
            ]
            state = held["state"]
            state[str(rng.choice([*state, "x"]))] = added(new[int(rng.integers(len(new)))])
        case 12:  # deep, or doubled at each of forty steps
            last = added({"tuple": []})
            width = int(rng.integers(1, 3))
            for _ in range(3000 if width == 1 else 40):
                last = added({"tuple": last * 0 + [last] * width})
            held["state"]["deep"] = last if rng.random() < 0.5 else added({"dict": [[last, 1]]})
        case 13:
            held["state"]["numbers"] = any_value()
            node[key] = any_class() if rng.random() < 0.1 else node[key]
    return document


def other_text(document, rng):
    """A document whose text is no good JSON, or deep."""
    text = json.dumps(document)
    at = int(rng.integers(len(text)))
    match int(rng.integers(6)):
        case 0:
            return "[" * int(rng.integers(1, 200_000)) + text
        case 1:
            return text[:at]
        case 2:
            return text[:at] + str(rng.choice(["1", "}", '"', "9" * 5000, "NaN", "\x00", "[["])) + text[at:]
        case 3:
            return text.replace('"format": 1', '"format": ' + "9" * 5000)
        case 4:
            return '{"a":' * int(rng.integers(1, 200_000)) + "1" + "}" * 3
        case _:
            return text[:-1] + f', "root": [{int(rng.integers(9))}]}}'


def crafted(data, rng, names):
    """An archive with another document; whether its checksum is none, or right, again."""
    members = members_of(data)
    with io.BytesIO(members[f"{DOCUMENT}.npy"]) as file:
        document = json.loads(np.lib.format.read_array(file).tobytes())
    if rng.random() < 0.1:
        text = other_text(document, rng)
    else:
        document = other_document(document, rng, names)
        if rng.random() < 0.5:
            # What was changed once may not be of the form that a second change begins with.
            with contextlib.suppress(LookupError, TypeError, AttributeError, ValueError, StopIteration):
                document = other_document(document, rng, names)
        text = json.dumps(document)
    arrays = {name[:-4]: np.load(io.BytesIO(content)) for name, content in members.items()}
    arrays[DOCUMENT] = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    how = int(rng.integers(3))
    if how == 1:
        del arrays[CHECKSUM]
    if how == 2:
        arrays[CHECKSUM] = saving._checksum(arrays)
    held = io.BytesIO()
    np.savez_compressed(held, **arrays)
    return held.getvalue(), how > 0


def main(number, seed):
    """Counts of files by what was done to them and what became of them, and the faults."""
    rng, guard = np.random.default_rng(seed), Guard()
    signal.signal(signal.SIGALRM, _too_long)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    warnings.simplefilter("ignore")
    names = names_of_classes()
    counts, faults, events = Counter(), [], Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        path = Path(folder) / "file.npz"
        saved = []
        for value in originals():
            data = pk.save(value, path, overwrite=True).read_bytes()
            loaded = pk.load(path)
            for _ in range(2):
                used(loaded)  # whatever is imported at first use
            saved.append((data, written(pk.load(path))))
        ways = {"damaged": damaged, "members": other_members, "array": other_array}
        for case in range(number):
            data, before = saved[int(rng.integers(len(saved)))]
            way = str(rng.choice([*ways, "document"], p=[0.3, 0.1, 0.1, 0.5]))
            free = False
            if way == "document":
                changed, free = crafted(data, rng, names)
                way = "document, checksum made to fit" if free else way
            else:
                changed = ways[way](data, rng)
            path.write_bytes(changed)
            outcome, found, said = "refused", None, ""
            signal.setitimer(signal.ITIMER_REAL, 20)
            with guard.watching(path) as seen:
                try:
                    found = pk.load(path)
                    outcome = "read"
                except ValueError as error:
                    said = str(error)
                except BaseException as error:
                    outcome = f"raised {type(error).__name__}: {error}"[:300]
            signal.setitimer(signal.ITIMER_REAL, 0)
            ran = list(seen)
            if outcome == "refused" and (str(path) not in said or len(said) > 1000):
                outcome = f"refused with other words: {said[:300]}"
            if outcome == "read":
                if not free:
                    outcome = "equal" if written(found) == before else "unequal"
                elif (part := foreign(found)) is not None:
                    outcome = f"read with a {type(part)}"
                signal.setitimer(signal.ITIMER_REAL, 3)
                with guard.watching() as seen, contextlib.suppress(TooLong):
                    used(found)
                signal.setitimer(signal.ITIMER_REAL, 0)
                ran += seen
            counts[f"{way}: {outcome}"] += 1
            events.update(ran)
            if ran or outcome not in ("refused", "read", "equal"):
                faults.append([case, way, outcome, ran[:3]])
        os.chdir("/")
    left = {"faults": faults[:20], "events": dict(events.most_common(10))}
    print(json.dumps({"files": number, "counts": dict(sorted(counts.items())), **left}, indent=1))
    return 1 if faults else 0


def _too_long(*_):
    raise TooLong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--number", type=int, default=12_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    sys.exit(main(arguments.number, arguments.seed))
