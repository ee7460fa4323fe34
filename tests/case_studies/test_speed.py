"""The benchmark's bookkeeping, and its lines at toy sizes; speed itself is no test."""

import csv
import sys

import pytest

import case_studies.speed.__main__ as command
from case_studies.speed import measure, model_choice
from case_studies.speed.conditioning import localised_batch
from case_studies.speed.measure import COLUMNS, History, Row
from case_studies.speed.streaming import streamed_against_memory


def test_a_later_run_shows_what_an_earlier_one_found(tmp_path):
    path = tmp_path / "benchmark.csv"
    first = Row("fit / LAPACK", "2 s", "1 s", 2.0, "at most 3")
    assert History(path, record=True).add(first) == ""
    second = Row("fit / LAPACK", "3 s", "1 s", 3.0, "at most 3")
    assert History(path, record=True).add(second).startswith("; 2 on 20")
    assert History(path, record=True).add(first).startswith("; 3 on 20")
    with path.open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["ratio"] for line in lines] == ["2", "3", "2"]
    assert tuple(lines[0]) == COLUMNS
    assert "PyMC" in lines[0]["versions"]


@pytest.mark.parametrize("record", [False, True])
def test_the_command_keeps_its_lines_only_when_asked(record, tmp_path, monkeypatch, capsys):
    path = tmp_path / "benchmark.csv"
    History(path, record=True).add(Row("fit / LAPACK", "2 s", "1 s", 2.0, "at most 3"))
    before = path.read_bytes()
    measured = {"fit": lambda: [Row("fit / LAPACK", "3 s", "1 s", 3.0, "at most 3")]}
    monkeypatch.setattr(command, "groups", lambda quick, coal: measured)
    monkeypatch.setattr(sys, "argv", ["speed", "--history", str(path)] + ["--record"] * record)
    command.main()
    assert "ratio 3.00 (wanted: at most 3; 2 on 20" in capsys.readouterr().out
    assert path.read_bytes().startswith(before)
    assert (path.read_bytes() != before) == record


def test_lines_at_toy_sizes_are_complete():
    lines = [*localised_batch(500, 50, 20), *streamed_against_memory(2000)]
    assert all(line.ratio >= 0 and line.ours and line.other and line.wanted for line in lines)
    difference = next(line for line in lines if "largest difference" in line.what)
    assert difference.ratio <= 1


def test_a_comparison_of_models_at_toy_size_is_a_line():
    line = model_choice.many_rows(600)
    assert 0 < line.ratio < 10
    assert "600 rows of 3 models and 2 statistics" in line.what
    assert model_choice._compare(200, 3)["peak"] > 50


def test_each_run_of_ours_is_between_two_of_the_others(monkeypatch):
    """What slows both down falls out of the ratio."""
    slow = iter([1.0, 2.0, 1.0, 10.0, 20.0, 10.0, 2.0, 4.0, 2.0])
    order = []

    def timed(task):
        task()
        return next(slow)

    monkeypatch.setattr(measure, "seconds", timed)
    found = measure.beside(lambda: order.append("ours"), lambda: order.append("other"), 3)
    assert order == ["other", "ours", "other"] * 3
    assert found == (4.0, 2.0, 2.0)
