"""A value on one screen: a heading, a table of some lines and what is left out, as text or for a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

MOST_LINES, MOST_LETTERS = 10, 48
"""Lines of a table, and letters of a cell, that are shown."""


@dataclass(frozen=True)
class Shown:
    """What is shown of a value.

    Parameters
    ----------
    heading : str
    lines : sequence of dict
        The table, all of the same keys; the first `MOST_LINES` are shown.
    count : int
        How many lines there are of which `lines` may be the first.
    notes : sequence of str
        Sentences after the table.
    """

    heading: str
    lines: Sequence[dict[str, Any]]
    count: int
    notes: Sequence[str] = ()

    def text(self) -> str:
        """For `__repr__`."""
        rows = self._cells()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        # Names to the left, numbers to the right.
        table = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
            for row in rows
        ]
        return "\n".join([self.heading, *[f"  {line}" for line in (*table, *self._after())]])

    def html(self) -> str:
        """For `_repr_html_`."""
        head, *rows = self._cells() or [[]]
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        after = "".join(f"<p>{escape(note)}</p>" for note in self._after())
        return (
            f"<p><b>{escape(self.heading)}</b></p>"
            f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>{after}"
        )

    def _cells(self) -> list[list[str]]:
        if not self.lines:
            return []
        rows = [[_cell(value) for value in line.values()] for line in self.lines[:MOST_LINES]]
        return [list(self.lines[0]), *rows]

    def _after(self) -> list[str]:
        hidden = self.count - min(len(self.lines), MOST_LINES)
        return [*([f"... and {hidden:,} more"] if hidden > 0 else []), *map(str, self.notes)]


def shown_posterior(posterior: Any) -> Shown:
    """The mean and the range of a `Posterior`, which uses this file, and what is known of its weights."""
    atoms, mean = posterior.atoms, posterior.mean()
    p = atoms.shape[1]
    lines = [
        {
            "parameter": i if posterior.names is None else posterior.names[i],
            "mean": float(mean[i]),
            "least atom": float(atoms[:, i].min()),
            "largest atom": float(atoms[:, i].max()),
        }
        for i in range(min(p, MOST_LINES))
    ]
    settings = ", ".join(f"{name} {value:.4g}" for name, value in posterior.settings.items())
    return Shown(
        f"Posterior of {p} parameter(s): {len(atoms):,} atoms with weights",
        lines,
        p,
        [
            f"total weight {posterior.total_weight:.4g}, effective sample size "
            f"{posterior.effective_sample_size:.1f}, {posterior.negative_share:.0%} of the weight negative",
            *([f"settings: {settings}"] if settings else []),
        ],
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    words = " ".join(str(value).split())
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 3]}..."
