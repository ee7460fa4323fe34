"""The learned likelihood: the statistics' conditional density given the parameters, times any prior."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import maximum_filter
from scipy.spatial import KDTree
from scipy.special import logsumexp
from sklearn.base import clone

from pymc_kbr.arrays.names import Names, by_name, parameters_by_name
from pymc_kbr.arrays.observations import trials_of
from pymc_kbr.arrays.refusals import generator_of, shown, whole
from pymc_kbr.arrays.rows import as_rows
from pymc_kbr.arrays.scaling import Scaler
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.threads import parallel_map, row_parts
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import effective_sample_size, spread_out
from pymc_kbr.embedding.embedding import Atoms
from pymc_kbr.estimators.adjustments import regression_clouds
from pymc_kbr.estimators.checks import (
    beyond,
    check_scaled,
    impossible,
    warn_of_counts_above,
    warn_of_impossible,
    warn_of_nearest_level,
)
from pymc_kbr.estimators.estimator import Estimator, LogDensity, RowWeights
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.autoregressive import MOST_SPARINGLY, NOTHING_KNOWN, Autoregressive, Known
from pymc_kbr.estimators.likelihood.basis import ParameterScale
from pymc_kbr.estimators.likelihood.checks import (
    FunctionOfParameters,
    check_parameters,
    check_rows,
    check_settings,
    fewest_rows,
    warn_if_not_exchangeable,
)
from pymc_kbr.estimators.likelihood.choice import (
    FORMS,
    MOST_COMPARED_ON,
    NOT_UNIFORM,
    ROWS_FOR_FORMS,
    choose_form,
    dequantise,
    fit_chosen,
    forms_of,
    misfit_message,
)
from pymc_kbr.estimators.likelihood.evaluation import (
    AtConditions,
    DataInParts,
    Evaluation,
    Trials,
    integrated_out,
    seen_of,
)
from pymc_kbr.estimators.likelihood.exchangeable import Exchangeable
from pymc_kbr.estimators.likelihood.form import Prepared
from pymc_kbr.estimators.likelihood.incomplete import Limits, Part, part_evaluation, parts_of, prepare_between
from pymc_kbr.estimators.likelihood.linear_statistics import LinearStatistics
from pymc_kbr.estimators.likelihood.location_scale import LocationScale
from pymc_kbr.estimators.likelihood.prior_density import fit_prior_density, free_log_density, start_rows
from pymc_kbr.estimators.likelihood.shared_total import Total, scale_for_totals, shared_totals
from pymc_kbr.estimators.likelihood.structure import Declared, Structure, candidates, column_of
from pymc_kbr.estimators.likelihood.tempered import ImpossibleObservation, log_integral, tempered
from pymc_kbr.estimators.likelihood.trial_bias import ScoreCheck, TrialBias
from pymc_kbr.estimators.summaries import Dependent, Summary, Transformed
from pymc_kbr.estimators.summaries.transformed import Cells
from pymc_kbr.posterior.posterior import Posterior, PosteriorWarning

# --- the region of simulated parameters ---


class Ranks(NamedTuple):
    """Ranks from 0 to 1 of each parameter, interpolated between quantiles: no tail stretches them."""

    # Shapes: knots (k, p); slopes (k - 1, p).
    knots: np.ndarray
    slopes: np.ndarray

    @classmethod
    def of(cls, parameters: np.ndarray, *, knots_of_each: int = 33) -> Ranks:
        """Of a table's parameters (n, p)."""
        knots = np.quantile(parameters, np.linspace(0, 1, knots_of_each), axis=0)
        steps = np.diff(knots, axis=0)
        apart = steps > np.finfo(float).tiny
        slopes = np.divide(1 / np.maximum(apart.sum(axis=0), 1), steps, out=np.zeros_like(steps), where=apart)
        return cls(knots, slopes)

    def __call__(self, parameters: Any, xp: Any = np) -> Any:
        """Of parameters (g, p), an array or a tensor."""
        beyond = xp.clip(parameters[:, None, :] - self.knots[:-1], 0.0, np.diff(self.knots, axis=0))
        return (beyond * self.slopes).sum(axis=1)


class Near(NamedTuple):
    """Whether all parameters together are near one of some rows, along uncorrelated axes of unit variance."""

    # Shapes: centre (p,); axes (p, p); anchors (m, p).
    centre: np.ndarray
    axes: np.ndarray
    anchors: np.ndarray
    reach: float

    @classmethod
    def of(
        cls,
        ranks: np.ndarray,
        *,
        # Rows from which distances are taken.
        most_anchors: int = 1_000,
        # Of the rows, as the rest may be outliers,
        share_within: float = 0.999,
        # times so much for others than rows.
        margin: float = 1.25,
        # Deviation along an axis, in the widest one's: narrower axes are rounding.
        narrowest: float = 1e-3,
    ) -> Near:
        """Of the ranks (n, p) of a table's rows, all different."""
        centre = ranks.mean(axis=0)
        centred = ranks - centre
        variances, vectors = np.linalg.eigh(centred.T @ centred / len(ranks))
        deviations = np.sqrt(np.maximum(variances, 0))
        axes = vectors / np.maximum(deviations, narrowest * (deviations[-1] or 1.0))
        rows = np.random.default_rng(0).permutation(centred) @ axes
        anchors = rows[:most_anchors]
        away, _ = KDTree(anchors).query(rows, k=[1, 2])
        others = np.where(away[:, 0] > 0, away[:, 0], away[:, 1])
        others[np.isinf(others)] = 0.0  # there is one row alone
        # Between values of a parameter that has few of them one may be half of their distance away.
        gaps = np.diff(np.sort(ranks, axis=0), axis=0).max(axis=0, initial=0.0)
        between = np.linalg.norm(gaps / 2 * np.linalg.norm(axes, axis=1))
        reach = margin * float(np.quantile(others, share_within)) + between + 1e-6
        return cls(centre, axes, anchors, float(reach**2))

    def __call__(self, ranks: Any, xp: Any = np) -> Any:
        """Of ranks (g, p), shape (g,)."""
        rows = (ranks - self.centre) @ self.axes
        apart = (rows**2).sum(axis=1)[:, None] - 2 * rows @ self.anchors.T + (self.anchors**2).sum(axis=1)
        return xp.min(apart, axis=1) <= self.reach


class Pairs(NamedTuple):
    """Whether each two parameters lie in, or beside, a cell of their ranks that has rows."""

    # Shapes: cells (p,); first, second (q,); near (q, c, c).
    cells: np.ndarray
    first: np.ndarray
    second: np.ndarray
    near: np.ndarray

    @classmethod
    def of(
        cls,
        ranks: np.ndarray,
        *,
        # Of two parameters, were they independent;
        rows_a_cell: int = 4,
        # and into how many one parameter is cut at most.
        most_cells: int = 64,
    ) -> Pairs:
        """Of the ranks (n, p) of a table's rows, all different."""
        most = int(np.clip(np.sqrt(len(ranks) / rows_a_cell), 1, most_cells))
        cells = np.array([min(most, len(np.unique(column))) for column in ranks.T])
        first, second = np.triu_indices(len(cells), 1)
        near = np.zeros((len(first), most, most), dtype=bool)
        pairs = cls(cells, first, second, near)
        for part in _in_parts(ranks):
            near.reshape(-1)[pairs._places(part)] = True
        return pairs._replace(near=maximum_filter(near, size=(1, 3, 3), mode="constant"))

    def _places(self, ranks: Any, xp: Any = np) -> Any:
        cells = xp.clip(xp.floor(ranks * self.cells), 0, self.cells - 1).astype("int64")
        width = self.near.shape[1]
        which = np.arange(len(self.first)) * width
        return (which + cells[:, self.first]) * width + cells[:, self.second]

    def __call__(self, ranks: Any, xp: Any = np) -> Any:
        """Of ranks (g, p), shape (g,)."""
        return xp.all(xp.take(self.near.reshape(-1), self._places(ranks, xp)), axis=1)


class SimulatedRegion(NamedTuple):
    """The range of each parameter, less combinations of several that no row of the table is near."""

    ranks: Ranks
    near: Near
    pairs: Pairs

    @classmethod
    def of(cls, parameters: np.ndarray) -> SimulatedRegion:
        """The region of a table's parameters (n, p)."""
        ranks = Ranks.of(parameters)
        # Several simulations of the same parameters are one row here.
        rows = np.unique(np.concatenate([ranks(part) for part in _in_parts(parameters)]), axis=0)
        return cls(ranks, Near.of(rows), Pairs.of(rows))

    @property
    def ends(self) -> np.ndarray:
        """Lowest and highest value of each parameter, shape (2, p)."""
        return self.ranks.knots[[0, -1]]

    def holds(self, parameters: Any, xp: Any = np) -> Any:
        """Which parameters are in the region."""
        # Shapes: parameters (g, p); returned: (g,).
        if xp is np and len(parts := _in_parts(parameters)) > 1:
            return np.concatenate([self.holds(part) for part in parts])
        lowest, highest = self.ends
        in_range = xp.all((parameters >= lowest) & (parameters <= highest), axis=1)
        if len(lowest) == 1:  # whose range says all
            return in_range
        # What is no number is in no range, and has some cell all the same.
        ranks = self.ranks(xp.where(in_range[:, None], parameters, lowest), xp)
        return in_range & self.near(ranks, xp) & self.pairs(ranks, xp)


def _in_parts(
    rows: np.ndarray,
    *,
    # Of parameters whose distances from the anchors are in memory.
    rows_at_once: int = 10_000,
) -> list[np.ndarray]:
    return np.array_split(rows, len(rows) // rows_at_once + 1)


# --- the estimator ---


class KernelLikelihood(Estimator):
    """The density of the statistics given the parameters, learnt from the table, times the prior.

    Parameters
    ----------
    form : str
        "location_scale", "autoregressive", "diagonal_scale" (for many statistics), "exchangeable" (for
        statistics that are independent draws of one distribution, in any order or sorted: counts, or
        numbers of which up to twenty values have probabilities, such as a limit of censored ones),
        "series" (for the values of a stationary series, in their order), or "auto": that of the first two, or
        of many statistics the third (of more than 250 that or "series"), under which held-out rows are
        denser; the second where a statistic has two to five values, whose probabilities it has, and there are
        twenty at most.
    particles : int
        Draws of a posterior that `condition` makes; further ones repeat these, moved a little. `sample_abc`
        takes as many as draws are asked for, where these are more.
    scale : bool, str, Summary or dict
        True for the curve of each statistic that evidence is for, discrete ones spread over their cells;
        False for their own units; "dependent" for the curves of those that depend on the parameters, the
        others left out; or summaries of them, whose likelihood then is learnt. The form
        "exchangeable" has one unit for all, and takes True alone. A dict declares scales: see `shift`.
    shift : dict, optional
        Of statistics x, by names or columns, the parameter t that shifts each: the distribution of x - t,
        given the statistics before it, does not depend on t. The same of ``scale={"x": "s"}`` is said of
        x / s, or of (x - t) / s, with s above zero. What is declared is exact, and is not learnt.
    lower, upper : dict, optional
        Of statistics the lowest, or highest, value: a number, or the name of a parameter. Beyond it the
        density is zero. The edge of a statistic that is shifted is the parameter that shifts it; of one that
        is scaled alone, 0, or as the upper edge the scale.
    conditions : sequence, optional
        Parameters, by names or columns, that are given and not inferred, such as a stimulus: `condition`
        takes their values, and its posteriors are those of the others. Elsewhere, as in `log_likelihood` and
        `LearnedSimulator`, they stay among the parameters.
    parameter_bandwidth : float, optional
        As of the other estimators; weights here need no projection.

    Attributes
    ----------
    choice_ : Choice
        Which form was taken, and how held-out rows are distributed under it.
    found_structure_ : dict of str to dict
        Shifts and scales that were found, as the arguments that declare the same; empty where none were.
        Of up to twenty statistics one that is continuous, lies on one side of a parameter (or of which the
        parameter is positive) in every row, depends on it, and does not once it is taken off (or divided
        by) is a candidate; so is one that depends on two parameters, and on neither once one is taken off
        and the result is divided by the other, which is positive. Candidates are taken if rows that were
        not fitted to are denser by two standard errors, and uniform in their transforms. The fit is the one
        that the declaration gives.
    structure_ : Structure or None
        What is declared or found, and `conditions_` the columns of conditions.
    statistics_left_out_ : int
        With ``scale="dependent"``, how many are constant or found to be independent of the parameters.
    simulated_range_ : ndarray of shape (2, p)
        Lowest and highest parameters of the table: beyond, nothing was learnt.

    Raises
    ------
    ValueError
        For arguments out of range, and before `fit`; by `fit`, for too few rows, for names that the table
        lacks, scales that are not positive, and edges with simulated values on or beyond them.

    Notes
    -----
    A form is a file of `pymc_kbr.estimators.likelihood`. Counts whose sum is the same in every row, up to
    twenty statistics, or shares of such a sum, are learnt in their order, each as a share of what those
    before it leave, given also earlier statistics that are no part of the sum: binomial, or beta-binomial
    where they vary more; the last one is the rest. A statistic that is a linear function of others in every
    row, such as the last of some continuous shares, is left out with a warning: the density is that of the
    others, an observation off the function is refused, and draws satisfy it.

    Posteriors are drawn by tempered sequential Monte Carlo; where a parameter is discrete with few values, or
    has values with a probability of their own,
    rows are weighted by their likelihood.

    Examples
    --------
    >>> theta, noise = np.random.default_rng(0).normal(size=(2, 500, 1))
    >>> learnt = KernelLikelihood("location_scale").fit(theta, theta + noise)
    >>> trials = np.array([[0.4], [1.6], [1.0]])  # their exact posterior has mean 0.75, deviation 0.5
    >>> abs(learnt.condition(trials, trials=True).mean()[0] - 0.75) < 0.15
    np.True_
    """

    simulated_range_: np.ndarray
    reads_missed = True
    """Whether a value that no simulation has, one step from a rare one of few values, is read as that one."""
    _evaluation: Evaluation
    _inputs: np.ndarray | None = None
    _shared: tuple[Total, ...] = ()
    smoothing = "repeats"
    takes_draws = draws_as_asked = multiplies_prior = True
    _to_be_compared = False
    _found = Declared.nothing()
    _taken: Declared | None = None
    _before: KernelLikelihood | None = None
    _coordinates: tuple[list[float], list[int], list[str]] = [], [], []
    structure_: Structure | None = None
    conditions_: np.ndarray | None = None
    _input_support: Support | None = None
    _every_name: tuple[str, ...] | None = None
    shift = lower = upper = conditions = None  # which what was saved before they could be declared lacks

    def __init__(
        self,
        form: str = "auto",
        particles: int = 2000,
        *,
        scale: bool | str | Summary | Mapping[Any, Any] = True,
        shift: Mapping[Any, Any] | None = None,
        lower: Mapping[Any, Any] | None = None,
        upper: Mapping[Any, Any] | None = None,
        conditions: Sequence[Any] | None = None,
        parameter_bandwidth: float | None = None,
    ) -> None:
        self.form = form
        self.particles = particles
        self.scale: Any = scale
        self.shift = shift
        self.lower = lower
        self.upper = upper
        self.conditions = conditions
        self.parameter_bandwidth = parameter_bandwidth

    def scale_of_statistics(self) -> bool | str | Summary:
        """How the table's statistics are scaled.

        Returns
        -------
        bool, str or Summary
            The argument `scale`; for True "transformed", or "common" for the form "exchangeable".
        """
        if self.scale is not True and not isinstance(self.scale, Mapping):
            return self.scale
        exchangeable = isinstance(self.form, str) and self.form == "exchangeable"
        return "common" if exchangeable else "transformed"

    def _check(self, n: int, streamed: bool) -> None:
        check_settings(self.particles, self.form, tuple(FORMS), self.scale)
        if (declared := self._declared()) and self.names_.parameters and self.names_.statistics:
            Structure.of(declared, self.names_, len(self.names_.parameters), len(self.names_.statistics))
        if self.conditions is not None and self.names_.parameters:
            self._columns_of_conditions(self.names_, len(self.names_.parameters))

    def _columns_of_conditions(self, names: Names, p: int) -> np.ndarray | None:
        """Numbers of the parameters that are conditions."""
        if self.conditions is None:
            return None
        if isinstance(self.conditions, str) or not isinstance(self.conditions, Sequence):
            raise TypeError(
                f"conditions is {shown(self.conditions)}; give a list of parameters, by names or columns"
            )
        found = [column_of(each, names.parameters, p, "a condition") for each in self.conditions]
        if len(set(found)) < len(found) or not 0 < len(found) < p:
            raise ValueError(
                f"conditions is {list(self.conditions)}, of {p} parameters; give some of them, each once: "
                "what is left is inferred"
            )
        return np.array(found)

    def _declared(self) -> Declared:
        """What is declared of statistics, refused where it cannot be."""
        scale = self.scale if isinstance(self.scale, Mapping) else None
        declared = Declared.of(self.shift, scale, self.lower, self.upper)
        if declared and (self.scale_of_statistics() != "transformed"):
            raise ValueError(
                "shift, scale, lower or upper is declared of some statistics, and "
                + ("the form is 'exchangeable'" if self.form == "exchangeable" else f"scale={self.scale!r}")
                + "; what is declared is of the statistics themselves: leave one of the two out"
            )
        return declared

    @property
    def declares(self) -> bool:
        """Whether shifts, scales or edges of statistics are declared."""
        return bool(self._declared())

    @property
    def declared_parameters(self) -> set[Any]:
        """Names, or columns, of the parameters that shift, scale or bound statistics."""
        return {of for given in self._declared() for of in given.values() if not isinstance(of, float)}

    @property
    def found_structure_(self) -> dict[str, dict[Any, Any]]:
        """What the table showed: the arguments `shift` and `scale` that declare the same."""
        self._refuse_unfitted()
        names = self._names_of(self.table_)
        if self.conditions_ is not None:
            names = replace(names, parameters=self.input_names_)
        return self._found.by_names(names)

    def found_in_words(self) -> str:
        """What the table showed, as arguments.

        Returns
        -------
        str
            Empty where it is not fitted, or nothing was found.
        """
        if not hasattr(self, "table_"):
            return ""
        return ", ".join(f"{kind}={given}" for kind, given in self.found_structure_.items())

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        found = self.found_in_words()
        return super().__repr__(N_CHAR_MAX) + (f" with {found} found in the table" if found else "")

    def settings(self) -> dict[str, float]:
        """The numbers that were given or chosen.

        Returns
        -------
        dict of str to float
            As every estimator's, and `structure_found`, of how many statistics `found_structure_` says
            something, where it does.
        """
        count = len(set().union(*self._found))
        return super().settings() | ({"structure_found": float(count)} if count else {})

    def in_form_of(self, compared: KernelLikelihood) -> KernelLikelihood:
        """Itself, to be fitted with the form, structure and kernels of one that was fitted to fewer rows.

        Parameters
        ----------
        compared : KernelLikelihood

        Returns
        -------
        KernelLikelihood
            Itself.
        """
        self.set_params(form=compared.choice_.name)
        self._taken, self._before = compared._found, compared
        return self

    def _sought(
        self,
        *,
        # A thousandth of a nat counts for 500 trials: fewer rows do not show it;
        # tests/statistical/found_structure.csv.
        most_held_out: int = 10_000,
    ) -> Declared:
        """What the table shows, where nothing is declared: rows that were not fitted to are denser."""
        table, nothing = self.table_, Declared.nothing()
        n, d = len(table), table.scaler.size
        given = (self.shift, self.lower, self.upper) != (None, None, None) or self.scale is not True
        if given or self.form != "auto" or table.raw is None or d > MOST_SPARINGLY:
            return nothing
        raw = table.raw
        found = candidates(raw, table.parameters)
        if not found:
            return nothing
        # Draws of its own: what is found gives the same fit as if it were declared.
        own = np.random.default_rng(0)
        order, count = own.permutation(n), min(4 * n // 5, 5 * ROWS_FOR_FORMS // 4)
        rows, held_out = order[:count], order[count : count + most_held_out]

        def logs_of(declared: Declared) -> tuple[np.ndarray, float]:
            part = self._fitted_to_rows(
                table.parameters, rows, np.random.default_rng(0), form="auto", known=declared
            )
            evaluation = part._evaluation
            described = part.describe(table.parameters[held_out])
            logs = evaluation.log_density(described, evaluation.prepare(raw[held_out]))
            return logs, part.transforms_pvalue_

        try:
            without, (logs, pvalue) = logs_of(nothing)[0], logs_of(found)
        except (ValueError, np.linalg.LinAlgError):
            return nothing  # what is wrong with the table, the fit to all rows says
        possible = np.isfinite(without)
        if pvalue < NOT_UNIFORM or not np.all(np.isfinite(logs)) or not np.any(possible):
            return nothing
        gain = (logs - without)[possible]
        # Two standard errors, as in a race.
        return found if gain.mean() > 2.0 * gain.std() / np.sqrt(len(gain)) else nothing

    def _structure_of(self, table: FittedTable, declared: Declared) -> Structure | None:
        """What is declared, or found, of the columns of a table."""
        if not declared:
            return None
        p, d = table.parameters.shape[1], table.scaler.size
        names = self._names_of(table)
        structure = Structure.of(declared, names, p, d)
        assert table.raw is not None
        structure.check_rows(table.raw, table.parameters, names)
        return structure

    _log_mass = 0.0  # which what was saved by 0.2.0.dev0 lacks

    def _fit(self, rng: np.random.Generator) -> None:
        table = self.table_
        self._inputs = self._input_support = self.conditions_ = None
        taken, before = self.__dict__.pop("_taken", None), self.__dict__.pop("_before", None)
        declared = self._declared()
        self._found = Declared.nothing()
        if not declared:
            declared = self._found = self._sought() if taken is None else taken
        points = table.statistics
        scaler, fitted = table.scaler, table.scaler.kept
        if isinstance(table.scaler, Dependent):
            scaler, fitted = table.scaler.curved, table.scaler.fitted
            self.statistics_left_out_ = int(np.sum(~fitted))
        structure = self._structure_of(table, declared)
        self._shared = self._totals(scaler, structure)
        of_parameters = ParameterScale.fit(table.parameters, table.support)
        if self._shared and table.raw is not None:
            of_parameters = scale_for_totals(
                of_parameters, table.parameters, table.support, table.raw, self._shared
            )
        theta = every = of_parameters(table.parameters)
        known = NOTHING_KNOWN
        if structure is not None:
            assert table.raw is not None
            discrete = [column for column in structure.edges if Cells.of(table.raw[:, column]) is not None]
            edges = {column: structure.edges[column] for column in discrete}
            structure = structure.without(discrete)
            reduced = structure.reduced(table.raw, table.parameters)
            ranges = dict(zip(structure.columns.tolist(), structure.ranges, strict=True))
            scaler = Transformed.fit(reduced, table.parameters, ranges, edges)
            if np.any(lost := table.scaler.kept & ~scaler.kept):
                raise FunctionOfParameters(int(np.flatnonzero(lost)[0]))
            kinds = [curve.kind for curve in scaler.curves]
            structure = structure.with_curves(
                dict(zip(np.flatnonzero(scaler.kept).tolist(), kinds, strict=True))
            )
            points, fitted, theta = scaler.transform(reduced), scaler.kept, seen_of(theta, structure.used)
            known = Known(structure.inputs(fitted))
        self.structure_ = structure
        linear = self._linear_statistics(scaler, structure)
        if linear is not None and isinstance(scaler, Transformed):
            points = points[:, ~np.isin(np.flatnonzero(fitted), linear.columns)]
            scaler = scaler.without(linear.columns)
            fitted = scaler.kept
            if structure is not None:
                known = known._replace(inputs=structure.inputs(fitted))
        points, levels = dequantise(scaler, points, self.form, rng)
        if structure is not None and len(structure.columns) and any(levels):
            # What has few values is first: of those after it there is then a distribution for each.
            first = np.argsort([each is None for each in levels], kind="stable")
            known = known._replace(order=tuple(first.tolist()))
        places = np.cumsum(fitted) - 1
        totals = tuple(
            each._replace(columns=tuple(int(places[c]) for c in each.columns)) for each in self._shared
        )
        if totals:
            known = known._replace(totals=totals)
            shared = {place for total in totals for place in total.columns}
            levels = tuple(None if place in shared else each for place, each in enumerate(levels))
            levels = levels if any(levels) else ()
        grids = scaler.grids(levels) if isinstance(scaler, Transformed) else ()
        if self.form in ("auto", "autoregressive", "location_scale"):
            known = known._replace(grids=grids) if grids else known
        few = self._to_be_compared
        check_rows(every, points, fitted, draws=self.form == "exchangeable")
        names = forms_of(points.shape[1], levels) if self.form == "auto" else [self.form]
        if totals:
            names = ["autoregressive"]  # no other has a total
        if not np.any(np.ptp(theta, axis=0)) and not levels:
            names = ["location_scale"]  # one distribution for all parameters
        elif self.form == "auto" and points.shape[1] == 1 and any(grids):
            # Where cells are wide beside the spread, no density follows their steps.
            wide = grids[0] is not None and grids[0].lowest(points[:, 0], 1) is not None
            names = ["autoregressive"] if wide else names
        self._coordinates = _coordinates(of_parameters, scaler, fitted)
        if (
            before is not None
            and before.choice_.name in names
            and before._coordinates[:2] == self._coordinates[:2]
        ):
            # What its own held-out rows said of the form is not asked again.
            self.choice_, compared, rows_before = before.choice_, before.form_, len(before.table_)
            if isinstance(compared, Autoregressive):
                both = zip(before._coordinates[2], self._coordinates[2], strict=True)
                compared = compared.with_kernels([then == now for then, now in both])
        else:
            self.choice_, compared = choose_form(theta, points, names, rng, levels, known, every)
            rows_before = 0
        self.form_ = compared
        if not few:
            self.form_ = fit_chosen(
                self.choice_.name, compared, theta, points, rng, levels, known, rows_before
            )
        if isinstance(self.form_, LocationScale) and points.shape[1] == 1:
            self.form_ = replace(self.form_, grids=known.grids)
        self.transforms_pvalue_ = self.choice_.pvalue
        raw = isinstance(self.form_, Exchangeable) and not self.form_.in_order
        if isinstance(self.form_, Exchangeable) and not few:
            warn_if_not_exchangeable(points, theta)
        # Of raw draws the transforms are those of their order, which are no columns.
        if isinstance(scaler, Scaler | Transformed) and not raw:
            self.transforms_worst_ = int(np.flatnonzero(fitted)[self.choice_.worst])
        self.simulated_range_ = np.array([table.parameters.min(axis=0), table.parameters.max(axis=0)])
        outcome = None if table.success is None or table.success.condition else table.success
        summary = table.scaler if structure is None and linear is None else scaler
        atoms = None
        if isinstance(self.form_, Exchangeable) and self.form_.masses is not None and table.raw is not None:
            given, number = table.raw[:, fitted], self.form_.number(points)
            values, rounding = self.form_.masses.atoms[:2]
            number = np.where(points > values[-1] + rounding, len(values), number)
            # Of counts some may have been left out by chance: they lie evenly between the others.
            places, first = np.unique(number, return_index=True)
            there = places < len(values)
            atoms = np.interp(np.arange(len(values)), places[there], given.reshape(-1)[first[there]])
        self._evaluation = Evaluation(self.form_, of_parameters, summary, outcome, structure, linear, atoms)
        self.conditions_ = self._columns_of_conditions(self._names_of(table), table.parameters.shape[1])
        if self.conditions_ is not None:
            self._set_conditions_aside(self.conditions_)
        self._start(rng)

    def _totals(self, scaler: Any, structure: Structure | None) -> tuple[Total, ...]:
        """Counts that share a total."""
        raw = self.table_.raw
        if raw is None or type(scaler) is not Transformed or self.form not in ("auto", "autoregressive"):
            return ()
        if raw.shape[1] > MOST_SPARINGLY:
            return ()
        declared = set() if structure is None else set(structure.columns.tolist()) | set(structure.edges)
        return tuple(each for each in shared_totals(raw) if declared.isdisjoint(each.columns))

    def _linear_statistics(self, scaler: Any, structure: Structure | None) -> LinearStatistics | None:
        """Statistics that others determine, and which are left out; a warning says so."""
        raw = self.table_.raw
        if raw is None or type(scaler) is not Transformed:
            return None
        apart = {column for total in self._totals(scaler, structure) for column in total.columns}
        if structure is not None:
            apart |= set(structure.columns.tolist()) | set(structure.edges)
        found = LinearStatistics.of(raw, apart)
        if found is not None and not self._to_be_compared:
            names = self._names_of(self.table_)
            which = ", ".join(names.statistic(column) for column in found.columns.tolist())
            several = "s" if len(found.columns) > 1 else ""
            warnings.warn(
                f"the statistic{several} {which} {'are' if several else 'is'} in every simulation a linear "
                "function of others, as the last share of a whole is: the likelihood is the density of the "
                "others, which say the same",
                UserWarning,
                stacklevel=users_line(),
            )
        return found

    def _names_of(self, table: FittedTable) -> Names:
        return table.names if self.names_ == Names() and table.names is not None else self.names_

    def _set_conditions_aside(self, conditions: np.ndarray) -> None:
        """Leave as parameters of the posterior those that are no conditions."""
        table, names = self.table_, self.names_
        if table.draws is not None or table.success is not None:
            raise ValueError(
                "conditions are declared, and the table has failures or the prior is given by draws, of all "
                "parameters together; leave one of the two out"
            )
        others = np.delete(np.arange(table.parameters.shape[1]), conditions)
        self.table_ = replace(
            table, parameters=table.parameters[:, others], support=table.support.of_columns(others)
        )
        self._every_name, self._inputs = names.parameters, table.parameters
        self._input_support = table.support
        if names.parameters is not None:
            self.names_ = replace(names, parameters=tuple(names.parameters[i] for i in others))
        self.parameter_kernel_ = self._parameter_kernel()

    def _start(self, rng: np.random.Generator) -> None:
        """The prior, and rows with log weights that make them draws of it."""
        self._rows, self._log_weights, self._log_mass = start_rows(self.table_)
        self._seed = int(rng.integers(2**63))  # conditioning again draws the same
        self.prior_estimated_ = float(self._given_log_prior is None)
        for of_the_fit_before in ("log_prior_", "_log_integral"):
            self.__dict__.pop(of_the_fit_before, None)
        if self._given_log_prior is not None:
            self.log_prior_ = self._given_log_prior
        self._described = self._of_posteriors.describe(self._rows)

    @property
    def input_names_(self) -> tuple[str, ...] | None:
        """Names of the p parameters, with those that are conditions; None where they have none."""
        return self.names_.parameters if self.conditions_ is None else self._every_name

    @property
    def _of_posteriors(self) -> Any:
        """The evaluation at parameters of the posterior."""
        if self.conditions_ is None:
            return self._evaluation
        others = np.delete(np.arange(self.parameters_size), self.conditions_)
        return AtConditions(self._evaluation, self.conditions_, others)

    @property
    def weighs_rows(self) -> bool:
        """Whether the weights are those of the table's rows."""
        return getattr(self, "table_", None) is None or self.table_.draws is None

    def for_scores(self) -> Self:
        """A copy for posteriors that are only compared.

        Returns
        -------
        KernelLikelihood
            A copy that makes few draws of each; if not fitted yet, it is fitted to fewer rows.

        Raises
        ------
        ValueError
            If it has conditions.
        """
        if self.conditions is not None:
            raise ValueError(
                "the likelihood has conditions, which no held-out row is scored at; fit it to the table"
            )
        few: Self = copy(self) if hasattr(self, "table_") else clone(self)
        # As many draws of each of many posteriors as a comparison needs.
        few.particles, few._to_be_compared = min(self.particles, 200), True
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
        other.__dict__.pop("_log_integral", None)
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
        exact.__dict__.pop("_log_integral", None)
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
        alone.names_, alone._found = self.names_.of_statistics(columns), self._found.of_columns(columns)
        alone.__dict__.pop("transforms_worst_", None)  # a number among all
        alone._shared = ()
        alone.__dict__.pop("score_check_", None)
        return alone

    @cached_property
    def simulated_region_(self) -> SimulatedRegion:
        """Which combinations within `simulated_range_` rows are near: all that `LearnedSimulator` takes."""
        return SimulatedRegion.of(self.table_.parameters if self._inputs is None else self._inputs)

    @property
    def statistics_values_(self) -> tuple[tuple[float, float] | np.ndarray, ...]:
        """Of each statistic the lowest and the highest simulated value, or all values of a discrete one.

        No values of one that has a density and values with a probability of their own.
        """
        self._refuse_unfitted()
        raw = self.table_.raw
        assert raw is not None
        found: list[tuple[float, float] | np.ndarray] = []
        for column in raw.T:
            cells = Cells.of(column)
            if cells is not None and cells.between:
                found.append(np.empty(0))
            elif cells is None:
                found.append((float(column.min()), float(column.max())))
            elif cells.spacing:
                steps = round(float(np.ptp(column)) / cells.spacing)
                found.append(column.min() + cells.spacing * np.arange(steps + 1))
            else:
                found.append(np.unique(column))
        return tuple(found)

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
        for name in ("simulated_region_", "score_check_"):
            self.__dict__.pop(name, None)  # that of the fit before
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
        message = misfit_message(getattr(self, "transforms_pvalue_", 1.0), worst, f" of {variable}")
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

    def refuse_impossible(self, observed: ArrayLike, numbers: np.ndarray | None = None) -> None:
        """Refuse observations that have a value which the model does not make.

        Parameters
        ----------
        observed : ndarray of shape (n, d)
        numbers : ndarray of shape (n,), optional
            Of the rows, for what is said of one; their places where left out.

        Raises
        ------
        ValueError
            If a value lies beyond the edge of its statistic for all simulated parameters, or between the
            values of a discrete one.
        """
        rows = self._trials(observed)
        read = self._evaluation.nearest_level(rows)[0] if self.reads_missed else rows
        self._prepare(read, conditioned=True, numbers=numbers)

    def _prepare(
        self,
        rows: np.ndarray,
        *,
        conditioned: bool = False,
        between: tuple[np.ndarray, np.ndarray] | None = None,
        numbers: np.ndarray | None = None,
    ) -> Prepared:
        """Observations (n, d) in the units of the fit; of no volume, hence no density, where impossible."""
        # They may lie anywhere `between` two ends (n, d); messages say the `numbers` (n,) of the user's rows.
        numbers = np.arange(len(rows)) if numbers is None else numbers
        prepared = self._evaluation.prepare(rows)
        beyond_edges = np.zeros(len(rows), dtype=bool)
        if self._evaluation.structure is not None:
            ends = (rows, rows) if between is None else between
            beyond_edges = self._evaluation.structure.impossible(*ends, *self.simulated_range_)
        given = rows
        if between is not None:  # what is missing is not what stands in its place
            hidden = np.where(np.isfinite(between[0]), between[0], between[1])
            given = np.where(between[0] == between[1], rows, np.where(np.isfinite(hidden), hidden, np.nan))
        for columns, total, unit in self._shared:
            low, high = (
                each[:, list(columns)] / unit for each in ((rows, rows) if between is None else between)
            )
            lowest, highest = np.maximum(low, 0).sum(axis=1), high.sum(axis=1)
            # Half of one is left to rounding: of shares and of counts a wrong sum is off by one at least.
            wrong = np.flatnonzero((lowest > total + 0.5) | (highest < total - 0.5))
            if conditioned and len(wrong):
                called = ", ".join(
                    self.names_.statistic(column).removeprefix("in column ") for column in columns
                )
                raise ImpossibleObservation(
                    wrong,
                    f"row {numbers[wrong[0]]} of the observations, {given[wrong[0]]}, has counts, or "
                    f"shares, in the columns {called} whose sum is not {total * unit:.6g}, as it is in every "
                    "simulation: look at the data, or leave one of these statistics out",
                )
            beyond_edges[wrong] = True
        if (linear := self._evaluation.linear) is not None:
            wrong = np.flatnonzero(linear.wrong(rows))
            if conditioned and len(wrong):
                called = ", ".join(self.names_.statistic(column) for column in linear.columns.tolist())
                raise ImpossibleObservation(
                    wrong,
                    f"row {numbers[wrong[0]]} of the observations, {given[wrong[0]]}, is off the linear "
                    f"function of the other statistics that {called} is in every simulation, as shares whose "
                    "sum is not one: look at the data, or leave one of these statistics out",
                )
            beyond_edges[wrong] = True
        unseen = np.flatnonzero(prepared.off() | beyond_edges)
        if conditioned and len(unseen):
            why = (
                "beyond the edge that its statistic has for all simulated parameters"
                if beyond_edges[unseen[0]]
                else "that a discrete statistic does not take"
            )
            raise ImpossibleObservation(
                unseen,
                f"row {numbers[unseen[0]]} of the observations, {given[unseen[0]]}, has a value {why}: the "
                "model does not make it; look at the data, or leave the statistic out",
            )
        off = np.any(impossible(rows, self.table_), axis=1, keepdims=True) | beyond_edges[:, None]
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

    def _parameters(self, parameters: ArrayLike) -> np.ndarray:
        """Parameters (k, p), a data frame's in the order of the table."""
        given = parameters_by_name(parameters, self.input_names_)
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
        read, found = self._evaluation.nearest_level(rows)
        warn_of_nearest_level(found, self.names_)
        warn_of_counts_above(self._evaluation.above_counts(rows), self.names_)
        return read

    def _near(self, rows: np.ndarray) -> np.ndarray:
        """Observations (k, d) as `_possible`, refused where squares of their distances overflow."""
        read = self._possible(rows)
        # What is declared has units of its own, in which every value is a number.
        if self._evaluation.structure is None:
            check_scaled(self.table_.scaler.transform(read), read)
        return read

    def log_likelihood(
        self, parameters: ArrayLike, observed: ArrayLike, *, censored: Any = None
    ) -> np.ndarray:
        """Log-likelihood of one observation, or of the independent trials of one data set.

        Parameters
        ----------
        parameters : ndarray of shape (k, p)
            A data frame is put in the order of the table's names, where it has these.
        observed : ndarray of shape (d,) or (r, d)
            The log densities of r trials are summed. Missing statistics (NaN) are integrated out.
        censored : dict, optional
            Limits of statistics: see `condition`.

        Returns
        -------
        ndarray of shape (k,)
            Densities are in the statistics' own units; of discrete ones, and of what is beyond a limit, they
            are probabilities. Beyond
            `simulated_range_` they are what the fitted formula says, which nothing supports. Minus infinity
            where a statistic is the same in all simulations and another in the observation, or where the
            probabilities of a statistic's few values were learnt and it has a value that no simulation has;
            but one step from a value of the lattice that few simulations have it has that one's probability,
            which is mostly too high for it.

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, parameters or observation have another shape or other names, a value is
            infinite or beyond a limit, or the form does not allow what is hidden.

        Warns
        -----
        PosteriorWarning
            As `prepare`.
        """
        self._refuse_unfitted()
        limits = self.limits(censored)
        given = by_name(observed, self.names_.statistics, gaps=True)
        if censored is None and not np.any(np.isnan(given)):
            trials = self._possible(self._trials(observed))
            return self.log_likelihood_of(self._parameters(parameters), trials)
        sets, _ = trials_of(np.atleast_2d(given), self.statistics_size)
        limits.check(sets[0], "the observation", self.names_.statistics)
        every = np.arange(self.parameters_size)
        lower, upper = limits.bounds(sets[0])
        found = [
            Trials(part.evaluation, part.prepared, np.zeros((len(part.rows), 0)), np.ones(len(part.rows)))
            for part in self.prepare_parts(lower, upper)
        ]
        at = AtConditions(self._evaluation, every[:0], every)
        return at.log_likelihood(self._parameters(parameters), DataInParts(tuple(found)))

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

    def bias_for(self, trials: int, at: ArrayLike) -> TrialBias:
        """How far the posterior of many independent trials of one parameter is expected to be off.

        Errors of a likelihood that hardly show in one trial add up over many. Where the density p(x | t) is
        right, its score s = d log p(x | t) / dt has mean zero at the parameter t of each row, whatever the
        prior of the rows. With its mean b(t) and the information I(t), the mean of s s', the posterior of
        r trials has the precision G = r I + P, where P is the prior's. Its mean lies off by r G^-1 b, which
        is in parameter j::

            r (G^-1 b)_j / sqrt((G^-1)_jj)

        posterior deviations: sqrt(r) I^-1/2 b, where there is one parameter and r is large. Scores of the
        table's rows, regressed on t, say what the form of the likelihood cannot follow. They do not say what
        is due to chance in the rows, to which the density was fitted: its size is found from fits to n' of
        the n rows, whose scores in rows that they have not seen differ by d(t) on average. As an error of
        estimation falls with the number of rows, the fit to all has the variance E[d d'] n' / (n - n'),
        which is part of the standard error.

        Parameters
        ----------
        trials : int
            How many, r.
        at : ndarray of shape (p,) or (k, p)
            The parameters, such as a posterior mean; k of them share the trials, such as conditions do that
            differ from trial to trial.

        Returns
        -------
        TrialBias
            For each parameter the shift of its posterior mean, in posterior deviations, and the standard
            error of that; and in one number the error that is expected, `expected`.

        Raises
        ------
        TypeError, ValueError
            If it is not fitted, the arguments have another shape or type, or the table has too few rows.

        Notes
        -----
        The other fits are made when this is first asked for, with little effort and 2,500 rows at most; they
        are kept, also by `save`. Of fits to 20,000 rows that takes a few seconds.

        Examples
        --------
        >>> theta, noise = np.random.default_rng(0).normal(size=(2, 1000, 1))
        >>> learnt = KernelLikelihood("location_scale").fit(theta, theta + noise)
        >>> learnt.bias_for(trials=10, at=[0.0]).expected < 0.5
        True
        """
        self._refuse_unfitted()
        whole("trials", trials)
        points = check_parameters(parameters_by_name(at, self.input_names_, "at"), self.parameters_size)
        if not len(points):
            raise ValueError(f"at has no rows; give parameters (p,) or (k, p) with p = {points.shape[1]}")
        shift, error = self.score_check_(trials, points)
        return TrialBias(trials, points, shift, error, self.names_.parameters)

    @cached_property
    def score_check_(self) -> ScoreCheck:
        """What the scores of the table's rows say of many trials; computed when it is first asked for."""
        table, rng = self.table_, np.random.default_rng(0)
        inputs = table.parameters if self._inputs is None else self._inputs
        n, p = inputs.shape
        # Of a form that is compared a fifth of the rows is held out: it is fitted to half of all, at most.
        given = 5 * min(n // 2, ROWS_FOR_FORMS) // 4
        used = given - min(given // 5, MOST_COMPARED_ON)
        least = fewest_rows(p, self.statistics_size)
        if used < least or table.raw is None:
            raise ValueError(
                f"the likelihood was fitted to {n} rows; what many trials would show is learnt by fits to "
                f"half of them, which need at least {least}: simulate {2 * least} or more"
            )
        columns = np.delete(np.arange(p), [] if self.conditions_ is None else self.conditions_)
        order, number = rng.permutation(n), np.arange(n)
        parts = []
        with self._threads():
            # Two fits: of one alone the squared difference of scores scatters by its own size.
            for first in (0, n - given):
                rows = order[first : first + given]
                part = self._fitted_to_rows(inputs, rows, rng, self.choice_.name, self._found)
                unseen = (number < first) | (number >= first + given)
                parts.append((part._evaluation, unseen, used / (n - used)))
            return ScoreCheck.of(self._evaluation, parts, inputs[order], table.raw[order], columns)

    def _fitted_to_rows(
        self, inputs: np.ndarray, rows: np.ndarray, rng: np.random.Generator, form: str, known: Declared
    ) -> Self:
        """A form, with what the table shows, fitted to some rows as one that is compared."""
        part: Self = clone(self).set_params(form=form, conditions=None)
        part._taken = known
        part._to_be_compared, part._given_log_prior = True, None
        part.names_ = replace(self.names_, parameters=self.input_names_)
        table = self.table_
        assert table.raw is not None
        few = replace(
            table,
            statistics=table.statistics[rows],
            parameters=inputs[rows],
            support=table.support if self._input_support is None else self._input_support,
            raw=table.raw[rows],
            size=len(rows),
            rows=None,
            ratio=None,
            draws=None,
            success=None,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of all rows the same was said
            return part.fit_table(few, rng)

    def where_likely(self, trials: np.ndarray) -> np.ndarray:
        """Roughly where the data of one parameter set put it: the mean of some rows by their likelihood.

        Parameters
        ----------
        trials : ndarray of shape (r, d)

        Returns
        -------
        ndarray of shape (p,)
        """
        inputs = self.table_.parameters if self._inputs is None else self._inputs
        # Of rows and of trials so many are enough for a warning.
        rows, some = (spread_out(len(each), 500) for each in (inputs, trials))
        read = self._evaluation.nearest_level(trials[some])[0] if self.reads_missed else trials[some]
        with self._threads():
            logs = self._evaluation.log_likelihood(
                self.describe(inputs[rows]), self._evaluation.prepare(read)
            )
        if not np.any(np.isfinite(logs)):
            return inputs[rows].mean(axis=0)
        return np.exp(logs - logsumexp(logs)) @ inputs[rows]

    def warn_if_biased(self, variable: str, trials: int, at: ArrayLike) -> None:
        """Say where the posterior of so many trials is expected to be off by half a deviation or more.

        Parameters
        ----------
        variable : str
            What the trials are called.
        trials : int
        at : ndarray of shape (p,) or (k, p)
            As in `bias_for`.

        Warns
        -----
        PosteriorWarning
            That names the parameter which is worst, and says what to do.
        """
        try:
            bias = self.bias_for(trials, at)
        except ValueError:  # a table of so few rows has nothing to say
            return
        if bias.expected > 0.5:  # posterior deviations: less is hardly seen beside its width
            warnings.warn(
                f"from {trials} trials of {variable} posterior means are expected to be off by "
                f"{bias.expected:.2g} posterior deviations, most in {bias.worst}: the learned likelihood "
                "of a trial is not exact enough for so many; simulate more rows, or declare what is known of "
                "the statistics (shift=, scale=, lower=, upper=); see `bias_for`",
                PosteriorWarning,
                stacklevel=users_line(),
            )

    def _within(self, log_prior: LogDensity) -> LogDensity:
        """The prior where there are simulations that succeeded, if that is a condition on the data."""
        success = self.table_.success
        if success is None or success.constant or not success.condition:
            return log_prior
        return lambda theta: np.where(success.reached(theta), log_prior(theta), -np.inf)

    def condition(
        self, observed: Any, *, trials: bool = False, conditions: Any = None, censored: Any = None
    ) -> Any:
        """The posterior given an observation, or given the independent trials of a data set.

        Parameters
        ----------
        observed : ndarray of shape (d,) or (k, d), NaN where missing; with `trials` (r, d), or a list of such
        trials : bool
            Whether rows are independent trials under the same parameters, whose likelihoods multiply, and
            not observations of their own. Data sets in a list may differ in their number r. Missing
            statistics of a trial (NaN) are integrated out.
        conditions : ndarray of shape (k, c), (r, c) or (c,), optional
            Where the likelihood has conditions: those of each observation, or trial, or of all of them. A
            list of such where data sets are in a list.
        censored : dict, optional
            Of trials: of statistics, by names or columns, a pair of a lower and an upper limit, one of which
            may be None, such as ``{"rt": (None, 1.5)}`` for a deadline. Each is a number, or of shape (r,). A
            trial whose value is a limit is known to lie there or beyond, and has the probability of that.

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
            As `Estimator.condition`; if trials are not of shape (r, d), are infinite or beyond a limit, or
            the form of the likelihood does not allow their gaps; and if conditions are missing, or given
            where none are declared.

        Warns
        -----
        PosteriorWarning
            If the posterior of so many trials is expected to be off by half a deviation or more: see
            `bias_for`.
        """
        self._refuse_unfitted()
        if conditions is None and self.conditions_ is not None:
            raise ValueError(
                f"the likelihood was fitted with the conditions {self.conditions}; say under which ones the "
                "observations were made: `condition(observed, conditions=...)`"
            )
        if conditions is not None and self.conditions_ is None:
            raise ValueError(
                "conditions are given, and the likelihood was fitted without any; fit "
                "KernelLikelihood(conditions=[...]) with the names of the parameters that are conditions"
            )
        if censored is not None and not trials:
            raise ValueError(
                "censored is given, and the observations are no trials; a single one is a data set of one "
                "trial: `condition(observed[None], trials=True, censored=...)`"
            )
        if not trials and conditions is None:
            return super().condition(observed)
        if trials:
            sets, single = trials_of(observed, self.statistics_size, self.names_.statistics)
        else:
            given = self.read(observed)
            sets, single = [row[None] for row in given.rows], given.single
        limits = self.limits(censored)
        for number, rows in enumerate(sets):
            limits.check(rows, "the data set" if single else f"data set {number}", self.names_.statistics)
        in_parts = bool(limits.columns) or any(np.any(np.isnan(rows)) for rows in sets)
        with self._threads():
            if not in_parts and self.conditions_ is None:
                prepared: list[Any] = [self._prepare(self._near(x), conditioned=True) for x in sets]
            else:
                each = conditions if trials and not single else [conditions]
                if self.conditions_ is None:
                    each = [np.zeros((len(x), 0)) for x in sets]
                elif not trials and not single:
                    each = rows_of_conditions(conditions, len(sets), len(self.conditions_))[:, None]
                prepared = [self._in_parts(data, one, limits) for data, one in zip(sets, each, strict=True)]
            posteriors = self._posteriors(prepared, in_parts=in_parts)
        if trials:
            # Of trials without anything nothing is off.
            some = [~np.all(np.isnan(rows), axis=1) for rows in sets]
            of_each: list[Any] = [None] * len(sets)
            if self.conditions_ is not None:
                of_each = [
                    rows_of_conditions(one, len(x), len(self.conditions_))[there]
                    for x, one, there in zip(sets, each, some, strict=True)
                ]
            counted = [rows[there] for rows, there in zip(sets, some, strict=True)]
            self._warn_of_trials(counted, posteriors, of_each)
        return posteriors[0] if single else posteriors

    def posteriors_of_trials(self, sets: Sequence[np.ndarray]) -> list[Posterior]:
        """Posteriors given complete data sets of trials, without a word of how many these are.

        Parameters
        ----------
        sets : sequence of ndarray of shape (r, d)

        Returns
        -------
        list of Posterior
        """
        with self._threads():
            return self._posteriors([self._prepare(self._near(x), conditioned=True) for x in sets])

    def limits(self, censored: Any) -> Limits:
        """Where statistics are censored.

        Parameters
        ----------
        censored : dict or None
            See `condition`.

        Returns
        -------
        Limits

        Raises
        ------
        TypeError, ValueError
            If these are no limits of statistics.
        """
        if censored is None:
            return Limits({}, {}, self.statistics_size)
        found = Limits.of(censored, self.names_.statistics, self.statistics_size)
        linear = self._evaluation.linear
        if linear is not None and (columns := sorted(linear.members & set(found.columns))):
            raise ValueError(
                f"the statistic {self.names_.statistic(columns[0])} is censored, and others are a linear "
                "function of it: leave one of them out of the table"
            )
        return found

    def prepare_parts(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        *,
        conditioned: bool = True,
        numbers: np.ndarray | None = None,
    ) -> list[Part]:
        """Observations between two ends, equal where a statistic is observed, by what is hidden of them.

        Parameters
        ----------
        lower, upper : ndarray of shape (n, d)
        conditioned : bool
            Whether to refuse what the model does not make, and not give it the density zero.
        numbers : ndarray of shape (n,), optional
            Of the rows, for what is said of one; their places where left out.

        Returns
        -------
        list of Part
            Rows of which nothing is known are in none.

        Raises
        ------
        ValueError
            If the form of the likelihood does not allow what is hidden.
        """
        raw = self._raw_statistics()
        linear = self._evaluation.linear
        if linear is not None:
            lower, upper = linear.between(lower, upper)
        seen = lower == upper
        read = np.where(seen, lower, raw[len(raw) // 2])
        if linear is not None:
            read = np.where(seen, read, linear.filled(read))
        read = self._possible(read)
        between = lower, upper = np.where(seen, read, lower), np.where(seen, read, upper)
        off = self._prepare(read, conditioned=conditioned, between=between, numbers=numbers).off()
        return [
            part._replace(
                prepared=part.prepared._replace(
                    log_volume=np.where(off[part.rows, None], -np.inf, part.prepared.log_volume)
                )
            )
            for part in parts_of(self._evaluation, lower, upper, raw)
        ]

    def between(self, limits: Limits) -> Between:
        """What evaluates observations that may be censored, whichever of them turn out to be.

        Parameters
        ----------
        limits : Limits

        Returns
        -------
        Between
        """
        columns = np.array(limits.columns)
        return Between(self, part_evaluation(self._evaluation, columns[:0], columns), limits)

    def _raw_statistics(self) -> np.ndarray:
        raw = self.table_.raw
        if raw is None:
            raise ValueError(
                "statistics are missing or censored, and the likelihood was fitted to rows that were read a "
                "part at a time; load the table or some rows (`stored.load(20_000)`)"
            )
        return raw

    def _in_parts(self, rows: np.ndarray, conditions: Any, limits: Limits) -> DataInParts:
        """A data set (r, d) by which of its statistics are hidden."""
        size = 0 if self.conditions_ is None else len(self.conditions_)
        given = conditions if not size else rows_of_conditions(conditions, len(rows), size)
        if not limits.columns and not np.any(np.isnan(rows)):
            prepared = self._prepare(self._near(rows), conditioned=True)
            return DataInParts((Trials(self._evaluation, prepared, given, np.ones(len(rows))),))
        lower, upper = limits.bounds(rows)
        # Trials that were cut off at one deadline are the same.
        key = np.concatenate([lower, upper, given], axis=1)
        _, first, counts = np.unique(key, axis=0, return_index=True, return_counts=True)
        parts = self.prepare_parts(lower[first], upper[first], numbers=first)
        found = []
        for part in parts:
            at = first[part.rows]
            found.append(Trials(part.evaluation, part.prepared, given[at], counts[part.rows]))
        return DataInParts(tuple(found))

    def _warn_of_trials(
        self, sets: Sequence[np.ndarray], posteriors: Sequence[Posterior], conditions: Sequence[Any]
    ) -> None:
        """Warn where the largest of the data sets has more trials than the likelihood is good for."""
        largest = int(np.argmax([len(each) for each in sets]))
        count, mean, given = len(sets[largest]), posteriors[largest].mean(), conditions[largest]
        if count == 1:
            return
        at = mean[None]
        if given is not None:
            assert self.conditions_ is not None
            at = np.empty((len(given), self.parameters_size))
            at[:, self.conditions_] = given
            at[:, np.delete(np.arange(self.parameters_size), self.conditions_)] = mean
        self.warn_if_biased("a data set", count, at)

    def _prepared(self, rows: np.ndarray) -> Sequence[Prepared]:
        """Complete observations (k, d), each by itself, in the units of the fit."""
        try:
            near = self._near(rows)
        except ValueError as error:  # others of them may be possible, for who compares models
            read = self._evaluation.nearest_level(rows)[0] if self.reads_missed else rows
            raise ImpossibleObservation(beyond(self.table_.scaler, read), str(error)) from None
        try:
            scaled = self.table_.scaler.transform(near)
            check_scaled(scaled, near)
        except ValueError:  # what is declared has units of its own, in which it is possible
            scaled = None
        return self._prepare(near, conditioned=True)._replace(scaled=scaled).each()

    def _beginning(self) -> Start:
        return Start(self._rows, self._described, self._log_weights, self._seed, self._log_mass)

    def _posteriors(self, prepared: Sequence[Any], *, in_parts: bool = False) -> list[Posterior]:
        start = self._beginning()
        support, settings, seen = self.table_.support, self.settings(), self.simulated_range_
        evaluation = self._of_posteriors
        if in_parts and self.conditions_ is None:
            every = np.arange(self.parameters_size)
            evaluation, start = (
                AtConditions(self._evaluation, every[:0], every),
                start._replace(described=start.rows),
            )
        if self.conditions_ is not None:
            seen = seen[:, evaluation.others]
        if not all(block.smooth and not any(block.atoms) for block in support.blocks):
            # Which particles cannot move in.
            weighted = weighted_rows(evaluation, start, prepared)
            drawn, smoothing = [(start.rows, weights, more) for weights, more in weighted], "local"
        else:
            free, integral = self._free_log_prior, self._log_integral
            made = drawn_posteriors(
                evaluation,
                start,
                prepared,
                support,
                lambda at: free(at) - integral,
                self.particles,
                clouds=self._clouds(prepared),
            )
            equal, smoothing = np.full(self.particles, 1 / self.particles), self.smoothing
            drawn = [(atoms, equal, more) for atoms, more in made]
        kernel, names = self.parameter_kernel_, self.names_.parameters
        found = []
        for atoms, weights, more in drawn:
            noted = {**settings, **more, "share_beyond_rows": share_beyond(seen, atoms, weights)}
            found.append(Posterior.of(Atoms(atoms, kernel), weights, support, noted, smoothing, names))
        return found

    def _clouds(self, prepared: Sequence[Any]) -> np.ndarray | None:
        """Near simulations, moved to each observation by regression, (k, c, p); None without these."""
        table = self.table_
        scaled = [data.scaled for data in prepared if isinstance(data, Prepared) and data.scaled is not None]
        if len(scaled) < len(prepared) or self.conditions_ is not None or table.streamed:
            return None
        free = table.support.forward(table.parameters, np.random.default_rng(self._seed))
        return regression_clouds(table.nearest, table.statistics, free, np.concatenate(scaled))

    @property
    def _free_log_prior(self) -> LogDensity:
        return free_log_density(self.table_.support, self._within(self.log_prior_))

    @cached_property
    def _log_integral(self) -> float:
        """That of the prior's density, over what the table's weighted rows are draws of."""
        start, rng = self._beginning(), np.random.default_rng(self._seed)
        rows = self.table_.support.forward(start.rows, rng)
        return log_integral(self._free_log_prior, rows, rng, start_log_weights=start.log_weights)

    def _row_weights(self, x: Any) -> RowWeights:
        values = [weights for weights, _ in weighted_rows(self._evaluation, self._beginning(), x)]
        return RowWeights(np.stack(values), points=None if self.table_.draws is None else self._rows)


class Between(NamedTuple):
    """Evaluates observations of which statistics are censored, where it may change which ones."""

    likelihood: KernelLikelihood
    evaluation: Evaluation
    limits: Limits

    def prepare(self, observed: np.ndarray) -> Prepared:
        """Observations (n, d), those at a limit there or beyond."""
        self.limits.check(observed, "the observed value", self.likelihood.names_.statistics)
        lower, upper = self.limits.bounds(observed)
        columns, raw = np.array(self.limits.columns), self.likelihood._raw_statistics()
        found = prepare_between(self.evaluation, columns[:0], columns, lower, upper, raw)
        off = self.likelihood.prepare(np.where(lower == upper, lower, raw[len(raw) // 2])).off()
        return found._replace(log_volume=np.where(off[:, None], -np.inf, found.log_volume))


def rows_of_conditions(conditions: Any, count: int, size: int) -> np.ndarray:
    """Conditions (n, c) of n observations, from those of each or of all."""
    found = np.asarray(as_rows("the conditions", conditions), dtype=float)
    if found.ndim == 1 and len(found) == count and size == 1:
        found = found[:, None]
    if found.shape == (size,) or (found.ndim == 0 and size == 1):
        found = np.tile(found.reshape(1, size), (count, 1))
    if found.shape != (count, size):
        raise ValueError(
            f"the conditions have shape {found.shape}; there are {count} observations and {size} conditions: "
            f"give ({count}, {size}), or ({size},) where they are the same for all"
        )
    if not np.all(np.isfinite(found)):
        raise ValueError("a condition is NaN or infinite; leave the observation out")
    return found


# --- posterior draws and weights ---


class Start(NamedTuple):
    """Rows that stand for the prior."""

    # Shapes: rows (n, p); described (n, w); log_weights (n,).
    rows: np.ndarray
    described: np.ndarray
    log_weights: np.ndarray | None
    seed: int
    log_mass: float = 0.0

    def fewer(self, most: int) -> Start:
        """At most so many of the rows: where all weigh the same, any of them are draws of the prior."""
        if len(self.rows) <= most or self.log_weights is not None:
            return self
        some = spread_out(len(self.rows), most)
        return self._replace(rows=self.rows[some], described=self.described[some])


def drawn_posteriors(
    evaluation: Evaluation,
    start: Start,
    prepared: Sequence[Prepared],
    support: Support,
    free_log_prior: Callable[[np.ndarray], np.ndarray],
    particles: int,
    clouds: np.ndarray | None = None,
    *,
    # That a thread evaluates together: each step is then worth another thread.
    most_in_part: int = 500,
    # The same where one statistic is evaluated after another, in smaller steps.
    most_of_conditionals: int = 2000,
    # Densities of trials at the rows that a data set starts from; tests/statistical/start_rows.csv.
    densities_at_start: int = 2_000_000,
    fewest_rows: int = 5000,
) -> list[tuple[np.ndarray, dict[str, float]]]:
    """Draws (particles, p) for each observation, by tempered sequential Monte Carlo, and what is noted."""
    lost = [data.impossible for data in prepared]
    prepared = [data.of_the_rest() if off else data for data, off in zip(prepared, lost, strict=True)]
    trials = max((len(data.points) for data in prepared), default=1)
    start = start.fewer(max(fewest_rows, densities_at_start // max(1, trials)))
    in_part = most_in_part
    if isinstance(evaluation.form, Autoregressive):
        in_part = most_of_conditionals
    with parallel_map(len(prepared) * particles) as map_:

        def log_likelihood(free: np.ndarray, numbers: np.ndarray) -> np.ndarray:
            found = np.empty(free.shape[:2])

            def fill(part: tuple[slice, slice]) -> None:
                some = free[part]
                described = evaluation.describe(support.backward(some.reshape(-1, some.shape[2])))
                data = [prepared[number] for number in numbers[part[0]]]
                found[part] = evaluation.log_likelihoods(described.reshape(*some.shape[:2], -1), data)

            map_(fill, _parts(len(free), free.shape[1], in_part))
            return found

        found = tempered(
            log_likelihood,
            free_log_prior,
            support.forward(start.rows, np.random.default_rng(start.seed)),
            np.concatenate(map_(partial(evaluation.at_rows, start.described), _in_groups(prepared))),
            particles,
            np.random.default_rng(start.seed),
            start_log_weights=start.log_weights,
            clouds=clouds,
        )
    evidence = np.where(lost, -np.inf, found.log_evidence + start.log_mass)
    found = replace(found, log_evidence=evidence)
    notes = ("log_evidence", "ancestors", "acceptance", "capped")
    return [
        (support.backward(free), {name: float(getattr(found, name)[i]) for name in notes})
        for i, free in enumerate(found.particles)
    ]


def _parts(observations: int, particles: int, most: int) -> Iterator[tuple[slice, slice]]:
    """Some observations with all their particles each, or some particles of one, at most so many."""
    together = max(1, most // particles)
    pieces = row_parts(particles, most)
    for first in range(0, observations, together):
        for rows in pieces:
            yield slice(first, first + together), rows


def _in_groups(
    prepared: Sequence[Prepared],
    *,
    # What depends on a row alone is computed once for these,
    together: int = 50,
    # and what depends on a value alone once for as many rows as `RESIDUALS_AT_ONCE` holds: 1,000 or more.
    values_together: int = 1000,
) -> list[Sequence[Prepared]]:
    """Data sets in groups that are evaluated together at the rows of the start."""
    if len({data.points.shape for data in prepared}) > 1:
        return [[data] for data in prepared]
    together = max(1, min(together, values_together // max(1, prepared[0].points.size)))
    return [prepared[i : i + together] for i in range(0, len(prepared), together)]


def weighted_rows(
    evaluation: Evaluation, start: Start, prepared: Sequence[Prepared]
) -> list[tuple[np.ndarray, dict[str, float]]]:
    """Weights (n,) of the rows for each observation, and what is noted: where parameters are discrete."""
    base = np.zeros(len(start.rows)) if start.log_weights is None else start.log_weights
    found = []
    for number, data in enumerate(prepared):
        logs = evaluation.log_likelihood(start.described, data.of_the_rest()) + base
        if not np.any(np.isfinite(logs)):
            raise ImpossibleObservation(np.array([number]))
        weights = np.exp(logs - logsumexp(logs))
        noted = {
            # Weights of the rows need not have sum one: the evidence is a mean under them.
            "log_evidence": -np.inf
            if data.impossible
            else float(logsumexp(logs) - logsumexp(base)) + start.log_mass,
            "ancestors": effective_sample_size(weights),
        }
        found.append((weights, noted))
    return found


def share_beyond(simulated_range: np.ndarray, atoms: np.ndarray, weights: np.ndarray) -> float:
    """Share of a posterior beyond what was simulated (2, p), where the likelihood is extrapolated."""
    lowest, highest = simulated_range
    return float(weights @ np.any((atoms < lowest) | (atoms > highest), axis=1))


def _coordinates(
    of_parameters: ParameterScale, scaler: Any, fitted: np.ndarray
) -> tuple[list[float], list[int], list[str]]:
    """How parameters are transformed, which statistics enter a fit, and the kinds of their curves."""
    columns = np.flatnonzero(fitted).tolist()
    curves = (
        [curve.kind for curve in scaler.curves] if isinstance(scaler, Transformed) else [""] * len(columns)
    )
    return of_parameters.sign.tolist(), columns, curves
