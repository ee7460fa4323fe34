"""What a choice among estimators has found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.pictures.axes import drawn_on
from pymc_kbr.arrays.pictures.palette import BARS, RULE
from pymc_kbr.arrays.weighted import effective_sample_size
from pymc_kbr.posterior.posterior import Shown
from pymc_kbr.selection.race import Candidate, InclusionWeights, difference, mean_score


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
