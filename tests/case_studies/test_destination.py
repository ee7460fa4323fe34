"""A study writes over its own tables and pictures only where it is told to."""

import argparse
import re
import runpy
import sys
import tempfile
from pathlib import Path

import pytest

from case_studies.destination import add_destination, file_of, folder_of

ROOT = Path(__file__).parents[2]
COMMANDS = sorted(
    path for path in (ROOT / "case_studies").rglob("*.py") if "ArgumentParser(" in path.read_text()
)
OWN = {"unchanged.py", "destination.py"}
"""Commands that write nothing, and what this is about."""


def asked(*words):
    parser = argparse.ArgumentParser()
    add_destination(parser)
    return parser.parse_args(words)


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary" / "pymc_kbr_case_studies"


def test_results_go_where_they_are_asked_to_go(tmp_path, temporary, capsys):
    study, named = tmp_path / "study", tmp_path / "named"
    assert folder_of(asked(), study) == temporary / "study"
    assert folder_of(asked("--output", str(named)), study) == named
    assert not study.exists()
    assert folder_of(asked("--record"), study) == study
    assert file_of(asked(), study, "a.csv") == temporary / "study" / "a.csv"
    assert file_of(asked("--output", str(named / "b.csv")), study, "a.csv") == named / "b.csv"
    assert file_of(asked("--record"), study, "a.csv") == study / "a.csv"
    assert capsys.readouterr().out.count("results go into") == 6
    with pytest.raises(SystemExit):
        asked("--record", "--output", str(named))


@pytest.mark.parametrize("path", COMMANDS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_command_writes_into_its_study_unasked(path):
    text = path.read_text()
    assert "default=HERE" not in text
    assert "default=TARGET" not in text
    assert path.name in OWN or "add_destination(" in text or '"--record"' in text


def test_readmes_record_where_they_say_that_a_table_is_made():
    commands = [
        line
        for readme in (ROOT / "case_studies").glob("*/README.md")
        for line in re.findall(
            r"^.*python -m case_studies[^\n]*# [\w*]+\.csv[^\n]*$", readme.read_text(), re.M
        )
    ]
    assert len(commands) > 8
    assert [line for line in commands if "--record" not in line and "--output" not in line] == []


@pytest.mark.statistical
def test_a_quick_study_leaves_its_folder_as_it_is(temporary, monkeypatch):
    def changed():
        return {path: path.read_bytes() for path in (ROOT / "case_studies" / "coalescent").glob("*.*")}

    before = changed()
    monkeypatch.setattr(sys, "argv", ["unif", "--quick"])
    runpy.run_module("case_studies.coalescent.unif", run_name="__main__", alter_sys=True)
    assert changed() == before
    assert (temporary / "coalescent" / "unif.csv").exists()
