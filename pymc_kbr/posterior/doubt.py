"""The kind of warning that a posterior comes with."""

from __future__ import annotations


class PosteriorWarning(UserWarning):
    """A posterior that should not be trusted as it is."""
