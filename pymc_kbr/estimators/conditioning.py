"""From an observation to its posterior, by an estimator that is fitted."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pymc_kbr.arrays.blas import one_blas_thread
from pymc_kbr.arrays.names import Names
from pymc_kbr.arrays.observations import Observations
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.checks import check_scaled, warn_of_impossible
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.missing import posteriors_by_rest
from pymc_kbr.estimators.row_weights import RowWeights
from pymc_kbr.kernels import Kernel
from pymc_kbr.posterior.posterior import Posterior


class Conditioning:
    """What an `Estimator` does once it is fitted, which changes nothing in it."""

    smoothing = "local"
    on_all_threads = False
    moves_atoms = False
    """Whether atoms are others than rows, or draws of the prior, which have mass under it."""

    names_: Names = Names()
    table_: FittedTable
    parameter_kernel_: Kernel

    def weights(self, observed: ArrayLike) -> np.ndarray:
        """The weights of the fitted rows, of either sign.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)

        Returns
        -------
        ndarray of shape (n,) or (k, n)
            Of the prior's l draws in place of n rows, where the estimator weights these.

        Raises
        ------
        TypeError, ValueError
            As `condition`, and if a statistic is missing.
        """
        given = self.read(observed)
        x, table = self._prepared(given.rows), self.table_
        with self._threads():
            found = self._row_weights(x)
        weights = found.values if found.points is not None else found.over(table.size, table.rows)
        return weights[0] if given.single else weights

    def condition(self, observed: ArrayLike) -> Any:
        """The posterior given an observation; the estimator stays as it is.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)
            What is labelled (Series, data frames, arrays of xarray, dicts) is put in the order of the table's
            names, where it has these. Masked entries are missing. Where statistics are missing (NaN), the
            estimator is fitted anew to the others.

        Returns
        -------
        Posterior or list of Posterior
            A list of k for k observations. `Posterior.statistics` names those used where some were missing.

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, the observation has another shape or other names than the table, is infinite
            or missing throughout, or so far off that no distance can be measured; and where statistics are
            missing, if the table was read a part at a time or its summaries need all of them.

        Warns
        -----
        PosteriorWarning
            If a statistic is the same in all simulations and another in the observation.
        """
        posteriors = self.posteriors(given := self.read(observed, gaps=True))
        return posteriors[0] if given.single else posteriors

    def posteriors(self, given: Observations) -> list[Posterior]:
        """The posteriors of observations that were checked before.

        Parameters
        ----------
        given : Observations
            k of them, as `read` returns them.

        Returns
        -------
        list of Posterior, length k

        Raises
        ------
        ValueError
            If an observation is too far off, or has gaps that no fit can be made for: see `condition`.
        """
        with self._threads():
            if given.incomplete:
                return posteriors_by_rest(self, given)
            return self._posteriors(self._prepared(given.rows))

    def read(self, observed: ArrayLike, *, gaps: bool = False) -> Observations:
        """What a user gave as observations, checked and in the table's order.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d)
            Also a Series or a data frame.
        gaps : bool
            Whether statistics may be missing (NaN).

        Returns
        -------
        Observations

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, or they are no observations of the table's statistics: see `condition`.
        """
        self._refuse_unfitted()
        return Observations.of(observed, self.table_.scaler.size, self.names_.statistics, gaps=gaps)

    @property
    def weighs_rows(self) -> bool:
        """Whether the weights are those of the table's rows, and not of other points."""
        return True

    def settings(self) -> dict[str, float]:
        """The numbers that were given or chosen.

        Returns
        -------
        dict of str to float
            Fitted attributes such as `bandwidth_`, by their names without the underscore.
        """
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

    def _threads(self) -> AbstractContextManager[object]:
        """Within it the estimator computes."""
        # Sums that BLAS divides among threads are rounded as it divides them.
        return nullcontext() if self.on_all_threads else one_blas_thread()

    def _refuse_unfitted(self) -> None:
        if not hasattr(self, "table_"):
            raise ValueError(f"this {type(self).__name__} is not fitted; call `fit` first")

    def _prepared(self, rows: np.ndarray) -> Any:
        """Complete observations (k, d) as `_row_weights` takes them: in the scale of the table."""
        warn_of_impossible(rows, self.table_, self.names_)
        scaled = self.table_.scaler.transform(rows)
        check_scaled(scaled, rows)
        return scaled

    def _posteriors(self, x: Any) -> list[Posterior]:
        found = self._row_weights(x)
        settings = {**self.settings(), **found.settings}
        support, names = self.table_.support, self.names_.parameters
        posteriors = []
        for atoms, values in zip(self._atoms(x, found), found.values, strict=True):
            told = settings
            if self.moves_atoms and support.inside is not None:
                atoms, values, share = _with_mass(support, atoms, values)
                told = {**settings, "share_outside_support": share}
            posteriors.append(Posterior.of(atoms, values, support, told, self.smoothing, names))
        return posteriors

    @abstractmethod
    def _row_weights(self, x: np.ndarray) -> RowWeights:
        """The weights for scaled observations (k, q)."""


def _with_mass(support: Support, atoms: Atoms, weights: np.ndarray) -> tuple[Atoms, np.ndarray, float]:
    """Atoms (m, p) where the prior has mass, their weights of the same sum, and the share of the others.

    What was moved to where there is none is left out, as a posterior is zero where its prior is.
    """
    allowed = support.allows(atoms.points)
    if np.all(allowed) or not np.any(allowed & (weights != 0)):
        return atoms, weights, 0.0
    kept, total = weights[allowed], weights.sum()
    share = float(np.abs(weights[~allowed]).sum() / np.abs(weights).sum())
    scale = total / kept.sum() if kept.sum() * total > 0 else 1.0
    return replace(atoms, points=atoms.points[allowed]), scale * kept, share
