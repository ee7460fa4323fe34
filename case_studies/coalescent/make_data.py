"""Make the reference table in data/coalescent: ``python -m case_studies.coalescent.make_data``."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import numpy as np

import pymc_kbr as pk
from case_studies.coalescent.model import STATISTICS, coalescent_model
from case_studies.destination import add_destination, file_of

SEED = 20261121
TARGET = Path(__file__).parents[2] / "data" / "coalescent" / "coalescent.nc"


def make_table(rows: int, cores: int, random_seed: int = SEED) -> pk.ReferenceTable:
    """Simulate the table, its nine columns named as population geneticists name them."""
    model = coalescent_model(np.zeros(len(STATISTICS)))
    simulated = pk.simulate(rows, model=model, random_seed=random_seed, cores=cores)
    frame = simulated.to_dataframe()
    frame.columns = ["theta", "rho", *STATISTICS]  # type: ignore[assignment]
    plain = pk.ReferenceTable.from_dataframe(
        frame, parameters=["theta", "rho"], statistics=STATISTICS, bounds={"theta": (2, 10), "rho": (0, 10)}
    )
    return dataclasses.replace(plain, seed=random_seed, provenance=simulated.provenance)


def main() -> None:
    """Make the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--cores", type=int, default=2)
    add_destination(parser, "NetCDF file")
    arguments = parser.parse_args()
    table = make_table(arguments.rows, arguments.cores)
    output = file_of(arguments, TARGET.parent, TARGET.name)
    table.save(output, overwrite=True)
    print(f"{table}\n{output.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
