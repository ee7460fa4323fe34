"""Which kernel, form and null distribution a test takes, or an error where there is none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from pymc_kbr.arrays.refusals import one_of, shown, squarable, whole
from pymc_kbr.arrays.weighted import spread_out_varied
from pymc_kbr.embedding.learnt_lengthscale import LearntLengthscale, learn_lengthscale
from pymc_kbr.gram.low_rank import FourierFeatures
from pymc_kbr.hypothesis_tests.result import TestResult, by_permutation
from pymc_kbr.kernels import FAMILIES, Kernel, Sum, check_kernel, frequencies, median_heuristic

TEST_FORMS = ("auto", "exact", "random_features", "block")
STATISTICS = ("biased", "unbiased")
NULLS = ("permutation", "gamma")

LEARNT: dict[str, Callable[[LearntLengthscale], Kernel]] = {
    "bayesian": lambda learnt: learnt.kernel,
    "bayesian_shortest": lambda learnt: learnt.shortest,
    "bayesian_all": lambda learnt: learnt.kernel_of_all,
}
"""Bandwidths of the highest marginal likelihood, of its maximum at the shortest lengthscale, and of all."""

Bandwidth = str | float | Sequence[float]
"""Of a Gaussian kernel: "median", a name of `LEARNT`, a number, or one for each column."""


def check_choices(form: str, statistic: str, null: str, permutations: int, features: int) -> None:
    """Refuse names that there are not, and combinations that have no meaning."""
    for name, given, allowed in (
        ("form", form, TEST_FORMS),
        ("statistic", statistic, STATISTICS),
        ("null", null, NULLS),
    ):
        one_of(name, given, allowed)
    whole("permutations", permutations)
    whole("features", features)
    if features % 2:
        raise ValueError(f"features is {features}; they are cosines and sines: give an even number")
    if null == "gamma" and (statistic == "unbiased" or form == "block"):
        raise ValueError(
            f"null is 'gamma' with statistic={statistic!r} and form={form!r}; the gamma distribution is that "
            "of the biased statistic of all rows: take statistic='biased' and form='exact' or "
            "'random_features'"
        )


def chosen_kernel(points: np.ndarray, kernel: str | Kernel | None, bandwidth: Bandwidth) -> Kernel:
    """The kernel on points (n, d), its bandwidth given, by the median heuristic, or learnt."""
    if kernel is not None:
        check_kernel("kernel", kernel)
        if not isinstance(kernel, str):
            if bandwidth != "median":
                raise ValueError(
                    f"bandwidth is {shown(bandwidth)} and kernel is {shown(kernel)}, which has its own; "
                    "give one of the two"
                )
            return kernel
    family = FAMILIES["gaussian" if kernel is None else kernel]
    if isinstance(bandwidth, str):
        if bandwidth == "median":
            return family(median_heuristic(points))
        if bandwidth not in LEARNT:
            raise ValueError(
                f"bandwidth is {shown(bandwidth)}; it may be 'median', {', '.join(map(repr, LEARNT))}, or "
                "numbers above zero; of `mmd_test` and `hsic_test` 'aggregated', too"
            )
        if kernel not in (None, "gaussian"):
            raise ValueError(
                f"bandwidth is {shown(bandwidth)}, which is for the Gaussian kernel, and kernel is "
                f"{shown(kernel)}"
            )
        return LEARNT[bandwidth](learn_lengthscale(points))
    # As objects, or NumPy would make numbers of truth values and texts of numbers beside texts.
    if not isinstance(bandwidth, int | float | np.number | list | tuple | np.ndarray):
        raise TypeError(
            f"bandwidth is {shown(bandwidth)}; give a name, a number above zero, or one for each column"
        )
    for value in np.atleast_1d(np.asarray(bandwidth, dtype=object)).ravel():
        squarable("bandwidth", value)
    if np.ndim(bandwidth) == 0:
        return family(float(bandwidth))  # type: ignore[arg-type]
    if np.size(bandwidth) != points.shape[1]:
        raise ValueError(
            f"there are {np.size(bandwidth)} bandwidths; give one, or one for each of "
            f"{points.shape[1]} columns"
        )
    return family(tuple(float(value) for value in bandwidth))  # type: ignore[arg-type, union-attr]


def features_of(kernel: Kernel, points: np.ndarray, features: int, rng: np.random.Generator) -> np.ndarray:
    """Cosines and sines (n, features) that approximate the kernel on points (n, d); of a sum, each part."""
    if isinstance(kernel, Sum):
        parts = (kernel.left, kernel.right)
        return np.hstack([features_of(part, points, features, rng) for part in parts])
    try:
        drawn = frequencies(kernel, features // 2, points.shape[1], rng)
    except ValueError:
        raise ValueError(
            f"form is 'random_features', and those of {kernel!r} are not known; take a Gaussian, Laplace or "
            "Matern kernel, sums or products of these, or form='exact' or 'block'"
        ) from None
    # Such a kernel knows differences alone; far from the origin cosines would lose their digits.
    return FourierFeatures(drawn)(points - points.mean(axis=0))


def for_both(name: str, given: Any) -> tuple[Any, Any]:
    """What is given for both of two samples, or a pair with one for each."""
    if not isinstance(given, tuple):
        return given, given
    if len(given) != 2:
        raise ValueError(f"{name} is {shown(given)}; give one for both samples, or a pair")
    return given


# --- several bandwidths at once ---


def of_pooled(points: np.ndarray) -> np.ndarray:
    """Six bandwidths for two samples together (n, d): half the shortest distances to twice the longest."""
    # The 1% quantile is a distance within clusters for as many as a hundred of them.
    distances = distances_apart(points)
    lowest, highest = np.quantile(distances, [0.01, 0.95])
    return np.geomspace(lowest / 2, 2 * highest, 6)


def of_side(points: np.ndarray) -> np.ndarray:
    """Four bandwidths for one of two dependent samples (n, d), an eighth to nearly three times the median."""
    # There is a statistic for each pair of bandwidths: of more of them each has to stand out more.
    return float(np.median(distances_apart(points))) * 2.0 ** np.arange(-3.0, 2.0, 1.5)


def distances_apart(points: np.ndarray, *, most: int = 1000) -> np.ndarray:
    """Distances above zero between rows (n, d), or between some of many, whatever the order of the rows."""
    if len(points) > most:
        # Sorted: which rows are taken must not depend on which sample they are of, or the level is not exact.
        points = points[np.lexsort(points.T)]
        points = points[spread_out_varied(points, most)]
    distances = pdist(points)
    return distances[distances > 0] if np.any(distances > 0) else np.array([median_heuristic(points)])


def kernels_of(
    points: np.ndarray,
    kernel: str | Kernel | None,
    bandwidth: Bandwidth | None,
    several: Callable[[np.ndarray], np.ndarray],
    null: str,
    form: str,
) -> list[Kernel]:
    """One kernel on points (n, d), as of `chosen_kernel`, or those of several bandwidths."""
    permuted = null == "permutation" and form != "block"
    if bandwidth is None:
        own = kernel is not None and not isinstance(kernel, str)
        bandwidth = "aggregated" if permuted and not own else "median"
    if not isinstance(bandwidth, str) or bandwidth != "aggregated":
        return [chosen_kernel(points, kernel, bandwidth)]
    if not permuted:
        raise ValueError(
            f"bandwidth is 'aggregated' with null={null!r} and form={form!r}; statistics of several "
            "bandwidths are compared by their permutations: take null='permutation' and form='exact' or "
            "'random_features'"
        )
    if kernel is not None:
        check_kernel("kernel", kernel)
        if not isinstance(kernel, str):
            raise ValueError(
                f"bandwidth is 'aggregated' and kernel is {shown(kernel)}, which has its own; give one of "
                "the two"
            )
    family = FAMILIES["gaussian" if kernel is None else kernel]
    return [family(float(one)) for one in several(points)]


def of_several(
    values: np.ndarray, permuted: np.ndarray, kernels: Sequence[tuple[Kernel, ...]], form: str
) -> TestResult:
    """The largest of standardised statistics, against that of each permutation."""
    # Shapes: values (m,); permuted (p, m).
    pool = np.vstack([values, permuted])
    spread = pool.std(axis=0)
    # At a bandwidth at which all permutations are alike, but for rounding, no sample stands out.
    equal = spread <= 1e-12 * np.abs(pool).max(axis=0)
    standard = np.where(equal, 0.0, (pool - pool.mean(axis=0)) / np.where(equal, 1.0, spread))
    largest = standard.max(axis=1)
    value, null = float(largest[0]), largest[1:]
    return TestResult(value, by_permutation(value, null), null, kernels[int(np.argmax(standard[0]))], form)
