# ruff: noqa: B008, E501
"""Values of the wrong kind for every argument of the public functions, and what becomes of them.

``python -m tests.refused_kinds [function]`` prints what is taken, or refused in words of Python or NumPy.
"""

import re
import signal
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pymc as pm
import scipy.sparse

import pymc_kbr as pk

PACKAGE = str(Path(pk.__file__).parent)
RNG = np.random.default_rng(0)


class TensorOfAnotherDevice:
    """What a tensor of a graphics card, or one with a gradient, does."""

    shape, ndim, dtype, device = (3, 2), 2, "float32", "cuda:0"

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("can't convert cuda:0 device type tensor to numpy; use Tensor.cpu() first")

    def __getitem__(self, key):
        return self

    def __len__(self):
        return 3


KINDS = {
    "none": None,
    "five": 5,
    "minus_one": -1,
    "zero": 0,
    "half": 2.5,
    "nan": np.nan,
    "infinite": np.inf,
    "huge": 10**400,
    "text": "x",
    "list": [],
    "dict": {},
    "texts": ["x", "y"],
    "object": object(),
    "frame": pd.DataFrame({"q": ["u", "v"], "r": ["w", "z"]}),
    "tensor": TensorOfAnotherDevice(),
    "sparse": scipy.sparse.csr_matrix(np.eye(3)),
    "cube": np.zeros((2, 3, 4)),
    "dates": np.array(["2020-01-01", "2020-01-02"], dtype="datetime64[us]"),
    "complex": np.array([1j, 2j]),
    "true": True,
    "class": int,
    "function": lambda: 1,
}

FRAME = pd.DataFrame(RNG.normal(size=(120, 2)), columns=["a", "b"])
X = (FRAME + 0.5 * RNG.normal(size=(120, 2))).rename(columns={"a": "s", "b": "t"})
TABLE = pk.ReferenceTable.from_dataframe(
    FRAME.join(X), parameters=["a", "b"], statistics=["s", "t"], observed=[0.1, 0.2]
)
FITTED = pk.Rejection(20).fit(TABLE)
LIKELIHOOD = pk.KernelLikelihood("location_scale", particles=50).fit(TABLE, random_seed=1)
POSTERIOR = FITTED.condition([0.1, 0.2])
FILTER = pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(FRAME, X)
STATES = FILTER.filter(X[:5])


def simulator(rng, mean, size=None):
    return rng.normal(mean, 1.0, size)


def model():
    with pm.Model() as made:
        pm.Simulator("y", simulator, pm.Normal("mean", 0, 1), sum_stat="mean", observed=[0.3, 0.8])
    return made


MODEL = model()
SIMULATED = pk.simulate(60, model=MODEL, random_seed=1, progressbar=False)


def in_model(function, *args, **kwargs):
    """Called where a variable may be put."""
    with pm.Model():
        return function(*args, **kwargs)


def vector(name="y", fn=simulator, mean=0.3, observed=(0.3, 0.8)):
    return in_model(pk.vector_simulator, name, fn, mean, observed=observed)


def sets(name="y", fn=simulator, mean=0.3, observed=(0.3, 0.8), sizes=None, largest=None):
    return in_model(pk.set_simulator, name, fn, mean, observed=observed, sizes=sizes, largest=largest)


def learned(
    name="y", likelihood=LIKELIHOOD, parameters=(0.1, 0.2), observed=(0.3, 0.8), group=None, table=None
):
    more = {"group": group, "table": table}
    return in_model(pk.LearnedSimulator, name, likelihood, *parameters, observed=observed, **more)


quiet = {"progressbar": False}
seeded = {"random_seed": 1, **quiet}
sample = partial(pk.sample_abc, 5, estimator="rejection", simulations=20, model=MODEL, **seeded)
CALLS = {
    "sample_abc": (
        sample,
        "chains estimator selection simulations reference_table model prior calibration "
        "random_seed cores executor store on_failure timeout progressbar rounds statistics",
    ),
    "sample_abc draws": (
        lambda draws: pk.sample_abc(draws, reference_table=TABLE, estimator=pk.Rejection(20), **seeded),
        "draws",
    ),
    "sample_abc of a table": (
        partial(pk.sample_abc, 5, reference_table=TABLE, estimator=pk.Rejection(20), **seeded),
        "chains estimator selection simulations reference_table model prior calibration "
        "random_seed cores executor store on_failure timeout progressbar rounds statistics",
    ),
    "simulate": (
        partial(pk.simulate, 20, model=MODEL, **seeded),
        "model random_seed within cores executor store on_failure batched timeout progressbar",
    ),
    "simulate draws": (lambda draws: pk.simulate(draws, model=MODEL, **seeded), "draws"),
    "simulate_to_store": (partial(pk.simulate_to_store, 20, model=MODEL, **seeded), "store"),
    "simulate_models": (
        lambda models=None, draws=20, random_seed=1, store=None: pk.simulate_models(
            models, draws, random_seed=random_seed, store=store, **quiet
        ),
        "models",
    ),
    "simulate_models of two": (
        lambda draws=20, random_seed=1, store=None: pk.simulate_models(
            {"one": MODEL, "two": MODEL}, draws, random_seed=random_seed, store=store, **quiet
        ),
        "draws random_seed store",
    ),
    "refine": (
        partial(pk.refine, 400, model=MODEL, **seeded),
        "model rounds estimator prior_share random_seed cores executor store on_failure batched timeout progressbar",
    ),
    "refine draws": (lambda draws: pk.refine(draws, model=MODEL, **seeded), "draws"),
    "zoom": (
        partial(pk.zoom, 2000, model=MODEL, **seeded),
        "model rounds scale noise random_seed cores executor store on_failure batched timeout progressbar",
    ),
    "zoom draws": (lambda draws: pk.zoom(draws, model=MODEL, **seeded), "draws"),
    "emulate": (
        lambda table=SIMULATED, draws=5, model=MODEL, noise=None, random_seed=1, progressbar=False: (
            pk.emulate(
                table, draws, model=model, noise=noise, random_seed=random_seed, progressbar=progressbar
            )
        ),
        "table draws model noise random_seed",
    ),
    "learn_simulators": (
        partial(pk.learn_simulators, MODEL, 200, **seeded),
        "likelihood trials outside random_seed cores executor store on_failure batched timeout progressbar",
    ),
    "learn_simulators model": (
        lambda model, simulations=200: pk.learn_simulators(model, simulations, **seeded),
        "model",
    ),
    "learn_simulators simulations": (
        lambda simulations: pk.learn_simulators(MODEL, simulations, **seeded),
        "simulations",
    ),
    "select": (
        lambda table=TABLE, candidates=("rejection",), random_seed=1, progressbar=False: pk.select(
            table,
            candidates=candidates,
            random_seed=random_seed,
            progressbar=progressbar,
        ),
        "table candidates random_seed progressbar",
    ),
    "compare_models": (
        lambda tables=None, observed=(0.1, 0.2), prior=None, method="nearest_rows", random_seed=1: (
            pk.compare_models(
                {"one": TABLE, "two": TABLE} if tables is None else tables,
                observed,
                prior,
                method=method,
                random_seed=random_seed,
            )
        ),
        "tables observed prior method random_seed",
    ),
    "compare": (
        partial(
            pk.compare,
            TABLE,
            estimators=["rejection"],
            budgets=[50],
            repetitions=1,
            observations=5,
            random_seed=1,
            progressbar=False,
        ),
        "estimators budgets repetitions observations held_out exact modes draws store random_seed cores progressbar",
    ),
    "calibrate": (
        lambda estimator=pk.Rejection(20), table=TABLE, rows=10, draws=10, around=None, random_seed=1, progressbar=False: (
            pk.calibrate(
                estimator,
                table,
                rows=rows,
                draws=draws,
                around=around,
                random_seed=random_seed,
                progressbar=progressbar,
            )
        ),
        "estimator table rows draws around random_seed progressbar",
    ),
    "local_classifier_test": (
        lambda estimator=pk.Rejection(20), table=TABLE, observed=None, rows=50, permutations=5, random_seed=1: (
            pk.local_classifier_test(
                estimator, table, observed, rows=rows, permutations=permutations, random_seed=random_seed
            )
        ),
        "estimator table observed rows permutations random_seed",
    ),
    "misspecification": (
        lambda table=TABLE, observed=None, random_seed=1: pk.misspecification(
            table, observed, random_seed=random_seed
        ),
        "table observed random_seed",
    ),
    "observation_support": (
        lambda table=TABLE, observed=None: pk.observation_support(table, observed),
        "table observed",
    ),
    "statistic_relevance": (
        lambda table=TABLE, rows=20, bandwidth="median": pk.statistic_relevance(
            table, rows=rows, bandwidth=bandwidth
        ),
        "table rows bandwidth",
    ),
    "statistic_contributions": (
        lambda estimator=pk.Rejection(20), table=TABLE, groups=None, observed=None, rows=20, random_seed=1, progressbar=False: (
            pk.statistic_contributions(
                estimator,
                table,
                groups=groups,
                observed=observed,
                rows=rows,
                random_seed=random_seed,
                progressbar=progressbar,
            )
        ),
        "estimator table groups observed rows random_seed progressbar",
    ),
    "predictive_check": (
        lambda idata=None, model=MODEL, draws=20, bandwidth="median", random_seed=1: pk.predictive_check(
            idata, model=model, draws=draws, bandwidth=bandwidth, random_seed=random_seed
        ),
        "idata",
    ),
    "estimator_of": (lambda result: pk.estimator_of(result), "result"),
    "prior_sensitivity": (lambda result: pk.prior_sensitivity(result), "result"),
    "to_arviz": (
        lambda posterior=POSTERIOR, draws=5, chains=2, random_seed=1, **more: pk.to_arviz(
            posterior, draws, chains=chains, random_seed=random_seed, **{"table": TABLE, **more}
        ),
        "posterior draws chains random_seed table model prior weights estimator timings notes log_densities",
    ),
    "from_dataframe": (
        lambda df=FRAME, parameters=("a",), statistics=("b",), observed=None, bounds=None, discrete=None: (
            pk.ReferenceTable.from_dataframe(
                df,
                parameters=parameters,
                statistics=statistics,
                observed=observed,
                bounds=bounds,
                discrete=discrete,
            )
        ),
        "df parameters statistics observed bounds discrete",
    ),
    "from_sets": (
        lambda df=FRAME, sets=None, observed=None, largest=None: pk.ReferenceTable.from_sets(
            df, [[0.1, 0.2]] * 120 if sets is None else sets, observed=observed, largest=largest
        ),
        "df sets observed largest",
    ),
    "with_observed": (lambda observed: TABLE.with_observed(observed), "observed"),
    "with_statistics": (lambda names: TABLE.with_statistics(names), "names"),
    "append": (lambda other: TABLE.append(other), "other"),
    "table.load": (lambda path: pk.ReferenceTable.load(path), "path"),
    "table.save": (lambda path: TABLE.save(path), "path"),
    "from_arviz": (lambda idata: pk.ReferenceTable.from_arviz(idata), "idata"),
    "load": (lambda path: pk.load(path), "path"),
    "save": (lambda value=FITTED, path="x.npz": pk.save(value, path), "value path"),
    "StoredTable.open": (lambda path: pk.StoredTable.open(path), "path"),
    "fit": (
        lambda parameters=FRAME, statistics=X, support=None, ratio=None, prior=None, log_prior=None, random_seed=1: (
            pk.Rejection(20).fit(
                parameters,
                statistics,
                support,
                ratio=ratio,
                prior=prior,
                log_prior=log_prior,
                random_seed=random_seed,
            )
        ),
        "parameters statistics support ratio prior log_prior random_seed",
    ),
    "fit likelihood": (
        lambda log_prior: pk.KernelLikelihood("location_scale", 50).fit(TABLE, log_prior=log_prior),
        "log_prior",
    ),
    "condition": (lambda observed: FITTED.condition(observed), "observed"),
    "weights": (lambda observed: FITTED.weights(observed), "observed"),
    "log_likelihood": (
        lambda parameters=FRAME[:2], observed=(0.1, 0.2): LIKELIHOOD.log_likelihood(parameters, observed),
        "parameters observed",
    ),
    "log_likelihoods": (
        lambda parameters=FRAME[:2], statistics=X[:2]: LIKELIHOOD.log_likelihoods(parameters, statistics),
        "parameters statistics",
    ),
    "draw_statistics": (
        lambda parameters=FRAME[:2], rng=1: LIKELIHOOD.draw_statistics(parameters, rng),
        "parameters rng",
    ),
    "draw": (
        lambda draws=5, rng=1, smoothing=None: POSTERIOR.draw(draws, rng, smoothing=smoothing),
        "draws rng smoothing",
    ),
    "quantile": (lambda q: POSTERIOR.quantile(q), "q"),
    "expectation": (lambda f: POSTERIOR.expectation(f), "f"),
    "mmd_test": (
        lambda x=X, y=X, **more: pk.mmd_test(x, y, permutations=more.pop("permutations", 5), **more),
        "x y kernel bandwidth statistic null permutations form features strata random_seed",
    ),
    "hsic_test": (
        lambda x=X, y=X, **more: pk.hsic_test(x, y, permutations=more.pop("permutations", 5), **more),
        "x y kernel bandwidth statistic null permutations form features random_seed",
    ),
    "block": (lambda block: pk.mmd_test(X, X, form="block", block=block), "block"),
    "conditional_hsic_test": (
        lambda x=X, y=X, z=FRAME, random_seed=1: pk.conditional_hsic_test(
            x, y, z, random_seed=random_seed, permutations=5
        ),
        "x y z random_seed",
    ),
    "kci_test": (
        lambda x=X, y=X, z=FRAME, random_seed=1: pk.kci_test(x, y, z, random_seed=random_seed),
        "x y z random_seed",
    ),
    "witness": (
        lambda x=X, y=X, at=None, lengthscale=1.0, noise=0.1, measure=None, probability=0.8, random_seed=1: (
            pk.witness(
                x,
                y,
                at,
                lengthscale=lengthscale,
                noise=noise,
                measure=measure,
                probability=probability,
                random_seed=random_seed,
            )
        ),
        "x y at lengthscale noise measure probability random_seed",
    ),
    "power_curve": (
        lambda test=pk.mmd_test, simulate=lambda s, rng: (X, X), settings=(1,), repeats=1, level=0.05, random_seed=1: (
            pk.power_curve(
                test,
                simulate,
                settings,
                repeats=repeats,
                level=level,
                random_seed=random_seed,
                permutations=5,
            )
        ),
        "test simulate settings repeats level random_seed",
    ),
    "embedding": (
        lambda points=X, lengthscale=1.0, noise=0.1, measure=None, separate=False, landmarks=None: (
            pk.BayesianKernelEmbedding(lengthscale, noise, measure, separate, landmarks).fit(points)
        ),
        "points lengthscale noise measure separate landmarks",
    ),
    "kernel_embedding_model": (
        lambda data=X[:20], noise=0.1, prior="gamma(1, 1)", separate=False: pk.kernel_embedding_model(
            data, noise=noise, prior=prior, separate=separate
        ),
        "data noise prior separate",
    ),
    "chain_modes": (lambda draws: pk.chain_modes(draws), "draws"),
    "filter fit": (
        lambda states=FRAME, observations=X, controls=None, times=None, random_seed=1: pk.KernelBayesFilter(
            regularisation=0.1, transition_regularisation=0.1
        ).fit(states, observations, controls=controls, times=times, random_seed=random_seed),
        "states observations controls times random_seed",
    ),
    "filter pairs": (
        lambda pairs=(FRAME, X), transitions=(FRAME, FRAME): pk.KernelBayesFilter(regularisation=0.1).fit(
            pairs=pairs, transitions=transitions
        ),
        "pairs transitions",
    ),
    "filter": (
        lambda observations=X[:5], initial=None, controls=None, times=None: FILTER.filter(
            observations, initial=initial, controls=controls, times=times
        ),
        "observations initial controls times",
    ),
    "filter predict": (
        lambda steps=2, belief=None, controls=None: FILTER.predict(steps, belief, controls=controls),
        "steps belief controls",
    ),
    "filter step": (
        lambda belief=None, observation=(0.1, 0.2), control=None: FILTER.step(
            belief, observation, control=control
        ),
        "belief observation control",
    ),
    "states draw": (lambda draws=2, random_seed=1: STATES.draw(draws, random_seed), "draws random_seed"),
    "states quantile": (lambda q: STATES.quantile(q), "q"),
    "SetFeatures": (
        lambda sets=([0.1, 0.2], [0.3, 0.5]), parameters=None: pk.SetFeatures(embedding=2, quantiles=2).fit(
            sets, parameters
        ),
        "sets parameters",
    ),
    "from_bounds": (
        lambda bounds=None, names=("a", "b"), discrete=(): pk.Support.from_bounds(bounds, names, discrete),
        "bounds names discrete",
    ),
    "vector_simulator": (vector, "name fn mean observed"),
    "set_simulator": (sets, "name fn mean observed sizes largest"),
    "LearnedSimulator": (learned, "name likelihood parameters observed group table"),
    "plot_posterior": (
        lambda posterior=POSTERIOR, prior=None, truth=None, names=None, probability=0.9, random_seed=1, ax=None: (
            pk.plot_posterior(
                posterior,
                prior=prior,
                truth=truth,
                names=names,
                probability=probability,
                random_seed=random_seed,
                ax=ax,
            )
        ),
        "posterior prior truth names probability random_seed ax",
    ),
    "plot_calibration": (lambda calibration: pk.plot_calibration(calibration), "calibration"),
    "plot_joint_calibration": (lambda calibration: pk.plot_joint_calibration(calibration), "calibration"),
    "plot_recovery": (lambda calibration: pk.plot_recovery(calibration), "calibration"),
    "plot_model_choice": (lambda choice: pk.plot_model_choice(choice), "choice"),
    "plot_accuracy_runtime": (lambda comparison: pk.plot_accuracy_runtime(comparison), "comparison"),
    "plot_observation_support": (lambda table: pk.plot_observation_support(table), "table"),
    "plot_posterior_weights": (lambda posterior: pk.plot_posterior_weights(posterior), "posterior"),
}
SETTINGS = {
    pk.Rejection: "scale parameter_bandwidth",
    pk.NadarayaWatson: "bandwidth scale",
    pk.ConditionalMean: "kernel regularisation solver scale centred",
    pk.Localised: "neighbours kernel regularisation scale",
    pk.KernelBayes: "kernel regularisation prior",
    pk.ImportanceWeightedKernelBayes: "regularisation prior",
    pk.KernelDensity: "prior scale",
    pk.KernelLikelihood: "form particles scale",
    pk.Adjusted: "adjustment smoothing",
}


OF_PYTHON = (
    r"object is not|unhashable|not supported between|has no attribute|truth value of an? |can't multiply"
)


class OutOfTime(BaseException):
    """A call has begun to work."""


TIMERS = [(signal.SIGVTALRM, signal.ITIMER_VIRTUAL, 4.0), (signal.SIGALRM, signal.ITIMER_REAL, 60.0)]


def outcome(call, argument, kind):
    """What becomes of a value: 'refused', 'taken', or what is wrong with the refusal."""

    def end(*_):
        raise OutOfTime

    # Four seconds of the processor, for the machine may be busy; a minute where it waits for others.
    for name, timer, seconds in TIMERS:
        signal.signal(name, end)
        signal.setitimer(timer, seconds)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(**{argument: KINDS[kind]})
    except OutOfTime:
        return "taken (out of time)"
    except (TypeError, ValueError, OSError, FileNotFoundError) as error:
        text, last = str(error), traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        if not last.filename.startswith(PACKAGE) or "sqlite" in where:
            return f"ELSEWHERE {where} {type(error).__name__}: {text[:160]}"
        if re.search(OF_PYTHON, text):
            return f"PYTHON {where} {text[:160]}"
        if len(text) > 700:
            return f"LONG {where} {text[:160]} ... {len(text)}"
        if re.search(r"\d{25}", text):
            return f"DIGITS {where} {text[:200]}"
        return f"refused {where} {type(error).__name__}: {text}"
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"WRONG {Path(last.filename).name}:{last.lineno} {type(error).__name__}: {str(error)[:160]}"
    finally:
        for _, timer, _ in TIMERS:
            signal.setitimer(timer, 0)
    return "taken"


def all_calls():
    """Each public function with one of its arguments."""
    for name, (call, arguments) in CALLS.items():
        for argument in arguments.split():
            yield name, call, argument
    for estimator, arguments in SETTINGS.items():
        for argument in arguments.split():
            yield (
                estimator.__name__,
                lambda estimator=estimator, **given: estimator(**given).fit(TABLE),
                argument,
            )


SEEDS = "none five zero huge"
TAKEN_ANYWHERE = {
    "random_seed": SEEDS,
    "rng": SEEDS,
    "progressbar": "true",
    "batched": "none true",
    "executor": "none",
    "timeout": "none five half",
    "cores": "none five",
    "scale": "none true",
    "regularisation": "none five half",
    "bandwidth": "none five half",
    "lengthscale": "five half",
    "noise": "none five half",
    "bounds": "none dict",
    "discrete": "none list dict texts",
    "permutations": "five",
    "draws": "five",
    "chains": "none five",
    "simulations": "five",
    "rows": "five",
    "repeats": "five",
    "steps": "five",
    "rounds": "none five",
    "settings": "texts frame tensor cube dates complex",
    "largest": "none five",
    "name": "text",
    "fn": "function",
    # What is called is the user's own, and what it raises.
    "test": "class function",
    "simulate": "class function",
    "f": "class function",
    "mean": "five minus_one zero half nan infinite list cube complex",
    "centred": "true",
    "separate": "true",
    "trials": "list",
    "groups": "none list",
    "names": "none list texts",
    "q": "zero true",
    "block": "none five",
    "landmarks": "none five",
    "neighbours": "none five",
    "parameter_bandwidth": "none five half",
    "log_prior": "none class function",
}
OPTIONAL = [
    "cores",
    "selection",
    "reference_table",
    "model",
    "prior",
    "calibration",
    "store",
    "statistics",
    "within",
    "candidates",
    "var_names",
    "observed",
    "method",
    "support",
    "ratio",
    "around",
    "table",
    "controls",
    "times",
    "initial",
    "belief",
    "control",
    "measure",
    "at",
    "strata",
    "kernel",
    "smoothing",
    "sizes",
    "group",
    "parameters",
    "truth",
    "ax",
    "sets",
    "tables",
    "estimator",
    "likelihood",
    "idata",
]
NOT_CALLED = {
    ("sample_abc of a table", "reference_table"): "none",
    ("sample_abc", "chains"): "none",
    ("sample_abc of a table", "chains"): "none",
    ("simulate_to_store", "store"): "text",
    ("simulate_models of two", "store"): "text",
    ("refine", "store"): "text",
    ("zoom", "store"): "text",
    ("sample_abc", "store"): "text",
    ("simulate", "store"): "text",
    ("learn_simulators", "store"): "text",
    (
        "LearnedSimulator",
        "parameters",
    ): "none five minus_one zero half nan infinite huge object true class function tensor complex",
    ("plot_posterior", "posterior"): "cube",
    ("table.save", "path"): "text",
    ("to_arviz", "weights"): "none",
    ("to_arviz", "estimator"): "text",
    ("to_arviz", "timings"): "none dict",
    ("to_arviz", "notes"): "none dict",
    ("to_arviz", "log_densities"): "none dict",
    ("table.load", "path"): "text",
    ("load", "path"): "text",
    ("save", "path"): "text",
    ("compare", "store"): "none text",
    ("compare", "exact"): "none class function",
    ("compare", "held_out"): "none",
    ("KernelLikelihood", "scale"): "dict",  # which declares nothing
    ("compare", "repetitions"): "five",
    ("compare", "observations"): "five",
    ("compare", "modes"): "true",
    (
        "save",
        "value",
    ): "none five minus_one zero half nan infinite huge text list dict texts cube complex true",
}
"""Not tried: what would be work, a file, or an error of the call itself."""

ALIASES = {
    "observed": "observation|observed|data set",
    "around": "observation",
    "sets": "data set|rows of parameters",
    "mean": "parameter 0",
    "df": "data frame|columns|parameters are named",
    "names": "names|parameters",
    "groups": "groups|statistics",
    "value": "value|cannot be saved",
    "path": "path|is there|store|group|file|directory",
    "candidates": "candidates|there is no estimator",
    "table": "table|select takes",
    "points": "points",
    "data": "data",
    "parameters": "parameter|column|states",
    "statistics": "statistic|column",
    "pairs": "pairs",
    "settings": "setting",
    "idata": "idata|result",
    "estimator": "estimator",
    "estimators": "estimator",
}


def taken(name, argument):
    """Kinds that a function takes for an argument, or that are not tried."""
    kinds = set(TAKEN_ANYWHERE.get(argument, "").split()) | set(NOT_CALLED.get((name, argument), "").split())
    return kinds | ({"none"} if argument in OPTIONAL else set())


if __name__ == "__main__":
    for name, call, argument in all_calls():
        if len(sys.argv) > 1 and not re.search(sys.argv[1], name):
            continue
        for kind in KINDS:
            found = outcome(call, argument, kind)
            named = re.search(ALIASES.get(argument, argument), found.split(": ", 1)[-1])
            if not (found.startswith("refused") and named) and kind not in taken(name, argument):
                print(f"{name} | {argument} | {kind} | {found[:200]}", flush=True)
