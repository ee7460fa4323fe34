"""Pictures: ``python -m case_studies.posterior_draws``.

Two moons by rejection and by `auto` beside exact draws (draws.png); calibration of the estimator that
`select` chooses on the coalescent, and of rejection (calibration.png); an observation inside and one
outside the simulations (support.png).
"""

from __future__ import annotations

import argparse
import dataclasses
import warnings
from pathlib import Path

import matplotlib
import numpy as np

import pymc_kbr as pk
from case_studies.coalescent.data import load_coalescent
from case_studies.destination import add_destination, folder_of
from case_studies.posterior_draws.problems import TWO_MOONS
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.selection.select import choose

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def moons(simulations: int, path: Path) -> None:
    """Draws of one posterior, three ways."""
    table = TWO_MOONS.table(simulations, np.random.default_rng(1))
    observed = TWO_MOONS.simulator(np.random.default_rng(3), TWO_MOONS.prior(np.random.default_rng(2), 1))[0]
    arrays = table.parameters, table.statistics, table.support
    rows = CheckedRows.of(*arrays)
    chosen = choose(rows, rng=np.random.default_rng(0), near=observed, progressbar=False)
    print("two moons:", chosen.selection_.reason())  # type: ignore[attr-defined]
    rejection = pk.Rejection(100).fit(*arrays).condition(observed)
    panels = {
        "rejection, one bandwidth": rejection.draw(2000, 0, smoothing="global"),
        "auto": chosen.condition(observed).draw(2000, 0),
        "exact": TWO_MOONS.posterior(np.random.default_rng(4), observed, 2000),
    }
    figure, axes = plt.subplots(1, 3, figsize=(8.4, 3.5), sharex=True, sharey=True, constrained_layout=True)
    for axis, (title, draws) in zip(axes, panels.items(), strict=True):
        axis.scatter(*draws.T, s=2, color="black", alpha=0.4, linewidths=0)
        axis.set(title=title, xlabel=r"$\theta_1$")
        axis.set_aspect("equal")
    axes[0].set_ylabel(r"$\theta_2$")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def calibration(rows: int, path: Path) -> None:
    """Coverage on held-out coalescent rows: what `select` chooses above, rejection below."""
    whole = load_coalescent()
    table = dataclasses.replace(
        whole, parameters=whole.parameters[:10_000].copy(), statistics=whole.statistics[:10_000].copy()
    )
    chosen = pk.select(table, random_seed=0, progressbar=False)
    print("coalescent:", chosen.selection_.reason())  # type: ignore[attr-defined]
    figure, axes = plt.subplots(2, 2, figsize=(7.6, 5.4), constrained_layout=True)
    for pair, (title, estimator) in zip(
        axes, {"select": chosen, "rejection": pk.Rejection()}.items(), strict=True
    ):
        found = pk.calibrate(estimator, table, rows=rows, random_seed=1, progressbar=False)
        pk.plot_calibration(found, ax=pair)
        pair[0].set_title(title, fontsize=10)
        for line in found.summary():
            print(title, {k: round(v, 3) if isinstance(v, float) else v for k, v in line.items()})
        print(title, "energy score", round(float(found.energy_scores.mean()), 4))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def support(path: Path) -> None:
    """A typical coalescent sample, and one with more haplotypes than its mutations allow."""
    whole = load_coalescent()
    figure, axes = plt.subplots(2, 2, figsize=(8.4, 5.4), constrained_layout=True)
    strange = whole.statistics[-1].copy()
    strange[whole.statistic_names.index("R2")] = whole.statistics[:, 3].max() * 1.5
    for pair, title, observed in zip(
        axes,
        ("a simulated sample", "the same with R2 out of range"),
        (whole.statistics[-1], strange),
        strict=True,
    ):
        table = dataclasses.replace(
            whole,
            parameters=whole.parameters[:10_000].copy(),
            statistics=whole.statistics[:10_000].copy(),
            observed=observed.copy(),
        )
        pk.plot_observation_support(table, ax=pair)
        pair[0].set_title(title, fontsize=10)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Draw all three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1,000 simulations, 100 held-out rows")
    add_destination(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    output = folder_of(arguments, HERE)
    moons(1_000 if arguments.quick else 10_000, output / "draws.png")
    calibration(100 if arguments.quick else 2_000, output / "calibration.png")
    support(output / "support.png")


if __name__ == "__main__":
    main()
