"""Rejection ABC: the rows nearest to the observation, equally weighted."""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree

from pymc_kbr.estimators.base import Estimator, whole


class Rejection(Estimator):
    """Accept the nearest rows, as in rejection ABC with a tolerance set by its quantile.

    Parameters
    ----------
    accepted : float or int
        Share of the rows in (0, 1), or their number.
    scale : bool
        Whether statistics are divided by their standard deviation in the table.
    parameter_bandwidth : float, optional
        See `ConditionalMean`.

    Notes
    -----
    Distance is Euclidean on the scaled statistics.

    References
    ----------
    .. [1] J. K. Pritchard et al., Population growth of human Y chromosomes, Mol. Biol. Evol. 16
       (1999), 1791-1798.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(1000, 1))
    >>> posterior = Rejection(accepted=50).fit(theta, theta + rng.normal(size=(1000, 1))).condition([1.0])
    >>> len(posterior.atoms)
    50
    """

    def __init__(
        self, accepted: float = 0.01, *, scale: bool = True, parameter_bandwidth: float | None = None
    ) -> None:
        self.accepted = accepted
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def _check(self, n: int) -> None:
        if isinstance(self.accepted, float | np.floating):
            if not 0 < self.accepted < 1:
                raise ValueError(
                    f"accepted is {self.accepted}; as a share it must lie between 0 and 1, both excluded; "
                    "a whole number is a count"
                )
            self.accepted_ = max(1, round(self.accepted * n))
        else:
            whole("accepted", self.accepted, n)
            self.accepted_ = int(self.accepted)

    def _fit(self) -> None:
        self._tree = KDTree(self.statistics_)

    def _row_weights(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        _, rows = self._tree.query(x, k=[*range(1, self.accepted_ + 1)], workers=-1)
        if self.ratio_ is None:
            return rows, np.full(rows.shape, 1 / self.accepted_)
        weights = self.ratio_[rows]
        return rows, weights / weights.sum(axis=1, keepdims=True)
