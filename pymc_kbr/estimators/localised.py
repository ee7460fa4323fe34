"""The conditional mean embedding on the nearest rows of each observation."""

from __future__ import annotations

import numpy as np

from pymc_kbr.arrays.refusals import whole
from pymc_kbr.arrays.threads import cores, parallel_map
from pymc_kbr.embedding.rules import ImportanceWeighted
from pymc_kbr.estimators.row_weights import RowWeights
from pymc_kbr.estimators.rule_estimator import RuleEstimator
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram.gram import warn_raised
from pymc_kbr.gram.local import LocalRegressions
from pymc_kbr.kernels import Kernel


class Localised(RuleEstimator):
    """`ConditionalMean` on the m rows nearest to the observation.

    Parameters
    ----------
    neighbours : int, optional
        m; 500, or all rows where there are fewer.
    bandwidth, regularisation, kernel, centred, scale, parameter_bandwidth
        As in `ConditionalMean`; lambda is that of m rows, and `centred` is about the means of the
        nearest rows.

    single_precision : bool
        Whether the systems of nearest rows are made and solved in single precision, with half the memory
        and in about the same time. Refused where the ridge m lambda is so small that rounding would be a
        part of it.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range, and for single precision with a ridge that rounding would
        be a part of.

    Notes
    -----
    Algorithm 1 of the localised draft: the nearest rows of x, then w = (G_m + m lambda I)^-1 k_m(x),
    its eq. 4. Nearest in a kernel that falls with distance is nearest in distance, so a tree finds
    them: in units of the kernel's bandwidths, where it has one for each statistic. With m = n this is
    `ConditionalMean`.

    `centred` in the form of an unpenalised intercept: with K = G_m + m lambda I, what w lacks of one is
    added in proportion to K^-1 1, which is the same as centring the features of both sides.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(500, 1))
    >>> fitted = Localised(neighbours=200).fit(theta, theta + rng.normal(size=(500, 1)))
    >>> posteriors = fitted.condition([[-1.0], [1.0]])  # a row an observation
    >>> [bool(abs(p.mean()[0] - half) < 0.2) for p, half in zip(posteriors, (-0.5, 0.5))]
    [True, True]
    """

    rule = ImportanceWeighted()
    solver = "exact"
    picks = True
    on_all_threads = False  # its systems are small, and solved side by side

    def __init__(
        self,
        neighbours: int | None = None,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        kernel: str | Kernel = "gaussian",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
        single_precision: bool = False,
    ) -> None:
        self.neighbours = neighbours
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.kernel = kernel
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth
        self.single_precision = single_precision

    def _check(self, n: int, streamed: bool) -> None:
        if self.neighbours is not None:
            whole("neighbours", self.neighbours, n)
        super()._check(n, streamed)

    def _check_memory(self, n: int, streamed: bool) -> None:
        super()._check_memory(self._count(n), False)

    def _count(self, n: int) -> int:
        return min(500, n) if self.neighbours is None else int(self.neighbours)

    def _fit(self, rng: np.random.Generator) -> None:
        self.neighbours_ = self._count(len(self.table_))
        choice = self._choose(self.neighbours_, self._prior_weights(rng))
        self.kernel_, self._ridge = choice.kernel, choice.ridge
        self.regularisation_ = self._ridge / self.neighbours_
        self._regressions = LocalRegressions(
            self.kernel_,
            self._ridge,
            self.neighbours_,
            self.centred,
            np.float32 if self.single_precision else np.float64,
        )
        # Rounding of a matrix of m rows is at most about m times that of one of its numbers.
        least = 10 * self.neighbours_ * float(np.finfo(np.float32).eps)
        if self.single_precision and self._ridge < least:
            raise ValueError(
                f"single_precision is asked for and the ridge is {self._ridge:.3g}; rounding needs one above "
                f"{least:.3g} with {self.neighbours_} neighbours: take double precision, or a larger "
                "regularisation"
            )
        self._units = kernel_units(self.kernel_)
        self.table_.nearest(self.neighbours_, self._units)  # the tree is grown here

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        m, table = self.neighbours_, self.table_
        _, rows = table.nearest(m, self._units).query(x / np.array(self._units or 1.0), m)
        points, places = table.read_statistics(rows)
        weights, raised = np.empty(rows.shape), np.zeros(len(x), dtype=int)

        def solve(numbers: np.ndarray) -> None:
            scratch, step = self._regressions.scratch(), self._regressions.batch
            for k in (numbers[i : i + step] for i in range(0, len(numbers), step)):
                ratio = None if table.ratio is None else table.ratio[rows[k]]
                weights[k], raised[k] = self._regressions.weights(x[k], points[places[k]], ratio, scratch)

        # Each system is small: batches of them run side by side, each on one BLAS thread.
        with parallel_map(len(x)) as each:
            each(solve, np.array_split(np.arange(len(x)), min(len(x), cores())))
        most = int(raised.max())
        if most:
            warn_raised(self._ridge, self._regressions.raised(most), most)
        return RowWeights(weights, rows, settings={"ridge_raised": most})


def kernel_units(kernel: Kernel) -> tuple[float, ...]:
    """The bandwidths of a kernel that has one for each statistic, shape (q,)."""
    bandwidths = np.atleast_1d(
        np.asarray(getattr(kernel, "bandwidth", getattr(kernel, "length_scale", 1.0)), float)
    )
    return () if np.ptp(bandwidths) == 0 else tuple(bandwidths.tolist())
