"""Where the figures of the tables about models, gaps and richer statistics are from."""

from __future__ import annotations

import pandas as pd

from tests.case_studies.readme_figures import Table, frame, number, word

COALESCENT, MODEL_CHOICE, GAPS, DATA_SETS = "coalescent", "model_choice", "missing_statistics", "data_sets"
OTHERS_PROBLEMS, POPULATION_GENETICS = "gallery", "population_genetics"


def toys() -> pd.DataFrame:
    """With the log score less that of the exact probabilities."""
    lines = frame(MODEL_CHOICE, "toys")
    return lines.assign(less_exact=lines["log_score"] - lines["log_score_exact"])


RICHER = Table(
    lambda: frame(COALESCENT, "richer"),
    {"added": word(0)},
    {
        1: ["columns"],
        2: ["energy_score"],
        3: [lambda line: 100 * line["lower_by"], lambda line: 100 * line["standard_error"]],
    },
)
RICHER_COLUMNS = Table(
    lambda: frame(COALESCENT, "richer_columns"),
    {"added": word(0)},
    {
        1: ["energy_score"],
        2: [lambda line: 100 * line["lower_by"], lambda line: 100 * line["standard_error"]],
    },
)
TUBERCULOSIS = Table(
    lambda: frame(POPULATION_GENETICS, "tuberculosis"),
    {"quantity": word(0), "by": word(1)},
    {2: ["mean"], 3: ["lower", "upper"]},
    of_keys=(0, 1),
)
SPLIT = Table(
    lambda: frame(POPULATION_GENETICS, "split"),
    {"parameter": word(0)},
    {1: ["truth"], 2: ["mean"], 3: ["lower", "upper"], 4: ["prior_lower", "prior_upper"]},
)
SPLIT_COVERAGE = Table(
    lambda: frame(POPULATION_GENETICS, "split_coverage"),
    {"parameter": word(0)},
    {1: ["covered_50"], 2: ["covered_90"], 3: ["covered_95"]},
)
DEMOGRAPHIES = Table(
    lambda: frame(POPULATION_GENETICS, "demographies"),
    {"demography": word(0)},
    {1: ["probability_of_growth"], 2: ["probability_of_bottleneck"], 3: ["recognised"]},
)
DEMOGRAPHIES_HELD_OUT = Table(
    lambda: frame(POPULATION_GENETICS, "demographies_held_out"),
    {"method": word(0)},
    {
        1: ["learnt"],
        2: ["held_out"],
        3: ["log_score"],
        4: ["accuracy"],
        5: ["calibration_error", "calibration_noise"],
        6: ["seconds"],
    },
)
HISTORIES = Table(
    lambda: frame(POPULATION_GENETICS, "histories"),
    {"data": word(0), "parameter": word(1)},
    {2: ["truth"], 3: ["mean"], 4: ["lower", "upper"]},
    of_keys=(0, 1),
)
OTHERS_MODELS = Table(
    lambda: frame(POPULATION_GENETICS, "others_models"),
    {"work": word(0), "by": word(1)},
    {2: ["rows"], 3: ["held_out"], 4: ["log_score"], 5: ["accuracy"], 6: ["seconds"]},
    of_keys=(0, 1),
)
OTHERS_SCORES = Table(
    lambda: frame(POPULATION_GENETICS, "others_scores"),
    {"work": word(0), "by": word(1)},
    {
        2: ["energy_score", "standard_error"],
        3: ["fit", "observation"],
        4: [lambda line: 100 * line["broken"]],
    },
    of_keys=(0, 1),
)
OTHERS_POPULATIONS = Table(
    lambda: frame(POPULATION_GENETICS, "others_populations"),
    {"work": word(0), "population": word(1), "by": word(2)},
    {3: ["const"], 4: ["exp"], 5: ["bott"], 6: ["seconds"]},
    of_keys=(0, 1, 2),
)
OF_POPULATIONS = [
    TUBERCULOSIS,
    SPLIT,
    SPLIT_COVERAGE,
    DEMOGRAPHIES,
    DEMOGRAPHIES_HELD_OUT,
    HISTORIES,
    OTHERS_MODELS,
    OTHERS_SCORES,
    OTHERS_POPULATIONS,
]
HISTORY = Table(
    lambda: frame(COALESCENT, "history"),
    {"statistics": word(0), "method": word(1)},
    {
        2: ["log_score"],
        3: ["below_first", "standard_error"],
        4: ["held_out"],
        5: [lambda line: 100 * line["accuracy"]],
        6: [
            lambda line: 100 * line["accuracy_below_first"],
            lambda line: 100 * line["accuracy_standard_error"],
        ],
        7: ["calibration_error", "calibration_noise"],
        8: ["seconds"],
    },
    of_keys=(0, 1),
)
TOYS = Table(
    toys,
    {"toy": word(0), "method": word(1)},
    {
        2: ["error"],
        3: ["stated_error"],
        4: ["less_exact"],
        5: ["calibration_error", "calibration_noise"],
        6: ["seconds"],
    },
    of_keys=(0, 1),
)
OF_GAPS = Table(
    lambda: frame(GAPS, "gaps"),
    {"estimator": word(0), "missing": number(1)},
    {2: ["patterns"], 3: ["mean_error"], 4: ["largest_pattern_error"], 5: ["width_ratio"]},
    of_keys=(0, 1),
)
SECONDS = Table(
    lambda: frame(GAPS, "seconds"),
    {"estimator": word(0)},
    {1: ["one_pattern"], 2: ["fifty_patterns"], 3: ["ratio"]},
)


def of_both() -> pd.DataFrame:
    """A line a problem: scores given the field's statistics and given the data sets."""
    lines = frame(DATA_SETS, "problems")
    sets = lines[lines["columns"] == "data sets"].set_index("problem")
    own = lines[lines["columns"] != "data sets"].set_index("problem")
    return own.add_suffix("_own").join(sets.add_suffix("_sets")).reset_index()


PROBLEMS = Table(
    of_both,
    {"problem": word(0), "columns_own": word(1)},
    {
        2: ["energy_score_own", "energy_score_sets"],
        3: [
            lambda line: 100 * line["energy_lower_by_sets"],
            lambda line: 100 * line["energy_standard_error_sets"],
        ],
        4: ["interval_score_own", "interval_score_sets"],
        5: ["coverage_own", "coverage_sets"],
    },
    of_keys=(0, 1),
)
BY_SIZE = Table(
    lambda: frame(DATA_SETS, "sizes"),
    {"columns": word(0), "size": number(1)},
    {2: ["energy_score"], 3: ["interval_score", "standard_error"], 4: ["coverage"]},
    of_keys=(0, 1),
)


def of_methods(file: str, problem: str, places: dict[int, list[str]]) -> Table:
    """Every method on one of the gallery's problems: simulations, seconds, and what else stands where."""

    def lines() -> pd.DataFrame:
        every = frame(OTHERS_PROBLEMS, file)
        return every[every["problem"] == problem]

    return Table(lines, {"method": word(0)}, {1: ["simulations"], 2: ["seconds"], **places})


def of_problem(problem: str) -> Table:
    """A problem of the gallery."""
    scores = {3: ["energy_score"], 4: ["less_regression", "standard_error"], 5: ["coverage"]}
    return of_methods("gallery", problem, scores)


def of_asked(problem: str) -> Table:
    """A question of another project's tracker."""
    return of_methods("asked", problem, {3: ["distance", "largest_distance"], 4: ["ratio"], 5: ["coverage"]})


def of_all_data_sets() -> pd.DataFrame:
    """A line a problem of the gallery, on all its data sets."""
    lines = frame(OTHERS_PROBLEMS, "gallery").set_index("problem")
    kinds = {"regression": "regression ABC", "chosen": "one table, auto"}
    parts = [lines[lines["method"] == method].add_suffix(f"_{kind}") for kind, method in kinds.items()]
    return pd.concat(parts, axis=1).reset_index()


EACH_PROBLEM = [
    of_problem(one) for one in ("epidemic", "unseen prey", "g-and-k", "Ricker", "queue", "two models")
] + [
    Table(
        of_all_data_sets,
        {"problem": word(0)},
        {
            1: ["energy_score_all_regression", "coverage_all_regression"],
            2: ["energy_score_all_chosen", "coverage_all_chosen"],
        },
    ),
    *(of_asked(one) for one in ("4,096 points", "exponential", "a hundred statistics")),
]
