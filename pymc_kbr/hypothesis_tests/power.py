"""How often a test rejects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.arrays.refusals import probability as refuse_probability


@dataclass(frozen=True, eq=False)
class PowerCurve:
    """Shares of rejections over settings.

    Parameters
    ----------
    settings : list
    pvalues : ndarray of shape (s, r)
        Of each setting's repetitions.
    level : float
        At which a test rejects.
    """

    settings: list[Any]
    pvalues: np.ndarray
    level: float

    def __repr__(self) -> str:
        """One line, without p-values."""
        power = np.array2string(self.power, precision=3, threshold=10, max_line_width=10_000)
        return f"PowerCurve({len(self.settings)} settings, level={self.level}, power={power})"

    @property
    def power(self) -> np.ndarray:
        """Share of rejections of each setting, (s,); one minus it is the type II error."""
        return np.mean(self.pvalues <= self.level, axis=1)

    def interval(self, probability: float = 0.95) -> np.ndarray:
        """Clopper and Pearson's intervals of the rejections' probability, shape (s, 2)."""
        refuse_probability("probability", probability)
        repeats = self.pvalues.shape[1]
        rejected = np.sum(self.pvalues <= self.level, axis=1)
        tail = (1 - probability) / 2
        # With none, or all, rejected, one end is 0 or 1 itself: the beta distribution there has no
        # parameters.
        lower = np.where(rejected > 0, beta.ppf(tail, np.maximum(rejected, 1), repeats - rejected + 1), 0.0)
        kept = repeats - rejected
        upper = np.where(kept > 0, beta.ppf(1 - tail, rejected + 1, np.maximum(kept, 1)), 1.0)
        return np.stack([lower, upper], axis=1)


@default_arithmetic
def power_curve(
    test: Callable[..., Any],
    simulate: Callable[[Any, np.random.Generator], Sequence[Any]],
    settings: Sequence[Any],
    *,
    repeats: int = 100,
    level: float = 0.05,
    random_seed: int | np.random.Generator | None = None,
    **options: Any,
) -> PowerCurve:
    """The share of simulated samples that a test rejects, for each setting of the simulation.

    Parameters
    ----------
    test : callable
        `mmd_test`, `hsic_test`, or another that takes samples and `random_seed` and returns something with
        `pvalue`.
    simulate : callable
        From a setting and a generator to the samples.
    settings : sequence
    repeats : int
        Simulations of each setting.
    level : float
    random_seed : int or numpy.random.Generator, optional
    **options
        Of the test.

    Returns
    -------
    PowerCurve

    Raises
    ------
    TypeError, ValueError
        If test or simulation cannot be called, there is no setting, no repetition, or the level is no
        probability.

    Examples
    --------
    >>> from pymc_kbr.hypothesis_tests import mmd_test
    >>> def shifted(shift, rng):
    ...     return rng.normal(size=50), rng.normal(shift, size=50)
    >>> curve = power_curve(mmd_test, shifted, [0.0, 2.0], repeats=20, permutations=99, random_seed=1)
    >>> bool(curve.power[0] < 0.5 < curve.power[1])
    True
    """
    for name, given in (("test", test), ("simulate", simulate)):
        if not callable(given):
            raise TypeError(f"{name} is {shown(given)}; give a function")
    whole("repeats", repeats)
    refuse_probability("level", level)
    if not hasattr(settings, "__len__") or isinstance(settings, str) or hasattr(settings, "nnz"):
        raise TypeError(f"settings is {shown(settings)}; give a list of them, of one setting too")
    if not len(settings):
        raise ValueError("there is no setting; give at least one")
    # One generator throughout, or every repetition would be of the same samples and permutations.
    rng = generator_of(random_seed)
    pvalues = [
        [test(*simulate(setting, rng), random_seed=rng, **options).pvalue for _ in range(repeats)]
        for setting in settings
    ]
    return PowerCurve(list(settings), np.array(pvalues), level)
