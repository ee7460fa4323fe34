"""One kernel, one solver, one rule: what the conditional mean embedding and kernel Bayes' rules share."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.linalg import eigvalsh

from pymc_kbr.arrays.chunks import physical_memory
from pymc_kbr.arrays.refusals import flag, positive, shown, squarable_or, whole
from pymc_kbr.arrays.threads import cores, parallel_map
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.learnt_lengthscale import learn_lengthscale
from pymc_kbr.embedding.rules import ImportanceWeighted, Rule, SquaredRule, chain_rule
from pymc_kbr.estimators.estimator import Estimator, RowWeights
from pymc_kbr.estimators.prior_weights import PriorWeights, check_prior, ratio_settings, weighted_draws
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import (
    Auto,
    DivideAndConquer,
    Exact,
    Operator,
    RandomFeatures,
    Solver,
    Subsample,
    make_solver,
)
from pymc_kbr.gram.dense import centred_gram
from pymc_kbr.gram.gram import SquaredOperator, warn_raised
from pymc_kbr.gram.local import LocalRegressions
from pymc_kbr.gram.solvers import solver_for, streams
from pymc_kbr.kernels import FAMILIES, Gaussian, Kernel, Linear, check_kernel, median_heuristic
from pymc_kbr.regression.choose_ridge import SCALES, KernelAndRidge, choose_kernel_and_ridge

NAMED = ("median", "bayesian")
"""Bandwidths that are chosen from the statistics alone."""


class RuleEstimator(Estimator):
    """A `rule` of `embedding.rules` on the Gram matrix of a `kernel`, which a `solver` makes."""

    rule: ClassVar[Rule]
    streams = True
    on_all_threads = True
    bandwidth: float | str | None
    regularisation: float | None
    kernel: str | Kernel
    solver: str | Solver
    centred: bool

    def _check(self, n: int, streamed: bool) -> None:
        check_kernel("kernel", self.kernel)
        flag("centred", self.centred)
        if self.bandwidth is not None:
            squarable_or(NAMED, "bandwidth", self.bandwidth)
            if not isinstance(self.kernel, str):
                raise ValueError(
                    f"bandwidth is {shown(self.bandwidth)} and kernel is {shown(self.kernel)}; a kernel "
                    "has its own bandwidth: give one of the two"
                )
            if self.bandwidth == "bayesian" and self.kernel != "gaussian":
                raise ValueError(
                    f"bandwidth is 'bayesian', which is for the Gaussian kernel, and kernel is "
                    f"{self.kernel!r}"
                )
        if self.regularisation is not None:
            positive("regularisation", self.regularisation)
        self._check_memory(n, streamed)

    def _check_memory(self, n: int, streamed: bool) -> None:
        solver = solver_for(self._solver(), n)
        if streamed and streams(solver):
            return
        if streamed and not isinstance(solver, Exact):
            raise ValueError(
                f"the solver {solver!r} works on tables in memory, and these rows are read a part at a "
                "time; take solver='incomplete_cholesky', 'nystroem' or 'random_features'"
            )
        needed, there = solver.bytes(n), physical_memory()
        if needed > 0.8 * there:
            raise MemoryError(
                f"the Gram matrix of {n} rows needs {needed / 1e9:.1f} GB and this machine has "
                f"{there / 1e9:.1f} GB; take solver='auto' or 'nystroem', Localised, or fewer rows"
            )

    def _fit(self, rng: np.random.Generator) -> None:
        table, n, solver = self.table_, len(self.table_), self._solver()
        self._prior = self._prior_weights(rng)
        for name, value in self._prior.settings.items():
            setattr(self, f"{name}_", value)
        choice = self._choose(solver.rows(n), self._prior)
        self.kernel_ = choice.kernel
        ridge = choice.ridge / solver.rows(n)  # from m lambda, of m rows that meet in a regression
        gram = solver.gram(self.kernel_, table.points_for(solver), rng, n * ridge)
        self._centre = self._base = None
        if self.centred:
            self._centre = np.full(n, 1 / n)
            if self._prior.gamma is not None:
                self._centre = np.maximum(self._prior.gamma, 0) / np.maximum(self._prior.gamma, 0).sum()
            self._base = self._centre if self._prior.base is None else self._prior.base
            gram = gram.centred(self._centre)
        self.regularisation_ = self._regularisation(ridge)
        self._operator: Operator = self.rule.operator(gram, self._prior.gamma, self.regularisation_)
        if (rank := getattr(gram, "rank", None)) is not None:
            self.rank_ = rank
        self.ridge_raised_ = self._operator.raised

    def _solver(self) -> Solver:
        return make_solver(self.solver)

    def _prior_weights(self, rng: np.random.Generator) -> PriorWeights:
        """How the rows represent the prior."""
        ratio = self.table_.ratio
        return PriorWeights() if ratio is None else PriorWeights.of_ratio(ratio)

    def _choose(
        self,
        rows: int,
        prior: PriorWeights,
        *,
        # Standard errors by which a simpler setting's leave-one-out error may exceed the lowest one. More
        # than for columns: on nine problems of 200 rows errors are the same to .2% on average as with 0.25,
        # and distances from the exact means, where these are linear, a tenth lower.
        near_best_rule: float = 0.5,
    ) -> KernelAndRidge:
        """Kernel and ridge, the given ones or the best ones, for regressions on so many rows."""
        kernels = self._kernels()
        ridges = None if self.regularisation is None else (self.rule.ridge(self.regularisation) * rows,)
        if ridges is not None and len(kernels) == 1:
            choice = KernelAndRidge(kernels[0], ridges[0], float("nan"))
        else:
            n = len(self.table_)
            choice = choose_kernel_and_ridge(
                *self.table_.tuning,
                kernels,
                ridges,
                weights=None if prior.gamma is None else n * np.maximum(prior.gamma, 0),
                score_weights=None if prior.score is None else n * prior.score,
                centred=self.centred,
                near=near_best_rule,
            )
        if isinstance(self.kernel, str):
            self.bandwidth_ = float(getattr(choice.kernel, "bandwidth", np.inf))
        return choice

    def _kernels(self) -> list[Kernel]:
        """The kernels among which is chosen."""
        if not isinstance(self.kernel, str):
            return [self.kernel]
        family = FAMILIES[self.kernel]
        if self.bandwidth == "bayesian":
            return [learn_lengthscale(self.table_.tuning[0]).kernel]
        if self.bandwidth is not None and self.bandwidth != "median":
            return [family(float(self.bandwidth))]
        median = median_heuristic(self.table_.tuning[0])
        if self.bandwidth == "median":
            return [family(median)]
        kernels: list[Kernel] = [family(s * median) for s in SCALES]
        # Centred and with its ridge, this is what a Gaussian kernel tends to as its bandwidth grows.
        limit = family is Gaussian and self.centred and not isinstance(self._solver(), RandomFeatures)
        return [*kernels, Linear()] if limit else kernels

    def _regularisation(self, ridge: float) -> float:
        """The given one, or that of the rule which corresponds to the ridge that was chosen."""
        if self.regularisation is not None:
            return float(self.regularisation)
        return self.rule.regularisation(ridge, self._spectrum())

    def _spectrum(
        self,
        *,
        # Rows from which the spectrum is known.
        most: int = 1000,
    ) -> np.ndarray:
        """Eigenvalues of D^(1/2) G D^(1/2), of at most 1000 rows."""
        x, gamma = self.table_.tuning[0], self._prior.gamma
        rows = spread_out(len(x), most)
        share = np.ones(len(rows)) if gamma is None else np.maximum(gamma, 0)[rows]
        root = np.sqrt(share / share.sum())
        gram = self.kernel_(x[rows])
        if self.centred:
            gram = centred_gram(gram, root**2)
        return np.maximum(eigvalsh(root[:, None] * gram * root), 0)

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        self.table_.check_weights(len(x))
        weights = self._operator.weights(x)
        if self._centre is not None:
            # Centred features leave the sum of weights open: it is taken off, and the base has sum one.
            weights = weights - weights.sum(axis=1, keepdims=True) * self._centre + self._base
        return RowWeights(weights)

    def means(self, x: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Conditional means of values, without the weights of all rows.

        Parameters
        ----------
        x : ndarray of shape (k, q)
            Statistics in the scale of the table.
        values : ndarray of shape (n, t)
            Of the fitted rows.

        Returns
        -------
        ndarray of shape (k, t)
        """
        with self._threads():
            found = self._operator.means(x, np.column_stack([values, np.ones(len(values))]))
        means, total = found[:, :-1], found[:, -1:]
        if self._centre is not None:
            means = means - total * (self._centre @ values) + self._base @ values
        return means


# --- estimators with a prior given by draws ---


class WithPrior(RuleEstimator):
    """A conditional mean under a prior that is given by draws."""

    # Shapes: prior (l, p), or pair of such and of weights of shape (l,).
    takes_draws = True

    def __init__(
        self,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        prior: Any = None,
        prior_regularisation: float | None = None,
        kernel: str | Kernel = "gaussian",
        solver: str | Solver = "auto",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_kernel: Kernel | None = None,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.kernel = kernel
        self.solver = solver
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth
        self.prior = prior
        self.prior_regularisation = prior_regularisation
        self.parameter_kernel = parameter_kernel

    def _check(self, n: int, streamed: bool) -> None:
        super()._check(n, streamed)
        if self.prior_regularisation is not None:
            positive("prior_regularisation", self.prior_regularisation)
        if self.parameter_kernel is not None:
            check_kernel("parameter_kernel", self.parameter_kernel)
            if isinstance(self.parameter_kernel, str):
                raise TypeError(
                    f"parameter_kernel is {shown(self.parameter_kernel)}; give a kernel with its "
                    "bandwidth, or a parameter_bandwidth"
                )
        if self.prior is not None:
            weighted_draws(self.prior)
        if streamed and (self.prior is not None or not self.centred):
            raise ValueError(
                "weights of a prior need the table in memory, and these rows are read a part at a time; load "
                "some of them (`stored.load(20_000)`), or leave `prior` out and `centred` on"
            )

    def _parameter_kernel(self) -> Kernel:
        return super()._parameter_kernel() if self.parameter_kernel is None else self.parameter_kernel

    def _prior_weights(self, rng: np.random.Generator) -> PriorWeights:
        if self.table_.ratio is not None:
            return super()._prior_weights(rng)
        given = self._draws()
        # A ratio that is regularised towards one is one where the prior is the table's own.
        if given is None and self.centred:
            return PriorWeights()
        return self._estimated_weights(given, rng)

    def _draws(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Draws of the prior with their weights, given to `fit` or to the constructor."""
        if self.table_.draws is not None or self.prior is None:
            return self.table_.draws
        draws, weights = weighted_draws(self.prior, self.names_.parameters)
        check_prior(draws, weights, self.table_.parameters)
        return draws, weights

    def _estimated_weights(
        self, given: tuple[np.ndarray, np.ndarray] | None, rng: np.random.Generator
    ) -> PriorWeights:
        """Weights of the rows by the kernel sum rule."""
        theta, n, success = self.table_.parameters, len(self.table_), self.table_.success
        draws, weights = (theta, np.full(n, 1 / n)) if given is None else given
        if given is not None and success is not None:
            draws, weights = success.seen(given)
        fixed = self.parameter_kernel is not None or self.parameter_bandwidth is not None
        kernel = self.parameter_kernel_ if fixed else None
        choice = ratio_settings(theta, draws, weights, self.centred, kernel, self.prior_regularisation)
        support = self.table_.support
        return PriorWeights.of_draws(
            draws, weights, theta, support, choice, self.centred, self._solver(), rng
        )


# --- conditional means ---


class ConditionalMean(RuleEstimator):
    """Kernel ridge regression of the parameters' features on the statistics.

    Parameters
    ----------
    bandwidth : float, "median" or "bayesian", optional
        Of the kernel on the scaled statistics; by the median heuristic, or the maximum marginal likelihood of
        the statistics' embedding. Where left out, the multiple of the median heuristic
        with the smallest leave-one-out error; or infinity, the linear kernel, which a wide Gaussian one
        tends to, unless a multiple is better by two standard errors.
    regularisation : float, optional
        lambda. Where left out, n * lambda is chosen together with the bandwidth.
    kernel : str or Kernel
        "gaussian", "laplace" or "matern", of the bandwidth above; or a kernel on the scaled
        statistics, ours or one of scikit-learn's Gaussian processes, which is taken as it is.
    solver : str or Solver
        How the regression is solved, see `pymc_kbr.gram`: "auto" is exact up to 4 GB.
    centred : bool
        Whether features on both sides are regressed about their means over the rows, so that the
        weights sum to one and shrink towards the prior; otherwise they are those of the equation, and
        shrink towards zero.
    scale : bool, str or Summary
        Whether statistics are divided by their standard deviation in the table (they are centred in either
        case, which a kernel of differences does not see); or "relevance",
        "posterior_mean", or this after ``linear_``, ``curved_`` or ``joint_``, learnt from the table: see
        `estimators.summaries`.
    parameter_bandwidth : float, optional
        Of the kernel on the parameters in which weights are projected onto the simplex, in standard
        deviations of each parameter over the table; the median heuristic where left out.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range and tables of one row; by `condition`, for observations with
        another number of statistics or infinite ones.
    MemoryError
        By `fit`, where an exact solver would need more than there is.

    Notes
    -----
    w = (G + n lambda I)^-1 k(x), eq. 1 of the localised draft; `centred`, the same with centred kernels,
    and what the weights lack of one in equal parts. Bandwidth and ridge are chosen on at most 1000
    rows by the leave-one-out error in closed form. Under another prior, whose density ratio r is given
    to `fit`, w = D^(1/2) (D^(1/2) G D^(1/2) + lambda I)^-1 D^(1/2) k(x) with D = diag(r / n), Algorithm 1
    of Xu 2022.

    References
    ----------
    .. [1] L. Song, K. Fukumizu, A. Gretton, Kernel embeddings of conditional distributions, IEEE
       Signal Processing Magazine 30 (2013), 98-111.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(300, 1))
    >>> posterior = ConditionalMean(2.0, 1e-3).fit(theta, theta + rng.normal(size=(300, 1))).condition([1.0])
    >>> second_moment = posterior.expectation(lambda points: points[:, 0] ** 2)  # exact: 0.75
    >>> bool(abs(second_moment - 0.75) < 0.2)
    True
    """

    rule = ImportanceWeighted()

    def __init__(
        self,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        kernel: str | Kernel = "gaussian",
        solver: str | Solver = "auto",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.kernel = kernel
        self.solver = solver
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth


# --- conditional means on the nearest rows ---


class Localised(RuleEstimator):
    """`ConditionalMean` on the m rows nearest to the observation.

    Parameters
    ----------
    neighbours : int, optional
        m; 500, or all rows where there are fewer.
    bandwidth, regularisation, kernel, centred, scale, parameter_bandwidth
        As in `ConditionalMean`; lambda is that of m rows, and `centred` is about the means of the
        nearest rows.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range.

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
    ) -> None:
        self.neighbours = neighbours
        self.bandwidth = bandwidth
        self.regularisation = regularisation
        self.kernel = kernel
        self.centred = centred
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

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
        self._regressions = LocalRegressions(self.kernel_, self._ridge, self.neighbours_, self.centred)
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


# --- kernel Bayes' rules ---


class KernelBayes(WithPrior):
    """Fukumizu's kernel Bayes' rule: two regressions, with signed weights of the prior.

    Parameters
    ----------
    prior, prior_regularisation, parameter_kernel, parameter_bandwidth
        See `WithPrior`.
    bandwidth, kernel, solver, centred, scale
        See `WithPrior`; "auto" is exact up to 4,000 rows, and incomplete Cholesky above.
    regularisation : float, optional
        delta. Where left out, that with as many degrees of freedom as the best regression weighted with
        the positive part of the prior's weights has: of an eigenvalue a of D G the rule keeps a^2 /
        (a^2 + delta), that regression a / (a + lambda).

    atoms : {"table", "prior"}
        Which points carry the posterior's weights: the table's parameters, or the prior's draws, by the chain
        rule. The latter are where the prior has its mass, also where that lies between the table's rows;
        they need n x l numbers for l draws.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range, and for `atoms` of the prior without its draws.
    MemoryError
        By `fit`, where the rule on the prior's draws would need more than there is.

    Notes
    -----
    w = D G ((D G)^2 + delta I)^-1 D k(x) with D = diag(gamma), gamma = (G_theta + n eta I)^-1 g_prior of sum
    about one: eq. 11 to 13 of Fukumizu 2013, where the weights sum to n and delta is n^2 times as
    large. On the prior's draws the weights are Omega' ((G D)^2 + delta I)^-1 G D k(x), where Omega is the
    joint weights of `chain_rule`, and D their row sums; `centred`, plus the prior's own weights times one
    minus the sum of these.

    `centred`, the default, is as in `ImportanceWeightedKernelBayes`.

    References
    ----------
    .. [1] K. Fukumizu, L. Song, A. Gretton, Kernel Bayes' rule, JMLR 14 (2013), 3753-3783.
    """

    rule = SquaredRule()

    def __init__(
        self,
        bandwidth: float | str | None = None,
        regularisation: float | None = None,
        *,
        prior: Any = None,
        prior_regularisation: float | None = None,
        atoms: str = "table",
        kernel: str | Kernel = "gaussian",
        solver: str | Solver = "auto",
        centred: bool = True,
        scale: bool | str | Summary = True,
        parameter_kernel: Kernel | None = None,
        parameter_bandwidth: float | None = None,
    ) -> None:
        super().__init__(
            bandwidth,
            regularisation,
            prior=prior,
            prior_regularisation=prior_regularisation,
            kernel=kernel,
            solver=solver,
            centred=centred,
            scale=scale,
            parameter_kernel=parameter_kernel,
            parameter_bandwidth=parameter_bandwidth,
        )
        self.atoms = atoms

    def _solver(self) -> Solver:
        # Exact up to 4,000 rows, where the complex factorisation takes some seconds.
        return Auto(memory=1.28e8) if self.solver == "auto" else super()._solver()

    @property
    def weighs_rows(self) -> bool:
        """Whether the weights are those of the table's rows."""
        return bool(self.atoms == "table")

    @property
    def needs_draws(self) -> bool:
        """Whether another prior must be known by draws."""
        return not self.weighs_rows

    def _check(self, n: int, streamed: bool) -> None:
        super()._check(n, streamed)
        if self.atoms not in ("table", "prior"):
            raise ValueError(f"atoms is {shown(self.atoms)}; it may be 'table' or 'prior'")
        if self.atoms == "prior" and streamed:
            raise ValueError(
                "atoms is 'prior', which needs the table in memory, and these rows are read a part at a "
                "time; load some of them (`stored.load(20_000)`), or take atoms='table'"
            )
        if self.atoms == "prior" and isinstance(self._solver(), Subsample | DivideAndConquer):
            raise ValueError(
                f"atoms is 'prior' and the solver {self.solver!r} divides the rows; take one that works on "
                "all of them, such as 'auto' or 'nystroem'"
            )

    def _prior_weights(self, rng: np.random.Generator) -> PriorWeights:
        if self.atoms == "table":
            return super()._prior_weights(rng)
        if self.table_.ratio is not None:
            raise ValueError(
                "atoms is 'prior' and `fit` was given a density ratio, which has no draws to carry the "
                "weights; give `prior`, draws of the other prior"
            )
        given = self._draws()
        n, draws = len(self.table_), len(self.table_ if given is None else given[0])
        needed, there = 16.0 * n * draws, physical_memory()
        if needed > 0.8 * there:
            raise MemoryError(
                f"the joint weights of {n} rows and {draws} draws of the prior need {needed / 1e9:.1f} GB "
                f"and this machine has {there / 1e9:.1f} GB; give fewer draws, or take atoms='table'"
            )
        return self._estimated_weights(given, rng)

    def _fit(self, rng: np.random.Generator) -> None:
        super()._fit(rng)
        if self.atoms == "table":
            return
        gram, prior = self._prior.gram, self._prior.prior
        assert gram is not None
        assert prior is not None
        assert self._prior.gamma is not None
        ridge = len(self.table_) * self._prior.settings["prior_regularisation"]
        joint = chain_rule(gram, prior, ridge, self.centred)
        # Rows outside of the support have no weight, as in the sum rule.
        joint[~self.table_.support.contains(self.table_.parameters)] = 0.0
        # The rows' weights that the rule was given are these row sums, over their total where `centred`.
        self._joint = joint / (joint.sum() if self.centred else 1.0)

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        if self.atoms == "table":
            return super()._row_weights(x)
        prior, operator = self._prior.prior, self._operator
        assert prior is not None
        assert isinstance(operator, SquaredOperator)
        weights = operator.dual_weights(x) @ self._joint
        if self.centred:
            own = prior.weights / prior.weights.sum()
            weights = weights + (1 - weights.sum(axis=1, keepdims=True)) * own
        return RowWeights(weights, points=prior.atoms.points)


# --- importance-weighted kernel Bayes' rule ---


class ImportanceWeightedKernelBayes(WithPrior):
    """Kernel ridge regression weighted with the ratio of the prior to the table's parameters.

    Parameters
    ----------
    prior, prior_regularisation, parameter_kernel, parameter_bandwidth
        See `WithPrior`.
    bandwidth, kernel, solver, centred, scale
        See `WithPrior`.
    regularisation : float, optional
        lambda.

    Raises
    ------
    ValueError
        By `fit`, for arguments out of range, and for a prior of other parameters than the table's.

    Notes
    -----
    Algorithm 1 of Xu 2022 [1]_, step by step in `embedding.rules.ImportanceWeighted`: gamma = (G_theta +
    n eta I)^-1 g_prior, D = diag(max(gamma, 0)), w = D^(1/2) (D^(1/2) G D^(1/2) + lambda I)^-1 D^(1/2) k(x).
    With gamma = 1 / n this is `ConditionalMean`. What is cut off is in `prior_negative_share_`.

    `centred`, the default, regularises the ratio towards one, divides gamma by its sum, and regresses
    features about the prior's embedding, so that without information in the statistics the posterior is
    the prior, with the mean of `shrunk_mean`; bandwidth and lambda have the smallest leave-one-out error,
    weighted with the ratio. With
    ``centred=False, scale=False, bandwidth="median"``, a `parameter_kernel` and both regularisations
    given it is the algorithm as published, in the scale of its authors' code: weights of sum one. The printed
    algorithm has weights of mean one, so that its lambda is `regularisation` times n.

    References
    ----------
    .. [1] L. Xu, Y. Chen, A. Doucet, A. Gretton, Importance weighting approach in kernel Bayes' rule,
       arXiv:2202.02474 (2022).
    """

    rule = ImportanceWeighted()
