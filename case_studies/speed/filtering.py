"""Steps of the kernel Bayes filter against one bare solve of the same size."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from case_studies.filtering.dynamics import DYNAMICS
from case_studies.speed.measure import Row, seconds
from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.gram import IncompleteCholesky, LowRankGram
from pymc_kbr.kernels import Gaussian

SETTINGS = {
    "state_bandwidth": 0.5,
    "observation_bandwidth": 2.0,
    "regularisation": 1e-3,
    "prior_regularisation": 1e-3,
    "transition_regularisation": 1e-3,
}


def exact_step(rows: int, steps: int) -> Row:
    """An exact importance-weighted step over `cho_factor` and `cho_solve` of an n x n matrix."""
    kbf, observed = _fitted(rows, steps, "exact")
    ours = seconds(lambda: kbf.filter(observed)) / steps
    points = np.random.default_rng(0).normal(size=(rows, 2))
    matrix = Gaussian(1.0)(points)
    matrix.flat[:: rows + 1] += 1.0
    right = np.ones(rows)
    bare = seconds(lambda: cho_solve(cho_factor(matrix, check_finite=False), right, check_finite=False), 3)
    return _row(
        f"filter, exact, n = {rows:,}, a step of {steps:,} / one Cholesky solve", ours, bare, "no limit"
    )


def low_rank_step(rows: int, steps: int, rank: int) -> Row:
    """A low-rank step over one Woodbury solve, of F' F and an r x r factorisation."""
    kbf, observed = _fitted(rows, steps, IncompleteCholesky(rank, 0.0))
    ours = seconds(lambda: kbf.filter(observed)) / steps
    features = np.random.default_rng(0).normal(size=(rows, rank))
    gram, right = LowRankGram(features, lambda x: x), np.ones(rows)
    bare = seconds(lambda: gram.regularised(1.0).solve(right), 3)
    what = (
        f"filter, incomplete Cholesky of rank {rank}, n = {rows:,}, a step of {steps:,} / one Woodbury solve"
    )
    return _row(what, ours, bare, "no limit")


def thousand_steps(rows: int, steps: int) -> Row:
    """Seconds of many exact steps over ten."""
    kbf, observed = _fitted(rows, steps, "exact")
    ours = seconds(lambda: kbf.filter(observed))
    what = f"filter, exact importance-weighted rule, n = {rows:,}: seconds of {steps:,} steps / 10 s"
    return Row(what, f"{ours:.1f} s", "10 s", ours / 10, "at most 1")


def _fitted(rows: int, steps: int, solver: object) -> tuple[KernelBayesFilter, np.ndarray]:
    states, observations = DYNAMICS["rotation"].simulate(rows + steps, np.random.default_rng(0))
    kbf = KernelBayesFilter(solver=solver, **SETTINGS, backward_regularisation=1e-3)  # type: ignore[arg-type]
    return kbf.fit(states[:rows], observations[:rows], random_seed=0), observations[rows:]


def _row(what: str, ours: float, bare: float, wanted: str) -> Row:
    return Row(what, f"{1e3 * ours:.2f} ms", f"{1e3 * bare:.2f} ms", ours / bare, wanted)
