"""The table of Gram solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.gram.dense import DenseGram
from pymc_kbr.gram.gram import AllRows, Gram, Operator
from pymc_kbr.gram.incomplete_cholesky import IncompleteCholesky, RandomlyPivotedCholesky
from pymc_kbr.gram.low_rank import Nystroem, RandomFeatures
from pymc_kbr.kernels import Kernel


class Solver(Protocol):
    """Makes a Gram matrix in which (G + ridge I)^-1 can be applied."""

    def gram(self, kernel: Kernel, points: np.ndarray, rng: np.random.Generator, ridge: float) -> Gram:
        """The Gram matrix of points (n, d), for use with about this ridge n * lambda."""

    def bytes(self, n: int) -> int:
        """Memory that n rows need."""

    def rows(self, n: int) -> int:
        """How many of n rows meet in one regression; a ridge chosen for so many is m * lambda."""


@dataclass(frozen=True)
class Exact(AllRows):
    """The whole Gram matrix, by Cholesky factorisation."""

    def bytes(self, n: int) -> int:
        """Memory that n rows need."""
        return 8 * n**2

    def gram(self, kernel: Kernel, points: np.ndarray, rng: np.random.Generator, ridge: float) -> DenseGram:
        """The Gram matrix of points (n, d)."""
        return DenseGram(kernel, points)


@dataclass(frozen=True)
class Subsample:
    """Some rows drawn at random, and only these.

    Parameters
    ----------
    size : int
        Number of rows; all of them where there are fewer.
    """

    size: int = 1000

    def bytes(self, n: int) -> int:
        """Memory that n rows need."""
        return 8 * self.rows(n) ** 2

    def rows(self, n: int) -> int:
        """Rows in one regression."""
        return min(n, self.size)

    def gram(self, kernel: Kernel, points: np.ndarray, rng: np.random.Generator, ridge: float) -> BlockGram:
        """The Gram matrix of the rows drawn from points (n, d)."""
        rows = np.sort(rng.choice(len(points), self.rows(len(points)), replace=False))
        return BlockGram(kernel, points, (rows,))


@dataclass(frozen=True)
class DivideAndConquer:
    """Rows divided at random into parts; the regressions on the parts are averaged.

    Parameters
    ----------
    parts : int

    References
    ----------
    .. [1] Y. Zhang, J. Duchi, M. Wainwright, Divide and conquer kernel ridge regression, JMLR 16
       (2015), 3299-3340.
    """

    parts: int = 10

    def bytes(self, n: int) -> int:
        """Memory that n rows need."""
        return 8 * n * -(-n // self.parts)

    def rows(self, n: int) -> int:
        """Rows whose lambda is right for the average: all of them."""
        return n

    def gram(self, kernel: Kernel, points: np.ndarray, rng: np.random.Generator, ridge: float) -> BlockGram:
        """The Gram matrices of the parts of points (n, d)."""
        parts = np.array_split(rng.permutation(len(points)), min(self.parts, len(points)))
        return BlockGram(kernel, points, tuple(np.sort(part) for part in parts))


@dataclass(frozen=True)
class Auto(AllRows):
    """`Exact` while it fits into a memory budget, randomly pivoted incomplete Cholesky above.

    The factorisation ends at a millionth of the trace or at rank 1000.

    Parameters
    ----------
    memory : float
        The budget in bytes; 4 GB hold the Gram matrix of 22,360 rows.
    """

    memory: float = 4e9

    def choice(self, n: int) -> Solver:
        """The solver taken for n rows."""
        return Exact() if Exact().bytes(n) <= self.memory else RandomlyPivotedCholesky(tolerance=1e-6)

    def bytes(self, n: int) -> int:
        """Memory that n rows need."""
        return self.choice(n).bytes(n)

    def gram(self, kernel: Kernel, points: np.ndarray, rng: np.random.Generator, ridge: float) -> Gram:
        """The Gram matrix of points (n, d)."""
        return self.choice(len(points)).gram(kernel, points, rng, ridge)


SOLVERS: dict[str, Callable[[], Solver]] = {
    "auto": Auto,
    "exact": Exact,
    "incomplete_cholesky": IncompleteCholesky,
    "randomly_pivoted_cholesky": RandomlyPivotedCholesky,
    "nystroem": Nystroem,
    "nystroem_leverage": lambda: Nystroem(sampling="leverage"),
    "random_features": RandomFeatures,
    "subsample": Subsample,
    "divide_and_conquer": DivideAndConquer,
}
"""The name of each solver."""


def make_solver(solver: Any) -> Solver:
    """A solver from its name, with its defaults, or the given one.

    Raises
    ------
    ValueError, TypeError
        If there is no solver of that name, it is neither a name nor a solver, or one of its numbers
        is out of range or not whole.
    """
    if isinstance(solver, str):
        if solver not in SOLVERS:
            raise ValueError(f"there is no solver {solver!r}; the names are {', '.join(SOLVERS)}")
        return SOLVERS[solver]()
    if isinstance(solver, type) or not hasattr(solver, "gram"):
        raise TypeError(f"solver is {shown(solver)}; give a solver, or one of the names {', '.join(SOLVERS)}")
    # A solver of a user's own need not be a dataclass, and looks after its numbers itself.
    for field in fields(solver) if is_dataclass(solver) else ():
        value = getattr(solver, field.name)
        if not isinstance(value, int | float | np.number):
            continue
        if not (value > 0 or (field.name == "tolerance" and value == 0)):
            raise ValueError(f"{field.name} of {solver!r} is {value}; it must be above zero")
        if str(field.type).startswith("int") and not isinstance(value, int | np.integer):
            raise TypeError(f"{field.name} of {solver!r} is {value}; it must be a whole number")
    return solver  # type: ignore[no-any-return]


def solver_for(solver: Solver, n: int) -> Solver:
    """The solver itself, or what "auto" takes for n rows."""
    return solver.choice(n) if isinstance(solver, Auto) else solver


def streams(solver: Solver) -> bool:
    """Whether a solver reads rows a part at a time, as its attribute of this name says."""
    return getattr(solver, "streams", False)


# --- Gram matrices of some rows, or of parts ---


@dataclass(frozen=True, eq=False)
class BlockGram(Gram):
    """Blocks of rows, each with its own regression; what they predict is averaged."""

    # Shapes: points (n, d); base (n,).
    kernel: Kernel
    points: np.ndarray
    blocks: tuple[np.ndarray, ...]
    base: np.ndarray | None = None

    def _grams(self) -> list[DenseGram]:
        grams = []
        for rows in self.blocks:
            base = None
            if self.base is not None:
                total = self.base[rows].sum()
                # A block whose rows all have no weight still needs a mean.
                base = self.base[rows] / total if total > 0 else np.full(len(rows), 1 / len(rows))
            grams.append(DenseGram(self.kernel, self.points[rows], base))
        return grams

    @property
    def size(self) -> int:
        """Number of points, n."""
        return len(self.points)

    def apply(self, v: np.ndarray) -> np.ndarray:
        """G times v (n,) or (n, k), with zeros between different blocks."""
        out = np.zeros_like(v, dtype=float)
        for rows, gram in zip(self.blocks, self._grams(), strict=True):
            out[rows] = gram.apply(v[rows])
        return out

    def cross(self, x: np.ndarray) -> np.ndarray:
        """The kernel between the points and new ones x (k, d), shape (n, k); zero outside the blocks."""
        out = np.zeros((len(self.points), len(x)))
        for rows, gram in zip(self.blocks, self._grams(), strict=True):
            out[rows] = gram.cross(x)
        return out

    def centred(self, base: np.ndarray) -> BlockGram:
        """Each block with its features less their mean under `base` in that block."""
        return BlockGram(self.kernel, self.points, self.blocks, base)

    def regularised(self, ridge: float, scale: np.ndarray | None = None) -> BlockOperator:
        """S (S G S + ridge I)^-1 S in each block, averaged."""
        n = len(self.points)
        return self._operator(
            [
                gram.regularised(ridge * len(rows) / n, None if scale is None else scale[rows])
                for rows, gram in zip(self.blocks, self._grams(), strict=True)
            ],
            ridge,
        )

    def squared(self, weights: np.ndarray, delta: float) -> BlockOperator:
        """L G ((L G)^2 + delta I)^-1 L in each block, averaged."""
        n = len(self.points)
        return self._operator(
            [
                # A block's weights sum to its share of the rows, and so do the eigenvalues of L G: delta
                # stands beside their squares.
                gram.squared(weights[rows], delta * (len(rows) / n) ** 2)
                for rows, gram in zip(self.blocks, self._grams(), strict=True)
            ],
            delta,
        )

    def _operator(self, operators: list, ridge: float) -> BlockOperator:
        return BlockOperator(self.blocks, tuple(operators), len(self.points), ridge)


@dataclass
class BlockOperator(Operator):
    """The operators of blocks, averaged in proportion to their sizes."""

    blocks: tuple[np.ndarray, ...]
    operators: tuple[Operator, ...]
    n: int
    ridge: float

    def __post_init__(self) -> None:
        self.raised = sum(operator.raised for operator in self.operators)
        size = sum(map(len, self.blocks))
        self._shares = [len(rows) / size for rows in self.blocks]

    def solve(self, b: np.ndarray) -> np.ndarray:
        """The operator applied to b (n,) or (n, k)."""
        out = np.zeros_like(b, dtype=float)
        for rows, operator, share in zip(self.blocks, self.operators, self._shares, strict=True):
            out[rows] = share * operator.solve(b[rows])
        return out

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The operator applied to the kernel's values at new points x (k, d): shape (k, n)."""
        out = np.zeros((len(x), self.n))
        for rows, operator, share in zip(self.blocks, self.operators, self._shares, strict=True):
            out[:, rows] = share * operator.weights(x)
        return out
