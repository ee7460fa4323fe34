"""How often `coarse` would fire at right posteriors of raw draws, by a second fit and by scores.

``python -m tests.statistical.coarse_draws`` prints the table from ``coarse_draws.csv``; ``--record`` makes
these figures again, in about five minutes of one core: ten distributions of two parameters, 8 or 12 draws,
400 or 3,000 simulations, two tables each. The exact posterior is a sum over a grid.
"""

from __future__ import annotations

import csv
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import expit

from pymc_kbr.arrays.support import region_of
from pymc_kbr.arrays.threads import one_blas_thread
from pymc_kbr.checking.coarseness import by_scores, coarseness
from pymc_kbr.estimators import KernelLikelihood
from tests.statistical.coarse import is_off
from tests.statistical.coarse_models import of_uniform_parameters

FIGURES = Path(__file__).with_suffix(".csv")

Draw = Callable[[np.random.Generator, np.ndarray, np.ndarray, tuple[int, int]], np.ndarray]
LogDensity = Callable[[float, np.ndarray, np.ndarray], np.ndarray]


def _mixed(share: float, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.logaddexp(np.log(1 - share) + first, np.log(share) + second)


DISTRIBUTIONS: dict[str, tuple[Draw, LogDensity]] = {
    "normal": (
        lambda r, a, b, s: r.normal(a, np.exp(b / 2), s),
        lambda x, a, b: stats.norm.logpdf(x, a, np.exp(b / 2)),
    ),
    "laplace": (
        lambda r, a, b, s: r.laplace(a, np.exp(b / 2), s),
        lambda x, a, b: stats.laplace.logpdf(x, a, np.exp(b / 2)),
    ),
    "gamma": (
        lambda r, a, b, s: r.gamma(np.exp(a / 2), np.exp(b), s),
        lambda x, a, b: stats.gamma.logpdf(x, np.exp(a / 2), scale=np.exp(b)),
    ),
    "student": (
        lambda r, a, b, s: a + np.exp(b / 2) * r.standard_t(3, s),
        lambda x, a, b: stats.t.logpdf(x, 3, a, np.exp(b / 2)),
    ),
    "lognormal": (
        lambda r, a, b, s: np.exp(r.normal(a, np.exp(b / 3), s)),
        lambda x, a, b: stats.norm.logpdf(np.log(x), a, np.exp(b / 3)),
    ),
    "weibull": (
        lambda r, a, b, s: np.exp(a) * r.weibull(np.exp(b / 2), s),
        lambda x, a, b: stats.weibull_min.logpdf(x, np.exp(b / 2), scale=np.exp(a)),
    ),
    "logistic": (
        lambda r, a, b, s: r.logistic(a, np.exp(b / 2), s),
        lambda x, a, b: stats.logistic.logpdf(x, a, np.exp(b / 2)),
    ),
    "zeros": (
        lambda r, a, b, s: r.exponential(np.exp(a), s) * (r.random(s) < expit(b)),
        lambda x, a, b: np.log(expit(-b)) if x == 0 else np.log(expit(b)) - a - x * np.exp(-a),
    ),
    "gumbel": (
        lambda r, a, b, s: r.gumbel(a, np.exp(b / 2), s),
        lambda x, a, b: stats.gumbel_r.logpdf(x, a, np.exp(b / 2)),
    ),
    "contaminated": (
        lambda r, a, b, s: a + np.where(r.random(s) < 0.2, 5.0, np.exp(b / 2)) * r.normal(size=s),
        lambda x, a, b: _mixed(0.2, stats.norm.logpdf(x, a, np.exp(b / 2)), stats.norm.logpdf(x, a, 5.0)),
    ),
}


def line(name: str, draws: int, rows: int, seed: int) -> dict[str, Any]:
    """What both ways say of one posterior."""
    draw, log_density = DISTRIBUTIONS[name]
    given = of_uniform_parameters(
        name,
        np.random.default_rng([seed, draws, rows]),
        rows,
        2,
        lambda t, r: draw(r, t[:, :1], t[:, 1:], (len(t), draws)),
        lambda t, x: np.sum([log_density(value, t[:, 0], t[:, 1]) for value in x], axis=0),
    )
    with one_blas_thread():
        fitted = KernelLikelihood("exchangeable").fit(
            given.parameters, given.statistics, given.support, random_seed=1
        )
        posterior = fitted.under(given.log_prior).condition(given.observed)
    drawn, table = posterior.draw(2000, np.random.default_rng(2)), given.table()
    error = np.abs(drawn.mean(axis=0) - given.mean) / given.deviation
    ratio = drawn.std(axis=0) / given.deviation
    region = region_of(posterior.draw(500, np.random.default_rng(3)), table.support)
    assert region is not None
    started = time.process_time()
    scores = by_scores(fitted, region, table, None, np.random.default_rng(4))
    between = time.process_time()
    again = coarseness(posterior, table, log_prior=given.log_prior, random_seed=3)
    ended = time.process_time()
    return {
        "distribution": name,
        "draws": draws,
        "rows": rows,
        "seed": seed,
        "error": round(float(error.max()), 3),
        "widest": round(float(ratio.max()), 3),
        "narrowest": round(float(ratio.min()), 3),
        "by_scores": "" if scores is None else round(scores.size, 3),
        "by_second_fit": "" if again is None else round(again.size, 3),
        "seconds_scores": round(between - started, 3),
        "seconds_second_fit": round(ended - between, 3),
    }


def show(lines: list[dict[str, Any]]) -> None:
    """Print how often each way fires, where scores say something."""
    said = [one for one in lines if one["by_scores"] != ""]
    print("| posteriors | number | fires by a second fit | fires by scores |")
    print("| --- | --- | --- | --- |")
    for name, off in (("right", False), ("off", True)):
        some = [one for one in said if is_off(one) == off]
        counts = (
            sum(one[way] != "" and float(one[way]) > 1 for one in some)
            for way in ("by_second_fit", "by_scores")
        )
        print("|", name, "|", len(some), "|", " | ".join(map(str, counts)), "|")
    print(f"{len(lines) - len(said)} of {len(lines)} have too few simulations near the posterior for scores.")


if __name__ == "__main__":
    if "--record" in sys.argv[1:]:
        found = []
        for name in DISTRIBUTIONS:
            for draws, rows, seed in np.ndindex(2, 2, 2):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of estimators, about small tables
                    found.append(line(name, (8, 12)[draws], (400, 3000)[rows], seed))
                print(*found[-1].values(), flush=True)
        with FIGURES.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(found[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(found)
    with FIGURES.open() as file:
        show(list(csv.DictReader(file)))
