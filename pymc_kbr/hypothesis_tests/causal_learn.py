"""The tests as causal-learn's algorithms take them."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.extras import brought_by
from pymc_kbr.hypothesis_tests.hsic import hsic_test, kci_test


@default_arithmetic
def causal_learn_test(random_seed: int | None = None, **options: Any) -> type:
    """A class of conditional independence tests for causal-learn's ``register_ci_test``.

    Parameters
    ----------
    random_seed : int, optional
        Each test is done with this seed, so that its p-value does not depend on those before it.
    **options
        Of `hsic_test`, such as ``bandwidth="bayesian"`` or ``null="gamma", statistic="biased"``.

    Returns
    -------
    type
        A class made from data (n, d), whose objects are called with two columns and those given; p-values
        are those of `hsic_test`, or of `kci_test`, without these options, where columns are given.

    Raises
    ------
    TypeError
        If `hsic_test` has no such option.
    ImportError
        If causal-learn is not installed, with the extra that brings it.

    Examples
    --------
    ``register_ci_test("kernel", pk.causal_learn_test(random_seed=1))``, and then
    ``pc(data, indep_test="kernel")``.
    """
    allowed = [name for name in signature(hsic_test).parameters if name not in ("x", "y", "random_seed")]
    unknown = sorted(set(options) - set(allowed))
    if unknown:
        raise TypeError(f"there is no option {', '.join(unknown)}; the tests take {', '.join(allowed)}")
    with brought_by("causal", "causallearn", "causal-learn"):
        from causallearn.utils.cit import CIT_Base

    class KernelIndependence(CIT_Base):
        """Kernel tests of independence, each pair's p-value computed once."""

        def __init__(self, data: np.ndarray, **kwargs: Any) -> None:
            super().__init__(data, **kwargs)
            # Kept beside p-values that causal-learn writes to a file: what they were made by.
            named = ", ".join(f"{name}={value}" for name, value in sorted(options.items()))
            self.check_cache_method_consistent("pymc_kbr", f"{named}; seed {random_seed}")
            self.assert_input_data_is_valid()

        def __call__(self, X: Any, Y: Any, condition_set: Any = None) -> float:
            """The p-value of two columns' independence given others."""
            first, second, given, key = self.get_formatted_XYZ_and_cachekey(X, Y, condition_set)
            if key not in self.pvalue_cache:
                columns = self.data[:, first], self.data[:, second]
                if given:
                    # Noise whose spread depends on what is given is common, and no edge.
                    found = kci_test(*columns, self.data[:, given], random_seed=random_seed)
                else:
                    found = hsic_test(*columns, random_seed=random_seed, **options)
                self.pvalue_cache[key] = found.pvalue
                self.save_to_local_cache()
            return self.pvalue_cache[key]

    return KernelIndependence
