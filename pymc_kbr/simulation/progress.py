"""The progress bar of a simulation, and lines that say what else is being done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, TypeVar

from rich import get_console
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


Item = TypeVar("Item")


class Bars(Progress):
    """Progress bars that a notebook can draw over; one line at the end where it cannot."""

    def __init__(self, *columns: ProgressColumn, shown: bool = True, **options: Any) -> None:
        self._line_at_the_end = shown and get_console().is_jupyter and find_spec("ipywidgets") is None
        super().__init__(*columns, disable=not shown or self._line_at_the_end, **options)

    def stop(self) -> None:
        """End the display."""
        if not self.disable:  # before version 15 one that is not shown prints an empty line
            super().stop()
        if self._line_at_the_end:
            self._line_at_the_end = False
            for task in self.tasks:
                say(f"{task.description}: {task.elapsed or 0:.1f} s")


def tracked(items: Iterable[Item], words: str, shown: bool) -> Iterator[Item]:
    """The items one by one, with a bar that goes when they have ended."""
    total = len(items) if isinstance(items, Sized) else None
    with Bars(shown=shown, transient=True) as bars:
        task = bars.add_task(words, total=total)
        for item in items:
            yield item
            bars.advance(task)


@contextmanager
def working(shown: bool, words: str) -> Iterator[None]:
    """A line with the seconds that pass while something of unknown length is done."""
    with Bars(TextColumn("{task.description}"), TimeElapsedColumn(), shown=shown) as progress:
        task = progress.add_task(words, total=None)
        yield
        progress.update(task, total=1, completed=1)


def progress_bar(shown: bool) -> Progress:
    """A bar with the count of rows, their rate and the time left; one that prints nothing if not shown."""
    return Bars(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        RateColumn(),
        TimeRemainingColumn(),
        TimeElapsedColumn(),
        shown=shown,
    )


def say(words: str) -> None:
    """One line of words, among the progress bars."""
    Console().print(words, highlight=False, markup=False, soft_wrap=True)
