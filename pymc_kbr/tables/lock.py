"""One writer at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process write to a store; the lock ends with its process, however that ends.

    Raises
    ------
    FileNotFoundError
        If the store's folder is not there.
    PermissionError
        If it may not be written.
    BlockingIOError
        If another process writes to the store.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent}; make it first")
    for folder in [path.parent, *([path] if path.is_dir() else [])]:
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
            raise PermissionError(f"{folder} may not be written; choose a store elsewhere, or allow it")
    beside = path.parent / f"{path.name}.lock"
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
        if path.is_dir():
            for left in path.rglob("*.partial"):  # of a writer that was killed
                left.unlink(missing_ok=True)
        for folder in path.parent.glob(f".{path.name}.*.partial"):
            shutil.rmtree(folder, ignore_errors=True)
        yield
    finally:
        beside.unlink(missing_ok=True)  # while it is held: who opens the old file sees that it is gone
        lock.release()
