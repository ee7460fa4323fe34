"""Every figure of a study's README that is in a CSV file beside it is the file's."""

import pandas as pd
import pytest

from tests.case_studies.readme_figures import STUDIES, Table, agrees, figures, tables, wrong_cells
from tests.case_studies.tables_of_posteriors import TABLES


@pytest.mark.parametrize(
    ("study", "place"), [(study, place) for study, named in TABLES.items() for place in range(len(named))]
)
def test_tables_are_their_files(study, place):
    rows = tables(study)[place]
    assert rows
    assert wrong_cells(TABLES[study][place], rows) == []


def test_every_readmes_every_table_is_compared():
    assert {path.parent.name for path in STUDIES.glob("*/README.md")} >= set(TABLES)
    for path in STUDIES.glob("*/README.md"):
        study = path.parent.name
        assert len(tables(study)) == len(TABLES.get(study, ())), study


@pytest.mark.parametrize(
    ("figure", "value", "same"),
    [
        ("0.112", 0.1116, True),
        ("0.112", 0.1126, False),
        ("2,641", 2641.09, True),
        ("-0.0055", -0.00545, True),
        ("0.0055", -0.0055, False),
        ("8e-05", 8e-5, True),
        ("12", 12.6, False),
    ],
)
def test_a_figure_agrees_with_what_it_rounds(figure, value, same):
    assert agrees(figure, value) == same


def test_figures_are_distinguished_from_names():
    assert figures("`beta[0]` +0.039, 1,000 rows in 0.02 s / -4e-05 (5%)") == [
        "+0.039",
        "1,000",
        "0.02",
        "-4e-05",
        "5",
    ]


def test_a_wrong_digit_fails():
    lines = pd.DataFrame({"d": [2], "error": [0.123], "seconds": [1.5]})
    table = Table(lambda: lines, {"d": lambda cells: float(cells[0])}, {1: ["error"], 2: ["seconds"]})
    assert wrong_cells(table, [["2", "0.123", "1.5 s"]]) == []
    assert wrong_cells(table, [["2", "0.124", "1.5 s"]])
    assert wrong_cells(table, [["2", "0.123", ""]])
    assert wrong_cells(table, [["2", "0.123", "1.5, 2.5"]])
