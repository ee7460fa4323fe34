"""How much memory this machine has, and how much a file can ask for."""

from __future__ import annotations

import os

MOST_DEFLATED = 1032
"""How many bytes a byte of DEFLATE can stand for at most, by zlib's documentation."""


def physical_memory() -> float:
    """Bytes of memory of this machine, or of the container; infinity where the system does not tell."""
    try:
        there = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, ValueError, OSError):
        return float("inf")
    try:
        with open("/sys/fs/cgroup/memory.max") as limit:
            return min(there, float(limit.read()))
    except (OSError, ValueError):  # no container, or "max"
        return there
