"""The figures of a study: kept in a CSV file, made again on request, and shown."""

import argparse
import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_figures(path: Path, lines: list[dict[str, Any]]) -> None:
    """Write all lines."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def read_figures(path: Path) -> list[dict[str, str]]:
    """The lines that are kept."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def command(about: str | None, record: Callable[[], None], show: Callable[[], None]) -> None:
    """Show the figures; with ``--record`` make them again first."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="make the figures again")
    if parser.parse_args().record:
        record()
    show()
