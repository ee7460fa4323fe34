"""The one entry for what a user gives as numbers: arrays, and containers that label their columns.

Containers of any kind become a float array, with the labels of its columns where there are some. What would
lose something (texts, dates, complex numbers, whole numbers that no float is, masks) is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.refusals import LARGEST_FLOAT, of_type, shown

Labels = tuple[Any, ...]

EXACT = 2**53
"""Beyond it not every whole number is a float."""


@dataclass(frozen=True, eq=False)
class Labelled:
    """Numbers, and the labels of their last axis where there are some."""

    values: np.ndarray
    labels: Labels | None = None

    def __post_init__(self) -> None:
        # Sums are rounded as numbers lie in memory: those of all containers lie as those of pandas do.
        if self.labels is not None and self.values.ndim == 2:
            object.__setattr__(self, "values", np.asfortranarray(self.values))

    @property
    def names(self) -> tuple[str, ...] | None:
        """The labels as texts; None where there are none, or they are those that containers make up."""
        return None if made_up(self.labels) else texts(self.labels)


def texts(labels: Labels | None) -> tuple[str, ...] | None:
    """Labels as texts; several levels as the columns of a table's variables are called, ``name[label]``."""
    return None if labels is None else tuple(map(_text, labels))


def made_up(labels: Labels | None) -> bool:
    """Whether there are no labels, or those that containers make up: 0, 1, 2 and so on, in order."""
    return labels is None or (
        not any(isinstance(label, str | tuple | bool) for label in labels)
        and all(label == place for place, label in enumerate(labels))
    )


def labels_of_columns(value: Any) -> Labels | None:
    """Labels of the last axis of what is given, as far as they are known without reading its numbers."""
    if _is_dataset(value):
        return tuple(value.data_vars)
    if isinstance(value, Mapping):
        return tuple(value)
    if is_pandas(value):
        return tuple(value.columns if hasattr(value, "columns") else value.index)
    if _is_data_array(value):
        return _labels_of_dim(value, value.dims[-1]) if value.dims else None
    if _is_frame(value):
        return _names_of_frame(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return tuple(value._fields)
    if _is_structured(value):
        return tuple(value.dtype.names)
    return None


def is_labelled(value: Any) -> bool:
    """Whether a container can have labels for its columns."""
    return (
        isinstance(value, Mapping)
        or is_pandas(value)
        or _is_data_array(value)
        or _is_frame(value)
        or (isinstance(value, tuple) and hasattr(value, "_fields"))
        or _is_structured(value)
    )


def read(what: str, value: Any, names: Sequence[str] | None = None, *, gaps: bool = False) -> Labelled:
    """Numbers from any container."""
    if _is_data_array(value):
        return _of_data_array(what, value, names, gaps)
    if isinstance(value, Mapping):
        columns = _variables(value) if _is_dataset(value) else dict(value)
        return _of_columns(what, columns, names, gaps)
    if is_pandas(value):
        return _of_pandas(what, value)
    if _is_frame(value):
        return _of_frame(what, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _of_columns(what, dict(zip(value._fields, value, strict=True)), names, gaps)
    if _is_structured(value):
        return _of_columns(what, {field: value[field] for field in value.dtype.names}, names, gaps)
    if isinstance(value, list | tuple) and any(map(is_labelled, value)):
        return _of_rows(what, value, names, gaps)
    return Labelled(floats(what, value, gaps=gaps))


def columns_of(what: str, value: Any, asked: Sequence[str] | None = None) -> dict[str, np.ndarray] | None:
    """The columns of a container by their names, in their own types; None where it is none, or of pandas."""
    if _is_dataset(value):
        value = {name: value[name].data for name in value.data_vars}
    if isinstance(value, Mapping):
        _refuse_unlike_rows(what, value)
        return {_text(name): _unmasked(what, column) for name, column in value.items()}
    if _is_structured(value):
        return {field: _unmasked(what, value[field]) for field in value.dtype.names}
    return _columns_of_frame(what, value, asked) if _is_frame(value) else None


def _unmasked(what: str, value: Any) -> np.ndarray:
    """An array of any type; masked entries are NaN."""
    array = _array_of(what, value)
    if not np.ma.is_masked(array):
        return np.asarray(array)
    check_kind(what, array.dtype)
    return np.ma.filled(array.astype(float), np.nan)


def _refuse_unlike_rows(what: str, columns: Mapping[Any, Any]) -> None:
    """Refuse columns whose own labels of rows differ, or stand in another order."""
    labels = {_text(name): labels_of_rows(column) for name, column in columns.items()}
    first, *others = [(name, index) for name, index in labels.items() if index is not None] or [("", None)]
    for name, index in others:
        if len(index) == len(first[1]) and not index.equals(first[1]):
            raise ValueError(
                f"in {what} the rows of {first[0]!r} and of {name!r} have other labels, or another order; "
                "make one data frame of them, or drop the labels: `to_numpy()`"
            )


def in_order(
    what: str, value: Any, names: Sequence[str] | None, of: str, *, gaps: bool = False, more: bool = False
) -> np.ndarray:
    """Numbers from any container, with what is labelled in the order of names."""
    if more and names is not None and is_pandas(value) and not hasattr(value, "columns"):
        value = value[
            [text in set(names) for text in texts(tuple(value.index)) or ()]
        ]  # of a row of mixed kinds
    found = read(what, value, names, gaps=gaps)
    labels = found.labels
    if labels is None:
        return found.values
    if names is None:
        # Without names a column has a number.
        order = {label: place for place, label in enumerate(labels) if isinstance(label, int | np.integer)}
        numbered = len(order) == len(labels) and set(order) == set(range(len(labels)))
        return found.values[..., [order[i] for i in range(len(labels))]] if numbered else found.values
    own = texts(labels)
    assert own is not None
    if set(own) != set(names) and made_up(labels):
        return found.values
    wrong = unlike(own, names, more)
    if wrong:
        raise ValueError(
            f"the labelling of {what} {wrong}; labels must be {of}, {some(names)}, in any order: choose "
            "these, or give an array in their order (`to_numpy()`)"
        )
    places = [own.index(name) for name in names]
    if places == list(range(found.values.shape[-1])):
        return found.values
    return np.asfortranarray(found.values[..., places])


def unlike(labels: Sequence[str], names: Sequence[str], more: bool = False) -> str:
    """How labels differ from names, whatever their order; empty where they do not."""
    known, own = set(names), set(labels)
    missing = [name for name in names if name not in own]
    unknown = [label for label in labels if label not in known] if not more else []
    twice = sorted({label for label in labels if labels.count(label) > 1 and (not more or label in known)})
    wrong = {"lacks": missing, "has the unknown": unknown, "has twice": twice}
    return " and ".join(f"{how} {some(which)}" for how, which in wrong.items() if which)


def some(names: Sequence[str]) -> str:
    """At most eight names."""
    return str(list(names)) if len(names) <= 8 else f"[{', '.join(map(repr, names[:6]))}, ... {len(names)}]"


def floats(what: str, value: Any, *, gaps: bool = False) -> np.ndarray:
    """An array of floats from one without labels, or from nested sequences; itself where it is one."""
    array = _array_of(what, value)
    masked = int(np.ma.count_masked(array)) if isinstance(array, np.ma.MaskedArray) else 0
    if masked and not gaps:
        raise ValueError(
            f"{masked} masked entries in {what}; leave their rows out, or fill them: a mask is not kept"
        )
    if masked:
        return _unmasked(what, array)
    if array.dtype.kind == "O":
        _refuse_objects(what, array)
    check_kind(what, array.dtype)
    if array.dtype.kind in "iu":
        refuse_inexact(what, array)
    elif array.dtype.kind == "f" and isinstance(value, list | tuple) and np.any(np.abs(array) >= EXACT):
        # Beside a float NumPy rounds whole numbers before they can be looked at.
        own = np.asarray(value, dtype=object).ravel()
        refuse_inexact(what, np.array([one for one in own if isinstance(one, int)], dtype=object))
    return np.asarray(array, dtype=float)


def refuse_unknown_lengths(what: str, value: Any) -> None:
    """Refuse a Dask array that does not know how long it is."""
    if any(np.isnan(length) for length in value.shape):
        raise ValueError(
            f"{what}: a Dask array of unknown chunks, of shape {value.shape}, is given; say how long they "
            "are by `compute_chunk_sizes()`"
        )


def _array_of(what: str, value: Any) -> np.ndarray:
    """An array of any type from one without labels, or from nested sequences; with its mask."""
    if hasattr(value, "nnz") and not isinstance(value, np.ndarray):
        raise TypeError(f"{what}: a sparse {type(value).__name__} is given; give a dense array: `toarray()`")
    if hasattr(value, "dask") and hasattr(value, "compute"):
        refuse_unknown_lengths(what, value)
        value = value.compute()
    try:
        # NumPy takes the numbers under a mask for values, also where masked rows stand in a list.
        if isinstance(value, list | tuple) and any(isinstance(part, np.ma.MaskedArray) for part in value):
            return np.ma.stack(value)
        return np.asanyarray(value) if isinstance(value, np.ma.MaskedArray) else np.asarray(value)
    except Exception as error:  # also what tensors of other devices, or with gradients, raise
        raise ValueError(
            f"no array of numbers can be made of {what} ({shown(error)}); give rows of one length, of "
            "numbers alone; of a tensor, `tensor.detach().cpu()`"
        ) from None


def _refuse_objects(what: str, array: np.ndarray) -> None:
    """Refuse what NumPy has no type for; huge whole numbers are objects, too."""
    found = [array.item()] if array.ndim == 0 else array.ravel().tolist()
    refuse_inexact(what, np.array([one for one in found if isinstance(one, int)], dtype=object))
    odd = [one for one in found if not hasattr(one, "__float__")]
    if odd:
        raise TypeError(
            f"there is {shown(odd[0])} in {what}; give real numbers, and NaN where one is missing"
        )


KINDS = {"U": "texts", "T": "texts", "S": "bytes", "M": "dates", "m": "durations", "V": "records"}
"""What NumPy's types that are no numbers hold, by the letters of their kinds."""


def check_kind(name: str, kind: np.dtype) -> None:
    """Refuse a type of numbers that are not real, or of what is no number."""
    if kind.kind == "c":
        raise TypeError(
            f"there are complex numbers in {name} (type {kind}); the imaginary part would be lost: give real "
            "and imaginary parts as columns"
        )
    if kind.kind not in "fiub":
        # As floats dates would be counts of nanoseconds.
        hint = "such as days since the first one" if kind.kind in "mM" else "as by `astype(float)`"
        holds = KINDS.get(kind.kind, "objects")
        raise TypeError(f"there are {holds} in {name} (type {kind}); give real numbers, {hint}")


def refuse_inexact(what: str, whole: np.ndarray) -> None:
    """Refuse whole numbers that no float is."""
    if not whole.size or (int(whole.min()) >= -EXACT and int(whole.max()) <= EXACT):
        return
    far = whole[(whole > EXACT) | (whole < -EXACT)]
    lost = [n for n in far[:1000].tolist() if abs(n) > LARGEST_FLOAT or int(float(n)) != n]
    if lost:
        example = lost[0] if abs(lost[0]) < 10**20 else shown(lost[0])
        raise ValueError(
            f"there are whole numbers beyond 2**53 in {what}, such as {example}, which floats would round to "
            "others; give them from another origin, in larger units, or as floats if their last digits do "
            "not matter: `astype(float)`"
        )


def is_pandas(value: Any) -> bool:
    """Whether it is a data frame or a column of pandas, or of a package like it; none need be installed."""
    return hasattr(value, "to_numpy") and hasattr(value, "index") and hasattr(value, "iloc")


def labels_of_rows(value: Any) -> Any:
    """The labels of rows, as an index of pandas, or None."""
    if is_pandas(value):
        return value.index
    if _is_data_array(value):
        return value.indexes.get(value.dims[0]) if value.dims else None
    return None


def rows_first(value: Any, other: Any) -> Any:
    """An array of xarray with the dimension that it shares with another one, its rows, as the first."""
    if not (_is_data_array(value) and _is_data_array(other)) or value.ndim != 2:
        return value
    shared = [dim for dim in value.dims if dim in other.dims]
    return value.transpose(shared[0], ...) if len(shared) == 1 else value


def chains_first(value: Any) -> Any:
    """Draws of a sampler with their dimensions ``chain`` and ``draw`` first, where they have such."""
    named = _is_data_array(value) and {"chain", "draw"} <= set(value.dims)
    return value.transpose("chain", "draw", ...) if named else value


def _is_structured(value: Any) -> bool:
    """Whether it is a structured array, or a row of one."""
    return isinstance(value, np.ndarray | np.void) and value.dtype.names is not None


def _is_data_array(value: Any) -> bool:
    return hasattr(value, "dims") and hasattr(value, "coords") and not hasattr(value, "data_vars")


def _is_dataset(value: Any) -> bool:
    return hasattr(value, "data_vars") and isinstance(value, Mapping)


def _is_frame(value: Any) -> bool:
    """Whether it is a data frame of another package than pandas."""
    # Of the type: a frame that is not computed yet would look for its columns to say that it has some.
    named = hasattr(type(value), "columns") or hasattr(value, "column_names") or _is_column_of_structs(value)
    return named and not (is_pandas(value) or isinstance(value, type))


def _is_column_of_structs(value: Any) -> bool:
    """Whether it is a column of polars that has columns itself, whose names NumPy would drop."""
    return hasattr(value, "struct") and hasattr(getattr(value, "dtype", None), "fields")


def _variables(value: Any) -> dict[Any, Any]:
    """Those of a data set of xarray."""
    return {name: value[name] for name in value.data_vars}


def _names_of_frame(value: Any) -> Labels:
    if _is_column_of_structs(value):
        return tuple(field.name for field in value.dtype.fields)
    if hasattr(value, "collect_schema"):
        return tuple(value.collect_schema().names())
    return tuple(value.column_names if hasattr(value, "column_names") else value.columns)


def _text(label: Any) -> str:
    if not isinstance(label, tuple):
        return str(label)
    first, *rest = label
    inner = ", ".join(str(part) for part in rest if part != "")
    return f"{first}[{inner}]" if inner else str(first)


def _of_pandas(what: str, value: Any) -> Labelled:
    labels = labels_of_columns(value)
    if not hasattr(value, "columns") and value.dtype == object and not made_up(labels):
        return Labelled(floats(what, value.tolist()), labels)  # of a row of columns of several types
    columns = list(value.items()) if hasattr(value, "columns") else [(value.name, value)]
    # Categories and other types of pandas' own are objects.
    kinds = {
        _text(label): str(c.dtype) for label, c in columns if getattr(c.dtype, "kind", "O") not in "fiub"
    }
    if kinds:
        raise TypeError(
            f"no real numbers in some columns of {what}: {shown(kinds)}; convert them, or leave them out"
        )
    for label, column in columns:
        if column.dtype.kind in "iu":
            refuse_inexact(f"{what}, {label!r}", column.dropna().to_numpy())
    if all(isinstance(column.dtype, np.dtype) for _, column in columns):
        return Labelled(value.to_numpy(dtype=float), labels)
    parts = [column.to_numpy(dtype=float, na_value=np.nan) for _, column in columns]
    return Labelled(np.stack(parts, axis=-1) if hasattr(value, "columns") else parts[0], labels)


def _of_frame(what: str, value: Any) -> Labelled:
    columns = _columns_of_frame(what, value, None)
    for name, column in columns.items():
        if column.dtype.kind in "iu":
            refuse_inexact(f"{what}, {name!r}", column)
    return Labelled(np.stack([np.asarray(c, dtype=float) for c in columns.values()], axis=-1), tuple(columns))


def _columns_of_frame(what: str, value: Any, asked: Sequence[str] | None) -> dict[str, np.ndarray]:
    """The columns of a data frame that narwhals reads, which is imported for it alone."""
    try:
        from pymc_kbr.arrays.frames import columns_of_frame
    except ImportError:
        raise TypeError(
            f"{what}: {of_type(value)} is given, and narwhals, which reads it, is not installed; "
            "install it, or give a data frame of pandas or an array"
        ) from None
    return columns_of_frame(what, value.struct.unnest() if _is_column_of_structs(value) else value, asked)


def _of_rows(what: str, rows: Sequence[Any], names: Sequence[str] | None, gaps: bool) -> Labelled:
    """Several labelled rows in a list, each by its own labels."""
    found = [read(f"{what}, entry {i}", row, names, gaps=gaps) for i, row in enumerate(rows)]
    first = next((one.labels for one in found if one.labels is not None), None)
    if first is None:
        return Labelled(floats(what, [one.values for one in found], gaps=gaps))
    if any(one.labels is None or set(one.labels) != set(first) for one in found):
        raise ValueError(
            f"the entries of {what} have labels {[some(texts(one.labels) or ()) for one in found[:4]]}; "
            "give all of them the same"
        )
    places = [[list(one.labels or ()).index(label) for label in first] for one in found]
    ordered = [one.values[..., place] for one, place in zip(found, places, strict=True)]
    if len({one.shape for one in ordered}) > 1:
        raise ValueError(
            f"the entries of {what} have shapes {[one.shape for one in ordered[:4]]}; give one shape"
        )
    return Labelled(np.stack(ordered), first)


def _of_columns(what: str, columns: Mapping[Any, Any], names: Sequence[str] | None, gaps: bool) -> Labelled:
    """Columns by name, of which variables of several entries are several, as far as names say so."""
    if not columns:
        raise ValueError(f"{what} has no entries; give a number for each name")
    known, labels, parts = list(names or ()), list[Any](), list[np.ndarray]()
    arrays = [value for value in columns.values() if _is_data_array(value)]
    shared = [dim for dim in arrays[0].dims if all(dim in one.dims for one in arrays)] if arrays else []
    rows: dict[Any, Any] = {}
    for key, value in columns.items():
        name, said = _text(key), f"{what}, entry {_text(key)!r}"
        entries = (
            [n for n in known if n.startswith(f"{name}[") and n.endswith("]")] if name not in known else []
        )
        if _is_data_array(value):
            value = value.transpose(*shared, ...)
        if not entries:
            numbers = read(said, value, gaps=gaps).values
            rows[key] = value
            parts.append(_rows_first(numbers[..., None]))
            labels.append(key)
            continue
        inner = [entry[len(name) + 1 : -1] for entry in entries]
        numbers = in_order(said, value, inner, f"those of {name!r}", gaps=gaps)
        parts.append(_rows_first(_entries_last(said, numbers, len(entries))))
        labels += entries
    if len({part.shape[:-1] for part in parts}) > 1:
        shapes = {_text(key): part.shape[:-1] for key, part in zip(columns, parts, strict=True)}
        raise ValueError(f"the entries of {what} have the shapes {shown(shapes)}; give all the same")
    _refuse_unlike_rows(what, rows)
    return Labelled(np.concatenate(parts, axis=-1), tuple(labels))


def _rows_first(numbers: np.ndarray) -> np.ndarray:
    """Numbers (..., m) as rows (n, m), such as those of several chains; one row (m,) stays so."""
    return numbers.reshape(-1, numbers.shape[-1]) if numbers.ndim > 2 else numbers


def _entries_last(what: str, numbers: np.ndarray, count: int) -> np.ndarray:
    """Numbers of an array-valued variable with its entries on one last axis."""
    taken, size = numbers.ndim, 1
    while size < count and taken:
        taken -= 1
        size *= numbers.shape[taken]
    if size != count:
        raise ValueError(f"{what} has shape {numbers.shape}; there are {count} columns of that name")
    return numbers.reshape(*numbers.shape[:taken], count)


def _of_data_array(what: str, value: Any, names: Sequence[str] | None, gaps: bool) -> Labelled:
    """An array of xarray, with the axis that is labelled by the names as the last one."""
    numbers = floats(what, value.data, gaps=gaps)
    if not value.dims:
        return Labelled(numbers)
    known = set(names or ())
    own = [(i, labels) for i, dim in enumerate(value.dims) for labels in _all_labels_of_dim(value, dim)]
    within = [(i, tuple(f"{value.name}[{_text(one)}]" for one in labels)) for i, labels in own]
    for several in (own, within):
        found = {i: labels for i, labels in several if set(texts(labels) or ()) == known}
        if len(found) == 1:
            ((axis, labels),) = found.items()
            return Labelled(_rows_first(np.moveaxis(numbers, axis, -1)), labels)
    last = _labels_of_dim(value, value.dims[-1])
    if made_up(last) and names is not None and _is_square_of_dims(value, len(names)):
        raise ValueError(
            f"{what}: an array of the dims {value.dims} is given, both of length {len(names)}, and no "
            f"coordinate says which are the columns {some(list(names))}; give one, or an array without "
            "dims: `to_numpy()`"
        )
    return Labelled(numbers, last)


def _is_square_of_dims(value: Any, size: int) -> bool:
    """Whether either of two dimensions, that a user has named, could be the columns."""
    return value.shape == (size, size) and size > 1 and tuple(value.dims) != ("dim_0", "dim_1")


def _labels_of_dim(value: Any, dim: Any) -> Labels | None:
    """The labels of a dimension that a coordinate gives; None where it has none."""
    found = _all_labels_of_dim(value, dim)
    return next((labels for labels in found if not made_up(labels)), found[0] if found else None)


def _all_labels_of_dim(value: Any, dim: Any) -> list[Labels]:
    """Those of its index, and those of other coordinates along it that name each place."""
    index = value.indexes.get(dim)
    others = [
        tuple(c.values.tolist())
        for name, c in value.coords.items()
        if name != dim and tuple(c.dims) == (dim,) and c.dtype.kind in "UOT"
    ]
    named = [labels for labels in others if len({*labels}) == len(labels) and isinstance(labels[0], str)]
    return named if index is None else [tuple(index), *named]
