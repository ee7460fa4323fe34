"""Where the figures of the tables of posterior draws and simulators are from, and the list of all tables."""

from __future__ import annotations

import numpy as np
import pandas as pd

from tests.case_studies import (
    tables_of_field,
    tables_of_filtering,
    tables_of_hierarchical,
    tables_of_kernel_learning,
    tables_of_models,
    tables_of_reaction_times,
    tables_of_sbi_benchmark,
    tables_of_trial_rivals,
)
from tests.case_studies.readme_figures import Table, frame, number, wide, word
from tests.case_studies.tables_of_regressions import (
    COALESCENT,
    CROSS_VALIDATED,
    DRAFT_SIZES,
    DRAWS,
    FUKUMIZU_5_1,
    FUKUMIZU_5_2,
    FUKUMIZU_5_2_MANY,
    FUKUMIZU_5_2_PRINTED,
    GAUSSIAN,
    NONLINEAR,
    PAIR,
    RIDGES,
    RUNTIME,
    SIMULATORS,
    XU_30,
    XU_DRAWS,
    XU_MANY,
    accuracy,
    beside_neural,
    pair,
    sizes,
)

RIVALS = Table(
    lambda: frame(COALESCENT, "rivals"),
    {"n": number(0), "method": word(1)},
    {2: pair("mse_of_mean"), 3: pair("mse_of_mode"), 4: ["seconds_fit"], 5: ["ms_an_observation"]},
    of_keys=(0, 1),
)


def useless() -> pd.DataFrame:
    """A line an estimator, with each scale's columns, rises in per cent."""
    lines = frame(COALESCENT, "unif")
    lines = lines.assign(**{f"rise_{p}": 100 * lines[f"rise_{p}"] for p in PAIR})
    values = [f"rmse_{p}_without" for p in PAIR] + [f"rise_{p}" for p in PAIR]
    return wide(lines, ["estimator"], "scale", values)


UNIF = Table(
    useless,
    {"estimator": word(0)},
    {
        place: [f"{scale}: rmse_{p}_without" for p in PAIR] + [f"{scale}: rise_{p}" for p in PAIR]
        for place, scale in enumerate(("own units", "deviations", "relevance"), 1)
    },
)
GROWTH = Table(
    lambda: frame(COALESCENT, "growth"),
    {"parameter": word(0)},
    {
        1: ["coverage_50", "coverage_90", "coverage_95"],
        2: ["uniformity_p"],
        3: [lambda line: 100 * line["contraction"]],
        4: ["truth"],
        5: ["mean"],
        6: ["lower_5", "upper_95"],
    },
)
NEW_PRIOR = Table(
    lambda: frame(COALESCENT, "new_prior"),
    {"estimator": word(0), "parameter": word(1)},
    {
        2: ["mean_difference"],
        3: ["mean_absolute_difference"],
        4: ["root_mean_square_difference"],
        5: ["root_mean_square_of_two_new_tables"],
    },
    of_keys=(0, 1),
)


def two_samples() -> pd.DataFrame:
    """A line a problem, the classifier's accuracy at each observation, and means."""
    lines = pd.concat([frame(DRAWS, name) for name in ("gaussian_linear", "two_moons")])
    lines = lines[lines["estimator"] == "auto"]
    table = lines.pivot(index="problem", columns="observation", values="c2st").add_prefix("observation ")
    grouped = lines.groupby("problem")
    return table.assign(mean=grouped["c2st"].mean(), seconds=grouped["seconds"].mean()).reset_index()


C2ST = Table(
    two_samples,
    {"problem": word(0, {"Gaussian, 10 dimensions": "gaussian_linear", "two moons": "two_moons"})},
    {1: [f"observation {i}" for i in range(3)], 2: ["mean"], 3: ["seconds"]},
    text=(4,),  # other people's, published with the benchmark
)


def short_label(label: str) -> str:
    """How the README names a line: the adjustment, rows and scale without their constructors."""
    before, _, estimator = label.rpartition("): ") if label.startswith("select") else ("", "", label)
    if estimator == "local-linear adjustment":
        return estimator
    prefix = f"{before}): " if before else ""
    if "Localised" in estimator:
        return "localised"
    rows = estimator.split("accepted=")[1].split(",")[0].split(")")[0]
    rows = "10,000" if rows == "1.0" else f"{int(rows):,}"
    if estimator.startswith("Rejection"):
        name = "rejection"
    elif "adjustment=" not in estimator:
        name = "kernel_ridge"
    elif "JointNeighbours" in estimator:
        name = "joint_neighbours"
    else:
        name = estimator.split("adjustment='")[1].split("'")[0]
    name = "no adjustment" if name == "none" else name
    scale = estimator.split("scale='")[1].split("'")[0] if "scale=" in estimator else ""
    smoothing = f"{estimator.split(chr(39))[-2]} smoothing" if "smoothing=" in estimator else ""
    return prefix + ", ".join(part for part in (name, f"{rows} rows", scale, smoothing) if part)


def held_out() -> pd.DataFrame:
    """The lines with the README's names."""
    lines = frame(DRAWS, "held_out")
    return lines.assign(name=lines["estimator"].map(short_label))


HELD_OUT = Table(
    held_out,
    {"name": word(0)},
    {1: ["energy_score"], 2: ["excess", "standard_error"], 3: pair("coverage_90")},
)
NUTS = Table(
    lambda: frame(DRAWS, "nuts"),
    {"model": word(0), "parameter": word(1)},
    {2: ["error_of_mean"], 3: ["ratio_of_sd"], 4: ["seconds"]},
    of_keys=(0, 1),
)
MODELS = {"Lotka-Volterra": "lotka_volterra", "the same, noise in the simulator": "lotka_volterra_with_noise"}
TABLES_OF = {"one table, `auto`": "one table, auto", "`zoom` and `emulate`": "zoomed, emulated"}


def method_of(cells: list[str]) -> str:
    """The method in the file of simulators, without how many draws it makes."""
    plain = cells[1].split(", three")[0].split(", noise")[0]
    if "sample_smc" in plain:
        return "sample_smc, smaller epsilon" if "epsilon 0.3" in plain else "sample_smc"
    return TABLES_OF.get(plain, {"zoom": "zoomed"}.get(plain.strip("`"), plain))


def number_of(cells: list[str]) -> int:
    """Draws of a chain of `sample_smc`, simulations of the others."""
    if "sample_smc" not in cells[1]:
        return int(cells[2].replace(",", ""))
    return int(cells[1].split("2 x ")[1].split(" ")[0].replace(",", ""))


def simulators() -> pd.DataFrame:
    """Means over seeds."""
    lines = frame(SIMULATORS, "simulators")
    return lines.groupby(["model", "method", "number"], as_index=False).mean(numeric_only=True)


GALLERY = Table(
    simulators,
    {"model": lambda cells: MODELS.get(cells[0], cells[0]), "method": method_of, "number": number_of},
    {2: ["simulations"], 3: ["seconds"], 4: ["error_of_mean"], 5: ["error_of_deviation"]},
    of_keys=(0, 1),
)
JOINT_WIDTH = Table(
    lambda: frame(DRAWS, "joint_width"),
    {"method": word(0)},
    {1: ["coverage_50", "uniformity_p"], 2: ["rate"], 3: ["shape"], 4: ["along"], 5: ["across"]},
)


def _rejected() -> pd.DataFrame:
    """How often each posterior is rejected, a column a number of parameters and of rows."""
    found = frame(DRAWS, "local_test").pivot(
        index="posterior", columns=["parameters", "rows"], values="rejected"
    )
    found.columns = [f"{p}_{rows}" for p, rows in found.columns]
    return found.reset_index()


LOCAL_TEST = Table(
    _rejected,
    {"posterior": word(0)},
    {cell: [name] for cell, name in enumerate(("2_200", "2_1000", "5_200", "5_1000"), 1)},
)
TABLES = {
    GAUSSIAN: [
        XU_30,
        XU_MANY,
        XU_DRAWS,
        FUKUMIZU_5_1,
        CROSS_VALIDATED,
        FUKUMIZU_5_2,
        FUKUMIZU_5_2_MANY,
        FUKUMIZU_5_2_PRINTED,
        sizes(GAUSSIAN, "localised_sizes"),
        RIDGES,
        DRAFT_SIZES,
    ],
    NONLINEAR: [sizes(NONLINEAR, "sizes")],
    COALESCENT: [
        accuracy("accuracy"),
        beside_neural("accuracy_neural"),
        beside_neural("accuracy_coal_first"),
        accuracy("accuracy_coal", "accuracy_coal_large"),
        RUNTIME,
        RIVALS,
        UNIF,
        GROWTH,
        tables_of_models.RICHER,
        tables_of_models.RICHER_COLUMNS,
        tables_of_models.HISTORY,
        NEW_PRIOR,
    ],
    DRAWS: [C2ST, HELD_OUT, NUTS, JOINT_WIDTH, LOCAL_TEST],
    SIMULATORS: [GALLERY],
    tables_of_sbi_benchmark.SBI: tables_of_sbi_benchmark.TABLES,
    tables_of_filtering.FILTERING: tables_of_filtering.TABLES,
    tables_of_hierarchical.HIERARCHICAL: tables_of_hierarchical.TABLES,
    tables_of_kernel_learning.KERNEL_LEARNING: tables_of_kernel_learning.TABLES,
    tables_of_models.MODEL_CHOICE: [tables_of_models.TOYS],
    tables_of_reaction_times.REACTION_TIMES: [tables_of_reaction_times.LIKELIHOODS],
    tables_of_field.STUDY: [tables_of_field.FIELD],
    tables_of_trial_rivals.TRIAL_RIVALS: [tables_of_trial_rivals.LIKELIHOODS],
    tables_of_models.DATA_SETS: [tables_of_models.PROBLEMS, tables_of_models.BY_SIZE],
    tables_of_models.OTHERS_PROBLEMS: tables_of_models.EACH_PROBLEM,
    tables_of_models.POPULATION_GENETICS: tables_of_models.OF_POPULATIONS,
    tables_of_models.GAPS: [tables_of_models.OF_GAPS, tables_of_models.SECONDS],
}
"""In the order in which they stand in each README."""

__all__ = ["TABLES", "np"]
