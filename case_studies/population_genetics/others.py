"""Tables of others, from the reader's own copies: ``python -m case_studies.population_genetics.others``.

`snp` is of the R package abcrf (``data/snp.RData``), `human` of abc or abc.data (``data/human.rda``, of which
version 1 has two statistics, later ones three and the parameters of bottlenecks). abc and abcrf run beside us
on the same rows, and so does the R of the pages. What is not there is skipped, and the reason is printed.
Nothing of the data is recorded.
"""

from __future__ import annotations

import argparse
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from case_studies.population_genetics.in_r import NoR, R, found_r, of_pages, table_of
from case_studies.population_genetics.voight import as_human
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.selection.model_choice.methods import log_scores

HERE = Path(__file__).parent
METHODS = ("auto", "local_logistic", "forest")
"""The choice, the regression of abc, and the votes of a forest, as abcrf has them."""

TREES = 500
"""Of a forest of abcrf, its default."""

Lines = list[dict[str, Any]]


def read(path: Path) -> dict[str, Any]:
    """The objects of an R data file."""
    import rdata

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of texts without an encoding, which are names of columns
        return {str(name): value for name, value in rdata.read_rda(path).items()}


def timed(what: Any) -> tuple[Any, float]:
    """What a function returns, and its seconds of the processor."""
    started = time.process_time()
    return what(), time.process_time() - started


def beside(lines: Lines, run: Any) -> None:
    """Add the line that R gives, or say why there is none."""
    try:
        lines.append(run())
        print(lines[-1], flush=True)
    except NoR as why:
        print(f"skipped: {why}", flush=True)


def for_r(frame: pd.DataFrame, statistics: list[str], parameters: list[str]) -> pd.DataFrame:
    """A frame as ``in_r.R`` reads it."""
    names = {name: f"s.{name}" for name in statistics} | {name: f"p.{name}" for name in parameters}
    return frame[[*names, *(["model"] if "model" in frame else [])]].rename(columns=names)


def choices(
    work: str,
    frame: pd.DataFrame,
    statistics: list[str],
    held_out: int,
    methods: tuple[str, ...],
    r: R,
    package: str,
) -> Lines:
    """Log score and accuracy on rows that were not learnt from, by method, and by a package of R."""
    order = np.random.default_rng(1).permutation(len(frame))
    others, learnt = frame.iloc[order[:held_out]], frame.iloc[order[held_out:]]

    def line(by: str, probabilities: np.ndarray, names: Any, seconds: float) -> dict[str, Any]:
        place = others["model"].map({str(name): i for i, name in enumerate(names)}).to_numpy()
        found = {"work": work, "by": by, "rows": len(learnt), "held_out": held_out}
        found |= {"log_score": log_scores(probabilities, place).mean()}
        return found | {"accuracy": np.mean(probabilities.argmax(axis=1) == place), "seconds": seconds}

    def theirs() -> dict[str, Any]:
        by = r.named(package)
        task = "abcrf" if package == "abcrf" else "mnlogistic"
        found, seconds = r.run(task, for_r(learnt, statistics, []), for_r(others, statistics, []))
        # Half a vote, or half a row of the tenth, more: a share of none is no impossibility.
        many = TREES if package == "abcrf" else round(0.1 * len(learnt))
        raised = found.to_numpy(dtype=float) * many + 0.5
        return line(by, raised / raised.sum(axis=1, keepdims=True), names_in_r(found), sum(seconds.values()))

    lines: Lines = []
    beside(lines, theirs)
    for method in methods:
        choice, seconds = timed(
            lambda method=method: pk.compare_models(
                learnt, others[statistics], model="model", statistics=statistics, method=method, random_seed=1
            )
        )
        lines.append(line(method, choice.at_observed, choice.names, seconds))
        print(lines[-1], flush=True)
    return lines


def names_in_r(found: pd.DataFrame) -> list[str]:
    """Names of models that R has written as columns."""
    return [str(name).removeprefix("X") for name in found.columns]


def of_snp(path: Path, quick: bool, r: R) -> dict[str, Lines]:
    """Three scenarios by 48 statistics; the third one's whole numbers, of which ta is below ts."""
    snp = read(path)["snp"]
    statistics = [str(name) for name in snp["sumsta"].columns]
    frame = pd.DataFrame(np.asarray(snp["sumsta"]), columns=statistics)
    frame["model"] = np.asarray(snp["modindex"]).astype(str)
    third = frame["model"] == "3"
    parameters = snp["param"].reset_index(drop=True)[third].dropna(axis=1)
    own = pd.concat([parameters, frame.loc[third, statistics]], axis=1)
    if quick:
        frame = frame.iloc[:600]
    methods = METHODS[:1] if quick else METHODS
    models = choices("snp, 3 scenarios", frame, statistics, 100 if quick else 500, methods, r, "abcrf")
    names = [str(name) for name in parameters.columns]
    own = own.iloc[: 1_500 if quick else None]
    for name in names:  # as they are read: whole numbers where all are
        if np.all(own[name] == own[name].round()):
            own[name] = own[name].astype(int)
    work = "snp, scenario 3, whole numbers"
    scores = energy(work, own, names, statistics, 20 if quick else 150, r, ("ta", "ts"))
    return {"models": models, "scores": scores}


def energy(
    work: str,
    frame: pd.DataFrame,
    names: list[str],
    statistics: list[str],
    held_out: int,
    r: R,
    order: tuple[str, str] | None = None,
) -> Lines:
    """Energy scores of held-out rows in deviations of the prior, seconds, and draws that break an order."""
    mixed = np.random.default_rng(1).permutation(len(frame))
    others, learnt = frame.iloc[mixed[:held_out]], frame.iloc[mixed[held_out:]]
    table = pk.ReferenceTable.from_dataframe(
        learnt,
        parameters=names,
        statistics=statistics,
        constraints=None if order is None else [f"{order[0]} < {order[1]}"],
    )
    deviations = learnt[names].std().to_numpy(dtype=float)
    loclinear = pk.Adjusted(pk.Rejection(0.1, kernel="epanechnikov"), "heteroscedastic_local_linear")
    makers: dict[str, Any] = {
        "loclinear (here)": lambda: loclinear.fit(table, random_seed=1),
        "adjusted": lambda: pk.Adjusted().fit(table, random_seed=1),
    }
    if order is None:  # an observation of `snp` takes its choice seconds
        makers["auto"] = lambda: pk.select(table, random_seed=1, progressbar=False)
    truths = others[names].to_numpy(dtype=float)

    def line(by: str, draws: list[np.ndarray], fit: float, rest: float) -> dict[str, Any]:
        pairs = zip(draws, truths, strict=True)
        scores = [energy_score(one / deviations, truth / deviations) for one, truth in pairs]
        found = {"work": work, "by": by, "rows": len(learnt), "held_out": held_out}
        found |= {"energy_score": np.mean(scores), "standard_error": np.std(scores) / np.sqrt(held_out)}
        found |= {"fit": fit, "observation": rest / held_out}
        if order is not None:
            first, second = (names.index(name) for name in order)
            found |= {"broken": np.mean([np.mean(one[:, first] >= one[:, second]) for one in draws])}
        return found

    def theirs() -> dict[str, Any]:
        by = f"{r.named('abc')} loclinear"
        sides = for_r(learnt, statistics, names), for_r(others, statistics, names)
        found, seconds = r.run("loclinear", *sides)
        draws = [one.drop(columns="row").to_numpy(dtype=float) for _, one in found.groupby("row")]
        return line(by, draws, seconds["fit"], seconds["rest"])

    lines: Lines = []
    beside(lines, theirs)
    for by, make in makers.items():
        fitted, fit = timed(make)

        def drawn(fitted: Any = fitted) -> list[np.ndarray]:
            return [fitted.condition(row).draw(1_000, 1) for row in others[statistics].to_numpy(dtype=float)]

        draws, rest = timed(drawn)
        lines.append(line(by, draws, fit, rest))
        print(lines[-1], flush=True)
    return lines


def histories(human: dict[str, Any], work: str, quick: bool, r: R) -> dict[str, Lines]:
    """Three histories of human populations, and the parameters of bottlenecks where they are there."""
    simulated = human["stat.3pops.sim" if "stat.3pops.sim" in human else "tajima.sim"]
    observed = human["stat.voight" if "stat.voight" in human else "tajima.obs"]
    statistics = [str(name) for name in simulated.columns]
    work = f"{work}, {len(statistics)} statistics"
    frame = pd.DataFrame(np.asarray(simulated), columns=statistics)
    frame["model"] = np.asarray(human["models"]).astype(str)
    few = frame.groupby("model").sample(200 if quick else 8_500, random_state=1).reset_index(drop=True)
    models = choices(work, few, statistics, 100 if quick else 1_500, METHODS[:2], r, "abc")
    found = populations(work, few if quick else frame, observed[statistics], r)
    if "par.italy.sim" not in human:
        return {"models": models, "populations": found}
    parameters = human["par.italy.sim"].reset_index(drop=True)
    own = frame[statistics][frame["model"] == "bott"].reset_index(drop=True)
    own = pd.concat([parameters, own], axis=1).iloc[: 1_500 if quick else 8_150]
    names = [str(name) for name in parameters.columns]
    scores = energy(f"{work}, bottleneck", own, names, statistics, 20 if quick else 150, r)
    return {"models": models, "populations": found, "scores": scores}


def populations(work: str, frame: pd.DataFrame, observed: pd.DataFrame, r: R) -> Lines:
    """Probabilities of each history given the statistics of three populations."""
    statistics = list(observed.columns)

    def rows(by: str, found: np.ndarray, names: Any, seconds: float, errors: np.ndarray | None) -> Lines:
        lines = []
        for place, population in enumerate(observed.index):
            line = {"work": work, "population": str(population), "by": by, "rows": len(frame)}
            line |= {"seconds": seconds, **dict(zip(names, found[place], strict=True))}
            lines.append(line | {"largest_error": np.nan if errors is None else errors[place].max()})
            print(lines[-1], flush=True)
        return lines

    lines: Lines = []
    try:
        by = f"{r.named('abc')} mnlogistic"
        sides = for_r(frame, statistics, []), for_r(observed, statistics, [])
        answers, seconds = r.run("mnlogistic", *sides)
        lines += rows(by, answers.to_numpy(dtype=float), answers.columns, sum(seconds.values()), None)
    except NoR as why:
        print(f"skipped: {why}", flush=True)
    for method in METHODS[:2]:
        choice, took = timed(
            lambda method=method: pk.compare_models(
                frame, observed.to_numpy(), model="model", statistics=statistics, method=method, random_seed=1
            )
        )
        lines += rows(method, choice.at_observed, choice.names, took, choice.errors_at_observed)
    return lines


def of_human(path: Path, quick: bool, r: R, stores: Path | None) -> dict[str, Lines]:
    """The reader's copy; its three statistics and bottlenecks are simulated where it has two."""
    human = read(path)
    found = histories(human, "human", quick, r)
    if "par.italy.sim" not in human:
        print(
            "this human.rda has no parameters of bottlenecks (abc.data has): msprime simulates such a table"
        )
        made = histories(as_human(250 if quick else 8_500, stores), "human, simulated here", quick, r)
        found = {words: found.get(words, []) + made[words] for words in made}
    return found


def main() -> None:
    """Write others_*.csv: figures, and none of the data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--snp", type=Path, help="snp.RData of abcrf")
    parser.add_argument("--human", type=Path, help="human.rda of abc or abc.data")
    parser.add_argument("--stores", type=Path, help="folder that keeps simulations")
    parser.add_argument("--quick", action="store_true", help="few rows")
    parser.add_argument("--r-library", type=Path, help="library of R that has abc and abcrf")
    parser.add_argument("--r-sources", type=Path, nargs="+", help="sources of packages of R, in their order")
    add_destination(parser)
    arguments = parser.parse_args()
    folder = folder_of(arguments, HERE)
    try:
        r = found_r(arguments)
    except NoR as why:
        print(f"skipped: all that runs in R: {why}")
        r = R(None, {})
    tables: dict[str, Lines] = {"models": [], "populations": [], "scores": []}
    write(folder, "versions", table_of(r.versions))
    if {"abc", "abcrf"} <= set(r.versions):
        write(folder, "pages", pd.DataFrame(of_pages(r)))
    else:
        print("skipped: the R of the pages, which needs abc and abcrf (--r-library, --r-sources)")
    studies = (
        ("snp", arguments.snp, of_snp),
        ("human", arguments.human, partial(of_human, stores=arguments.stores)),
    )
    for name, path, study in studies:
        if path is None or not path.is_file():
            where = "no file is given" if path is None else f"there is no file {path}"
            print(f"skipped: {name}, of which {where} (--{name})")
            continue
        for words, lines in study(path, arguments.quick, r).items():
            tables[words] += lines
            write(folder, words, pd.DataFrame(tables[words]))


def write(folder: Path, words: str, lines: pd.DataFrame) -> None:
    """Write a table, and print it."""
    lines.to_csv(folder / f"others_{words}.csv", index=False, float_format="%.4g")
    print(lines.to_string(index=False, float_format="{:.3g}".format), flush=True)


if __name__ == "__main__":
    main()
