"""How far posteriors are from the exact ones, and the table of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tests.statistical.models.problem import PROBLEMS

MOST_ERROR, MOST_RATIO = 0.5, 1.6
"""A line is right where each mean is within the first, in exact deviations, each width within the ratio."""


@dataclass(frozen=True)
class Line:
    """A model's line of the table.

    Parameters
    ----------
    model, kind : str
    parameter : str
        The worst: what is farthest beyond what is allowed, or nearest to it.
    error, ratio : float
        Of its mean, in exact deviations, and of its deviation to the exact one.
    right : bool
        Of every parameter.
    estimator, warnings : str
    seconds : float
        Of one core.
    """

    model: str
    kind: str
    parameter: str
    error: float
    ratio: float
    right: bool
    estimator: str
    warnings: str
    seconds: float

    @property
    def verdict(self) -> str:
        """In a word."""
        return "right" if self.right else "warned" if self.warnings else "silent"


def badness(error: float, ratio: float) -> float:
    """One where an error or a ratio is just allowed; means and widths count alike."""
    width = abs(math.log(ratio)) if ratio > 0 else math.inf
    return max(abs(error) / MOST_ERROR, width / math.log(MOST_RATIO))


def lines_of(results: list[dict[str, str]], references: dict[str, dict[str, dict[str, str]]]) -> list[Line]:
    """A line for each model with results, in the order of the problems."""
    by_model: dict[str, list[dict[str, str]]] = {}
    for result in results:
        by_model.setdefault(result["model"], []).append(result)
    lines = []
    for name in PROBLEMS:
        if name not in by_model or name not in references:
            continue
        exact = references[name]
        assert {one["parameter"] for one in by_model[name]} == set(exact), name
        scored = []
        for one in by_model[name]:
            known = exact[one["parameter"]]
            error = (float(one["mean"]) - float(known["mean"])) / float(known["deviation"])
            ratio = float(one["deviation"]) / float(known["deviation"])
            scored.append((badness(error, ratio), one["parameter"], error, ratio))
        worst, parameter, error, ratio = max(scored)
        of_call = {key: by_model[name][0][key] for key in ("estimator", "warnings")}
        seconds = float(by_model[name][0]["seconds"])
        kind = PROBLEMS[name].kind
        lines.append(Line(name, kind, parameter, error, ratio, worst <= 1, **of_call, seconds=seconds))
    return lines


def markdown(lines: list[Line]) -> str:
    """The table."""
    names = "model", "kind", "worst parameter", "error of mean", "ratio of widths", "", "warnings", "seconds"
    head = f"| {' | '.join(names)} | estimator |"
    rows = [
        f"| {x.model} | {x.kind} | {x.parameter} | {x.error:+.2f} | {x.ratio:.2f} | {x.verdict} | "
        f"{x.warnings} | {x.seconds:.0f} | {x.estimator} |"
        for x in lines
    ]
    return "\n".join([head, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |", *rows])


def summary(lines: list[Line]) -> str:
    """Right, wrong but warned, wrong in silence; and which models have no line, if any."""
    count = {word: sum(x.verdict == word for x in lines) for word in ("right", "warned", "silent")}
    warned = sum(x.right and bool(x.warnings) for x in lines)
    seconds = sum(x.seconds for x in lines)
    known = {line.model for line in lines}
    missing = ", ".join(name for name in PROBLEMS if name not in known)
    said = (
        f"Of {len(lines)} models {count['right']} are right ({warned} of them with a warning), "
        f"{count['warned']} wrong but warned, {count['silent']} wrong in silence; "
        f"{seconds / 60:.0f} minutes of one core."
    )
    return f"{said} Not run yet: {missing}." if missing else said
