"""Another prior without new simulations: ``python -m case_studies.coalescent.new_prior``.

theta ~ Normal(4, 0.5), truncated to 2 to 10, on the table that was simulated from theta ~ Uniform(2, 10),
against tables that were simulated from the new prior, with the same number of rows: differences of
posterior means on 200 observations, in the new prior's standard deviations. Two tables from the new
prior differ too; the last column is that difference.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm

import pymc_kbr as pk
from case_studies.coalescent.data import load_coalescent
from case_studies.coalescent.model import coalescent_model, simulate_statistics
from case_studies.destination import add_destination, file_of
from pymc_kbr.simulation.prior.new_prior import NewPrior

HERE = Path(__file__).parent
ESTIMATORS = ("rejection", "conditional_mean", "localised", "iw_kbr", "kbr")


def new_model() -> pm.Model:
    """The coalescent under the new prior; what is observed does not matter."""
    with pm.Model() as model:
        theta = pm.TruncatedNormal("theta", 4, 0.5, lower=2, upper=10)
        rho = pm.Uniform("rho", 0, 10)
        pk.vector_simulator("sample", simulate_statistics, theta, rho, observed=np.ones(7))
    return model


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--observations", type=int, default=200)
    parser.add_argument("--cores", type=int, default=2)
    add_destination(parser, "CSV")
    arguments = parser.parse_args()
    n = arguments.rows

    old = load_coalescent()
    parameters, statistics = old.parameters[:n], old.statistics[:n]
    model = new_model()
    fresh = [pk.simulate(n, model=model, random_seed=seed, cores=arguments.cores) for seed in (11, 12)]
    observed = pk.simulate(arguments.observations, model=model, random_seed=13).statistics
    prior = NewPrior.of(model, old, coalescent_model(observed[0]), np.random.default_rng(1))
    assert prior.ratio is not None  # both densities are known
    deviation = prior.draws.std(axis=0)
    print(f"effective sample size of the density ratio: {effective(prior.ratio[:n]):.0f} of {n} rows\n")

    lines = []
    for name in ESTIMATORS:
        cls = pk.ESTIMATORS[name]
        reweighted = cls().fit(parameters, statistics, prior.support, ratio=prior.ratio[:n], random_seed=0)
        means = [reweighted.weights(observed) @ parameters]
        for table in fresh:
            fitted = cls().fit(table.parameters, table.statistics, prior.support, random_seed=0)
            means.append(fitted.weights(observed) @ table.parameters)
        ours, theirs, again = (m / deviation for m in means)
        for i, parameter in enumerate(old.parameter_names):
            apart = (ours - theirs)[:, i]
            lines.append(
                {
                    "estimator": name,
                    "parameter": parameter,
                    "mean_difference": apart.mean(),
                    "mean_absolute_difference": np.abs(apart).mean(),
                    "root_mean_square_difference": np.sqrt(np.mean(apart**2)),
                    "root_mean_square_of_two_new_tables": np.sqrt(np.mean((theirs - again)[:, i] ** 2)),
                }
            )
    result = pd.DataFrame(lines)
    print(result.round(4).to_string(index=False))
    result.round(5).to_csv(file_of(arguments, HERE, "new_prior.csv"), index=False)


def effective(ratio: np.ndarray) -> float:
    """Kish's effective sample size."""
    return float(ratio.sum() ** 2 / np.sum(ratio**2))


if __name__ == "__main__":
    main()
