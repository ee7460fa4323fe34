"""When not to trust a posterior, with what to do about it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom

from pymc_kbr.arrays.outliers import outliers
from pymc_kbr.arrays.weighted import weighted_quantile
from pymc_kbr.checking.coarseness import Coarseness
from pymc_kbr.checking.misspecification import doubt_of_the_model
from pymc_kbr.checking.observation_support import observation_support
from pymc_kbr.estimators.fitted_table import FittedTable
from pymc_kbr.estimators.summaries.transformed import Transformed
from pymc_kbr.posterior.doubt import PosteriorWarning
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.tables.reference_table import ReferenceTable

FEW_ATOMS = 50
"""Effective sample size below which quantiles rest on few simulations."""

LARGE_NEGATIVE_SHARE = 0.45
"""Negative share of the absolute weight that is large: absolute weights sum to ten times the total."""

EDGE_TAIL, EDGE_SHARE = 0.01, 0.1
"""A posterior touches an edge when this share of draws lies beyond that share of the prior."""

BOUNDED_TAIL, BOUNDED_SHARE = 0.05, 0.02
"""The same where the prior was drawn between bounds: beyond these there may be more of the posterior."""

FALSE_ALARMS = 0.001
"""Probability with which an estimator that is calibrated is called off."""


@dataclass(frozen=True)
class Concern:
    """One reason for doubt.

    Parameters
    ----------
    name : str
        "outside", "outliers", "effective_sample_size", "negative_share", "ridge_raised", "transforms",
        "extrapolated", "impossible", "edge", "coverage", "coarse" or "misspecified".
    message : str
        What was found, and what to do.
    """

    name: str
    message: str


NOT_UNIFORM = 1e-3
"""p-value of a learned likelihood's transforms of held-out rows, below which there is a warning.

With 1,000 rows a shape that is off by a few hundredths of a probability is found.
"""


LARGE_SHARE_BEYOND = 0.05
"""Of a posterior beyond the rows of the table, above which there is a warning."""


def diagnose(
    posterior: Posterior,
    draws: np.ndarray,
    table: ReferenceTable,
    *,
    coverage: np.ndarray | None = None,
    held_out: int = 0,
    scaled: FittedTable | None = None,
    measured: FittedTable | None = None,
    chosen: bool = False,
    coarse: Coarseness | None = None,
) -> list[Concern]:
    """The reasons to doubt a posterior.

    Parameters
    ----------
    posterior : Posterior
    draws : ndarray of shape (draws, p)
    table : ReferenceTable
        With the observation.
    coverage : ndarray of shape (p,), optional
        Share of held-out rows that the central 90% covered, where it is known.
    held_out : int
        Number of these rows.
    scaled : FittedTable, optional
        The table in units of deviations, where the estimator has it.
    measured : FittedTable, optional
        The table as the estimator measures it, whatever its scale.
    chosen : bool
        Whether the estimator was chosen by "auto", which is then no advice.
    coarse : Coarseness, optional
        How the posterior compares with the rows nearest to it, where that was looked at.
    """
    found = [
        *_coverage(coverage, held_out, table),
        _effective_sample_size(posterior, chosen),
        _negative_share(posterior, chosen),
        _ridge_raised(posterior),
        _transforms(posterior, table),
        _extrapolated(posterior),
        *_impossible(table),
        *_outliers(table, measured),
        *_edges(draws, table),
        _outside(table, scaled),
        Concern("misspecified", doubt) if (doubt := doubt_of_the_model(table)) else None,
        Concern("coarse", coarse.message()) if coarse is not None and coarse.coarse else None,
    ]
    return [concern for concern in found if concern is not None]


def warn(concerns: list[Concern]) -> None:
    """Show concerns as warnings, but for the one of which the estimator has warned itself."""
    for concern in concerns:
        if concern.name != "impossible":
            warnings.warn(concern.message, PosteriorWarning, stacklevel=4)


def _outside(table: ReferenceTable, scaled: FittedTable | None) -> Concern | None:
    support = observation_support(table, scaled=scaled)
    if not support.far:
        return None
    times = support.distance / max(float(np.median(support.references)), np.finfo(float).tiny)
    return Concern(
        "outside",
        f"the observation lies outside what was simulated: it is {times:.1f} times as far from its nearest "
        f"rows as simulations are from theirs (farther than {support.percentile:.1%} of them), above all in "
        f"{support.worst() or 'several statistics'}; look at `plot_observation_support(table)`, check these "
        "statistics and the model, widen the prior, or leave out the statistics that the model cannot make",
    )


def _outliers(table: ReferenceTable, measured: FittedTable | None) -> list[Concern]:
    """Statistics whose deviation, over which they are measured, is that of a few rows."""
    found_in = outliers(table.statistics)
    if found_in and measured is not None and isinstance(measured.scaler, Transformed):
        # A logarithm may have brought them back among the others.
        kept = np.flatnonzero(measured.scaler.kept)
        still = {int(kept[found.column]) for found in outliers(measured.sample.statistics)}
        found_in = [found for found in found_in if found.column in still]
    return [
        Concern(
            "outliers",
            f"the deviation of the statistic {table.statistic_names[found.column]!r} is "
            f"{found.deviation:.2g}, and {found.of_the_rest:.2g} without {len(found.rows)} of {len(table)} "
            f"rows ({found.shown()}): measured by it all others are alike, and it hardly counts; drop these "
            "rows if the simulator went wrong in them, or take the statistic's logarithm",
        )
        for found in found_in
    ]


def _effective_sample_size(posterior: Posterior, chosen: bool) -> Concern | None:
    size = posterior.effective_sample_size
    if size >= FEW_ATOMS:
        return None
    remedy = "simulate more rows, accept more of them, or take estimator='auto'"
    if chosen:
        remedy = "simulate more rows, or in rounds near the observation (`zoom`)"
    return Concern(
        "effective_sample_size",
        f"the effective sample size of the weights is {size:.1f}, below {FEW_ATOMS}: quantiles and "
        f"intervals rest on few simulations; {remedy}",
    )


def _transforms(posterior: Posterior, table: ReferenceTable) -> Concern | None:
    """Held-out rows that are not distributed as a learned likelihood says."""
    pvalue = posterior.settings.get("transforms_pvalue", 1.0)
    if pvalue >= NOT_UNIFORM:
        return None
    worst = posterior.settings.get("transforms_worst")
    which = "" if worst is None else f", least of all {table.statistic_names[int(worst)]!r}"
    return Concern(
        "transforms",
        "the learned likelihood does not hold: held-out rows' statistics, transformed by their fitted "
        f"distribution functions, are not uniform{which} (p = {pvalue:.1e}); simulate more rows, transform "
        "the statistics, or compare with another estimator",
    )


def _extrapolated(posterior: Posterior) -> Concern | None:
    """A learned likelihood where nothing was simulated."""
    share = posterior.settings.get("share_beyond_rows", 0.0)
    if share <= LARGE_SHARE_BEYOND:
        return None
    return Concern(
        "extrapolated",
        f"{share:.0%} of the posterior lies beyond the parameters that were simulated, where the learned "
        "likelihood is extrapolated; simulate from a wider prior",
    )


def _impossible(table: ReferenceTable) -> list[Concern]:
    """Statistics that are the same in all simulations, and not that in the data."""
    constant = np.ptp(table.statistics, axis=0) == 0
    assert table.observed is not None
    return [
        Concern(
            "impossible",
            f"the statistic {table.statistic_names[j]!r} is {table.statistics[0, j]:.6g} in every simulation "
            f"and {table.observed[j]:.6g} in the data: the model cannot make the data, and the posterior "
            "does not know of it; look at the simulator and the statistic, or leave it out",
        )
        for j in np.flatnonzero(constant & (table.observed != table.statistics[0]))
    ]


def _negative_share(posterior: Posterior, chosen: bool) -> Concern | None:
    share = posterior.negative_share
    if share <= LARGE_NEGATIVE_SHARE:
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
    times = int(posterior.settings.get("ridge_raised", 0))
    if times == 0:
        return None
    return Concern(
        "ridge_raised",
        f"the ridge was raised {times} time(s) since the Gram matrix was not positive definite: the estimate "
        "is not the one that was asked for; take a larger regularisation, or leave it out to have it chosen",
    )


def _edges(draws: np.ndarray, table: ReferenceTable) -> list[Concern]:
    between_bounds = table.origin.between_bounds
    tail, touching = (BOUNDED_TAIL, BOUNDED_SHARE) if between_bounds else (EDGE_TAIL, EDGE_SHARE)
    why = (
        "the bounds between which the prior was drawn may cut the posterior off; simulate between wider "
        "bounds, unless this is the prior's own edge"
        if between_bounds
        else "the posterior touches the prior's edge, which decides where it ends; widen the prior if it is "
        "not meant to, and simulate again"
    )
    found = []
    for i, name in enumerate(table.parameter_names):
        lower, upper = _prior_quantiles(table, i, [tail, 1 - tail])
        if not lower < upper:
            continue
        for side, share in (
            ("lower", np.mean(draws[:, i] < lower)),
            ("upper", np.mean(draws[:, i] > upper)),
        ):
            if share >= touching:
                where = f"{share:.0%} of the draws of {name!r} lie in the {side} {tail:.0%} of the prior"
                found.append(Concern("edge", f"{where}: {why}"))
    return found


def _prior_quantiles(table: ReferenceTable, column: int, levels: list[float]) -> np.ndarray:
    """Quantiles of a parameter under the prior, of which the rows are draws or have the density ratio."""
    if table.prior_ratio is None:
        return np.quantile(table.parameters[:, column], levels)
    return weighted_quantile(
        table.parameters[:, column], table.prior_ratio / table.prior_ratio.sum(), np.array(levels)
    )


def _coverage(coverage: np.ndarray | None, rows: int, table: ReferenceTable) -> list[Concern]:
    if coverage is None or rows == 0:
        return []
    discrete = [
        variable.discrete for variable in table.parameter_columns.variables for _ in range(variable.size)
    ]
    chance = FALSE_ALARMS / (2 * len(discrete))
    lower, upper = binom.ppf(chance, rows, 0.9) / rows, binom.isf(chance, rows, 0.9) / rows
    # An interval of whole numbers holds more than 90% where it cannot hold fewer of them: both of two, say.
    off = {
        name: c
        for name, c, whole in zip(table.parameter_names, coverage, discrete, strict=True)
        if not lower <= c <= (1.0 if whole else upper)
    }
    if not off:
        return []
    shares = ", ".join(f"{name} {c:.0%}" for name, c in off.items())
    return [
        Concern(
            "coverage",
            f"central 90% intervals covered {shares} of {rows} held-out rows ({lower:.0%} to {upper:.0%} are "
            "expected): intervals are too "
            f"{'narrow' if min(off.values()) < 0.9 else 'wide'}; look at `calibrate(estimator, table)`, and "
            "recalibrate the draws with it, or simulate more rows",
        )
    ]
