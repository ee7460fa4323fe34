"""All experiments with normal distributions: ``python -m case_studies.gaussian_ground_truth``.

Sections 5.1 and 5.2 of Fukumizu 2013, 5.1 of Xu 2022, and 5.1 of the localised draft.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from case_studies.destination import add_destination, folder_of
from case_studies.gaussian_ground_truth import fukumizu_5_1, fukumizu_5_2, localised_5_1, pictures, xu_5_1

HERE = Path(__file__).parent


def xu(quick: bool, output: Path) -> None:
    """Xu 2022, section 5.1."""
    table = xu_5_1.table(2, (2,)) if quick else xu_5_1.table(30, xu_5_1.DIMENSIONS)
    table.round(4).to_csv(output / "xu_5_1.csv", index=False)
    pictures.over_dimensions(table, output / "xu_5_1.png")


def fukumizu_dimensions(quick: bool, output: Path) -> None:
    """Fukumizu 2013, section 5.1."""
    few = ("kbr_median", "kbr_cross_validated")
    table = fukumizu_5_1.table(1, (2,), few) if quick else fukumizu_5_1.table(5, fukumizu_5_1.DIMENSIONS)
    table.round(4).to_csv(output / "fukumizu_5_1.csv", index=False)
    pictures.over_dimensions(table, output / "fukumizu_5_1.png")


def fukumizu_seconds(quick: bool, output: Path) -> None:
    """Fukumizu 2013, section 5.2."""
    sizes = (50, 100) if quick else (*fukumizu_5_2.SIZES, *fukumizu_5_2.FOR_REJECTION)
    table = fukumizu_5_2.table(2 if quick else 20, sizes)
    table.round(5).to_csv(output / "fukumizu_5_2.csv", index=False)
    pictures.over_seconds(table, output / "fukumizu_5_2.png")


PARTS = {
    "xu": xu,
    "fukumizu_5_1": fukumizu_dimensions,
    "fukumizu_5_2": fukumizu_seconds,
    **localised_5_1.PARTS,
}


def main() -> None:
    """Write the tables and pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="few runs of small tables")
    add_destination(parser)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    arguments = parser.parse_args()
    output = folder_of(arguments, HERE)
    for part in arguments.parts:
        PARTS[part](arguments.quick, output)
        print(f"{part}: written to {output}", flush=True)


if __name__ == "__main__":
    main()
