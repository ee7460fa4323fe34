"""The learned likelihood: the statistics' conditional density given the parameters, times any prior."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.observations import trials_of
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.checks import beyond
from pymc_kbr.estimators.estimator import LogDensity
from pymc_kbr.estimators.learned_density import LearnedDensity
from pymc_kbr.estimators.likelihood.checks import check_rows, check_settings, warn_unlike
from pymc_kbr.estimators.likelihood.choice import FORMS, Choice, choose_form, fit_chosen, forms_of, untied
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.free_density import free_log_density
from pymc_kbr.estimators.likelihood.marginal import integrated_out
from pymc_kbr.estimators.likelihood.parameter_scale import ParameterScale
from pymc_kbr.estimators.likelihood.posteriors import Start, drawn_posteriors, share_beyond, weighted_rows
from pymc_kbr.estimators.likelihood.prior_density import fit_prior_density, start_rows
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.estimators.row_weights import RowWeights
from pymc_kbr.estimators.summaries import Dependent, Summary, Transformed
from pymc_kbr.posterior.posterior import Posterior

PARTICLES_FOR_SCORES = 200
"""Draws of each of many posteriors that are only compared."""


class KernelLikelihood(LearnedDensity):
    """The density of the statistics given the parameters, learnt from the table, times the prior.

    Parameters
    ----------
    form : str
        "location_scale", "autoregressive", "diagonal_scale" (for many statistics), "exchangeable" (for
        statistics that are independent draws of one law, in any order or sorted), or "auto": that of the
        first two, or of many statistics the third, under which held-out rows are denser; the second where
        a statistic has two to five values, whose probabilities it has, and there are twenty at most.
    particles : int
        Draws of a posterior that `condition` makes; further ones repeat these, moved a little. `sample_abc`
        takes as many as draws are asked for, where these are more.
    scale : bool, str or Summary
        True for the curve of each statistic that evidence is for, discrete ones spread over their cells;
        False for their own units; "dependent" for the curves of those that depend on the parameters, the
        others left out; or summaries of them, whose likelihood then is learnt. The form
        "exchangeable" has one unit for all, and takes True alone.
    parameter_bandwidth : float, optional
        As of the other estimators; weights here need no projection.

    Attributes
    ----------
    choice_ : Choice
        Which form was taken, and how held-out rows are distributed under it.
    statistics_left_out_ : int
        With ``scale="dependent"``, how many are constant or found to be independent of the parameters.
    simulated_range_ : ndarray of shape (2, p)
        Lowest and highest parameters of the table: beyond, nothing was learnt.

    Raises
    ------
    ValueError
        For arguments out of range, and before `fit`; by `fit`, for too few rows.

    Notes
    -----
    A form is a file of `pymc_kbr.estimators.likelihood`. Posteriors are drawn by tempered sequential Monte
    Carlo; where a parameter is discrete with few values, or has values with a probability of their own, rows
    are weighted by their likelihood.

    Examples
    --------
    >>> theta, noise = np.random.default_rng(0).normal(size=(2, 500, 1))
    >>> learnt = KernelLikelihood("location_scale").fit(theta, theta + noise)
    >>> trials = np.array([[0.4], [1.6], [1.0]])  # their exact posterior has mean 0.75, deviation 0.5
    >>> abs(learnt.condition(trials, trials=True).mean()[0] - 0.75) < 0.15
    np.True_
    """

    smoothing = "repeats"
    takes_draws = draws_as_asked = multiplies_prior = True
    _to_be_compared = tries_all = False
    settled: Choice | None = None

    def __init__(
        self,
        form: str = "auto",
        particles: int = 4000,
        *,
        scale: bool | str | Summary = True,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.form = form
        self.particles = particles
        self.scale = scale
        self.parameter_bandwidth = parameter_bandwidth

    def scale_of_statistics(self) -> bool | str | Summary:
        """How the table's statistics are scaled.

        Returns
        -------
        bool, str or Summary
            The argument `scale`; for True "transformed", or "common" for the form "exchangeable".
        """
        if self.scale is not True:
            return self.scale
        exchangeable = isinstance(self.form, str) and self.form == "exchangeable"
        return "common" if exchangeable else "transformed"

    def _check(self, n: int, streamed: bool) -> None:
        check_settings(self.particles, self.form, tuple(FORMS), self.scale)

    _log_mass = 0.0  # which what was saved by 0.2.0.dev0 lacks

    def _fit(self, rng: np.random.Generator) -> None:
        table = self.table_
        of_parameters = ParameterScale.fit(table.parameters, table.support)
        theta, points = of_parameters(table.parameters), table.statistics
        scaler, fitted = table.scaler, table.scaler.kept
        if isinstance(table.scaler, Dependent):
            scaler, fitted = table.scaler.curved, table.scaler.fitted
            self.statistics_left_out_ = int(np.sum(~fitted))
        points, levels = untied(scaler, points, self.form, rng)
        few, known, every = self._to_be_compared, self.settled, self.tries_all
        self.settled = None  # for one fit
        check_rows(theta, points, fitted, draws=self.form == "exchangeable", seen=known is not None)
        names = forms_of(points.shape[1], levels) if self.form == "auto" else [self.form]
        self.choice_ = known or choose_form(theta, points, names, rng, levels, sparingly=few, every=every)
        self.form_ = self.choice_.form if few else fit_chosen(self.choice_, theta, points, rng, levels)
        self.transforms_pvalue_ = self.choice_.pvalue
        raw = isinstance(self.form_, Exchangeable) and not self.form_.in_order
        if isinstance(self.form_, Exchangeable) and not few:
            warn_unlike(points, theta)
        # Of raw draws the transforms are those of their order, which are no columns.
        if isinstance(scaler, Scaler | Transformed) and not raw:
            self.transforms_worst_ = int(np.flatnonzero(fitted)[self.choice_.worst])
        self.simulated_range_ = np.array([table.parameters.min(axis=0), table.parameters.max(axis=0)])
        outcome = None if table.success is None or table.success.condition else table.success
        self._evaluation = Evaluation(self.form_, of_parameters, table.scaler, outcome)
        self._start(rng)

    def _start(self, rng: np.random.Generator) -> None:
        """The prior, and rows with log weights that make them draws of it."""
        self._rows, self._log_weights, self._log_mass = start_rows(self.table_)
        self._seed = int(rng.integers(2**63))  # conditioning again draws the same
        self.prior_estimated_ = float(self._given_log_prior is None)
        self.__dict__.pop("log_prior_", None)  # that of the fit before
        if self._given_log_prior is not None:
            self.log_prior_ = self._given_log_prior
        self._described = self._evaluation.describe(self._rows)

    @property
    def weighs_rows(self) -> bool:
        """Whether the weights are those of the table's rows."""
        return getattr(self, "table_", None) is None or self.table_.draws is None

    def for_scores(self) -> Self:
        """What stands for this estimator where posteriors are only compared.

        Returns
        -------
        KernelLikelihood
            A copy that makes few draws of each; if not fitted yet, it is fitted to fewer rows.
        """
        few: Self = copy(self) if hasattr(self, "table_") else clone(self)
        few.particles, few._to_be_compared = min(self.particles, PARTICLES_FOR_SCORES), True
        return few

    def for_draws(self, count: int) -> Self:
        """The fitted estimator with as many particles as draws are wanted, so that none is made twice.

        Parameters
        ----------
        count : int

        Returns
        -------
        KernelLikelihood
            A copy.
        """
        more = copy(self)
        more.particles = max(self.particles, count)
        return more

    def with_seed(self, rng: np.random.Generator) -> Self:
        """The fitted estimator whose posteriors are made of other draws.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        KernelLikelihood
            A copy.
        """
        other = copy(self)
        other._seed = int(rng.integers(2**63))
        return other

    def under(self, log_prior: LogDensity | None) -> Self:
        """The fitted estimator with the prior's log density in place of the estimated one.

        Parameters
        ----------
        log_prior : callable or None
            From parameters (n, p) to log densities (n,); None where it is not known.

        Returns
        -------
        KernelLikelihood
            A copy; itself for None.
        """
        if log_prior is None:
            return self
        exact = copy(self)
        exact.log_prior_, exact.prior_estimated_ = log_prior, 0.0
        return exact

    def marginal(self, columns: np.ndarray) -> Self | None:
        """The fitted likelihood of some statistics, the others integrated out.

        Parameters
        ----------
        columns : ndarray of int, shape (m,)
            Numbers of the statistics that are kept.

        Returns
        -------
        KernelLikelihood or None
            None where the form does not allow it, or none of those kept varies.
        """
        if (found := integrated_out(self._evaluation, columns)) is None:
            return None
        alone = copy(self)
        alone._evaluation, alone.form_ = found, found.form
        alone._described = found.describe(self._rows)  # a form of fewer statistics may describe less
        alone.table_ = self.table_.of_columns(columns, found.of_statistics)
        alone.names_ = self.names_.of_statistics(columns)
        alone.__dict__.pop("transforms_worst_", None)  # a number among all
        return alone

    @cached_property
    def log_prior_(self) -> LogDensity:
        """Log density of the prior: estimated from the draws, or rows, that stand for it, unless given."""
        rng, table = np.random.default_rng(self._seed), self.table_
        points, logs, success = self._rows, self._log_weights, table.success
        if success is not None and success.draws is not None and table.draws is None:
            points, weights = success.draws  # rows are few where simulations fail
            # Of whole numbers those at which all failed may be none of the rows'.
            kept = (weights > 0) & table.support.contains(points)
            points, weights = points[kept], weights[kept]
            logs = None if np.ptp(weights) == 0 else np.log(weights)
        return fit_prior_density(points, table.support, rng, log_weights=logs).log_density

    def _within(self, log_prior: LogDensity) -> LogDensity:
        """The prior where there are simulations that succeeded, if that is a condition on the data."""
        success = self.table_.success
        if success is None or success.constant or not success.condition:
            return log_prior
        return lambda theta: np.where(success.reached(theta), log_prior(theta), -np.inf)

    def condition(self, observed: Any, *, trials: bool = False) -> Any:
        """The posterior given an observation, or given the independent trials of a data set.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d), NaN where missing; with `trials` (r, d), or a list of such
        trials : bool
            Whether rows are independent trials under the same parameters, whose likelihoods multiply, and
            not observations of their own. Data sets in a list may differ in their number r.

        Returns
        -------
        Posterior or list of Posterior
            `settings` holds `log_evidence`, the log density of the data under the rows' prior, with the
            probability of success unless that is a condition, of a table in rounds within its region alone
            (``scale="dependent"``: of those not left out; of a value read as
            a rare one, of that one), and `share_beyond_rows`, the posterior's beyond `simulated_range_`.

        Raises
        ------
        TypeError, ValueError
            As `Estimator.condition`, and if trials are not of shape (r, d) or have gaps.
        """
        if not trials:
            return super().condition(observed)
        self._refuse_unfitted()
        sets, single = trials_of(observed, self.statistics_size, self.names_.statistics)
        with self._threads():
            posteriors = self._posteriors([self._prepare(self._near(x), conditioned=True) for x in sets])
        return posteriors[0] if single else posteriors

    def _prepared(self, rows: np.ndarray) -> Sequence[Prepared]:
        """Complete observations (k, d), each by itself, in the units of the fit."""
        try:
            near = self._near(rows)
        except ValueError as error:  # others of them may be possible, for who compares models
            read = self._evaluation.standing_for(rows)[0] if self.reads_missed else rows
            raise ImpossibleObservation(beyond(self.table_.scaler, read), str(error)) from None
        return self._prepare(near, conditioned=True).each()

    def _beginning(self) -> Start:
        return Start(self._rows, self._described, self._log_weights, self._seed, self._log_mass)

    def _posteriors(self, prepared: Sequence[Prepared]) -> list[Posterior]:
        start = self._beginning()
        support, settings, seen = self.table_.support, self.settings(), self.simulated_range_
        if not all(block.smooth and not any(block.atoms) for block in support.blocks):
            # Which particles cannot move in.
            weighted = weighted_rows(self._evaluation, start, prepared)
            drawn, smoothing = [(start.rows, weights, more) for weights, more in weighted], "local"
        else:
            free = free_log_density(support, self._within(self.log_prior_))
            made = drawn_posteriors(self._evaluation, start, prepared, support, free, self.particles)
            equal, smoothing = np.full(self.particles, 1 / self.particles), self.smoothing
            drawn = [(atoms, equal, more) for atoms, more in made]
        kernel, names = self.parameter_kernel_, self.names_.parameters
        found = []
        for atoms, weights, more in drawn:
            told = {**settings, **more, "share_beyond_rows": share_beyond(seen, atoms, weights)}
            found.append(Posterior.of(Atoms(atoms, kernel), weights, support, told, smoothing, names))
        return found

    def _row_weights(self, x: Any) -> RowWeights:
        values = [weights for weights, _ in weighted_rows(self._evaluation, self._beginning(), x)]
        return RowWeights(np.stack(values), points=None if self.table_.draws is None else self._rows)
