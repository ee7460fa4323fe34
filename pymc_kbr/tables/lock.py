"""One writer at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from pymc_kbr.tables.layout import check_outside, remove_leftovers


def real_path(path: Path) -> Path:
    """A store's path without symbolic links, by which all writers lock the same store.

    Raises
    ------
    ValueError
        If links lead to each other, or it is no path.
    """
    try:
        found = path.resolve()
        found.is_dir()
    except (OSError, RuntimeError, ValueError) as error:
        words = f"{str(path)!r} cannot be followed ({error}); choose another name for the store"
        raise ValueError(words) from error
    return found


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process write to a store; the lock ends with its process, however that ends.

    `path` has no symbolic links, and there is a store or nothing.

    Raises
    ------
    FileNotFoundError
        If the store's folder is not there.
    ValueError
        If it is within another store.
    PermissionError
        If it may not be written.
    BlockingIOError
        If another process writes to the store.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}; make it first")
    check_outside(path)
    for folder in [path.parent, *([path] if path.is_dir() else [])]:
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(f"{folder} may not be written; choose a store elsewhere, or allow it")
    # A name that nobody else gives: `poetry.lock` beside a store "poetry" is a user's file.
    beside = path.parent / f".{path.name}.pymc_kbr.lock"
    lock = FileLock(beside)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BlockingIOError(
            f"another process is writing to the store {path}; wait until it has ended, or choose "
            "another store"
        ) from None
    except OSError as error:
        raise type(error)(
            error.errno, f"{beside} cannot be made ({error.strerror}); choose a store elsewhere"
        ) from error
    try:
        remove_leftovers(path)
        yield
    finally:
        with suppress(OSError):  # the folder may be gone by now
            beside.unlink()  # while it is locked: who opens the old file sees that it is gone
        lock.release()
