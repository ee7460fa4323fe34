"""Sections 5.2 and 5.4 of the localised draft: ``python -m case_studies.nonlinear_regression``."""

from __future__ import annotations

import argparse
from pathlib import Path

from case_studies.destination import add_destination, folder_of
from case_studies.nonlinear_regression import bumps
from case_studies.nonlinear_regression.cross_validation import bandwidths

HERE = Path(__file__).parent
PARTS = {"bandwidths": bandwidths, **bumps.PLAN.parts()}


def main() -> None:
    """Write the tables and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials of small samples")
    add_destination(parser)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    for part in arguments.parts:
        PARTS[part](arguments.quick, output)
        print(f"{part}: written to {output}", flush=True)


if __name__ == "__main__":
    main()
