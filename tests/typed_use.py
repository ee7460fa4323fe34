"""How a user with a type checker uses the public names: read by mypy in `tests/test_types.py`; never run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, assert_type

import numpy as np
import pandas as pd

import pymc_kbr as pk
from pymc_kbr.gram import Nystroem
from pymc_kbr.kernels import Gaussian, Laplace, Matern


def tables(model: Any, frame: pd.DataFrame, path: Path) -> pk.ReferenceTable:
    made = pk.simulate(1000, model=model, random_seed=1, cores=2, store=path, timeout=60.0, batched=False)
    assert_type(made, pk.ReferenceTable)
    assert_type(
        pk.simulate(10, model=model, within={"rate": (0.0, 1.0)}, on_failure="drop"), pk.ReferenceTable
    )
    stored = pk.simulate_to_store(10_000, "table.zarr", model=model)
    assert_type(stored, pk.StoredTable)
    assert_type(pk.StoredTable.open(path).load(20_000), pk.ReferenceTable)
    given = pk.ReferenceTable.from_dataframe(
        frame, parameters=["a"], statistics=["s"], observed=[0.5], bounds={"a": (0, 1)}
    )
    assert_type(given, pk.ReferenceTable)
    assert_type(pk.ReferenceTable.load(path).append(made).with_observed([1.0]), pk.ReferenceTable)
    assert_type(made.save(path), Path)
    names: list[str] = made.parameter_names
    rows: np.ndarray = made.parameters
    support: pk.Support = made.support
    inside: np.ndarray = support.contains(rows)
    return made if names and inside.all() else given


def closer(model: Any) -> pk.ReferenceTable:
    table = pk.zoom(8_000, model=model, rounds=5, noise=10.0, random_seed=1)
    table = pk.refine(4_000, model=model, rounds=4, estimator="localised", prior_share=0.2, random_seed=1)
    assert_type(table, pk.ReferenceTable)
    assert_type(pk.emulate(table, 20_000, model=model, noise=10.0), pk.ReferenceTable)
    return table


def learnt(model: Any, table: pk.ReferenceTable) -> Any:
    likelihood = pk.KernelLikelihood().fit(table.parameters, table.statistics, table.support, random_seed=1)
    logs: np.ndarray = likelihood.log_likelihood(table.parameters, table.statistics[0])
    pk.LearnedSimulator("y", likelihood, *table.parameters[0], observed=table.statistics[0])
    return pk.learn_simulators(model, 1_000, random_seed=1), logs


def simulator(rate: Any) -> Any:
    def fn(rng: np.random.Generator, rate: np.ndarray, size: Any = None) -> np.ndarray:
        counts: np.ndarray = rng.poisson(rate, size)
        return counts

    return pk.vector_simulator("waiting", fn, rate, observed=[1.9, 1.2], dims="statistic")


def raw(fn: Callable[..., np.ndarray], rate: Any, table: pk.ReferenceTable) -> pk.ReferenceTable:
    pk.set_simulator("data", fn, rate, observed=[[0.3, 1.2], [0.1, 0.9]], sizes=(2, 20))
    features = pk.SetFeatures(embedding=12, quantiles=7).fit(table)
    columns: np.ndarray = features([[0.1, 0.2], [0.3]])
    return table.with_features(features) if len(columns) else table


def estimators(parameters: np.ndarray, statistics: np.ndarray) -> Sequence[pk.Estimator]:
    made = [
        pk.Rejection(),
        pk.NadarayaWatson(10.0, scale=False),
        pk.ConditionalMean(kernel=Matern(2.0), solver=Nystroem(500)),
        pk.Localised(500, kernel=Laplace(1.0) + Gaussian(2.0)),
        pk.ImportanceWeightedKernelBayes(),
        pk.KernelBayes(),
        pk.KernelDensity(),
        pk.KernelLikelihood("auto", 1_000),
        pk.Adjusted(pk.Localised(1000), "kernel_ridge"),
        *(estimator() for estimator in pk.ESTIMATORS.values()),
    ]
    fitted = pk.Localised(neighbours=500).fit(parameters, statistics)
    assert_type(fitted, pk.Localised)
    settings: dict[str, float] = fitted.settings()
    weights: np.ndarray = fitted.weights(statistics[0])
    return made if settings and weights.any() else [fitted]


def posteriors(estimator: pk.Estimator, table: pk.ReferenceTable) -> np.ndarray:
    posterior: pk.Posterior = estimator.condition(statistics_of(table))
    many: list[pk.Posterior] = estimator.condition(table.statistics[:10])
    assert_type(posterior.total_weight, float)
    assert_type(posterior.negative_share, float)
    assert_type(posterior.effective_sample_size, float)
    numbers: list[np.ndarray] = [
        posterior.mean(),
        posterior.cov(),
        posterior.mode(),
        posterior.quantile([0.05, 0.95]),
        posterior.expectation(lambda theta: theta**2),
        posterior.atoms,
        posterior.weights,
        posterior.simplex_weights,
    ]
    idata = posterior.to_arviz(1000, chains=4, random_seed=1, table=table, estimator="localised")
    assert_type(pk.ReferenceTable.from_arviz(idata), pk.ReferenceTable)
    assert_type(idata, Any)
    assert_type(pk.to_arviz(posterior, many[0].draw(10), table=table), Any)
    return posterior.draw(len(numbers), 1, smoothing="global", herding=True)


def statistics_of(table: pk.ReferenceTable) -> np.ndarray:
    if table.observed is None:
        raise ValueError("no observation")
    return table.observed


def choices(model: Any, table: pk.ReferenceTable, stored: pk.StoredTable) -> Any:
    chosen = pk.select(table, candidates=["localised", pk.Rejection()], random_seed=1)
    assert_type(chosen, pk.Estimator)
    assert_type(pk.select(stored), pk.Estimator)
    assert_type(pk.Localised().fit(table, random_seed=1), pk.Localised)
    assert_type(pk.Rejection().fit(stored), pk.Rejection)
    calibration = pk.calibrate(chosen, table, rows=1000, random_seed=1)
    assert_type(calibration, pk.Calibration)
    covered: np.ndarray = calibration.coverage([0.5, 0.9])
    corrected: np.ndarray = calibration.recalibrated(covered)
    idata = pk.sample_abc(
        len(corrected), estimator=chosen, reference_table=table, model=model, calibration=calibration
    )
    assert_type(pk.estimator_of(idata), pk.Estimator)
    again: bool = chosen.is_fitted_to(table)
    assert again
    sensitivity: pd.DataFrame = pk.prior_sensitivity(idata)
    joint: np.ndarray = pk.calibrate("rejection", table, around=covered[0]).joint_coverage([0.5, 0.9])
    local = pk.local_classifier_test(chosen, table, joint[0], permutations=99)
    assert_type(local, pk.LocalClassifierTest)
    corrected *= len(sensitivity) * local.pvalue
    check = pk.predictive_check(idata, model=model)
    assert_type(check, pk.PredictiveCheck)
    far: bool = pk.observation_support(table).far
    few: list[str | pk.Estimator] = ["localised", pk.Rejection()]
    return pk.sample_abc(reference_table=stored, candidates=few, random_seed=int(far))


def pictures(
    model: Any, posterior: pk.Posterior, calibration: pk.Calibration, table: pk.ReferenceTable
) -> Any:
    comparison = pk.compare(
        model,
        estimators=["rejection", pk.Localised(), pk.SampleSMC()],
        budgets=[1_000],
        store="comparison.csv",
        random_seed=1,
    )
    assert_type(comparison, pd.DataFrame)
    pk.plot_posterior_weights(posterior, names=["rate"])
    pk.plot_posterior(posterior, truth={"rate": 1.0}, names=["rate"])
    pk.plot_calibration(calibration, probability=0.9)
    pk.plot_joint_calibration(calibration)
    pk.plot_recovery(calibration, most=50)
    pk.plot_observation_support(table)
    return pk.plot_accuracy_runtime(comparison, score="crps", cost_per_simulation=10.0)


def failures(model: Any) -> pk.Selection | None:
    try:
        pk.simulate(10, model=model)
    except pk.SimulationError as error:
        raise pk.PosteriorWarning(str(error)) from error
    return None


def filters(model: Any, states: np.ndarray, seen: np.ndarray) -> np.ndarray:
    kbf = pk.KernelBayesFilter("iw_kbr", transition=model, point="rotation").fit(states, seen, random_seed=1)
    assert_type(kbf, pk.KernelBayesFilter)
    filtered: pk.FilteredStates = kbf.filter(seen, initial="conditional_mean")
    ahead: pk.FilteredStates = kbf.predict(3, filtered.last)
    assert_type(kbf.smooth(seen), pk.FilteredStates)
    belief = kbf.step(kbf.step(None, seen[0]), seen[1])
    return np.concatenate([ahead.mean(), filtered.interval(0.9)[:, 0], belief.mean()[None]])


def tests(model: Any, x: pd.DataFrame, y: np.ndarray) -> float:
    found = pk.mmd_test(x, y, bandwidth="bayesian", random_seed=1)
    statistic: float = found.statistic
    dependence = pk.hsic_test(y[:, 0], y[:, 1], bandwidth=("median", 2.0), null="gamma", statistic="biased")
    given = pk.conditional_hsic_test(y[:, 0], y[:, 1], y[:, 2], random_seed=1)
    kci: float = pk.kci_test(y[:, 0], y[:, 1], y[:, 2], random_seed=1).pvalue
    upper: np.ndarray = pk.witness(x, y, probability=0.9).upper
    curve = pk.power_curve(pk.mmd_test, lambda shift, rng: (y, y + shift), [0.0, 1.0], repeats=10)
    power: np.ndarray = curve.power
    assert_type(pk.causal_learn_test(random_seed=1), type)
    embedding = pk.BayesianKernelEmbedding(noise=0.01).fit(y)
    interval: np.ndarray = embedding.interval(y[:3], 0.9)
    return statistic + dependence.pvalue + given.pvalue + kci + float(upper[0] + power[0] + interval[0, 0])


def from_the_model(table: pk.ReferenceTable, data: np.ndarray) -> float:
    found = pk.misspecification(table, data, random_seed=1)
    assert_type(found, pk.Misspecification)
    relevance = pk.statistic_relevance(table, rows=500)
    assert_type(relevance, pk.StatisticRelevance)
    relevance.plot()
    pk.kernel_embedding_model(data, prior=(2.0, 1.0), separate=True)
    modes: np.ndarray = pk.chain_modes(data).means
    return found.pvalue + float(modes[0])


def which_model(tables: dict[str, pk.ReferenceTable], model: Any, x: np.ndarray) -> float:
    tables |= pk.simulate_models({"one": model}, 100, random_seed=1, on_failure="drop")
    choice = pk.compare_models(tables, x, {"one": 0.5, "two": 0.5}, method=["logistic"], random_seed=1)
    assert_type(choice, pk.ModelChoice)
    pk.plot_model_choice(choice.with_prior({"one": 0.1, "two": 0.9}))
    found = pk.statistic_contributions("adjusted", tables["one"].with_statistics(["a"]), groups=["a"])
    assert_type(found, pk.StatisticContributions)
    lines: pd.DataFrame = found.summary()
    pk.load(pk.save(choice, "choice.npz", overwrite=True))
    return float(choice.summary()["probability"].iloc[0] + len(lines))
