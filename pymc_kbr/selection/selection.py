"""What a choice among estimators has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import brentq

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.pictures.axes import drawn_on
from pymc_kbr.arrays.pictures.palette import BARS, RULE
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators import Estimator
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.posterior.posterior import Shown
from pymc_kbr.selection.budget import Cost


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Selection:
    """What was tried, and what was chosen.

    Parameters
    ----------
    candidates : tuple of Candidate
        The best first.
    weights : ndarray of shape (h,) or InclusionWeights
        Of the held-out rows; ``weights[:k]`` are those of the first k.
    seconds : float
    work : float
        What was spent of the budget of work.
    ended_early : bool
        Whether a budget ended the comparison before it was decided: with more another one may be chosen.
    cut_short : bool
        Whether the time budget kept something from being compared: another run may choose another one.
    seconds_of_fit : float
        Of these, those in which the chosen one was fitted to all rows that are in memory, where it was.
    """

    candidates: tuple[Candidate, ...]
    weights: np.ndarray | InclusionWeights
    seconds: float
    work: float = 0.0
    ended_early: bool = False
    cut_short: bool = False
    seconds_of_fit: float = 0.0

    def __repr__(self) -> str:
        return self._shown().text()

    def _repr_html_(self) -> str:
        return self._shown().html()

    def _shown(self) -> Shown:
        """The best candidates, and why the first one was chosen."""
        columns = ("candidate", "rows", "score", "excess", "standard_error", "note")
        lines = [{name: line[name] for name in columns} for line in self.table()]
        heading = f"Selection among {len(lines)} candidate(s) in {self.seconds:.1f} s"
        if self.seconds_of_fit:
            heading += f", {self.seconds_of_fit:.1f} s of them for the fit of the chosen one"
        return Shown(heading, lines, len(lines), [f"chosen: {self.reason()}"])

    @property
    def chosen(self) -> Candidate:
        """The best one."""
        return self.candidates[0]

    def table(self) -> list[dict[str, Any]]:
        """What was tried, the chosen one first.

        Returns
        -------
        list of dict
            One a candidate: its score, the excess over the chosen one's, the standard error of that.
        """
        return [
            {
                "candidate": one.label,
                "rows": len(one.scores),
                "score": mean_score(one.scores, self.weights),
                **dict(zip(("excess", "standard_error"), self._excess(one), strict=True)),
                "effective_sample_size": one.size,
                "seconds": one.seconds,
                "note": one.note,
            }
            for one in self.candidates
        ]

    def plot(self, *, ax: Any = None) -> Any:
        """By how much each candidate's score is above the chosen one's, with two standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional

        Returns
        -------
        matplotlib Axes
            With the 15 best candidates, the chosen one on top.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        ValueError
            If several axes were given.
        """
        lines = [line for line in self.table() if np.isfinite(line["score"])][:15][::-1]
        (ax,) = drawn_on(ax, 1, (7.2, 0.8 + 0.28 * len(lines)))
        excess, errors = ([line[name] for line in lines] for name in ("excess", "standard_error"))
        ax.barh(range(len(lines)), excess, xerr=2 * np.nan_to_num(errors), color=BARS)
        ax.axvline(0, color=RULE, linewidth=0.8)
        ax.set(xlabel="energy score above that of the chosen one", yticks=range(len(lines)))
        ax.set_yticklabels([line["candidate"][:60] for line in lines], fontsize=7)
        return ax

    def reason(self) -> str:
        """What was chosen and why.

        Returns
        -------
        str
            One sentence.
        """
        best, *others = self.candidates
        tried = [one for one in others if len(one.scores)]
        if not len(best.scores):
            return f"{best.label}: {best.note}"
        compared = len(tried[0].scores) if tried else len(best.scores)
        text = (
            f"{best.label}: the lowest energy score of {1 + len(tried)} candidates on {compared} held-out "
            "rows, or the most atoms of those that cannot be told from it: "
            f"{mean_score(best.scores, self.weights):.4f} on {len(best.scores)}"
        )
        if tried:
            excess, error = self._excess(tried[0])
            text += f"; next {tried[0].label}, {excess:+.4f} with a standard error of {error:.4f}"
        if self.ended_early or self.cut_short:
            text += f"; the budget of {'time' if self.cut_short else 'work'} ended the comparison early"
        return text

    def coverage(self) -> np.ndarray:
        """Share of held-out rows whose parameters the chosen candidate's central 90% covered.

        Returns
        -------
        ndarray of shape (p,)
        """
        return np.average(self.chosen.covered, axis=0, weights=self.weights[: len(self.chosen.covered)])

    def rows_covered(self) -> int:
        """How many rows of equal weight `coverage` is worth.

        Returns
        -------
        int
        """
        covered = len(self.chosen.covered)  # the best may have been scored on some of the rows
        return round(effective_sample_size(self.weights[:covered])) if covered else 0

    def _excess(self, one: Candidate) -> tuple[float, float]:
        return difference(one.scores, self.chosen.scores, self.weights)


# --- one candidate ---


NOT_NEEDED = "not tried: a learned likelihood held"
"""How the note of a spare candidate begins that was not needed."""


@dataclass(eq=False)
class Candidate:
    """One candidate of a choice, which changes while it is scored."""

    # Shapes: covered (p,).

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


def skip_fallbacks(candidates: list[Candidate]) -> None:
    """Mark as spare those after the last learned likelihood."""
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


# --- weights of the validation rows ---


LOG_TINY = -40.0
"""Of a rate that is its probability, to the last digit."""


@dataclass(frozen=True, eq=False)
class InclusionWeights:
    """Weights of the first rows of a weighted order, which depend on how many these are."""

    # Shapes: ratio (n,).

    ratio: np.ndarray

    def __len__(self) -> int:
        """Number of all rows."""
        return len(self.ratio)

    def __getitem__(self, first: slice) -> np.ndarray:
        """Weights of mean one of the first rows, as many as a slice from the beginning has."""
        ratio = self.ratio[first]
        if not 0 < len(ratio) < len(self.ratio):
            return ratio / ratio.mean() if len(ratio) else ratio
        rates = self._log_rates(len(ratio))[first]
        # In logarithms: a ratio near zero and its probability may both be below all floats.
        log_weights = rates - _log_reached(rates)
        weights = np.exp(log_weights - log_weights.max())
        return weights / weights.mean()

    def _log_rates(self, count: int) -> np.ndarray:
        """Logarithms of c times the ratio, of all rows, with c such that `count` are expected to be first."""
        unit = np.log(self.ratio) - np.log(self.ratio.mean())

        def beyond(log_time: float) -> float:
            return float(np.exp(_log_reached(log_time + unit)).sum()) - count

        low = np.log(count / len(unit))  # 1 - exp(-x) is at most x
        high = low + 1.0
        while beyond(high) < 0:
            high += 1.0
        rates: np.ndarray = brentq(beyond, low, high) + unit
        return rates


def _log_reached(log_rates: np.ndarray) -> np.ndarray:
    """Logarithm of 1 - exp(-x), of log x."""
    # Where x is tiny both are alike, and where it is huge the probability is one.
    rates = np.exp(np.clip(log_rates, LOG_TINY, -LOG_TINY))
    reached: np.ndarray = np.where(log_rates < LOG_TINY, log_rates, np.log(-np.expm1(-rates)))
    return reached
