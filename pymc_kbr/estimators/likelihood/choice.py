"""Which form holds, by the density of rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kstwo

from pymc_kbr.arrays.dependence import depend_on
from pymc_kbr.arrays.threads import parallel_map
from pymc_kbr.estimators.likelihood.autoregressive import (
    MOST_SPARINGLY,
    NOTHING_KNOWN,
    SPARING,
    Autoregressive,
    Effort,
    Known,
    fit_autoregressive,
)
from pymc_kbr.estimators.likelihood.diagonal_scale import fit_diagonal_scale
from pymc_kbr.estimators.likelihood.exchangeable import fit_exchangeable
from pymc_kbr.estimators.likelihood.form import Form
from pymc_kbr.estimators.likelihood.location_scale import fit_location_scale
from pymc_kbr.estimators.likelihood.spread import MOST_PAIRED
from pymc_kbr.estimators.summaries import Summary, Transformed
from pymc_kbr.estimators.summaries.transformed import Levels

Fit = Callable[[np.ndarray, np.ndarray, np.random.Generator], Form]

FORMS: dict[str, Fit] = {
    "location_scale": fit_location_scale,
    "autoregressive": fit_autoregressive,
    "diagonal_scale": fit_diagonal_scale,
    "exchangeable": fit_exchangeable,
    "series": partial(fit_autoregressive, single=False),
}
"""The fit of each form, by its name."""

SPARINGLY: dict[str, Fit] = {
    "location_scale": partial(fit_location_scale, landmarks=400),
    "autoregressive": partial(fit_autoregressive, effort=SPARING),
    "diagonal_scale": partial(fit_diagonal_scale, landmarks=400, pooled=20_000),
    "exchangeable": partial(fit_exchangeable, tried=(100.0, 10.0), numbers=0),
    "series": partial(fit_autoregressive, effort=SPARING, single=False),
}
"""The same, for what is only compared."""


def dequantise(
    summary: Summary, points: np.ndarray, form: str, rng: np.random.Generator
) -> tuple[np.ndarray, tuple[Levels | None, ...]]:
    """A table's coordinates (n, e) without ties, and the levels of statistics of few values."""
    if not isinstance(summary, Transformed):
        return points, ()
    by_levels = form == "autoregressive" or (form == "auto" and points.shape[1] <= MOST_SPARINGLY)
    levels = summary.levels(points) if by_levels else ()
    return summary.dequantised(points, rng, levels), levels


def forms_of(
    statistics: int,
    levels: tuple[Levels | None, ...] = (),
    *,
    # Above, a conditional for each statistic takes minutes.
    most_conditionals: int = 250,
) -> list[str]:
    """Names of the forms that are tried of so many statistics, of which some may have levels."""
    if levels:
        return ["autoregressive"]
    if statistics > most_conditionals:
        return ["diagonal_scale", "series"]
    # Above, the first one's factor does not depend on the parameters but for its diagonal, at a higher cost.
    return ["location_scale" if statistics <= MOST_PAIRED else "diagonal_scale", "autoregressive"]


NOT_UNIFORM = 1e-3
"""The same, below which the form does not fit: there is a warning, and it no longer wins ties.

With 1,000 rows a shape that is off by a few hundredths of a probability is found; above 250 statistics there
are fewer.
"""

ROWS_FOR_FORMS, MOST_COMPARED_ON = 2500, 1000
"""Rows to which forms are fitted that are compared, at least, and rows that they are compared on."""


class Choice(NamedTuple):
    """The form that was taken, and what held-out rows said."""

    name: str
    densities: dict[str, float]
    pvalue: float
    worst: int


def choose_form(
    theta: np.ndarray,
    points: np.ndarray,
    names: list[str],
    rng: np.random.Generator,
    levels: tuple[Levels | None, ...] = (),
    known: Known = NOTHING_KNOWN,
    every: np.ndarray | None = None,
    *,
    # Of held-out rows together; of up to 250 statistics all rows are compared.
    values_compared: int = 250_000,
    # Rows that forms are fitted to: which one is denser with few need not be with many;
    # tests/statistical/trial_rows.csv.
    share_for_forms: float = 0.25,
    most_for_forms: int = 10_000,
) -> tuple[Choice, Form]:
    """Fit forms to some rows and take the one under which others are densest, as it was fitted to these."""
    # A form whose transforms of these rows are not uniform, on the whole or in halves of `every` parameter,
    # does not replace one that has uniform ones.
    # Shapes: theta (n, q); points (n, e); every (n, p).
    n, every = len(theta), theta if every is None else every
    order = rng.permutation(n)
    count = min(n // 5, MOST_COMPARED_ON, max(1, values_compared // points.shape[1]))
    rows = max(ROWS_FOR_FORMS, min(int(share_for_forms * n), most_for_forms))
    held_out, rest = order[:count], order[count : count + rows]
    seeds = dict(zip(names, rng.integers(2**63, size=len(names)), strict=True))

    def fitted(name: str) -> tuple[Choice, Form, np.ndarray] | None:
        fit: Any = SPARINGLY[name]
        if name == "autoregressive" and (levels or known is not NOTHING_KNOWN):
            fit = partial(fit, levels=levels, known=known)
        try:
            form = fit(theta[rest], points[rest], np.random.default_rng(seeds[name]))
        except ValueError:
            if name != "series" or len(names) == 1:
                raise
            return None  # these statistics are no series, and there are other forms
        found, logs = _checked(name, form, theta[held_out], points[held_out], every[held_out])
        return found, form, logs

    with parallel_map(len(names)) as map_:
        compared = [one for one in map_(fitted, names) if one is not None]
    found, form, logs = compared[0]
    for other, of_other, others in compared[1:]:
        holds, needed = other.pvalue >= NOT_UNIFORM, found.pvalue < NOT_UNIFORM
        if (holds or needed) and others.mean() > logs.mean():
            found, form, logs = other, of_other, others
    return found._replace(densities={one.name: float(each.mean()) for one, _, each in compared}), form


def fit_chosen(
    name: str,
    compared: Form,
    theta: np.ndarray,
    points: np.ndarray,
    rng: np.random.Generator,
    levels: tuple[Levels | None, ...] = (),
    known: Known = NOTHING_KNOWN,
    rows_before: int = 0,
    *,
    # From which one that was compared has found its bandwidth on as many rows as one that is fitted to all.
    many_rows: int = 3000,
) -> Form:
    """The form that was chosen, fitted to all rows: theta (n, q) and points (n, e)."""
    # Kernels of a whole fit to `rows_before` rows are taken if they are as good.
    if name == "autoregressive":
        assert isinstance(compared, Autoregressive)
        # What is no series to fewer rows is none to all: singles gain more by rows than what is shared.
        series = compared.series is not None
        before = compared if rows_before >= Effort().rows_for_final_kernel else None
        return fit_autoregressive(
            theta, points, rng, levels=levels, known=known, series=series, before=before
        )
    fit: Any = FORMS[name]
    if name == "series":
        return fit(theta, points, rng)
    return fit(theta, points, rng, compared=compared if len(theta) >= many_rows else None)


def _checked(
    name: str, form: Form, theta: np.ndarray, points: np.ndarray, every: np.ndarray
) -> tuple[Choice, np.ndarray]:
    """What held-out rows say of one form, and their log densities (n,)."""
    described = form.describe(theta)
    logs = form.log_density(described, points[:, None, :])[:, 0]
    pvalue, worst = _uniform(form.transforms(described, points), every)
    return Choice(name, {name: float(np.mean(logs))}, pvalue, worst), logs


def _uniform(transforms: np.ndarray, theta: np.ndarray) -> tuple[float, int]:
    """p-value of transforms (n, e) being uniform, among all rows and halves, and the worst column."""
    # A form that is too wide at one end and too narrow at the other may be uniform on the whole.
    below = theta <= np.median(theta, axis=0)
    halves = np.hstack([below, ~below]).T
    # Nothing lies above the median of a 0/1 parameter that is mostly one.
    groups = [np.ones(len(theta), dtype=bool), *halves[halves.any(axis=1)]]
    found = []
    for rows in groups:
        ordered = np.sort(transforms[rows], axis=0)
        n = len(ordered)
        steps = np.arange(n + 1)[:, None] / n
        apart = np.maximum((steps[1:] - ordered).max(axis=0), (ordered - steps[:-1]).max(axis=0))
        worst = int(np.argmax(apart))
        found.append((float(kstwo.sf(apart[worst], n)), worst))
    pvalue, worst = min(found)
    # Bonferroni: the smallest of so many p-values is small by chance.
    return min(1.0, pvalue * len(groups) * transforms.shape[1]), worst


# --- messages where no form fits ---


def misfit_message(pvalue: float, worst: str | None, whose: str = "") -> str | None:
    """What is wrong where transforms of held-out rows are not uniform, and what to do; else None."""
    if pvalue >= NOT_UNIFORM:
        return None
    which = "" if worst is None else f", least of all {worst}"
    return (
        f"the learned likelihood{whose} does not hold: held-out rows' statistics, transformed by their "
        f"fitted distribution functions, are not uniform{which} (p = {pvalue:.1e}); simulate more rows, "
        "transform the statistics, or compare with another estimator"
    )


# --- whether few of many statistics matter ---


def dependent_of_many(
    statistics: np.ndarray,
    parameters: np.ndarray,
    *,
    # Of more statistics it takes long.
    most: int = 250,
) -> int | None:
    """How many of the statistics (n, d) depend on the parameters (n, p); None where d is not tested."""
    if not MOST_SPARINGLY < statistics.shape[1] <= most:
        return None
    return int(np.sum(depend_on(statistics, parameters)))


def are_few(dependent: int | None, d: int) -> bool:
    """Whether so many of d statistics are few enough to leave the others out."""
    return dependent is not None and 0 < dependent <= min(d // 2, MOST_SPARINGLY)


def scale_of_many(statistics: np.ndarray, parameters: np.ndarray) -> str | bool:
    """The `scale` of a learned likelihood: "dependent" where few of many statistics are, else True."""
    return "dependent" if are_few(dependent_of_many(statistics, parameters), statistics.shape[1]) else True
