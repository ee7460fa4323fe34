"""The progress bar of a simulation, and lines that say what else is being done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class RateColumn(ProgressColumn):
    """Rows a second."""

    def render(self, task: Task) -> Text:
        """The rate, once there is one."""
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f} rows/s")


@contextmanager
def working(shown: bool, words: str) -> Iterator[None]:
    """A line with the seconds that pass while something of unknown length is done."""
    with Progress(TextColumn("{task.description}"), TimeElapsedColumn(), disable=not shown) as progress:
        task = progress.add_task(words, total=None)
        yield
        progress.update(task, total=1, completed=1)


def progress_bar(shown: bool) -> Progress:
    """A bar with the count of rows, their rate and the time left; one that prints nothing if not shown."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TimeElapsedColumn(),
        disable=not shown,
    )


def say(words: str) -> None:
    """One line of words, among the progress bars."""
    Console().print(words, highlight=False, markup=False, soft_wrap=True)
