"""Estimators against each other: accuracy and seconds, on one problem, at several simulation budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import by_name, parameters_by_name
from pymc_kbr.arrays.refusals import check_seed, flag, path_of, shown, whole
from pymc_kbr.arrays.subsample import spread_out
from pymc_kbr.comparison.file import ComparisonFile, fingerprint
from pymc_kbr.comparison.line import SampleSMC, ScoredRows, Scoring, line_of
from pymc_kbr.comparison.scores import columns_of
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.likelihood.success import refuse_weighted_for_success
from pymc_kbr.selection.budget import check_budget
from pymc_kbr.selection.candidate import label
from pymc_kbr.selection.select import WORK
from pymc_kbr.simulation.predictive import simulate_held_out
from pymc_kbr.simulation.progress import Bars
from pymc_kbr.simulation.simulate import simulate
from pymc_kbr.tables.reference_table import ReferenceTable

if TYPE_CHECKING:
    import pymc as pm


@default_arithmetic
def compare(
    source: pm.Model | ReferenceTable,
    *,
    estimators: Sequence[str | Estimator | SampleSMC] | Mapping[str, str | Estimator | SampleSMC],
    budgets: Sequence[int] = (1_000, 10_000),
    repetitions: int = 3,
    observations: int = 100,
    held_out: tuple[np.ndarray, np.ndarray] | None = None,
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
    modes: bool = False,
    draws: int = 1000,
    work: float = WORK,
    time_budget: float | None = None,
    store: str | Path | None = None,
    random_seed: int,
    cores: int = 1,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Compare estimators on one problem: accuracy, seconds, simulations and memory.

    Parameters
    ----------
    source : pymc.Model or ReferenceTable
        A model is simulated anew in each repetition; of a table other rows are used in each.
    estimators : sequence or dict
        Names, "auto" and "sample_smc" among them, or estimators with settings of your own; with labels where
        this is a dict. `SampleSMC` needs a model.
    budgets : sequence of int
        Numbers of simulations.
    repetitions : int
    observations : int
        Held-out rows whose parameters are estimated, in each repetition.
    held_out : pair of ndarray of shape (k, p) and (k, d), optional
        Parameters and statistics to use as held-out rows instead, in every repetition.
    exact : callable, optional
        From statistics (d,) to the mean (p,) and covariance (p, p) of the exact posterior, where that is
        a normal distribution: then the RKHS error of the posterior's embedding is known.
    modes : bool
        Whether posterior modes are scored, too; their seconds are not counted. Where more than 1,000 atoms
        carry weight the mode is that of the draws.
    draws : int
        Of each posterior that is scored.
    work, time_budget : float
        Of "auto", as in `select`.
    store : str or Path, optional
        CSV file to which each line is written as soon as it is known. The same call goes on where it ended.
    random_seed : int
    cores : int
        Of the simulation.
    progressbar : bool

    Returns
    -------
    pandas.DataFrame
        A line for each estimator, budget and repetition: ``simulations``; ``amortised``, whether they serve
        all observations; ``seconds_simulate``, ``seconds_fit``, ``seconds_condition`` (of one observation,
        its draws included); ``rmse`` of the posterior mean, ``rmse_of_mode``, ``bias``, ``crps``,
        ``energy_score``, ``coverage_90``, ``rkhs_error``; ``peak_memory`` in megabytes; ``note``, what went
        wrong. Scores are over the prior's standard deviations and averaged over parameters (``bias``: the
        root mean square); those of one parameter, in its own unit, have its name in brackets.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, an estimator unknown, a budget larger than the table, or `store` holds
        the comparison of something else.

    Notes
    -----
    A table of a smaller budget is the beginning of a larger one's, whose seconds it is given a share of.
    Seconds of an estimator that does not amortise are all in ``seconds_condition``.

    Examples
    --------
    >>> table = ReferenceTable.from_dataframe(
    ...     pd.DataFrame({"a": np.arange(400.0), "x": np.arange(400.0)}), parameters=["a"], statistics=["x"]
    ... )
    >>> result = compare(
    ...     table, estimators=["rejection"], budgets=[300], repetitions=1, random_seed=1, progressbar=False
    ... )
    >>> result[["estimator", "budget", "simulations"]].values.tolist()
    [['rejection', 300, 300]]
    """
    named = _named(estimators)
    check_budget(work, time_budget)
    whole("draws", draws)
    whole("cores", cores)
    flag("modes", modes)
    flag("progressbar", progressbar)
    if store is not None:
        path_of("store", store, "a file")
    if exact is not None and not callable(exact):
        raise TypeError(f"exact is {shown(exact)}; give a function of statistics (k, d)")
    _check(source, named, budgets, repetitions, observations, held_out, random_seed)
    scoring = Scoring(draws, modes, work, time_budget, exact)
    lines: list[dict[str, Any]] = []
    file = None if store is None else ComparisonFile(Path(store))
    total = repetitions * len(budgets) * len(named)
    with Bars(shown=progressbar, transient=True) as progress:
        task = progress.add_task("comparing", total=total)
        for repetition in range(repetitions):
            plan = _Plan(source, budgets, repetition, observations, held_out, random_seed, cores)
            for budget in budgets:
                for name, estimator in named.items():
                    settings = fingerprint(estimator, plan.truth, plan.observed, f"{scoring} {random_seed}")
                    key = {"estimator": name, "budget": int(budget), "repetition": repetition}
                    line = None if file is None else file.find(key, settings)
                    if line is None:
                        rows = plan.rows(int(budget))
                        found = line_of(estimator, rows, source, scoring, random_seed + repetition)
                        line = {**key, **found, "settings": settings}
                        # All columns, those of a failure too: a file of lines has one header.
                        line = {
                            column: line.get(column)
                            for column in (*columns_of(rows.table.parameter_names), "settings")
                        }
                        if file is not None:
                            file.append(line)
                    lines.append(line)
                    progress.advance(task)
    return pd.DataFrame(lines).drop(columns="settings")


class _Plan:
    """One repetition's held-out rows, and its tables, which are simulated once they are needed."""

    def __init__(
        self,
        source: Any,
        budgets: Sequence[int],
        repetition: int,
        observations: int,
        held_out: tuple[np.ndarray, np.ndarray] | None,
        random_seed: int,
        cores: int,
    ) -> None:
        self.source, self.most, self.cores = source, int(max(budgets)), cores
        # Apart, so that held-out rows are the same whatever the budgets are.
        seeds = np.random.SeedSequence([random_seed, repetition]).generate_state(3, np.uint64)
        self.seed = int(seeds[0])
        self.table: ReferenceTable | None = None
        self.data: dict[str, np.ndarray] | None = None
        if isinstance(source, ReferenceTable):
            n = len(source)
            if held_out is None:
                order = np.random.default_rng(int(seeds[1])).permutation(n)
                kept = order[:observations]
                self.truth, self.observed = source.parameters[kept], source.statistics[kept]
                self.order = order[observations:]
            else:
                # Other rows in each repetition, as long as the table has them.
                self.order = np.roll(np.arange(n), -repetition * self.most)
        elif held_out is None:
            self.truth = simulate(
                max(2, observations), model=source, random_seed=int(seeds[1]), progressbar=False
            ).parameters[:observations]
            rng = np.random.default_rng(int(seeds[2]))
            self.data, self.observed = simulate_held_out(source, self.truth, rng)
        if held_out is not None:
            of_table = isinstance(source, ReferenceTable)
            names = (source.parameter_names, source.statistic_names) if of_table else (None, None)
            self.truth = parameters_by_name(held_out[0], names[0], "held_out")
            self.observed = by_name(held_out[1], names[1], "held_out")

    def rows(self, budget: int) -> ScoredRows:
        """The table of a budget."""
        if isinstance(self.source, ReferenceTable):
            all_rows, rows = self.source, self.order[:budget]
            seconds = all_rows.timings.get("simulate", float("nan")) * budget / len(all_rows)
        else:
            if self.table is None:
                self.table = simulate(
                    self.most, model=self.source, random_seed=self.seed, cores=self.cores, progressbar=False
                )
            all_rows, rows = self.table, np.arange(budget)
            seconds = all_rows.timings["simulate"] * budget / self.most
        # Shorter tables are the beginnings of the longest one, so that budgets differ by their rows alone.
        failed = len(all_rows.failures)
        failures = all_rows.failures.some(spread_out(failed, round(failed * len(rows) / len(all_rows))))
        theta, x = all_rows.parameters[rows], all_rows.statistics[rows]
        part = replace(all_rows, parameters=theta, statistics=x, failures=failures)
        return ScoredRows(part, self.truth, self.observed, self.data, seconds)


def _named(estimators: Any) -> dict[str, Any]:
    """Estimators by label, every name checked."""
    if isinstance(estimators, str) or not isinstance(estimators, Sequence | Mapping):
        raise TypeError(f"estimators is {shown(estimators)}; give a list of names or estimators, or a dict")
    if isinstance(estimators, Mapping):
        given = dict(estimators)
    else:
        given = {}
        for estimator in estimators:
            if isinstance(estimator, str):
                name = estimator
            else:
                name = "sample_smc" if isinstance(estimator, SampleSMC) else label(estimator)
            if name in given:
                raise ValueError(f"two estimators are called {name!r}; give a dict with labels")
            given[name] = estimator
    if not given:
        raise ValueError("there are no estimators; give at least one")
    for name, estimator in given.items():
        if estimator == "sample_smc":
            given[name] = SampleSMC()
        elif not isinstance(estimator, SampleSMC) and estimator != "auto":
            make_estimator(estimator)
    return given


def _check(
    source: Any,
    named: dict[str, Any],
    budgets: Sequence[int],
    repetitions: int,
    observations: int,
    held_out: tuple[np.ndarray, np.ndarray] | None,
    random_seed: int,
) -> None:
    """Refuse what cannot be compared, before any work."""
    if isinstance(budgets, str) or not isinstance(budgets, Sequence):
        raise TypeError(f"budgets is {shown(budgets)}; give a list of numbers of simulations")
    if held_out is not None and not (isinstance(held_out, tuple | list) and len(held_out) == 2):
        raise TypeError(
            f"held_out is {shown(held_out)}; give a pair of parameters (k, p) and statistics (k, d)"
        )
    if isinstance(source, ReferenceTable) and source.prior_ratio is not None:
        raise ValueError(
            "the rows of the table are no draws of the prior (they have a prior_ratio), and estimators are "
            "compared over the prior: simulate a table for it with `simulate`"
        )
    if isinstance(source, ReferenceTable):
        refuse_weighted_for_success(source, "estimators are compared over the prior")
    for what, numbers in {
        "budgets": budgets,
        "repetitions": [repetitions],
        "observations": [observations],
    }.items():
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int | np.integer) or number < 1:
                raise ValueError(f"{what} holds {shown(number)}; it must be a whole number of at least 1")
            whole(what, number)
    if not budgets:
        raise ValueError("there are no budgets; give numbers of simulations")
    if isinstance(random_seed, bool) or not isinstance(random_seed, int | np.integer):
        raise TypeError(
            f"random_seed is {shown(random_seed)}; a comparison that can go on needs a whole number"
        )
    check_seed(random_seed)
    if not isinstance(source, ReferenceTable) and not hasattr(source, "free_RVs"):
        raise TypeError(f"source is {type(source).__name__}; give a PyMC model or a ReferenceTable")
    smc = [name for name, estimator in named.items() if isinstance(estimator, SampleSMC)]
    if smc and (isinstance(source, ReferenceTable) or held_out is not None):
        raise ValueError(
            f"{smc} simulates anew for each observation: it needs a model, which gives the held-out data too"
        )
    if held_out is not None and len(held_out[0]) != len(held_out[1]):
        raise ValueError(
            f"held_out has {len(held_out[0])} rows of parameters and {len(held_out[1])} of statistics; "
            "each row is one of both"
        )
    if isinstance(source, ReferenceTable):
        left = len(source) - (0 if held_out is not None else observations)
        if max(budgets) > left:
            raise ValueError(
                f"the largest budget is {max(budgets)}; of the table's {len(source)} rows {max(left, 0)} are "
                "not held out"
            )
