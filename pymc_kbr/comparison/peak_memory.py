"""The most memory that a process held during a piece of work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    """Megabytes above what was held at the start; NaN until the work is done, and where they are unknown."""

    megabytes: float = float("nan")


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the resident memory's peak above its size at the start.

    Notes
    -----
    On Linux the kernel's mark is set back first. Elsewhere it cannot be, and only a peak higher than all
    before is seen: smaller ones are reported as zero. Worker processes are not counted.
    """
    peak = Peak()
    try:
        # To Linux a five means: set the peak back to what is held now, and nothing else.
        CLEAR_REFS.write_text("5")
        before = _linux("VmRSS")
    except OSError:
        before = _since_start()
        yield peak
        peak.megabytes = _since_start() - before
        return
    yield peak
    peak.megabytes = _linux("VmHWM") - before


def process_peak() -> float:
    """Megabytes that the process held at most since it began."""
    try:
        return _linux("VmHWM")  # what the system reports otherwise may be the parent's
    except OSError:
        return _since_start()


def _linux(name: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def _since_start() -> float:
    """The process's peak since it began; NaN on Windows."""
    try:
        import resource
    except ImportError:
        return float("nan")
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On macOS these are bytes.
    return kilobytes / (2**20 if sys.platform == "darwin" else 1024)
