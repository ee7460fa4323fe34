"""How a table was made: versions of the software, and seconds of each stage."""

from __future__ import annotations

import platform
import time
from functools import cache
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Of what decides about the bits of a table."""
    packages = ("pymc_kbr", "pymc", "pytensor", "numpy")
    return {"python": platform.python_version(), **{name: _version(name) for name in packages}}


@cache
def _version(name: str) -> str:
    return version(name)


class Clock:
    """Seconds of each stage, one after the other.

    Parameters
    ----------
    laps : dict of str to float, optional
        Of what was done before.
    """

    def __init__(self, laps: dict[str, float] | None = None) -> None:
        self.laps = dict(laps or {})
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        """Note the seconds since the last lap as those of a stage."""
        now = time.perf_counter()
        self.laps[stage] = self.laps.get(stage, 0.0) + now - self._last
        self._last = now
