"""``python -m case_studies.hierarchical``: likelihoods learnt from one group, sampled with all of them.

Parts whose file is there already are left out, and the samplers' runs are kept until their part is done, so
that a command goes on where another stopped.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from case_studies.hierarchical.parts import Sizes, density, epidemic_errors, trials, waiting_errors
from case_studies.hierarchical.pictures import draw

HERE = Path(__file__).parent
PARTS: dict[str, Callable[[Sizes, Path], pd.DataFrame]] = {
    "density": density,
    "trials": trials,
    "waiting": waiting_errors,
    "epidemic": epidemic_errors,
}
"""What writes each CSV file; those of the samplers write one beside it, a line a parameter."""


def main() -> None:
    """Run what is asked for and has no file yet, print its table, and draw the picture from the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all, where none is named")
    parser.add_argument("--quick", action="store_true", help="small tables and few draws, in two minutes")
    parser.add_argument("--again", action="store_true", help="parts that have a file, too")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--record", action="store_true", help="into the study's own folder")
    where.add_argument("--output", type=Path, help="into this folder; else one for temporary files")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.parts) - set(PARTS))
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    folder = HERE if arguments.record else arguments.output or Path(tempfile.gettempdir()) / "hierarchical"
    folder.mkdir(parents=True, exist_ok=True)
    sizes = Sizes.quick() if arguments.quick else Sizes()
    for name in arguments.parts or PARTS:
        path = folder / f"{name}.csv"
        if path.exists() and not arguments.again:
            print(f"{path} is there; it is kept")
            continue
        lines = PARTS[name](sizes, folder)
        lines.round(5).to_csv(path, index=False)
        shutil.rmtree(folder / "runs", ignore_errors=True)
        print(lines.to_string(index=False, float_format="{:.3f}".format), flush=True)
    if all((folder / f"{name}_parameters.csv").exists() for name in ("waiting", "epidemic")):
        draw(folder, folder / "errors.png")


if __name__ == "__main__":
    main()
