"""Regression adjustment as a step that any estimator can take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from pymc_kbr.arrays.refusals import shown
from pymc_kbr.arrays.scaling import unit_deviations
from pymc_kbr.arrays.support import Support
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.embedding.projection import project_to_simplex
from pymc_kbr.estimators.abc import Rejection
from pymc_kbr.estimators.adjustments import Adjustment, NoAdjustment, make_adjustment
from pymc_kbr.estimators.checks import warn_of_wide
from pymc_kbr.estimators.estimator import Estimator, RowWeights
from pymc_kbr.estimators.summaries import Summary
from pymc_kbr.posterior.smoothing import check_smoothing


class Adjusted(Estimator):
    """An estimator whose atoms are moved to where they would be had they given the observation.

    Parameters
    ----------
    estimator : Estimator, optional
        Gives the weights; `Rejection` of the nearest 30%, but at most 10,000 rows, with the Epanechnikov
        kernel where left out.
    adjustment : str or Adjustment
        "kernel_ridge", "local_linear", either with ``"heteroscedastic_"`` before it, "joint_neighbours" or
        "none": see `pymc_kbr.estimators.adjustments`.
    smoothing : {"local", "global", "none"}
        How resampled atoms become draws, see `pymc_kbr.posterior.smoothing`.

    Raises
    ------
    TypeError
        By `fit`, for an estimator that is adjusted itself, or one that cannot be where the table is read a
        part at a time.
    ValueError
        By `fit`, for an adjustment or a smoothing that there is not, and weights of draws of a prior.

    Warns
    -----
    UserWarning
        By `fit`, if a parameter without bounds is positive over orders of magnitude.
    PosteriorWarning
        By `condition`, if statistics are collinear that the observation's are not ("local_linear").

    Notes
    -----
    Atoms are moved in the unconstrained space of the prior's support, so that none leaves it. Discrete
    parameters of many values are moved, too, and rounded so that their variance stays. Atoms on an edge of
    the support, labels, and discrete parameters of few values stay where they are. If a parameter has a value
    with a probability of its own (a spike at zero), rows at that value keep it and are adjusted separately;
    a logistic regression estimates their total weight. If the transform does not describe all of the support
    (`Support.inside`, `Support.constraints`), atoms that are moved to where the prior has no mass are
    reflected where their way leaves it; their share of the weight is `share_outside_support` in the
    posterior's `settings`.

    Of a table that is read a part at a time the rows that carry weight are read and moved; regressions on the
    whole table ("kernel_ridge") are then fitted to 20,000 rows, spread evenly over it.

    `weights` are those of the estimator; the posterior's atoms are not the simulated parameters.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> theta = rng.normal(size=(2000, 1))
    >>> x = theta + rng.normal(size=(2000, 1))
    >>> posterior = Adjusted(adjustment="local_linear").fit(theta, x).condition([1.0])
    >>> abs(posterior.mean()[0] - 0.5) < 0.1
    np.True_
    """

    picks = True
    parameter_bandwidth = None  # the estimator has its own
    _strata: Sequence[_Stratum] = ()

    def __init__(
        self,
        estimator: Estimator | None = None,
        adjustment: str | Adjustment = "kernel_ridge",
        *,
        smoothing: str = "local",
    ) -> None:
        self.estimator = estimator
        self.adjustment = adjustment
        self.smoothing = smoothing

    def _inner(
        self,
        *,
        # More of the nearest rows are farther off,
        accepted: float = 0.3,
        # and hardly add to draws.
        most: int = 10_000,
    ) -> Estimator:
        """The estimator that gives the weights."""
        if self.estimator is None:
            return Rejection(accepted, most=most, kernel="epanechnikov")
        if not isinstance(self.estimator, Estimator) or isinstance(self.estimator, Adjusted):
            raise TypeError(
                f"estimator is {shown(self.estimator)}; give an estimator that is not adjusted itself, "
                "such as Rejection(0.3, kernel='epanechnikov')"
            )
        return self.estimator

    def scale_of_statistics(self) -> bool | str | Summary:
        """How the table's statistics are scaled.

        Returns
        -------
        bool, str or Summary
            As of the estimator that gives the weights.

        Raises
        ------
        TypeError
            If that is no estimator, or adjusted itself.
        """
        return self._inner().scale_of_statistics()

    def _check(self, n: int, streamed: bool) -> None:
        make_adjustment(self.adjustment)
        check_smoothing(self.smoothing)
        self._inner().check(n, streamed=streamed)

    @property
    def streams(self) -> bool:  # type: ignore[override]
        """Whether rows may be read a part at a time: if the estimator picks some, and these can be moved."""
        inner = self._inner()
        return inner.streams and inner.picks and make_adjustment(self.adjustment).streams

    @property
    def on_all_threads(self) -> bool:  # type: ignore[override]
        """Whether the estimator that gives the weights computes on all threads of BLAS."""
        return self._inner().on_all_threads

    def refuse_unless_it_streams(self) -> None:
        """Refuse rows that are read a part at a time where all are needed in memory.

        Raises
        ------
        TypeError
            If the estimator gives weight to all rows, or the adjustment looks for neighbours in them.
        """
        if self.streams:
            return
        if make_adjustment(self.adjustment).streams:
            what = f"{type(self._inner()).__name__}, which gives weight to all rows"
        else:
            what = (
                f"{type(make_adjustment(self.adjustment)).__name__}, which looks for neighbours in all rows"
            )
        raise TypeError(
            f"these rows are read a part at a time, and what is adjusted must be in memory with {what}; "
            "adjust Rejection, NadarayaWatson or Localised by 'local_linear' or 'kernel_ridge', or load some "
            "rows (`stored.load(20_000)`)"
        )

    def _fit(self, rng: np.random.Generator) -> None:
        self._fit_inner(rng)
        if not isinstance(make_adjustment(self.adjustment), NoAdjustment):
            names = getattr(self, "names_", None)
            points, support = self._sampled.points, self.table_.support
            warn_of_wide(points, support, None if names is None else names.parameters)
        self._strata = self._fit_strata(rng)
        if self._strata:
            # That of the rows that are moved along most columns.
            self.adjustment_ = max(self._strata, key=lambda part: int(part.columns.sum())).adjustment
        else:
            self.adjustment_ = clone(make_adjustment(self.adjustment)).fit(*self._regressed(), rng)

    def _fit_strata(self, rng: np.random.Generator) -> list[_Stratum]:
        """Rows at the same atoms with their own adjustment; empty where there are no atoms."""
        support, sample = self.table_.support, self.table_.sample
        if self.table_.streamed or not any(any(block.atoms) for block in support.blocks):
            return []
        found = []
        for at, parameters in support.strata(sample.parameters):
            columns = support.free_columns(parameters)
            rows = self._sampled.of_stratum(at, columns)
            # As many as a regression on the statistics needs.
            if rows.inside.sum() >= 2 * (sample.statistics.shape[1] + 1):
                # Where all parameters are at atoms, the rows' share is all that there is to know.
                adjustment = clone(make_adjustment(self.adjustment)) if np.any(columns) else NoAdjustment()
                adjustment.fit(*self._regressed(rows, columns), rng)
                found.append(_Stratum(rows, columns, parameters, adjustment))
        return found

    def _fit_inner(self, rng: np.random.Generator) -> None:
        """The estimator that gives the weights, on the same table."""
        self.estimator_ = clone(self._inner()).fit_table(self.table_, rng)
        if not self.estimator_.weighs_rows:
            raise ValueError(
                f"{type(self.estimator_).__name__} weights draws of a prior instead of the table's rows; "
                "only rows can be adjusted"
            )
        self.parameter_kernel_ = self.estimator_.parameter_kernel_
        self._smooth = self.table_.support.smooth()
        self._sampled = MovableRows.of(self.table_.sample.parameters, self.table_.support)

    def _regressed(
        self, rows: MovableRows | None = None, columns: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Statistics, unconstrained parameters and weights of the rows that adjustments are fitted to."""
        rows, ratio = self._sampled if rows is None else rows, self.table_.ratio
        return (
            self.table_.sample.statistics[rows.inside],
            rows.free[rows.inside][:, self._smooth if columns is None else columns],
            None if ratio is None else ratio[rows.inside],
        )

    def settings(self) -> dict[str, float]:
        """The numbers that the estimator and the adjustment were given or chose.

        Returns
        -------
        dict of str to float
            Those of the adjustment with ``adjustment_`` before their names.
        """
        found = self.estimator_.settings()
        for name in ("mean_", "spread_"):
            if hasattr(self.adjustment_, name):
                regression = getattr(self.adjustment_, name)
                found[f"adjustment_{name}bandwidth"] = regression.bandwidth
                found[f"adjustment_{name}ridge"] = regression.ridge
        return found

    def _row_weights(self, x: np.ndarray) -> RowWeights:
        found = self.estimator_._row_weights(x)
        if len(self._strata) < 2 or np.any(found.values < 0):
            return found
        places = found.rows
        if places is None:
            places = np.broadcast_to(np.arange(len(self.table_)), found.values.shape)
        values = [self._by_strata(*of_one) for of_one in zip(x, places, found.values, strict=True)]
        return replace(found, values=np.stack(values))

    def _by_strata(self, x: np.ndarray, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Weights (m,) with each stratum's sum where a logistic regression on these rows has it at x."""
        which = np.full(len(places), -1)
        for number, part in enumerate(self._strata):
            which[part.rows.inside[places]] = number
        used = (which >= 0) & (weights > 0)
        if len(np.unique(which[used])) < 2:
            return weights
        apart = self.table_.sample.statistics[places[used]] - x
        unit = unit_deviations(apart)
        fitted = LogisticRegression(max_iter=1000).fit(
            apart / unit, which[used], weights[used] * used.sum() / weights[used].sum()
        )
        shares = fitted.predict_proba(np.zeros((1, len(x))))[0]
        adjusted = weights.copy()
        for number, share in zip(fitted.classes_, shares, strict=True):
            mine = used & (which == number)
            adjusted[mine] *= share * weights[used].sum() / weights[mine].sum()
        return adjusted

    def _atoms(self, x: np.ndarray, found: RowWeights) -> list[Atoms]:
        rows, adjustment, places = self._sampled, self.adjustment_, found.rows
        if self.table_.streamed:
            assert found.rows is not None  # of an estimator that picks
            points, places = self.table_.read_parameters(found.rows)
            rows = MovableRows.of(points, self.table_.support)
            # An observation may need any rows, of which the adjustment has seen a sample.
            adjustment = self._taking(np.unique(found.rows), rows)
        kernel = self.parameter_kernel_
        if places is None:
            places = np.broadcast_to(np.arange(len(rows.points)), found.values.shape)
        atoms: list[Atoms] = []
        for at, values, numbers in zip(x, found.values, places, strict=True):
            moved = self._moved(at, rows, numbers, values, adjustment)
            points = self._reached(moved, rows, numbers)
            if self.table_.support.restricted:
                points, outside = self.table_.support.returned(rows.points[numbers], points)
                atoms.append(ReturnedAtoms(points, kernel, outside))
            else:
                atoms.append(Atoms(points, kernel))
        return atoms

    def _settings_of(self, atoms: Atoms, weights: np.ndarray) -> dict[str, float]:
        if not isinstance(atoms, ReturnedAtoms):
            return {}
        size = np.abs(weights)
        return {"share_outside_support": float(size[atoms.outside].sum() / size.sum())}

    def _reached(self, moved: np.ndarray, rows: MovableRows, places: np.ndarray) -> np.ndarray:
        """Moved rows (m, p), where they were simulated if no simulation succeeds where they would be."""
        success = self.table_.success
        if success is None or success.constant:
            return moved
        return np.where(success.reached(moved)[:, None], moved, rows.points[places])

    def _taking(self, read: np.ndarray, rows: MovableRows) -> Adjustment:
        """The adjustment for rows that were read, of which it was fitted to some."""
        numbers = self.table_.sample.numbers[self._sampled.inside]
        moved = read[rows.inside]
        at = np.minimum(np.searchsorted(numbers, moved), len(numbers) - 1)
        fitted = np.where(numbers[at] == moved, at, -1)
        z = rows.free[rows.inside][:, self._smooth]
        return self.adjustment_.for_rows(self.table_.statistics[moved], z, fitted)

    def _moved(
        self,
        x: np.ndarray,
        rows: MovableRows,
        places: np.ndarray,
        weights: np.ndarray,
        adjustment: Adjustment,
    ) -> np.ndarray:
        """The parameters of the rows in these places (m,), those that carry weight moved to x (q,)."""
        points = rows.points[places]
        # Signed weights are no shares of draws: the nearest ones in the embedding that are take their place.
        if np.any(weights < 0):
            weights = project_to_simplex(Embedding(Atoms(points, self.parameter_kernel_), weights))
        if self._strata:
            return self._moved_in_strata(x, places, weights)
        moving = rows.inside[places] & (weights > 0)
        support = self.table_.support
        # What was read from a file may smooth less than what was fitted.
        if np.all(moving) and np.all(self._smooth) and np.all(support.smooth()):
            moved = adjustment.move(x, rows.number[places], weights)
            return support.backward(moved, weights / weights.sum())
        if not np.any(self._smooth) or not np.any(moving):
            return points
        free = rows.free[places]
        moved = adjustment.move(x, rows.number[places[moving]], weights[moving])
        free[np.ix_(moving, self._smooth)] = moved
        result = support.backward(free, weights / weights.sum())
        # There and back again rounds: what does not move keeps its digits.
        for block in support.blocks:
            if not block.smooth:
                result[:, list(block.columns)] = points[:, list(block.columns)]
        result[~moving] = points[~moving]
        return result

    def _moved_in_strata(self, x: np.ndarray, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Rows at the same atoms by their own adjustment; those that are too few for one stay."""
        support, result = self.table_.support, self._sampled.points[places]
        for part in self._strata:
            moving = part.rows.inside[places] & (weights > 0)
            if not np.any(part.columns) or moving.sum() < 2 * (len(x) + 1):
                continue
            at, v = places[moving], weights[moving]
            free = part.rows.free[at]
            free[:, part.columns] = part.adjustment.move(x, part.rows.number[at], v)
            smooth = part.parameters & support.moved()
            result[np.ix_(moving, smooth)] = support.backward(free, v / v.sum())[:, smooth]
        return result


@dataclass(frozen=True, eq=False)
class ReturnedAtoms(Atoms):
    """Atoms inside the support, and which of them the adjustment had moved to where the prior has no mass."""

    outside: np.ndarray


class _Stratum(NamedTuple):
    """Rows that are moved among themselves, along which columns, of which parameters, and how."""

    rows: MovableRows
    columns: np.ndarray
    parameters: np.ndarray
    adjustment: Adjustment


# --- rows in the unconstrained space ---


@dataclass(frozen=True, eq=False)
class MovableRows:
    """Rows that may be moved, in the unconstrained space."""

    # Shapes: points (m, p); free (m, r); inside (m,); number (m,).
    points: np.ndarray
    free: np.ndarray
    inside: np.ndarray
    number: np.ndarray

    @classmethod
    def of(cls, points: np.ndarray, support: Support) -> MovableRows:
        """From parameters (m, p)."""
        free = support.forward(points)
        inside = np.all(np.isfinite(free[:, support.smooth()]), axis=1)
        for rows, columns in support.strata(points):
            inside[rows] &= bool(np.all(columns))
        return cls(points, free, inside, np.cumsum(inside) - 1)

    def of_stratum(self, rows: np.ndarray, columns: np.ndarray) -> MovableRows:
        """The same, where some rows (m,) are moved along some unconstrained columns (r,)."""
        inside = rows & np.all(np.isfinite(self.free[:, columns]), axis=1)
        return replace(self, inside=inside, number=np.cumsum(inside) - 1)
