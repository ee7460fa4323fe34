"""Against NUTS where there is a likelihood: ``python -m case_studies.posterior_draws.nuts``.

Three PyMC models with a likelihood, and the same models as simulators with summary statistics that lose
little: posterior means and standard deviations of `sample_abc` against those of `pm.sample`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from scipy.stats import norm

import pymc_kbr as pk
from case_studies.destination import add_destination, folder_of

HERE = Path(__file__).parent
DATA = 60
GROUPS, A_GROUP = 5, 12
DESIGN = np.column_stack([np.ones(DATA), np.random.default_rng(10).normal(size=(DATA, 2))])


def normal(likelihood: bool) -> pm.Model:
    """Mean and scale of 60 normal data."""
    data = np.random.default_rng(11).normal(1.0, 1.5, DATA)

    def simulate(rng: np.random.Generator, mean: Any, scale: Any, size: Any = None) -> np.ndarray:
        shape = np.shape(mean)
        y = np.asarray(mean)[..., None] + np.asarray(scale)[..., None] * rng.standard_normal((*shape, DATA))
        return np.stack([y.mean(axis=-1), np.log(y.std(axis=-1))], axis=-1)

    with pm.Model() as model:
        mean, scale = pm.Normal("mean", 0, 2), pm.HalfNormal("scale", 3)
        if likelihood:
            pm.Normal("y", mean, scale, observed=data)
        else:
            pk.vector_simulator("y", simulate, mean, scale, observed=[data.mean(), np.log(data.std())])
    return model


def logistic(likelihood: bool) -> pm.Model:
    """Three coefficients of a logistic regression; X'y is sufficient."""
    truth = np.array([0.3, 0.8, -0.5])
    data = (np.random.default_rng(12).random(DATA) < 1 / (1 + np.exp(-DESIGN @ truth))).astype(int)

    def simulate(rng: np.random.Generator, beta: Any, size: Any = None) -> np.ndarray:
        chance = 1 / (1 + np.exp(-np.asarray(beta) @ DESIGN.T))
        return (rng.random(chance.shape) < chance) @ DESIGN

    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 1, shape=3)
        if likelihood:
            # A sum, since PyMC 6 may take a minute to compile a product of matrices.
            pm.Bernoulli("y", logit_p=(DESIGN * beta).sum(axis=-1), observed=data)
        else:
            pk.vector_simulator("y", simulate, beta, observed=data @ DESIGN)
    return model


def hierarchical(likelihood: bool) -> pm.Model:
    """Five group means about a common one; data of deviation one; means, and their spread's logarithm."""
    truth = 0.5 + 0.8 * norm.ppf((np.arange(GROUPS) + 0.5) / GROUPS)
    data = np.random.default_rng(13).normal(truth[:, None], 1.0, (GROUPS, A_GROUP))

    def summarise(means: np.ndarray) -> np.ndarray:
        return np.concatenate([means, np.log(means.std(axis=-1, keepdims=True))], axis=-1)

    def simulate(rng: np.random.Generator, group: Any, size: Any = None) -> np.ndarray:
        return summarise(np.asarray(group) + rng.standard_normal(np.shape(group)) / np.sqrt(A_GROUP))

    with pm.Model() as model:
        centre, spread = pm.Normal("centre", 0, 1), pm.HalfNormal("spread", 1)
        group = pm.Normal("group", centre, spread, shape=GROUPS)
        if likelihood:
            pm.Normal("y", group[:, None], 1.0, observed=data)
        else:
            pk.vector_simulator("y", simulate, group, observed=summarise(data.mean(axis=1)))
    return model


MODELS: dict[str, Callable[[bool], pm.Model]] = {
    "normal": normal,
    "logistic": logistic,
    "hierarchical": hierarchical,
}


def moments(idata: Any) -> pd.DataFrame:
    """Mean and standard deviation of every parameter."""
    rows = {}
    for name, values in idata["posterior"].data_vars.items():
        flat = np.asarray(values).reshape(values.shape[0] * values.shape[1], -1)
        for i, column in enumerate(flat.T):
            rows[f"{name}[{i}]" if flat.shape[1] > 1 else str(name)] = (column.mean(), column.std())
    return pd.DataFrame(rows, index=["mean", "sd"]).T


def compare(
    name: str, simulations: int, draws: int, estimator: str | pk.Estimator, random_seed: int = 1
) -> pd.DataFrame:
    """One line a parameter: NUTS, `sample_abc`, and their differences in NUTS's deviations."""
    with MODELS[name](True):
        exact = moments(
            pm.sample(
                draws, tune=1000, chains=2, cores=1, random_seed=3, progressbar=False, target_accept=0.95
            )
        )
    started = time.perf_counter()
    with MODELS[name](False):
        idata = pk.sample_abc(
            draws, simulations=simulations, estimator=estimator, random_seed=random_seed, progressbar=False
        )
    seconds = time.perf_counter() - started
    ours = moments(idata).loc[exact.index]
    return pd.DataFrame(
        {
            "model": name,
            "parameter": exact.index,
            "nuts_mean": exact["mean"].to_numpy(),
            "mean": ours["mean"].to_numpy(),
            "error_of_mean": ((ours["mean"] - exact["mean"]) / exact["sd"]).to_numpy(),
            "nuts_sd": exact["sd"].to_numpy(),
            "ratio_of_sd": (ours["sd"] / exact["sd"]).to_numpy(),
            "seconds": seconds,
            "chosen": idata["posterior"].attrs.get("chosen", str(estimator)).split(":")[0],
        }
    )


def main() -> None:
    """Compare all models and write nuts.csv."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--estimator", default="auto")
    parser.add_argument("--quick", action="store_true", help="1,000 simulations, 500 draws")
    add_destination(parser)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    simulations, draws = (1_000, 250) if arguments.quick else (10_000, 4_000)
    result = pd.concat([compare(name, simulations, draws, arguments.estimator) for name in MODELS])
    output = folder_of(arguments, HERE)
    result.round(4).to_csv(output / "nuts.csv", index=False)
    print(result.to_string(index=False, float_format="{:.3f}".format))


if __name__ == "__main__":
    main()
