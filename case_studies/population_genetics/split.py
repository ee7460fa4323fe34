"""Two populations that parted and exchange migrants, from a VCF with gaps: the posterior beside the truth."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from pymc_kbr.arrays.plotting import COLOURS, RULE

TRUTH = {"north": 8_000.0, "south": 3_000.0, "time": 2_000.0, "migration": 1e-4}
"""Sizes of the populations, generations since they parted, share of migrants a generation."""

INDIVIDUALS, LENGTH, MISSING = 8, 5e5, 0.05
LEVELS = (0.5, 0.9, 0.95)
RATES: dict[str, Any] = {"mutation_rate": 2e-8, "recombination_rate": 1e-8}


def demography(north: float, south: float, time: float, migration: float) -> Any:
    """A population of 10,000 that parts, with as many migrants either way."""
    import msprime

    made = msprime.Demography()
    for name, size in (("north", north), ("south", south), ("both", 10_000)):
        made.add_population(name=name, initial_size=size)
    made.set_symmetric_migration_rate(["north", "south"], migration)
    made.add_population_split(time, derived=["north", "south"], ancestral="both")
    return made


def write_data(path: Path) -> None:
    """Simulated at the truth, written with gaps: the file that everything starts from."""
    import msprime

    trees = msprime.sim_ancestry(
        {"north": INDIVIDUALS, "south": INDIVIDUALS},
        demography=demography(**TRUTH),
        sequence_length=LENGTH,
        recombination_rate=RATES["recombination_rate"],
        random_seed=11,
    )
    trees = msprime.sim_mutations(trees, rate=RATES["mutation_rate"], random_seed=12)
    rng, lines = np.random.default_rng(13), []
    for line in trees.as_vcf(position_transform=lambda x: 1 + np.asarray(x)).splitlines():
        fields = line.split("\t")
        if not line.startswith("#"):
            gaps = rng.random(len(fields) - 9) < MISSING
            fields[9:] = ["./." if gap else field for gap, field in zip(gaps, fields[9:], strict=True)]
        lines.append("\t".join(fields))
    path.write_text("\n".join(lines) + "\n")


def statistics() -> pk.popgen.Statistics:
    """Of each population, and of both together."""
    names = [f"tsk_{i}" for i in range(2 * INDIVIDUALS)]
    return pk.popgen.Statistics(
        populations={"north": names[:INDIVIDUALS], "south": names[INDIVIDUALS:]},
        statistics=["pi", "theta_w", "tajima_d", "fst", "dxy", "sfs"],
    )


def model_of(path: Path) -> pm.Model:
    """The prior of the demography, and its simulator beside the VCF."""
    with pm.Model() as model:
        pm.LogNormal("north", np.log(5_000), 0.7)
        pm.LogNormal("south", np.log(5_000), 0.7)
        pm.LogNormal("time", np.log(3_000), 0.8)
        pm.LogNormal("migration", np.log(1e-4), 1.0)
        pk.popgen.coalescent("data", demography, statistics(), observed=path, sequence_length=LENGTH, **RATES)
    return model


def run(simulations: int, cores: int, stores: Path | None = None) -> dict[str, pd.DataFrame]:
    """The posterior beside the truth, and what intervals of held-out simulations cover."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.vcf"
        write_data(path)
        model = model_of(path)
    started = time.perf_counter()
    store = None if stores is None else stores / "split.zarr"
    table = pk.simulate(simulations, model=model, cores=cores, random_seed=1, store=store, progressbar=False)
    print(f"{simulations} simulations on {cores} core(s): {time.perf_counter() - started:.0f} s")
    result = pk.sample_abc(4_000, model=model, reference_table=table, random_seed=1, progressbar=False)
    found = result["posterior"]
    print(found.attrs["chosen"], flush=True)
    lines = []
    for name, truth in TRUTH.items():
        values, prior = found[name].to_numpy().ravel(), table.parameters[:, table.parameter_names.index(name)]
        low, high = np.quantile(values, [0.025, 0.975])
        ends = np.quantile(prior, [0.025, 0.975])
        lines.append(
            {"parameter": name, "truth": truth, "mean": values.mean(), "lower": low, "upper": high}
            | {"prior_lower": ends[0], "prior_upper": ends[1]}
        )
    return {"split": pd.DataFrame(lines), "split_coverage": coverage(result, table)}


def coverage(result: Any, table: pk.ReferenceTable) -> pd.DataFrame:
    """Share of the intervals of a tenth of the rows, which are not fitted to, that hold their parameters."""
    rows = min(1_000, len(table.parameters) // 10)
    checked = pk.calibrate(pk.estimator_of(result), table, rows=rows, random_seed=2, progressbar=False)
    bands = checked.band(LEVELS, 0.95)
    lines = []
    for name, shares in zip(checked.names, checked.coverage(LEVELS).T, strict=True):
        line: dict[str, Any] = {"parameter": name, "rows": rows}
        for level, share, band in zip(LEVELS, shares, bands, strict=True):
            of = f"{100 * level:.0f}"
            line |= {f"covered_{of}": share, f"least_{of}": band[0], f"most_{of}": band[1]}
        lines.append(line)
    return pd.DataFrame(lines)


def draw(found: dict[str, pd.DataFrame], folder: Path) -> None:
    """Intervals of the prior and of the posterior over the truth, on a logarithmic axis."""
    lines = found["split"]
    figure, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
    ratios = lines.drop(columns=["parameter", "truth"]).div(lines["truth"], axis=0)
    for place, line in enumerate(ratios.to_dict("records")):
        ax.plot([line["prior_lower"], line["prior_upper"]], [-place] * 2, color=RULE)
        ax.plot([line["lower"], line["upper"]], [-place] * 2, color=COLOURS[1], linewidth=4)
        ax.plot(line["mean"], -place, "o", color=COLOURS[1])
    ax.axvline(1, color=COLOURS[0], linewidth=0.8)
    ax.set_yticks(-np.arange(len(lines)), list(lines["parameter"]))
    ax.set_ylim(-len(lines) + 0.6, 0.4)
    ax.set(xscale="log", xlabel="over the truth: 95% of the prior (thin) and of the posterior")
    figure.savefig(folder / "split.png", dpi=100)
    plt.close(figure)
