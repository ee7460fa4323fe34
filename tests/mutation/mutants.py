"""Single wrong changes of a file, made by mutmut's operators."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

UNREAD_CALLS = ("TypeVar", "warn", "ClassVar")
"""Calls whose arguments no result depends on: names for type checkers, and the text of warnings."""

UNREAD_NAMES = ("__all__",)
"""Assignments that no result depends on."""

HOW = (
    "assume_a",
    "balanced_tree",
    "check_finite",
    "driver",
    "order",
    "overwrite_a",
    "overwrite_b",
    "workers",
)
"""Arguments that say how something is computed and where it is put, and not what it is."""

HANDED_ON = ("to_arviz",)
"""Methods that hand their arguments on to another library's room."""

NEVER_CHANGED = ("len", "isinstance", "super")
"""Calls whose change fails wherever it is reached."""


@dataclass(frozen=True)
class Mutant:
    """A file with one change.

    Attributes
    ----------
    path : str
        The file, as seen from the repository's root.
    lines : tuple of int
        First and last line of the statement that was changed.
    function : str
        The function or class in which it stands, or "module".
    change : str
        What stood there, and what stands there now.
    make : callable
        Gives the whole file.
    counts : bool
        Whether a result depends on what was changed, as far as names tell.
    """

    path: str
    lines: tuple[int, int]
    function: str
    change: str
    make: Callable[[], str]
    counts: bool = True

    @property
    def name(self) -> tuple[str, str, str]:
        """File, function and change: what stays the same while the rest of a file changes."""
        return self.path, self.function, self.change

    @cached_property
    def code(self) -> str:
        """The whole file, with the change."""
        return self.make()

    @cached_property
    def key(self) -> str:
        """Says which change of which program this is; comments and docstrings are no part of it."""
        tree = ast.parse(self.code)
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                node.value = ast.Constant(None)
        return hashlib.sha256(f"{self.path}\n{ast.dump(tree)}".encode()).hexdigest()[:16]


def mutants_of(path: Path, root: Path) -> list[Mutant]:
    """All mutants of a file that count, in the order of its lines.

    Notes
    -----
    Left out, since no result depends on them: docstrings, annotations, decorators, what an error or a
    warning says (whether it comes is decided elsewhere), and names that only type checkers read.
    """
    import libcst as cst
    from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

    wrapper = MetadataWrapper(cst.parse_module(path.read_text()))
    positions, parents = wrapper.resolve(PositionProvider), wrapper.resolve(ParentNodeProvider)
    module = wrapper.module
    made: dict[tuple, Mutant] = {}
    for node in _counting(module):
        statement: Any = node
        while not isinstance(statement, cst.BaseSmallStatement | cst.BaseCompoundStatement | cst.Module):
            statement = parents[statement]
        header = statement
        if isinstance(statement, cst.BaseCompoundStatement):  # its head, not the block under it
            header = node
        lines = (positions[statement].start.line, positions[header].end.line)
        for changed in _changes(node):
            before, after = _line(module, node), _line(module, changed)
            start = positions[node].start
            place = (start.line, start.column, before, after)
            if before == after or place in made:
                continue

            def make(node: Any = node, changed: Any = changed) -> str:
                return module.deep_replace(node, changed).code  # type: ignore[no-any-return]

            name, function = str(path.relative_to(root)), _function(node, parents)
            counts = function.split(".")[-1] not in HANDED_ON and _what(node) != _what(changed)
            made[place] = Mutant(name, lines, function, f"{before} -> {after}", make, counts)
    return list(made.values())


def _changes(node: Any) -> Iterator[Any]:
    from mutmut.mutation.mutators import mutation_operators

    for kind, operator in mutation_operators:
        if isinstance(node, kind):
            yield from operator(node)


def _counting(node: Any) -> Iterator[Any]:
    """The node and those under it, but for what no result depends on."""
    import libcst as cst

    if isinstance(node, cst.Annotation | cst.Decorator | cst.Raise | cst.Import | cst.ImportFrom):
        return
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.SimpleString):
        return
    if isinstance(node, cst.Call):
        name = getattr(node.func, "attr", node.func)
        if getattr(name, "value", None) in (*UNREAD_CALLS, *NEVER_CHANGED):
            return
    if isinstance(node, cst.Assign) and (
        getattr(node.targets[0].target, "value", None) in UNREAD_NAMES
        or (isinstance(node.value, cst.Call) and getattr(node.value.func, "value", None) == "TypeVar")
    ):
        return
    yield node
    for child in node.children:
        yield from _counting(child)


def _what(node: Any) -> Any:
    """A call's function and arguments but for those in `HOW`; anything else is itself."""
    import libcst as cst

    if not isinstance(node, cst.Call):
        return node
    kept = [a for a in node.args if a.keyword is None or a.keyword.value not in HOW]
    return [node.func, *kept]


def _function(node: Any, parents: Any) -> str:
    import libcst as cst

    names = []
    while node in parents:
        node = parents[node]
        if isinstance(node, cst.FunctionDef | cst.ClassDef):
            names.append(node.name.value)
    return ".".join(reversed(names)) or "module"


def _line(module: Any, node: Any) -> str:
    return " ".join(module.code_for_node(node).split())
