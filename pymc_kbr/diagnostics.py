"""When not to trust a posterior, with what to do about it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from scipy.stats import binom

from pymc_kbr.kernels import spread_out
from pymc_kbr.posterior import Posterior
from pymc_kbr.reference_table import ReferenceTable
from pymc_kbr.summaries import Scaler

NEIGHBOURS, REFERENCES = 10, 1000
"""Rows to which distances are averaged, and rows whose distances the observation's is compared with."""

FAR = 0.995
"""Share of these rows that are nearer to their neighbours than an observation that is called far."""

FEW = 50
"""Effective sample size below which intervals are coarse."""

NEGATIVE = 0.45
"""Negative share of the absolute weight that is large: absolute weights sum to ten times the total."""

TAIL, TOUCHING = 0.01, 0.1
"""A posterior touches an edge when this share of draws lies beyond that share of the prior."""

CUT_TAIL, CUT = 0.05, 0.02
"""The same where the prior was drawn between bounds: beyond these there may be more of the posterior."""

CHANCE = 0.001
"""Probability with which an estimator that is calibrated is called off."""


class PosteriorWarning(UserWarning):
    """A posterior that should not be trusted as it is."""


@dataclass(frozen=True)
class Concern:
    """One reason for doubt.

    Parameters
    ----------
    name : str
        "outside", "effective_sample_size", "negative_share", "ridge_raised", "edge" or "coverage".
    message : str
        What was found, and what to do.
    """

    name: str
    message: str


@dataclass(frozen=True, eq=False)
class ObservationSupport:
    """Where an observation lies among the simulations.

    Attributes
    ----------
    distance : float
        Mean distance to the 10 nearest rows, over the statistics' standard deviations.
    references : ndarray of shape (r,)
        The same for rows of the table, each without itself.
    contributions : ndarray of shape (d,)
        Each statistic's share of the squared distance to the mean of the nearest rows.
    position : ndarray of shape (d,)
        Share of the table's rows whose statistic is smaller.
    names : list of str, length d
    """

    distance: float
    references: np.ndarray
    contributions: np.ndarray
    position: np.ndarray
    names: list[str]

    @property
    def percentile(self) -> float:
        """Share of rows that are nearer to their neighbours than the observation is."""
        return float(np.mean(self.references < self.distance))

    @property
    def far(self) -> bool:
        """Whether the observation is unlike what was simulated."""
        return self.percentile > FAR

    def worst(self, most: int = 3) -> list[str]:
        """The statistics that make up most of the distance."""
        order = np.argsort(self.contributions)[::-1][:most]
        return [self.names[i] for i in order if self.contributions[i] >= 0.1]


def observation_support(table: ReferenceTable, observed: np.ndarray | None = None) -> ObservationSupport:
    """Compare an observation's distance to the simulations with that of simulations to each other.

    Parameters
    ----------
    table : ReferenceTable
    observed : ndarray of shape (d,), optional
        The table's own observation where left out.

    Raises
    ------
    ValueError
        If there is no observation, or it has another number of statistics.

    Notes
    -----
    Where the observation has noise that the table is known to be without (`ReferenceTable.noise`), the rows
    that it is compared with get such noise, too.
    """
    observed = table.observed if observed is None else np.asarray(observed, dtype=float)
    if observed is None:
        raise ValueError("the reference table has no observation; give one, or set it with `with_observed`")
    if observed.shape != (table.statistics.shape[1],):
        raise ValueError(
            f"the observation has shape {observed.shape}; the table has {table.statistics.shape[1]} "
            "statistics"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant statistics were reported when the estimator was fitted
        scaler = Scaler.fit(table.statistics)
    x, y = scaler.transform(table.statistics), scaler.transform(observed[None])[0]
    k = min(NEIGHBOURS, len(x) - 1)
    tree = KDTree(x)
    distances, rows = tree.query(y, k=[*range(1, k + 1)], workers=-1)
    references = spread_out(len(x), REFERENCES)
    noise = table.noise * np.random.default_rng(0).normal(size=(len(references), len(observed)))
    noisy = scaler.transform(table.statistics[references] + noise)
    others, near = tree.query(noisy, k=[*range(1, k + 2)], workers=-1)
    own = near == references[:, None]
    own[:, -1] |= ~own.any(axis=1)  # without the row itself, or the farthest where noise has moved it away
    apart = np.zeros(len(observed))
    apart[scaler.kept] = (y - x[rows].mean(axis=0)) ** 2
    unlike = observed[~scaler.kept] != table.statistics[0, ~scaler.kept]
    apart[~scaler.kept] = unlike & (table.noise[~scaler.kept] == 0)
    total = apart.sum()
    return ObservationSupport(
        float(distances.mean()),
        others[~own].reshape(len(references), k).mean(axis=1),
        apart / total if total > 0 else apart,
        np.mean(table.statistics < observed, axis=0),
        table.statistic_names,
    )


def diagnose(
    posterior: Posterior,
    draws: np.ndarray,
    table: ReferenceTable,
    *,
    coverage: np.ndarray | None = None,
    held_out: int = 0,
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
    """
    found = [
        _outside(table),
        _effective_sample_size(posterior),
        _negative_share(posterior),
        _ridge_raised(posterior),
        *_edges(draws, table),
        *_coverage(coverage, held_out, table.parameter_names),
    ]
    return [concern for concern in found if concern is not None]


def warn(concerns: list[Concern]) -> None:
    """Show concerns as warnings."""
    for concern in concerns:
        warnings.warn(concern.message, PosteriorWarning, stacklevel=3)


def _outside(table: ReferenceTable) -> Concern | None:
    support = observation_support(table)
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


def _effective_sample_size(posterior: Posterior) -> Concern | None:
    size = posterior.effective_sample_size
    if size >= FEW:
        return None
    return Concern(
        "effective_sample_size",
        f"the effective sample size of the weights is {size:.1f}, below {FEW}: quantiles and intervals rest "
        "on few simulations; simulate more rows, accept more of them, or take estimator='auto'",
    )


def _negative_share(posterior: Posterior) -> Concern | None:
    share = posterior.negative_share
    if share <= NEGATIVE:
        return None
    return Concern(
        "negative_share",
        f"{share:.0%} of the absolute weight is negative: draws come from the projection of the weights onto "
        "probabilities and may differ from `mean` and `expectation`; take a larger regularisation, or draws "
        "by regression adjustment (estimator='adjusted' or 'auto')",
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
    between_bounds = "prior_truncated" in table.provenance
    tail, touching = (CUT_TAIL, CUT) if between_bounds else (TAIL, TOUCHING)
    why = (
        "the bounds between which the prior was drawn may cut the posterior off; simulate between wider "
        "bounds, unless this is the prior's own edge"
        if between_bounds
        else "the posterior touches the prior's edge, which decides where it ends; widen the prior if it is "
        "not meant to, and simulate again"
    )
    found = []
    for i, name in enumerate(table.parameter_names):
        lower, upper = np.quantile(table.parameters[:, i], [tail, 1 - tail])
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


def _coverage(coverage: np.ndarray | None, rows: int, names: list[str]) -> list[Concern]:
    if coverage is None or rows == 0:
        return []
    chance = CHANCE / (2 * len(names))
    lower, upper = binom.ppf(chance, rows, 0.9) / rows, binom.isf(chance, rows, 0.9) / rows
    off = {name: c for name, c in zip(names, coverage, strict=True) if not lower <= c <= upper}
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
