"""Sentences of the ground-truth studies' READMEs, and what their figures are from.

In a template # stands for a figure; the function gives, in the same order, what the files have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pandas as pd

from tests.case_studies.readme_figures import frame
from tests.case_studies.tables_of_regressions import GAUSSIAN, NONLINEAR, fukumizu_5_2

Sentence = tuple[str, str, Callable[[], Sequence[float]]]


def at(study: str, name: str, **keys: object) -> pd.Series:
    """The one line of a file with these values."""
    lines = frame(study, name)
    for column, value in keys.items():
        lines = lines[lines[column] == value]
    assert len(lines) == 1, keys
    return lines.iloc[0]


def xu(name: str = "xu_5_1") -> pd.DataFrame:
    """A table of Xu 5.1 by dimension."""
    return frame(GAUSSIAN, name).set_index("d")


def xu_many() -> pd.DataFrame:
    """The tables of many runs by dimension."""
    return pd.concat([xu("xu_5_1_1000_runs"), xu("xu_5_1_200_runs")])


def fukumizu(d: int, n: int, column: str) -> float:
    """A value of the table of Fukumizu 5.2."""
    lines = fukumizu_5_2("fukumizu_5_2")
    return float(lines[(lines["d"] == d) & (lines["n"] == n)].iloc[0][column])


def sizes(study: str, name: str, column: str = "rkhs_error") -> pd.DataFrame:
    """A column of a table of sizes, a line a size and a column a method."""
    return frame(study, name).pivot(index="n", columns="method", values=column)


def moved() -> list[float]:
    """How many times as large the error is where all parameters are moved."""
    table = xu()
    shares = table["importance_weighted_sum_one_moved"] / table["importance_weighted_sum_one"]
    return [shares.min(), shares.max()]


def thirty_against_many() -> list[float]:
    """The largest disagreement of thirty runs with many, in per cent, at 2 and above."""
    columns = ["prior_mean", "original_sum_one", "importance_weighted_sum_one"]
    apart = 100 * (xu()[columns] / xu_many()[columns] - 1).abs().max(axis=1)
    return [apart.loc[2], apart.loc[8:].max()]


def gains_over_the_paper() -> list[float]:
    """The least and the largest error of the paper's better rule over ours."""
    lines = fukumizu_5_2("fukumizu_5_2").dropna(subset=["kbr: error"])
    theirs = lines[["conditional_mean: error", "kbr: error"]].min(axis=1)
    ours = lines[["conditional_mean_default: error", "kbr_default: error"]].min(axis=1)
    return [(theirs / ours).min(), (theirs / ours).max()]


def localised_over_exact() -> list[float]:
    """By how many per cent the localised error is above the exact one."""
    table = sizes(GAUSSIAN, "localised_sizes")
    above = 100 * (table["localised"] / table["exact"] - 1).dropna()
    return [above.min(), above.max()]


def best_of_surface(method: str) -> list[float]:
    """The lowest error of a method over the grid, and its bandwidth."""
    lines = frame(NONLINEAR, "surface")
    lines = lines[lines["method"] == method]
    best = lines.loc[lines["rkhs_error"].idxmin()]
    return [best["rkhs_error"], best["bandwidth"]]


def modes(study: str, name: str) -> list[float]:
    """The lowest of each error over the grid, of four methods."""
    lines = frame(study, name)
    errors = ["rkhs_error", "rmse_of_mean", "rmse_of_mode"]
    least = lines.groupby("method")[errors].min()
    methods = ["exact", "localised", "Nadaraya-Watson", "random subsample"]
    return [least.loc[method, error] for error in errors for method in methods]


def draft_shares(method: str) -> pd.Series:
    """A method's error over the exact one's by size, with the draft's own A."""
    return sizes(GAUSSIAN, "localised_draft_sizes", "share_of_exact")[method].dropna()


def valley(method: str, most: float) -> list[float]:
    """The least and the largest bandwidth whose best error is at most that."""
    lines = frame(NONLINEAR, "surface")
    best = lines[lines["method"] == method].groupby("bandwidth")["rkhs_error"].min()
    return [best[best <= most].index.min(), best[best <= most].index.max()]


GROUND_TRUTHS: list[Sentence] = [
    (GAUSSIAN, "to #% at d = 2 and to #% from 8 on", thirty_against_many),
    (
        GAUSSIAN,
        "than the prior mean by #, #, #, #, # in this table, with standard errors of #, #, #, #, #.",
        lambda: [
            *(xu_many()["prior_mean"] - xu_many()["iw_kbr_default"]),
            *xu_many()["standard_error_of_iw_kbr_less_prior_mean"],
        ],
    ),
    (
        GAUSSIAN,
        "where it and the prior mean are alike (# and #)",
        lambda: [xu_many()["kbr_default"][64], xu_many()["prior_mean"][64]],
    ),
    (
        GAUSSIAN,
        "but at d = 8, where it is #% above",
        lambda: [100 * (xu_many()["kbr_default"][8] / xu_many()["importance_weighted_sum_one"][8] - 1)],
    ),
    (GAUSSIAN, "that rule's error then is # to # times as large", moved),
    (
        GAUSSIAN,
        "(column `iw_kbr_linear` of the tables), has #, #, #, # and #:",
        lambda: xu_many()["iw_kbr_linear"].tolist(),
    ),
    (
        GAUSSIAN,
        "at the median up to d = 32 (# against # at d = 2)",
        lambda: list(at(GAUSSIAN, "fukumizu_5_1", d=2)[["kbr_median_printed", "kde_best"]]),
    ),
    (
        GAUSSIAN,
        "with 200 and 400 rows (# against #, # against #)",
        lambda: [
            fukumizu(2, n, f"{name}: error") for n in (200, 400) for name in ("conditional_mean", "rejection")
        ],
    ),
    (GAUSSIAN, "errors are # to # times smaller than the paper's better one", gains_over_the_paper),
    (
        GAUSSIAN,
        "with 3,000 at d = 2 (# against #, with",
        lambda: [
            fukumizu(2, 600_000, "rejection: error"),
            fukumizu(2, 3_000, "conditional_mean_default: error"),
        ],
    ),
    (
        GAUSSIAN,
        "than with 1,500 at d = 6 (# against #,",
        lambda: [
            fukumizu(6, 600_000, "rejection: error"),
            fukumizu(6, 1_500, "conditional_mean_default: error"),
        ],
    ),
    (
        GAUSSIAN,
        "errors of # and #), and less accurate",
        lambda: [
            at(GAUSSIAN, "fukumizu_5_2", d=2, n=n, estimator=name)["standard_error"]
            for n, name in ((600_000, "rejection_1000"), (3_000, "conditional_mean_default"))
        ],
    ),
    (
        GAUSSIAN,
        ", of # and #). Simulations",
        lambda: [
            at(GAUSSIAN, "fukumizu_5_2", d=6, n=n, estimator=name)["standard_error"]
            for n, name in ((600_000, "rejection_200"), (1_500, "conditional_mean_default"))
        ],
    ),
    (GAUSSIAN, "the localised estimator is # to #% above the exact one's RKHS error", localised_over_exact),
    (
        GAUSSIAN,
        "within 0.2% of the exact one's error up to 20,000 rows, and #% off (below it) at 30,000",
        lambda: [
            100
            * (
                1
                - sizes(GAUSSIAN, "localised_sizes")["incomplete Cholesky"][30_000]
                / sizes(GAUSSIAN, "localised_sizes")["exact"][30_000]
            )
        ],
    ),
    (
        GAUSSIAN,
        "n = 100,000 takes the localised estimator # seconds",
        lambda: [sizes(GAUSSIAN, "localised_sizes", "seconds")["localised"][100_000]],
    ),
    (
        GAUSSIAN,
        "the localised estimator is # to #% above the exact one (`share_of_exact`)",
        lambda: [100 * (draft_shares("localised").min() - 1), 100 * (draft_shares("localised").max() - 1)],
    ),
    (
        GAUSSIAN,
        "it has # of the exact one's error in the one sample of 30,000, and # times it at 20,000",
        lambda: [draft_shares("Nadaraya-Watson")[n] for n in (30_000, 20_000)],
    ),
    (
        GAUSSIAN,
        "their error is # to # of the exact one's",
        lambda: [draft_shares("incomplete Cholesky").min(), draft_shares("incomplete Cholesky").max()],
    ),
    *(
        (
            study,
            "are #, #, # and # (RKHS), #, #, # and # (mean), and #, #, # and # (mode)",
            lambda study=study, name=name: modes(study, name),
        )
        for study, name in ((GAUSSIAN, "localised_modes"), (NONLINEAR, "modes"))
    ),
    (
        NONLINEAR,
        'With settings of their own ("by default") both agree (# and # at n = 3,000)',
        lambda: list(sizes(NONLINEAR, "sizes").loc[3_000, ["exact, by default", "localised, by default"]]),
    ),
    (
        NONLINEAR,
        "are # (exact; bandwidth #), # (localised; #), # (Nadaraya-Watson; #) and # (random subsample; #)",
        lambda: [
            value
            for method in ("exact", "localised", "Nadaraya-Watson", "random subsample")
            for value in best_of_surface(method)
        ],
    ),
    (
        NONLINEAR,
        "from a bandwidth of # to the grid's end at #, the exact one's from # to #.",
        lambda: [*valley("localised", 0.0435), *valley("exact", 0.0435)],
    ),
    (
        NONLINEAR,
        "the exact estimator's error is half of the localised one's (# against #); with",
        lambda: [at(NONLINEAR, "dimensions", d=16, method=m)["rkhs_error"] for m in ("exact", "localised")],
    ),
]
