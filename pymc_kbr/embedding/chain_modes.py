"""Whether chains of a sampler are at different modes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.labelled import chains_first
from pymc_kbr.arrays.refusals import positive
from pymc_kbr.arrays.rows import as_rows, check_finite


class ChainModes(NamedTuple):
    """Modes at which chains are."""

    # Shapes: mode (chains,); means (modes,); deviations (modes,).
    mode: np.ndarray
    means: np.ndarray
    deviations: np.ndarray

    @property
    def multimodal(self) -> bool:
        """Whether the chains are at more than one mode; their shares of the posterior are not estimated."""
        return len(self.means) > 1


@default_arithmetic
def chain_modes(draws: Any, *, deviations: float = 4.0) -> ChainModes:
    """Sort chains by their means, and part them where these are far from each other.

    Parameters
    ----------
    draws : array_like of shape (chains, draws)
        Of one variable, as ``idata.posterior["lengthscale"]``.
    deviations : float
        Between the means of chains at different modes.

    Returns
    -------
    ChainModes

    Raises
    ------
    ValueError
        If there is no second chain, they have fewer than two draws, or not all are finite, or `deviations`
        is not positive.

    Notes
    -----
    Two chains next to each other in the order of their means are at different modes where their means differ
    by more than `deviations` of the wider chain. A chain that moved between modes is wide, and joins them.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> found = chain_modes(rng.normal([[0.5], [3.0], [3.0]], 0.1, size=(3, 100)))
    >>> found.mode.tolist(), found.means.round(1).tolist()
    ([0, 1, 1], [0.5, 3.0])
    """
    positive("deviations", deviations)
    array = as_rows("the draws", chains_first(draws))
    if array.ndim != 2 or min(array.shape) < 2:
        raise ValueError(f"the draws have shape {array.shape}; give two chains or more, of two draws or more")
    check_finite("the draws", array)
    order = np.argsort(array.mean(axis=1))
    means, own = array.mean(axis=1)[order], array.std(axis=1)[order]
    parted = np.diff(means) > deviations * np.maximum(own[1:], own[:-1])
    mode = np.empty(len(array), dtype=int)
    mode[order] = np.concatenate([[0], np.cumsum(parted)])
    groups = [array[mode == k] for k in range(mode.max() + 1)]
    return ChainModes(mode, np.array([g.mean() for g in groups]), np.array([g.std() for g in groups]))
