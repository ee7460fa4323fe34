import re
import sys
import tomllib
from pathlib import Path

import pytest

from pymc_kbr.arrays.extras import brought_by

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


@pytest.mark.parametrize("name", ["absent", "absent.inside"])
def test_what_is_missing_is_said_with_both_ways_to_get_it(name):
    words = r"^Absent is not installed; .*pip install '\.\[plots\]' in a clone.*'pymc_kbr\[plots\]' from"
    with pytest.raises(ImportError, match=words), brought_by("plots", "absent", "Absent"):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    with pytest.raises(ImportError, match=r"^absent is not installed"), brought_by("plots", "absent"):
        raise ModuleNotFoundError(name=name)


def test_another_failure_inside_of_a_package_is_raised_as_it_is():
    with pytest.raises(ModuleNotFoundError) as raised, brought_by("plots", "absent"):
        import pymc_kbr.arrays.nothing  # noqa: F401
    assert raised.value.name == "pymc_kbr.arrays.nothing"
    with brought_by("plots", "sys"):
        assert sys


def test_every_extra_that_is_named_brings_what_is_imported():
    called = {
        found
        for path in (ROOT / "pymc_kbr").rglob("*.py")
        for found in re.findall(r'brought_by\("(\w+)", "(\w+)"', path.read_text())
    }
    assert len(called) == 5
    for extra, module in called:
        names = [re.split("[>=]", one)[0].replace("-", "") for one in EXTRAS[extra]]
        assert module in names
