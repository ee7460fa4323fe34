"""``python -m case_studies.trial_rivals``: our learned likelihood of a trial beside neural ones.

The same simulated trials and the same data sets for all, each package with its own settings. What the folder
of results holds of other methods and problems stays.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import pandas as pd

from case_studies.destination import add_destination, folder_of
from case_studies.trial_rivals.comparison import Material, added, summary
from case_studies.trial_rivals.likelihoods import METHODS, methods_of, versions
from case_studies.trial_rivals.picture import draw
from case_studies.trial_rivals.problems import PROBLEMS

HERE = Path(__file__).parent


def main() -> None:
    """Learn, compare, write the tables after each fit and draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="our likelihoods, from 300 simulated trials")
    parser.add_argument("--problems", nargs="+", choices=list(PROBLEMS), default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add_destination(parser)
    arguments = parser.parse_args()
    folder = folder_of(arguments, HERE)
    wanted = [m for m in arguments.methods if not arguments.quick or m.startswith("ours")]
    for name in arguments.problems:
        problem = PROBLEMS[name]
        methods = [method for method in methods_of(problem) if method in wanted]
        material = Material(problem, quick=arguments.quick) if methods else None
        for method in methods:
            assert material is not None
            make, settings, packages = METHODS[method]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begun = time.process_time()
                learned = make(problem, material.theta, material.x, 1, **settings)
                seconds = time.process_time() - begun
                nats, error = material.nats_lost(learned)
                lines, taken = material.errors(learned)
            fit = {
                "problem": name,
                "method": method,
                "simulations": len(material.x),
                "seconds": seconds,
                "nats_lost": nats,
                "standard_error": error,
                "taken": taken,
                "versions": versions(packages),
            }
            found = pd.DataFrame(lines, columns=["set", "parameter", "error", "width"])
            found.insert(0, "problem", name)
            found.insert(1, "method", method)
            errors = added(found, folder / "errors.csv", ["problem", "method", "set", "parameter"])
            fits = added(pd.DataFrame([fit]), folder / "fits.csv", ["problem", "method"])
            all_found = summary(fits, errors)
            all_found.round(5).to_csv(folder / "summary.csv", index=False)
            line = all_found[(all_found["problem"] == name) & (all_found["method"] == method)]
            print(line.drop(columns="versions").to_string(index=False, header=False), flush=True)
    draw(pd.read_csv(folder / "summary.csv"), folder / "trial_rivals.png")


if __name__ == "__main__":
    main()
