"""The parts of the study, a function each: what is learnt, what is sampled, and against what."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from case_studies.hierarchical import epidemic, waiting_times
from case_studies.hierarchical.learning import Learned, learn
from case_studies.hierarchical.sampling import Run, Runs, beside, by_nuts, by_smc, summary
from case_studies.hierarchical.trials import coverage, density_errors, each_data_set

SEED = 20

WAITING_GROUP = ("drift_mean", "drift_deviation", "threshold_mean", "threshold_deviation")
EPIDEMIC_GROUP = ("mean_log_R0", "slope", "deviation_log_R0", "log_days")


@dataclass(frozen=True)
class Sizes:
    """How much is simulated and drawn.

    Parameters
    ----------
    waiting, trials : int
        Simulated waiting times that one trial's likelihood is learnt from, for the participants and for data
        sets of trials.
    regions, reference_regions : int
        Simulated epidemics that one region's is learnt from; and that of the reference.
    draws, draws_epidemic : int
        Of each of NUTS's two chains.
    smc_waiting, smc_epidemic : int
        Particles of `pm.sample_smc`.
    data_sets : int
        Whose intervals are counted.
    density : tuple of int
        Tables of single trials that densities are compared for.
    points : int
        Parameters at which they are.
    """

    waiting: int = 50_000
    trials: int = 20_000
    regions: int = 10_000
    reference_regions: int = 20_000
    draws: int = 1000
    draws_epidemic: int = 500
    smc_waiting: int = 500
    smc_epidemic: int = 400
    data_sets: int = 100
    density: tuple[int, ...] = (10_000, 40_000)
    points: int = 200

    @classmethod
    def quick(cls) -> Sizes:
        """Enough to see that everything runs."""
        return cls(2000, 2000, 1500, 3000, 100, 100, 50, 20, 20, (2000,), 40)


def density(sizes: Sizes, folder: Path) -> pd.DataFrame:
    """A line a model of one trial, form and table: how far learnt densities are from exact ones."""
    lines = []
    for lapses in (0.0, waiting_times.LAPSES):
        for form in ("location_scale", "autoregressive"):
            for n in sizes.density:
                found = _waiting(n, form, lapses)
                lines.append(
                    {
                        "lapses": lapses,
                        "form": form,
                        "simulations": n,
                        "seconds_fit": found.cost["seconds_fit"],
                        **density_errors(found.likelihood, lapses, sizes.points, 1000, SEED),
                    }
                )
    return pd.DataFrame(lines)


def trials(sizes: Sizes, folder: Path) -> pd.DataFrame:
    """Coverage of intervals for data sets of 1 to 200 trials, from one table of single trials."""
    found = _waiting(sizes.trials)
    return coverage(each_data_set(found.likelihood, sizes.data_sets, SEED))


def waiting_errors(sizes: Sizes, folder: Path) -> pd.DataFrame:
    """A line a sampler of the participants' model, with NUTS on the exact likelihood as the reference."""
    data = waiting_times.participants(3)
    kept = Runs(folder / "runs")
    exact = kept(
        f"waiting_exact_{sizes.draws}", lambda: by_nuts(waiting_times.exact_model(data), sizes.draws, SEED)
    )

    def learnt() -> Run:
        found = _waiting(sizes.waiting)
        model = waiting_times.learned_model(data, found.likelihood)
        return by_nuts(model, sizes.draws, SEED).after(found.cost)

    def rival() -> Run:
        return by_smc(waiting_times.simulator_model(data, 1.0), sizes.smc_waiting, SEED)

    runs = {
        "NUTS, exact likelihood": exact,
        "NUTS, learnt likelihood": kept(f"waiting_learnt_{sizes.waiting}_{sizes.draws}", learnt),
        "sample_smc, simulator": kept(f"waiting_smc_{sizes.smc_waiting}", rival),
    }
    return _tables(runs, WAITING_GROUP, folder / "waiting_parameters.csv")


def epidemic_errors(sizes: Sizes, folder: Path) -> pd.DataFrame:
    """A line a sampler of the regions' model, with NUTS on what a larger table taught as the reference."""
    data = epidemic.regions(1)
    kept = Runs(folder / "runs")

    def learnt(simulations: int, random_seed: int) -> Run:
        found = learn(
            epidemic.table_parameters, epidemic.simulate_rows, simulations, random_seed, "location_scale"
        )
        model = epidemic.learned_model(data, found.likelihood)
        return by_nuts(model, sizes.draws_epidemic, SEED).after(found.cost)

    def rival() -> Run:
        return by_smc(epidemic.simulator_model(data, SEED, 1.0), sizes.smc_epidemic, SEED)

    large, small = sizes.reference_regions, sizes.regions
    runs = {
        "NUTS, larger table": kept(
            f"epidemic_{large}_{sizes.draws_epidemic}", lambda: learnt(large, SEED + 1)
        ),
        "NUTS, learnt likelihood": kept(
            f"epidemic_{small}_{sizes.draws_epidemic}", lambda: learnt(small, SEED)
        ),
        "sample_smc, simulator": kept(f"epidemic_smc_{sizes.smc_epidemic}", rival),
    }
    return _tables(runs, EPIDEMIC_GROUP, folder / "epidemic_parameters.csv")


def _waiting(n: int, form: str = "location_scale", lapses: float = 0.0) -> Learned:
    return learn(
        waiting_times.table_parameters,
        partial(waiting_times.simulate_rows, lapses=lapses),
        n,
        SEED,
        form,
        waiting_times.table_log_density,
    )


def _tables(runs: dict[str, Run], group: tuple[str, ...], path: Path) -> pd.DataFrame:
    """A line a run, of which the first is the reference; a line each parameter is written to `path`."""
    reference = next(iter(runs.values()))
    compared = {name: beside(reference, run, name) for name, run in runs.items()}
    pd.concat(list(compared.values())[1:]).round(5).to_csv(path, index=False)
    return pd.DataFrame([summary(compared[name], run, group) for name, run in runs.items()])
