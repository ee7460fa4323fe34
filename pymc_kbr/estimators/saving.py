"""Fitted estimators, and what is learnt of them, in one file without pickle.

A file is read as if a stranger had made it. It names classes of a closed set, those that this package
itself defines (`_value_class`); their objects are made without a call of their constructors; no attribute may
take the place of a method; and functions are only the listed methods of such objects (`METHODS`). So whatever
a file says, the code that runs is this package's own. A checksum recognises what was damaged.

skops.io was tried: it cannot write a KDTree, nor keys that are tuples, and what it trusts are classes and not
what their attributes hold, with all of scikit-learn's always among them.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
import secrets
import zipfile
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType, ModuleType
from typing import IO, Any

import numpy as np
from scipy.spatial import KDTree

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.chunks import MOST_DEFLATED, physical_memory
from pymc_kbr.arrays.refusals import of_type, path_of
from pymc_kbr.arrays.support import Support

FORMAT = 1
"""Raised where older readers would misread a file."""

DOCUMENT = "document"
"""The array that holds the structure, as JSON; the others are numbers."""

CHECKSUM = "checksum"
"""The array with the SHA-256 of all others; files of 0.2.0.dev0 had none."""

PACKAGES_OF_VALUES = (
    "arrays",
    "kernels",
    "gram",
    "regression",
    "embedding",
    "posterior",
    "estimators",
    "selection",
    "checking",
    "tables.columns",
)
"""Where classes are looked up: values that hold numbers and touch nothing outside of them."""

NO_VALUES = frozenset(
    f"pymc_kbr.{module}" for module in ("arrays.threads", "embedding.pymc_model", "estimators.saving")
)
"""Modules among them whose classes change the process, belong to PyMC, or read files."""

NUMBERS = "biufc"
"""Kinds of NumPy's types that are written: those of numbers."""

METHODS = frozenset({"log_density"})
"""What may stand for a function: a method of one of these names, of an object that the file holds."""

LIKELIHOOD = "pymc_kbr.estimators.likelihood"
RENAMED = {
    "pymc_kbr.arrays.scan:Moments": "pymc_kbr.estimators.estimator:Moments",
    "pymc_kbr.arrays.scan:Scan": "pymc_kbr.estimators.estimator:Scan",
    **{
        f"pymc_kbr.arrays.simulated_region:{name}": f"pymc_kbr.estimators.kernel_likelihood:{name}"
        for name in ("Near", "Pairs", "Ranks", "SimulatedRegion")
    },
    f"{LIKELIHOOD}.conditional_mean:Fitted": f"{LIKELIHOOD}.conditional_mean:BasisRegression",
    "pymc_kbr.gram.kept:KeptGram": "pymc_kbr.gram.dense:CachedGram",
    f"{LIKELIHOOD}.moving_shape:MovingShape": f"{LIKELIHOOD}.conditional_mixture:ConditionalMixture",
    f"{LIKELIHOOD}.prior_margins:Atoms": f"{LIKELIHOOD}.prior_density:ValueShares",
    f"{LIKELIHOOD}.prior_margins:NormalMixture": f"{LIKELIHOOD}.prior_density:MarginMixture",
    f"{LIKELIHOOD}.smooth_function:Basis": f"{LIKELIHOOD}.smooth_function:WhitenedBasis",
    f"{LIKELIHOOD}.smooth_function:Fitted": f"{LIKELIHOOD}.smooth_function:SmoothFit",
    "pymc_kbr.regression.choose_ridge:Choice": "pymc_kbr.regression.choose_ridge:KernelAndRidge",
} | dict.fromkeys(
    (
        "pymc_kbr.selection.budget:Cost",
        "pymc_kbr.selection.cost:Cost",
        "pymc_kbr.selection.inclusion_weights:InclusionWeights",
        "pymc_kbr.selection.selection:InclusionWeights",
        "pymc_kbr.selection.weighted_order:FirstRows",
    ),
    "pymc_kbr.selection.selection:NotRead",
)
"""Classes of files of earlier versions that have another name now, or are in another folder."""

SHORTER = {f"{LIKELIHOOD}.choice:Choice": 1}
"""Named tuples that had one field more in files of earlier versions, and its place."""

NAME = re.compile(
    rf"pymc_kbr\.({'|'.join(map(re.escape, PACKAGES_OF_VALUES))})(\.[a-z][a-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"
)


@default_arithmetic
def save(value: Any, path: str | Path, *, overwrite: bool = False) -> Path:
    """Write a fitted estimator, or a Selection, Calibration or ModelChoice, to one file.

    Parameters
    ----------
    value : Estimator, Selection, Calibration or ModelChoice
    path : str or Path
        By custom ``*.npz``: numbers are arrays of NumPy, the structure is JSON.
    overwrite : bool

    Returns
    -------
    Path

    Raises
    ------
    FileExistsError
        If there is such a file or folder, and `overwrite` is false.
    FileNotFoundError
        If its folder is not there.
    TypeError
        If the value is none of these, or holds something that only code can make again, such as a prior
        density that is a function.
    ValueError
        If `path` is a folder, and `overwrite` is true.

    Notes
    -----
    Arrays are kept to the last bit and in their order in memory: what is loaded conditions as before.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from pymc_kbr.estimators import Rejection
    >>> fitted = Rejection(3).fit(np.arange(9.0)[:, None], np.arange(9.0)[:, None])
    >>> with TemporaryDirectory() as folder:
    ...     load(save(fitted, f"{folder}/estimator.npz")).condition([4.0]).mean()
    array([4.])
    """
    target = path_of("path", path, "a file")
    if target.is_dir():
        kind = ValueError if overwrite else FileExistsError
        raise kind(f"{target} is a folder; give the name of a file, such as {target / 'estimator.npz'}")
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} is there already; give another path, or overwrite=True")
    writer = _Writer()
    root = writer.node(value, type(value).__name__)
    if not isinstance(root, list) or "object" not in writer.nodes[root[0]]:
        raise TypeError(
            f"value is {of_type(value)}; give a fitted estimator, a Selection, a Calibration or a ModelChoice"
        )
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {target.parent}; make it first")
    document = {
        "format": FORMAT,
        "version": _own_version(),
        "kind": type(value).__name__,
        "nodes": writer.nodes,
        "root": root,
    }
    arrays = {DOCUMENT: np.frombuffer(json.dumps(document).encode(), dtype=np.uint8), **writer.arrays}
    arrays[CHECKSUM] = _checksum(arrays)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            np.savez_compressed(file, **arrays)
        os.replace(beside, target)  # whole or not at all
    finally:
        beside.unlink(missing_ok=True)
    return target


@default_arithmetic
def load(path: str | Path) -> Any:
    """Read what `save` wrote; no code from the file is run, whoever made it.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Estimator, Selection, Calibration or ModelChoice

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no such file, is damaged or was changed, was written by a later version, or holds a class
        that this one does not have.

    Notes
    -----
    Only objects of this package's own classes are created, their constructors are not called, and no
    attribute in the file replaces a method. So a file from elsewhere can hold wrong numbers, but no code. It
    can use at most 1,032 times its size of memory, and no more than this machine has.

    Examples
    --------
    See `save`.
    """
    source = path_of("path", path, "a file")
    if source.is_dir():
        raise ValueError(
            f"{source} is a folder and no file of a fitted estimator; give one that `save` wrote"
        )
    with open(source, "rb") as stream:  # what is missing or may not be read is said as Python says it
        if not zipfile.is_zipfile(stream):
            raise ValueError(f"{source} is no file of a fitted estimator; give one that `save` wrote")
        try:
            arrays = _read_arrays(stream)
            # As UTF-8, or `json` would take the encoding from the bytes, and import it.
            document = json.loads(arrays[DOCUMENT].tobytes().decode(), object_pairs_hook=_once)
            _check_format(document)
            found = _Reader(document["nodes"], arrays).root(document)
            if CHECKSUM in arrays and not np.array_equal(arrays[CHECKSUM], _checksum(arrays)):
                raise _Refused("is damaged, or was changed: its contents do not match its checksum")
        except _Refused as error:
            raise ValueError(f"{source} {str(error)[:500]}") from None
        except Exception as error:  # whatever Python and NumPy say of bytes that are not what was written
            words = f"{type(error).__name__}: {str(error)[:200]}"
            raise ValueError(f"{source} is no file of a fitted estimator, or is broken ({words})") from None
    return found


class _Refused(Exception):
    """Why a file is not read, as what follows its name."""


def _own_version() -> str:
    try:
        return version("pymc_kbr")
    except PackageNotFoundError:  # read from its folder, not installed
        return "unknown"


def _check_format(document: Any) -> None:
    found = document.get("format") if isinstance(document, dict) else None
    if type(found) is not int or found < 1:  # True is an int, too
        raise _Refused("is no file of a fitted estimator")
    if found > FORMAT:
        raise _Refused(
            f"was written by pymc_kbr {str(document.get('version'))[:40]}, in format {str(found)[:40]}; this "
            f"version reads up to {FORMAT}: take a later one"
        )


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, whose names stand there once."""
    if len(made := dict(pairs)) < len(pairs):
        raise _Refused("is broken: its document has a name twice")
    return made


# --- arrays of numbers in a zip archive ---

MEMBER = re.compile(rf"({DOCUMENT}|{CHECKSUM}|a\d{{1,9}})\.npy")

HEADER = re.compile(
    rb"\{'descr': '([<>|][a-zA-Z]\d*)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \} *\n"
)
"""As NumPy writes it. Its own reader evaluates this text, and allocates any shape before it reads."""


def _checksum(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """SHA-256 of all arrays but the checksum itself, as 32 bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays.keys() - {CHECKSUM}):
        array = arrays[name]
        order = "F" if np.isfortran(array) else "C"
        digest.update(f"{name} {array.dtype.str} {array.shape} {order}\n".encode())
        digest.update(array.tobytes(order))  # type: ignore[arg-type]
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _read_arrays(stream: IO[bytes]) -> dict[str, np.ndarray]:
    """The arrays of an archive, each read to its end, where its checksum is."""
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        size = os.fstat(stream.fileno()).st_size
        for member in members:
            stored = member.compress_type == zipfile.ZIP_STORED
            if member.flag_bits & 1 or not (stored or member.compress_type == zipfile.ZIP_DEFLATED):
                raise _Refused(f"is broken: {member.filename[:80]!r} is encrypted, or compressed as none is")
            if member.file_size > member.compress_size * (1 if stored else MOST_DEFLATED):
                raise _Refused(f"is broken: {member.filename[:80]!r} claims to be longer than it can be")
        if len({member.filename for member in members}) < len(members):
            raise _Refused("is broken: it holds an array twice")
        # Else members could share their bytes, and be longer than the file allows.
        if sum(member.compress_size for member in members) > size:
            raise _Refused("is broken: its arrays are longer than it is")
        needed = sum(member.file_size for member in members)
        if needed > physical_memory():
            raise _Refused(f"needs {needed / 1e9:.3g} GB of memory, more than there is")
        arrays = {}
        for member in members:
            array = _read_array(archive, member)
            if not MEMBER.fullmatch(member.filename):
                raise _Refused(f"is no file of a fitted estimator: it holds {member.filename[:80]!r}")
            arrays[member.filename.removesuffix(".npy")] = array
        return arrays


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """An array of plain numbers, made only where the member is as long as its header says."""
    with archive.open(member) as file:
        start = file.read(10)
        if start[:8] != b"\x93NUMPY\x01\x00" or len(start) < 10:
            raise _Refused(f"is no file of a fitted estimator: {member.filename[:80]!r} is no array")
        length = int.from_bytes(start[8:], "little")
        header = HEADER.fullmatch(file.read(length))
        if header is None:
            raise _Refused(f"is no file of a fitted estimator: {member.filename[:80]!r} is no plain array")
        kind, fortran, numbers = (group.decode() for group in header.groups())
        if kind[1] not in NUMBERS:
            raise _Refused(
                f"holds {member.filename[:80]!r}, an array of Python objects or texts, which is never "
                "read (as with NumPy's allow_pickle=False)"
            )
        dtype, shape = np.dtype(kind), tuple(int(number) for number in numbers.split(",") if number.strip())
        if math.prod(shape) * dtype.itemsize != member.file_size - 10 - length:
            raise _Refused(f"is broken: {member.filename[:80]!r} is not as long as its shape says")
        array = np.empty(shape, dtype, order="F" if fortran == "True" else "C")
        flat = array.reshape(-1, order="A").view(np.uint8)  # a view: the array is contiguous
        read = 0
        while read < flat.size:
            part = file.read(min(1 << 20, flat.size - read))
            if not part:
                raise EOFError(f"{member.filename[:80]!r} ends early")
            flat[read : read + len(part)] = np.frombuffer(part, dtype=np.uint8)
            read += len(part)
        if file.read(1):
            raise _Refused(f"is broken: {member.filename[:80]!r} goes on after its end")
    return array


# --- classes of this package ---


def _value_class(name: str) -> type:
    """The class of a name such as ``"pymc_kbr.kernels.kernel:Gaussian"``: one of values, defined there."""
    if not NAME.fullmatch(_of_type(str, name)):
        raise _Refused(f"names {name[:200]!r}, which is no value of this package; it is not loaded")
    module, _, cls = RENAMED.get(name, name).partition(":")
    if module not in NO_VALUES and not hasattr(_module(module), cls):
        module = _modules_of(module.split(".")[1]).get(cls, module)
    if module in NO_VALUES or not NAME.fullmatch(f"{module}:{cls}"):
        raise _Refused(f"names {name!r}, which is no value; it is not loaded")
    found = getattr(_module(module), cls, None)
    if found is None:
        raise _Refused(
            f"holds a {name!r}, which this version of pymc_kbr does not have; take the version that "
            "wrote it, or fit again"
        )
    if not isinstance(found, type):
        raise _Refused(f"names {name!r}, which is no class; it is not loaded")
    if (found.__module__, found.__qualname__) != (module, cls):
        # It was moved and is imported where it was, or it is a class of another package.
        return _value_class(f"{found.__module__}:{found.__qualname__}")
    if not _is_value_class(found):
        raise _Refused(f"names {name!r}, which is no class of values; it is not loaded")
    return found


def _module(name: str) -> ModuleType | None:
    """A module of this package; None where there is none of that name, or what it needs is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


@cache
def _modules_of(folder: str) -> dict[str, str]:
    """The module that defines each class of a folder: files of earlier versions name another one of it."""
    root, found = Path(__file__).parents[1], dict[str, set[str]]()
    for path in sorted((root / folder).rglob("*.py")):
        module = ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")
        for cls in re.findall(r"^class (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found.setdefault(cls, set()).add(module)
    return {cls: modules.pop() for cls, modules in found.items() if len(modules) == 1}


def _is_value_class(cls: type) -> bool:
    """Whether objects of a class are made without code of its own."""
    whole = not inspect.isabstract(cls) and not getattr(cls, "_is_protocol", False)
    plain = _is_named_tuple(cls) or cls.__new__ is object.__new__
    return whole and plain and not hasattr(cls, "__del__")  # which Python would call


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _may_hold(cls: type, name: Any) -> bool:
    """Whether objects of a class may have an attribute of this name: none that takes a method's place."""
    if not (isinstance(name, str) and name.isidentifier()) or name.startswith("__"):
        return False
    for base in cls.__mro__:
        if name in vars(base):
            there = vars(base)[name]
            # A property that was computed once is kept under its own name.
            data = isinstance(there, cached_property) or not hasattr(type(there), "__get__")
            return data and base.__module__.startswith("pymc_kbr.")
    return True


def _lacks(value: Any) -> list[str]:
    """Parameters and fields that every object of its class has, and this one does not."""
    names = getattr(value, "__dataclass_fields__", None)
    if names is None and hasattr(type(value), "_get_param_names"):
        names = type(value)._get_param_names()
    held = vars(value)
    return [name for name in names or () if name not in held and not hasattr(type(value), name)]


def _method_of(value: Any, name: Any) -> Any:
    """A listed method of an object of this package."""
    function = inspect.getattr_static(type(value), name, None) if name in METHODS else None
    own = isinstance(function, FunctionType) and function.__module__.startswith("pymc_kbr.")
    return function.__get__(value) if own else None  # type: ignore[union-attr]


def _is_key(value: Any) -> bool:
    """Whether a value may be a key: one whose hash takes no longer than it is."""
    plain = (bool, int, float, str, type(None), np.generic)
    if isinstance(value, plain):
        return True
    return type(value) is tuple and all(isinstance(item, plain) for item in value)


# --- writer and reader of values ---


class _Writer:
    """Nodes of JSON and arrays, each object once however often it occurs."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.arrays: dict[str, Any] = {}
        self._known: dict[int, int] = {}
        self._held: list[Any] = []  # so that no two objects have one id

    def node(self, value: Any, where: str) -> Any:
        """A number, text or None as itself, anything else as a reference."""
        # By their very type: NumPy's float is a subclass of Python's, and would come back as that.
        if value is None or type(value) in (bool, int, float, str):
            return value
        if id(value) not in self._known:
            self._known[id(value)] = len(self.nodes)
            self._held.append(value)
            self.nodes.append(None)
            self.nodes[self._known[id(value)]] = self._written(value, where)
        return [self._known[id(value)]]

    def _written(self, value: Any, where: str) -> dict[str, Any]:
        if isinstance(value, Support):
            value = value.plain()  # a density is a function of a model
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in NUMBERS:
            name = f"a{len(self.arrays)}"
            self.arrays[name] = np.asarray(value)
            return {"array": name, "scalar": isinstance(value, np.generic)}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            dtype = np.dtype(value)
            if dtype.kind not in NUMBERS:
                raise self._refused(value, where)
            return {"dtype": dtype.str, "class": isinstance(value, type)}
        if type(value) in (list, tuple):
            kind = type(value).__name__
            return {kind: [self.node(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if type(value) is dict and all(map(_is_key, value)):
            pairs = value.items()
            return {"dict": [[self.node(k, where), self.node(v, f"{where}[{k!r}]")] for k, v in pairs]}
        if type(value) is KDTree:
            return {"tree": self.node(value.data, where), "leafsize": int(value.leafsize)}
        if hasattr(value, "__self__") and hasattr(value, "__func__"):
            if _method_of(value.__self__, value.__func__.__name__) != value:
                raise self._refused(value, where)
            return {"method": value.__func__.__name__, "of": self.node(value.__self__, where)}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        cls = type(value)
        name = f"{cls.__module__}:{cls.__qualname__}"
        try:
            known = _value_class(name)
        except _Refused:
            known = None
        if known is not cls:
            raise self._refused(value, where)
        if isinstance(value, tuple):
            return {"named": name, "items": [self.node(item, where) for item in value]}
        if not all(_may_hold(cls, key) for key in vars(value)):
            raise self._refused(value, where)
        state = {key: self.node(held, f"{where}.{key}") for key, held in vars(value).items()}
        return {"object": name, "state": state}

    @staticmethod
    def _refused(value: Any, where: str) -> TypeError:
        return TypeError(
            f"{where} is a {type(value).__name__}, which cannot be saved without running code when it is "
            "read; save a learned likelihood as `fit(table)` leaves it, without a model's prior, and a table "
            "by its own `save`"
        )


class _Reader:
    """Values of nodes, each made once."""

    def __init__(self, nodes: Any, arrays: dict[str, np.ndarray]) -> None:
        self._nodes, self._arrays = _of_type(list, nodes), arrays
        self._made: dict[int, Any] = {}
        self._begun: set[int] = set()
        self._objects: list[Any] = []

    def root(self, document: dict[str, Any]) -> Any:
        """What was saved: an object of the class that the document says, and whole."""
        found = self.value(document["root"])
        for made in self._objects:
            if lacking := _lacks(made):
                raise _Refused(f"is broken: its {type(made).__name__} is without {', '.join(lacking)}")
        if isinstance(document["root"], list) and type(found).__name__ == document.get("kind"):
            return found
        raise _Refused(f"is broken: it holds no {str(document.get('kind'))[:80]}")

    def value(self, node: Any) -> Any:
        """The value of a node."""
        if node is None or type(node) in (bool, int, float, str):
            return node
        (number,) = _of_type(list, node)
        if type(number) is not int or not 0 <= number < len(self._nodes):
            raise _Refused("is broken: it refers to what it does not hold")
        if number not in self._made:
            if number in self._begun:
                raise _Refused("is broken: something in it holds itself")
            self._begun.add(number)
            self._made[number] = self._read(_of_type(dict, self._nodes[number]), number)
        return self._made[number]

    def _read(self, node: dict[str, Any], number: int) -> Any:
        match node:
            case {"array": name, "scalar": bool(scalar)} if len(node) == 2:
                array = self._arrays[name]
                if scalar and array.shape != ():
                    raise _Refused(f"is broken: its array {str(name)[:20]!r} is no single number")
                return array[()] if scalar else array
            case {"dtype": str(text), "class": bool(of_class)} if len(node) == 2:
                if not re.fullmatch(rf"[<>|=]?[{NUMBERS}]\d+", text):
                    raise _Refused(f"is broken: {text[:20]!r} is no kind of number")
                return np.dtype(text).type if of_class else np.dtype(text)
            case {"list": list(items)} if len(node) == 1:
                return [self.value(item) for item in items]
            case {"tuple": list(items)} if len(node) == 1:
                return tuple(self.value(item) for item in items)
            case {"dict": list(pairs)} if len(node) == 1:
                return self._dict([(self.value(key), self.value(held)) for key, held in pairs])
            case {"tree": of, "leafsize": int(leafsize)} if len(node) == 2:
                return self._tree(self.value(of), leafsize)
            case {"method": name, "of": of} if len(node) == 2:
                if (method := _method_of(self.value(of), name)) is not None:
                    return method
                raise _Refused(f"names the method {str(name)[:80]!r}, which is not loaded")
            case {"named": name, "items": list(items)} if len(node) == 2:
                cls: Any = _value_class(name)
                fields = cls._fields if _is_named_tuple(cls) else ()
                if name in SHORTER and len(items) == len(fields) + 1:
                    del items[SHORTER[name]]
                # What is new has a default.
                more = [
                    cls._field_defaults[field]
                    for field in fields[len(items) :]
                    if field in cls._field_defaults
                ]
                if not fields or len(items) + len(more) != len(fields):
                    raise _Refused(f"is broken: {name!r} is no tuple of {len(items)} fields")
                return tuple.__new__(cls, [*(self.value(item) for item in items), *more])
            case {"object": name, "state": dict(state)} if len(node) == 2:
                return self._object(name, state, number)
        raise _Refused("is broken: it holds something of an unknown kind")

    @staticmethod
    def _dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
        if all(_is_key(key) for key, _ in pairs):
            made: dict[Any, Any] = dict(pairs)
            if len(made) == len(pairs):
                return made
        raise _Refused("is broken: keys of it are none, or are there twice")

    @staticmethod
    def _tree(points: Any, leafsize: int) -> KDTree:
        if not (isinstance(points, np.ndarray) and points.dtype == float and points.ndim == 2):
            raise _Refused("is broken: a tree of it is one of no points")
        if type(leafsize) is not int or leafsize < 1:
            raise _Refused("is broken: a tree of it has no leaves")
        return KDTree(points, leafsize)

    def _object(self, name: str, state: dict[str, Any], number: int) -> Any:
        cls = _value_class(name)
        if _is_named_tuple(cls):
            raise _Refused(f"is broken: {name!r} is a tuple")
        refused = [key for key in state if not _may_hold(cls, key)]
        if refused:
            raise _Refused(f"gives a {cls.__name__} the attribute {refused[0][:80]!r}, which is not loaded")
        # Known before its state is read, which may lead back to it.
        made: Any = object.__new__(cls)
        self._made[number] = made
        self._objects.append(made)
        for key, held in state.items():
            made.__dict__[key] = self.value(held)
        return made


def _of_type(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise _Refused(f"is broken: it holds a {type(value).__name__} where a {kind.__name__} was written")
    return value
