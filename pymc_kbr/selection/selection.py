"""What a choice among estimators has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import t

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.plotting import BARS, RULE, drawn_on
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.estimators import Estimator, KernelLikelihood
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.posterior.posterior import Display, Shown

INTERRUPTED = "not compared: the choice was interrupted"
"""The note of candidates that Ctrl-C has left without a score."""


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Selection(Display):
    """What was tried, and what was chosen.

    Parameters
    ----------
    candidates : tuple of Candidate
        The best first.
    seconds : float
        Of fitting and scoring all candidates, on the wall.
    seconds_of_fit : float
        Of these, those in which the chosen one was fitted again to all rows that are in memory, where it was.
    """

    candidates: tuple[Candidate, ...]
    seconds: float
    seconds_of_fit: float = 0.0

    def _shown(self) -> Shown:
        """The best candidates, and why the first one was chosen."""
        columns = ("candidate", "rows", "score", "excess", "standard_error", "note")
        lines = [{name: line[name] for name in columns} for line in self.table()]
        heading = f"Selection among {len(lines)} candidate(s) in {self.seconds:.1f} s"
        if self.seconds_of_fit:
            heading += f", {self.seconds_of_fit:.1f} s of them for the fit of the chosen one"
        return Shown(heading, lines, len(lines), [f"chosen: {self.reason()}"])

    @property
    def interrupted(self) -> str:
        """How far an interrupted choice went, in words; empty where it was not interrupted."""
        left = sum(one.note == INTERRUPTED for one in self.candidates)
        count = len(self.candidates)
        return (
            f"the choice was interrupted: {count - left} of {count} candidates were compared" if left else ""
        )

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
                "score": mean_score(one.scores),
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
        score = f"{mean_score(best.scores):.4f} on {len(best.scores)} held-out rows"
        if not tried:
            return f"{best.label}: the only one that could be fitted; its energy score is {score}"
        excess, error = self._excess(tried[0])
        why = (
            "the lowest energy score"
            if excess >= 0
            else "a learned likelihood behind which a paired t test finds none ahead"
        )
        return (
            f"{best.label}: {why} of {1 + len(tried)} candidates, {score}; next {tried[0].label}, "
            f"{excess:+.4f} with a standard error of {error:.4f}"
        )

    def coverage(self) -> np.ndarray:
        """Share of held-out rows whose parameters the chosen candidate's central 90% covered.

        Returns
        -------
        ndarray of shape (p,)
        """
        return np.mean(self.chosen.covered, axis=0)

    def rows_covered(self) -> int:
        """On how many rows of equal weight `coverage` rests.

        Returns
        -------
        int
        """
        chosen = self.chosen
        if not len(chosen.rows):
            return len(chosen.covered)
        return int(effective_sample_size(np.bincount(chosen.rows)))

    def _excess(self, one: Candidate) -> tuple[float, float]:
        return difference(one, self.chosen)[:2]


# --- one candidate ---


@dataclass(eq=False)
class Candidate:
    """One candidate of a choice, which changes while it is scored."""

    # Shapes: scores (r,) of the held-out rows whose numbers are rows (r,), some of them more than once;
    # covered (p,).
    label: str
    estimator: Estimator
    scores: np.ndarray = field(default_factory=lambda: np.empty(0))
    rows: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=int))
    covered: list[np.ndarray] = field(default_factory=list)
    size: float = 0.0
    seconds: float = 0.0
    seconds_a_row: float = 0.0
    note: str = ""
    fitted: Estimator | None = None

    @property
    def likelihood_holds(self) -> bool:
        """Whether it is a learned likelihood under which held-out rows' transforms are uniform."""
        likelihood = isinstance(self.fitted, KernelLikelihood)
        return likelihood and getattr(self.fitted, "transforms_pvalue_", 1.0) >= NOT_UNIFORM


def none_fitted(candidates: list[Candidate]) -> str:
    """That there is no candidate left, and why."""
    return "no candidate could be fitted: " + "; ".join(f"{one.label}: {one.note}" for one in candidates)


class Difference(NamedTuple):
    """Of two candidates' scores: mean, its standard error, and how many rows of equal weight it rests on."""

    mean: float
    error: float
    rows: float

    def is_positive(self, level: float = 0.05) -> bool:
        """Whether a paired t test finds so: two standard errors where the rows are many."""
        return bool(self.rows > 1 and self.mean > self.error * t.isf(level / 2, self.rows - 1))


def difference(one: Candidate, best: Candidate) -> Difference:
    """By how much one candidate's scores are above another's on the rows that both have."""
    common = min(len(one.scores), len(best.scores))
    if not common:
        return Difference(float("nan"), float("nan"), 0.0)
    # Pairs: what makes a row hard for both candidates cancels.
    differences = one.scores[:common] - best.scores[:common]
    # A row that was drawn several times, by its weight under another prior, is one observation.
    rows = one.rows[:common] if len(one.rows) else np.arange(common)
    mean, effective = differences.mean(), effective_sample_size(np.bincount(rows))
    error = np.linalg.norm(np.bincount(rows, differences - mean)) / common if effective > 1 else np.nan
    return Difference(float(mean), float(error), float(effective))


def label(estimator: Estimator) -> str:
    """A candidate in words: its class and the arguments that are not the defaults."""
    return " ".join(repr(estimator).split())


def label_with_found(one: Candidate) -> str:
    """A candidate's label with what a learned likelihood found in the table."""
    found = one.fitted.found_in_words() if isinstance(one.fitted, KernelLikelihood) else ""
    return f"{one.label} with {found} found in the table" if found else one.label


def mean_score(scores: np.ndarray) -> float:
    """Mean of a candidate's scores, of as many rows as it has."""
    return float(np.mean(scores)) if len(scores) else float("nan")


class NotRead:
    """What a selection that was saved by 0.2.0.dev0 holds besides: costs, and weights of held-out rows."""
