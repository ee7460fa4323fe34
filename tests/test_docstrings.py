"""Public functions and classes describe every parameter, what they return and what they refuse."""

import inspect
import re
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
    """Public methods that are a class's own."""
    fields = getattr(kind, "__dataclass_fields__", {})
    own = {
        name: getattr(kind, name) for name in vars(kind) if not name.startswith("_") and name not in fields
    }
    return {name: one for name, one in own.items() if inspect.isfunction(one) or inspect.ismethod(one)}


RESULTS = ["FilteredStates", "ModelChoice", "Selection", "StatisticContributions", "StatisticRelevance"]


@pytest.mark.parametrize("name", RESULTS)
def test_every_method_of_a_result_is_described(name):
    for method, one in methods(getattr(pk, name)).items():
        found = dict(zip(*[iter(HEADING.split(inspect.getdoc(one) or "")[1:])] * 2, strict=True))
        signature = inspect.signature(one)
        assert set(signature.parameters) - {"self", "cls"} <= described(found.get("Parameters", "")), method
        assert "Returns" in found, method


@pytest.mark.parametrize("name", sorted(pk.ESTIMATORS))
def test_estimators_say_what_they_refuse(name):
    kind = pk.ESTIMATORS[name]
    assert "Raises\n------" in (inspect.getdoc(kind) or ""), kind
