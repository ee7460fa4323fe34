"""What all estimators share: checks at the door, one scale for the statistics, posteriors at the end."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pymc_kbr.arrays.chunks import RowSource
from pymc_kbr.arrays.names import Names, Table
from pymc_kbr.arrays.observations import Observations
from pymc_kbr.arrays.refusals import positive
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.checks import check_scaled, warn_of_impossible, warn_of_rows
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.given import Given
from pymc_kbr.estimators.missing import posteriors_by_rest
from pymc_kbr.estimators.prior_weights import check_prior
from pymc_kbr.estimators.row_weights import RowWeights
from pymc_kbr.estimators.summaries import Summary, check_scale
from pymc_kbr.kernels import Kernel, parameter_kernel
from pymc_kbr.posterior.posterior import Posterior

LogDensity = Callable[[np.ndarray], np.ndarray]
"""From points (n, p) to log densities (n,)."""


class Estimator(BaseEstimator):
    """A posterior estimator on a reference table.

    A subclass stores its arguments in its constructor (among them `scale` and `parameter_bandwidth`), checks
    them in `_check`, computes in `_fit` what does not depend on an observation, from the frozen `table_`,
    and gives the weights of scaled observations in `_row_weights`, which changes nothing. Where it
    `streams`, the table may be one that is read a part at a time; it `picks` where its weights then are
    those of few rows. One that `takes_draws` has its own use of a prior that is known by draws; others get
    the density ratio. One that `multiplies_prior` works with the prior's density, not with its rows alone.
    One with `draws_as_asked` makes as many draws as `for_draws` asks for, and repeats none.
    """

    scale: bool | str | Summary
    parameter_bandwidth: float | None
    smoothing = "local"
    streams = False
    picks = False
    takes_draws = False
    multiplies_prior = False
    draws_as_asked = False
    _given_log_prior: LogDensity | None = None
    selection_: Any = None
    names_: Names = Names()
    fitted_rows_: int

    def fit(
        self,
        parameters: ArrayLike | RowSource | Table,
        statistics: ArrayLike | RowSource | None = None,
        support: Support | None = None,
        *,
        ratio: np.ndarray | None = None,
        prior: Any = None,
        log_prior: LogDensity | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Self:
        """Fit the estimator to a reference table.

        Parameters
        ----------
        parameters : ndarray of shape (n, p), or ReferenceTable or StoredTable
            A table brings all that follows it, but its observation: support, names, and its `prior_ratio`.
        statistics : ndarray of shape (n, d)
            Either may also be an array of Zarr or Dask, or a side of a `StoredTable`: it is then read a part
            at a time, by the estimators that work so. Data frames bring the names of their columns.
        support : Support, optional
            The prior's support, used by `Posterior.draw`; the table's, or unbounded, where left out.
        ratio : ndarray of shape (n,), optional
            The density of another prior over that of the table's, at each row and up to a constant:
            the posterior is then that under the other prior. Rows where it is zero are left out.
        prior : ndarray of shape (l, p), or pair of such and of weights of shape (l,), optional
            The other prior by draws, where its density is not known.
        log_prior : callable, optional
            From parameters (n, p) to log densities (n,) of the prior, the other one where there is one: for
            estimators that multiply with it, which else estimate it from `prior` or from the rows.
        random_seed : int or numpy.random.Generator, optional
            For solvers that draw at random.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If the arrays do not fit together, hold less than two rows or values that are not finite, if all
            statistics are constant, the prior is one point or beyond all rows, or an argument out of range.
        """
        rng = np.random.default_rng(random_seed)
        given = Given.of(parameters, statistics, support, ratio, prior, self)
        if log_prior is not None and not self.multiplies_prior:
            raise ValueError(f"{type(self).__name__} has the prior in its rows; leave `log_prior` out")
        self._given_log_prior, self.names_, self.selection_ = log_prior, given.names, None
        table = given.tabulated(self, rng)
        warn_of_rows(table)
        return self.fit_table(table, rng)

    def fit_table(self, table: FittedTable, rng: np.random.Generator) -> Self:
        """Fit to a table that is scaled already, which several estimators can share."""
        self.check(len(table), streamed=table.streamed)
        if table.draws is not None:
            check_prior(*table.draws, table.parameters)
        for name in Estimator.settings(self):
            self.__dict__.pop(f"{name}_")  # numbers of a fit before, which this one may not have
        self.table_ = table
        if table.ratio is not None:
            # Kish's: how many rows of equal weight have a mean as certain.
            self.ratio_effective_sample_size_ = float(table.ratio.sum() ** 2 / np.sum(table.ratio**2))
        self.parameter_kernel_ = self._parameter_kernel()
        self._fit(rng)
        return self

    def chosen_by(self, selection: Any, fitted_rows: int) -> Self:
        """The fitted estimator with the choice that led to it, and the number of rows it was fitted to."""
        noted = copy(self)  # a fitted estimator is a value, which others may hold
        noted.selection_, noted.fitted_rows_ = selection, fitted_rows
        return noted

    def named(self, table: Table) -> Self:
        """The fitted estimator with the names of the table that it was fitted to."""
        noted = copy(self)
        noted.names_ = Names.of_table(table)
        return noted

    def for_scores(self) -> Self:
        """What stands for this estimator, not fitted yet, where posteriors are only compared: itself."""
        return self

    def for_draws(self, count: int) -> Self:
        """The fitted estimator for posteriors of which so many draws are wanted: itself."""
        return self

    def under(self, log_prior: LogDensity | None) -> Self:
        """The fitted estimator with the prior's log density, where that is known: itself."""
        return self

    def check(self, n: int, *, streamed: bool = False) -> None:
        """Refuse arguments that are out of range for a table of n rows, before the table is made.

        Parameters
        ----------
        n : int
        streamed : bool
            Whether the rows are read a part at a time.

        Raises
        ------
        TypeError, ValueError
            What was given and what is allowed.
        MemoryError
            If n rows do not fit the estimator's memory.
        """
        check_scale(self.scale_of_statistics())
        if self.parameter_bandwidth is not None:
            positive("parameter_bandwidth", self.parameter_bandwidth)
        self._check(n, streamed)

    def weights(self, observed: ArrayLike) -> np.ndarray:
        """The weights of the fitted rows, of either sign.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)

        Returns
        -------
        ndarray of shape (n,) or (k, n)
            Of the prior's l draws in place of n rows, where the estimator weights these.
        """
        given = self.read(observed)
        x, table = self._prepared(given.rows), self.table_
        found = self._row_weights(x)
        weights = found.values if found.points is not None else found.over(table.size, table.rows)
        return weights[0] if given.single else weights

    def condition(self, observed: ArrayLike) -> Any:
        """The posterior given an observation; the estimator stays as it is.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)
            A Series or a data frame of pandas is put in the order of the table's names, where it has these.
            Where statistics are missing (NaN), the estimator is fitted anew to the others.

        Returns
        -------
        Posterior or list of Posterior
            A list of k for k observations. `Posterior.statistics` names those used where some were missing.

        Warns
        -----
        PosteriorWarning
            If a statistic is the same in all simulations and another in the observation.
        """
        posteriors = self.posteriors(given := self.read(observed, gaps=True))
        return posteriors[0] if given.single else posteriors

    def posteriors(self, given: Observations) -> list[Posterior]:
        """The posteriors of observations that `read` has checked, one each."""
        if given.incomplete:
            return posteriors_by_rest(self, given)
        return self._posteriors(self._prepared(given.rows))

    def read(self, observed: ArrayLike, *, gaps: bool = False) -> Observations:
        """What a user gave as observations, checked and in the table's order; with gaps where allowed."""
        self._refuse_unfitted()
        return Observations.of(observed, self.table_.scaler.size, self.names_.statistics, gaps=gaps)

    @property
    def weighs_rows(self) -> bool:
        """Whether the weights are those of the table's rows, and not of other points."""
        return True

    @property
    def needs_draws(self) -> bool:
        """Whether another prior must be known by draws, since these carry the weights."""
        return False

    def settings(self) -> dict[str, float]:
        """The numbers that were given or chosen: fitted attributes such as `bandwidth_`."""
        return {
            name.removesuffix("_"): float(value)
            for name, value in vars(self).items()
            if name.endswith("_")
            and name != "fitted_rows_"
            and not name.startswith("_")
            and isinstance(value, int | float | np.number)
        }

    def _atoms(self, x: np.ndarray, found: RowWeights) -> list[Atoms]:
        """The atoms of observations x (k, d): the parameters of the rows that carry weight."""
        points, places = found.points, None
        if points is None:
            points, places = self.table_.read_parameters(found.rows)
        kernel = self.parameter_kernel_
        if places is None:
            return [Atoms(points, kernel)] * len(x)
        return [Atoms(points[at], kernel) for at in places]

    def scale_of_statistics(self) -> bool | str | Summary:
        """How the table's statistics are scaled: `scale`, of the estimator that gives the weights."""
        return self.scale

    def _parameter_kernel(self) -> Kernel:
        """The kernel on parameters in which the posterior is embedded."""
        # Distances between some rows will do; deviations are those of all, also of rows on the disk.
        return parameter_kernel(self.table_.tuning[1], self.parameter_bandwidth, self.table_.deviation)

    def refuse_unless_it_streams(self) -> None:
        """Refuse rows that are read a part at a time where all are needed in memory."""
        if not self.streams:
            raise TypeError(
                f"{type(self).__name__} works on tables in memory, and these rows are read a part at a time; "
                "load them or some of them (`stored.load(20_000)`), or take Localised, ConditionalMean, "
                "NadarayaWatson or Rejection"
            )

    def _refuse_unfitted(self) -> None:
        if not hasattr(self, "table_"):
            raise ValueError(f"this {type(self).__name__} is not fitted; call `fit` first")

    def _prepared(self, rows: np.ndarray) -> Any:
        """Complete observations (k, d) as `_row_weights` takes them: in the scale of the table."""
        warn_of_impossible(rows, self.table_, self.names_.statistics)
        scaled = self.table_.scaler.transform(rows)
        check_scaled(scaled, rows)
        return scaled

    def _posteriors(self, x: Any) -> list[Posterior]:
        found = self._row_weights(x)
        settings = {**self.settings(), **found.settings}
        return [
            Posterior.of(atoms, values, self.table_.support, settings, self.smoothing, self.names_.parameters)
            for atoms, values in zip(self._atoms(x, found), found.values, strict=True)
        ]

    @abstractmethod
    def _check(self, n: int, streamed: bool) -> None:
        """Raise ValueError or TypeError where an argument is out of range for n rows."""

    @abstractmethod
    def _fit(self, rng: np.random.Generator) -> None:
        """Compute from `table_` what does not depend on an observation."""

    @abstractmethod
    def _row_weights(self, x: np.ndarray) -> RowWeights:
        """The weights for scaled observations (k, q)."""
