"""Figures of a README beside the files they are from: tables cell by cell, sentences by templates.

A figure agrees with a value where it is that value rounded to the figure's own decimals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

STUDIES = Path(__file__).parents[2] / "case_studies"
NUMBER = re.compile(r"(?<![\w.\[])[+-]?\.?\d[\d,]*\.?\d*(?:e-?\d+)?")
"""A figure, with commas between thousands; not the digits of a name such as `beta[0]` or of 2x."""

Expression = str | Callable[[pd.Series], float]
"""A column, or a function of a table's line."""


@cache
def frame(study: str, name: str) -> pd.DataFrame:
    """The CSV file of that name of a study."""
    return pd.read_csv(STUDIES / study / f"{name}.csv")


@cache
def readme(study: str) -> str:
    """The text of a study's README."""
    return (STUDIES / study / "README.md").read_text()


@dataclass(frozen=True)
class Table:
    """Where the figures of one table of a README are from.

    Parameters
    ----------
    source : callable
        To a data frame.
    keys : mapping of str to callable
        Columns that tell the line a row is about, from a row's cells to the column's value.
    columns : mapping of int to sequence of Expression
        Of a cell, what its figures are, in their order; after "~" in the header of the first missing one.
    text : sequence of int
        Cells besides the keys' whose figures are not compared, since they stand in no file.
    text_where : str, optional
        Cells that hold these words say why there are no figures.
    of_keys : sequence of int
        Cells that tell the line.
    """

    source: Callable[[], pd.DataFrame]
    keys: Mapping[str, Callable[[list[str]], Any]]
    columns: Mapping[int, Sequence[Expression]]
    of_keys: Sequence[int] = (0,)
    text: Sequence[int] = field(default_factory=tuple)
    text_where: str | None = None


def tables(study: str) -> list[list[list[str]]]:
    """The rows of cells of each table of a README, without its header."""
    found: list[list[list[str]]] = []
    inside = False
    for line in readme(study).splitlines():
        stripped = line.strip()
        if not stripped.startswith("|"):
            inside = False
            continue
        if not inside:
            found.append([])
        inside = True
        if stripped.startswith("| ---"):
            found[-1] = []
            continue
        found[-1].append([cell.strip() for cell in stripped.strip("|").split("|")])
    return found


def figures(text: str) -> list[str]:
    """The figures of a text."""
    return [found.rstrip(",").rstrip(".") for found in NUMBER.findall(text)]


def agrees(figure: str, value: float) -> bool:
    """Whether a figure is a value, rounded; the value itself may have been rounded once before."""
    plain = figure.replace(",", "")
    mantissa, _, exponent = plain.partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)
    return bool(abs(float(plain) - value) <= 0.55 * unit)


def value_of(expression: Expression, line: pd.Series) -> float:
    """What an expression is in a line."""
    return float(expression(line) if callable(expression) else line.get(expression, np.nan))


def line_of(table: Table, cells: list[str]) -> pd.Series:
    """The one line of a table's file that a row is about."""
    lines = table.source()
    for column, from_cells in table.keys.items():
        lines = lines[lines[column] == from_cells(cells)]
    if len(lines) != 1:
        raise AssertionError(f"{len(lines)} lines are {cells}; there must be one")
    return lines.iloc[0]


def wrong_cells(table: Table, rows: list[list[str]]) -> list[str]:
    """What disagrees, a sentence a cell."""
    wrong = []
    for cells in rows:
        line = line_of(table, cells)
        for place, cell in enumerate(cells):
            if place in table.of_keys or place in table.text:
                continue
            if table.text_where is not None and table.text_where in cell:
                continue
            # What the file has no value of is left out of the cell.
            wanted = [value_of(expression, line) for expression in table.columns.get(place, ())]
            found, wanted = figures(cell), [value for value in wanted if not np.isnan(value)]
            if len(found) != len(wanted):
                wrong.append(f"{cells[:2]}, cell {place}: figures {found}, values {wanted}")
                continue
            for figure, value in zip(found, wanted, strict=True):
                if not agrees(figure, value):
                    wrong.append(f"{cells[:2]}, cell {place}: {figure} stands there, {value:.6g} in the file")
    return wrong


def wide(lines: pd.DataFrame, index: Sequence[str], names: str, values: Sequence[str]) -> pd.DataFrame:
    """A line for each value of `index`, and a column "name: value" for each name and value."""
    pivoted = lines.pivot_table(index=list(index), columns=names, values=list(values), aggfunc="first")
    pivoted.columns = [f"{name}: {value}" for value, name in pivoted.columns]
    return pivoted.reset_index()


def number(place: int) -> Callable[[list[str]], float]:
    """The number in a cell."""
    return lambda cells: float(cells[place].replace(",", ""))


def word(place: int, names: Mapping[str, str] | None = None) -> Callable[[list[str]], str]:
    """The name in a cell, without backticks, or what it is called in the file."""

    def found(cells: list[str]) -> str:
        plain = cells[place].strip("`")
        return (names or {}).get(plain, plain)

    return found


__all__ = ["Table", "agrees", "figures", "frame", "np", "number", "tables", "wide", "word", "wrong_cells"]
