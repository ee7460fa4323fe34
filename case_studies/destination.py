"""Where a study writes: into a folder for temporary files, one that is named, or, to record it, its own."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path


def add_destination(parser: argparse.ArgumentParser, what: str = "folder of tables and pictures") -> None:
    """Let a command take ``--output`` or ``--record``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--output", type=Path, help=f"{what}; one for temporary files where left out")
    where.add_argument("--record", action="store_true", help="write over the study's own results")


def folder_of(arguments: argparse.Namespace, study: Path) -> Path:
    """The folder to write into, which is made; `study` is the study's own."""
    found = study if arguments.record else arguments.output or _temporary(study)
    found.mkdir(parents=True, exist_ok=True)
    print(f"results go into {found}", flush=True)
    return found


def file_of(arguments: argparse.Namespace, study: Path, name: str) -> Path:
    """The file to write, where ``--output`` names one; its folder is made."""
    own = (study if arguments.record else _temporary(study)) / name
    found = arguments.output or own
    found.parent.mkdir(parents=True, exist_ok=True)
    print(f"results go into {found}", flush=True)
    return found


def redraw(draw: Callable[[Path, Path], None], study: Path, picture: str) -> None:
    """The command that draws a study's picture from its tables, without computing them anew."""
    parser = argparse.ArgumentParser(description=f"{picture}, from the study's tables.")
    add_destination(parser, f"folder of {picture}")
    draw(study, folder_of(parser.parse_args(), study) / picture)


def _temporary(study: Path) -> Path:
    return Path(tempfile.gettempdir()) / "pymc_kbr_case_studies" / study.name
