"""Samplers on one model after another: draws, seconds, and errors in units of the reference's deviations."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm

from pymc_kbr.simulation.sample_smc import run_smc


class Run(NamedTuple):
    """What a sampler gave.

    Attributes
    ----------
    draws : dict of str to ndarray of shape (n, k)
        Of each variable.
    seconds : float
    divergences : int
    simulations : int
        While it sampled.
    fewest : float
        Smallest effective sample size of a parameter; NaN for `sample_smc`.
    cost : mapping
        Of what was done before: simulations and the seconds of them and of the fit.
    """

    draws: dict[str, np.ndarray]
    seconds: float
    divergences: int
    simulations: int
    fewest: float
    cost: dict[str, Any] = MappingProxyType({})  # type: ignore[assignment]

    def after(self, cost: dict[str, Any]) -> Run:
        """The same, with what had to be done before."""
        return self._replace(cost=cost)


class Runs:
    """Runs that are kept in a folder until their part is done.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, name: str, make: Callable[[], Run]) -> Run:
        """The run of that name, read if it is there, else made and kept."""
        path = self.folder / f"{name}.pickle"
        if path.exists():
            return Run(**pickle.loads(path.read_bytes()))
        run = make()
        self.folder.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pickle.dumps({**run._asdict(), "cost": dict(run.cost)}))
        return run


def by_nuts(model: pm.Model, draws: int, random_seed: int) -> Run:
    """NUTS: two chains, one after the other, each with as many steps of tuning as draws."""
    names = [rv.name for rv in model.free_RVs]
    started = time.perf_counter()
    # Without the jitter of the default: a start beyond what was simulated has probability zero.
    with model, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        idata = pm.sample(
            draws,
            tune=draws,
            chains=2,
            cores=1,
            target_accept=0.9,
            init="adapt_diag",
            random_seed=random_seed,
            progressbar=False,
            compute_convergence_checks=False,
        )
    seconds = time.perf_counter() - started
    chains = {name: np.asarray(idata["posterior"][name]).reshape(2, draws, -1) for name in names}
    drawn = {name: values.reshape(2 * draws, -1) for name, values in chains.items()}
    fewest = min(float(az.ess(column)) for values in chains.values() for column in np.moveaxis(values, 2, 0))
    return Run(drawn, seconds, int(np.asarray(idata["sample_stats"]["diverging"]).sum()), 0, fewest)


def by_smc(model: pm.Model, draws: int, random_seed: int) -> Run:
    """`pm.sample_smc` on `pm.Simulator`: one chain of as many particles as draws."""
    run = run_smc(model, draws=draws, chains=1, random_seed=random_seed)
    drawn, first = {}, 0
    for rv in model.free_RVs:
        size = int(np.prod(rv.type.shape, dtype=int))
        drawn[rv.name] = run.draws[:, first : first + size]
        first += size
    return Run(drawn, run.seconds, 0, run.simulations, np.nan)


def moments(run: Run) -> pd.DataFrame:
    """Mean and deviation of each parameter."""
    lines = [
        {
            "parameter": f"{name}[{i}]" if columns.shape[1] > 1 else name,
            "mean": column.mean(),
            "sd": column.std(),
        }
        for name, columns in run.draws.items()
        for i, column in enumerate(columns.T)
    ]
    return pd.DataFrame(lines)


def beside(reference: Run, run: Run, method: str) -> pd.DataFrame:
    """A line a parameter: moments, the reference's, and their difference in the latter's deviations."""
    lines = moments(run).merge(moments(reference), on="parameter", suffixes=("", "_reference"))
    return lines.assign(
        method=method,
        error=(lines["mean"] - lines["mean_reference"]) / lines["sd_reference"],
        ratio=lines["sd"] / lines["sd_reference"],
    )[["method", "parameter", "mean", "sd", "mean_reference", "sd_reference", "error", "ratio"]]


def summary(lines: pd.DataFrame, run: Run, group: Iterable[str]) -> dict[str, Any]:
    """One line a method: seconds before and while sampling, and the errors of group and members.

    Parameters
    ----------
    lines : pandas.DataFrame
        Of `beside`.
    run : Run
    group : iterable of str
        Parameters of the group, deviations among them by their names; the others are its members'.
    """
    of_group = lines["parameter"].isin(list(group))
    of_deviations = of_group & lines["parameter"].str.contains("deviation")
    members = lines[~of_group]
    return {
        "method": lines["method"].iloc[0],
        "simulations": run.cost.get("simulations", 0) + run.simulations,
        "seconds_simulating": run.cost.get("seconds_simulating", 0.0),
        "seconds_fit": run.cost.get("seconds_fit", 0.0),
        "seconds_sampling": run.seconds,
        "divergences": run.divergences,
        "fewest_effective": run.fewest,
        "error_of_means": lines.loc[of_group & ~of_deviations, "error"].abs().max(),
        "error_of_deviations": lines.loc[of_deviations, "error"].abs().max(),
        "rms_error_members": float(np.sqrt(np.mean(members["error"] ** 2))),
        "largest_error_members": members["error"].abs().max(),
        "ratio_group": lines.loc[of_group, "ratio"].mean(),
        "ratio_members": members["ratio"].mean(),
    }
