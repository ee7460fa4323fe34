"""What every form of a learned likelihood can do, with NumPy or with PyTensor."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np


class Form(Protocol):
    """A conditional density of e statistics given q parameters, both in the units of the fit."""

    def describe(self, theta: Any, xp: Any = np) -> Any:
        """What of the density depends on parameters (k, q) alone: shape (k, w), one row for each."""

    def log_density(self, described: Any, points: Any, xp: Any = np) -> Any:
        """Log densities (k, r) of r points for each of k parameters."""
        # Shapes: described (k, w); points (k, r, e) or (1, r, e).

    def draw(self, described: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """One draw (k, e) for each of k parameters."""

    def transforms(self, described: np.ndarray, points: np.ndarray) -> np.ndarray:
        """Distribution functions (k, e) of points (k, e), each given those before it (Rosenblatt 1952)."""


def hold_out(n: int, rng: np.random.Generator, *, share: float = 0.2) -> np.ndarray:
    """Rows (n,), bool, on which a form's ridge, or whitening, and the size of its mixture are chosen."""
    held_out = np.zeros(n, dtype=bool)
    held_out[rng.permutation(n)[: max(1, int(share * n))]] = True
    return held_out


class Prepared(NamedTuple):
    """Observed statistics in the units of the fit."""

    # Shapes: points (n, s, e); log_volume (n, s); scaled (n, d).
    points: np.ndarray
    log_volume: np.ndarray
    scaled: np.ndarray | None = None
    """As distances between simulations are measured, where these are asked for."""

    @property
    def impossible(self) -> bool:
        """Whether the model cannot make one of the observations."""
        return bool(np.any(self.off()))

    def of_the_rest(self) -> Prepared:
        """As if what the model cannot make were possible: what the other statistics say."""
        return self._replace(log_volume=np.where(self.off()[:, None], 0.0, self.log_volume))

    def off(self) -> np.ndarray:
        """Which observations (n,) the model cannot make."""
        return np.all(self.log_volume == -np.inf, axis=1)

    def each(self) -> list[Prepared]:
        """One observation each."""
        scaled = [None] * len(self.points) if self.scaled is None else self.scaled[:, None]
        pairs = zip(self.points[:, None], self.log_volume[:, None], scaled, strict=True)
        return [Prepared(*each) for each in pairs]
