"""The rows nearest to observations: by a tree in memory, by a merge over blocks of rows that are not."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.spatial import KDTree
from scipy.spatial.distance import cdist

from pymc_kbr.arrays.chunks import Chunks
from pymc_kbr.arrays.threads import parallel_map


class Neighbours(Protocol):
    """Finds nearest rows."""

    def query(self, x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Distances (k, count), ascending, and numbers (k, count) of the rows nearest to points x (k, d)."""


def neighbours_of(points: np.ndarray | Chunks, count: int | None = None) -> Neighbours:
    """The way to find rows among points (n, d), prepared for `count` at a time where that is known."""
    return Merge(points) if isinstance(points, Chunks) else Tree(points, count)


class Tree:
    """SciPy's tree, and all distances where many rows are wanted or a tree would look at most of them."""

    def __init__(
        self,
        points: np.ndarray,
        count: int | None = None,
        *,
        # Columns above which scikit-learn's `NearestNeighbors` takes no tree, either.
        most_for_a_tree: int = 15,
    ) -> None:
        self._points = points
        self._merge = Merge(Chunks(points)) if points.shape[1] > most_for_a_tree else None
        few = count is not None and self._few(count)
        self._tree = KDTree(points) if few and self._merge is None else None

    def _few(
        self,
        count: int,
        *,
        # Rows for each one wanted below which all distances are measured, without a tree.
        rows_for_a_tree: int = 20,
    ) -> bool:
        return count * rows_for_a_tree <= len(self._points)

    def query(self, x: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """See `Neighbours`."""
        if self._few(count):
            if self._merge is not None:
                return self._merge.query(x, count)
            if self._tree is None:
                self._tree = KDTree(self._points)
            # A list, since with the number 1 SciPy leaves out the axis of the neighbours.
            return self._tree.query(x, k=[*range(1, count + 1)], workers=-1)
        distances, rows = np.empty((len(x), count)), np.empty((len(x), count), dtype=np.intp)

        def measure(i: int) -> None:
            squares = cdist(x[i : i + 1], self._points, "sqeuclidean")[0]
            near = nearest(squares, count)
            rows[i] = near[np.argsort(squares[near])]
            distances[i] = np.sqrt(squares[rows[i]])

        with parallel_map(len(x)) as each:
            each(measure, range(len(x)))
        return distances, rows


def nearest(
    squares: np.ndarray,
    count: int,
    *,
    # Numbers of which one is looked at to guess the edge,
    every: int = 16,
    # and deviations of the guess that are added to it.
    deviations_to_spare: float = 5.0,
) -> np.ndarray:
    """Numbers (count,) of the smallest of n numbers, in any order."""
    # The edge is guessed from some, a little too far: what lies beyond it need not be partitioned.
    some = squares[::every]
    expected = count / every
    guess = int(expected + deviations_to_spare * np.sqrt(expected)) + 1
    if guess < len(some):
        inside = np.flatnonzero(squares <= np.partition(some, guess)[guess])
        if len(inside) >= count:
            return inside[np.argpartition(squares[inside], count - 1)[:count]]
    return np.argpartition(squares, count - 1)[:count]


class Merge:
    """The nearest of each block merged with the nearest of the blocks before it: one pass over the rows."""

    def __init__(self, points: Chunks) -> None:
        self._points = points

    def query(
        self,
        x: np.ndarray,
        count: int,
        *,
        # Distances that are held at once.
        pairs: int = 2**22,
    ) -> tuple[np.ndarray, np.ndarray]:
        """See `Neighbours`."""
        # Squares of what is very far may overflow: it is as far as infinity.
        with np.errstate(over="ignore", invalid="ignore"):
            return self._nearest(x, count, pairs)

    def _nearest(self, x: np.ndarray, count: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
        best = [Best(count) for _ in x]
        norms = np.einsum("ij,ij->i", x, x)
        step = max(1, pairs // max(1, len(x)))
        for part, block in self._points.blocks():
            for first in range(0, len(block), step):
                rows = block[first : first + step]
                squares = np.einsum("ij,ij->i", rows, rows)
                # Squared distances less |x|^2, which changes no order and is taken from the bound instead.
                about = x @ rows.T
                about *= -2
                about += squares
                # Rounding of the product may hide a neighbour: this much is let in, and measured again.
                slack = 1e-10 * (norms + float(squares.max()))
                for k, held in enumerate(best):
                    bound = held.worst - norms[k]
                    if len(rows) > held.count:  # of one block as many will do
                        bound = min(bound, np.partition(about[k], held.count - 1)[held.count - 1] + slack[k])
                    # A difference of infinities is no number, and is let in, too.
                    near = np.flatnonzero(~(about[k] > bound + slack[k]))
                    if len(near):
                        apart = rows[near] - x[k]
                        held.offer(np.einsum("ij,ij->i", apart, apart), part.start + first + near)
        distances, rows_found = np.empty((len(x), count)), np.empty((len(x), count), dtype=np.int64)
        for k, held in enumerate(best):
            squared, rows_found[k] = held.sorted()
            distances[k] = np.sqrt(squared)
        return distances, rows_found


class Best:
    """The `count` nearest rows of one point, as far as they are known."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._distances: list[np.ndarray] = [np.empty(0)]
        self._rows: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
        self._waiting = 0
        self.worst = np.inf

    def offer(self, distances: np.ndarray, rows: np.ndarray) -> None:
        """Consider more rows; they are sorted out when there are many."""
        self._distances.append(distances)
        self._rows.append(rows)
        self._waiting += len(rows)
        # Seldom, since each cut goes through all that is held; at once while nothing is bounded yet.
        if self._waiting >= self.count or not np.isfinite(self.worst):
            self._cut()

    def _cut(self) -> None:
        distances, rows = np.concatenate(self._distances), np.concatenate(self._rows)
        if len(distances) > self.count:
            kept = np.argpartition(distances, self.count - 1)[: self.count]
            distances, rows = distances[kept], rows[kept]
        if len(distances) == self.count:
            self.worst = float(np.max(distances))
        self._distances, self._rows, self._waiting = [distances], [rows], 0

    def sorted(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared distances, ascending, and rows."""
        self._cut()
        order = np.lexsort((self._rows[0], self._distances[0]))
        return self._distances[0][order], self._rows[0][order]
