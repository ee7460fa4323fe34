"""Fitted estimators, and what is learnt of them, in one file without pickle."""

from __future__ import annotations

import json
import os
import re
import zipfile
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import KDTree

from pymc_kbr.arrays.refusals import path_of

FORMAT = 1
"""Raised where older readers would misread a file."""

DOCUMENT = "document"
"""The array that holds the structure, as JSON; the others are numbers."""

ROOMS_OF_VALUES = (
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

LIKELIHOOD_ROOM = "pymc_kbr.estimators.likelihood"
RENAMED = {
    f"{LIKELIHOOD_ROOM}.conditional_mean:Fitted": f"{LIKELIHOOD_ROOM}.conditional_mean:BasisRegression",
    f"{LIKELIHOOD_ROOM}.prior_margins:Atoms": f"{LIKELIHOOD_ROOM}.prior_margins:ValueShares",
    f"{LIKELIHOOD_ROOM}.prior_margins:NormalMixture": f"{LIKELIHOOD_ROOM}.prior_margins:MarginMixture",
    f"{LIKELIHOOD_ROOM}.smooth_function:Basis": f"{LIKELIHOOD_ROOM}.smooth_function:WhitenedBasis",
    f"{LIKELIHOOD_ROOM}.smooth_function:Fitted": f"{LIKELIHOOD_ROOM}.smooth_function:SmoothFit",
    "pymc_kbr.regression.leave_one_out:Choice": "pymc_kbr.regression.leave_one_out:KernelAndRidge",
    "pymc_kbr.selection.weighted_order:FirstRows": "pymc_kbr.selection.inclusion_weights:InclusionWeights",
}
"""Classes that files of earlier versions name, and what they are called now."""

NAME = re.compile(r"pymc_kbr\.(" + "|".join(map(re.escape, ROOMS_OF_VALUES)) + r")(\.[a-z_]+)*:[A-Za-z_]+")


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
        If there is such a file and `overwrite` is false.
    TypeError
        If the value holds something that only code can make again, such as a prior density that is a
        function.

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
    if target.exists() and not overwrite:
        raise FileExistsError(f"{target} is there already; give another path, or overwrite=True")
    writer = _Writer()
    root = writer.node(value, type(value).__name__)
    document = {
        "format": FORMAT,
        "version": _own_version(),
        "kind": type(value).__name__,
        "nodes": writer.nodes,
        "root": root,
    }
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with open(beside, "wb") as file:
            np.savez_compressed(file, **{DOCUMENT: text, **writer.arrays})
        os.replace(beside, target)  # whole or not at all
    finally:
        beside.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> Any:
    """Read what `save` wrote; no code is run from the file.

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
        If it is no such file, is broken, was written by a later version, or holds a class that this one does
        not have.

    Examples
    --------
    See `save`.
    """
    with open(
        path_of("path", path, "a file"), "rb"
    ) as stream:  # what is missing or may not be read is said as Python says it
        # NumPy would propose to load other files unsafely.
        if not zipfile.is_zipfile(stream):
            raise ValueError(f"{path} is no file of a fitted estimator; give one that `save` wrote")
    broken = zipfile.BadZipFile, EOFError, LookupError, TypeError, RecursionError, OSError
    try:
        with np.load(path, allow_pickle=False) as file:
            document = json.loads(file[DOCUMENT].tobytes())
            _check_format(document, path)
            arrays = {name: file[name] for name in file.files if name != DOCUMENT}
        return _Reader(document["nodes"], arrays, path).value(document["root"])
    except (*broken, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is no file of a fitted estimator, or is broken ({error})") from None


def _own_version() -> str:
    try:
        return version("pymc_kbr")
    except PackageNotFoundError:  # read from its folder, not installed
        return "unknown"


def _check_format(document: Any, path: str | Path) -> None:
    found = document.get("format") if isinstance(document, dict) else None
    if type(found) is not int or found < 1:  # True is an int, too
        raise ValueError(f"{path} is no file of a fitted estimator")
    if document["format"] > FORMAT:
        raise ValueError(
            f"{path} was written by pymc_kbr {document.get('version')}, in format {document['format']}; this "
            f"version reads up to {FORMAT}: take a later one"
        )


class _Writer:
    """Nodes of JSON and arrays, each object once however often it is held."""

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
        if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biufc":
            name = f"a{len(self.arrays)}"
            self.arrays[name] = np.asarray(value)
            return {"array": name, "scalar": isinstance(value, np.generic)}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": np.dtype(value).str, "class": isinstance(value, type)}
        if type(value) in (list, tuple):
            kind = type(value).__name__
            return {kind: [self.node(item, f"{where}[{i}]") for i, item in enumerate(value)]}
        if isinstance(value, dict):
            pairs = value.items()
            return {"dict": [[self.node(k, where), self.node(v, f"{where}[{k!r}]")] for k, v in pairs]}
        if isinstance(value, KDTree):
            return {"tree": self.node(value.data, where), "leafsize": int(value.leafsize)}
        if hasattr(value, "__self__") and hasattr(value, "__func__"):
            return {"method": value.__func__.__name__, "of": self.node(value.__self__, where)}
        return self._object(value, where)

    def _object(self, value: Any, where: str) -> dict[str, Any]:
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        if not NAME.fullmatch(name):
            raise TypeError(
                f"{where} is a {type(value).__name__}, which cannot be saved without running code when it is "
                "read; a learned likelihood under a model's own prior is saved before it is given that "
                "(`fit(table)`), and a table by its own `save`"
            )
        if isinstance(value, tuple):
            return {"named": name, "items": [self.node(item, where) for item in value]}
        state = {key: self.node(held, f"{where}.{key}") for key, held in vars(value).items()}
        return {"object": name, "state": state}


class _Reader:
    """Values of nodes, each made once."""

    def __init__(self, nodes: list[Any], arrays: dict[str, np.ndarray], path: str | Path) -> None:
        self._nodes, self._arrays, self._path = nodes, arrays, path
        self._made: dict[int, Any] = {}

    def value(self, node: Any) -> Any:
        """What a node stands for."""
        if not isinstance(node, list):
            return node
        (number,) = node
        if number not in self._made:
            self._made[number] = self._read(self._nodes[number], number)
        return self._made[number]

    def _read(self, node: dict[str, Any], number: int) -> Any:
        if "array" in node:
            array = self._arrays[node["array"]]
            array.flags.writeable = not node["scalar"]
            return array[()] if node["scalar"] else array
        if "dtype" in node:
            return np.dtype(node["dtype"]).type if node["class"] else np.dtype(node["dtype"])
        if "list" in node or "tuple" in node:
            items = [self.value(item) for item in node["list" if "list" in node else "tuple"]]
            return items if "list" in node else tuple(items)
        if "dict" in node:
            return {self.value(key): self.value(held) for key, held in node["dict"]}
        if "tree" in node:
            return KDTree(self.value(node["tree"]), node["leafsize"])
        if "method" in node:
            return self._method(self.value(node["of"]), node["method"])
        if "named" in node:
            return self._class(node["named"])(*[self.value(item) for item in node["items"]])
        cls = self._class(node["object"])
        # Known before its state is read, which may lead back to it.
        made = self._made[number] = object.__new__(cls)
        for key, held in node["state"].items():
            made.__dict__[key] = self.value(held)
        return made

    def _method(self, held: Any, name: str) -> Any:
        self._class(f"{type(held).__module__}:{type(held).__qualname__}")
        return getattr(held, name)

    def _class(self, name: str) -> Any:
        if not NAME.fullmatch(name):
            raise ValueError(
                f"{self._path} names {name!r}, which is no value of this package; it is not loaded"
            )
        module, _, cls = RENAMED.get(name, name).partition(":")
        try:
            found = getattr(import_module(module), cls)
        except (ImportError, AttributeError):
            raise ValueError(
                f"{self._path} holds a {name!r}, which this version of pymc_kbr does not have; take the "
                "version that wrote it, or fit anew"
            ) from None
        if not isinstance(found, type):
            raise ValueError(f"{self._path} names {name!r}, which is no class; it is not loaded")
        return found
