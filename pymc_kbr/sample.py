"""`sample_abc`: all stages in one call."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn.base import clone

from pymc_kbr.arrays.arithmetic import default_arithmetic
from pymc_kbr.arrays.checked_rows import CheckedRows
from pymc_kbr.arrays.observations import Observations
from pymc_kbr.arrays.refusals import generator_of, names_of, of_type, shown, whole
from pymc_kbr.arrays.users_line import users_line
from pymc_kbr.checking.calibration import Calibration, recalibrated
from pymc_kbr.checking.coarseness import Coarseness, coarseness_of
from pymc_kbr.checking.diagnostics import Concern, diagnose, signs_of, warn
from pymc_kbr.checking.prior_sensitivity import log_densities
from pymc_kbr.estimators import Estimator, Rejection, make_estimator
from pymc_kbr.estimators.fitted_table import in_deviations
from pymc_kbr.estimators.likelihood.choice import NOT_UNIFORM
from pymc_kbr.estimators.likelihood.success import weighting_of
from pymc_kbr.estimators.sets import columns_of_sets
from pymc_kbr.posterior.arviz import check_var_names, to_arviz
from pymc_kbr.posterior.posterior import Posterior
from pymc_kbr.rounds.adaptive import TooCoarse, check_rounds, simulate_in_rounds
from pymc_kbr.selection.fitted_for import Candidates, account, check_choice, check_rows_for, fitted_for
from pymc_kbr.selection.select import IN_MEMORY
from pymc_kbr.simulation import SimulationOptions, simulate
from pymc_kbr.simulation.model.read import (
    check_model,
    model_in_context,
    model_of_table,
    refuse_without_simulator,
    with_data_of,
)
from pymc_kbr.simulation.options import Clock
from pymc_kbr.simulation.prior.density import known_densities
from pymc_kbr.simulation.prior.model_prior import with_its_support
from pymc_kbr.simulation.prior.new_prior import NewPrior
from pymc_kbr.simulation.progress import working
from pymc_kbr.tables.reference_table import ReferenceTable
from pymc_kbr.tables.stored_table import StoredTable

if TYPE_CHECKING:
    import pymc as pm

FITTED: dict[int, Estimator] = {}
"""The fitted estimators of results that are still in memory, by the results' identities."""

_WHY = {
    "draws are independent, so that nothing is tuned and nothing has to converge": (
        "tune target_accept step init initvals n_init jitter_max_retries nuts nuts_sampler "
        "nuts_sampler_kwargs discard_tuned_samples compute_convergence_checks keep_warning_stat"
    ),
    "posteriors come from one table of simulations (`simulations`, `estimator`, `rounds`)": (
        "kernel start threshold correlation_threshold epsilon distance"
    ),
    "the result is always that of ArviZ": "return_inferencedata idata_kwargs trace callback",
    "`cores` and `executor` say where simulations run": "mp_ctx blas_cores",
}
NOT_HERE = {name: why for why, names in _WHY.items() for name in names.split()}
"""Arguments of `pm.sample` and `pm.sample_smc` that `sample_abc` has no use for, and why."""

F = TypeVar("F", bound=Callable[..., Any])


def _explains(function: F) -> F:
    """Answer arguments of PyMC's samplers in a sentence."""

    @wraps(function)
    def explained(*args: Any, **given: Any) -> Any:
        for name in given.keys() & NOT_HERE.keys():
            raise TypeError(f"sample_abc has no argument {name!r}: {NOT_HERE[name]}; leave it out")
        return function(*args, **given)

    return cast(F, explained)


@_explains
@default_arithmetic
def sample_abc(
    draws: int = 1000,
    *,
    chains: int | None = 2,
    estimator: str | Estimator = "auto",
    candidates: Sequence[str | Estimator] | None = None,
    simulations: int = 10_000,
    reference_table: ReferenceTable | StoredTable | None = None,
    model: pm.Model | None = None,
    prior: Any = None,
    calibration: Calibration | None = None,
    random_seed: int | np.random.Generator | None = None,
    cores: int | None = 1,
    executor: Executor | Any | None = None,
    store: str | Path | None = None,
    on_failure: str = "raise",
    timeout: float | None = None,
    progressbar: bool = True,
    rounds: int | str | None = None,
    statistics: Sequence[str] | None = None,
    var_names: Sequence[str] | None = None,
) -> Any:
    """Sample the posterior of a model whose likelihood is only known as a simulator.

    Parameters
    ----------
    draws : int
        Number of posterior draws of each chain, as in PyMC: there are chains times as many in all.
    chains : int
        Parts that independent draws come in; two where it is None. Nothing is done for each of them: they are
        there for what in ArviZ compares chains.
    estimator : str or Estimator
        A name, with its defaults, or an estimator with settings of your own; one that was fitted to
        `reference_table`, in memory and as it is given here, is not fitted again. "auto" tries estimators and
        settings on held-out rows near the observation and keeps the best: see `pymc_kbr.select`. Where the
        first half of the simulations is looked at (see `rounds`), the choice is made on this half. The
        attributes of the result say what was chosen and why, and `estimator_of` gives it, fitted.
    candidates : sequence of str or Estimator, optional
        Of which "auto" chooses, as `pymc_kbr.select`. Refused beside another estimator.
    simulations : int
        Size of the reference table, where none is given.
    reference_table : ReferenceTable or StoredTable, optional
        Simulations made before, with `simulate` or elsewhere; then nothing is simulated, and a warning names
        the settings of simulations that have no effect. The posterior is that of the table's observation. If
        the data of the model were changed since the simulation, as by `pm.set_data`, it is that of the
        model's present data, with a warning; an observation that was set by `with_observed` takes precedence.
        The estimator reads all rows of a `StoredTable`, a part at a time; warnings, and the choice of "auto",
        use 20,000 of them.
    model : pymc.Model, optional
        The model; that of the surrounding ``with`` block where left out. With a reference table it
        is only needed for dims, coords and deterministic variables.
    prior : pymc.Model or array_like of shape (l, p), optional
        Another prior than the one that the table was simulated from: a model with the same free
        variables, or draws of them. Nothing is simulated again. Where this is a model and `model` is
        the one of the table, rows are weighted with the ratio of both densities; otherwise the ratio is
        estimated from the draws. A learned likelihood is multiplied with the new prior's density.
    calibration : Calibration, optional
        What `calibrate` found for this estimator: marginal quantiles of the draws are corrected by it, and
        the attribute ``recalibrated`` of the result says so.
    random_seed : int, list of int or numpy.random.Generator, optional
    cores, executor, store, on_failure, timeout, progressbar
        As in `simulate`. A reference table has its own meaning of failed simulations: with "drop" the
        posterior and ``log_evidence`` include the probability of success.
    rounds : int or str, optional
        In how many rounds the simulations are made, the later ones at draws of the posterior so far, as by
        `refine`; with one, all are draws of the prior. "auto": up to half of them are such draws; where these
        are too coarse, known densities leave few of them, no learned likelihood holds in all, or regression
        estimates stand for the statistics, the others are made in up to three rounds near the observation;
        otherwise the result is that of one round. Left out, as "auto", for an estimator that is chosen, from
        2,000 simulations on; but one round with a store, another prior, a calibration or some statistics, and
        of models that can be simulated at draws of the prior alone. The attribute ``rounds`` of the result
        says what was done.
    statistics : sequence of str, optional
        The posterior given only these statistics, by the names of columns or of whole variables. The
        reference table in the result has all of them, and the attribute ``statistics_used`` names these, one
        a line. Statistics that are missing in the data (NaN) are left out in any case, in the same way.
    var_names : sequence of str, optional
        The variables, free or deterministic, that the group ``posterior`` has; all where left out.

    Returns
    -------
    arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        Draws, atoms and weights, data, prior and the table itself: see `pymc_kbr.posterior.arviz.to_arviz`.

    Raises
    ------
    TypeError, ValueError
        If an argument is out of range, the estimator's name is unknown, the table has no
        observation or other parameters than the model, the model cannot be simulated, or some of the
        new prior's mass lies outside the table's support.

    Warns
    -----
    UserWarning
        If settings of simulations are given beside a reference table, or the density ratio of a new prior has
        an effective sample size below 100.
    PosteriorWarning
        For each reason not to trust the posterior: see `pymc_kbr.checking.diagnostics`. The attribute
        ``warnings`` of the result has them, too, one a line after its name. What is only worth knowing, such
        as that the posterior touches the prior's edge, is in the attribute ``notes``.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     idata = sample_abc(500, simulations=500, random_seed=1, progressbar=False)
    >>> dict(idata["posterior"].sizes)
    {'chain': 2, 'draw': 500}
    """
    chains = 2 if chains is None else chains
    whole("draws", draws)
    whole("chains", chains)
    whole("simulations", simulations)
    check_kinds(reference_table, model, statistics)
    if not isinstance(calibration, Calibration | None):
        raise TypeError(f"calibration is {shown(calibration)}; give a Calibration, as `calibrate` makes one")
    given = None if isinstance(estimator, str) and estimator == "auto" else make_estimator(estimator)
    check_choice(candidates, given)
    validate_arguments(given, prior, calibration, reference_table, store, rounds, statistics)
    if var_names is not None:
        check_var_names(var_names, _variables(reference_table, model))
    how: dict[str, Any] = {
        "random_seed": random_seed,
        "cores": cores,
        "executor": executor,
        "on_failure": on_failure,
    }
    how |= {"timeout": timeout, "progressbar": progressbar}
    # Here, so that what is out of range is refused where nothing is simulated, too.
    asked = SimulationOptions(simulations, store=store, **how)
    if reference_table is not None:
        warn_of_no_effect(asked)
    rng = generator_of(random_seed)
    stored = reference_table if isinstance(reference_table, StoredTable) else None
    seconds = Clock()
    table = reference_table.load(IN_MEMORY) if isinstance(reference_table, StoredTable) else reference_table
    before, stopped = None, False
    if table is None:
        refuse_without_simulator(model)
        alone = all(other is None for other in (store, prior, calibration, statistics))
        chosen_by = given, candidates
        table, before, stopped = _simulated(simulations, model, rounds, store, chosen_by, how, alone=alone)
        # What is not simulating: the look at the first simulations, and what rounds are drawn from.
        seconds.lap("rounds", without=sum(table.timings.values()))
    model = model_of_table(table, model)
    table = with_its_support(table, model)
    if reference_table is not None:
        table = with_data_of(table, model)
    all_statistics = table
    path, whose = None if stored is None else stored.store.path, model if prior is None else prior
    new = None if prior is None else NewPrior.of(prior, table, model, rng)
    known = known_densities(whose, table, model)
    model = model_of_table(table, prior) if model is None and hasattr(prior, "free_RVs") else model
    of_sets = bool(table.set_names)
    if of_sets:  # what is fitted to all rows of a store would read data sets, not columns
        table, stored = columns_of_sets(table), None
    table, stored = _asked_for(table, statistics), None if stored is None else _asked_for(stored, statistics)
    observed = Observations.held_by(table)

    how_chosen: dict[str, Any] = {"candidates": candidates, "before": before}
    interrupted: list[str] = []
    try:
        if stopped:
            raise KeyboardInterrupt
        fitted = fitted_for(table, given, new, stored, rng, progressbar, known.log_prior, **how_chosen)
    except KeyboardInterrupt:
        if reference_table is not None:
            raise
        # The simulations would be lost.
        if before is not None and not of_sets:
            fitted, instead = before, "the estimator that was fitted to the first rows"
        else:
            fitted = fitted_for(table, Rejection(), new, None, rng, False)
            instead = "rejection ABC, with its defaults"
        interrupted.append(f"the fit was interrupted: the posterior is that of {instead}")
    else:
        if fitted.selection_ and fitted.selection_.interrupted:
            interrupted.append(fitted.selection_.interrupted)
    if fitted.selection_ and before is None:
        seconds.laps["choose"] = fitted.selection_.seconds - fitted.selection_.seconds_of_fit
    seconds.lap("fit", without=seconds.laps.get("choose", 0.0))
    with working(progressbar, f"Conditioning {type(fitted).__name__}"):
        (posterior,) = fitted.for_draws(chains * draws).posteriors(observed)
    seconds.lap("condition")
    drawn = posterior.draw(chains * draws, rng)
    seconds.lap("draw")
    scaled = in_deviations(CheckedRows.trusted(table.parameters, table.statistics, table.support), fitted)
    notes, coverage, held_out = account(fitted, stored)
    if calibration is not None:  # the coverage that was measured is that of uncorrected draws
        (drawn, less_far), coverage = recalibrated(drawn, calibration, table), None
        notes["recalibrated"] = f"marginal quantiles, on {len(calibration.pit)} held-out rows"
        if less_far:
            notes["recalibrated"] += f"; {less_far:.1%} of the draws less far, to stay in the prior's support"
    coarse = None
    try:
        with working(progressbar, "Comparing with the simulations nearest to the posterior"):
            coarse = coarseness_of(fitted, posterior, table, known.log_prior, rng)
    except KeyboardInterrupt:
        interrupted.append("the check whether the table is too coarse was interrupted")
    seconds.lap("diagnose")
    seen = signs_of(table, scaled, fitted.table_)
    judged: dict[str, Any] = {"coverage": coverage, "held_out": held_out, "chosen": given is None}
    concerns = diagnose(posterior, drawn, seen, coarse=coarse, **judged)
    concerns += [Concern("interrupted", words) for words in interrupted]
    warn(concerns)
    if words := table.provenance.get("interrupted"):  # of which the simulation has warned
        concerns.append(Concern("interrupted", words))
    for kind, doubt in (("warnings", True), ("notes", False)):
        some = [concern for concern in concerns if concern.doubt == doubt]
        notes[kind] = "\n".join(f"{concern.name}: {concern.message}" for concern in some)
    notes |= {"rounds": table.origin.rounds} if table.origin.rounds else {}
    left_out = all_statistics.without_missing() is not all_statistics
    notes |= {"statistics_used": "\n".join(table.statistic_names)} if left_out or statistics else {}
    found: dict[str, Any] = {"estimator": type(fitted).__name__, "timings": seconds.laps, "notes": notes}
    weighting = weighting_of(all_statistics)
    if weighting.success is not None and weighting.weighted_for_success:
        found["weights"] = np.exp(-weighting.success.log_probability(table.parameters))
    found["log_densities"] = log_densities(fitted, drawn, observed, known)
    held: dict[str, Any] = {"table": all_statistics, "model": model, "prior": new, "store": path}
    whole_prior = table.origin.of_whole_prior(posterior, new)
    result = to_arviz(whole_prior, drawn, chains=chains, var_names=var_names, **held, **found)
    FITTED[id(result)] = fitted
    weakref.finalize(result, FITTED.pop, id(result), None)
    return result


@default_arithmetic
def estimator_of(result: Any) -> Estimator:
    """The fitted estimator that a result of `sample_abc` comes from: the one that was chosen, or given.

    Parameters
    ----------
    result : arviz.InferenceData (ArviZ 0.x) or xarray.DataTree (ArviZ 1.x)
        What `sample_abc` returned in this process.

    Returns
    -------
    Estimator
        Fitted to the result's reference table, under the prior that was sampled. It conditions on further
        observations, can be given to `sample_abc` without being fitted again, and where it was chosen has
        the comparison as `selection_`.

    Raises
    ------
    ValueError
        If this is no result of `sample_abc`, or a copy of one, or was read from a file: a result's file has
        the table, not the estimator. `save` writes an estimator.

    Examples
    --------
    >>> import pymc as pm
    >>> def fn(rng, mean, scale, size):
    ...     return rng.normal(mean, scale, size)
    >>> with pm.Model():
    ...     mean = pm.Normal("mean", 0, 1)
    ...     _ = pm.Simulator("y", fn, mean, 2.0, sum_stat="mean", observed=[1.2, 0.3, 2.1])
    ...     idata = sample_abc(500, simulations=500, estimator="adjusted", random_seed=1, progressbar=False)
    >>> estimator_of(idata).condition([0.7]).mean().shape
    (1,)
    """
    fitted = FITTED.get(id(result))
    if fitted is None:
        raise ValueError(
            f"{of_type(result)} is given, which `sample_abc` did not return in this process; give its own "
            "result, neither a copy nor one that was read from a file, or fit an estimator to the table: "
            "`select(table)` chooses one, and `save` keeps it"
        )
    return fitted


def _variables(reference_table: ReferenceTable | StoredTable | None, model: pm.Model | None) -> list[str]:
    """Names of the variables that a posterior can have."""
    if reference_table is None:
        model = model_in_context(model)
        names = [one.name for one in model.free_RVs]
    else:
        model = model_of_table(cast("ReferenceTable", reference_table), model)
        names = [one.name for one in reference_table.parameter_columns.variables]
    return names if model is None else [*names, *(one.name for one in model.deterministics)]


def _simulated(
    simulations: int,
    model: pm.Model | None,
    rounds: int | str | None,
    store: str | Path | None,
    chosen_by: tuple[Estimator | None, Candidates],
    how: dict[str, Any],
    *,
    alone: bool,
    # Of a choice by fewer rows chance decides much: half of them are not looked at unasked.
    fewest: int = 2000,
) -> tuple[ReferenceTable, Estimator | None, bool]:
    """A model's table, what was chosen on its first half if that does, and whether this was interrupted."""
    given = chosen_by[0]
    if given is not None and isinstance(simulations, int | np.integer) and simulations > 1:
        given.check(simulations)  # before the work; other numbers are refused by `simulate`
    many = isinstance(simulations, int | np.integer) and simulations >= fewest
    if rounds is None and not (alone and many and given is None):
        return simulate(simulations, model=model, store=store, **how), None, False
    looked: list[Estimator | None] = []
    if_coarse = partial(
        _if_coarse, chosen_by=chosen_by, model=model, progressbar=how["progressbar"], fine=looked
    )
    options = SimulationOptions(simulations, to_be_extended=False, **how)
    table = simulate_in_rounds(model, rounds, if_coarse, options, partial(check_rows_for, *chosen_by))
    return table, looked[0] if looked and given is None else None, None in looked


def _if_coarse(
    table: ReferenceTable,
    chosen_by: tuple[Estimator | None, Candidates],
    model: pm.Model | None,
    progressbar: bool,
    fine: list[Estimator | None],
    *,
    # Random numbers of the first look come from the seed and this number.
    stream: int = 22,
) -> TooCoarse | None:
    """The estimator of a table, where its posterior is not what the rows nearest to it say, and why."""
    rng = np.random.default_rng([stream, table.seed or 0])
    known = known_densities(model_of_table(table, model), table, model)
    given, candidates = chosen_by
    table = columns_of_sets(table).without_missing()
    estimator = None if given is None else clone(given)
    looks: list[tuple[Posterior, Coarseness | None]] = []

    def too_coarse(fitted: Estimator) -> bool:
        with working(progressbar, "Looking at the first simulations"):
            (posterior,) = fitted.posteriors(Observations.held_by(table))
            look = coarseness_of(fitted, posterior, table, known.log_prior, rng.spawn(1)[0])
        looks.append((posterior, look))
        return look is not None and look.coarse

    # The first candidate is a learned likelihood: where it is too coarse, others are not compared with it.
    how: dict[str, Any] = {"does_not_do": too_coarse if candidates is None else None}
    try:
        fitted = fitted_for(table, estimator, None, None, rng, False, known.log_prior, candidates, **how)
    except KeyboardInterrupt:
        fine.append(None)
        raise
    if fitted.selection_ and fitted.selection_.interrupted:
        fine.append(fitted)
        raise KeyboardInterrupt
    if not (looks and looks[0][1] is not None and looks[0][1].coarse):
        looks.clear()
        too_coarse(fitted)
    posterior, found = looks[0]
    if found is not None and found.coarse:
        return TooCoarse(fitted, "too coarse")
    # Of other estimators there is no such test.
    if posterior.settings.get("transforms_pvalue", 1.0) < NOT_UNIFORM:
        return TooCoarse(fitted, "one in which no learned likelihood holds")
    scale = fitted.scale_of_statistics()
    if isinstance(scale, str) and scale.endswith("posterior_mean"):
        return TooCoarse(fitted, "one of which regression estimates were the best statistics")
    fine.append(fitted)
    return None


def _asked_for(table: Any, statistics: Sequence[str] | None) -> Any:
    """A table, in memory or on the disk, with the statistics that are asked for and that the data have."""
    return (table if statistics is None else table.with_statistics(statistics)).without_missing()


# --- arguments that do not go together ---


def check_kinds(reference_table: Any, model: Any, statistics: Any) -> None:
    """Refuse arguments of another kind than `sample_abc` takes."""
    if not isinstance(reference_table, ReferenceTable | StoredTable | None):
        raise TypeError(
            f"reference_table is {shown(reference_table)}; give a ReferenceTable or a StoredTable, as "
            "`simulate`, `ReferenceTable.from_dataframe` and `StoredTable.open` make them"
        )
    if model is not None:
        check_model("model", model)
    if statistics is not None:
        names_of("statistics", statistics)


def warn_of_no_effect(
    options: SimulationOptions,
    *,
    # Of `sample_abc`, where none are asked for.
    usual_simulations: int = 10_000,
) -> None:
    """Say which settings of simulations are given where nothing is simulated."""
    usual = SimulationOptions(usual_simulations)
    given = {"simulations": options.draws != usual.draws}
    given |= {
        name: getattr(options, name) != getattr(usual, name)
        for name in ("cores", "executor", "on_failure", "timeout")
    }
    named = [name for name, is_given in given.items() if is_given]
    if named:
        warnings.warn(
            f"{', '.join(named)} {'has' if len(named) == 1 else 'have'} no effect beside a reference table: "
            "nothing is simulated",
            UserWarning,
            stacklevel=users_line(),
        )


def validate_arguments(
    estimator: Estimator | None,
    prior: Any,
    calibration: Any,
    reference_table: ReferenceTable | StoredTable | None,
    store: str | Path | None,
    rounds: int | str | None,
    statistics: Any,
) -> None:
    """Refuse arguments that do not go together, before any work."""
    if prior is not None and getattr(estimator, "prior", None) is not None:
        raise ValueError("both the estimator and `prior` give a prior; leave one of them out")
    if (conditions := getattr(estimator, "conditions", None)) is not None:
        raise ValueError(
            f"the estimator has the conditions {conditions}, whose values no model says; fit it to a table, "
            "and give them to `condition(observed, conditions=...)`"
        )
    if reference_table is not None and store is not None:
        raise ValueError("both a reference table and a store are given; leave one of them out")
    if isinstance(reference_table, StoredTable) and (prior is not None or calibration is not None):
        raise ValueError(
            f"the reference table stays on the disk, with {len(reference_table)} rows, and `prior` and "
            "`calibration` need it in memory; leave them out, or load the table or some of its rows: "
            "`stored.load(20_000)`"
        )
    if isinstance(reference_table, StoredTable) and weighting_of(reference_table).ratio is not None:
        raise ValueError(
            "the reference table stays on the disk, and its rows are no draws of the prior and carry "
            "weights, which needs them in memory; load the table or some of its rows: `stored.load(20_000)`"
        )
    if statistics is not None and rounds is not None:
        raise ValueError(
            "statistics names some of them, and rounds go by all that the data have; leave rounds out, or "
            "give NaN in the model's data for the others"
        )
    if rounds is not None:
        check_rounds(rounds)
        _refuse_with_rounds(rounds, prior, reference_table, store)


def _refuse_with_rounds(rounds: int | str, prior: Any, reference_table: Any, store: Any) -> None:
    """Refuse what does not go together with rounds."""
    if reference_table is not None:
        raise ValueError(
            f"rounds is {shown(rounds)} and a reference table is given, of which nothing is simulated; "
            "leave one of them out, or make the table with `refine` or `zoom`"
        )
    if store is not None:
        raise ValueError(
            f"rounds is {shown(rounds)} and a store is given, which holds one table; leave one of them "
            "out, or take `refine(..., store=...)`, with a folder of stores, and give its table as "
            "`reference_table`"
        )
    if prior is not None:
        raise ValueError(
            f"rounds is {shown(rounds)} and another prior is given; rounds simulate near the posterior under "
            "the model's own prior: leave one of them out, or simulate from the model with the other prior"
        )
