"""What needs PyTorch runs apart: its tests are found, what fails is red, and what is not run says so."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

INTERPRETER = """#!/bin/sh
for last; do :; done
case "$2" in
venv) mkdir -p "$last/bin"; cp "$0" "$last/bin/python" ;;
pip) echo "ERROR: no index"; exit 1 ;;
pytest) echo "$@"; exit $TESTS ;;
*) exit $IMPORTS ;;
esac
"""
"""What stands for Python: environments, no index, tests and imports that end as they are told."""


@pytest.fixture
def run(tmp_path):
    """Run `.ci/theirs` with commands in place of Python, of uv and of df: its status and its last line."""
    if any(shutil.which(command) is None for command in ("bash", "timeout")):
        pytest.skip("bash or timeout is not there")

    def command(name, lines):
        (tmp_path / name).write_text(lines)
        (tmp_path / name).chmod(0o755)
        return str(tmp_path / name)

    def run(*options, free=30, uv="exit 0", limit="", tests=0, imports=0):
        row = f"/dev/disk 99999999 1 {round(free * 1e9 / 1024)} 1% /"
        command("df", f"#!/bin/sh\necho Filesystem\necho '{row}'\n")
        given = {
            "PYTHON": command("python", INTERPRETER),
            "UV": command("uv", f"#!/bin/sh\n{uv}\n"),
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "VENV": str(tmp_path / "made"),
            "LIMIT": limit,
            "TESTS": str(tests),
            "IMPORTS": str(imports),
        }
        line = ["bash", str(ROOT / ".ci" / "theirs"), *options]
        ended = subprocess.run(line, env=os.environ | given, capture_output=True, text=True)
        return ended.returncode, (ended.stdout.splitlines() or [""])[-1]

    return run


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"free": 19.9}, "19 GB of disk are free, 20 are wanted"),
        ({"uv": "exit 2"}, "packages were not installed: ERROR: no index"),
        ({"uv": "sleep 60", "limit": "1"}, "packages were not installed in 1 seconds"),
    ],
)
def test_what_says_nothing_about_the_code_is_not_run_and_says_why(given, reason, run):
    assert run(**given) == (75, f"NOT RUN: {reason}")


@pytest.mark.parametrize("given", [{"tests": 1}, {"tests": 5}, {"imports": 1}])
def test_what_fails_is_red(given, run):
    assert run(**given)[0] == next(iter(given.values()))


def test_tests_are_those_that_need_pytorch_or_what_is_given(run):
    status, line = run()
    assert status == 0
    words = line.split()
    files = {str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")}
    assert "-m pytorch tests/test_readme.py" in line
    assert {"tests/estimators/test_neural_features.py", "tests/filtering/test_features.py"} < set(words)
    assert {word for word in words if word.endswith(".py")} < files
    assert run("-k", "sbi", "tests")[1].endswith("no:cacheprovider -k sbi tests")


def test_pytorch_is_asked_for_by_its_fixture_alone():
    own = r"importorskip\(\s*\"(?:torch|sbi)|^\s*(?:import|from) (?:torch|sbi)\b"
    paths = [path for path in ROOT.glob("tests/**/*.py") if re.search(own, path.read_text(), re.MULTILINE)]
    assert paths == [ROOT / "tests" / "conftest.py"]
