"""Packages that an extra brings: what is said where one is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def brought_by(extra: str, module: str, package: str | None = None) -> Iterator[None]:
    """Imports of an optional package; where it is missing, the error says what brings it.

    Parameters
    ----------
    extra : str
        The extra of this project.
    module : str
        What is imported at the top.
    package : str, optional
        What people call it; the module's name where left out.

    Raises
    ------
    ImportError
        If the module is not there. An import that fails inside it is raised as it is.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != module:
            raise  # the package is there, and something else is not
        raise ImportError(
            f"{package or module} is not installed; it comes with the extra '{extra}': "
            f"pip install '.[{extra}]' in a clone of pymc_kbr, or 'pymc_kbr[{extra}]' from a package index"
        ) from error
