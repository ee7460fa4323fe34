"""Sessions of nox: what needs PyTorch is found, what fails is red, and what is not run says so."""

import re
import runpy
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[1]
Disk = namedtuple("Disk", "free")


class Skipped(Exception):
    """A session was skipped, with these words."""


@pytest.fixture(scope="module")
def sessions():
    pytest.importorskip("nox", reason="nox is not installed (extra `dev`)")
    return runpy.run_path(str(ROOT / "noxfile.py"))


@pytest.fixture
def run(sessions, tmp_path, monkeypatch):
    """Run the session `theirs` with commands that only are listed, of which one fails: the last of them."""
    monkeypatch.chdir(ROOT)
    failed = sessions["CommandFailed"]

    def run(*options, free=30, fails=None, limit=""):
        lines = []

        def command(*words, **given):
            lines.append(list(map(str, words)))
            if fails in lines[-1]:
                raise failed(fails)

        def skip(words):
            raise Skipped(words)

        monkeypatch.setattr("shutil.disk_usage", lambda path: Disk(free * 1e9))
        monkeypatch.setenv("LIMIT", limit)
        here = SimpleNamespace(location=str(tmp_path))
        sessions["theirs"].func(
            SimpleNamespace(run=command, skip=skip, posargs=list(options), virtualenv=here)
        )
        return lines[-1]

    run.failed = failed
    return run


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"free": 19}, "19 GB of disk are free, 20 are wanted"),
        ({"fails": "install"}, "packages were not installed"),
        ({"fails": "install", "limit": "9"}, "packages were not installed in 9 seconds"),
    ],
)
def test_what_says_nothing_about_the_code_is_not_run_and_says_why(given, reason, run):
    with pytest.raises(Skipped, match=f"^NOT RUN: what needs PyTorch: {reason}$"):
        run(**given)


def test_tests_that_fail_are_red(run):
    with pytest.raises(run.failed):
        run(fails="pytest")


def test_tests_are_those_that_need_pytorch_or_what_is_given(run):
    words = run()
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")}
    assert words[words.index("pytorch") - 1] == "-m"
    assert {"tests/test_readme.py", "tests/estimators/test_neural_features.py"} < set(words)
    assert {word for word in words if word.endswith(".py")} <= files
    assert run("-k", "sbi", "tests")[-3:] == ["-k", "sbi", "tests"]


def test_pytorch_is_asked_for_by_its_fixture_alone():
    own = r"importorskip\(\s*\"(?:torch|sbi)|^\s*(?:import|from) (?:torch|sbi)\b"
    paths = [path for path in ROOT.glob("tests/**/*.py") if re.search(own, path.read_text(), re.MULTILINE)]
    assert paths == [ROOT / "tests" / "conftest.py"]


def test_sessions_that_pages_name_are_there():
    code = (ROOT / "noxfile.py").read_text()
    named = set()
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob(".github/workflows/*.yml")]:
        named |= set(re.findall(r"(?:nox|\.ci/test) -s (\w+)", page.read_text()))
    assert {"docs", "lowest", "theirs"} <= named
    assert [name for name in named if f"\ndef {name}(session" not in code] == []
