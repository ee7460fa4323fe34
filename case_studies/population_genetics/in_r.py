"""R's packages abc and abcrf on the same rows, and the R of the pages: part of `others`.

R and its packages are the reader's own: ``--r-library FOLDER`` names a library that has them, or
``--r-sources FOLDER ...`` their sources, which are installed into a temporary folder, in that order.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
PACKAGES = ("abc", "abcrf", "ranger", "nnet", "quantreg")
BLOCK = re.compile(r"^```r\n(?P<code>.*?)^```\n\n```text\n(?P<printed>.*?)^```$", re.MULTILINE | re.DOTALL)


class NoR(Exception):
    """Why nothing runs in R."""


@dataclass(frozen=True)
class R:
    """R, and the versions of the packages that it has."""

    library: Path | None
    versions: dict[str, str]

    def named(self, package: str) -> str:
        """A package with its version."""
        if package not in self.versions:
            raise NoR(f"R has no package {package} (--r-library, --r-sources)")
        return f"{package} {self.versions[package]}"

    def run(
        self, task: str, learnt: pd.DataFrame, others: pd.DataFrame, tolerance: float = 0.1
    ) -> tuple[pd.DataFrame, dict[str, float]]:
        """What a task of ``in_r.R`` writes about `others`, and its seconds of the processor."""
        with tempfile.TemporaryDirectory() as folder:
            for name, frame in {"learnt": learnt, "others": others}.items():
                frame.to_csv(Path(folder) / f"{name}.csv", index=False, float_format="%.17g")
            rscript([str(HERE / "in_r.R"), task, folder, str(tolerance)], self.library)
            found = pd.read_csv(Path(folder) / "found.csv")
            seconds = pd.read_csv(Path(folder) / "seconds.csv").iloc[0]
            return found, {"fit": float(seconds["fit"]), "rest": float(seconds["rest"])}


def found_r(arguments: argparse.Namespace) -> R:
    """The reader's R and the versions of its packages."""
    if shutil.which("Rscript") is None:
        raise NoR("there is no Rscript on PATH")
    library = arguments.r_library
    if arguments.r_sources:
        library = library or Path(tempfile.mkdtemp(prefix="library_of_r_"))
        for source in arguments.r_sources:
            line = ["R", "CMD", "INSTALL", "--no-docs", f"--library={library}", str(source)]
            done = subprocess.run(line, env=environment(library), capture_output=True, text=True)
            if done.returncode:
                print(f"skipped: {source}, which R did not install: {done.stderr.strip().splitlines()[-1]}")
    asked = ", ".join(f'"{name}"' for name in PACKAGES)
    code = f"""
    there <- Filter(function(name) requireNamespace(name, quietly = TRUE), c({asked}))
    cat("R", as.character(getRversion()), "\\n")
    for (name in there) cat(name, as.character(packageVersion(name)), "\\n")
    """
    lines = rscript(["-e", code], library).splitlines()
    return R(library, dict(line.split()[:2] for line in lines))  # type: ignore[arg-type]


def environment(library: Path | None) -> dict[str, str]:
    """That of R, with the reader's library."""
    return dict(os.environ) | ({} if library is None else {"R_LIBS": str(library.resolve())})


def rscript(line: list[str], library: Path | None, folder: str | None = None) -> str:
    """What R prints."""
    done = subprocess.run(
        ["Rscript", *line], env=environment(library), cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(f"R fails: {done.stderr.strip()}")
    return done.stdout


def table_of(versions: dict[str, str]) -> pd.DataFrame:
    """Versions of what was run, and the processor."""
    ours = {name: version(name) for name in ("pymc_kbr", "numpy", "scipy", "scikit-learn")}
    both = {"Python": platform.python_version(), **ours, **versions}
    return pd.DataFrame({"software": both.keys(), "version": both.values()})


def r_blocks(page: Path) -> list[dict[str, Any]]:
    """R code of a page, what the page says that it prints, and the Python before it."""
    blocks = runpy.run_path(str(DOCS / "run_blocks.py"))["BLOCK"]
    text, found = page.read_text(encoding="utf-8"), []
    for match in BLOCK.finditer(text):
        before = [one["code"] for one in blocks.finditer(text[: match.start()]) if not one["classes"]]
        found.append({"code": match["code"], "printed": match["printed"], "before": before})
    return found


def of_pages(r: R) -> list[dict[str, Any]]:
    """Each figure that the pages' R prints, beside the one that stands on the page."""
    lines = []
    for page in sorted(DOCS.glob("*.md")):
        for number, block in enumerate(r_blocks(page)):
            with tempfile.TemporaryDirectory() as folder:
                python = "import warnings; warnings.simplefilter('ignore')\n" + "\n".join(block["before"])
                subprocess.run([sys.executable, "-c", python], cwd=folder, check=True, capture_output=True)
                (Path(folder) / "block.R").write_text(block["code"])
                printed = rscript(["block.R"], r.library, folder)
            lines += compared(page.name, number, block["printed"], printed)
    return lines


def compared(page: str, block: int, on_page: str, printed: str) -> list[dict[str, Any]]:
    """Words and figures in order, those of the page beside those of R."""
    one, other = on_page.split(), printed.split()
    if len(one) != len(other):
        raise AssertionError(f"{page}, R block {block} prints {printed!r}; {on_page!r} stands there")
    return [
        {"page": page, "block": block, "on_page": was, "printed": now, "same": was == now}
        for was, now in zip(one, other, strict=True)
        if was != now or re.fullmatch(r"-?[\d.]+", was)
    ]
