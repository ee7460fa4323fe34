"""How (G + n lambda I)^-1 is applied: whole, factored to a low rank, or in parts."""

from pymc_kbr.gram.dense import DenseGram
from pymc_kbr.gram.gram import Gram, Operator
from pymc_kbr.gram.incomplete_cholesky import (
    AS_EXACT,
    IncompleteCholesky,
    RandomlyPivotedCholesky,
    pivoted_cholesky,
)
from pymc_kbr.gram.low_rank import LowRankGram, Nystroem, RandomFeatures, StreamedGram
from pymc_kbr.gram.solvers import SOLVERS, Auto, DivideAndConquer, Exact, Solver, Subsample, make_solver

__all__ = [
    "AS_EXACT",
    "SOLVERS",
    "Auto",
    "DenseGram",
    "DivideAndConquer",
    "Exact",
    "Gram",
    "IncompleteCholesky",
    "LowRankGram",
    "Nystroem",
    "Operator",
    "RandomFeatures",
    "RandomlyPivotedCholesky",
    "Solver",
    "StreamedGram",
    "Subsample",
    "make_solver",
    "pivoted_cholesky",
]
