"""The blocks of the README and of each page run in the order in which they are read, on small tables."""

import importlib.util
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import warnings
from contextlib import suppress
from pathlib import Path

import matplotlib as mpl
import pytest

import pymc_kbr as pk

mpl.use("Agg")

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted(ROOT.glob("docs/*.md"))]
MOST = 400
"""Rows and draws at most: numbers that the README writes with an underscore are cut to this."""

SHORTER = {
    '"localised", "adjusted", "sample_smc"]': '"localised"]',
    "repetitions=3": "repetitions=1",
    "rows=1000": "rows=60",
    "simulations=1000": "simulations=300",
    'simulations=500, estimator="adjusted"': 'simulations=150, estimator="adjusted"',
    "table, rows=200": "table, rows=30",
    "max_nr_populations=8": "max_nr_populations=2",
    "draws=50)": "draws=5)",
    "size=1000": "size=300",
    "size=(1000, 2)": "size=(300, 2)",
    # `refine` and `sample_abc` have tests of their own, with the likelihood that they choose by themselves.
    "pk.refine(1_000, ": 'pk.refine(300, rounds=2, estimator=pk.KernelLikelihood("location_scale"), ',
    "simulations=2000,": 'simulations=300, rounds="auto",',
    "pk.zoom(8_000": "pk.zoom(1500",  # its rounds have a least size
    "pk.zoom(3_000": "pk.zoom(1500",
    "pk.KernelLikelihood()": 'pk.KernelLikelihood("location_scale")',
    'model=model, estimator="kernel_likelihood"': 'model=model, estimator="localised"',
    "rng.gamma(3, 1 / 2.5, (200, 1))": "rng.gamma(3, 1 / 2.5, (40, 1))",
    "pm.sample(500, chains=2": "pm.sample(5, tune=5, chains=1",
    "pm.sample_smc(1_000, chains=2": "pm.sample_smc(30, chains=1",
}
"""What would take minutes."""


OF_ALL = {page: runpy.run_path(str(ROOT / "docs" / "run_blocks.py"))["blocks"](page) for page in PAGES}
ABSENT = {
    "sbi": "sbi brings PyTorch, which is gigabytes; `nox -s theirs` runs this block with it",
    "dadi": "dadi is installed by who runs `docs/run_blocks.py` on this page",
}
"""Packages that the extra `test` does not bring; every other one has to be there."""

NEED_MORE = [
    pytest.param(
        page, i, id=f"{page.stem}-{block.needs}-{i}", marks=[pytest.mark.pytorch] * (block.needs == "sbi")
    )
    for page, found in OF_ALL.items()
    for i, block in enumerate(found)
    if block.cluster or block.needs in ABSENT
]

SLURM = {
    "sbatch": 'cp "$1" job.sh\nsh job.sh >/dev/null 2>&1 &\necho "Submitted batch job $!"',
    "scancel": 'kill "$1"',
}
"""What stands for SLURM: a job runs on this machine, from a copy: the script is gone once it is submitted."""

PYMC = ROOT / "docs" / "pymc.md"
"""The page for users of PyMC has a test of its own, on every version."""

WITH_BLOCKS = [page for page in PAGES if OF_ALL[page] and page != PYMC]


def shortened(block):
    for long, short in SHORTER.items():
        block = block.replace(long, short)
    return re.sub(r"\b\d{1,3}(?:_\d{3})+\b", lambda number: str(min(int(number[0]), MOST)), block)


def test_what_is_shortened_stands_there():
    text = "".join(block.code for found in OF_ALL.values() for block in found)
    assert len(WITH_BLOCKS) > 15
    assert [long for long in SHORTER if long not in text] == []
    assert shortened("f(1_000_000, 300, 1_500)") == "f(400, 300, 400)"


def shows_something(names, printed):
    drawn = "figure" in names and all(axes.has_data() for axes in names["figure"].axes)
    assert printed or drawn or len(names["table"]) == MOST


@pytest.mark.pages
@pytest.mark.usefixtures("plain_layout")
@pytest.mark.parametrize("page", WITH_BLOCKS, ids=lambda page: page.stem)
def test_the_blocks_run_in_order(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # What "auto" tries has tests of its own, and takes most of the time here.
    few = [pk.Localised(), pk.Rejection(0.1)]
    monkeypatch.setattr("pymc_kbr.selection.select.default_candidates", lambda n, d, **_: (few, []))
    names = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(OF_ALL[page]):
            if block.cluster or block.needs in ABSENT:
                continue
            capsys.readouterr()
            try:
                exec(compile(shortened(block.code), f"block {number}", "exec"), names)
            except Exception as error:
                raise AssertionError(f"block {number} of {page.name} fails: {error}\n{block.code}") from error
            if block.needs:
                shows_something(names, capsys.readouterr().out)
    assert (tmp_path / "comparison.csv").exists() == (page.stem == "comparing")


@pytest.mark.versions
def test_the_page_for_users_of_PyMC_runs_on_every_version(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    few = [pk.Localised(), pk.Rejection(0.1)]
    monkeypatch.setattr("pymc_kbr.selection.select.default_candidates", lambda n, d, **_: (few, []))
    names = {"__name__": "page"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for block in OF_ALL[PYMC]:
            exec(compile(shortened(block.code), "pymc.md", "exec"), names)
    mpl.pyplot.close("all")
    printed = capsys.readouterr().out
    assert "sample_abc has no argument 'tune'" in printed
    assert f"{{'chain': 4, 'draw': {MOST}}} ['centre', 'spread']" in printed.replace("500", str(MOST))
    assert "four pictures" in printed


def address(block):
    """A cluster of this process, where the block asks for one."""
    if "ADDRESS" not in block.code:
        return None
    from distributed import LocalCluster

    return LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None)


def close_client():
    """Close the client that a block has made: tests after it would send all that Dask does to its cluster."""
    if "distributed" in sys.modules:
        with suppress(ValueError):  # there is none
            sys.modules["distributed"].default_client().close()


@pytest.mark.pages
@pytest.mark.parametrize(("page", "number"), NEED_MORE)
def test_a_block_that_needs_more_runs(page, number, tmp_path, monkeypatch, capsys):
    block = OF_ALL[page][number]
    if block.needs in ABSENT and importlib.util.find_spec(block.needs) is None:
        pytest.skip(ABSENT[block.needs])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    for name, lines in SLURM.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tmp_path / name).chmod(0o755)
    few = [pk.Rejection(0.1)]
    monkeypatch.setattr("pymc_kbr.selection.select.default_candidates", lambda n, d, **_: (few, []))
    # On a cluster the model alone is wanted, and none of the simulations that are stored before.
    before = [
        one.code
        for one in OF_ALL[page][: 1 if block.cluster else number]
        if one.needs in ("", "msprime", block.needs)
    ]
    names, own = {"__name__": "page"}, address(block)
    code = shortened(block.code).replace("scale(40)", "scale(1)")
    if own is not None:
        code = code.replace("tcp://ADDRESS:8786", own.scheduler_address)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for one in before:
                exec(compile(shortened(one), page.name, "exec"), names)
            capsys.readouterr()
            exec(compile(code, page.name, "exec"), names)
    finally:
        close_client()
        for cluster in (own, names.get("cluster")):
            if cluster is not None:
                cluster.close()
    shows_something(names, capsys.readouterr().out)


def test_every_block_of_python_runs_somewhere():
    for page, found in OF_ALL.items():
        assert page.read_text().count("{code-block} python") == sum(1 for one in found if one.needs), page


R_CODE = [
    (page, code) for page in PAGES for code in re.findall(r"^```r\n(.*?)^```", page.read_text(), re.M | re.S)
]


@pytest.mark.parametrize(("page", "code"), R_CODE, ids=lambda value: getattr(value, "stem", ""))
def test_R_code_is_parsed_by_R(page, code):
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed; its packages abc and arrow are on no index that Python reads")
    expression = 'cat(length(parse(file("stdin"))))'
    parsed = subprocess.run(["Rscript", "-e", expression], input=code, capture_output=True, text=True)
    assert parsed.returncode == 0, f"{page.name}: {parsed.stderr}"
    assert int(parsed.stdout) > 1


def test_commands_of_the_pages_are_there():
    for page in [*PAGES, *ROOT.glob("case_studies/*/README.md")]:
        for block in re.findall(r"^```\n(.*?)^```$", page.read_text(), re.M | re.S):
            for script in re.findall(r"(?:bash|python) ((?:\.ci|docs)/\S+)", block):
                assert (ROOT / script).exists(), f"{page}: {script}"
            for module, options in re.findall(r"python -m ((?:case_studies|tests)[.\w]*)([^#\n&]*)", block):
                found = ROOT / module.replace(".", "/")
                files = sorted(found.glob("*.py")) if found.is_dir() else [found.with_suffix(".py")]
                code = "".join(
                    file.read_text() for file in [*files, ROOT / "case_studies" / "destination.py"]
                )
                missing = [one for one in re.findall(r"--[\w-]+", options) if f'"{one}"' not in code]
                assert not missing, f"{page}: {module} has no {missing}"


def test_every_public_name_has_its_place_in_the_api_page():
    named = re.findall(r"^   (\w+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(pk.__all__)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(#[^)]*)?\)", page.read_text()):
            if "://" in target or not target:
                continue
            found = (page.parent / target).resolve()
            assert found.exists(), f"{page.name} links to {target}"
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE) if anchor else []
            slugs = {re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in headings}
            assert not anchor or anchor[1:] in slugs, f"{page.name} links to {target}{anchor}"


def test_the_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cited = yaml_line("version", (ROOT / "CITATION.cff").read_text())
    newest = re.search(r"^## (\S+?)(, .*)?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert project == cited
    assert project == newest[1] + (".dev0" if newest[2] == ", not released" else "")


def yaml_line(key, text):
    return re.search(rf"^{key}: (.*)$", text, re.MULTILINE)[1]
