# ruff: noqa: E501
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
    "half": 2.5,
    "nan": np.nan,
    "huge": 10**400,
    "text": "x",
    "dict": {},
    "object": object(),
    "frame": pd.DataFrame({"q": ["u", "v"], "r": ["w", "z"]}),
    "tensor": TensorOfAnotherDevice(),
    "complex": np.array([1j, 2j]),
    "class": int,
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
BY_TABLE = {"reference_table": TABLE, "estimator": pk.Rejection(20), **seeded}
OF_TABLE = {"table": TABLE, "random_seed": 1}
TWO = {"x": X, "y": X}
FEW = {**TWO, "permutations": 5}
OF_SAMPLING = (
    "chains estimator selection simulations reference_table model prior calibration "
    "random_seed cores executor store on_failure timeout progressbar rounds statistics"
)
OF_ROUNDS = "random_seed cores executor store on_failure batched timeout progressbar"
CALLS = {
    "sample_abc": (
        partial(pk.sample_abc, 5, estimator="rejection", simulations=20, model=MODEL, **seeded),
        OF_SAMPLING,
    ),
    "sample_abc draws": (partial(pk.sample_abc, **BY_TABLE), "draws"),
    "sample_abc of a table": (partial(pk.sample_abc, 5, **BY_TABLE), OF_SAMPLING),
    "simulate": (
        partial(pk.simulate, 20, model=MODEL, **seeded),
        "model random_seed within cores executor store on_failure batched timeout progressbar",
    ),
    "simulate draws": (partial(pk.simulate, model=MODEL, **seeded), "draws"),
    "simulate_to_store": (partial(pk.simulate_to_store, 20, model=MODEL, **seeded), "store"),
    "simulate_models": (partial(pk.simulate_models, draws=20, **seeded), "models"),
    "simulate_models of two": (
        partial(pk.simulate_models, {"one": MODEL, "two": MODEL}, **{"draws": 20, **seeded}),
        "draws random_seed store",
    ),
    "refine": (
        partial(pk.refine, 400, model=MODEL, **seeded),
        f"model rounds estimator prior_share {OF_ROUNDS}",
    ),
    "refine draws": (partial(pk.refine, model=MODEL, **seeded), "draws"),
    "zoom": (partial(pk.zoom, 2000, model=MODEL, **seeded), f"model rounds scale noise {OF_ROUNDS}"),
    "zoom draws": (partial(pk.zoom, model=MODEL, **seeded), "draws"),
    "emulate": (
        partial(pk.emulate, table=SIMULATED, draws=5, model=MODEL, **seeded),
        "table draws model noise random_seed",
    ),
    "learn_simulators": (
        partial(pk.learn_simulators, model=MODEL, simulations=200, **seeded),
        f"model simulations likelihood trials outside {OF_ROUNDS.replace('store ', '')}",
    ),
    "select": (
        partial(pk.select, table=TABLE, candidates=["rejection"], **seeded),
        "table candidates random_seed progressbar",
    ),
    "compare_models": (
        partial(
            pk.compare_models,
            tables={"one": TABLE, "two": TABLE},
            observed=(0.1, 0.2),
            method="nearest_rows",
            random_seed=1,
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
        partial(pk.calibrate, estimator=pk.Rejection(20), rows=10, draws=10, **OF_TABLE, **quiet),
        "estimator table rows draws around random_seed progressbar",
    ),
    "local_classifier_test": (
        partial(pk.local_classifier_test, estimator=pk.Rejection(20), rows=50, permutations=5, **OF_TABLE),
        "estimator table observed rows permutations random_seed",
    ),
    "misspecification": (partial(pk.misspecification, **OF_TABLE), "table observed random_seed"),
    "observation_support": (partial(pk.observation_support, table=TABLE), "table observed"),
    "statistic_relevance": (partial(pk.statistic_relevance, table=TABLE, rows=20), "table rows bandwidth"),
    "statistic_contributions": (
        partial(pk.statistic_contributions, estimator=pk.Rejection(20), rows=20, **OF_TABLE, **quiet),
        "estimator table groups observed rows random_seed progressbar",
    ),
    "predictive_check": (partial(pk.predictive_check, model=MODEL, draws=20, random_seed=1), "idata"),
    "estimator_of": (pk.estimator_of, "result"),
    "prior_sensitivity": (pk.prior_sensitivity, "result"),
    "to_arviz": (
        partial(pk.to_arviz, posterior=POSTERIOR, draws=5, chains=2, **OF_TABLE),
        "posterior draws chains random_seed table model prior weights estimator timings notes log_densities",
    ),
    "from_dataframe": (
        partial(pk.ReferenceTable.from_dataframe, df=FRAME, parameters=["a"], statistics=["b"]),
        "df parameters statistics observed bounds discrete",
    ),
    "from_sets": (
        partial(pk.ReferenceTable.from_sets, df=FRAME, sets=[[0.1, 0.2]] * 120),
        "df sets observed largest",
    ),
    "with_observed": (TABLE.with_observed, "observed"),
    "with_statistics": (TABLE.with_statistics, "names"),
    "append": (TABLE.append, "other"),
    "table.load": (pk.ReferenceTable.load, "path"),
    "table.save": (TABLE.save, "path"),
    "from_arviz": (pk.ReferenceTable.from_arviz, "idata"),
    "load": (pk.load, "path"),
    "save": (partial(pk.save, value=FITTED, path="x.npz"), "value path"),
    "StoredTable.open": (pk.StoredTable.open, "path"),
    "fit": (
        lambda **given: pk.Rejection(20).fit(
            **{"parameters": FRAME, "statistics": X, "random_seed": 1, **given}
        ),
        "parameters statistics support ratio prior log_prior random_seed",
    ),
    "fit likelihood": (
        lambda log_prior: pk.KernelLikelihood("location_scale", 50).fit(TABLE, log_prior=log_prior),
        "log_prior",
    ),
    "condition": (FITTED.condition, "observed"),
    "weights": (FITTED.weights, "observed"),
    "log_likelihood": (
        partial(LIKELIHOOD.log_likelihood, parameters=FRAME[:2], observed=(0.1, 0.2)),
        "parameters observed",
    ),
    "log_likelihoods": (
        partial(LIKELIHOOD.log_likelihoods, parameters=FRAME[:2], statistics=X[:2]),
        "parameters statistics",
    ),
    "draw_statistics": (partial(LIKELIHOOD.draw_statistics, parameters=FRAME[:2], rng=1), "parameters rng"),
    "draw": (partial(POSTERIOR.draw, draws=5, rng=1), "draws rng smoothing"),
    "quantile": (POSTERIOR.quantile, "q"),
    "expectation": (POSTERIOR.expectation, "f"),
    "mmd_test": (
        partial(pk.mmd_test, **FEW),
        "x y kernel bandwidth statistic null permutations form features strata random_seed",
    ),
    "hsic_test": (
        partial(pk.hsic_test, **FEW),
        "x y kernel bandwidth statistic null permutations form features random_seed",
    ),
    "block": (partial(pk.mmd_test, X, X, form="block"), "block"),
    "conditional_hsic_test": (partial(pk.conditional_hsic_test, z=FRAME, **FEW), "x y z random_seed"),
    "kci_test": (partial(pk.kci_test, z=FRAME, **TWO), "x y z random_seed"),
    "witness": (
        partial(pk.witness, lengthscale=1.0, noise=0.1, random_seed=1, **TWO),
        "x y at lengthscale noise measure probability random_seed",
    ),
    "power_curve": (
        partial(
            pk.power_curve,
            test=pk.mmd_test,
            simulate=lambda s, rng: (X, X),
            settings=(1,),
            repeats=1,
            permutations=5,
        ),
        "test simulate settings repeats level random_seed",
    ),
    "embedding": (
        lambda points=X, lengthscale=1.0, noise=0.1, **more: pk.BayesianKernelEmbedding(
            lengthscale, noise, **more
        ).fit(points),
        "points lengthscale noise measure separate landmarks",
    ),
    "kernel_embedding_model": (
        partial(pk.kernel_embedding_model, data=X[:20], noise=0.1),
        "data noise prior separate",
    ),
    "chain_modes": (pk.chain_modes, "draws"),
    "filter fit": (
        lambda **given: pk.KernelBayesFilter(regularisation=0.1, transition_regularisation=0.1).fit(
            **{"states": FRAME, "observations": X, **given}
        ),
        "states observations controls times random_seed",
    ),
    "filter pairs": (
        lambda pairs=(FRAME, X), transitions=(FRAME, FRAME): pk.KernelBayesFilter(regularisation=0.1).fit(
            pairs=pairs, transitions=transitions
        ),
        "pairs transitions",
    ),
    "filter": (partial(FILTER.filter, observations=X[:5]), "observations initial controls times"),
    "filter predict": (partial(FILTER.predict, steps=2), "steps belief controls"),
    "filter step": (partial(FILTER.step, belief=None, observation=(0.1, 0.2)), "belief observation control"),
    "states draw": (partial(STATES.draw, draws=2), "draws random_seed"),
    "states quantile": (STATES.quantile, "q"),
    "SetFeatures": (
        lambda sets=([0.1, 0.2], [0.3, 0.5]), parameters=None: pk.SetFeatures(embedding=2, quantiles=2).fit(
            sets, parameters
        ),
        "sets parameters",
    ),
    "from_bounds": (partial(pk.Support.from_bounds, bounds=None, names=("a", "b")), "bounds names discrete"),
    "vector_simulator": (vector, "name fn mean observed"),
    "set_simulator": (sets, "name fn mean observed sizes largest"),
    "LearnedSimulator": (learned, "name likelihood parameters observed group table"),
    "plot_posterior": (
        partial(pk.plot_posterior, posterior=POSTERIOR),
        "posterior prior truth names probability random_seed ax",
    ),
    "plot_calibration": (pk.plot_calibration, "calibration"),
    "plot_joint_calibration": (pk.plot_joint_calibration, "calibration"),
    "plot_recovery": (pk.plot_recovery, "calibration"),
    "plot_model_choice": (pk.plot_model_choice, "choice"),
    "plot_accuracy_runtime": (pk.plot_accuracy_runtime, "comparison"),
    "plot_observation_support": (pk.plot_observation_support, "table"),
    "plot_posterior_weights": (pk.plot_posterior_weights, "posterior"),
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
