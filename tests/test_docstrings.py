"""Public functions and classes describe every parameter, what they return and what they refuse."""

import ast
import inspect
import re
import textwrap
from doctest import DocTestParser
from operator import attrgetter

import pytest

import pymc_kbr as pk

HEADING = re.compile(r"^(\w[\w ]*)\n-+$", re.MULTILINE)
FUNCTIONS = [name for name in pk.__all__ if inspect.isfunction(getattr(pk, name))]
CLASSES = [
    name
    for name in pk.__all__
    if inspect.isclass(getattr(pk, name))
    and not inspect.isabstract(getattr(pk, name))
    and not issubclass(getattr(pk, name), Warning)
]
MOST_USED = (
    *("sample_abc", "simulate", "simulate_to_store", "vector_simulator", "set_simulator", "select"),
    *("ReferenceTable.from_dataframe", "Adjusted", "Rejection", "Localised", "ConditionalMean"),
    *("NadarayaWatson", "Posterior", "to_arviz", "plot_posterior", "calibrate", "misspecification"),
    *("compare", "compare_models", "zoom", "refine", "save", "KernelBayesFilter", "mmd_test", "hsic_test"),
    *("witness", "learn_simulators", "SetFeatures", "KernelLikelihood"),
)
"""Each has an example that runs (`--doctest-modules`)."""

REFUSES_NOTHING = {"plot_calibration", "plot_posterior_weights"}


def sections(name: str) -> dict[str, str]:
    """The docstring's sections, by their headings."""
    parts = HEADING.split(inspect.getdoc(getattr(pk, name)) or "")
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def described(section: str) -> set[str]:
    """Names at the beginning of a line, before the colon."""
    lines = re.findall(r"^(\S[^:\n]*?)(?: :.*)?$", section, re.MULTILINE)
    return {name.strip().lstrip("*") for line in lines for name in line.split(",")}


def parameters(name: str) -> set[str]:
    return {one for one in inspect.signature(getattr(pk, name)).parameters if one not in ("self", "cls")}


@pytest.mark.parametrize("name", MOST_USED)
def test_the_most_used_names_have_an_example_that_says_what_comes_out(name):
    found = DocTestParser().get_examples(inspect.getdoc(attrgetter(name)(pk)) or "")
    assert len(MOST_USED) >= 20
    assert any(example.want for example in found)


@pytest.mark.parametrize("name", FUNCTIONS + CLASSES)
def test_every_parameter_is_described(name):
    found = sections(name)
    text = found.get("Parameters", "") + "\n" + found.get("Attributes", "")
    assert parameters(name) <= described(text), parameters(name) - described(text)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_say_what_they_return_and_refuse(name):
    found = sections(name)
    if inspect.signature(getattr(pk, name)).return_annotation not in (None, "None"):
        assert {"Returns", "Yields"} & set(found)
    assert name in REFUSES_NOTHING or "Raises" in found


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


WITH_METHODS = [
    name
    for name in pk.__all__
    if inspect.isclass(getattr(pk, name)) and not issubclass(getattr(pk, name), Warning)
]


@pytest.mark.parametrize("name", WITH_METHODS)
def test_every_public_method_is_described(name):
    lacking = {method: undescribed(one) for method, one in methods(getattr(pk, name)).items()}
    assert not {method: what for method, what in lacking.items() if what}


def test_what_a_docstring_lacks_is_found():
    class Refusing:
        def double(self, number: int) -> int:
            """Twice a number."""
            if number < 0:
                raise ValueError("a number below zero")
            return 2 * number

        def forget(self) -> None:
            """Return nothing, and refuse nothing."""

    assert undescribed(Refusing.double) == {"number", "Returns", "Raises"}
    assert undescribed(Refusing.forget) == set()
    assert {"fit", "condition", "settings"} <= set(methods(pk.Localised))  # of the classes it is made of


@pytest.mark.parametrize("name", sorted(pk.ESTIMATORS))
def test_estimators_say_what_they_refuse(name):
    kind = pk.ESTIMATORS[name]
    assert "Raises\n------" in (inspect.getdoc(kind) or ""), kind
