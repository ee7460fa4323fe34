"""Packages that an extra brings: what is said where one is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def brought_by(extra: str, module: str, package: str | None = None) -> Iterator[None]:
    """Imports of an optional package; where it is missing, the error says what brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module:
            raise  # the package is there, and something else is not
        raise ImportError(
            f"{package or module} is not installed; it comes with the extra '{extra}': "
            f"pip install '.[{extra}]' in a clone of pymc_kbr, or 'pymc_kbr[{extra}]' from a package index"
        ) from error
