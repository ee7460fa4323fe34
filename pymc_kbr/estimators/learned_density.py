"""An estimator whose fit is a density of the statistics given the parameters."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pymc_kbr.arrays.names import by_name, parameters_by_name
from pymc_kbr.arrays.refusals import generator_of
from pymc_kbr.arrays.simulated_region import SimulatedRegion
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.estimators.checks import check_scaled, impossible, warn_of_impossible, warn_of_standing_for
from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.checks import check_parameters
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.exact import FunctionOfParameters
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.refuted import refuted
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation
from pymc_kbr.posterior.doubt import PosteriorWarning


class LearnedDensity(Estimator):
    """What a `KernelLikelihood` says of statistics at given parameters: log densities, and draws."""

    simulated_range_: np.ndarray
    reads_missed = True
    """Whether a value that no simulation has, one step from a rare one of few values, is read as that one."""
    _evaluation: Evaluation

    @cached_property
    def simulated_region_(self) -> SimulatedRegion:
        """Which combinations within `simulated_range_` rows are near: all that `LearnedSimulator` takes."""
        return SimulatedRegion.of(self.table_.parameters)

    @property
    def parameters_size(self) -> int:
        """Number of parameters, p."""
        return self.simulated_range_.shape[1]

    @property
    def statistics_size(self) -> int:
        """Number of statistics, d."""
        return self.table_.scaler.size

    def fit_table(self, table: FittedTable, rng: np.random.Generator) -> Self:
        """As every estimator's; what is refused by its column is named.

        Parameters
        ----------
        table : FittedTable
        rng : numpy.random.Generator

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError, MemoryError
            As `Estimator.fit_table`, and if a statistic is an exact function of the parameters.
        """
        self.__dict__.pop("simulated_region_", None)  # that of the fit before
        try:
            return super().fit_table(table, rng)
        except FunctionOfParameters as error:
            # Columns of a summary are no statistics of the table.
            own = (
                self.names_.statistics if isinstance(self.scale, bool) or self.scale == "dependent" else None
            )
            raise FunctionOfParameters(error.column, None if own is None else own[error.column]) from None

    def warn_if_refuted(self, variable: str) -> None:
        """Say of a variable of a model where held-out rows are not distributed as its likelihood says.

        Parameters
        ----------
        variable : str
            Its name, or names, in quotes.

        Warns
        -----
        PosteriorWarning
            That names the statistic which is worst, and says what to do.
        """
        column, names = getattr(self, "transforms_worst_", None), self.names_.statistics
        worst = None if column is None else f"column {column}" if names is None else repr(names[column])
        message = refuted(getattr(self, "transforms_pvalue_", 1.0), worst, f" of {variable}")
        if message is not None:
            warnings.warn(message, PosteriorWarning, stacklevel=users_line())

    def prepare(self, observed: ArrayLike) -> Prepared:
        """Observations in the units of the fit, for `log_density`.

        Parameters
        ----------
        observed : ndarray of shape (n, d) or (d,)

        Returns
        -------
        Prepared

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, or they are no observations of its statistics.

        Warns
        -----
        PosteriorWarning
            If a statistic is the same in all simulations and another in the observation, or a value that no
            simulation has is read as a rare one beside it, one step away on a lattice of two to five values.
        """
        return self._prepare(self._possible(self._trials(observed)))

    def _prepare(self, rows: np.ndarray, *, conditioned: bool = False) -> Prepared:
        """Observations (n, d) in the units of the fit; of no volume, hence no density, where impossible.

        To be conditioned on, values that a statistic of few values never has are refused.
        """
        prepared = self._evaluation.prepare(rows)
        unseen = np.flatnonzero(prepared.off())
        if conditioned and len(unseen):
            raise ImpossibleObservation(
                unseen,
                f"row {unseen[0]} of the observations, {rows[unseen[0]]}, has a value that a statistic of "
                "few values does not take in the table: the model does not make it; look at the data, "
                "or leave the statistic out",
            )
        off = np.any(impossible(rows, self.table_), axis=1, keepdims=True)
        return prepared._replace(log_volume=np.where(off, -np.inf, prepared.log_volume))

    def _trials(self, observed: ArrayLike) -> np.ndarray:
        """Independent observations (r, d), also of one number where there is one statistic."""
        self._refuse_unfitted()
        return self.read(np.atleast_1d(by_name(observed, self.names_.statistics))).rows

    def describe(self, parameters: Any, xp: Any = np) -> Any:
        """What of the density depends on the parameters alone.

        Parameters
        ----------
        parameters : ndarray or tensor of shape (k, p)
        xp : module
            `numpy`, or `pytensor.tensor` for tensors.

        Returns
        -------
        ndarray or tensor of shape (k, w)
            A row of w numbers for each, for `log_density`.
        """
        return self._evaluation.describe(parameters, xp)

    def log_density(self, described: Any, prepared: Prepared, xp: Any = np) -> Any:
        """Log densities of observations, each under parameters of its own.

        Parameters
        ----------
        described : ndarray or tensor of shape (n, w)
            What `describe` gives.
        prepared : Prepared
            n observations, as `prepare` gives them.
        xp : module
            `numpy`, or `pytensor.tensor` for tensors.

        Returns
        -------
        ndarray or tensor of shape (n,)
            In the statistics' own units.
        """
        return self._evaluation.log_density(described, prepared, xp)

    def log_likelihood(self, parameters: ArrayLike, observed: ArrayLike) -> np.ndarray:
        """Log-likelihood of one observation, or of the independent trials of one data set.

        Parameters
        ----------
        parameters : ndarray of shape (k, p)
            A data frame is put in the order of the table's names, where it has these.
        observed : ndarray of shape (d,) or (r, d)
            The log densities of r trials are summed.

        Returns
        -------
        ndarray of shape (k,)
            Densities are in the statistics' own units; of discrete ones they are probabilities. Beyond
            `simulated_range_` they are what the fitted formula says, which nothing supports. Minus infinity
            where a statistic is the same in all simulations and another in the observation, or where the
            probabilities of a statistic's few values were learnt and it has a value that no simulation has;
            but one step from a value of the lattice that few simulations have it has that one's probability,
            which is mostly too high for it.

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, parameters or observation have another shape or other names, or a value is
            not finite.

        Warns
        -----
        PosteriorWarning
            As `prepare`.
        """
        trials = self._possible(self._trials(observed))
        return self.log_likelihood_of(self._parameters(parameters), trials)

    def _parameters(self, parameters: ArrayLike) -> np.ndarray:
        """Parameters (k, p), a data frame's in the order of the table."""
        given = parameters_by_name(parameters, self.names_.parameters)
        return check_parameters(given, self.parameters_size)

    def log_likelihood_of(self, theta: np.ndarray, trials: np.ndarray) -> np.ndarray:
        """`log_likelihood` of what was checked before.

        Parameters
        ----------
        theta : ndarray of shape (k, p)
        trials : ndarray of shape (r, d)

        Returns
        -------
        ndarray of shape (k,)
        """
        if np.any(impossible(trials, self.table_)):
            return np.full(len(theta), -np.inf)
        return self.log_likelihoods(theta, trials).sum(axis=1)

    def log_likelihoods(self, parameters: ArrayLike, statistics: ArrayLike) -> np.ndarray:
        """Log-likelihoods of observations, each by itself.

        What is the same in every simulation counts for nothing here, whatever it is in an observation.

        Parameters
        ----------
        parameters : ndarray of shape (k, p)
            Data frames are put in order, both of them.
        statistics : ndarray of shape (n, d)

        Returns
        -------
        ndarray of shape (k, n)

        Raises
        ------
        TypeError, ValueError
            If the parameters have another shape, or are not finite.

        Warns
        -----
        PosteriorWarning
            If a value that no simulation has is read as a rare one beside it.
        """
        rows = by_name(statistics, self.names_.statistics, "the statistics")
        if rows.ndim != 2 or rows.shape[1] != self.statistics_size:
            raise ValueError(f"the statistics have shape {rows.shape}; give rows (n, {self.statistics_size})")
        described = self.describe(self._parameters(parameters))
        return self._evaluation.log_densities(described, self._evaluation.prepare(self._read(rows)))

    def draw_statistics(self, parameters: ArrayLike, rng: np.random.Generator | int | None = None) -> Any:
        """One draw of the statistics for each of the parameters.

        Parameters
        ----------
        parameters : ndarray of shape (k, p)
            A data frame is put in the order of the table's names, where it has these.
        rng : numpy.random.Generator or int, optional

        Returns
        -------
        ndarray of shape (k, d)

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, the parameters have another shape or are not finite, or `scale` is a summary
            from which there is no way back to statistics.
        """
        self._refuse_unfitted()
        return self._evaluation.draw(self._parameters(parameters), generator_of(rng, "rng"))

    def _possible(self, rows: np.ndarray) -> np.ndarray:
        """Observations (k, d) as `_read`, warned of where the model cannot make them."""
        warn_of_impossible(rows, self.table_, self.names_)
        return self._read(rows)

    def _read(self, rows: np.ndarray) -> np.ndarray:
        """Observations (k, d), a value that no simulation has read as a rare one beside it, warned of."""
        if not self.reads_missed:
            return rows
        read, found = self._evaluation.standing_for(rows)
        warn_of_standing_for(found, self.names_)
        return read

    def _near(self, rows: np.ndarray) -> np.ndarray:
        """Observations (k, d) as `_possible`, refused where squares of their distances overflow."""
        read = self._possible(rows)
        check_scaled(self.table_.scaler.transform(read), read)
        return read
