"""Sections 5.2 and 5.4 of the localised draft: ``python -m case_studies.nonlinear_regression``."""

from __future__ import annotations

import argparse
from pathlib import Path

from case_studies.nonlinear_regression import bumps
from case_studies.nonlinear_regression.cross_validation import bandwidths

HERE = Path(__file__).parent
PARTS = {"bandwidths": bandwidths, **bumps.PLAN.parts()}


def main() -> None:
    """Write the tables and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few trials of small samples")
    parser.add_argument("--output", type=Path, default=HERE)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    for part in arguments.parts:
        PARTS[part](arguments.quick, arguments.output)
        print(f"{part}: written to {arguments.output}", flush=True)


if __name__ == "__main__":
    main()
