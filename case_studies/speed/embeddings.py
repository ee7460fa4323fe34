"""Kernel learning and the tests that stand on it, against one factorisation and against another package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import cholesky

import pymc_kbr as pk
from case_studies.speed.measure import Row, beside, seconds
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.embedding.marginal_likelihood import MarginalLikelihood


def marginal_likelihood(rows: int, columns: int) -> Row:
    """A value with its gradient, over one Cholesky factorisation of that size."""
    points = np.random.default_rng(0).normal(size=(rows, columns))
    likelihood, lengths = MarginalLikelihood(points), np.ones(columns)
    matrix = np.cov(np.random.default_rng(1).normal(size=(rows, 2 * rows)))
    with one_blas_thread():  # as it is learnt
        ours, one, ratio = beside(lambda: likelihood(lengths), lambda: cholesky(matrix, lower=True), 60)
    what = f"marginal likelihood and gradient, n = {rows:,}, D = {columns} / one Cholesky factorisation"
    return Row(what, f"{1e3 * ours:.1f} ms", f"{1e3 * one:.1f} ms", ratio, "at most 4")


def tests(rows: int, permutations: int) -> Iterator[Row]:
    """Permutation tests beside hyppo's, where it is installed (extra `rivals`)."""
    try:
        from hyppo.independence import Hsic
        from hyppo.ksample import MMD
    except ImportError:
        return
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 3))
    options: dict[str, Any] = {"permutations": permutations, "random_seed": 1, "bandwidth": "median"}
    pairs = (
        (
            "mmd_test",
            lambda: pk.mmd_test(x, y, **options),
            lambda: MMD().test(x, y, permutations, auto=False),
        ),
        (
            "hsic_test",
            lambda: pk.hsic_test(x, y, **options),
            lambda: Hsic().test(x, y, permutations, auto=False),
        ),
    )
    few = x[:20], y[:20]
    MMD().test(*few, 2, auto=False)  # compiles what it compiles
    Hsic().test(*few, 2, auto=False)
    for name, ours, theirs in pairs:
        own, other = seconds(ours), seconds(theirs)
        what = f"{name}, {rows:,} rows of 3, {permutations} permutations / hyppo's"
        yield Row(what, f"{own:.2f} s", f"{other:.2f} s", own / other, "at most 1")


def many_rows(rows: int) -> Iterator[Row]:
    """Forms for many rows, over the exact one on a few."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 3))
    few = 2000
    gamma: dict[str, Any] = {"null": "gamma", "statistic": "biased"}
    for name, test in (("mmd_test", pk.mmd_test), ("hsic_test", pk.hsic_test)):
        exact = seconds(lambda test=test: test(x[:few], y[:few], random_seed=1, **gamma))  # type: ignore[misc]
        for form, options in (("block", {}), ("random_features", gamma)):
            ours = seconds(
                lambda test=test, form=form, options=options: test(  # type: ignore[misc]
                    x, y, form=form, random_seed=1, **options
                )
            )
            what = f"{name}, {rows:,} rows by form={form!r} / {few:,} rows exactly"
            yield Row(what, f"{ours:.2f} s", f"{exact:.2f} s", ours / exact, "no limit")


def embeddings(quick: bool) -> Iterator[Row]:
    """All lines."""
    yield marginal_likelihood(*((300, 2) if quick else (1000, 5)))
    yield from tests(*((100, 20) if quick else (1000, 50)))
    yield from many_rows(10_000 if quick else 100_000)
