"""Population genetics from data to posteriors: ``python -m case_studies.population_genetics``."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

from case_studies.destination import add_destination, folder_of

STUDIES = ("tuberculosis", "split", "demographies")


def main() -> None:
    """Write the tables and pictures of each study."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--cores", type=int, default=1, help="for the simulations")
    parser.add_argument("--stores", type=Path, help="folder that keeps simulations, to go on from")
    parser.add_argument("--quick", action="store_true", help="100 simulations of each")
    add_destination(parser)
    arguments = parser.parse_args()
    folder = folder_of(arguments, Path(__file__).parent)
    for name in arguments.only:
        study = import_module(f"case_studies.population_genetics.{name}")
        simulations = 100 if arguments.quick else arguments.simulations
        tables = study.run(simulations, arguments.cores, arguments.stores)
        for words, lines in tables.items():
            if words == "pictures":  # what only they need
                continue
            lines.to_csv(folder / f"{words}.csv", index=False, float_format="%.4g")
            print(lines.to_string(index=False, float_format="{:.3g}".format), flush=True)
        study.draw(tables, folder)


if __name__ == "__main__":
    main()
