"""The table of methods, and how one is chosen: by the log score of rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.selection.model_choice.classifiers import (
    LEAST,
    Classifier,
    LocalLogistic,
    Logistic,
    NearestRows,
)
from pymc_kbr.selection.model_choice.embedded import EmbeddedIndex
from pymc_kbr.selection.model_choice.evidence import Evidence
from pymc_kbr.selection.model_choice.forest import Forest
from pymc_kbr.selection.model_choice.rows import Rows

METHODS: dict[str, Callable[[], Classifier]] = {
    "nearest_rows": NearestRows,
    "local_logistic": LocalLogistic,
    "conditional_mean": EmbeddedIndex,
    "logistic": lambda: Logistic("linear"),
    "quadratic_logistic": lambda: Logistic("quadratic"),
    "kernel_logistic": lambda: Logistic("kernel"),
    "wide_kernel_logistic": lambda: Logistic("kernel", bandwidth=2.0),
    "evidence": Evidence,
    "forest": Forest,
}
AUTO_METHODS = tuple(name for name in METHODS if name not in ("evidence", "forest"))
"""What "auto" tries. A likelihood for each model takes a hundred times as long, and a forest is the rival."""

SLOW = {"local_logistic": 500, "evidence": 60}
"""Methods that take long for each observation, and the held-out rows on which they are scored."""

COMPARED_SHARE, MOST_COMPARED = 0.2, 4000
"""Share of the rows that methods are compared on, and most of them."""


@dataclass(frozen=True)
class Score:
    """Of a method on held-out rows.

    Parameters
    ----------
    method : str
    log_score : float
        Mean log probability of the model that each row is of.
    standard_error : float
        Of its difference to the best method's; 0 for that.
    rows : int
    """

    method: str
    log_score: float
    standard_error: float
    rows: int


def check_methods(method: str | Sequence[str]) -> list[str]:
    """Names of methods, of which one is chosen where there are several."""
    if not isinstance(method, str | Iterable) or hasattr(method, "shape"):
        raise TypeError(
            f"method is {shown(method)}; it may be auto, or one or several of {', '.join(METHODS)}"
        )
    names = list(AUTO_METHODS) if method == "auto" else [method] if isinstance(method, str) else list(method)
    unknown = [name for name in names if not isinstance(name, str) or name not in METHODS]
    if unknown or not names:
        raise ValueError(
            f"method is {shown(method)}; it may be auto, or one or several of {', '.join(METHODS)}"
        )
    return names


def held_out_rows(rows: Rows, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows to learn from, and of those to score on, the latter in random order."""
    order = rng.permutation(len(rows))
    count = min(MOST_COMPARED, round(COMPARED_SHARE * len(rows)))
    # Slow methods are scored on the first ones, which must be some at random.
    return np.sort(order[count:]), order[:count]


def log_scores(probabilities: np.ndarray, model: np.ndarray) -> np.ndarray:
    """Log probability (n,) of the model that each row is of."""
    told = probabilities[np.arange(len(model)), model]
    found: np.ndarray = np.log(np.maximum(told, LEAST))
    return found


def choose_method(names: list[str], rows: Rows, rng: np.random.Generator) -> list[Score]:
    """Scores of methods, the best first.

    Those that are slow are scored on the first of the held-out rows, and have to be better there than the
    best of the others by a standard error.
    """
    learnt, held = held_out_rows(rows, rng)
    training, scored = rows.part(learnt), rows.part(held)
    scores, seeds = {}, rng.spawn(len(names))
    for name, seed in zip(names, seeds, strict=True):
        count = min(SLOW.get(name, len(held)), len(held))
        classifier = METHODS[name]().fit(training, seed)
        scores[name] = log_scores(classifier.probabilities(scored.statistics[:count]), scored.model[:count])
    weights = scored.weights
    fast = [name for name in names if name not in SLOW] or names
    best = max(fast, key=lambda name: np.average(scores[name], weights=weights[: len(scores[name])]))
    for name in names:
        lead, error = _lead(scores[name], scores[best], weights)
        if name in SLOW and name != best and lead > error:
            best = name
    found = []
    for name in names:
        lead, error = _lead(scores[name], scores[best], weights)
        # A slow method's own mean is of few rows: on all it is the best one's plus its lead.
        mean = float(np.average(scores[best], weights=weights[: len(scores[best])]))
        found.append(Score(name, mean + lead, error if name != best else 0.0, len(scores[name])))
    return sorted(found, key=lambda score: (score.method != best, -score.log_score))


def _lead(one: np.ndarray, other: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """Weighted mean of what one is better by, on rows that both were scored on, and its standard error."""
    count = min(len(one), len(other))
    difference, share = one[:count] - other[:count], weights[:count] / weights[:count].sum()
    mean = float(share @ difference)
    return mean, float(np.sqrt(np.sum(share**2 * (difference - mean) ** 2)))
