"""``python -m case_studies.field``: accuracy against processor seconds, ours and other packages.

The same table of simulations and the same observations for all. What the folder of results holds of other
methods and problems stays. R's packages are the reader's own: ``--r-library`` names a library that has them,
or ``--r-sources`` their sources.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd

from case_studies.destination import add_destination, folder_of
from case_studies.field.methods import METHODS, Work, answer, r_of
from case_studies.field.picture import draw
from case_studies.field.problems import PROBLEMS
from case_studies.population_genetics.in_r import NoR
from case_studies.trial_rivals.comparison import added, summary

HERE = Path(__file__).parent
ROWS, OBSERVATIONS, SEED = 10_000, 20, 1
ORDERS = {"problem": list(PROBLEMS), "method": list(METHODS)}


def main() -> None:
    """Run each method on each problem, write the tables after each and draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="our methods, on 500 simulations")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--r-library", type=Path, help="library of R that has abc and abcrf")
    parser.add_argument("--r-sources", type=Path, nargs="+", help="sources of abc.data, abc and abcrf")
    add_destination(parser)
    arguments = parser.parse_args()
    folder = folder_of(arguments, HERE)
    methods = [m for m in arguments.methods if not arguments.quick or m.startswith("ours")]
    r = r_of(arguments) if any(method.startswith("R ") for method in methods) else None
    rows, observations = (500, 2) if arguments.quick else (ROWS, OBSERVATIONS)
    for name in arguments.problems:
        problem = PROBLEMS[name]
        table, observed = problem.table(rows, SEED), problem.table(observations, SEED + 1).statistics
        exact = problem.exact(observed, 0.02 if arguments.quick else 1.0)
        for method in methods:
            try:
                found = answer(method, Work(problem, table, observed, SEED, r))
            except NoR as why:
                print(f"skipped: {method}: {why}", flush=True)
                continue
            fit = {
                "problem": name,
                "method": method,
                "simulations": found.simulations,
                "observations": len(found.means),
                "seconds_fit": found.fit,
                "seconds": found.first,
                "seconds_of_another": found.another,
                "estimator": found.estimator,
                "versions": found.versions,
            }
            lines = [
                {
                    "problem": name,
                    "method": method,
                    "observation": i,
                    "parameter": parameter,
                    "error": (found.means[i, j] - exact[0][i, j]) / exact[1][i, j],
                    "width": found.deviations[i, j] / exact[1][i, j],
                }
                for i in range(len(found.means))
                for j, parameter in enumerate(problem.priors)
            ]
            keys = ["problem", "method"]
            errors = added(
                pd.DataFrame(lines), folder / "errors.csv", [*keys, "observation", "parameter"], ORDERS
            )
            fits = added(pd.DataFrame([fit]), folder / "fits.csv", keys, ORDERS)
            every = summary(fits, errors)
            widths = errors.groupby(keys)["width"].median().rename("typical_width")
            every = every.merge(widths.reset_index(), on=keys)
            every.round(5).to_csv(folder / "summary.csv", index=False)
            line = every[(every["problem"] == name) & (every["method"] == method)]
            print(line.drop(columns="versions").to_string(index=False, header=False), flush=True)
    draw(pd.read_csv(folder / "summary.csv"), folder / "field.png")


if __name__ == "__main__":
    main()
