"""Where the figures of every table of the studies' READMEs are from, in the order of the tables."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from tests.case_studies.readme_figures import Expression, Table, frame, number, wide, word

GAUSSIAN, NONLINEAR = "gaussian_ground_truth", "nonlinear_regression"
COALESCENT, DRAWS, SIMULATORS = "coalescent", "posterior_draws", "simulators"


def by_dimension(study: str, name: str | Sequence[str], columns: Sequence[Sequence[Expression]]) -> Table:
    """A table with a line for each dimension, in one file or in several."""

    def source() -> pd.DataFrame:
        return pd.concat([frame(study, each) for each in ([name] if isinstance(name, str) else name)])

    return Table(source, {"d": number(0)}, dict(enumerate(columns, 1)))


def minus(one: str, other: str) -> Expression:
    """The difference of two columns."""
    return lambda line: line[one] - line[other]


RULES = ("original_sum_one", "importance_weighted_sum_one")
XU_30 = by_dimension(
    GAUSSIAN,
    "xu_5_1",
    [
        ["prior_mean"],
        ["mean_of_prior_draws"],
        *([name] for name in RULES),
        ["original_printed"],
        ["importance_weighted_printed"],
        ["kbr_default"],
        ["iw_kbr_default"],
        ["importance_weighted_sum_one_moved"],
        ["iw_kbr_default_moved"],
    ],
)
XU_MANY = by_dimension(
    GAUSSIAN,
    ("xu_5_1_1000_runs", "xu_5_1_200_runs"),
    [
        ["prior_mean"],
        *([name] for name in RULES),
        ["importance_weighted_sum_one_many_draws"],
        ["original_printed"],
        ["importance_weighted_printed"],
        ["kbr_default"],
        ["iw_kbr_default"],
        ["iw_kbr_default_many_draws"],
        [minus("iw_kbr_default", "importance_weighted_sum_one"), "standard_error_of_iw_kbr_less_sum_one"],
    ],
)


def xu_transposed() -> pd.DataFrame:
    """The same file with a line an estimator."""
    turned = frame(GAUSSIAN, "xu_5_1").set_index("d").T
    return turned.rename_axis("estimator").reset_index()


XU_DRAWS = Table(
    xu_transposed,
    {
        "estimator": word(
            0,
            {
                "importance-weighted, sum one, 200 draws": "importance_weighted_sum_one",
                "importance-weighted, sum one, 5,000 draws": "importance_weighted_sum_one_many_draws",
                "`iw_kbr`, 5,000 draws": "iw_kbr_default_many_draws",
                "iw_kbr`, 5,000 draws": "iw_kbr_default_many_draws",
            },
        )
    },
    {place: [d] for place, d in enumerate((2, 8, 16, 32, 64), 1)},  # type: ignore[misc]
)
FUKUMIZU_5_1 = by_dimension(
    GAUSSIAN,
    "fukumizu_5_1",
    [
        ["prior_mean"],
        ["kde_least_squares"],
        ["kde_best"],
        ["kbr_median"],
        ["kbr_cross_validated"],
        ["kbr_median_printed"],
        ["kbr_cross_validated_printed"],
        ["kbr_default"],
        ["iw_kbr_default"],
    ],
)
CROSS_VALIDATED = by_dimension(
    GAUSSIAN,
    "fukumizu_5_1",
    [
        [f"kbr_cross_validated{way}{scale}"]
        for scale in ("", "_printed")
        for way in ("", "_fixed_kernel", "_statistics_first")
    ],
)


def fukumizu_5_2(name: str) -> pd.DataFrame:
    """A line for each d and n, the best rejection with its number of rows."""
    lines = frame(GAUSSIAN, name)
    accepted = lines["estimator"].str.extract(r"rejection_(\d+)")[0].astype(float)
    lines = lines.assign(
        accepted=accepted, estimator=lines["estimator"].str.replace(r"_\d+$", "", regex=True)
    )
    values = ["error", "seconds", "rank", "more_than_kbr", "more_than_kbr_standard_error", "accepted"]
    return wide(lines, ["d", "n"], "estimator", values)


DEFAULTS = ("conditional_mean_default", "kbr_default")
DIFFERENCE: list[Expression] = [
    "conditional_mean_default: more_than_kbr",
    "conditional_mean_default: more_than_kbr_standard_error",
]
BY_D_AND_N = {"d": number(0), "n": number(1)}
FUKUMIZU_5_2 = Table(
    lambda: fukumizu_5_2("fukumizu_5_2"),
    BY_D_AND_N,
    {
        2: ["conditional_mean: error"],
        3: ["kbr: error"],
        4: ["rejection: error", "rejection: accepted"],
        5: ["kbr: rank"],
        6: ["conditional_mean_default: error"],
        7: ["kbr_default: error"],
        8: DIFFERENCE,
        9: [f"{name}: seconds" for name in ("conditional_mean", "kbr", "rejection", *DEFAULTS)],
    },
    of_keys=(0, 1),
)
FUKUMIZU_5_2_MANY = Table(
    lambda: fukumizu_5_2("fukumizu_5_2_400_runs"),
    BY_D_AND_N,
    {2: ["conditional_mean_default: error"], 3: ["kbr_default: error"], 4: DIFFERENCE},
    of_keys=(0, 1),
)
PRINTED = ("share_of_trace", "trace")
FUKUMIZU_5_2_PRINTED = Table(
    lambda: fukumizu_5_2("fukumizu_5_2_printed"),
    BY_D_AND_N,
    {
        place + offset: [f"{name}_{tolerance}: {value}" for value in values]
        for place, tolerance in ((2, PRINTED[0]), (6, PRINTED[1]))
        for offset, (name, values) in enumerate(
            (
                ("conditional_mean", ["error"]),
                ("kbr_printed", ["error"]),
                ("conditional_mean", ["more_than_kbr", "more_than_kbr_standard_error"]),
                ("kbr_printed", ["rank"]),
            )
        )
    },
    of_keys=(0, 1),
)
METHODS = (
    "exact",
    "localised",
    "incomplete Cholesky",
    "random features",
    "divide and conquer",
    "fast randomised",
    "random subsample",
    "Nadaraya-Watson",
    "localised, by default",
)


def sizes(study: str, name: str) -> Table:
    """RKHS error and seconds of each method, a line a size."""
    return Table(
        lambda: wide(frame(study, name), ["n"], "method", ["rkhs_error", "seconds"]),
        {"n": number(0)},
        {place: [f"{method}: rkhs_error", f"{method}: seconds"] for place, method in enumerate(METHODS, 1)},
        text_where="not run",
    )


DRAFT_SIZES = Table(
    lambda: wide(frame(GAUSSIAN, "localised_draft_sizes"), ["n"], "method", ["rkhs_error", "trials"]),
    {"n": number(0)},
    {1: ["localised: trials", "exact: trials"]}
    | {place: [f"{method}: rkhs_error"] for place, method in enumerate(METHODS, 2)},
)
RIDGES = Table(
    lambda: frame(GAUSSIAN, "localised_ridges"),
    {"setting": word(0, {"the ridge n 1e-4 for both": "ridge n 1e-4 for both"})},
    {1: ["exact"], 2: ["localised"], 3: ["localised_over_exact"]},
)
PAIR = ("theta", "rho")


def pair(column: str) -> list[Expression]:
    """A column of both parameters."""
    return [f"{column}_{parameter}" for parameter in PAIR]


def accuracy(*names: str) -> Table:
    """Scores on held-out rows."""
    return Table(
        lambda: pd.concat([frame(COALESCENT, name) for name in names]),
        {"estimator": word(0), "rows": number(1)},
        {
            2: pair("rmse"),
            3: pair("crps"),
            4: pair("coverage_90"),
            5: ["seconds_fit"],
            6: ["ms_condition"],
            7: ["ms_draw"],
        },
        of_keys=(0, 1),
    )


def in_all(line: pd.Series) -> float:
    """Seconds of fitting and of all held-out rows."""
    return float(line["seconds_fit"] + (line["ms_condition"] + line["ms_draw"]) * line["held_out"] / 1e3)


def beside_neural(name: str) -> Table:
    """The same, and paired differences from the neural estimator."""
    return Table(
        lambda: frame(COALESCENT, name),
        {
            "estimator": word(
                0, {"neural (sbi 0.27)": "neural", "adjusted`, draws not smoothed": "adjusted_unsmoothed"}
            )
        },
        {
            1: pair("crps"),
            2: ["crps_less_neural_theta", "standard_error_theta"],
            3: ["crps_less_neural_rho", "standard_error_rho"],
            4: pair("coverage_90"),
            5: ["seconds_fit"],
            6: [in_all],
        },
    )


def squared(column: str) -> Expression:
    """The square of a column."""
    return lambda line: line[column] ** 2


RUNTIME = Table(
    lambda: frame(COALESCENT, "runtime"),
    {"simulations": number(0), "estimator": word(1)},
    {
        2: [squared("rmse[theta]"), squared("rmse[rho]")],
        3: [squared("rmse_of_mode[theta]"), squared("rmse_of_mode[rho]")],
        4: ["crps"],
        5: ["seconds_fit"],
        6: ["seconds_condition"],
    },
    of_keys=(0, 1),
)
