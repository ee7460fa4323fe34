"""Annotations of the public names, as mypy reads them in a user's file."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import pymc_kbr as pk

USE = Path(__file__).with_name("typed_use.py")
CONFIGURATION = """[mypy]
strict = True
follow_imports = normal
[mypy-pymc_kbr.*]
follow_imports = silent
[mypy-arviz.*,dask.*,h5py.*,matplotlib.*,pymc.*,pytensor.*,rich.*,scipy.*,sklearn.*,xarray.*,zarr.*]
follow_imports = skip
"""
"""No signature is told from another by the last ones' types, which take longer to read than all others."""
WRONG = {
    'pk.Localised(neighbours="x")': "arg-type",
    "pk.Localised(neighbors=5)": "call-arg",
    "pk.Localized()": "attr-defined",
    'pk.simulate("1000")': "arg-type",
    "pk.zoom()": "call-arg",
    "pk.select([1, 2])": "arg-type",
    "pk.sample_abc(estimator=3)": "arg-type",
    'pk.compare(pk.ReferenceTable.load("t"), estimators=["auto"])': "call-arg",
    'score: int = pk.calibrate("auto", pk.ReferenceTable.load("t"))': "assignment",
    "pk.plot_calibration(1)": "arg-type",
    "pk.StoredTable.open(1)": "arg-type",
    "pk.Posterior.quantiles": "attr-defined",
    'pk.Support.of({"a": (0, 1)})': "attr-defined",
}
"""Uses that a type checker must refuse, and the code of its error."""


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What mypy says of a user's two files, outside the project, one right and one wrong."""
    folder = tmp_path_factory.mktemp("user")
    (folder / "mypy.ini").write_text(CONFIGURATION)
    (folder / "right.py").write_text(USE.read_text())
    (folder / "wrong.py").write_text("\n".join(["import pymc_kbr as pk", *WRONG]) + "\n")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "right.py", "wrong.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(USE.parents[1])},
        capture_output=True,
        text=True,
    ).stdout


def test_right_use_of_every_public_name_passes(said):
    assert set(re.findall(r"\bpk\.(\w+)", USE.read_text())) == set(pk.__all__)
    assert not [line for line in said.splitlines() if not line.startswith("wrong.py")]


def test_each_wrong_use_is_an_error(said):
    found = re.findall(r"^wrong\.py:(\d+): error: .*\[(.*)\]$", said, re.MULTILINE)
    assert found == [(str(line), code) for line, code in enumerate(WRONG.values(), start=2)]
