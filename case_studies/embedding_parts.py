"""The experiments of a ground-truth study, each a table and a picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from case_studies import embedding_errors as errors
from case_studies import embedding_plots as plots
from case_studies.embedding_sizes import over_sizes

Part = Callable[[bool, Path], None]
"""From whether it shall be quick and a folder."""


@dataclass(frozen=True)
class Plan:
    """A problem, and how much of it is computed.

    Parameters
    ----------
    draw : callable
    prefix : str
        Of the files' names.
    surface, modes, chosen, dimensions : int
        Trials; those of modes are on a coarser grid.
    sizes : dict of int to int
        Trials at each sample size.
    exact_up_to, chosen_up_to : int
        Sizes up to which the exact estimator takes part, with fixed settings and with its own.
    exact_runs : dict of int to int
        At a size, the trials in which the exact estimator takes part, where not in all; other sizes are
        above it.
    """

    draw: errors.Draw
    prefix: str
    surface: int = 0
    modes: int = 0
    chosen: int = 0
    dimensions: int = 0
    sizes: dict[int, int] = field(default_factory=dict)
    exact_up_to: int = 0
    chosen_up_to: int = 0
    exact_runs: dict[int, int] = field(default_factory=dict)

    def parts(self) -> dict[str, Part]:
        """The experiments by name."""
        return {
            "settings": self._settings,
            "modes": self._modes,
            "chosen": self._chosen,
            "dimensions": self._dimensions,
            "sizes": self._sizes,
        }

    def _settings(self, quick: bool, output: Path) -> None:
        points, trials, n = (2, 2, 40) if quick else (13, self.surface, 500)
        grids = np.logspace(-1.5, 1.5, points), np.logspace(-10, 0, points)
        table = errors.surface(self.draw, trials, n, *grids)
        errors.write(table, output / f"{self.prefix}surface.csv")
        plots.plot_surface(table, output / f"{self.prefix}surface.png")

    def _modes(self, quick: bool, output: Path) -> None:
        points, trials, n = (2, 2, 20) if quick else (7, self.modes, 500)
        grids = np.logspace(-1.5, 1.5, points), np.logspace(-10, 0, points)
        table = errors.surface(self.draw, trials, n, *grids, modes=True)
        errors.write(table, output / f"{self.prefix}modes.csv")
        plots.plot_modes(table, output / f"{self.prefix}modes.png")

    def _chosen(self, quick: bool, output: Path) -> None:
        points, trials, n = (2, 2, 40) if quick else (9, self.chosen, 500)
        grids = np.logspace(-1, 1.5, points), np.logspace(-6, 0, points)
        table = errors.chosen_settings(self.draw, trials, n, *grids)
        errors.write(table, output / f"{self.prefix}chosen.csv")
        plots.plot_chosen(table, output / f"{self.prefix}chosen.png")

    def _dimensions(self, quick: bool, output: Path) -> None:
        trials, n, dimensions = (2, 40, (2,)) if quick else (self.dimensions, 1000, (1, 2, 4, 8, 16))
        table = errors.over_dimensions(self.draw, trials, n, dimensions)
        errors.write(table, output / f"{self.prefix}dimensions.csv")
        picture = output / f"{self.prefix}dimensions.png"
        plots.plot_curves(table, "d", "dimension of X", picture, plots.ERRORS)

    def _sizes(self, quick: bool, output: Path) -> None:
        self.over_sizes(quick, output)

    def over_sizes(self, quick: bool, output: Path) -> pd.DataFrame:
        """The table and the picture of sample sizes; an interrupted run goes on where it ended."""
        trials = {40: 2} if quick else self.sizes
        exact = self.exact_runs or {n: repeats for n, repeats in trials.items() if n <= self.exact_up_to}
        if quick:
            exact = dict(trials)
        partial = output / f"{self.prefix}sizes_partial.csv"
        table = over_sizes(self.draw, trials, exact, self.chosen_up_to, partial)
        errors.write(table, output / f"{self.prefix}sizes.csv")
        partial.unlink()
        picture = output / f"{self.prefix}sizes.png"
        plots.plot_curves(table, "n", "sample size n", picture, plots.ERRORS | plots.SECONDS)
        return table
