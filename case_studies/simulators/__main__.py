"""Models of PyMC's gallery by `sample_smc` and by us: ``python -m case_studies.simulators``.

Errors of the posterior mean and of the posterior standard deviation against the exact ones, simulations and
seconds, over several seeds. `sample_smc` runs the gallery's models with two chains. We simulate one table of
the same prior, or, where `zoomed`, several small ones that close in on the data.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.simulators.models import STUDIES, Study
from pymc_kbr.simulation.sample_smc import run_smc

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

HERE = Path(__file__).parent
DRAWS = 10_000
EMULATED = 10_000
"""Rows that are predicted."""

QUICK_GRID = 33
"""Points in each direction on which exact posteriors rest in a trial."""

STYLES = {
    "sample_smc": ("#000000", "-", "o"),
    "sample_smc, smaller epsilon": ("#7f7f7f", "--", "s"),
    "one table": ("#d55e00", "-.", "^"),
    "one table, auto": ("#0072b2", ":", "D"),
    "zoomed": ("#009e73", (0, (5, 1)), "v"),
    "zoomed, emulated": ("#cc79a7", (0, (3, 1, 1, 1)), "P"),
}
TITLES = {
    "normal": "normal",
    "lotka_volterra": "Lotka-Volterra",
    "lotka_volterra_with_noise": "Lotka-Volterra, noise in the simulator",
    "epidemic": "epidemic",
}
Run = tuple[np.ndarray, int, float]
"""Draws (m, 2), simulations, seconds."""


def estimator(rows: int) -> pk.Estimator:
    """Local-linear adjustment of location and scale, on linear estimates of the parameters as statistics."""
    nearest = pk.Rejection(min(400, rows // 4), kernel="epanechnikov", scale="linear_posterior_mean")
    return pk.Adjusted(nearest, "heteroscedastic_local_linear")


def one_table(study: Study, simulations: int, seed: int, chosen: str | pk.Estimator) -> Run:
    """`sample_abc` on a table of its own."""
    assert study.model is not None
    started = time.perf_counter()
    idata = pk.sample_abc(
        DRAWS,
        chains=1,
        model=study.model(),
        simulations=simulations,
        estimator=chosen,
        rounds=1,
        random_seed=seed,
        progressbar=False,
    )
    seconds = time.perf_counter() - started
    posterior = idata["posterior"]
    return np.column_stack([np.ravel(posterior[name]) for name in ("a", "b")]), simulations, seconds


def zoomed(study: Study, simulations: int, seed: int) -> Run:
    """`zoom`, in fewer rounds where there are few simulations, and the same estimator on what it returns."""
    assert study.model is not None
    rounds = 5 if simulations >= 2_000 else 3
    started = time.perf_counter()
    table = pk.zoom(
        simulations,
        model=study.model(),
        rounds=rounds,
        random_seed=seed,
        batched=study.batched,
        progressbar=False,
    )
    fitted = estimator(len(table)).fit(table.parameters, table.statistics, table.support, random_seed=seed)
    assert table.observed is not None
    drawn = fitted.condition(table.observed).draw(DRAWS, seed)
    return drawn, simulations, time.perf_counter() - started


def emulated(study: Study, simulations: int, seed: int) -> Run:
    """`zoom` without noise in the simulator, `emulate`, and each row weighted with its likelihood."""
    assert study.noise is not None
    started = time.perf_counter()
    model = study.gallery(study.noise)
    rounds = 5 if simulations >= 2_000 else 3
    rows = pk.zoom(
        simulations,
        model=model,
        rounds=rounds,
        noise=study.noise,
        random_seed=seed,
        batched=study.batched,
        progressbar=False,
    )
    table = pk.emulate(rows, EMULATED, model=model, noise=study.noise, random_seed=seed, progressbar=False)
    fitted = pk.NadarayaWatson(study.noise, scale=False).fit(
        table.parameters, table.statistics, table.support, random_seed=seed
    )
    assert table.observed is not None
    drawn = fitted.condition(table.observed).draw(DRAWS, seed)
    return drawn, simulations, time.perf_counter() - started


def smc(study: Study, draws: int, epsilon: float, seed: int, cores: int) -> Run:
    """PyMC's own, on the gallery's model."""
    run = run_smc(study.gallery(epsilon), draws=draws, chains=2, cores=cores, random_seed=seed)
    return run.draws, run.simulations, run.seconds


def runs(study: Study, quick: bool, seed: int, cores: int) -> Iterator[tuple[str, int, Callable[[], Run]]]:
    """Each method with a number that says how much work it is, and how to run it."""
    for draws in (20,) if quick else (50, 200, 1000):
        for place, epsilon in enumerate(study.epsilons[:1] if quick else study.epsilons):
            name = "sample_smc, smaller epsilon" if place else "sample_smc"
            yield name, draws, lambda d=draws, e=epsilon: smc(study, d, e, seed, cores)  # type: ignore[misc]
    sizes = (400,) if quick else (1_000, 3_000, 10_000, 30_000)
    for simulations in sizes if study.one_table else ():
        chosen = estimator(simulations)
        yield (
            "one table",
            simulations,
            lambda n=simulations, c=chosen: one_table(study, n, seed, c),  # type: ignore[misc]
        )
    if study.one_table and not quick:
        yield "one table, auto", 10_000, lambda: one_table(study, 10_000, seed, "auto")
    zoomed_sizes = (1_000,) if quick else (1_000, 2_000, 4_000, 8_000)
    for simulations in zoomed_sizes if study.model is not None else ():
        yield "zoomed", simulations, lambda n=simulations: zoomed(study, n, seed)  # type: ignore[misc]
    emulated_sizes = (1_000,) if quick else (2_000, 2_400, 3_000)
    for simulations in emulated_sizes if study.noise is not None else ():
        yield "zoomed, emulated", simulations, lambda n=simulations: emulated(study, n, seed)  # type: ignore[misc]


def table(quick: bool, seeds: int, cores: int, models: Sequence[str]) -> pd.DataFrame:
    """A line for each model, method, number and seed."""
    lines = []
    for name in models:
        study = STUDIES[name]
        mean, deviation = study.exact(QUICK_GRID) if quick else study.exact()
        for seed in range(1, seeds + 1):
            for method, number, run in runs(study, quick, seed, cores):
                draws, simulations, seconds = run()
                lines.append(
                    {
                        "model": name,
                        "method": method,
                        "number": number,
                        "seed": seed,
                        "simulations": simulations,
                        "seconds": seconds,
                        "mean_a": draws[:, 0].mean(),
                        "mean_b": draws[:, 1].mean(),
                        "deviation_a": draws[:, 0].std(),
                        "deviation_b": draws[:, 1].std(),
                        "error_of_mean": _size((draws.mean(axis=0) - mean) / deviation),
                        "error_of_deviation": _size(np.log(draws.std(axis=0) / deviation)),
                    }
                )
                print(pd.DataFrame(lines[-1:]).to_string(index=False, header=len(lines) == 1), flush=True)
        lines.append(
            {
                "model": name,
                "method": "exact",
                "number": 0,
                "seed": 0,
                "simulations": 0,
                "seconds": 0.0,
                "mean_a": mean[0],
                "mean_b": mean[1],
                "deviation_a": deviation[0],
                "deviation_b": deviation[1],
                "error_of_mean": 0.0,
                "error_of_deviation": 0.0,
            }
        )
    return pd.DataFrame(lines)


def _size(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def plot(lines: pd.DataFrame, path: Path) -> None:
    """Both errors against seconds, each model a row."""
    count = lines["model"].nunique()
    figure, axes = plt.subplots(
        count, 2, figsize=(8, 0.5 + 2.9 * count), constrained_layout=True, squeeze=False
    )
    for row, (model, part) in zip(
        axes, lines[lines["method"] != "exact"].groupby("model", sort=False), strict=True
    ):
        for axis, (column, text) in zip(
            row,
            {
                "error_of_mean": "error of posterior mean, in exact deviations",
                "error_of_deviation": "error of log posterior deviation",
            }.items(),
            strict=True,
        ):
            for method, of_method in part.groupby("method", sort=False):
                points = of_method.groupby("number")[["seconds", column]].mean()
                colour, line, marker = STYLES[str(method)]
                axis.plot(
                    points["seconds"],
                    points[column],
                    color=colour,
                    linestyle=line,
                    marker=marker,
                    markersize=5,
                    label=method,
                )
            axis.set(xscale="log", yscale="log", xlabel="seconds", title=TITLES[str(model)])
            axis.set_ylabel(text, fontsize=8)
            axis.xaxis.set_minor_formatter(NullFormatter())
    entries: dict = {}
    for axis in axes[:, 0]:
        entries |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    figure.legend(
        entries.values(), entries.keys(), loc="outside upper center", ncols=3, frameon=False, fontsize=8
    )
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main() -> None:
    """Write simulators.csv and simulators.png."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one seed, few draws and simulations")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--cores",
        type=int,
        default=2,
        help="processes of `sample_smc`; our tables take threads for matrices alone",
    )
    parser.add_argument("--models", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    add_destination(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    output = folder_of(arguments, HERE)
    quick = arguments.quick
    cores = 1 if quick else arguments.cores
    with threadpool_limits(cores, user_api="blas"):
        lines = table(quick, 1 if quick else arguments.seeds, cores, arguments.models)
    lines.to_csv(output / "simulators.csv", index=False, float_format="%.5g")
    plot(lines, output / "simulators.png")
    of_methods = lines.groupby(["model", "method", "number"], sort=False)
    columns = ["simulations", "seconds", "error_of_mean", "error_of_deviation"]
    print(of_methods[columns].mean().round(3).to_string())


if __name__ == "__main__":
    main()
