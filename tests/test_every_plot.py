"""Every plot of the package takes ``ax=``, draws there and returns it; without one it makes its own."""

import ast
from functools import cache
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")
import matplotlib.pyplot as plt

import pymc_kbr as pk
from pymc_kbr.checking.statistic_contributions import StatisticContributions
from pymc_kbr.selection.selection import Candidate

PACKAGE = Path(pk.__file__).parent


@cache
def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["a", "b"])
    frame["s"], frame["t"] = frame["a"] + rng.normal(size=60), frame["b"] + rng.normal(size=60)
    return pk.ReferenceTable.from_dataframe(
        frame, parameters=["a", "b"], statistics=["s", "t"], observed=[0.5, 0.5]
    )


@cache
def calibration():
    return pk.calibrate(pk.Rejection(20), table(), rows=20, draws=50, random_seed=1, progressbar=False)


@cache
def posterior():
    return pk.ConditionalMean(2.0, 1e-3).fit(table()).condition(table().observed)


@cache
def states():
    rng = np.random.default_rng(1)
    walk = np.cumsum(rng.normal(size=(60, 2)), axis=0)
    kbf = pk.KernelBayesFilter(state_bandwidth=1.0, observation_bandwidth=1.0)
    return kbf.fit(walk[:50], walk[:50], random_seed=1).filter(walk[50:])


@cache
def choice():
    tables = {"one": table(), "other": table()}
    return pk.compare_models(tables, random_seed=1)


def comparison():
    columns = ["seconds_simulate", "seconds_fit", "seconds_condition"]
    lines = pd.DataFrame(
        [{"estimator": "a", "budget": n, "repetition": 0, "energy_score": 1 / n} for n in (1, 2)]
    )
    return lines.assign(amortised=True, simulations=10, **dict.fromkeys(columns, 1.0))


def selection():
    rng = np.random.default_rng(1)
    tried = [Candidate(name, pk.Rejection(20), rng.random(9)) for name in ("one", "other")]
    return pk.Selection(tuple(tried), np.ones(9), 1.0)


def predictive():
    return pk.PredictiveCheck({"y": 0.5}, {"y": 1.0}, {"y": np.arange(9.0)}, {})


def contributions():
    scores = np.array([0.1, 0.2])
    return StatisticContributions(("s", "t"), scores, scores, np.ones((2, 1)) / 2, np.ones(1), ("a",), 20)


def witness():
    rng = np.random.default_rng(1)
    return pk.witness(rng.normal(size=20), rng.normal(1, 1, 20), lengthscale=1.0)


def population_size(ax=None):
    msprime = pytest.importorskip("msprime")

    def demography(size):
        return msprime.Demography.isolated_model([size])

    return pk.popgen.plot_population_size(demography, {"size": [100.0, 120.0]}, ax=ax)


def spectrum(ax=None):
    frame = pd.DataFrame({"sfs_a_1": [3.0, 4.0], "sfs_a_2": [1.0, 2.0]})
    return pk.popgen.plot_spectrum(frame, frame.iloc[0], ax=ax)


PLOTS = {
    "plot_accuracy_runtime": (lambda ax=None: pk.plot_accuracy_runtime(comparison(), ax=ax), 1),
    "plot_calibration": (lambda ax=None: pk.plot_calibration(calibration(), ax=ax), 2),
    "plot_joint_calibration": (lambda ax=None: pk.plot_joint_calibration(calibration(), ax=ax), 1),
    "plot_recovery": (lambda ax=None: pk.plot_recovery(calibration(), ax=ax), 2),
    "plot_model_choice": (lambda ax=None: pk.plot_model_choice(choice(), ax=ax), 3),
    "plot_observation_support": (lambda ax=None: pk.plot_observation_support(table(), ax=ax), 2),
    "plot_population_size": (population_size, 1),
    "plot_posterior": (lambda ax=None: pk.plot_posterior(posterior(), prior=table(), ax=ax), 2),
    "plot_posterior_weights": (lambda ax=None: pk.plot_posterior_weights(posterior(), ax=ax), 2),
    "plot_spectrum": (spectrum, 1),
    "plot_states": (lambda ax=None: states().plot(ax=ax), 2),
    "FilteredStates.plot": (lambda ax=None: states().plot(ax=ax), 2),
    "PredictiveCheck.plot": (lambda ax=None: predictive().plot(ax=ax), 1),
    "Selection.plot": (lambda ax=None: selection().plot(ax=ax), 1),
    "StatisticContributions.plot": (lambda ax=None: contributions().plot(ax=ax), 1),
    "StatisticRelevance.plot": (lambda ax=None: pk.statistic_relevance(table()).plot(ax=ax), 1),
    "Witness.plot": (lambda ax=None: witness().plot(ax=ax), 1),
}
"""Each with the number of axes that it draws on."""


@pytest.fixture(autouse=True)
def _closed():
    plt.close("all")  # what tests elsewhere have left
    yield
    plt.close("all")


def test_every_plot_of_the_package_is_here():
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("plot"):
                found.add(node.name)
            if isinstance(node, ast.ClassDef):
                methods = [one.name for one in node.body if isinstance(one, ast.FunctionDef)]
                found |= {f"{node.name}.{name}" for name in methods if name.startswith("plot")}
    assert found == PLOTS.keys()


@pytest.mark.parametrize("name", PLOTS)
def test_plots_draw_on_the_axes_that_are_passed_and_return_them(name):
    plot, count = PLOTS[name]
    _, axes = plt.subplots(1, count, squeeze=False)
    figures = plt.get_fignums()
    returned = np.atleast_1d(plot(ax=axes[0] if count > 1 else axes[0, 0]))
    assert [a is b for a, b in zip(returned, axes[0], strict=True)] == [True] * count
    assert plt.get_fignums() == figures
    assert all(axis.has_data() for axis in axes[0])
    assert any(axis.get_xlabel() for axis in axes[0])
    with pytest.raises(ValueError, match=f"{count + 1} axes were given; {count} are needed"):
        plot(ax=[*axes[0], axes[0, 0]])


def test_a_posterior_is_drawn_with_its_prior_and_the_truth():
    found = pk.plot_posterior(posterior(), prior=table(), truth={"a": 0.1, "b": 0.2}, random_seed=1)
    words = [text.get_text() for text in found[0].get_legend().get_texts()]
    assert words == ["prior", "posterior", "90% interval", "truth"]
    assert [axis.get_xlabel() for axis in found] == ["a", "b"]
    (one,) = np.atleast_1d(pk.plot_posterior(posterior(), names=["b"]))
    assert one.get_xlabel() == "b"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"truth": [1.0]}, "the truth has 1 values for the 2 parameters"),
        ({"truth": {"c": 1.0}}, r"\['c'\] are not parameters"),
        ({"names": ["c"]}, r"\['c'\] are not parameters"),
        ({"prior": np.ones((4, 3))}, "the prior has 3 columns; the posterior has 2"),
        ({"probability": 1.0}, "must lie between 0 and 1"),
    ],
)
def test_what_cannot_be_drawn_of_a_posterior_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        pk.plot_posterior(posterior(), **given)


def test_a_witness_of_two_columns_has_colours_and_of_three_is_refused():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    axis = pk.witness(x[:, :2], y[:, :2], lengthscale=1.0).plot()
    assert len(axis.collections[0].get_offsets()) == 40
    with pytest.raises(ValueError, match="has 3 columns; one or two"):
        pk.witness(x, y, lengthscale=1.0).plot()
