"""Public functions and classes describe every parameter, what they return and what they refuse."""

import ast
import inspect
import re
import textwrap

import pytest

import pymc_kbr as pk

HEADING = re.compile(r"^(\w[\w ]*)\n-+$", re.MULTILINE)
FUNCTIONS = [name for name in pk.__all__ if inspect.isfunction(getattr(pk, name))]


def described(section: str) -> set[str]:
    """Names at the beginning of a line, before the colon."""
    lines = re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", section, re.MULTILINE)
    return {name.strip().lstrip("*") for line in lines for name in line.split(",")}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_function_is_described(name):
    assert not undescribed(getattr(pk, name))


def methods(kind: type) -> dict[str, object]:
    """Public methods of a class, also those that it has from other classes of the package."""
    fields = getattr(kind, "__dataclass_fields__", {})
    found = {name: getattr(kind, name) for name in dir(kind) if not name.startswith("_")}
    return {
        name: one
        for name, one in found.items()
        if (inspect.isfunction(one) or inspect.ismethod(one))
        and name not in fields  # a function may be the value of one
        and one.__module__.startswith("pymc_kbr")
    }


def undescribed(method: object) -> set[str]:
    """What a method's docstring lacks of its parameters, what it returns and what it refuses by itself."""
    parts = HEADING.split(inspect.getdoc(method) or "")
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    signature = inspect.signature(method)
    lacking = set(signature.parameters) - {"self", "cls"} - described(found.get("Parameters", ""))
    if signature.return_annotation not in (None, "None") and not {"Returns", "Yields"} & set(found):
        lacking.add("Returns")
    body = ast.walk(ast.parse(textwrap.dedent(inspect.getsource(method))))
    if any(isinstance(node, ast.Raise) for node in body) and "Raises" not in found:
        lacking.add("Raises")
    return lacking


CLASSES = [
    name
    for name in pk.__all__
    if inspect.isclass(getattr(pk, name)) and not issubclass(getattr(pk, name), Warning)
]


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_class_and_method_is_described(name):
    kind = getattr(pk, name)
    parts = dict(zip(*2 * [iter(HEADING.split(inspect.getdoc(kind) or "")[1:])], strict=True))
    said = described(parts.get("Parameters", "") + "\n" + parts.get("Attributes", ""))
    assert inspect.isabstract(kind) or inspect.signature(kind).parameters.keys() <= said
    lacking = {method: undescribed(one) for method, one in methods(kind).items()}
    assert not {method: what for method, what in lacking.items() if what}
