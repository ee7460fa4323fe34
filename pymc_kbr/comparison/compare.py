"""Estimators against each other: accuracy and seconds, on one problem, at several simulation budgets."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.names import by_name, parameters_by_name
from pymc_kbr.arrays.refusals import check_seed, flag, path_of, shown, whole
from pymc_kbr.arrays.scaling import nonzero
from pymc_kbr.arrays.support import Support
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.arrays.weighted import spread_out
from pymc_kbr.embedding.embedding import Atoms, Embedding
from pymc_kbr.estimators import Estimator, make_estimator
from pymc_kbr.estimators.likelihood.success import refuse_weighted_for_success, weighting_of
from pymc_kbr.kernels import Gaussian
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.posterior.scores import covered, crps, energy_score, rmse
from pymc_kbr.selection.select import select
from pymc_kbr.selection.selection import label
from pymc_kbr.simulation.predictive import simulate_held_out
from pymc_kbr.simulation.progress import Bars
from pymc_kbr.simulation.resume_store import refuse_a_part
from pymc_kbr.simulation.sample_smc import run_smc
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
    store: str | Path | None = None,
    random_seed: int,
    cores: int | None = 1,
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
    store : str or Path, optional
        CSV file to which each line is written as soon as it is known. The same call goes on where it ended.
    random_seed : int
    cores : int or None
        Of the simulation; all of them where it is None.
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
    whole("draws", draws)
    if cores is not None:
        whole("cores", cores)
    flag("modes", modes)
    flag("progressbar", progressbar)
    if store is not None:
        path_of("store", store, "a file")
    if exact is not None and not callable(exact):
        raise TypeError(f"exact is {shown(exact)}; give a function of statistics (k, d)")
    _check(source, named, budgets, repetitions, observations, held_out, random_seed)
    scoring = Scoring(draws, modes, exact)
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
        cores: int | None,
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
            truth = simulate(max(2, observations), model=source, random_seed=int(seeds[1]), progressbar=False)
            refuse_a_part(truth, "the held-out rows")
            self.truth = truth.parameters[:observations]
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
                refuse_a_part(self.table, "a repetition")
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


# --- the CSV file of results ---


class ComparisonFile:
    """A CSV file of lines that are found again by their keys."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        self.columns: list[str] | None = None
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            return
        if path.is_dir():
            raise ValueError(f"{path} is a folder; give the name of a CSV file")
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole:
            try:
                frame = _frame(content[:whole])
            except ValueError as error:  # also those of pandas' parser and of texts that are none
                raise ValueError(f"{path} is not a comparison's file: {error}") from None
            if not {*KEYS, "settings"} <= set(frame.columns):
                raise ValueError(
                    f"{path} has the columns {list(frame.columns)[:5]}, ...; it is not a comparison's file"
                )
            self.columns, self.lines = list(frame.columns), frame.to_dict("records")  # type: ignore[assignment]
        elif not ",".join(KEYS).encode().startswith(content[: len(",".join(KEYS))]):
            raise ValueError(f"{path} is not a comparison's file: it has no line of columns")
        # Only of what is known to be a comparison's: what a killed process left of a line would be joined to
        # the next one.
        if whole < len(content):
            warnings.warn(
                f"the last line of {path} was not finished and is computed again", stacklevel=users_line()
            )
            with path.open("r+b") as file:
                file.truncate(whole)

    def find(self, key: dict[str, Any], settings: str) -> dict[str, Any] | None:
        """The line of a key, if it was computed."""
        for line in self.lines:
            if all(line[name] == value for name, value in key.items()):
                if line["settings"] != settings:
                    raise ValueError(
                        f"{self.path} holds {key} of another model, seed, number of draws or observations, "
                        "or estimator; give another file, or the arguments of the first call"
                    )
                return line
        return None

    def append(self, line: dict[str, Any]) -> None:
        """Write a line, and see it to the disk."""
        columns = list(line)
        if self.columns is not None and self.columns != columns:
            raise ValueError(
                f"{self.path} has the columns {self.columns}; this comparison has {columns}; give "
                "another file"
            )
        with self.path.open("a", newline="") as file:
            writer = csv.DictWriter(file, columns)
            if self.columns is None:
                writer.writeheader()
            writer.writerow(line)
            file.flush()
            os.fsync(file.fileno())
        self.columns = columns
        self.lines.append(line)


def _frame(content: bytes) -> pd.DataFrame:
    """The lines, whose texts stay texts: labels such as "1" or "nan", and notes that are empty."""
    texts = ("estimator", "note", "settings")
    numbers = set(pd.read_csv(io.BytesIO(content), nrows=0).columns) - set(texts)
    return pd.read_csv(
        io.BytesIO(content),
        dtype=dict.fromkeys(texts, str),
        keep_default_na=False,
        na_values={name: ["", "nan"] for name in numbers},
    )


def fingerprint(estimator: Any, truth: np.ndarray, observed: np.ndarray, settings: str) -> str:
    """What a line depends on besides its key, in sixteen letters."""
    # scikit-learn breaks long descriptions into lines: words count, and not where they break.
    digest = hashlib.sha256(f"{' '.join(repr(estimator).split())} {settings}".encode())
    for array in (truth, observed):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


# --- one estimator on one table ---


@dataclass(frozen=True)
class SampleSMC:
    """PyMC's own `pm.sample_smc`, on the same model, as one of the estimators that `compare` compares.

    Parameters
    ----------
    draws : int, optional
        Of each chain. Where left out so many that about the budget is simulated; the number that was is
        reported.
    chains, cores : int
    observations : int
        Held-out rows that it is run for, the first ones: each takes a run of its own.
    options : dict
        Of `pm.sample_smc`, such as ``threshold`` and ``correlation_threshold``.
    """

    draws: int | None = None
    chains: int = 2
    cores: int = 2
    observations: int = 3
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Scoring:
    """What is computed of each posterior: see `compare`."""

    draws: int
    modes: bool
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None

    def __str__(self) -> str:
        return f"{self.draws} {self.modes} {self.exact is not None}"


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """A budget's table, and the rows that are scored."""

    table: ReferenceTable
    truth: np.ndarray
    observed: np.ndarray
    data: dict[str, np.ndarray] | None
    seconds: float


@dataclass
class Costs:
    """What an estimator has cost on one table, summed while its posteriors are made."""

    fit: float = 0.0
    condition: float = 0.0
    simulations: int = 0


def line_of(
    estimator: str | Estimator | SampleSMC, rows: ScoredRows, source: Any, scoring: Scoring, seed: int
) -> dict[str, Any]:
    """The scores of one estimator on one table; a note instead where it fails."""
    amortised = not isinstance(estimator, SampleSMC)
    costs, clock = Costs(), time.perf_counter()
    line: dict[str, Any] = {
        "amortised": amortised,
        "seconds_simulate": rows.seconds if amortised else 0.0,
        "simulations": len(rows.table),
        "note": "",
    }
    try:
        with peak_memory() as peak:
            if isinstance(estimator, SampleSMC):
                posteriors = _smc(estimator, rows, source, scoring.modes, seed, costs)
            else:
                posteriors = _amortised(estimator, rows, scoring, seed, costs)
            k, scores = score_posteriors(
                posteriors, rows.truth, rows.observed, rows.table.parameters.std(axis=0), scoring.exact
            )
    except Exception as error:  # of whatever kind: one estimator's failure must not end a comparison of days
        failed = {"seconds_condition": float("nan"), "seconds_fit": time.perf_counter() - clock}
        return line | failed | {"note": f"{type(error).__name__}: {error}"}
    line |= {
        "seconds_fit": costs.fit,
        "seconds_condition": costs.condition / k,
        "peak_memory": peak.megabytes,
        "observations": k,
    }
    if not amortised:
        line["simulations"] = costs.simulations / k
    by_parameter = {
        f"{score}[{name}]": float(value)
        for score, values in scores.by_parameter.items()
        for name, value in zip(rows.table.parameter_names, values, strict=True)
    }
    return line | scores.overall | by_parameter


def _amortised(
    estimator: str | Estimator, rows: ScoredRows, scoring: Scoring, seed: int, costs: Costs
) -> Iterator[ScoredPosterior]:
    """An estimator's posteriors; its seconds are added to `costs`."""
    table, started = rows.table, time.perf_counter()
    if isinstance(estimator, str) and estimator == "auto":
        fitted = select(table, random_seed=seed, progressbar=False)
    else:
        fitted = clone(make_estimator(estimator))
        success = weighting_of(table).success
        fitted.fit(table.parameters, table.statistics, table.support, success=success, random_seed=seed)
    costs.fit = time.perf_counter() - started
    rng = np.random.default_rng(seed)
    # As many at once as `calibrate` takes.
    for part in np.array_split(np.arange(len(rows.truth)), -(-len(rows.truth) // 50)):
        started = time.perf_counter()
        posteriors = fitted.condition(rows.observed[part])
        drawn = [posterior.draw(scoring.draws, rng) for posterior in posteriors]
        # Modes and scores are asked for by the comparison, not by a user: their seconds do not count.
        costs.condition += time.perf_counter() - started
        for posterior, d in zip(posteriors, drawn, strict=True):
            mode = _mode(posterior, d) if scoring.modes else None
            yield ScoredPosterior(posterior.mean(), d, posterior.atoms, posterior.weights, mode)


def _smc(
    smc: SampleSMC,
    rows: ScoredRows,
    model: Any,
    modes: bool,
    seed: int,
    costs: Costs,
    *,
    # About as many as `sample_smc` makes, which takes no budget.
    simulations_a_draw: int = 30,
) -> Iterator[ScoredPosterior]:
    """`sample_smc` once for each observation."""
    assert rows.data is not None
    draws = smc.draws or max(20, len(rows.table) // (simulations_a_draw * smc.chains))
    for i in range(min(smc.observations, len(rows.truth))):
        data = {name: values[i] for name, values in rows.data.items()}
        run = run_smc(
            model, data, draws=draws, chains=smc.chains, cores=smc.cores, random_seed=seed + i, **smc.options
        )
        costs.condition += run.seconds
        costs.simulations += run.simulations
        drawn = run.draws
        mode = _mode_of_draws(drawn, rows.table.support) if modes else None
        yield ScoredPosterior(drawn.mean(axis=0), drawn, drawn, None, mode)


def _mode(
    posterior: Posterior,
    draws: np.ndarray,
    *,
    # Each step of the search visits all atoms; of more, draws are used.
    most_atoms: int = 1000,
) -> np.ndarray:
    """The posterior's mode, from its weights or, where these are many, from its draws."""
    if np.count_nonzero(posterior.weights) > most_atoms:
        return _mode_of_draws(draws, posterior.support)
    return posterior.mode(starts=2)


def _mode_of_draws(draws: np.ndarray, support: Support) -> np.ndarray:
    equal = np.full(len(draws), 1 / len(draws))
    return Posterior.of(Atoms(draws, Gaussian(1.0)), equal, support).mode(starts=2)


# --- peak memory ---


STATUS, CLEAR_REFS = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    """Megabytes above what was held at the start; NaN until the work is done, and where they are unknown."""

    megabytes: float = float("nan")


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure the resident memory's peak above its size at the start."""
    peak = Peak()
    try:
        # To Linux a five means: set the peak back to what is held now, and nothing else.
        CLEAR_REFS.write_text("5")
        before = _linux("VmRSS")
    except OSError:
        before = _since_start()
        yield peak
        peak.megabytes = _since_start() - before
        return
    yield peak
    peak.megabytes = _linux("VmHWM") - before


def process_peak() -> float:
    """Megabytes that the process held at most since it began."""
    try:
        return _linux("VmHWM")  # what the system reports otherwise may be the parent's
    except OSError:
        return _since_start()


def _linux(name: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


def _since_start() -> float:
    """The process's peak since it began; NaN on Windows."""
    try:
        import resource
    except ImportError:
        return float("nan")
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # On macOS these are bytes.
    return kilobytes / (2**20 if sys.platform == "darwin" else 1024)


# --- scores at the true parameters ---


KEYS = ("estimator", "budget", "repetition")
COSTS = (
    "observations",
    "simulations",
    "amortised",
    "seconds_simulate",
    "seconds_fit",
    "seconds_condition",
    "peak_memory",
)
OVERALL = ("rmse", "rmse_of_mode", "bias", "crps", "energy_score", "coverage_90", "rkhs_error")
BY_PARAMETER = ("rmse", "rmse_of_mode", "bias", "crps", "coverage_90")


@dataclass(frozen=True)
class ScoredPosterior:
    """What is scored of a posterior."""

    # Shapes: mean (p,); draws (m, p); atoms (a, p); weights (a,); mode (p,).
    mean: np.ndarray
    draws: np.ndarray
    atoms: np.ndarray
    weights: np.ndarray | None
    mode: np.ndarray | None = None


@dataclass(frozen=True)
class Scores:
    """Scores over the prior's deviations, and of each parameter in its own unit."""

    overall: dict[str, float]
    by_parameter: dict[str, np.ndarray]


def columns_of(parameters: list[str]) -> list[str]:
    """The columns of a comparison of a problem with these parameters."""
    named = [f"{score}[{name}]" for score in BY_PARAMETER for name in parameters]
    return [*KEYS, *COSTS, *OVERALL, *named, "note"]


def score_posteriors(
    posteriors: Iterable[ScoredPosterior],
    truth: np.ndarray,
    observed: np.ndarray,
    deviation: np.ndarray,
    exact: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None,
    *,
    # Of the prior's deviations: bandwidth of the kernel in which RKHS errors are measured.
    kernel_share: float = 0.5,
) -> tuple[int, Scores]:
    """The number of posteriors, and their scores."""
    # Shapes: truth, observed (k, p), (k, d); deviation (p,).
    unit = nonzero(deviation)
    kernel = Gaussian(tuple((kernel_share * unit).tolist()))
    means, modes, single, energy, covers, errors = [], [], [], [], [], []
    for posterior, true, x in zip(posteriors, truth, observed, strict=False):
        means.append(posterior.mean)
        modes.append(np.full(len(unit), np.nan) if posterior.mode is None else posterior.mode)
        single.append(crps(posterior.draws, true))
        energy.append(energy_score(posterior.draws / unit, true / unit))
        covers.append(covered(posterior.draws, true))
        if exact is not None:
            count = len(posterior.atoms)
            weights = np.full(count, 1 / count) if posterior.weights is None else posterior.weights
            carried = weights != 0  # all pairs of atoms are visited
            embedding = Embedding(Atoms(posterior.atoms[carried], kernel), weights[carried])
            errors.append(np.sqrt(max(0.0, embedding.squared_error_to_gaussian(*exact(x)))))
    k = len(means)
    estimates = np.array(means)
    by_parameter = {
        "rmse": rmse(estimates, truth[:k]),
        "rmse_of_mode": rmse(np.array(modes), truth[:k]),
        "bias": np.mean(estimates - truth[:k], axis=0),
        "crps": np.mean(single, axis=0),
        "coverage_90": np.mean(covers, axis=0),
    }
    overall = {
        "rmse": _root_mean_square(by_parameter["rmse"] / unit),
        "rmse_of_mode": _root_mean_square(by_parameter["rmse_of_mode"] / unit),
        "bias": _root_mean_square(by_parameter["bias"] / unit),
        "crps": float(np.mean(by_parameter["crps"] / unit)),
        "energy_score": float(np.mean(energy)),
        "coverage_90": float(np.mean(covers)),
        "rkhs_error": float(np.mean(errors)) if errors else float("nan"),
    }
    return k, Scores(overall, by_parameter)


def _root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
