"""What a notebook shows: bars with ipywidgets, one line without, and tables of values."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import pymc_kbr as pk
from pymc_kbr.simulation import progress


@pytest.fixture
def notebook(monkeypatch):
    """A notebook without ipywidgets; what is written below the cell."""
    below = io.StringIO()
    console = Console(file=below, force_jupyter=False, force_terminal=False, width=80)
    monkeypatch.setattr(console, "is_jupyter", True)
    monkeypatch.setattr(progress, "get_console", lambda: console)
    monkeypatch.setattr(progress, "Console", lambda: console)
    monkeypatch.setattr(progress, "find_spec", lambda name: None)
    monkeypatch.setattr(console, "print", lambda words, **how: below.write(f"{words}\n"))
    return below


def test_without_ipywidgets_there_is_one_line_at_the_end(notebook, recwarn):
    assert list(progress.tracked([1, 2, 3], "counting", True)) == [1, 2, 3]
    with progress.working(True, "Thinking"):
        pass
    lines = notebook.getvalue().splitlines()
    assert [line.split(":")[0] for line in lines] == ["counting", "Thinking"]
    assert not [one for one in recwarn if "ipywidgets" in str(one.message)]


def test_nothing_is_shown_where_nothing_is_asked_for(notebook):
    assert list(progress.tracked(iter("ab"), "counting", False)) == ["a", "b"]
    with progress.working(False, "Thinking"), progress.progress_bar(False) as bar:
        bar.add_task("rows", total=3)
    assert notebook.getvalue() == ""


def test_values_show_themselves_as_tables():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(150, 2)), columns=["a", "s<t"])
    table = pk.ReferenceTable.from_dataframe(frame, parameters=["a"], statistics=["s<t"], observed=[0.1])
    chosen = pk.select(table, candidates=["rejection"], random_seed=1, progressbar=False)
    calibration = pk.calibrate("rejection", table, rows=20, random_seed=1, progressbar=False)
    check = pk.PredictiveCheck({"y": 0.5}, {"y": 1.0}, {"y": np.ones(3)}, {})
    choice = pk.compare_models({"one": table, "other": table}, method="nearest_rows", random_seed=1)
    values = {
        "table": (table, "s&lt;t"),
        "estimator": (pk.Localised(50).fit(table), "Localised"),
        "selection": (chosen.selection_, "Rejection"),
        "posterior": (chosen.condition(table.observed), "least atom"),
        "model choice": (choice, "other"),
        "calibration": (calibration, "coverage_90"),
        "predictive check": (check, "p-value"),
        "relevance": (pk.statistic_relevance(table), "s&lt;t"),
    }
    for name, (value, word) in values.items():
        html = value._repr_html_()
        assert "<table" in html, name
        assert word in html, name
        assert "s<t" not in html, name
