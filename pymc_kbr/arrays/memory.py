"""How much memory this machine has."""

from __future__ import annotations

import os


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
