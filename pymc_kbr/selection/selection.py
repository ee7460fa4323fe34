"""What a choice among estimators has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.plotting import BARS, RULE, drawn_on
from pymc_kbr.estimators import Estimator, KernelLikelihood
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.posterior.posterior import Shown


@default_arithmetic
@dataclass(frozen=True, eq=False, repr=False)
class Selection:
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
        why = "the lowest energy score" if excess >= 0 else "a learned likelihood within two standard errors"
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
        """On how many rows `coverage` rests.

        Returns
        -------
        int
        """
        return len(self.chosen.covered)

    def _excess(self, one: Candidate) -> tuple[float, float]:
        return difference(one.scores, self.chosen.scores)


# --- one candidate ---


@dataclass(eq=False)
class Candidate:
    """One candidate of a choice, which changes while it is scored."""

    # Shapes: covered (p,).

    label: str
    estimator: Estimator
    scores: np.ndarray = field(default_factory=lambda: np.empty(0))
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


def difference(scores: np.ndarray, best: np.ndarray) -> tuple[float, float]:
    """Mean difference of two candidates' scores on the rows that both have, and its standard error."""
    common = min(len(scores), len(best))
    if common < 2:
        return float("nan"), float("nan")
    apart = scores[:common] - best[:common]  # pairs: what makes a row hard for both candidates cancels
    return float(apart.mean()), float(apart.std() / np.sqrt(common))


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
