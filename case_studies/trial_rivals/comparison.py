"""What learned likelihoods of a trial are compared on, and the tables of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from case_studies.trial_rivals.likelihoods import METHODS, Learned
from case_studies.trial_rivals.posteriors import moments
from case_studies.trial_rivals.problems import PROBLEMS, Problem

SETS, HELD_OUT = 4, 2_000


class Material:
    """Of a problem: trials to learn from, held-out trials, data sets and their exact posteriors."""

    def __init__(self, problem: Problem, *, quick: bool) -> None:
        rows, sets, trials, held_out = problem.rows, SETS, problem.trials, HELD_OUT
        if quick:
            rows, sets, trials, held_out = 300, 1, 20, 40
        self.problem, self.effort = problem, 0.1 if quick else 1.0
        rng = np.random.default_rng(1)
        self.theta = problem.draw_prior(rows, rng)
        self.x = problem.draw(self.theta, rng)
        rng = np.random.default_rng(2)
        self.fresh_theta = problem.draw_prior(held_out, rng)
        self.fresh = self._within(problem.draw(self.fresh_theta, rng))
        rng = np.random.default_rng(3)
        self.truths = problem.draw_prior(sets, rng, margin=0.1)
        self.sets = [
            self._within(problem.draw(np.repeat(truth[None], trials, axis=0), rng)) for truth in self.truths
        ]
        self.exact_fresh = self._of_pairs(problem.log_density, self.fresh)
        self.exact = [
            self._posterior(problem.log_density, data, truth)
            for data, truth in zip(self.sets, self.truths, strict=True)
        ]

    def _within(self, trials: np.ndarray) -> np.ndarray:
        """A whole number above the highest that was simulated is read as that one."""
        highest = np.where(np.all(self.x == np.round(self.x), axis=0), self.x.max(axis=0), np.inf)
        return np.minimum(trials, highest)

    def _of_pairs(self, log_density: Any, columns: np.ndarray) -> np.ndarray:
        """Of each held-out trial at its own parameters."""
        blocks = [slice(i, i + 60) for i in range(0, len(columns), 60)]
        return np.concatenate([np.diag(log_density(self.fresh_theta[b], columns[b])) for b in blocks])

    def _posterior(self, log_density: Any, columns: np.ndarray, truth: np.ndarray) -> Any:
        return moments(
            lambda theta: log_density(theta, columns).sum(axis=1),
            self.problem.lower,
            self.problem.upper,
            truth,
            np.random.default_rng(4),
            effort=self.effort,
        )

    def nats_lost(self, learned: Learned) -> tuple[float, float]:
        """A held-out trial, and the standard error."""
        rng = np.random.default_rng(5)
        lost = self.exact_fresh - self._of_pairs(learned.log_density, learned.columns(self.fresh, rng))
        return float(lost.mean()), float(lost.std() / np.sqrt(len(lost)))

    def errors(self, learned: Learned) -> tuple[list[tuple[int, str, float, float]], float]:
        """A line a data set and parameter: error of the mean, ratio of widths; and the fewest taken."""
        rng, lines, fewest = np.random.default_rng(6), [], 1.0
        for number, (data, truth, exact) in enumerate(zip(self.sets, self.truths, self.exact, strict=True)):
            found = self._posterior(learned.log_density, learned.columns(data, rng), truth)
            away, widths = (found[0] - exact[0]) / exact[1], found[1] / exact[1]
            lines += list(zip([number] * len(away), self.problem.parameters, away, widths, strict=True))
            fewest = min(fewest, found[2])
        return lines, fewest


ORDERS = {"problem": list(PROBLEMS), "method": list(METHODS)}


def added(
    table: pd.DataFrame, path: Path, keys: list[str], orders: dict[str, list[str]] = ORDERS
) -> pd.DataFrame:
    """The table in a file with these lines, in the place of those with the same keys; it is written."""
    if path.exists():
        before = pd.read_csv(path)
        again = before.set_index(keys).index.isin(table.set_index(keys).index)
        table = pd.concat([before[~again], table])
    table = table.sort_values(
        keys, key=lambda c: c.map(orders[c.name].index) if c.name in orders else c, kind="stable"
    )
    table.round(5).to_csv(path, index=False)
    return table


def summary(fits: pd.DataFrame, errors: pd.DataFrame) -> pd.DataFrame:
    """A line a problem and method."""
    of_errors = errors.groupby(["problem", "method"], sort=False).agg(
        rms_error=("error", lambda e: np.sqrt(np.mean(e**2))),
        largest=("error", lambda e: e.abs().max()),
        narrowest=("width", "min"),
        widest=("width", "max"),
    )
    return fits.merge(of_errors.reset_index(), on=["problem", "method"], how="left")
