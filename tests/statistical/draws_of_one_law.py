"""How near the likelihood of draws of one law comes to the law, by the form for them and that for many.

``python -m tests.statistical.draws_of_one_law`` prints the table from the figures that are kept in
``draws_of_one_law.csv``; ``--record`` makes these again, in some three minutes of one core.

Of each law 6,000 rows of 40 sorted draws are learnt. ``lost`` is by how much 1,000 other data sets are denser
under the law, in nats, their median. ``apart`` is the deviation of the log ratio of the learned and the exact
likelihood, over the rows' parameters of which the exact one is within six of its highest, the median of 30
data sets: what moves their posteriors. Settings of the form for draws of one law were found on such laws; of
these eleven `cauchy` and `outliers` are the laws of two of the forty models, too, with other data.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import gammaln, logit

from pymc_kbr.estimators.likelihood.diagonal_scale import fit_diagonal_scale
from pymc_kbr.estimators.likelihood.exchangeable import fit_exchangeable
from tests.statistical.figures import command, read_figures, write_figures

FIGURES = Path(__file__).with_name("draws_of_one_law.csv")
ROWS, FRESH, SIZE, DATA_SETS = 6000, 1000, 40, 30
NEAR = 6.0

Column = np.ndarray
"""Of one parameter, (n, 1)."""


def mixed(laws: tuple[Any, Any], share: Column, rng: np.random.Generator | None, x: Any) -> np.ndarray:
    """Draws, where there is a generator, or the log density of a mixture of two frozen laws of SciPy."""
    if rng is None:
        with np.errstate(divide="ignore"):
            return np.log(share * laws[0].pdf(x) + (1 - share) * laws[1].pdf(x))
    size = (len(share), SIZE)
    each = [law.rvs(size=size, random_state=rng) for law in laws]
    return np.where(rng.random(size) < share, *each)


def single(law: Any, rng: np.random.Generator | None, x: Any, rows: int) -> np.ndarray:
    """The same of one law."""
    return law.logpdf(x) if rng is None else law.rvs(size=(rows, SIZE), random_state=rng)


Of = Callable[[tuple[Column, ...]], Any]

LAWS: dict[str, tuple[list[Any], Of]] = {
    "normal": ([stats.norm(0, 5), stats.halfnorm(0, 2)], lambda t: stats.norm(t[0], t[1])),
    "cauchy": ([stats.uniform(-5, 10), stats.halfnorm(0, 3)], lambda t: stats.cauchy(t[0], t[1])),
    "student": (
        [stats.norm(0, 1), stats.gamma(2), stats.gamma(2, 0, 5)],
        lambda t: stats.t(t[2], t[0], t[1]),
    ),
    "gamma": ([stats.lognorm(0.7), stats.lognorm(1)], lambda t: stats.gamma(t[0], 0, t[1])),
    "weibull": (
        [stats.lognorm(0.5, 0, np.exp(0.3)), stats.lognorm(1, 0, np.e)],
        lambda t: stats.weibull_min(t[0], 0, t[1]),
    ),
    "skew_normal": (
        [stats.norm(0, 2), stats.lognorm(0.7), stats.norm(0, 3)],
        lambda t: stats.skewnorm(t[2], t[0], t[1]),
    ),
    "band": ([stats.norm(0, 1), stats.lognorm(0.7)], lambda t: stats.uniform(t[0], t[1])),
    "two_lifetimes": (
        [stats.lognorm(1), stats.lognorm(0.7, 0, np.exp(1.5)), stats.beta(2, 2)],
        lambda t: ((stats.expon(0, t[0]), stats.expon(0, t[1])), t[2]),
    ),
    "outliers": (
        [stats.norm(0, 2), stats.halfnorm(0, 1), stats.beta(1, 9)],
        lambda t: ((stats.norm(t[0], 10), stats.norm(t[0], t[1])), t[2]),
    ),
    "two_normals": (
        [stats.norm(0, 2), stats.halfnorm(0, 2), stats.lognorm(0.7, 0, 0.6), stats.beta(2, 2)],
        lambda t: ((stats.norm(t[0], t[2]), stats.norm(t[0] + t[1], t[2])), t[3]),
    ),
    "two_scales": (
        [stats.norm(0, 2), stats.lognorm(0.7, 0, 0.6), stats.lognorm(0.7, 0, 0.6), stats.beta(2, 2)],
        lambda t: ((stats.norm(t[0], t[1]), stats.norm(t[0] + 2, t[2])), t[3]),
    ),
}
"""Independent priors, and from parameters to a frozen law, or two of them and the share of the first."""


def law_at(name: str, theta: np.ndarray, rng: np.random.Generator | None, x: Any = None) -> np.ndarray:
    """Draws (n, SIZE) at parameters (n, p), or log densities of x there."""
    found = LAWS[name][1](tuple(column[:, None] for column in theta.T))
    if isinstance(found, tuple):
        return mixed(*found, rng, x)
    return single(found, rng, x, len(theta))


def free(name: str, theta: np.ndarray) -> np.ndarray:
    """Parameters without edges, standardised."""
    columns = []
    for prior, column in zip(LAWS[name][0], theta.T, strict=True):
        lower, upper = prior.support()
        columns.append(
            column if np.isinf(lower) or prior.dist.name == "uniform"
            else logit(column) if upper == 1 else np.log(column)
        )  # fmt: skip
    found = np.column_stack(columns)
    return (found - found.mean(axis=0)) / found.std(axis=0)


def lines_of(name: str) -> list[dict[str, object]]:
    """What each form reached on one law."""
    rng = np.random.default_rng(5)
    theta = np.column_stack([prior.rvs(ROWS + FRESH, random_state=rng) for prior in LAWS[name][0]])
    x = np.sort(law_at(name, theta, rng), axis=1)
    q, orders, lines = free(name, theta), gammaln(SIZE + 1), list[dict[str, object]]()
    exact = law_at(name, theta[ROWS:], None, x[ROWS:]).sum(axis=1) + orders
    for form, fit in (("exchangeable", fit_exchangeable), ("diagonal_scale", fit_diagonal_scale)):
        began = time.process_time()
        learnt = fit(q[:ROWS], x[:ROWS], np.random.default_rng(0))
        seconds = time.process_time() - began
        described, apart = learnt.describe(q), []
        lost = exact - learnt.log_density(described[ROWS:], x[ROWS:, None])[:, 0]
        for data in x[ROWS : ROWS + DATA_SETS]:
            known = law_at(name, theta, None, data[None]).sum(axis=1)
            near = known > known.max() - NEAR
            ratio = known[near] - learnt.log_density(described[near], data[None, None])[:, 0]
            apart.append(float(ratio.std()) if near.sum() > 5 else np.nan)
        figures = {"lost": round(float(np.median(lost)), 2), "apart": round(float(np.nanmedian(apart)), 2)}
        lines.append({"law": name, "form": form, **figures, "seconds": round(seconds, 1)})
    return lines


def record() -> None:
    """Make the figures again."""
    lines = [line for name in LAWS for line in lines_of(name)]
    write_figures(FIGURES, lines)


def show() -> None:
    """Print both figures and the seconds of each form, a line a law."""
    lines = read_figures(FIGURES)
    print("| law | form | lost | apart | seconds |")
    print("| --- | --- | --- | --- | --- |")
    for line in lines:
        print("| " + " | ".join(line.values()) + " |")


if __name__ == "__main__":
    command(__doc__, record, show)
