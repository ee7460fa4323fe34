import sys
from zlib import crc32

import hypothesis
import numpy as np
import pytest

import pymc_kbr as pk

# A busy machine is no counterexample.
hypothesis.settings.register_profile("any machine", deadline=None)
hypothesis.settings.load_profile("any machine")


def part(words):
    """The number of a part and how many there are, from words like 1/2."""
    number, of = map(int, words.split("/"))
    if not 1 <= number <= of:
        raise ValueError(f"there is no part {words}")
    return number, of


def in_part(name, number, of):
    """Whether a test is in part `number` of `of`: by its name, so that it is whatever else is left out."""
    return crc32(name.encode()) % of == number - 1


def pytest_addoption(parser):
    words = "of a parametrised test, run no combination whose values all occur in others that are run"
    parser.addoption("--each-value-once", action="store_true", help=words)
    words = "run one part, as 1/2, of the files with tests, and all tests that have the mark `versions`"
    parser.addoption("--part", type=part, default=(1, 1), help=words)


def pytest_itemcollected(item):
    if "torch" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.pytorch)


def chosen(items, wanted=(1, 1), once=False):
    """The tests that `--part` and `--each-value-once` leave."""
    seen, kept = set(), []
    for item in items:
        values = item.callspec.params if hasattr(item, "callspec") else {}
        new = {(item.path, item.originalname, name, id(value)) for name, value in values.items()} - seen
        seen |= new
        long = any(item.get_closest_marker(mark) for mark in ("statistical", "pages"))
        combination = bool(values) and not new and not long
        # A file stays whole, for its tests share fixtures.
        name = item.nodeid if long or combination else item.nodeid.split("::")[0]
        everywhere = item.get_closest_marker("versions") and not (long or combination)
        if (everywhere or in_part(name, *wanted)) and not (once and combination):
            kept.append(item)
    return kept


def pytest_collection_modifyitems(config, items):
    kept = chosen(items, config.getoption("--part"), config.getoption("--each-value-once"))
    there = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in there])
    items[:] = kept


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.fixture
def torch():
    """PyTorch. A test that asks for it has the mark `pytorch`, by which the session `theirs` finds it."""
    missing = "PyTorch (extra `neural`) is not installed; `nox -s theirs` runs this with it"
    return pytest.importorskip("torch", reason=missing)


@pytest.fixture(scope="session")
def linear():
    """theta ~ N(0, I) in two dimensions, three noisy linear statistics: (parameters, statistics)."""
    rng = np.random.default_rng(11)
    theta = rng.normal(size=(600, 2))
    mix = np.array([[1.0, 0.0, 0.5], [0.0, 2.0, -0.5]])
    return theta, theta @ mix + 0.5 * rng.normal(size=(600, 3))


@pytest.fixture
def small_table(rng):
    """A table of ten rows without a model."""
    import pandas as pd

    frame = pd.DataFrame(rng.random((10, 4)), columns=["a", "b", "s", "t"])
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], observed=[0.5, 0.5], bounds={"a": (0, 1)}
    )


@pytest.fixture(autouse=True)
def no_second_fit(request, monkeypatch):
    """Leave out the check whether a table is too coarse, which takes a second, but where it is asked for."""
    if request.node.get_closest_marker("coarse") is None and "pymc_kbr.sample" in sys.modules:
        monkeypatch.setattr("pymc_kbr.sample.coarseness_of", lambda *given, **more: None)


@pytest.fixture
def plain_layout(monkeypatch):
    """Leave out what moves axes apart, which is Matplotlib's and takes most of a picture's time."""
    monkeypatch.setattr("matplotlib.layout_engine.ConstrainedLayoutEngine.execute", lambda *given: None)


@pytest.fixture
def set_default(monkeypatch):
    """Change the default of a keyword argument to which a call passes nothing, through many layers."""

    def change(function, **values):
        for name, value in values.items():
            assert name in function.__kwdefaults__
            monkeypatch.setitem(function.__kwdefaults__, name, value)

    return change
