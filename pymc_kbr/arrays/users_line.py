"""Where warnings point to: the user's line that has called the package."""

from __future__ import annotations

import os
import sys

PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def users_line() -> int:
    """The `stacklevel` of the line that has called the package, however deep within it this is asked."""
    frame, level, found = sys._getframe(1), 1, 1
    while frame is not None:
        level += 1
        if frame.f_code.co_filename.startswith(PACKAGE):
            found = level
        frame = frame.f_back  # type: ignore[assignment]
    return found
