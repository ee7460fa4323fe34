"""How an exception is quoted in a message."""

from __future__ import annotations


def describe(error: BaseException) -> str:
    """An exception's type and the first line of its message; PyTensor appends pages to it."""
    lines = str(error).strip().splitlines()
    return shortened(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def shortened(text: str, most: int = 500) -> str:
    """A text of at most `most` characters, with an ellipsis where it was longer."""
    return text if len(text) <= most else text[: most - 3] + "..."
