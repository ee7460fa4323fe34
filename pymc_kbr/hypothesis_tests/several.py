"""Several bandwidths at once: the test by the one at which a sample stands out most from its permutations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.hypothesis_tests.choices import Bandwidth, chosen_kernel
from pymc_kbr.hypothesis_tests.result import TestResult, by_permutation
from pymc_kbr.kernels import FAMILIES, Kernel, check_kernel, median_heuristic

SEVERAL_SCALES = tuple(2.0 ** np.arange(-3.0, 2.0, 1.5))
"""Bandwidths over the median heuristic: from an eighth of it, for what repeats, to nearly three times it,
where a kernel sees means and lines. Closer ones hardly differ; of more of them each has to stand out more.
"""


def kernels_of(points: np.ndarray, kernel: str | Kernel | None, bandwidth: Bandwidth) -> list[Kernel]:
    """One kernel on points (n, d), as of `chosen_kernel`, or those of several bandwidths.

    Raises
    ------
    ValueError, TypeError
        If the kernel has a bandwidth of its own, or is none.
    """
    if not isinstance(bandwidth, str) or bandwidth != "several":
        return [chosen_kernel(points, kernel, bandwidth)]
    if kernel is not None:
        check_kernel("kernel", kernel)
        if not isinstance(kernel, str):
            raise ValueError(
                f"bandwidth is 'several' and kernel is {shown(kernel)}, which has its own; give one of the "
                "two"
            )
    family, median = FAMILIES["gaussian" if kernel is None else kernel], median_heuristic(points)
    return [family(float(scale * median)) for scale in SEVERAL_SCALES]


def refuse_without_permutations(null: str, form: str) -> None:
    """Refuse null distributions that are known for one bandwidth alone."""
    if null != "permutation" or form == "block":
        raise ValueError(
            f"bandwidth is 'several' with null={null!r} and form={form!r}; statistics of several bandwidths "
            "are compared by their permutations: take null='permutation' and form='exact' or "
            "'random_features'"
        )


def of_several(
    values: np.ndarray, permuted: np.ndarray, kernels: Sequence[tuple[Kernel, ...]], form: str
) -> TestResult:
    """The largest of standardised statistics, against that of each permutation.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Of the sample, at each choice of bandwidths.
    permuted : ndarray of shape (p, m)
        The same of permutations, each of them the same at all bandwidths.
    kernels : sequence of m tuples of Kernel
    form : str

    Returns
    -------
    TestResult
        `statistic` is the largest of the m, in deviations of its permutations; `kernels` are those of it.

    Notes
    -----
    The sample is one of the permutations by which each statistic is standardised, so that under the null
    hypothesis all of them are alike and the level is exact. After [1]_ and [2]_, who weigh bandwidths and
    correct the level of each; the largest of standardised statistics needs no second set of permutations.

    References
    ----------
    .. [1] M. Albert, B. Laurent, A. Marrel, A. Meynaoui, Adaptive test of independence based on HSIC
       measures, Annals of Statistics 50 (2022), 858-879.
    .. [2] A. Schrab, I. Kim, M. Albert, B. Laurent, B. Guedj, A. Gretton, MMD aggregated two-sample test,
       JMLR 24 (2023), 1-81.
    """
    pool = np.vstack([values, permuted])
    spread = pool.std(axis=0)
    # At a bandwidth at which all permutations are alike, but for rounding, no sample stands out.
    alike = spread <= 1e-12 * np.abs(pool).max(axis=0)
    standard = np.where(alike, 0.0, (pool - pool.mean(axis=0)) / np.where(alike, 1.0, spread))
    largest = standard.max(axis=1)
    value, null = float(largest[0]), largest[1:]
    return TestResult(value, by_permutation(value, null), null, kernels[int(np.argmax(standard[0]))], form)
