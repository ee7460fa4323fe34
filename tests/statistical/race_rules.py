"""Rules by which a race drops candidates, replayed on kept scores of twenty-four problems.

``python -m tests.statistical.race_rules`` prints the table from the figures that are kept in
``race_rules.csv``; ``--record FOLDER`` makes these again, in some minutes, from the scores that
`tests.statistical.race_scores` has put there in half an hour.

Each rule runs the race on the same random orders of 200 held-out rows, 100 of them where the table has 1,000
rows. What is chosen is judged by 150 other rows, learned likelihoods by their fits to the whole table: its
regret is its mean score there less the lowest, in thousandths. One rule's regret is to be compared with
another's: the lowest of many noisy means is too low for any of them. The table has the mean over problems and
orders, how much less it is than before with the standard error of that over problems, the 95% quantile of
all, the mean over problems of that of their orders, the worst problem's mean, and what the race was charged.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from pymc_kbr.arrays.threads import Begin
from pymc_kbr.estimators import Estimator, KernelLikelihood, Rejection
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.selection.budget import Budget, Cost
from pymc_kbr.selection.race import BEHIND, ROUNDS, ROWS_IN_PART_OF_FEW, SMALL_TABLE, Race, RaceRule
from pymc_kbr.selection.select import WORK, number_held_out
from pymc_kbr.selection.selection import Candidate, skip_fallbacks

FIGURES = Path(__file__).with_name("race_rules.csv")
ORDERS = 100
"""Of held-out rows, of each problem."""

SPARING = "without what comes after a learned likelihood that stands"
"""How a rule is named by which not all candidates are tried."""


class Known(Candidate):
    """A candidate of which scores are kept."""

    pvalue = 1.0

    @property
    def in_part(self) -> bool:
        """Learned likelihoods alone."""
        return self.estimator.draws_as_asked

    @property
    def holds(self) -> bool:
        """Whether its form was not refuted."""
        return self.pvalue >= NOT_UNIFORM


class Replayed(Race):
    """A race on rows of a problem, by their numbers, whose scores are kept."""

    def __init__(
        self, problem: dict[str, np.ndarray], order: np.ndarray, rule: RaceRule, spare: bool
    ) -> None:
        self.truth, self.weights = order, np.ones(len(order))
        self.unit = np.ones(int(problem["parameters"]))
        self.budget, self.ended_early, self.rule = Budget(WORK), False, rule
        self.problem, self.numbers, self.fitting, self.spare = problem, dict[int, int](), self, spare

    def candidates(self) -> list[Candidate]:
        """As they were tried."""
        tried: list[Candidate] = []
        for i, (label, size) in enumerate(zip(self.problem["label"], self.problem["size"], strict=True)):
            estimator = KernelLikelihood() if self.problem["in_part"][i] else Rejection()
            one = Known(str(label), estimator, size=float(size))
            one.pvalue = float(self.problem["pvalue"][i])
            tried.append(one)
            self.numbers[id(estimator)] = i
        if self.spare:
            skip_fallbacks(tried)
        return list(tried)

    def cost(self, estimator: Estimator) -> Cost:
        """What it was charged with."""
        i = self.numbers[id(estimator)]
        return Cost(float(self.problem["fit"][i]), float(self.problem["a_row"][i]))

    def begin(self, estimator: Estimator, begin: Begin) -> None:
        """There are no summaries."""

    def _charge(self, one: Candidate, start: int, stop: int) -> None:
        if start == 0:
            self.budget.charge_fit(one.cost)
        self.budget.charge_rows(stop - start, one.cost)

    def _working(self, one: Candidate, start: int, stop: int, begin: Begin) -> Callable[[], Any]:
        return lambda: stop

    def _keep(self, one: Candidate, result: Callable[[], Any], alive: list[Candidate]) -> None:
        scores = self.problem["scores"][self.numbers[id(one.estimator)]]
        if np.isnan(scores[0]):
            one.note = "refused"
            alive.remove(one)
            return
        one.scores = scores[self.truth[: result()]]


def rules() -> Iterator[tuple[str, RaceRule | Callable[[int], RaceRule]]]:
    """What each differs in, and the rule: the one before and changes of it, the one that is used and such.

    A function says that of a table of so many rows.
    """
    before = RaceRule(rounds={20: 12, 40: 8, 100: 5, 200: 3}, behind={}, mended=np.inf, rows_in_doubt=0)
    yield "before: 2 errors at any rows, 12, 8, 5 and 3 kept", before
    yield "before, 3 and 2.5 errors at 20 and 40 rows", replace(before, behind=BEHIND)
    yield "before, 10, 5, 3 and 2 kept", replace(before, rounds=ROUNDS)
    for share in (0.003, 0.005, 0.01):
        yield f"before, a tie of at most {100 * share:.1f}% of the score", replace(before, mended=share)
    for errors in (0.0, 1.0, 3.0):
        yield f"before, a tie of {errors} errors", replace(before, tied_in_part=errors)
    used = RaceRule()
    yield "used", used
    for first, second in ((2.0, 2.0), (2.5, 2.5), (3.5, 3.0), (4.0, 3.0)):
        yield f"used, {first} and {second} errors", replace(used, behind={20: first, 40: second})
    for share in (0.003, 0.005, 0.006, 0.008, np.inf):
        yield f"used, a tie of at most {100 * share:.1f}% of the score", replace(used, mended=share)
    yield "used, a tie of 3 errors", replace(used, tied_in_part=3.0)
    for kept in ((8, 5, 3, 2), (10, 6, 4, 2), (12, 8, 5, 3), (16, 12, 8, 4), (99, 99, 99, 99)):
        yield f"used, {kept} kept", replace(used, rounds=dict(zip(ROUNDS, kept, strict=True)))
    later = {20: 10, 40: 5, 60: 5, 100: 3, 200: 2}
    yield "used, 60 rows of those in part", replace(used, rounds=later, rows_in_part=60)
    yield "used, 100 rows of those in part", replace(used, rows_in_part=100)
    yield f"used, and {ROWS_IN_PART_OF_FEW} rows of those in part below {SMALL_TABLE:,}", RaceRule.of_table
    yield f"the same, {SPARING}", RaceRule.of_table
    for rows in (0, 200):
        doubting = partial(_doubting, doubted=rows)
        yield f"the same, {rows} rows of those that are behind, {SPARING}", doubting
    inline = RaceRule(rounds={40: 10, 100: 3, 200: 2}, behind={40: 2.5})
    yield f"used, but from 40 rows on, {SPARING}", inline
    sooner = RaceRule(rows_in_part=20)
    yield f"used, 20 rows of those in part, {SPARING}", sooner


def _doubting(rows: int, doubted: int) -> RaceRule:
    return replace(RaceRule.of_table(rows), rows_in_doubt=doubted)


def replayed(
    path: Path, rule: RaceRule | Callable[[int], RaceRule], spare: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Regrets and costs of what a rule chooses, of each order (orders,)."""
    problem = dict(np.load(path))
    rng, size = np.random.default_rng(0), int(path.stem.rsplit("_", 1)[1])
    rule = rule if isinstance(rule, RaceRule) else rule(size)
    further, found = problem["further"].mean(axis=1), []
    count = problem["scores"].shape[1]
    for _ in range(ORDERS):
        race = Replayed(problem, rng.permutation(count)[: min(count, number_held_out(size))], rule, spare)
        best = race.run(race.candidates(), progressbar=False)[0]
        value = further[race.numbers[id(best.estimator)]]
        found.append((value - np.nanmin(further), race.budget.spent))
    regrets, costs = np.array(found).T
    return regrets, costs


def lines_of(folder: Path) -> Iterator[dict[str, Any]]:
    """What each rule reached, over all problems, in thousandths of a score and in work."""
    before = None
    for name, rule in rules():
        each = [replayed(path, rule, SPARING in name) for path in sorted(folder.glob("*.npz"))]
        regrets, costs = (1e3 * np.array([one[0] for one in each]), np.array([one[1] for one in each]))
        means = regrets.mean(axis=1)
        before = means if before is None else before
        yield {
            "rule": name,
            "regret": round(float(means.mean()), 3),
            "less_than_before": round(float((before - means).mean()), 3),
            "standard_error": round(float((before - means).std(ddof=1) / np.sqrt(len(means))), 3),
            "regret_95": round(float(np.quantile(regrets, 0.95)), 2),
            "unlucky_regret": round(float(np.quantile(regrets, 0.95, axis=1).mean()), 2),
            "worst_problem": round(float(means.max()), 2),
            "work": round(float(costs.mean()), 2),
        }


def record(folder: Path) -> None:
    """Make the figures again."""
    lines = list(lines_of(folder))
    with FIGURES.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def show() -> None:
    """Print the table."""
    with FIGURES.open() as file:
        lines = list(csv.DictReader(file))
    print("| " + " | ".join(name.replace("_", " ") for name in lines[0]) + " |")
    print("| " + " | ".join("---" for _ in lines[0]) + " |")
    for line in lines:
        print("| " + " | ".join(line.values()) + " |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--record", type=Path, metavar="FOLDER", help="make the figures again")
    given = parser.parse_args().record
    if given is not None:
        record(given)
    show()
