"""``python -m case_studies.reaction_times``: posteriors of trials of the drift diffusion model.

Learned likelihoods of a trial, time and choice, with what is known of the time declared, found by the fit, or
learnt, beside the exact posterior.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.reaction_times import drift_diffusion
from pymc_kbr.arrays.plotting import BAND, POSTERIOR

HERE = Path(__file__).parent
KNOWN: dict[str, dict[str, Any]] = {
    "declared": {"shift": {"rt": "t0"}, "lower": {"rt": "t0"}},
    "found by the fit": {},
    "learnt": {"shift": {}},
}
"""What is said of the shift of the time; an empty dict has the fit look for none."""


def errors(sizes: list[int], steps: int, sets: int, trials: int) -> pd.DataFrame:
    """A line a likelihood, data set and parameter: errors of means and ratios of deviations."""
    rng = np.random.default_rng(100)
    truths = drift_diffusion.draw_prior(rng, sets)
    data = [drift_diffusion.simulate(rng, np.repeat(truth[None], trials, axis=0)) for truth in truths]
    exact = [
        drift_diffusion.exact_posterior(one, truth, rng, steps)
        for one, truth in zip(data, truths, strict=True)
    ]
    theta = drift_diffusion.draw_prior(np.random.default_rng(0), max(sizes))
    simulated = drift_diffusion.simulate(np.random.default_rng(1), theta)
    lines = []
    for rows in sizes:
        parameters = pd.DataFrame(theta[:rows], columns=list(drift_diffusion.NAMES))
        statistics = pd.DataFrame(simulated[:rows], columns=["rt", "choice"])
        for what, known in KNOWN.items():
            begun = time.perf_counter()
            likelihood = pk.KernelLikelihood(**known).fit(parameters, statistics, random_seed=1)
            seconds = time.perf_counter() - begun
            for number, (one, draws) in enumerate(zip(data, exact, strict=True)):
                with warnings.catch_warnings(record=True) as said:
                    warnings.simplefilter("always", pk.PosteriorWarning)
                    found = likelihood.condition(one, trials=True)
                expected = likelihood.bias_for(trials, found.mean()).expected
                deviations = draws.std(axis=0)
                away = (found.mean() - draws.mean(axis=0)) / deviations
                widths = found.draw(4000, 1).std(axis=0) / deviations
                warned = any("expected to be off" in str(each.message) for each in said)
                for name, error, width in zip(drift_diffusion.NAMES, away, widths, strict=True):
                    lines.append((rows, what, seconds, number, name, error, width, expected, warned))
    columns = ["simulations", "shift", "seconds", "set", "parameter", "error", "width", "expected", "warned"]
    return pd.DataFrame(lines, columns=columns)


def summary(lines: pd.DataFrame) -> pd.DataFrame:
    """A line a likelihood."""
    return (
        lines.groupby(["simulations", "shift"], sort=False)
        .agg(
            seconds=("seconds", "first"),
            rms_error=("error", lambda e: np.sqrt(np.mean(e**2))),
            largest=("error", lambda e: e.abs().max()),
            narrowest=("width", "min"),
            widest=("width", "max"),
            expected=("expected", "mean"),
            warned=("warned", lambda w: int(w.sum()) // len(drift_diffusion.NAMES)),
        )
        .reset_index()
    )


def draw(lines: pd.DataFrame, path: Path) -> None:
    """Errors of posterior means of each parameter, in exact posterior deviations."""
    sizes = list(dict.fromkeys(lines["simulations"]))
    figure, panels = plt.subplots(
        1, len(sizes), figsize=(4.6 * len(sizes), 3), squeeze=False, sharey=True, layout="constrained"
    )
    rng = np.random.default_rng(0)
    for panel, rows in zip(panels[0], sizes, strict=True):
        panel.axvspan(-0.5, 0.5, color=BAND)
        for place, what in enumerate(KNOWN):
            part = lines[(lines["simulations"] == rows) & (lines["shift"] == what)]
            height = place + rng.uniform(-0.25, 0.25, len(part))
            panel.scatter(part["error"], height, s=18, color=POSTERIOR)
        panel.set_yticks(range(len(KNOWN)), [f"shift {what}" for what in KNOWN])
        panel.set_xscale("symlog", linthresh=1.0)
        panel.set(title=f"{rows:,} simulated trials", xlabel="error, in exact posterior deviations")
    panels[0, 0].invert_yaxis()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    """Compare the likelihoods, print the table and draw the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="100 simulations, one data set of 20 trials")
    add_destination(parser)
    arguments = parser.parse_args()
    folder = folder_of(arguments, HERE)
    lines = errors([100], 60, 1, 20) if arguments.quick else errors([5_000, 20_000], 1500, 4, 200)
    lines.round(5).to_csv(folder / "errors.csv", index=False)
    found = summary(lines)
    found.round(5).to_csv(folder / "summary.csv", index=False)
    print(found.to_string(index=False, float_format="{:.2f}".format))
    draw(lines, folder / "errors.png")


if __name__ == "__main__":
    main()
