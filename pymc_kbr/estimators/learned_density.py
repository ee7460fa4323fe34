"""An estimator whose fit is a density of the statistics given the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pymc_kbr.arrays.names import by_name
from pymc_kbr.estimators.checks import check_scaled, impossible, warn_of_impossible
from pymc_kbr.estimators.estimator import Estimator
from pymc_kbr.estimators.likelihood.checks import check_parameters
from pymc_kbr.estimators.likelihood.evaluation import Evaluation
from pymc_kbr.estimators.likelihood.form import Prepared


class LearnedDensity(Estimator):
    """What a `KernelLikelihood` says of statistics at given parameters: log densities, and draws."""

    simulated_range_: np.ndarray
    _evaluation: Evaluation

    @property
    def parameters_size(self) -> int:
        """Number of parameters, p."""
        return self.simulated_range_.shape[1]

    @property
    def statistics_size(self) -> int:
        """Number of statistics, d."""
        return self.table_.scaler.size

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
            If a statistic is the same in all simulations and another in the observation.
        """
        return self._evaluation.prepare(self._possible(self._trials(observed)))

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
        observed : ndarray of shape (d,) or (r, d)
            The log densities of r trials are summed.

        Returns
        -------
        ndarray of shape (k,)
            Densities are in the statistics' own units; of discrete ones they are probabilities. Beyond
            `simulated_range_` they are what the fitted formula says, which nothing supports. Minus infinity
            where a statistic is the same in all simulations and another in the observation, or where the
            probabilities of a statistic's few values were learnt and it has a value that no simulation has.

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, parameters or observation have another shape, or a value is not finite.
        """
        trials = self._possible(self._trials(observed))
        return self.log_likelihood_of(check_parameters(parameters, self.parameters_size), trials)

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

    def log_likelihoods(self, parameters: ArrayLike, statistics: np.ndarray) -> np.ndarray:
        """Log-likelihoods of observations, each by itself.

        Parameters
        ----------
        parameters : ndarray of shape (k, p)
        statistics : ndarray of shape (n, d)

        Returns
        -------
        ndarray of shape (k, n)

        Raises
        ------
        TypeError, ValueError
            If the parameters have another shape, or are not finite.
        """
        theta = check_parameters(parameters, self.parameters_size)
        return self._evaluation.log_densities(self.describe(theta), self._evaluation.prepare(statistics))

    def draw_statistics(self, parameters: np.ndarray, rng: np.random.Generator | int | None = None) -> Any:
        """One draw of the statistics for each of the parameters.

        Parameters
        ----------
        parameters : ndarray of shape (k, p)
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
        theta = check_parameters(parameters, self.parameters_size)
        return self._evaluation.draw(theta, np.random.default_rng(rng))

    def _possible(self, rows: np.ndarray) -> np.ndarray:
        """Observations (k, d), warned of where the model cannot make them."""
        warn_of_impossible(rows, self.table_, self.names_.statistics)
        return rows

    def _near(self, rows: np.ndarray) -> np.ndarray:
        """Observations (k, d) as `_possible`, refused where squares of their distances overflow."""
        check_scaled(self.table_.scaler.transform(self._possible(rows)), rows)
        return rows
