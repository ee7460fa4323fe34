"""Where the figures of the tables about learnt kernels are from."""

from __future__ import annotations

import pandas as pd

from tests.case_studies.readme_figures import Table, frame, number, word

KERNEL_LEARNING = "kernel_learning"


def plain(name: str, key: str, columns: list[str], numeric: bool = False) -> Table:
    """A table with a line for each of a file's, and a figure a cell."""
    return Table(
        lambda: frame(KERNEL_LEARNING, name),
        {key: number(0) if numeric else word(0)},
        {place: [column] for place, column in enumerate(columns, 1)},
    )


def readings() -> pd.DataFrame:
    """A line for each reading of the grid of clouds, with a column for each ratio."""
    keys = ["rows", "bandwidth", "lengthscale", "null"]
    wide = frame(KERNEL_LEARNING, "readings").pivot(index=keys, columns="ratio", values="rejected")
    wide.columns = [f"ratio_{ratio:g}" for ratio in wide.columns]
    return wide.reset_index()


TABLES = [
    plain("embedding", "noise", ["error_empirical", "error_posterior", "covered_80"], numeric=True),
    plain(
        "errors",
        "ratio",
        ["type_two_median", "type_two_highest", "type_two_shortest", "type_two_all", "bandwidth_highest"],
        numeric=True,
    ),
    Table(
        readings,
        {"rows": word(0), "bandwidth": word(1), "null": word(3)},
        {2: ["lengthscale"], 4: ["ratio_1"], 5: ["ratio_2"], 6: ["ratio_15"]},
        of_keys=(0, 1, 3),
    ),
    Table(
        lambda: frame(KERNEL_LEARNING, "modes"),
        {"prior": word(0), "mode": number(1)},
        {2: ["chains"], 3: ["mean"], 4: ["deviation"]},
        of_keys=(0, 1),
    ),
    Table(
        lambda: frame(KERNEL_LEARNING, "levels"),
        {"test": word(0), "tails": word(1)},
        {2: ["rejected"]},
        of_keys=(0, 1),
    ),
    plain(
        "power",
        "alternative",
        ["hsic, median", "hsic, learnt", "hsic, aggregated", "hyppo's Hsic", "hyppo's Dcorr", "hyppo's MGC"],
    ),
    plain("aggregated", "problem", ["repeats", "median", "bayesian", "aggregated"]),
    plain("conditional", "problem", ["repeats", "residuals", "kci"]),
    plain("misspecification", "contamination", ["sets", "rejected", "warned", "outside"]),
    plain(
        "regressions",
        "problem",
        ["left_out", "median", "bayesian", "scale_bayesian", "scale_relevance", "bayesian_over_left_out"],
    ),
    plain(
        "linear", "problem", ["linear_taken", "left_out", "gaussian", "bayesian", "bayesian_over_gaussian"]
    ),
]
"""In the order in which they stand in the README."""
