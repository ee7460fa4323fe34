"""Tables of others, from the reader's own copies: ``python -m case_studies.population_genetics.others``.

`snp` is of the R package abcrf (``data/snp.RData``), `human` of abc or abc.data (``data/human.rda``, of which
version 1 has two statistics, later ones three and the parameters of bottlenecks). What is not there is
skipped, and the reason is printed. Nothing of the data is recorded.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of
from pymc_kbr.posterior.scores import energy_score
from pymc_kbr.selection.model_choice.methods import log_scores

HERE = Path(__file__).parent
METHODS = ("auto", "local_logistic", "forest")
"""The choice, the regression of abc, and the votes of a forest, as abcrf has them."""

R_SNP = {"log_score": -0.450, "accuracy": 0.806, "seconds": 43.0}
R_HUMAN = {"log_score": -0.545, "seconds": 10.7}
"""abcrf 2.0 and abc 2.2.2 on another machine, in seconds of the processor."""


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


def choices(
    work: str, frame: pd.DataFrame, statistics: list[str], held_out: int, methods: tuple[str, ...]
) -> list[dict[str, Any]]:
    """Log score and accuracy on rows that were not learnt from, by method."""
    order = np.random.default_rng(1).permutation(len(frame))
    others, learnt = frame.iloc[order[:held_out]], frame.iloc[order[held_out:]]
    lines = []
    for method in methods:
        choice, seconds = timed(
            lambda method=method: pk.compare_models(
                learnt, others[statistics], model="model", statistics=statistics, method=method, random_seed=1
            )
        )
        place = others["model"].map({name: i for i, name in enumerate(choice.names)}).to_numpy()
        line = {"work": work, "by": method, "rows": len(learnt), "held_out": held_out}
        line |= {"log_score": log_scores(choice.at_observed, place).mean()}
        line |= {"accuracy": np.mean(choice.at_observed.argmax(axis=1) == place), "seconds": seconds}
        lines.append(line)
        print(line, flush=True)
    return lines


def of_snp(path: Path, quick: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
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
    work = "snp, 3 scenarios"
    lines = [{"work": work, "by": "abcrf 2.0", "rows": 9_500, "held_out": 500, **R_SNP}]
    lines += choices(work, frame, statistics, 100 if quick else 500, METHODS[:1] if quick else METHODS)
    names = [str(name) for name in parameters.columns]
    own = own.iloc[: 1_500 if quick else None]
    for name in names:  # as they are read: whole numbers where all are
        if np.all(own[name] == own[name].round()):
            own[name] = own[name].astype(int)
    scores = energy(
        "snp, scenario 3, whole numbers", own, names, statistics, 20 if quick else 150, ("ta", "ts")
    )
    return lines, [
        {"work": "snp, scenario 3, whole numbers", "by": "R loclinear", "energy_score": 0.797},
        *scores,
    ]


def energy(
    work: str,
    frame: pd.DataFrame,
    names: list[str],
    statistics: list[str],
    held_out: int,
    order: tuple[str, str] | None = None,
) -> list[dict[str, Any]]:
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
    makers = {
        "loclinear (here)": lambda: loclinear.fit(table, random_seed=1),
        "adjusted": lambda: pk.Adjusted().fit(table, random_seed=1),
        "auto": lambda: pk.select(table, random_seed=1, progressbar=False),
    }
    lines = []
    for by, make in makers.items():
        fitted, fit = timed(make)

        def drawn(fitted: Any = fitted) -> list[np.ndarray]:
            return [fitted.condition(row).draw(1_000, 1) for row in others[statistics].to_numpy(dtype=float)]

        draws, seconds = timed(drawn)
        truths = others[names].to_numpy(dtype=float)
        scores = [
            energy_score(one / deviations, truth / deviations)
            for one, truth in zip(draws, truths, strict=True)
        ]
        line = {
            "work": work,
            "by": by,
            "rows": len(learnt),
            "held_out": held_out,
            "energy_score": np.mean(scores),
        }
        line |= {
            "standard_error": np.std(scores) / np.sqrt(held_out),
            "fit": fit,
            "observation": seconds / held_out,
        }
        if order is not None:
            first, second = (names.index(name) for name in order)
            line |= {"broken": int(sum(np.sum(one[:, first] >= one[:, second]) for one in draws))}
        lines.append(line)
        print(line, flush=True)
    return lines


def of_human(
    path: Path, quick: bool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Three histories of human populations."""
    human = read(path)
    simulated = human["stat.3pops.sim" if "stat.3pops.sim" in human else "tajima.sim"]
    observed = human["stat.voight" if "stat.voight" in human else "tajima.obs"]
    statistics = [str(name) for name in simulated.columns]
    frame = pd.DataFrame(np.asarray(simulated), columns=statistics)
    frame["model"] = np.asarray(human["models"]).astype(str)
    few = frame.groupby("model").sample(200 if quick else 8_500, random_state=1).reset_index(drop=True)
    work = f"human, 3 models, {len(statistics)} statistics"
    lines = []
    if len(statistics) == 3:
        lines = [{"work": work, "by": "abc 2.2.2", "rows": 24_000, "held_out": 1_500, **R_HUMAN}]
    lines += choices(work, few, statistics, 100 if quick else 1_500, METHODS[:2])
    if quick:
        frame = few
    found = []
    for method in METHODS[:2]:
        choice, seconds = timed(
            lambda method=method: pk.compare_models(
                frame,
                observed[statistics].to_numpy(),
                model="model",
                statistics=statistics,
                method=method,
                random_seed=1,
            )
        )
        for place, population in enumerate(observed.index):
            line = {"population": str(population), "by": method, "rows": len(frame), "seconds": seconds}
            line |= dict(zip(choice.names, choice.at_observed[place], strict=True))
            found.append(line | {"largest_error": choice.errors_at_observed[place].max()})
            print(found[-1], flush=True)
    if "par.italy.sim" not in human:
        print(
            "skipped: the bottleneck's parameters, which are not in this version of human.rda (take abc.data)"
        )
        return lines, [], found
    parameters = human["par.italy.sim"].reset_index(drop=True)
    own = frame[statistics][frame["model"] == "bott"].reset_index(drop=True)
    own = pd.concat([parameters, own], axis=1).iloc[: 1_500 if quick else 8_150]
    names = [str(name) for name in parameters.columns]
    scores = energy("human, bottleneck", own, names, statistics, 20 if quick else 150)
    return lines, [{"work": "human, bottleneck", "by": "R loclinear", "energy_score": 1.0781}, *scores], found


def main() -> None:
    """Write others_*.csv: figures, and none of the data."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--snp", type=Path, help="snp.RData of abcrf")
    parser.add_argument("--human", type=Path, help="human.rda of abc or abc.data")
    parser.add_argument("--quick", action="store_true", help="few rows")
    add_destination(parser)
    arguments = parser.parse_args()
    folder = folder_of(arguments, HERE)
    models: list[dict[str, Any]] = []
    scores: list[dict[str, Any]] = []
    for name, path in (("snp", arguments.snp), ("human", arguments.human)):
        if path is None or not path.is_file():
            where = "no file is given" if path is None else f"there is no file {path}"
            print(f"skipped: {name}, of which {where} (--{name})")
            continue
        one, other, *more = (of_snp if name == "snp" else of_human)(path, arguments.quick)
        models, scores = models + one, scores + other
        tables = {"models": models, "scores": scores, **({"populations": more[0]} if more else {})}
        for words, lines in tables.items():
            if lines:
                pd.DataFrame(lines).to_csv(folder / f"others_{words}.csv", index=False, float_format="%.4g")
                print(pd.DataFrame(lines).to_string(index=False, float_format="{:.3g}".format), flush=True)


if __name__ == "__main__":
    main()
