"""Ten tasks of sbibm: ``python -m case_studies.sbi_benchmark``.

Goes on where it ended: a line of a task, budget, method and observation that stands in the folder's
results.csv is not computed again.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import pandas as pd

from case_studies.sbi_benchmark.c2st import FOLDS
from case_studies.sbi_benchmark.methods import METHODS
from case_studies.sbi_benchmark.results import CLASSIFIERS, Results, run
from case_studies.sbi_benchmark.summary import filled, markdown
from case_studies.sbi_benchmark.tasks import TASKS
from case_studies.sbi_benchmark.wheel import INSTALL, OBSERVATIONS, installed

HERE = Path(__file__).parent
README = HERE / "README.md"


def arguments() -> argparse.Namespace:
    """Of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--budgets", nargs="+", type=int, default=[1_000, 10_000], help="simulations")
    parser.add_argument("--methods", nargs="+", default=["rejection", "auto", "kernel_likelihood"])
    parser.add_argument("--observations", nargs="+", type=int, default=list(OBSERVATIONS))
    parser.add_argument("--classifiers", nargs="+", default=list(CLASSIFIERS), choices=list(CLASSIFIERS))
    parser.add_argument(
        "--folds", type=int, default=FOLDS, help="of the classifiers' five, how many are used"
    )
    parser.add_argument("--out", type=Path, default=Path("sbi_benchmark"), help="folder of results.csv")
    parser.add_argument("--record", action="store_true", help="write beside the study's code instead")
    parser.add_argument("--table", action="store_true", help="compute nothing, print what there is")
    found = parser.parse_args()
    unknown = sorted(set(found.methods) - set(METHODS))
    if unknown:
        parser.error(f"methods {unknown}; there are {sorted(METHODS)}")
    return found


def main() -> int:
    """Compute what is missing; print the table, and draw the picture where matplotlib is installed."""
    asked = arguments()
    if not installed() and not asked.table:
        print(INSTALL, file=sys.stderr)
        return 1
    results = Results((HERE if asked.record else asked.out) / "results.csv")
    failed = 0
    if not asked.table:
        warnings.simplefilter("ignore", UserWarning)
        tests = asked.classifiers, asked.folds
        for task in asked.tasks:
            for budget in asked.budgets:
                for method in asked.methods:
                    failed += run(results, TASKS[task], budget, method, asked.observations, *tests)
    lines = results.scored()
    if not len(lines):
        print(f"there is no value in {results.path}")
        return 1
    for classifier in CLASSIFIERS:
        if lines[f"c2st_{classifier}"].notna().any():
            print(f"{classifier}\n\n{markdown(lines, classifier)}\n")
    if asked.record:
        README.write_text(filled(README.read_text(), lines))
    _picture(lines, results.path.with_name("c2st.png"))
    return int(failed > 0)


def _picture(lines: pd.DataFrame, path: Path) -> None:
    try:
        import matplotlib  # noqa: F401 (whether it is there)
    except ModuleNotFoundError:
        print("no picture: matplotlib is not installed")
        return
    from case_studies.sbi_benchmark.plot import draw

    draw(lines, path)


if __name__ == "__main__":
    sys.exit(main())
