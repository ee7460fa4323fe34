"""One population: constant, grown, through a bottleneck, or parted from another; and its size over time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from pymc_kbr.selection.model_choice.held_out import HeldOutProbabilities

INDIVIDUALS, LENGTH = 10, 5e5
RATES: dict[str, Any] = {"mutation_rate": 2e-8, "recombination_rate": 1e-8}
PREDICTIONS = 200

TRUTHS: dict[str, dict[str, float]] = {
    "growth": {"size": 10_000.0, "factor": 10.0, "begun": 1_500.0},
    "bottleneck": {"size": 10_000.0, "factor": 10.0, "ended": 800.0, "duration": 500.0},
}
"""The two data sets, and what they are simulated with."""


def _of_one(size: float, **more: float) -> Any:
    """A demography of the population that the samples are from."""
    import msprime

    made = msprime.Demography()
    made.add_population(name="here", initial_size=size, **more)
    return made


def constant(size: float) -> Any:
    """Always of the same size."""
    return _of_one(size)


def growth(size: float, factor: float, begun: float) -> Any:
    """Grown exponentially, so many times, since some generations ago."""
    made = _of_one(size * factor, growth_rate=np.log(factor) / begun)
    made.add_population_parameters_change(time=begun, initial_size=size, growth_rate=0)
    return made


def bottleneck(size: float, factor: float, ended: float, duration: float) -> Any:
    """So many times smaller for a while."""
    made = _of_one(size)
    made.add_population_parameters_change(time=ended, initial_size=size / factor)
    made.add_population_parameters_change(time=ended + duration, initial_size=size)
    return made


def split(size: float, parted: float, migration: float) -> Any:
    """Parted from another one, of the same size, which is not sampled and sends migrants."""
    made = _of_one(size)
    for name in ("there", "both"):
        made.add_population(name=name, initial_size=size)
    made.set_symmetric_migration_rate(["here", "there"], migration)
    made.add_population_split(parted, derived=["here", "there"], ancestral="both")
    return made


PRIORS: dict[str, tuple[float, float]] = {
    "size": (10_000, 0.7),
    "factor": (10, 0.7),
    "begun": (1_500, 0.8),
    "ended": (800, 0.8),
    "duration": (500, 0.7),
    "parted": (10_000, 0.8),
    "migration": (1e-4, 1.0),
}
"""Median and logarithmic deviation of each parameter."""

DEMOGRAPHIES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "constant": (constant, ("size",)),
    "growth": (growth, ("size", "factor", "begun")),
    "bottleneck": (bottleneck, ("size", "factor", "ended", "duration")),
    "split": (split, ("size", "parted", "migration")),
}


def statistics() -> pk.popgen.Statistics:
    """Of one population: the folded spectrum, what summarises it, and associations of sites by distance."""
    return pk.popgen.Statistics({"here": INDIVIDUALS}, ["pi", "theta_w", "tajima_d", "sfs", "ld"])


def data_of(name: str) -> pd.Series:
    """The statistics of one data set."""
    import msprime

    seed = 1 + list(TRUTHS).index(name)
    trees = msprime.sim_ancestry(
        {"here": INDIVIDUALS},
        demography=DEMOGRAPHIES[name][0](**TRUTHS[name]),
        sequence_length=LENGTH,
        recombination_rate=RATES["recombination_rate"],
        random_seed=seed,
    )
    return statistics().from_trees(
        msprime.sim_mutations(trees, rate=RATES["mutation_rate"], random_seed=seed)
    )


def model_of(name: str, observed: pd.Series) -> pm.Model:
    """A demography with the prior of its parameters."""
    demography, parameters = DEMOGRAPHIES[name]
    with pm.Model() as model:
        for parameter in parameters:
            median, deviation = PRIORS[parameter]
            pm.LogNormal(parameter, np.log(median), deviation)
        pk.popgen.coalescent(
            "y", demography, statistics(), observed=observed, sequence_length=LENGTH, **RATES
        )
    return model


def run(simulations: int, cores: int, stores: Path | None = None) -> dict[str, Any]:
    """Probabilities of the demographies, how they hold on held-out rows, and two histories of sizes."""
    data = {name: data_of(name) for name in TRUTHS}
    models = {name: model_of(name, data.get(name, data["growth"])) for name in DEMOGRAPHIES}
    started = time.perf_counter()
    store = None if stores is None else stores / "demographies"
    tables = pk.simulate_models(
        models, simulations // len(models), cores=cores, random_seed=1, store=store, progressbar=False
    )
    print(f"{simulations} simulations on {cores} core(s): {time.perf_counter() - started:.0f} s", flush=True)
    choices = {
        name: pk.compare_models(tables, observed.to_numpy(), random_seed=1) for name, observed in data.items()
    }
    lines = pd.DataFrame({"demography": list(models)})
    for name, choice in choices.items():
        lines[f"probability_of_{name}"] = choice.probabilities.to_numpy()
        lines[f"error_of_{name}"] = choice.errors.to_numpy()
    scores, recognised = held_out(tables)
    results = {name: _posterior(name, models[name], tables[name]) for name in TRUTHS}
    return {
        "demographies": lines.assign(recognised=recognised),
        "demographies_held_out": scores,
        "histories": pd.concat([_summary(name, found) for name, found in results.items()]),
    } | {"pictures": (choices["bottleneck"], results, data)}


def held_out(tables: dict[str, pk.ReferenceTable]) -> tuple[pd.DataFrame, np.ndarray]:
    """Scores on a fifth of the rows, not learnt from, and how often each demography is recognised there."""
    names = list(next(iter(tables.values())).statistic_names)
    frames = [
        pd.DataFrame(table.statistics, columns=names).assign(demography=name)
        for name, table in tables.items()
    ]
    learnt = pd.concat([frame.iloc[len(frame) // 5 :] for frame in frames], ignore_index=True)
    others = pd.concat([frame.iloc[: len(frame) // 5] for frame in frames], ignore_index=True)
    started = time.perf_counter()
    choice = pk.compare_models(learnt, others[names], model="demography", statistics=names, random_seed=1)
    seconds = time.perf_counter() - started
    place = others["demography"].map({name: i for i, name in enumerate(choice.names)}).to_numpy()
    found = HeldOutProbabilities(choice.at_observed, place, np.full(len(place), 1 / len(place)))
    line = {
        "method": choice.method,
        "learnt": len(learnt),
        "held_out": len(others),
        "log_score": found.log_score,
        "log_score_of_prior": -np.log(len(tables)),
        "accuracy": found.accuracy,
        "calibration_error": found.calibration_error(),
        "calibration_noise": found.calibration_noise(np.random.default_rng(0)),
        "seconds": seconds,
    }
    print(pd.DataFrame(found.confusion(), choice.names, choice.names).round(2), flush=True)
    own = dict(zip(choice.names, np.diag(found.confusion()), strict=True))
    return pd.DataFrame([line]), np.array([own[name] for name in tables])


def _posterior(name: str, model: pm.Model, table: pk.ReferenceTable) -> Any:
    """The posterior of one data set under its own demography, with predictions."""
    result = pk.sample_abc(2_000, model=model, reference_table=table, random_seed=1, progressbar=False)
    print(name, result["posterior"].attrs["chosen"], flush=True)
    few = result["posterior"].isel(draw=slice(None, None, max(1, 4_000 // PREDICTIONS)))
    predicted = pm.sample_posterior_predictive(few, model=model, random_seed=1, progressbar=False)
    return {"posterior": result["posterior"], "predicted": predicted["posterior_predictive"]["y"]}


def _summary(name: str, found: dict[str, Any]) -> pd.DataFrame:
    lines = []
    for parameter, truth in TRUTHS[name].items():
        values = np.ravel(found["posterior"][parameter])
        low, high = np.quantile(values, [0.025, 0.975])
        line: dict[str, Any] = {"data": name, "parameter": parameter, "truth": truth}
        lines.append(line | {"mean": values.mean(), "lower": low, "upper": high})
    return pd.DataFrame(lines)


def draw(found: dict[str, Any], folder: Path) -> None:
    """Probabilities of the demographies; sizes over time and spectra of the two data sets."""
    choice, results, data = found["pictures"]
    wide, axes = plt.subplots(1, 3, figsize=(12, 3.2), layout="constrained")
    pk.plot_model_choice(choice, ax=axes)
    wide.savefig(folder / "demographies.png", dpi=80)
    figure, panels = plt.subplots(2, 2, figsize=(9, 6), layout="constrained")
    for row, (name, result) in zip(panels, results.items(), strict=True):
        demography, parameters = DEMOGRAPHIES[name]
        rng = np.random.default_rng(1)
        prior = {key: rng.lognormal(np.log(PRIORS[key][0]), PRIORS[key][1], 400) for key in parameters}
        pk.popgen.plot_population_size(
            demography, result["posterior"], prior=prior, truth=TRUTHS[name], ax=row[0]
        )
        pk.popgen.plot_spectrum(result["predicted"], data[name], ax=row[1])
        row[0].set_title(name)
    figure.savefig(folder / "histories.png", dpi=80)
    plt.close("all")
