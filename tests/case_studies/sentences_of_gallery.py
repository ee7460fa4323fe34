"""Sentences with figures in the gallery's README."""

from __future__ import annotations

from tests.case_studies.readme_figures import frame
from tests.case_studies.sentences_of_regressions import Sentence, at

GALLERY = "gallery"
AUTO, REGRESSION = "one table, auto", "regression ABC"


def of_all(problem: str, method: str, column: str) -> float:
    """A value on all data sets of a problem."""
    return float(at(GALLERY, "gallery", problem=problem, method=method)[f"{column}_all"])


def asked(problem: str, method: str, column: str) -> float:
    """A value of a question."""
    return float(at(GALLERY, "asked", problem=problem, method=method)[column])


def times() -> list[float]:
    """The least and the most that choosing takes, in seconds of regression."""
    seconds = frame(GALLERY, "gallery").pivot(index="problem", columns="method", values="seconds")
    ratio = seconds[AUTO] / seconds[REGRESSION]
    return [ratio.min(), ratio.max()]


OF_GALLERY: list[Sentence] = [
    (
        GALLERY,
        "cover too little here: #% on all data sets, and #% by regression",
        lambda: [100 * of_all("unseen prey", method, "coverage") for method in (AUTO, REGRESSION)],
    ),
    (
        GALLERY,
        "the choice is no better than regression, # against #, and its intervals are too narrow: "
        "they cover #%",
        lambda: [
            *(of_all("Ricker", method, "energy_score") for method in (AUTO, REGRESSION)),
            100 * of_all("Ricker", AUTO, "coverage"),
        ],
    ),
    (GALLERY, "not for the others, at # to # times the seconds of regression", times),
    (
        GALLERY,
        "`auto` is nearest, # deviations away and never more than #, with intervals of the right width that "
        "cover #%",
        lambda: [
            *(
                asked("a hundred statistics", "auto, statistics", of)
                for of in ("distance", "largest_distance")
            ),
            100 * asked("a hundred statistics", "auto, statistics", "coverage"),
        ],
    ),
    (
        GALLERY,
        "rejection and the regression are # and # exact deviations off",
        lambda: [
            asked("exponential", f"{method}, mean", "largest_distance")
            for method in ("rejection", "regression ABC")
        ],
    ),
    (
        GALLERY,
        "are level, # and # deviations away",
        lambda: [
            asked("4,096 points", f"{method}, autocovariances", "distance")
            for method in ("regression ABC", "auto")
        ],
    ),
]
