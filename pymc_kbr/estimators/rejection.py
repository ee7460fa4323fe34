"""Rejection ABC: the rows nearest to the observation."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.refusals import shown, whole
from pymc_kbr.estimators.estimator import Estimator, RowWeights
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.kernels import PROFILES


class Rejection(Estimator):
    """Accept the nearest rows, as in rejection ABC with a tolerance set by its quantile.

    Parameters
    ----------
    accepted : float or int
        Share of the rows, above 0 and up to 1.0, which is all of them; or their number: 1 is one row.
    most : int, optional
        Rows that are accepted at most, where `accepted` is a share.
    kernel : {"top_hat", "epanechnikov", "gaussian"}
        How the weights of accepted rows fall with distance, in units of that of the first row that is not
        accepted: equal weights, or those of Beaumont et al. 2002.
    scale : bool, str or Summary
        Whether statistics are divided by their standard deviation in the table; or "relevance",
        "posterior_mean", or this after ``linear_``, ``curved_`` or ``joint_``, learnt from the table: see
        `estimators.summaries`.
    parameter_bandwidth : float, optional
        See `ConditionalMean`.

    Raises
    ------
    ValueError
        By `fit`, for a kernel that there is not, and more accepted rows than the table has or none.

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

    streams = True
    picks = True

    def __init__(
        self,
        accepted: float = 0.01,
        *,
        most: int | None = None,
        kernel: str = "top_hat",
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.accepted = accepted
        self.most = most
        self.kernel = kernel
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def _check(self, n: int, streamed: bool) -> None:
        if self.kernel not in PROFILES:
            raise ValueError(f"kernel is {shown(self.kernel)}; it may be one of {sorted(PROFILES)}")
        if isinstance(self.accepted, float | np.floating):
            if not 0 < self.accepted <= 1:
                raise ValueError(
                    f"accepted is {self.accepted}; as a share it must be above 0 and at most 1.0, which is "
                    "all rows; a whole number is a count"
                )
            if self.most is not None:
                whole("most", self.most)
        else:
            whole("accepted", self.accepted, n)
            if self.most is not None:
                raise ValueError(
                    f"accepted is {self.accepted}, a number of rows, and most is {self.most}; most limits a "
                    "share of the rows: leave it out, or give accepted as a share such as 0.3"
                )

    def _count(self, n: int) -> int:
        """How many of n rows are accepted."""
        if isinstance(self.accepted, float | np.floating):
            return min(max(1, round(self.accepted * n)), n if self.most is None else self.most)
        return int(self.accepted)

    def _fit(self, rng: np.random.Generator) -> None:
        self.accepted_ = self._count(len(self.table_))
        self.table_.nearest(self.accepted_ + 1)  # the tree is grown here, not at the first observation

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        n = len(self.table_)
        wanted = min(self.accepted_ + 1, n)  # one more, at whose distance a kernel ends
        distances, rows = self.table_.nearest(wanted).query(x, wanted)
        weights = np.ones((len(x), self.accepted_))
        if self.kernel != "top_hat":
            edge = distances[:, -1:]
            # Of all rows none is beyond: the farthest one keeps some weight.
            if n == self.accepted_:
                edge = edge * (1 + 1 / n)
            relative = distances[:, : self.accepted_] / np.where(edge > 0, edge, 1.0)
            weights = PROFILES[self.kernel](relative)
            weights[weights.sum(axis=1) == 0] = 1.0  # all accepted rows are as far as the first one beyond
        rows = rows[:, : self.accepted_]
        if self.table_.ratio is not None:
            weights = weights * self.table_.ratio[rows]
        return RowWeights(weights / weights.sum(axis=1, keepdims=True), rows)
