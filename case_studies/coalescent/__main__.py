"""The main job: from a coalescent model to posteriors against the truth.

``python -m case_studies.coalescent`` simulates a reference table, conditions every estimator on
three samples with known parameters, and writes a table and a picture.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import arviz as az
import matplotlib
import numpy as np
import pandas as pd
from rich.progress import track
from scipy.stats import gaussian_kde

import pymc_kbr as pk
from case_studies.coalescent.data import load_coalescent
from case_studies.coalescent.model import coalescent_model, simulate_statistics
from case_studies.destination import add_destination, folder_of
from pymc_kbr.arrays import plotting as palette
from pymc_kbr.arrays.threads import one_blas_thread

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
TRUTHS = {"slow": (3.5, 2.0), "middling": (6.0, 5.0), "fast": (8.5, 8.0)}
STYLES: dict[str, tuple[str, Any]] = {
    "rejection": (palette.BLACK, ":"),
    "nadaraya_watson": (palette.SKY, "--"),
    "conditional_mean": (palette.GREEN, "-."),
    "localised": (palette.BLUE, "-"),
    "kbr": (palette.PURPLE, (0, (5, 1))),
    "iw_kbr": (palette.ORANGE, (0, (3, 1, 1, 1))),
    "kde": (palette.GREY, (0, (1, 1))),
    "adjusted": (palette.BLACK, (0, (8, 2, 2, 2))),
}
DEFAULT, MANY = "default", "default, 100,000 simulations"
"""What `sample_abc` takes; and with ten times as many simulations, in the place of the exact posterior."""

DRAWS = 2000


def observations(random_seed: int) -> np.ndarray:
    """The statistics of one sample for each of `TRUTHS`, shape (3, 7)."""
    generators = np.random.default_rng(random_seed).spawn(len(TRUTHS))
    return np.array(
        [simulate_statistics(rng, *truth) for rng, truth in zip(generators, TRUTHS.values(), strict=True)]
    )


def condition_all(
    table: pk.ReferenceTable, observed: np.ndarray, random_seed: int, candidates: list[str] | None
) -> tuple[pd.DataFrame, dict[tuple[str, str], np.ndarray]]:
    """Every estimator on every observation: a tidy table, and the draws by estimator and sample."""
    rows, draws = [], {}
    for name in track([*pk.ESTIMATORS, DEFAULT, MANY], "Conditioning every estimator"):
        simulated = load_coalescent() if name == MANY else table
        started = time.perf_counter()
        if name in pk.ESTIMATORS:
            estimator = pk.ESTIMATORS[name]().fit(simulated, random_seed=random_seed)
        else:
            estimator = pk.select(
                simulated, candidates=candidates, random_seed=random_seed, progressbar=False
            )
        fitted = time.perf_counter()
        posteriors = estimator.condition(observed)
        conditioned = time.perf_counter()
        for (sample, truth), posterior in zip(TRUTHS.items(), posteriors, strict=True):
            drawn = posterior.draw(DRAWS, np.random.default_rng(random_seed))
            draws[name, sample] = drawn
            lower, upper = np.quantile(drawn, [0.05, 0.95], axis=0)
            mean, mode = posterior.mean(), posterior.mode()
            for i, parameter in enumerate(table.parameter_names):
                rows.append(
                    {
                        "estimator": name,
                        "sample": sample,
                        "parameter": parameter,
                        "truth": truth[i],
                        "mean": mean[i],
                        "mode": mode[i],
                        "lower_5": lower[i],
                        "upper_95": upper[i],
                        "effective_sample_size": posterior.effective_sample_size,
                        "negative_share": posterior.negative_share,
                        "seconds_fit": fitted - started,
                        "seconds_condition": (conditioned - fitted) / len(observed),
                    }
                )
    return pd.DataFrame(rows), draws


def away_from_reference(results: pd.DataFrame) -> pd.Series:
    """Root mean squares of distances of means from those of `MANY`, in its standard deviations."""
    keys = ["sample", "parameter"]
    reference = results[results["estimator"] == MANY].set_index(keys)
    # Of a normal distribution nine tenths are within 3.29 standard deviations.
    deviations = (reference["upper_95"] - reference["lower_5"]) / 3.29
    means = results.pivot(index=keys, columns="estimator", values="mean")
    squares = means.sub(reference["mean"], axis=0).div(deviations, axis=0) ** 2
    return np.sqrt(squares.mean()).sort_values()


def plot_posteriors(draws: dict[tuple[str, str], np.ndarray], path: Path) -> None:
    """Posterior densities of both parameters, a row a sample, against the truth."""
    figure, axes = plt.subplots(
        len(TRUTHS), 2, figsize=(8, 6.4), sharex="col", constrained_layout=True, squeeze=False
    )
    for row, (sample, truth) in zip(axes, TRUTHS.items(), strict=True):
        for i, (axis, label, bounds) in enumerate(
            zip(row, ("theta", "rho"), ((2, 10), (0, 10)), strict=True)
        ):
            grid = np.linspace(*bounds, 200)
            for name in (*STYLES, DEFAULT, MANY):
                # Reflected at the prior's edges, where the densities end.
                drawn = draws[name, sample][:, i]
                mirrored = np.concatenate([drawn, 2 * bounds[0] - drawn, 2 * bounds[1] - drawn])
                width = 1.06 * drawn.std() * len(drawn) ** -0.2 / mirrored.std()
                density = 3 * gaussian_kde(mirrored, bw_method=width)(grid)
                if name == MANY:
                    axis.fill_between(grid, density, color=palette.PRIOR, alpha=0.6, zorder=0, label=name)
                elif name == DEFAULT:
                    axis.plot(grid, density, color=palette.VERMILION, linewidth=2.5, label=name)
                else:
                    colour, line = STYLES[name]
                    axis.plot(
                        grid, density, color=colour, linestyle=line, linewidth=1, label=name.replace("_", " ")
                    )
            axis.axhline(1 / (bounds[1] - bounds[0]), color=palette.GREY, linewidth=0.8, label="prior")
            axis.axvline(truth[i], color=palette.TRUTH, linewidth=1, label="truth")
            axis.set(yticks=[], xlim=bounds, ylim=(0, None))
            if sample == list(TRUTHS)[-1]:
                axis.set_xlabel(
                    {"theta": r"mutation rate $\theta$", "rho": r"recombination rate $\rho$"}[label]
                )
        row[0].set_ylabel(f"{sample} sample")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run the main job."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=10_000)
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    add_destination(parser, "folder of results.csv and posteriors.png")
    parser.add_argument("--quick", action="store_true", help="150 simulations, few candidates: a trial")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
    started = time.perf_counter()

    observed = observations(arguments.seed + 1)
    model = coalescent_model(observed[1])
    simulations = 150 if arguments.quick else arguments.simulations
    cores = 1 if arguments.quick else arguments.cores  # fewer simulations than workers take to start
    table = pk.simulate(simulations, model=model, random_seed=arguments.seed, cores=cores)
    print(f"{table}\n{table.timings['simulate']:.0f} s of simulation\n")

    few = ["rejection", "localised"] if arguments.quick else None
    idata = pk.sample_abc(
        DRAWS, reference_table=table, model=model, candidates=few, random_seed=arguments.seed
    )
    print("The middling sample: az.summary")
    print(az.summary(idata).to_string(), "\n")

    # Factorisations are rounded as BLAS divides them: on one thread alike, however many cores there are.
    with one_blas_thread():
        results, draws = condition_all(table, observed, arguments.seed, few)
    output = folder_of(arguments, HERE)
    results.round(4).to_csv(output / "results.csv", index=False)
    plot_posteriors(draws, output / "posteriors.png")
    print(results.to_string(index=False, float_format="{:.3f}".format))
    print(f"\nDistance of means from those of {MANY!r}, in standard deviations")
    print(away_from_reference(results).to_string(float_format="{:.2f}".format))
    print(f"\nresults.csv and posteriors.png are in {output}")
    print(f"{time.perf_counter() - started:.0f} s from simulation to picture")


if __name__ == "__main__":
    main()
