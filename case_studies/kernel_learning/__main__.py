"""``python -m case_studies.kernel_learning``: learnt bandwidths, and what tests find with them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib

from case_studies.destination import add_destination, folder_of

matplotlib.use("Agg")

from case_studies.kernel_learning import (
    aggregated,
    contamination,
    embedding_figure,
    grid,
    levels,
    mixtures,
    ozone,
    readings,
    regressions,
)

HERE = Path(__file__).parent
PARTS: dict[str, Callable[[bool, Path], None]] = {
    "embedding": embedding_figure.figure,
    "curve": grid.curve,
    "errors": grid.errors,
    "readings": readings.readings,
    "grid": grid.picture,
    "mixtures": mixtures.mixtures,
    "mixture_sets": mixtures.data_sets,
    "regressions": regressions.regressions,
    "linear": regressions.linear,
    "levels": levels.levels,
    "aggregated": aggregated.aggregated,
    "misspecification": contamination.contaminations,
    "ozone": ozone.ozone,
    "power": levels.power,
}


def main() -> None:
    """Write the tables and pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small samples, few repetitions")
    add_destination(parser)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--ozone", type=Path, help="a file of one's own with the ozone data")
    arguments = parser.parse_args()
    PARTS["ozone"] = partial(ozone.ozone, own=arguments.ozone)
    output = folder_of(arguments, HERE)
    for part in arguments.parts:
        PARTS[part](arguments.quick, output)
        print(f"{part}: written to {output}", flush=True)


if __name__ == "__main__":
    main()
