"""What all estimators share: checks of the arguments, and one scale for the statistics."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pickle import PicklingError
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.chunks import Chunks, RowSource, is_chunked, physical_memory
from pymc_kbr.arrays.labelled import check_kind, refuse_unknown_lengths
from pymc_kbr.arrays.names import Names, Table, is_table, labels_of
from pymc_kbr.arrays.observations import Observations
from pymc_kbr.arrays.refusals import generator_of, positive, shown
from pymc_kbr.arrays.rows import as_rows, check_range, check_shapes, read_pair
from pymc_kbr.arrays.scaling import Scaler, nonzero
from pymc_kbr.arrays.support import Support, support_of
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.checks import check_scaled, refuse_both, warn_of_impossible, warn_of_rows
from pymc_kbr.estimators.fitted_table import FittedTable, Sample, build_table
from pymc_kbr.estimators.likelihood.success import Success, weighting_of
from pymc_kbr.estimators.missing import posteriors_by_rest
from pymc_kbr.estimators.prior_weights import check_prior, ratio_of_draws, weighted_draws
from pymc_kbr.estimators.summaries import Summary, check_scale, coordinates, make_summary
from pymc_kbr.gram import Solver
from pymc_kbr.gram.solvers import solver_for, streams
from pymc_kbr.kernels import Kernel, parameter_kernel
from pymc_kbr.posterior.posterior import Posterior

# --- conditioning on observations ---


class Conditioning:
    """What an `Estimator` does once it is fitted, which changes nothing in it."""

    smoothing = "local"
    on_all_threads = False

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
            estimator is fitted again to the others.

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
            noted = {**settings, **self._settings_of(atoms, values)}
            posteriors.append(Posterior.of(atoms, values, support, noted, self.smoothing, names))
        return posteriors

    def _settings_of(self, atoms: Atoms, weights: np.ndarray) -> dict[str, float]:
        """What there is to say of one observation's atoms."""
        return {}

    @abstractmethod
    def _row_weights(self, x: np.ndarray) -> RowWeights:
        """The weights for scaled observations (k, q)."""


# --- the base class ---


LogDensity = Callable[[np.ndarray], np.ndarray]
"""From points (n, p) to log densities (n,)."""


class Estimator(Conditioning, BaseEstimator):
    """A posterior estimator on a reference table.

    A subclass stores its arguments in its constructor (among them `scale` and `parameter_bandwidth`), checks
    them in `_check`, computes in `_fit` what does not depend on an observation, from the frozen `table_`,
    and gives the weights of scaled observations in `_row_weights`, which changes nothing. Where it
    `streams`, the table may be one that is read a part at a time; it `picks` where its weights then are
    those of few rows. One that `takes_draws` has its own use of a prior that is known by draws; others get
    the density ratio. One that `multiplies_prior` works with the prior's density, not with its rows alone.
    One with `draws_as_asked` makes as many draws as `for_draws` asks for, and repeats none. One that works
    `on_all_threads` has large matrices to factor, which it leaves to all threads of BLAS: its results depend
    on their number in the last digits, those of the others do not.
    """

    scale: bool | str | Summary
    parameter_bandwidth: float | None
    streams = False
    picks = False
    takes_draws = False
    multiplies_prior = False
    draws_as_asked = False
    _given_log_prior: LogDensity | None = None
    read_too: np.ndarray | None = None
    selection_: Any = None
    fitted_rows_: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        default_arithmetic(cls)

    def fit(
        self,
        parameters: ArrayLike | RowSource | Table,
        statistics: ArrayLike | RowSource | None = None,
        support: Support | None = None,
        *,
        ratio: np.ndarray | None = None,
        prior: Any = None,
        log_prior: LogDensity | None = None,
        success: Success | None = None,
        random_seed: int | np.random.Generator | None = None,
    ) -> Self:
        """Fit the estimator to a reference table.

        Parameters
        ----------
        parameters : ndarray of shape (n, p), or ReferenceTable or StoredTable
            A table brings all that follows it, but its observation: support, names, its `prior_ratio`, and
            its failures, of which the probability of success is learnt.
        statistics : ndarray of shape (n, d)
            Either may also be an array of Zarr or Dask, or a side of a `StoredTable`: it is then read a part
            at a time, by the estimators that work so. Data frames bring the names of their columns.
        support : Support, optional
            The prior's support, used by `Posterior.draw`; the table's, or unbounded, where left out.
        ratio : ndarray of shape (n,), optional
            The density of another prior over that of the table's, at each row and up to a constant:
            the posterior is then that under the other prior. Rows where it is zero are left out.
        prior : ndarray of shape (l, p), or pair of such and of weights of shape (l,), optional
            The other prior by draws, where its density is not known; a data frame is put in order by names.
        log_prior : callable, optional
            From parameters (n, p) to log densities (n,) of the prior that the rows, weighted by `ratio`, or
            `prior` are draws of; alone it makes no other prior. For estimators that multiply with it, which
            else estimate it. It is the prior of all simulations, those that failed included.
        success : Success, optional
            The probability of success given the parameters, where simulations failed beside these rows: of a
            table it is learnt, see `simulate`.
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
        MemoryError
            If n rows do not fit the estimator's memory.

        Warns
        -----
        UserWarning
            If few rows make up a statistic's deviation, or are far from all others in a parameter, or are
            copies of others, or part of another prior lies beyond the rows.
        """
        rng = generator_of(random_seed)
        given = FitInput.of(parameters, statistics, support, ratio, prior, self, success)
        if log_prior is not None and not callable(log_prior):
            raise TypeError(
                f"log_prior is {shown(log_prior)}; give a function of parameters (n, p) to log densities (n,)"
            )
        if log_prior is not None and not self.multiplies_prior:
            raise ValueError(f"{type(self).__name__} has the prior in its rows; leave `log_prior` out")
        self._given_log_prior, self.names_, self.selection_ = log_prior, given.names, None
        with self._threads():
            table = given.tabulated(self, rng)
        self.read_too = None  # of this fit alone
        warn_of_rows(table)
        self.fit_table(table, rng)
        alone = all(other is None for other in (ratio, prior, log_prior, success))
        self._fitted_to = self._fingerprint(parameters) if alone and not table.streamed else None
        return self

    def reading(self, statistics: np.ndarray) -> Self:
        """The estimator that is going to be asked for other rows of the table than those of its fit.

        Parameters
        ----------
        statistics : ndarray of shape (k, d)
            Those rows. `fit` takes no logarithm or root that one of them has not.

        Returns
        -------
        Estimator
            Itself.
        """
        self.read_too = statistics.min(axis=0, keepdims=True)
        return self

    def refused_curves(self, names: Sequence[str] | None = None) -> list[str]:
        """What statistics do not enter by, since other rows than those of the fit have no value of it.

        Parameters
        ----------
        names : sequence of str, optional
            Of the statistics; those of the fit where left out.

        Returns
        -------
        list of str
            A sentence a statistic.
        """
        scaler: Any = getattr(getattr(self, "table_", None), "scaler", None)
        refused = getattr(getattr(scaler, "curved", scaler), "refused", ())
        names = self.names_.statistics if names is None else names
        return [
            f"the statistic {number if names is None else repr(names[number])} does not enter by its {kind}, "
            "which a row of the table or the data have none of"
            for number, kind in refused
        ]

    def is_fitted_to(self, table: Table) -> bool:
        """Whether the estimator was fitted to this table as it is, with its present arguments.

        Parameters
        ----------
        table : ReferenceTable
            In memory. Of a `StoredTable`, the answer is no: its rows would have to be read.

        Returns
        -------
        bool
        """
        fitted = getattr(self, "_fitted_to", None)
        return fitted is not None and fitted == self._fingerprint(table)

    def noted_as_fitted(self, table: Table) -> Self:
        """Note that the estimator was fitted to this table, where that was done a part of the work at a time.

        Parameters
        ----------
        table : ReferenceTable

        Returns
        -------
        Estimator
            Itself.
        """
        self._fitted_to = self._fingerprint(table)
        return self

    def _fingerprint(self, table: Any) -> str | None:
        """A hash of the estimator's arguments and of what `fit` reads of a table; None of one on a disk."""
        if not is_table(table) or is_chunked(table.parameters) or is_chunked(table.statistics):
            return None
        support = table.support
        names = table.parameter_names, table.statistic_names, support.inside is None, *support.constraints
        failures: Any = getattr(table, "failures", None)
        meaning = getattr(getattr(table, "origin", None), "on_failure", None)
        failed = None if failures is None else (failures.parameters, failures.prior_ratio, meaning)
        sides = table.parameters, table.statistics, table.prior_ratio
        try:
            return joblib.hash((type(self).__name__, self.get_params(), names, sides, failed))
        except (PicklingError, AttributeError, TypeError):  # an argument that cannot be written down
            return None

    def with_seed(self, rng: np.random.Generator) -> Self:
        """The fitted estimator whose posteriors, where these are made of draws, are made of other draws.

        Parameters
        ----------
        rng : numpy.random.Generator

        Returns
        -------
        Estimator
            Itself; where posteriors are made of draws, a copy.
        """
        return self

    def fit_table(self, table: FittedTable, rng: np.random.Generator) -> Self:
        """Fit to a table that is scaled already, which several estimators can share.

        Parameters
        ----------
        table : FittedTable
            Its statistics in the scale that `scale_of_statistics` names.
        rng : numpy.random.Generator
            For solvers that draw at random.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError, MemoryError
            As `fit`.
        """
        self.check(len(table), streamed=table.streamed)
        if table.draws is not None:
            check_prior(*table.draws, table.parameters)
        for name in Estimator.settings(self):
            self.__dict__.pop(f"{name}_")  # numbers of a fit before, which this one may not have
        self.table_ = table
        if table.ratio is not None:
            # Kish's: how many rows of equal weight have a mean as certain.
            self.ratio_effective_sample_size_ = float(table.ratio.sum() ** 2 / np.sum(table.ratio**2))
        with self._threads():
            self.parameter_kernel_ = self._parameter_kernel()
            self._fit(rng)
        return self

    def chosen_by(self, selection: Any, fitted_rows: int) -> Self:
        """The fitted estimator with the choice that led to it.

        Parameters
        ----------
        selection : Selection
            Kept as `selection_`.
        fitted_rows : int
            How many rows it was fitted to, kept as `fitted_rows_`.

        Returns
        -------
        Estimator
            A copy.
        """
        noted = copy(self)  # a fitted estimator is a value, which others may hold
        noted.selection_, noted.fitted_rows_ = selection, fitted_rows
        return noted

    def named(self, table: Table) -> Self:
        """The fitted estimator with the names of the table that it was fitted to.

        Parameters
        ----------
        table : ReferenceTable or StoredTable

        Returns
        -------
        Estimator
            A copy.

        Raises
        ------
        ValueError
            If a statistic holds data sets: their rows are no columns.
        """
        noted = copy(self)
        noted.names_ = Names.of_table(table)
        return noted

    def for_scores(self) -> Self:
        """A faster copy of this estimator, for posteriors that are only compared.

        Returns
        -------
        Estimator
            Itself; where posteriors are made of draws, a copy that makes fewer.
        """
        return self

    def for_draws(self, count: int) -> Self:
        """The fitted estimator for posteriors of which so many draws are wanted.

        Parameters
        ----------
        count : int

        Returns
        -------
        Estimator
            Itself; where posteriors are made of draws, a copy that makes as many.
        """
        return self

    def under(self, log_prior: LogDensity | None) -> Self:
        """The fitted estimator with the prior's log density.

        Parameters
        ----------
        log_prior : callable or None
            From parameters (n, p) to log densities (n,); None where it is not known.

        Returns
        -------
        Estimator
            Itself; one that `multiplies_prior` as a copy with this density.
        """
        return self

    def check(self, n: int, *, streamed: bool = False) -> None:
        """Refuse arguments that are out of range for a table of n rows, before the table is made.

        Parameters
        ----------
        n : int
            Number of rows.
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

    @property
    def needs_draws(self) -> bool:
        """Whether another prior must be known by draws, since these carry the weights."""
        return False

    def scale_of_statistics(self) -> bool | str | Summary:
        """How the table's statistics are scaled.

        Returns
        -------
        bool, str or Summary
            The argument `scale`, of the estimator that gives the weights.
        """
        return self.scale

    def _parameter_kernel(self) -> Kernel:
        """The kernel on parameters in which the posterior is embedded."""
        # Distances between some rows will do; deviations are those of all, also of rows on the disk.
        return parameter_kernel(self.table_.tuning[1], self.parameter_bandwidth, self.table_.deviation)

    def refuse_unless_it_streams(self) -> None:
        """Refuse rows that are read a part at a time where all are needed in memory.

        Raises
        ------
        TypeError
            If the estimator does not stream.
        """
        if not self.streams:
            raise TypeError(
                f"{type(self).__name__} works on tables in memory, and these rows are read a part at a time; "
                "load them or some of them (`stored.load(20_000)`), or take Localised, ConditionalMean, "
                "NadarayaWatson or Rejection"
            )

    @abstractmethod
    def _check(self, n: int, streamed: bool) -> None:
        """Raise ValueError or TypeError where an argument is out of range for n rows."""

    @abstractmethod
    def _fit(self, rng: np.random.Generator) -> None:
        """Compute from `table_` what does not depend on an observation."""


# --- the arguments of `fit` ---


@dataclass(frozen=True, eq=False)
class FitInput:
    """Both sides of a table, what is known of the prior, and names."""

    # Shapes: parameters, statistics (n, p), (n, d); ratio (n,).
    parameters: Any
    statistics: Any
    support: Support | None
    ratio: np.ndarray | None
    prior: Any
    names: Names
    success: Success | None = None

    @classmethod
    def of(
        cls,
        parameters: Any,
        statistics: Any,
        support: Support | None,
        ratio: np.ndarray | None,
        prior: Any,
        estimator: Any,
        success: Success | None = None,
    ) -> FitInput:
        """From the arguments of `Estimator.fit`."""
        own = getattr(estimator, "prior", None)
        refuse_both(ratio, prior, own)
        if not is_table(parameters):
            if statistics is None:
                raise TypeError(
                    f"there are no statistics; give fit(parameters, statistics), or a ReferenceTable or "
                    f"StoredTable alone, and not a {type(parameters).__name__}"
                )
            if is_chunked(parameters) or is_chunked(statistics):
                names = Names(labels_of(parameters), labels_of(statistics))
                theta, x = (
                    side if is_chunked(side) else as_rows(name, side)
                    for name, side in (("the parameters", parameters), ("the statistics", statistics))
                )
                refuse_unknown_lengths("the parameters", theta)
                refuse_unknown_lengths("the statistics", x)
                return cls(theta, x, support, ratio, prior, names, success)
            theta, x = read_pair(parameters, statistics)
            return cls(theta.values, x.values, support, ratio, prior, Names(theta.names, x.names), success)
        table, theta = parameters, parameters.parameters
        if statistics is not None:
            raise TypeError(
                "a reference table is given and statistics beside it; the table has its own: give "
                "fit(table), or fit(table.parameters, statistics, table.support)"
            )
        if table.prior_ratio is not None and ratio is not None:
            raise ValueError(
                "a density ratio is given, and the rows of the table have one of their own (its "
                "prior_ratio); give arrays, and the ratio to what the rows were drawn from: "
                "fit(table.parameters, table.statistics, table.support, ratio=ratio * table.prior_ratio)"
            )
        # Other draws, or draws of the estimator's own, are compared with the rows as they are.
        weighting, given_prior, given_ratio = weighting_of(table), prior, ratio
        if prior is None and own is None and ratio is None:
            if estimator.needs_draws and weighting.ratio is not None:
                prior = theta, weighting.ratio
            else:
                ratio = weighting.ratio
        elif ratio is not None and weighting.weighted_for_success:
            assert weighting.ratio is not None
            ratio = ratio * weighting.ratio
        held = table.support if support is None else support
        found = weighting.success if success is None else success
        if found is not None and given_ratio is not None and success is None:
            found = found.at_rows()
        if prior is not None and prior is not given_prior:  # rows that succeeded stand for it already
            found = None
        return cls(theta, table.statistics, held, ratio, prior, Names.of_table(table), found)

    @property
    def streamed(self) -> bool:
        """Whether a side is read a part at a time."""
        return is_chunked(self.parameters) or is_chunked(self.statistics)

    def tabulated(self, estimator: Any, rng: np.random.Generator) -> FittedTable:
        """The table in the scale of an estimator."""
        scale = estimator.scale_of_statistics()
        if self.streamed:
            estimator.refuse_unless_it_streams()
            if self.ratio is not None or self.prior is not None:
                raise ValueError(
                    "another prior is given, or the rows are no draws of their own, and these rows are read "
                    "a part at a time; load them or some of them (`stored.load(20_000)`)"
                )
            # Before the pass over all rows, which may take long.
            estimator.check(int(self.parameters.shape[0]), streamed=True)
            return StreamedTable.of(self.parameters, self.statistics, self.support, scale, self.success)
        ratio, draws = self.ratio, None
        if self.prior is not None:
            draws = weighted_draws(self.prior, self.names.parameters)
        if draws is not None and not estimator.takes_draws:
            theta = as_rows("the parameters", self.parameters)
            inside = Support.unbounded(theta.shape[1]) if self.support is None else self.support
            seen = draws if self.success is None else self.success.seen(draws)
            ratio, draws = ratio_of_draws(theta, seen, inside, rng), None
        return build_table(
            self.parameters,
            self.statistics,
            self.support,
            scale,
            ratio,
            draws,
            estimator.check,
            self.success,
            estimator.read_too,
        )


# --- tables on the disk ---


@dataclass(frozen=True, eq=False)
class StreamedTable(FittedTable):
    """Rows that are read in blocks; `statistics` and `parameters` are `Chunks`."""

    streamed: ClassVar[bool] = True

    scan: Scan = field(kw_only=True)

    @classmethod
    def of(
        cls,
        parameters: Any,
        statistics: Any,
        support: Support | None,
        scale: bool | str | Summary,
        success: Success | None = None,
    ) -> StreamedTable:
        """One pass over the rows, which scales them and takes a sample."""
        check_shapes(parameters, statistics)
        held = support_of(support, int(parameters.shape[1]))
        for name, side in (("parameters", parameters), ("statistics", statistics)):
            if hasattr(side, "dtype"):  # a table's own rows have none, and hold real numbers alone
                check_kind(f"the {name}", np.dtype(side.dtype))
        scan = scan_table(Chunks(parameters), Chunks(statistics), scale is not False)
        # Deviations are those of all rows; what else there is to learn is learnt from the sample.
        scaler: Summary = scan.scaler
        if not isinstance(scale, bool | np.bool_):
            scaler = make_summary(scale, scan.statistics, scan.parameters)
        n = int(parameters.shape[0])
        changed = Chunks(statistics, scaler.transform)
        support, first = held.of_rows(scan.parameters), scan.statistics[0]
        return cls(scaler, changed, Chunks(parameters), support, n, scan=scan, first=first, success=success)

    @property
    def deviation(self) -> np.ndarray:  # type: ignore[override]
        """Standard deviations of all parameters, shape (p,)."""
        return self.scan.deviation

    @cached_property
    def sample(self) -> Sample:  # type: ignore[override]
        """Rows spread evenly over the table, in memory."""
        return Sample(coordinates(self.scaler, self.scan.statistics), self.scan.parameters, self.scan.rows)

    @property
    def tuning(self) -> tuple[np.ndarray, np.ndarray]:
        """Statistics and parameters of the rows on which settings are chosen: a few of the sample."""
        return self.sample.statistics[self.scan.few], self.sample.parameters[self.scan.few]

    def nearest(self, count: int, units: tuple[float, ...] = ()) -> Any:
        """The way to nearest rows, in one pass."""
        if units:
            raise TypeError(
                "a kernel of several bandwidths needs its rows in memory, and these are read a part at a "
                "time; take one bandwidth, or load some rows (`stored.load(20_000)`)"
            )
        return super().nearest(count)

    def read_parameters(self, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Parameters of some rows, or of all of them, read in one pass; the rows' places among these."""
        if rows is None:
            return self.parameters[0 : self.size], None
        # Each row once, in the order of the disk.
        read, places = np.unique(rows, return_inverse=True)
        return self.parameters[read], places.reshape(rows.shape)

    def read_statistics(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Statistics of some rows, read in one pass; the rows' places among these."""
        read, places = np.unique(rows, return_inverse=True)
        return self.statistics[read], places.reshape(rows.shape)

    def points_for(self, solver: Solver) -> Any:
        """The statistics, read where a solver wants them at once: they are few enough for it."""
        return self.statistics if streams(solver_for(solver, self.size)) else self.statistics[0 : self.size]

    def check_weights(self, observations: int) -> None:
        """Refuse so many observations if the weights of all rows do not fit into memory."""
        needed, there = 16.0 * observations * self.size, physical_memory()
        if needed > 0.8 * there:
            raise MemoryError(
                f"the weights of {self.size} rows for {observations} observations need {needed / 1e9:.1f} "
                f"GB and this machine has {there / 1e9:.1f} GB; condition on fewer observations at once, or "
                "take Localised"
            )


# --- one pass over a table on the disk ---


@dataclass(frozen=True, eq=False)
class Scan:
    """What is known of all rows."""

    # Shapes: deviation (p,); rows (s,); parameters, statistics (s, p) and (s, d); few (f,).
    scaler: Scaler
    deviation: np.ndarray
    rows: np.ndarray
    parameters: np.ndarray
    statistics: np.ndarray
    few: np.ndarray


class Moments:
    """Mean, deviation and range of columns, block by block (Chan, Golub and LeVeque's update)."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, rows: np.ndarray) -> None:
        """Take in more rows (b, d)."""
        if not self.count:
            self.unit = nonzero(np.abs(rows).max(axis=0))
            # In units of the first block's largest value, squares of huge numbers stay in range.
            self.mean = self.squares = np.zeros(rows.shape[1])
            self.lowest = self.highest = rows[0]
        self.lowest = np.minimum(self.lowest, rows.min(axis=0))
        self.highest = np.maximum(self.highest, rows.max(axis=0))
        scaled = rows / self.unit
        mean = scaled.mean(axis=0)
        apart, total = mean - self.mean, self.count + len(rows)
        squares = np.sum((scaled - mean) ** 2, axis=0)
        self.squares = self.squares + squares + apart**2 * (self.count * len(rows) / total)
        self.mean = self.mean + apart * (len(rows) / total)
        self.count = total

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviations, shape (d,)."""
        return np.sqrt(self.squares / self.count) * self.unit

    def scaler(self, scaled: bool) -> Scaler:
        """The scaler of the columns."""
        return Scaler.of(self.mean * self.unit, self.deviation, self.lowest, self.highest, scaled)


def scan_table(
    parameters: Chunks,
    statistics: Chunks,
    scaled: bool,
    *,
    # Rows on which bandwidths and ridges are chosen, as in memory,
    for_choices: int = 1000,
    # and rows of the sample on which regressions are fitted: both spread evenly.
    sampled: int = 20_000,
) -> Scan:
    """Read all rows once."""
    n = len(statistics)
    few = spread_out(n, for_choices)
    wanted = np.union1d(spread_out(n, sampled), few)
    sides = []
    for name, side in (("parameters", parameters), ("statistics", statistics)):
        moments, sample = Moments(), []
        for part, rows in side.blocks():
            bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
            if len(bad):
                raise ValueError(
                    f"{len(bad)} row(s) of {name} hold NaN or infinity, the first of them row "
                    f"{part.start + bad[0]}; leave those rows out"
                )
            if name == "parameters":  # statistics are scaled, in any units
                check_range("the parameters", rows)
            moments.add(rows)
            sample.append(rows[wanted[(wanted >= part.start) & (wanted < part.stop)] - part.start])
        sides.append((moments, np.concatenate(sample)))
    (mine, theta), (theirs, x) = sides
    return Scan(theirs.scaler(scaled), mine.deviation, wanted, theta, x, np.searchsorted(wanted, few))


# --- weights of rows ---


@dataclass(frozen=True, eq=False)
class RowWeights:
    """What an estimator makes of k observations."""

    # Shapes: values (k, m); rows (k, m); points (m, p).
    values: np.ndarray
    rows: np.ndarray | None = None
    points: np.ndarray | None = None
    settings: dict[str, float] = field(default_factory=dict)

    def over(self, size: int, fitted: np.ndarray | None) -> np.ndarray:
        """Weights (k, size) of all rows that were given, of which the table has those `fitted`, or all."""
        weights = np.zeros((len(self.values), size))
        if self.rows is None:
            weights[:, slice(None) if fitted is None else fitted] = self.values
        else:
            rows = self.rows if fitted is None else fitted[self.rows]
            np.put_along_axis(weights, rows, self.values, axis=1)
        return weights
