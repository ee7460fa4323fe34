"""Kernel Bayes' rule."""

from __future__ import annotations

from typing import Any

import numpy as np

from pymc_kbr.arrays.chunks import physical_memory
from pymc_kbr.arrays.refusals import shown
from pymc_kbr.embedding.rules import ImportanceWeighted, SquaredRule, chain_rule
from pymc_kbr.estimators.prior_weights import PriorWeights
from pymc_kbr.estimators.row_weights import RowWeights
from pymc_kbr.estimators.rule_estimator import WithPrior
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.gram import Auto, DivideAndConquer, Solver, Subsample
from pymc_kbr.gram.gram import SquaredOperator
from pymc_kbr.kernels import Kernel


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
