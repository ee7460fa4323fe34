"""The table of methods, and how one is chosen: by the log score of rows that were held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp
from sklearn.ensemble import RandomForestClassifier

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.support import Block, Support
from pymc_kbr.estimators import ConditionalMean, KernelLikelihood
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.kernels.kernel import Kernel
from pymc_kbr.selection.model_choice.classifiers import (
    Classifier,
    LocalLogistic,
    Logistic,
    NearestRows,
    log_scores,
)
from pymc_kbr.selection.model_choice.rows import Rows, success_share

# --- random forest ---


class Forest:
    """Shares of a forest's trees that vote for each model, half a tree added to each."""

    # Shapes: votes_out_of_bag_ (n, models).
    most_scored: ClassVar[int | None] = None

    def __init__(self, trees: int = 500) -> None:
        self.trees = trees

    def again(self) -> Forest:
        """See `Classifier`."""
        return Forest(self.trees)

    def fit(self, rows: Rows, rng: np.random.Generator) -> Forest:
        """See `Classifier`."""
        seed = int(rng.integers(2**31))
        self._forest = RandomForestClassifier(self.trees, oob_score=True, random_state=seed)
        self._forest.fit(rows.statistics, rows.model, rows.weights)
        self.votes_out_of_bag_ = self._raised(self._forest.oob_decision_function_)
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        return self._raised(self._forest.predict_proba(statistics))

    def _raised(self, votes: np.ndarray) -> np.ndarray:
        # That no tree votes for a model does not make it impossible.
        raised = votes * self.trees + 0.5
        return raised / raised.sum(axis=1, keepdims=True)


# --- evidence of a learnt likelihood ---


class Evidence:
    """`KernelLikelihood` on each model's table: probabilities in proportion to prior times evidence."""

    # Each observation takes a posterior of every model.
    most_scored: ClassVar[int | None] = 60

    def again(self) -> Evidence:
        """See `Classifier`."""
        return Evidence()

    def fit(
        self,
        rows: Rows,
        rng: np.random.Generator,
        *,
        # Of each posterior, whose tempering gives the evidence.
        particles: int = 500,
    ) -> Evidence:
        """See `Classifier`."""
        self._fitted = []
        for number, table in enumerate(rows.tables):
            # A model's own prior ratio: the rows' weights hold the shares of models, too.
            mine = rows.own[(rows.model == number) & (rows.own >= 0)]
            weighting = weighting_of(table)
            ratio = None if weighting.ratio is None else weighting.ratio[mine]
            given = table.parameters[mine], table.statistics[mine], table.support
            fitted = KernelLikelihood(particles=particles)
            fitted.fit(*given, ratio=ratio, success=weighting.success, random_seed=rng)
            # A value that a model never made would count for it as much as one that it made sometimes.
            fitted.reads_missed = False
            self._fitted.append(fitted)
        # Evidences are of models by themselves: the prior's shares come in by hand. The probability that
        # simulations succeed is in both.
        shares = np.bincount(rows.model, rows.scored, minlength=rows.models)
        self._log_shares = np.log(shares / shares.sum()) - np.log([success_share(t) for t in rows.tables])
        return self

    def probabilities(self, statistics: np.ndarray) -> np.ndarray:
        """See `Classifier`."""
        logs = np.array([_log_evidence(fitted, statistics) for fitted in self._fitted]).T
        # What no model can make says nothing about which it was.
        logs[np.all(logs == -np.inf, axis=1)] = 0.0
        logs = logs + self._log_shares
        return np.exp(logs - logsumexp(logs, axis=1, keepdims=True))


def _log_evidence(fitted: KernelLikelihood, statistics: np.ndarray) -> np.ndarray:
    """Log evidences (k,) of a model at statistics (k, d), minus infinity where it cannot make them."""
    logs, possible = np.full(len(statistics), -np.inf), np.arange(len(statistics))
    while len(possible):
        try:
            posteriors = fitted.condition(statistics[possible])
        except ImpossibleObservation as error:
            if not len(error.observations):
                raise
            possible = np.delete(possible, error.observations)
            continue
        logs[possible] = [posterior.settings["log_evidence"] for posterior in posteriors]
        break
    return logs


# --- kernel conditional mean of the model's index ---


class EmbeddedIndex:
    """Kernel ridge regression of each model's indicator on the statistics."""

    most_scored: ClassVar[int | None] = None

    def __init__(self, kernel: str | Kernel = "gaussian", regularisation: float | None = None) -> None:
        self.kernel = kernel
        self.regularisation = regularisation

    def again(self) -> EmbeddedIndex:
        """See `Classifier`."""
        return EmbeddedIndex(self._mean.kernel_, self._mean.regularisation_)

    def fit(self, rows: Rows, rng: np.random.Generator) -> EmbeddedIndex:
        """See `Classifier`."""
        self._told = np.eye(rows.models)[rows.model]
        self._curves = rows.curves
        self._mean = ConditionalMean(
            kernel=self.kernel, regularisation=self.regularisation, solver="nystroem"
        )
        x = self._curves.transform(rows.statistics)
        others = rows.models - 1
        # Discrete, or rows of data that are counts would be warned of as copies.
        index = Support(others, (Block(tuple(range(others)), smooth=False),))
        self._mean.fit(self._told[:, 1:], x, index, ratio=rows.weights, random_seed=rng)
        return self

    def probabilities(
        self,
        statistics: np.ndarray,
        *,
        # Of a model where the regression says less: signed weights may leave it less than nothing.
        smallest: float = 1e-3,
    ) -> np.ndarray:
        """See `Classifier`."""
        x = self._mean.table_.scaler.transform(self._curves.transform(statistics))
        found = self._mean.means(x, self._told)
        self.raised_ = float(np.mean(found < smallest))
        raised = np.maximum(found, smallest)
        return raised / raised.sum(axis=1, keepdims=True)


# --- the table of methods and the choice ---


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


@dataclass(frozen=True)
class Score:
    """Of a method on held-out rows."""

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


def held_out_rows(
    rows: Rows, rng: np.random.Generator, *, share: float = 0.2, most: int = 4000
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows to learn from, and of those to score on, the latter in random order."""
    order = rng.permutation(len(rows))
    order = np.concatenate([order[rows.scored[order] > 0], order[rows.scored[order] <= 0]])
    count = min(most, round(share * np.sum(rows.scored > 0)))
    # Slow methods are scored on the first ones, which must be some at random.
    return np.sort(order[count:]), order[:count]


def choose_method(
    names: list[str],
    rows: Rows,
    rng: np.random.Generator,
    *,
    # Rows after which a slow method is asked no more where it is a standard error behind.
    fewest_judged: int = 12,
) -> list[Score]:
    """Scores of methods, the best first."""
    learnt, held = held_out_rows(rows, rng)
    training, scored = rows.part(learnt), rows.part(held)
    scores: dict[str, np.ndarray] = {}
    seeds = dict(zip(names, rng.spawn(len(names)), strict=True))
    weights = scored.scored

    def score(name: str, counts: Sequence[int], best: str = "") -> None:
        classifier, scores[name] = METHODS[name]().fit(training, seeds[name]), np.empty(0)
        for count in counts:
            part = slice(len(scores[name]), min(count, len(held)))
            if part.start >= part.stop:  # of a small table all rows are scored at once
                return
            found = log_scores(classifier.probabilities(scored.statistics[part]), scored.model[part])
            scores[name] = np.append(scores[name], found)
            lead, error = _lead(scores[name], scores[best or name], weights)
            if lead < -error:
                return

    slow = {name: most for name in names if (most := METHODS[name]().most_scored) is not None}
    fast = [name for name in names if name not in slow]
    for name in fast:
        score(name, [len(held)])
    best = max(
        fast, key=lambda name: np.average(scores[name], weights=weights[: len(scores[name])]), default=""
    )
    for name, most in slow.items():
        first = min(most, max(fewest_judged, most // 5))
        score(name, [first, most] if best else [most], best)
    best = best or max(names, key=lambda name: np.average(scores[name], weights=weights[: len(scores[name])]))
    for name in names:
        lead, error = _lead(scores[name], scores[best], weights)
        if name in slow and name != best and lead > error:
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
