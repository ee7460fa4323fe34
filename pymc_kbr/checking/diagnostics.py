"""When not to trust a posterior, with what to do about it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from pymc_kbr.arrays.bijections import Interval
from pymc_kbr.arrays.outliers import Outliers, beyond_power_law, outliers, outliers_too
from pymc_kbr.arrays.refusals import times
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import column_quantiles
from pymc_kbr.checking.coarseness import Coarseness, remedy_of, rounds_ended
from pymc_kbr.checking.misspecification import among_rows
from pymc_kbr.checking.observation_support import ObservationSupport, support_of_observation
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.likelihood.choice import misfit_message
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.summaries.transformed import CommonScale, Dependent, Transformed
from pymc_kbr.posterior.posterior import Posterior, PosteriorWarning
from pymc_kbr.tables.origin import EDGE_TAIL
from pymc_kbr.tables.reference_table import ReferenceTable

# --- what warnings are computed from ---


@dataclass(frozen=True, eq=False)
class Signs:
    """What warnings about a posterior are computed from."""

    # Shapes: edges (2, p); cut (2, p).
    support: ObservationSupport
    pvalue: float
    outliers: list[Outliers]
    strange: list[Outliers]
    impossible: list[tuple[int, float, float]]
    edges: np.ndarray
    tail: float
    between_bounds: bool
    cut: np.ndarray
    rows: int
    parameter_names: list[str]
    statistic_names: list[str]
    discrete: list[bool]
    remedy: str
    rounds_ended: str = ""


def signs_of(
    table: ReferenceTable,
    scaled: FittedTable,
    measured: FittedTable | None = None,
    *,
    # Tail of a prior drawn between bounds beyond which its edges lie.
    bounded_tail: float = 0.05,
) -> Signs:
    """Look at a table with an observation."""
    observed, x, between = table.observed, table.statistics, table.origin.between_bounds
    assert observed is not None
    support, pvalue = support_of_observation(table, observed, scaled), 1.0
    # A rank among rows is a p-value where they are draws of the prior; by a seed of its own, since a table's
    # signs are the same in every call.
    if weighting_of(table).ratio is None and not between:
        pvalue = among_rows(table, observed[None], np.random.default_rng(0)).pvalue
    found = outliers(x)
    if found and measured is not None and isinstance(measured.scaler, Transformed | Dependent):
        # A logarithm may have brought them back among the others.
        fitted = measured.scaler.fitted if isinstance(measured.scaler, Dependent) else measured.scaler.kept
        found = outliers_too(found, measured.sample.statistics, np.flatnonzero(fitted))
    elif found and measured is not None and isinstance(measured.scaler, CommonScale):
        # One unit for all is no column's deviation; what is left are rows that no tail explains.
        found = beyond_power_law(x)
    constant = np.flatnonzero((np.ptp(x, axis=0) == 0) & (observed != x[0]))
    tail = bounded_tail if between else EDGE_TAIL
    return Signs(
        support,
        pvalue,
        found,
        beyond_power_law(table.parameters),
        [(int(j), float(x[0, j]), float(observed[j])) for j in constant],
        _edges_of_prior(table, tail),
        tail,
        between,
        _cut(table),
        len(table),
        table.parameter_names,
        table.statistic_names,
        [variable.discrete for variable in table.parameter_columns.variables for _ in range(variable.size)],
        remedy_of(table),
        rounds_ended(table),
    )


def _edges_of_prior(table: ReferenceTable, tail: float) -> np.ndarray:
    """Where the prior's edges are near: infinite where a model's prior is known to have none."""
    found = _quantiles_of_prior(table, tail)
    if table.provenance.get("simulated_by") != "a PyMC model" or table.origin.between_bounds:
        return found  # of a data frame without bounds nothing is known
    for block in table.support.blocks:
        columns, first = list(block.columns), block.steps[0] if block.steps else None
        if first is None or isinstance(first, Interval):
            lower, upper = (-np.inf, np.inf) if first is None else (first.lower, first.upper)
            found[0, columns] = np.where(np.isneginf(lower), -np.inf, found[0, columns])
            found[1, columns] = np.where(np.isposinf(upper), np.inf, found[1, columns])
    return found


def _quantiles_of_prior(table: ReferenceTable, tail: float) -> np.ndarray:
    """Quantiles of the prior alone, whatever known likelihood the rows are weighted by."""
    origin = table.origin
    if origin.prior_edges and tail == EDGE_TAIL:
        return np.array(origin.prior_edges)
    if origin.from_proposal and origin.known:  # files of before hold no weights without the likelihood
        return np.full((2, table.parameters.shape[1]), np.nan)
    weights = None if origin.known else weighting_of(table).ratio
    return column_quantiles(table.parameters, [tail, 1 - tail], weights)


def _cut(table: ReferenceTable) -> np.ndarray:
    cut = np.repeat([[-np.inf], [np.inf]], table.parameters.shape[1], axis=1)
    if table.origin.cut_edges:
        given = np.array(table.origin.cut_edges, dtype=float)
        cut = np.where(np.isnan(given), cut, given)
    return cut


@dataclass(frozen=True)
class Concern:
    """One reason not to trust a posterior; or, where it is none, something that is worth knowing of it."""

    name: str
    message: str
    doubt: bool = True


def diagnose(
    posterior: Posterior,
    draws: np.ndarray,
    seen: Signs,
    *,
    coverage: np.ndarray | None = None,
    held_out: int = 0,
    chosen: bool = False,
    coarse: Coarseness | None = None,
) -> list[Concern]:
    """The reasons not to trust a posterior."""
    # Shapes: draws (draws, p); coverage (p,).
    found = [
        *_coverage(coverage, held_out, seen),
        _effective_sample_size(posterior, chosen, seen),
        _negative_share(posterior, chosen),
        _ridge_raised(posterior),
        _transforms(posterior, seen),
        _extrapolated(posterior),
        _without_mass(posterior),
        *_impossible(seen),
        *_outliers(seen),
        *_strange(seen),
        *_edges(draws, seen),
        _outside(seen),
        _misspecified(seen),
        None
        if coarse is None or not coarse.coarse
        else Concern("coarse", coarse.message(seen.remedy, seen.rounds_ended)),
    ]
    return [concern for concern in found if concern is not None]


def warn(concerns: list[Concern]) -> None:
    """Show reasons for doubt as warnings, but for the one of which the estimator has warned itself."""
    for concern in concerns:
        if concern.doubt and concern.name != "impossible":
            warnings.warn(concern.message, PosteriorWarning, stacklevel=users_line())


def _misspecified(
    seen: Signs,
    *,
    # p-value of the observation among the rows below which there is a warning.
    least_pvalue: float = 0.002,
) -> Concern | None:
    if seen.pvalue >= least_pvalue:
        return None
    return Concern(
        "misspecified",
        f"only {seen.pvalue:.2%} of simulations are as unusual as the observation: "
        "perhaps no parameters in the prior produce such data; look at `misspecification(table)`, at "
        "`plot_observation_support(table)` for the statistics, and at the simulator",
    )


def _outside(seen: Signs) -> Concern | None:
    support = seen.support
    if not support.far:
        return None
    # Rows that coincide are at no distance from one another.
    apart = support.distance / max(float(np.median(support.references)), np.finfo(float).tiny)
    return Concern(
        "outside",
        f"the observation lies outside what was simulated: it is {times(apart, '.1f')} as far from its "
        f"nearest rows as simulations are from theirs (farther than {support.percentile:.1%} of them), "
        f"above all in {support.worst() or 'several statistics'}; look at "
        "`plot_observation_support(table)`, check these statistics and the model, widen the prior, or leave "
        "out the statistics that the model cannot make",
    )


def _outliers(seen: Signs) -> list[Concern]:
    """Statistics whose deviation, over which they are measured, is that of a few rows."""
    return [
        Concern(
            "outliers",
            f"the deviation of the statistic {seen.statistic_names[found.column]!r} is "
            f"{found.deviation:.2g}, and {found.of_the_rest:.2g} without {len(found.rows)} of {seen.rows} "
            f"rows ({found.shown()}): divided by it, the other rows hardly differ, so the statistic has "
            "hardly any effect; drop these rows if the simulator went wrong in them, or take its logarithm",
        )
        for found in seen.outliers
    ]


def _strange(seen: Signs) -> list[Concern]:
    """Parameters that went wrong in a few rows."""
    return [
        Concern(
            "outliers",
            f"the parameter {seen.parameter_names[found.column]!r} is far from all others in "
            f"{len(found.rows)} of {seen.rows} rows ({found.shown()}), and no tail of theirs reaches there: "
            f"its deviation is {found.deviation:.2g}, and {found.of_the_rest:.2g} without a few rows; "
            "regressions and the choice of an estimator depend on these rows, and draws may include them: "
            "drop them if they went wrong",
        )
        for found in seen.strange
    ]


def _effective_sample_size(
    posterior: Posterior,
    chosen: bool,
    seen: Signs,
    *,
    # Below this effective sample size, quantiles rest on few simulations.
    few_atoms: int = 50,
) -> Concern | None:
    size = posterior.effective_sample_size
    if size >= few_atoms:
        return None
    remedy = "simulate more rows, accept more of them, or take estimator='auto'"
    if chosen:
        remedy = "simulate more rows"
        if seen.remedy in ("rounds", "forced"):
            remedy += ", or in rounds near the observation (`zoom`)"
    return Concern(
        "effective_sample_size",
        f"the effective sample size of the weights is {size:.1f}, below {few_atoms}: quantiles and "
        f"intervals rest on few simulations; {remedy}",
    )


def _transforms(posterior: Posterior, seen: Signs) -> Concern | None:
    """Held-out rows that are not distributed as a learned likelihood says."""
    pvalue = posterior.settings.get("transforms_pvalue", 1.0)
    worst = posterior.settings.get("transforms_worst")
    message = misfit_message(pvalue, None if worst is None else repr(seen.statistic_names[int(worst)]))
    return None if message is None else Concern("transforms", message)


def _extrapolated(posterior: Posterior, *, largest_share: float = 0.05) -> Concern | None:
    """A learned likelihood where nothing was simulated."""
    share = posterior.settings.get("share_beyond_rows", 0.0)
    if share <= largest_share:
        return None
    return Concern(
        "extrapolated",
        f"{share:.0%} of the posterior lies beyond the parameters that were simulated, where the learned "
        "likelihood is extrapolated; simulate from a wider prior",
    )


def _without_mass(posterior: Posterior, *, largest_share: float = 0.05) -> Concern | None:
    """Atoms that an adjustment moved to where the prior has no mass."""
    share = posterior.settings.get("share_outside_support", 0.0)
    if share <= largest_share:
        return None
    return Concern(
        "support",
        f"the adjustment moved {share:.0%} of the posterior to where the prior has no mass, and this part "
        "was brought back inside: a regression does not see gaps in the prior, nor limits of one parameter "
        "that depend on another; compare with estimator='kernel_likelihood', or use parameters whose limits "
        "are constant",
    )


def _impossible(seen: Signs) -> list[Concern]:
    """Statistics that are the same in all simulations, and not that in the data."""
    return [
        Concern(
            "impossible",
            f"the statistic {seen.statistic_names[j]!r} is {simulated:.6g} in every simulation "
            f"and {observed:.6g} in the data: the model cannot make the data, and the posterior "
            "takes no account of it; look at the simulator and the statistic, or leave it out",
        )
        for j, simulated, observed in seen.impossible
    ]


def _negative_share(
    posterior: Posterior,
    chosen: bool,
    *,
    # Share of negative weight in the absolute weight: there, absolute weights sum to ten times the total.
    large_negative_share: float = 0.45,
) -> Concern | None:
    share = posterior.negative_share
    if share <= large_negative_share:
        return None
    remedy = (
        "take a larger regularisation, or draws by regression adjustment (estimator='adjusted' or 'auto')"
    )
    if chosen:
        remedy = "simulate more rows, or take draws by regression adjustment (estimator='adjusted')"
    return Concern(
        "negative_share",
        f"{share:.0%} of the absolute weight is negative: draws come from the projection of the weights onto "
        f"probabilities and may differ from `mean` and `expectation`; {remedy}",
    )


def _ridge_raised(posterior: Posterior) -> Concern | None:
    raised = int(posterior.settings.get("ridge_raised", 0))
    if raised == 0:
        return None
    return Concern(
        "ridge_raised",
        f"the ridge was raised {raised} time(s) since the Gram matrix was not positive definite: the "
        "estimate is not the one that was asked for; take a larger regularisation, or leave it out to have "
        "it chosen",
    )


def _edges(draws: np.ndarray, seen: Signs) -> list[Concern]:
    return [Concern("edge", message, doubt) for message, doubt in edge_messages(draws, seen)]


def _coverage(
    coverage: np.ndarray | None,
    rows: int,
    seen: Signs,
    *,
    # Probability that a calibrated estimator is reported.
    false_alarm_rate: float = 0.001,
    # With fewer held-out rows, coverage is not judged; weighted rows give no share in so many.
    fewest_covered: int = 10,
) -> list[Concern]:
    if coverage is None or rows < fewest_covered:
        return []
    # Two ends of each parameter's share, by Bonferroni: an estimator as a whole is called off so seldom.
    chance = false_alarm_rate / (2 * len(seen.discrete))
    lower, upper = binom.ppf(chance, rows, 0.9) / rows, binom.isf(chance, rows, 0.9) / rows
    # The share of weighted rows, all covered, may be a digit above one.
    # An interval of whole numbers holds more than 90% where it cannot hold fewer of them: both of two, say.
    off = {
        name: c
        for name, c, whole in zip(seen.parameter_names, np.minimum(coverage, 1.0), seen.discrete, strict=True)
        if not lower <= c <= (1.0 if whole else upper)
    }
    if not off:
        return []
    shares = ", ".join(f"{name} {c:.0%}" for name, c in off.items())
    return [
        Concern(
            "coverage",
            f"central 90% intervals covered {shares} of {rows} held-out rows ({lower:.0%} to {upper:.0%} are "
            f"expected): intervals are too {'narrow' if min(off.values()) < 0.9 else 'wide'}; look at "
            "`calibrate(estimator, table)`, and recalibrate the draws with it, or simulate more rows",
        )
    ]


# --- draws at the edge of the prior ---


def edge_messages(
    draws: np.ndarray,
    seen: Signs,
    *,
    # Share of draws beyond an edge that touches a posterior,
    edge_share: float = 0.1,
    # and where the prior was drawn between bounds: beyond these there may be more of the posterior.
    bounded_share: float = 0.02,
    # Share of draws near bounds of rounds from which they may cut the posterior off: half a hundredth of a
    # normal posterior is then beyond them.
    cut_share: float = 0.05,
) -> list[tuple[str, bool]]:
    """What there is to say of edges, and whether it is a doubt: where bounds may cut the posterior off."""
    # Shapes: draws (m, p).
    touching = bounded_share if seen.between_bounds else edge_share
    why = (
        "the bounds between which the prior was drawn may cut the posterior off; simulate between wider "
        "bounds, unless this is the prior's own edge"
        if seen.between_bounds
        else "the posterior touches the prior's edge, which decides where it ends; widen the prior if it is "
        "not meant to, and simulate again"
    )
    found = []
    for j, (name, drawn) in enumerate(zip(seen.parameter_names, draws.T, strict=True)):
        below, above = _shares_beyond(drawn, seen.cut[:, j])
        for side, share in (("lower", below), ("upper", above)):
            if share >= cut_share:
                words = (
                    f"{share:.0%} of the draws of {name!r} lie near the {side} end of the rows that the last "
                    "round kept, and the posterior may be cut off there; simulate more, or in more rounds"
                )
                found.append((words, True))
        # A discrete parameter may have both quantiles at one value, and no edge to lie beyond.
        if not seen.edges[0, j] < seen.edges[1, j]:
            continue
        below, above = _shares_beyond(drawn, seen.edges[:, j])
        for side, share in (("lower", below), ("upper", above)):
            if share >= touching:
                where = f"{share:.0%} of the draws of {name!r} lie in the {side} {seen.tail:.0%} of the prior"
                found.append((f"{where}: {why}", seen.between_bounds))
    return found


def _shares_beyond(drawn: np.ndarray, ends: np.ndarray) -> tuple[float, float]:
    """Of draws (m,), those below the first end and above the second."""
    return float(np.mean(drawn < ends[0])), float(np.mean(drawn > ends[1]))
