"""Two samples given a third: are they independent for each value of it?"""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.points import as_points, refuse_constant, refuse_unequal_rows
from pymc_kbr.arrays.refusals import generator_of
from pymc_kbr.arrays.rows import refuse_unlike_labels
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.hypothesis_tests.hsic import hsic_test
from pymc_kbr.hypothesis_tests.result import TestResult
from pymc_kbr.regression.kernel_ridge import KernelRegression


@default_arithmetic
def conditional_hsic_test(
    x: Any, y: Any, z: Any, *, random_seed: int | np.random.Generator | None = None, **options: Any
) -> TestResult:
    """Test whether two samples are independent given a third, by their regressions' residuals.

    Parameters
    ----------
    x, y, z : array_like of shape (n, d), (n, e) and (n, f), or (n,)
    random_seed : int or numpy.random.Generator, optional
    **options
        Of `hsic_test`, for the residuals.

    Returns
    -------
    TestResult

    Raises
    ------
    TypeError, ValueError
        As of `hsic_test`, for any of the three; at least 20 rows are needed.

    Notes
    -----
    Both are regressed on z by kernel ridge regression, each row's residual predicted from all the others,
    and the residuals tested for independence [1]_. That is conditional independence where noise is added to
    functions of z, and does not depend on it; noise whose spread changes with z in both is a dependence of
    the residuals, which the test finds. What the regressions leave of the functions makes the level larger
    than the nominal one in small samples with steep functions.

    References
    ----------
    .. [1] S. Flaxman, D. Neill, A. Smola, Gaussian processes for independence tests with non-iid data in
       causal inference, ACM Transactions on Intelligent Systems and Technology 7 (2015).
    """
    refuse_unlike_labels("x", x, "y", y)
    refuse_unlike_labels("x", x, "z", z)
    x, y, z = (as_points(name, value, least=20) for name, value in (("x", x), ("y", y), ("z", z)))
    refuse_unequal_rows("x", x, "y", y)
    refuse_unequal_rows("x", x, "z", z)
    for name, points in (("x", x), ("y", y), ("z", z)):
        refuse_constant(name, points)
    rng = generator_of(random_seed)
    # The regressions have one lengthscale for all columns of z, whatever their units.
    given = (z - z.mean(axis=0)) / unit_deviations(z)
    first, second = (KernelRegression(given, points, rng).residuals for points in (x, y))
    return hsic_test(first, second, random_seed=rng, **options)
