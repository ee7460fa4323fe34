"""One candidate of a choice: its scores on held-out rows, and how these are compared with another one's."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pymc_kbr.estimators import Estimator
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.selection.cost import Cost
from pymc_kbr.selection.inclusion_weights import InclusionWeights

NOT_NEEDED = "not tried: a learned likelihood held"
"""How the note of a spare candidate begins that was not needed."""


@dataclass(eq=False)
class Candidate:
    """One candidate of a choice, which changes while it is scored.

    Attributes
    ----------
    label : str
    estimator : Estimator
        As it was given.
    scores : ndarray
        Energy scores of the held-out rows, in their order, as far as the candidate came.
    covered : list of ndarray of bool, shape (p,)
        Whether the central 90% of draws covered each parameter.
    size : float
        Mean effective sample size of its posteriors' atoms.
    cost : Cost
        What is charged for fitting and scoring it, the same on every machine.
    seconds : float
        What it has taken here; nothing is decided by them where no time is limited.
    seconds_a_row : float
        Of them, to score a held-out row.
    note : str
        Why it was dropped or not tried.
    fitted : Estimator, optional
        Fitted to the rows that are not held out, where it was tried.
    spare : bool
        Whether it is tried only where no learned likelihood stands after a first round.
    """

    label: str
    estimator: Estimator
    scores: np.ndarray = field(default_factory=lambda: np.empty(0))
    covered: list[np.ndarray] = field(default_factory=list)
    size: float = 0.0
    cost: Cost = field(default=Cost(0.0, 0.0))
    seconds: float = 0.0
    seconds_a_row: float = 0.0
    note: str = ""
    fitted: Estimator | None = None
    spare: bool = False

    @property
    def atoms(self) -> float:
        """How many different draws its posteriors have at most, about."""
        return float("inf") if self.estimator.draws_as_asked else self.size

    @property
    def in_part(self) -> bool:
        """Whether it is compared by a fit to fewer rows than it would have."""
        return self.estimator.for_scores() is not self.estimator

    @property
    def holds(self) -> bool:
        """Whether its form is not refuted by rows that it was not fitted to, where it has one."""
        return getattr(self.fitted, "transforms_pvalue_", 1.0) >= NOT_UNIFORM

    @property
    def stands(self) -> bool:
        """Whether it is such a one, and not refuted."""
        return self.in_part and self.holds


def spare_those_after(candidates: list[Candidate]) -> None:
    """Mark as spare those after the last learned likelihood.

    Notes
    -----
    What comes before it is the most promising of the others. On the twenty-four problems of
    `tests.statistical.race_rules` the choice is as good as among all, with a quarter less work; three of them
    have more than twenty statistics, forty-five at most.
    """
    last = max((place for place, one in enumerate(candidates) if one.in_part), default=len(candidates))
    for one in candidates[last + 1 :]:
        one.spare = True


def none_fitted(candidates: list[Candidate]) -> str:
    """That there is no candidate left, and why."""
    return "no candidate could be fitted: " + "; ".join(f"{one.label}: {one.note}" for one in candidates)


def difference(
    scores: np.ndarray, best: np.ndarray, weights: np.ndarray | InclusionWeights
) -> tuple[float, float]:
    """Mean difference of two candidates' scores on the rows that both have, and its standard error."""
    common = min(len(scores), len(best))
    if common < 2:
        return float("nan"), float("nan")
    apart, w = scores[:common] - best[:common], weights[:common] / weights[:common].sum()
    mean = float(w @ apart)  # pairs: what makes a row hard for both candidates cancels
    return mean, float(np.sqrt(np.sum(w**2 * (apart - mean) ** 2)))


def label(estimator: Estimator) -> str:
    """A candidate in words: its class and the arguments that are not the defaults."""
    return " ".join(repr(estimator).split())


def mean_score(scores: np.ndarray, weights: np.ndarray | InclusionWeights) -> float:
    """Weighted mean of a candidate's scores, of as many rows as it has."""
    return float(np.average(scores, weights=weights[: len(scores)])) if len(scores) else float("nan")
