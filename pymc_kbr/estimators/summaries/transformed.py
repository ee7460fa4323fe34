"""Statistics of any shape: each by the curve that suits it, discrete ones spread over their cells."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import qmc

from pymc_kbr.arrays.bijections import MOST_LEVELS
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.estimators.summaries.cells import Cells, Levels, rare
from pymc_kbr.estimators.summaries.curves import Curve, choose_curves

POINTS_A_CELL = 8
"""Of an observation with discrete statistics, over which its density is averaged."""

WITHIN_CELL = 1e-9
"""Share of a cell from either end, in which the function of a curve need not be defined by rounding."""

CELL_SEED = 20
"""Of the places within cells when curves are chosen: the same table has the same curves."""


@dataclass(frozen=True, eq=False)
class Transformed:
    """Logarithms, roots or inverse hyperbolic sines of statistics, where evidence is for them.

    Parameters
    ----------
    kept : ndarray of bool, shape (d,)
        Statistics that vary.
    constants : ndarray of shape (d,)
        Values of those that do not.
    cells : tuple of Cells or None, length q
        Of those: where values stand for stretches of the line.
    curves : tuple of Curve, length q
    scaler : Scaler
        Of the curves' values.
    """

    kept: np.ndarray
    constants: np.ndarray
    cells: tuple[Cells | None, ...]
    curves: tuple[Curve, ...]
    scaler: Scaler

    @classmethod
    def fit(cls, statistics: np.ndarray, parameters: np.ndarray) -> Transformed:
        """Choose a curve for each statistic of a table.

        Parameters
        ----------
        statistics : ndarray of shape (n, d)
        parameters : ndarray of shape (n, p)
        """
        kept = Scaler.fit(statistics).kept
        x = statistics[:, kept]
        cells = tuple(Cells.of(column) for column in x.T)
        spread = spread_over(x, cells, np.random.default_rng(CELL_SEED).random(x.shape))
        curves = tuple(choose_curves(spread, parameters, cells))
        values = np.column_stack([c.forward(column) for c, column in zip(curves, spread.T, strict=True)])
        return cls(kept, statistics[0].astype(float), cells, curves, Scaler.fit(values))

    @property
    def size(self) -> int:
        """Number of statistics, d."""
        return len(self.kept)

    @property
    def discrete(self) -> bool:
        """Whether any statistic has cells."""
        return any(cell is not None for cell in self.cells)

    def of_columns(self, columns: np.ndarray) -> Transformed:
        """The same for some of the statistics, by their numbers."""
        places = np.cumsum(self.kept)[columns[self.kept[columns]]] - 1
        return Transformed(
            self.kept[columns],
            self.constants[columns],
            tuple(self.cells[i] for i in places),
            tuple(self.curves[i] for i in places),
            self.scaler.of_columns(places),
        )

    def transform(self, statistics: np.ndarray) -> np.ndarray:
        """Rows of statistics (k, d) as coordinates (k, q); discrete ones by the middles of their cells.

        Raises
        ------
        ValueError
            If a value has no logarithm or root, and all of the table's have.
        """
        x = statistics[:, self.kept]
        return self._coordinates(spread_over(x, self.cells, 0.5), x)

    def levels(self, coordinates: np.ndarray) -> tuple[Levels | None, ...]:
        """Of each statistic of few values in a table's coordinates (n, q); empty where there are none."""
        if not self.discrete:
            return ()
        x = self.backward(coordinates)
        found: list[Levels | None] = []
        for j, (cell, curve) in enumerate(zip(self.cells, self.curves, strict=True)):
            values, counts = np.unique(x[:, j] if cell is not None else x[:0, j], return_counts=True)
            found.append(None)
            if cell is None or not 2 <= len(values) <= MOST_LEVELS:
                continue
            lower, upper = cell.ends(values)
            within = WITHIN_CELL * (upper - lower)
            ends = curve.forward(np.stack([lower + within, upper - within]))
            ends = (ends - self.scaler.centre[j]) / self.scaler.scale[j]
            if np.all(ends[1] > ends[0]):
                # Of what is no lattice it is not known which values there may be.
                found[j] = Levels(values, ends[0], ends[1], rare(counts) if cell.spacing else None)
        return tuple(found) if any(found) else ()

    def dequantised(
        self, coordinates: np.ndarray, rng: np.random.Generator, levels: tuple[Levels | None, ...] = ()
    ) -> np.ndarray:
        """Coordinates (n, q) of `transform` with discrete statistics spread at random over their cells.

        Those that have `levels` are spread evenly in coordinates, others in their own units.
        """
        if not self.discrete:
            return coordinates
        values = self.backward(coordinates)
        share = rng.random(values.shape)
        spread = self._coordinates(spread_over(values, self.cells, share), values)
        for j, each in enumerate(levels):
            if each is not None:
                spread[:, j] = each.spread(each.of_values(values[:, j])[0], share[:, j])
        return spread

    def backward(self, coordinates: np.ndarray) -> np.ndarray:
        """The statistics (n, q) that vary, of coordinates (n, q); discrete ones at values that they take."""
        values = coordinates * self.scaler.scale + self.scaler.centre
        x = np.column_stack([c.backward(column) for c, column in zip(self.curves, values.T, strict=True)])
        for j, cell in enumerate(self.cells):
            if cell is not None:
                x[:, j] = cell.nearest(x[:, j])
        return x

    def complete(self, x: np.ndarray) -> np.ndarray:
        """Statistics (n, q) that vary, with the constant ones beside them, shape (n, d)."""
        whole = np.tile(self.constants, (len(x), 1))
        whole[:, self.kept] = x
        return whole

    def points(
        self, statistics: np.ndarray, levels: tuple[Levels | None, ...] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Points in the cells of observations (n, d), and the log volumes that density there stands for.

        Parameters
        ----------
        statistics : ndarray of shape (n, d)
        levels : tuple of q Levels or None
            Of the statistics whose density is even over each cell, and zero at all other values.

        Returns
        -------
        points : ndarray of shape (n, s, q)
        log_volume : ndarray of shape (n, s)
            The likelihood is the mean over s of density times volume: a probability for discrete
            statistics, a density in the statistics' own units for others.
        """
        x = statistics[:, self.kept]
        q, impossible = x.shape[1], np.zeros(len(x), dtype=bool)
        levels = levels or (None,) * q
        for j, each in enumerate(levels):
            if each is not None:
                numbers, seen = each.of_values(x[:, j])
                x[:, j], impossible = each.values[numbers], impossible | ~seen
        # An even density has the same value at all points of a cell.
        uneven = any(cell is not None and each is None for cell, each in zip(self.cells, levels, strict=True))
        # The same places for every observation, or likelihood ratios would hold their noise.
        within = qmc.Sobol(q, seed=CELL_SEED).random(POINTS_A_CELL) if uneven else np.full((1, q), 0.5)
        spread = np.stack([spread_over(x, self.cells, u) for u in within], axis=1)
        points = self._coordinates(spread.reshape(-1, q), x).reshape(spread.shape)
        # log |d coordinate / d statistic|, by the scaler and the curve; times its width, of a cell.
        volume = np.full(spread.shape[:2], -np.log(self.scaler.scale).sum())
        for j, (curve, cell) in enumerate(zip(self.curves, self.cells, strict=True)):
            if (each := levels[j]) is not None:
                width = (each.upper - each.lower)[each.of_values(x[:, j])[0]]
                volume += (np.log(self.scaler.scale[j]) + np.log(width))[:, None]
                continue
            volume += curve.log_slope(spread[:, :, j])
            if cell is not None:
                lower, upper = cell.ends(x[:, j])
                volume += np.log(np.where(upper > lower, upper - lower, 1.0))[:, None]
        volume[impossible] = -np.inf
        return points, volume

    def _coordinates(self, spread: np.ndarray, given: np.ndarray) -> np.ndarray:
        """Of points (k s, q), s in the cells of each row of the statistics (k, q) that were given."""
        values = np.column_stack([c.forward(x) for c, x in zip(self.curves, spread.T, strict=True)])
        bad = ~np.isfinite(values)
        if np.any(bad):
            point, column = np.argwhere(bad)[0].tolist()  # of all points, s for each row
            row, curve = point // (len(spread) // len(given)), self.curves[column]
            raise ValueError(
                f"statistic {np.flatnonzero(self.kept)[column]} has the value {given[row, column]:.6g} in "
                f"row {row}, and all of the table's are above {curve.origin:.6g} and enter by their "
                f"{curve.kind}: "
                "the model does not make this value; look at its units, or take scale=False"
            )
        return self.scaler.transform(values)


def spread_over(x: np.ndarray, cells: tuple[Cells | None, ...], share: np.ndarray | float) -> np.ndarray:
    """Values (n, q) at a share (n, q), (q,) or () of the way through their cells."""
    share = np.broadcast_to(share, x.shape)
    out = x.astype(float)
    for j, cell in enumerate(cells):
        if cell is not None:
            lower, upper = cell.ends(x[:, j])
            out[:, j] = np.where(upper > lower, lower + share[:, j] * (upper - lower), x[:, j])
    return out
