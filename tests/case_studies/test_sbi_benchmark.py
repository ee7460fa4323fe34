"""The benchmark's classifiers, tables, file of results and command; sbibm is not needed."""

import importlib.util
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, cross_val_score
from sklearn.neural_network import MLPClassifier

from case_studies.sbi_benchmark import __main__ as command
from case_studies.sbi_benchmark import c2st, methods, results, summary, wheel
from case_studies.sbi_benchmark.networks import train
from case_studies.sbi_benchmark.tasks import TASKS


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("epochs", [2, 400])
def test_networks_side_by_side_are_scikit_learns(rng, epochs):
    points = rng.normal(size=(3, 410, 2))
    labels = (points[:, :, 0] ** 2 + rng.normal(size=(3, 410)) > 0.8).astype(float)
    found = train(points, labels, (20, 20), epochs, random_seed=4)
    for k in range(3):
        one = MLPClassifier((20, 20), max_iter=epochs, random_state=4)
        one.fit(points[k], labels[k])
        flat = np.concatenate([part.ravel() for part in (*one.coefs_, *one.intercepts_)])
        np.testing.assert_allclose(found.flat[k], flat, atol=1e-8)


@pytest.mark.statistical
def test_the_networks_test_is_sbibms(rng):
    reference, draws = rng.normal(size=(400, 2)), rng.normal(0.4, 1.2, size=(400, 2))
    points = (np.vstack([reference, draws]) - reference.mean(axis=0)) / reference.std(axis=0, ddof=1)
    labels = np.repeat([0.0, 1.0], 400)
    network = MLPClassifier((20, 20), max_iter=10_000, random_state=1)
    folds = KFold(5, shuffle=True, random_state=1)
    scores = cross_val_score(network, points.astype(np.float32), labels, cv=folds)
    # Rounding in single precision grows over epochs; a few of the 800 points may change sides.
    assert c2st.network(reference, draws) == pytest.approx(scores.mean(), abs=0.02)
    assert c2st.network(reference, draws, folds=1) == pytest.approx(scores[0], abs=0.04)


@pytest.mark.statistical
@pytest.mark.parametrize("test", [c2st.network, c2st.forest])
def test_classifiers_tell_what_differs_and_nothing_else(test, rng):
    one, two = rng.normal(size=(300, 2)), rng.normal(size=(300, 2))
    # 600 guesses of a fair coin have a deviation of 0.02.
    alike = test(one, two)
    assert alike == pytest.approx(0.5, abs=0.08)
    assert test(one, two + 2.5) > 0.85
    # Units do not matter.
    assert test(1e3 * one + 5, 1e3 * two + 5) == pytest.approx(alike, abs=0.02)


def test_a_table_is_the_same_for_every_method_and_not_for_every_task():
    one = methods.simulated(TASKS["slcp"], 50).table
    two = methods.simulated(TASKS["slcp"], 50).table
    np.testing.assert_array_equal(one.statistics, two.statistics)
    linear = methods.simulated(TASKS["gaussian_linear"], 50).table
    assert not np.array_equal(linear.statistics[:, :5], one.statistics[:, :5])
    assert len(methods.simulated(TASKS["slcp"], 60).table) == 60


@pytest.mark.parametrize("name", ["two_moons", "bernoulli_glm", "sir"])
def test_a_task_as_a_pymc_model_simulates_the_same(name, rng):
    import pymc_kbr as pk

    task = TASKS[name]
    clock = methods.Clock(task)
    observed = task.simulate(task.prior(1, rng), rng)[0]
    table = pk.simulate(300, model=methods.model_of(task, observed, clock), random_seed=1, progressbar=False)
    assert clock.seconds > 0
    np.testing.assert_array_equal(table.observed, observed)
    again = task.simulate(table.parameters, rng)
    error = np.sqrt((table.statistics.var(axis=0) + again.var(axis=0)) / 300)
    assert np.all(np.abs(table.statistics.mean(axis=0) - again.mean(axis=0)) <= 5 * error + 1e-12)


def line(**changes):
    values = {
        "task": "slcp",
        "budget": 10,
        "method": "auto",
        "observation": 1,
        "c2st_network": 0.6,
        "folds": 5,
    }
    return {**values, **changes}


def test_only_lines_that_are_missing_are_computed(tmp_path):
    kept = results.Results(tmp_path / "new" / "results.csv")
    assert kept.missing("slcp", 10, "auto", [1, 2], ["network"]) == [1, 2]
    kept.add(line())
    kept.add(line(observation=2, c2st_network=np.nan, note="ValueError: no"))
    assert kept.missing("slcp", 10, "auto", [1, 2, 3], ["network"]) == [2, 3]
    assert kept.missing("slcp", 10, "auto", [1], ["network", "forest"]) == [1]
    assert kept.missing("slcp", 20, "auto", [1], ["network"]) == [1]
    kept.add(line(observation=2, c2st_network=0.7))
    assert kept.missing("slcp", 10, "auto", [1, 2], ["network"]) == []
    assert kept.lines()["c2st_network"].tolist() == [0.6, 0.7]


def test_means_have_standard_errors_and_stand_beside_published_figures():
    lines = pd.DataFrame(
        [
            line(seconds_fit=1.0, seconds_condition=2.0, c2st_forest=np.nan),
            line(observation=2, c2st_network=0.8, seconds_fit=1.0, seconds_condition=4.0),
        ],
        columns=results.COLUMNS,
    )
    found = summary.means(lines)
    assert len(found) == 1
    assert found["c2st"][0] == pytest.approx(0.7)
    assert found["standard_error"][0] == pytest.approx(0.1)
    assert found["seconds"][0] == pytest.approx(4.0)
    text = summary.markdown(lines.assign(budget=10_000), "network")
    assert "| `slcp` | 0.700 ± 0.100 | 0.901 |" in text
    both = pd.concat([lines.assign(budget=10_000), lines.assign(c2st_network=0.9, budget=1_000)])
    assert "0.900 ± 0.000 / 0.700 ± 0.100" in summary.markdown(both, "network")
    assert "0.975 / 0.901" in summary.markdown(both, "network")


def test_published_figures_are_of_known_tasks_and_accuracies():
    lines = summary.published()
    assert set(lines["task"]) == set(TASKS)
    assert not lines.duplicated(["task", "method", "budget", "classifier"]).any()
    assert lines["c2st"].between(0.5, 1).all()
    assert set(lines["classifier"]) == set(results.CLASSIFIERS)
    # The mean over the seven tasks that is printed for the forest's best method.
    pfn = summary.over_seven(lines[lines["method"] == "NPE-PFN"]).set_index("budget")["c2st"]
    assert pfn.round(3).to_dict() == {1_000: 0.730, 10_000: 0.671}


def test_without_sbibm_the_command_says_how_to_install_it(monkeypatch, capsys):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "sbibm" else found(name, *more)
    )
    monkeypatch.setattr(sys, "argv", ["sbi_benchmark"])
    assert command.main() == 1
    assert "pip install --no-deps sbibm" in capsys.readouterr().err
    wheel.read.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="--no-deps"):
        TASKS["slcp"].observation(1)


@pytest.fixture
def without_wheel(monkeypatch):
    """Observations simulated here, and the prior for a reference."""

    def read(folder, number, name):
        task, rng = TASKS[folder], np.random.default_rng(number)
        if name.startswith("observation"):
            return task.simulate(task.prior(1, rng), rng)
        return task.prior(200, rng)

    monkeypatch.setattr("case_studies.sbi_benchmark.task.read", read)
    monkeypatch.setattr(command, "installed", lambda: True)
    monkeypatch.setattr(methods, "DRAWS", 200)


def run(monkeypatch, folder, *options):
    tasks = ["--tasks", "two_moons", "--budgets", "150", "--folds", "1", "--out", str(folder)]
    monkeypatch.setattr(sys, "argv", ["sbi_benchmark", *tasks, *options])
    return command.main()


@pytest.mark.statistical
@pytest.mark.usefixtures("without_wheel")
@pytest.mark.filterwarnings("ignore")
def test_the_command_goes_on_where_it_ended(monkeypatch, tmp_path, capsys):
    both = ["rejection", "kernel_likelihood"]
    assert run(monkeypatch, tmp_path, "--observations", "1", "--methods", *both) == 0
    first = (tmp_path / "results.csv").read_text()
    assert run(monkeypatch, tmp_path, "--observations", "1", "2", "--methods", *both) == 0
    assert (tmp_path / "results.csv").read_text().startswith(first)
    lines = results.Results(tmp_path / "results.csv").lines()
    assert lines[["method", "observation"]].to_numpy().tolist() == [[m, i] for i in (1, 2) for m in both]
    assert lines[["c2st_network", "c2st_forest"]].to_numpy().min() > 0.3
    assert (lines["folds"] == 1).all()
    assert lines["log_evidence"].isna().tolist() == [True, False, True, False]
    assert "| `two_moons` |" in capsys.readouterr().out
    assert (tmp_path / "c2st.png").stat().st_size > 1_000


@pytest.mark.usefixtures("without_wheel")
def test_a_failure_is_a_line_and_is_tried_again(monkeypatch, tmp_path):
    def breaks(task, budget):
        raise ValueError("no such thing")

    monkeypatch.setitem(methods.METHODS, "rejection", breaks)
    assert run(monkeypatch, tmp_path, "--observations", "1", "--methods", "rejection") == 1
    kept = results.Results(tmp_path / "results.csv")
    assert kept.lines()["note"].tolist() == ["ValueError: no such thing"]
    assert kept.missing("two_moons", 150, "rejection", [1], ["network"]) == [1]


@pytest.mark.statistical
@pytest.mark.usefixtures("without_wheel")
@pytest.mark.filterwarnings("ignore")
def test_rounds_count_their_simulations(monkeypatch):
    simulated = []
    task = TASKS["two_moons"]
    call = methods.Clock.__call__

    def counted(clock, rng, theta, size=None):
        found = call(clock, rng, theta, size)
        simulated.append(np.atleast_2d(found).shape[0])
        return found

    monkeypatch.setattr(methods.Clock, "__call__", counted)
    monkeypatch.setattr(methods, "ROUNDS", 2)
    answer = methods.METHODS["rounds"](task, 240)(1)
    assert answer.draws.shape == (200, 2)
    assert np.isfinite(task.log_prior(answer.draws)).all()
    # Besides a few rows of each round, by which it is seen whether the function takes many at once.
    assert sum(size for size in simulated if size > 50) == 240
    assert {"simulate", "fit", "condition"} == set(answer.seconds)


def test_a_readmes_tables_are_filled_in():
    text = "a\n<!-- network -->\nold\n<!-- end of network -->\nb\n<!-- forest -->\n<!-- end of forest -->\n"
    lines = pd.DataFrame([line(c2st_forest=0.65, seconds_fit=1.0, seconds_condition=1.0)])
    found = summary.filled(text, lines.reindex(columns=results.COLUMNS))
    assert "old" not in found
    assert found.count("| `slcp` |") == 2
    assert summary.filled(found, lines.reindex(columns=results.COLUMNS)) == found
    with pytest.raises(ValueError, match="no table between"):
        summary.filled("nothing", lines)
