"""Sentences with figures in the READMEs of the coalescent, posterior draws and simulators."""

from __future__ import annotations

from tests.case_studies.readme_figures import frame
from tests.case_studies.sentences_of_regressions import GROUND_TRUTHS, Sentence, at
from tests.case_studies.tables_of_posteriors import held_out, simulators
from tests.case_studies.tables_of_regressions import COALESCENT, DRAWS, SIMULATORS, in_all


def accuracy(name: str, rows: int, column: str, file: str = "accuracy") -> float:
    """A score of the coalescent's held-out rows; "in all" is seconds."""
    line = at(COALESCENT, file, estimator=name, rows=rows)
    return in_all(line) if column == "in all" else float(line[column])


def runtime(name: str, budget: int, column: str) -> float:
    """A value of the table of seconds."""
    return float(at(COALESCENT, "runtime", estimator=name, budget=budget)[column])


def c2st(problem: str, estimator: str) -> list[float]:
    """The classifier's accuracy on each observation."""
    lines = frame(DRAWS, problem)
    return lines.loc[lines["estimator"] == estimator, "c2st"].tolist()


def gallery(model: str, method: str, number: int, column: str) -> float:
    """A mean over seeds."""
    lines = simulators()
    chosen = (lines["model"] == model) & (lines["method"] == method) & (lines["number"] == number)
    return float(lines.loc[chosen, column].iloc[0])


def energy(name: str) -> float:
    """The energy score of a line of held-out rows."""
    lines = held_out()
    return float(lines.loc[lines["name"].str.startswith(name), "energy_score"].iloc[0])


def above_exact(method: str, what: str) -> list[float]:
    """By how many per cent squared errors are above the exact estimator's at 10,000 rows."""
    columns = [f"mse_of_{what}_{parameter}" for parameter in ("theta", "rho")]
    lines = [at(COALESCENT, "rivals", n=10_000, method=m)[columns] for m in (method, "exact")]
    return [100 * (lines[0][column] / lines[1][column] - 1) for column in columns]


def in_per_cent(name: str, added: str) -> list[float]:
    """By how much statistics lower the energy score, with the standard error."""
    line = at(COALESCENT, name, added=added)
    return [100 * line["lower_by"], 100 * line["standard_error"]]


NEURAL = "accuracy_coal_first"
SENTENCES: list[Sentence] = [
    *GROUND_TRUTHS,
    (
        COALESCENT,
        "The 73 lower the energy score by #% (standard error #%)",
        lambda: in_per_cent("richer", "all 73"),
    ),
    (COALESCENT, "which alone brings #% (#%)", lambda: in_per_cent("richer_columns", "recombinations")),
    (
        COALESCENT,
        "The spectrum's 26 columns lower it by #% (#%), those of haplotypes by #% (#%).",
        lambda: [
            *in_per_cent("richer", "and the spectrum"),
            *in_per_cent("richer", "and haplotypes"),
        ],
    ),
    (
        COALESCENT,
        "below local-linear adjustment in CRPS for both parameters (# / # against # / #;",
        lambda: [
            accuracy(name, 99_000, f"crps_{p}") for name in ("auto", "local_linear") for p in ("theta", "rho")
        ],
    ),
    (
        COALESCENT,
        "the choice of 10 s included (# s against # s;",
        lambda: [accuracy(name, 99_000, "in all") for name in ("auto", "local_linear")],
    ),
    (
        COALESCENT,
        "in # s for all 1,000 samples against # s",
        lambda: [
            accuracy(name, 10_000, "in all", "accuracy_neural") for name in ("adjusted_unsmoothed", "neural")
        ],
    ),
    (
        COALESCENT,
        "for a single one in # s against # s",
        lambda: [
            accuracy(name, 10_000, "seconds_fit", "accuracy_neural")
            for name in ("adjusted_unsmoothed", "neural")
        ],
    ),
    (
        COALESCENT,
        "below the neural estimator by # and # standard errors, in # s against # s",
        lambda: [
            *(
                -accuracy("adjusted_unsmoothed", 10_000, f"crps_less_neural_{p}", NEURAL)
                / accuracy("adjusted_unsmoothed", 10_000, f"standard_error_{p}", NEURAL)
                for p in ("theta", "rho")
            ),
            accuracy("adjusted_unsmoothed", 10_000, "in all", NEURAL),
            accuracy("neural", 10_000, "in all", NEURAL),
        ],
    ),
    (
        COALESCENT,
        "takes # s (# simulations) and # s (#) for each sample anew. Its CRPS, # and #,",
        lambda: [
            runtime("sample_smc", budget, column)
            for columns in (("seconds_condition", "simulations"), ("crps",))
            for budget in (1_000, 3_000)
            for column in columns
        ],
    ),
    (
        COALESCENT,
        "theta's variance shrinks by #%, and rho's by #%",
        lambda: (100 * frame(COALESCENT, "growth")["contraction"][:2]).tolist(),
    ),
    (
        COALESCENT,
        "is #% (theta) and #% (rho) above the exact one's errors of the mean, and #% and #% above",
        lambda: [*above_exact("localised", "mean"), *above_exact("localised", "mode")],
    ),
    (
        COALESCENT,
        "with a fit of # s against # s and # ms against # ms an observation.",
        lambda: [
            at(COALESCENT, "rivals", n=10_000, method=method)[column]
            for column in ("seconds_fit", "ms_an_observation")
            for method in ("localised", "exact")
        ],
    ),
    (
        COALESCENT,
        "at 10,000 by #% and #%, and by #% and #%.",
        lambda: [*above_exact("Nadaraya-Watson", "mean"), *above_exact("random subsample", "mean")],
    ),
    (
        DRAWS,
        "Rejection, on the same observations: #, #, # and #, #, #.",
        lambda: [*c2st("gaussian_linear", "rejection"), *c2st("two_moons", "rejection")],
    ),
    (
        DRAWS,
        "`select` scores #, # and #, local-linear adjustment #, the best candidate #",
        lambda: [
            *(energy(f"select (seed {seed})") for seed in range(3)),
            energy("local-linear adjustment"),
            held_out()["energy_score"].min(),
        ],
    ),
    (
        DRAWS,
        "useless statistics the score rises by #%, #% and #%",
        lambda: [
            100
            * (
                energy(f"select, 50 useless statistics more (seed {seed})") / energy(f"select (seed {seed})")
                - 1
            )
            for seed in range(3)
        ],
    ),
    (
        DRAWS,
        "The largest error of a mean is # deviations, the largest of a deviation #%",
        lambda: [
            frame(DRAWS, "nuts")["error_of_mean"].abs().max(),
            100 * (frame(DRAWS, "nuts")["ratio_of_sd"] - 1).abs().max(),
        ],
    ),
    (
        SIMULATORS,
        "(# against #), and its mean and its deviation are nearer (# / # against # / #)",
        lambda: [
            gallery("normal", method, number, column)
            for columns in (("seconds",), ("error_of_mean", "error_of_deviation"))
            for method, number in (("zoomed", 1_000), ("sample_smc, smaller epsilon", 1_000))
            for column in columns
        ],
    ),
    (
        SIMULATORS,
        "(# / # against # / #). - Lotka",
        lambda: [
            gallery("epidemic", method, number, column)
            for method, number in (("zoomed, emulated", 2_000), ("sample_smc", 1_000))
            for column in ("error_of_mean", "error_of_deviation")
        ],
    ),
]
