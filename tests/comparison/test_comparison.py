import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import pymc_kbr as pk
from pymc_kbr.comparison.compare import ScoredPosterior, compare, peak_memory, score_posteriors
from pymc_kbr.comparison.plots import accuracy_runtime, pareto_front, plot_accuracy_runtime


def table(n=700):
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(n, 2))
    x = theta + 0.5 * rng.normal(size=(n, 2))
    return pk.ReferenceTable.from_dataframe(
        pd.DataFrame(np.hstack([theta, x]), columns=["a", "b", "s", "t"]),
        parameters=["a", "b"],
        statistics=["s", "t"],
    )


def exact(x):
    """theta ~ N(0, I), x ~ N(theta, I / 4)."""
    return 0.8 * x, 0.2 * np.eye(2)


ARGUMENTS = {
    "estimators": ["rejection", "conditional_mean"],
    "budgets": [100, 400],
    "repetitions": 2,
    "observations": 20,
    "random_seed": 5,
    "progressbar": False,
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The lines of a comparison, and the file in which they are kept."""
    path = tmp_path_factory.mktemp("comparison") / "lines.csv"
    return compare(table(), exact=exact, modes=True, store=path, **ARGUMENTS), path


@pytest.fixture
def result(stored):
    return stored[0]


def test_every_estimator_budget_and_repetition_has_a_line(result):
    keys = {(e, b, r) for e in ARGUMENTS["estimators"] for b in (100, 400) for r in (0, 1)}
    assert set(map(tuple, result[["estimator", "budget", "repetition"]].to_numpy())) == keys
    assert (result["note"] == "").all()
    scores = result.drop(columns=["note", "seconds_simulate"])  # a table from a data frame was not timed
    assert scores.notna().all().all()
    assert result["seconds_simulate"].isna().all()


def test_more_simulations_and_the_better_estimator_score_better(result):
    mean = result.groupby(["estimator", "budget"])[["rmse", "energy_score", "rkhs_error"]].mean()
    assert (mean.loc[("conditional_mean", 400)] < mean.loc[("rejection", 100)]).all()
    # The exact posterior's deviation over the prior's is sqrt(0.2): no mean can do better than that.
    k = 2 * 20 * 2
    assert mean.loc[("conditional_mean", 400), "rmse"] > np.sqrt(0.2) * (1 - 4 / np.sqrt(2 * k))


def test_scores_of_a_known_posterior():
    rng = np.random.default_rng(0)
    truth = np.zeros((3, 1))
    draws = rng.normal(1.0, 2.0, (5000, 1))
    scored = [ScoredPosterior(np.array([1.0]), draws, draws, None)] * 3
    k, scores = score_posteriors(scored, truth, truth, np.array([4.0]), lambda x: (np.ones(1), 4 * np.eye(1)))
    assert k == 3
    assert scores.by_parameter["rmse"] == pytest.approx(1.0)
    assert scores.overall["rmse"] == pytest.approx(0.25)
    assert np.isnan(scores.overall["rmse_of_mode"])
    assert scores.by_parameter["bias"] == pytest.approx(1.0)
    assert scores.overall["energy_score"] == pytest.approx(scores.by_parameter["crps"][0] / 4, rel=1e-3)
    assert 0 < scores.overall["rkhs_error"] < 5 / np.sqrt(5000)


def test_an_interrupted_comparison_goes_on(tmp_path, stored):
    result, path = stored[0], tmp_path / "lines.csv"
    lines = stored[1].read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 8
    content = "".join(lines[: 1 + 6])
    path.write_text(content + lines[7][:20])  # killed while it wrote
    with pytest.warns(UserWarning, match="was not finished"):
        resumed = compare(table(), exact=exact, modes=True, store=path, **ARGUMENTS)
    assert path.read_text().startswith(content)
    assert path.read_text().count("\n") == 1 + 8
    columns = ["estimator", "budget", "repetition", "rmse", "energy_score", "rkhs_error", "crps[a]", "note"]
    pd.testing.assert_frame_equal(resumed[columns], result[columns], check_dtype=False, rtol=1e-12)


@pytest.mark.parametrize(
    "content",
    [
        b"notes without an end of line",
        b"name,age\nanne,3\nbert",
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        b"e",
    ],
)
def test_a_file_of_something_else_stays_as_it_is(content, tmp_path):
    """A last line without an end is cut off only where the file is a comparison's."""
    path = tmp_path / "mine.txt"
    path.write_bytes(content)
    arguments = {**ARGUMENTS, "estimators": ["rejection"], "budgets": [100], "repetitions": 1}
    if content == b"e":  # as a killed process may leave it
        with pytest.warns(UserWarning, match="was not finished"):
            compare(table(), store=path, **arguments)
        return
    with pytest.raises(ValueError, match="is not a comparison's file"):
        compare(table(), store=path, **arguments)
    assert path.read_bytes() == content


def test_a_finished_comparison_is_read(stored, monkeypatch):
    first, path = stored
    monkeypatch.setattr(pk.Rejection, "fit", lambda *_, **__: pytest.fail("computed again"))
    second = compare(table(), exact=exact, modes=True, store=path, **ARGUMENTS)
    pd.testing.assert_frame_equal(first, second, check_dtype=False)


def test_labels_that_look_like_numbers_are_found_in_the_file(tmp_path):
    path, labels = tmp_path / "lines.csv", {"1": "rejection", "nan": "rejection"}
    arguments = {**ARGUMENTS, "estimators": labels, "budgets": [100], "repetitions": 1}
    first = compare(table(), store=path, **arguments)
    again = compare(table(), store=path, **arguments)
    pd.testing.assert_frame_equal(first, again, check_dtype=False)  # seconds, too: nothing was run
    assert again["estimator"].tolist() == ["1", "nan"]
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "change",
    [
        {"random_seed": 6},
        {"modes": True},
        {"estimators": {"rejection": pk.Rejection(5), "conditional_mean": "conditional_mean"}},
    ],
)
def test_the_file_of_something_else_is_refused(tmp_path, change):
    path = tmp_path / "lines.csv"
    compare(table(), store=path, **{**ARGUMENTS, "repetitions": 1, "budgets": [100]})
    before = path.read_bytes()
    with pytest.raises(ValueError, match="another model, seed, number of draws"):
        compare(table(), store=path, **{**ARGUMENTS, **change})
    assert path.read_bytes() == before


def test_an_estimator_that_fails_is_a_line_with_a_note():
    bad = pk.Adjusted(pk.Rejection(3), "local_linear")
    found = compare(
        table(), **{**ARGUMENTS, "estimators": {"bad": bad, "good": "rejection"}, "budgets": [100]}
    )
    notes = found.set_index(["estimator", "repetition"])["note"]
    assert "take at least twice as many rows" in notes["bad", 0]
    assert notes["good", 1] == ""
    assert found.loc[found.estimator == "bad", "rmse"].isna().all()
    totals = accuracy_runtime(found.assign(seconds_simulate=0.0))
    assert list(totals["estimator"]) == ["good"]
    assert {line["estimator"] for line in totals.attrs["failed"]} == {"bad"}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"estimators": []}, ValueError, "at least one"),
        ({"estimators": ["magic"]}, ValueError, "no estimator 'magic'"),
        ({"estimators": ["rejection", "rejection"]}, ValueError, "two estimators"),
        ({"budgets": []}, ValueError, "no budgets"),
        ({"budgets": [681]}, ValueError, "680 are not held out"),
        ({"repetitions": 0}, ValueError, "at least 1"),
        ({"random_seed": None}, TypeError, "whole number"),
        ({"held_out": (np.zeros((2, 2)), np.zeros((3, 2)))}, ValueError, "2 rows of parameters and 3"),
    ],
)
def test_bad_arguments_are_refused(change, error, words):
    with pytest.raises(error, match=words):
        compare(table(), **{**ARGUMENTS, **change})
    with pytest.raises(TypeError, match="PyMC model or a ReferenceTable"):
        compare(np.zeros(3), **ARGUMENTS)


def test_rows_of_a_table_differ_between_repetitions_and_are_not_the_held_out_ones(monkeypatch):
    seen = []
    original = pk.Rejection.fit
    monkeypatch.setattr(
        pk.Rejection, "fit", lambda self, p, *a, **k: (seen.append(p), original(self, p, *a, **k))[1]
    )
    held = table().parameters[:5], table().statistics[:5]
    compare(table(), **{**ARGUMENTS, "estimators": ["rejection"], "budgets": [300]})
    compare(table(), **{**ARGUMENTS, "estimators": ["rejection"], "budgets": [300]}, held_out=held)
    assert not np.array_equal(seen[0], seen[1])
    assert not set(map(tuple, seen[2])) & set(map(tuple, seen[3]))  # two blocks of 300 of 700 rows


def totals_of_two():
    return pd.DataFrame(
        {
            "estimator": ["table", "table", "fresh"],
            "budget": [100, 1000, 1000],
            "simulations": [100, 1000, 500],
            "amortised": [True, True, False],
            "seconds_simulate": [1.0, 10.0, 0.0],
            "seconds_fit": [0.5, 0.5, 0.0],
            "seconds_condition": [0.1, 0.1, 7.0],
            "repetition": 0,
            "energy_score": [3.0, 1.0, 2.0],
        }
    )


def test_seconds_of_many_observations_and_of_costlier_simulations():
    seconds = accuracy_runtime(totals_of_two())["seconds"].tolist()
    np.testing.assert_allclose(seconds, [1.6, 10.6, 7.0])
    seconds = accuracy_runtime(totals_of_two(), observations=10)["seconds"].tolist()
    np.testing.assert_allclose(seconds, [2.5, 11.5, 70.0])
    seconds = accuracy_runtime(totals_of_two(), cost_per_simulation=2.0, observations=3)["seconds"].tolist()
    np.testing.assert_allclose(seconds, [200.8, 2000.8, 3000.0])


def test_the_pareto_front():
    cost, score = np.array([1.0, 2.0, 3.0, 3.0, 0.5]), np.array([3.0, 3.5, 1.0, 0.9, 9.0])
    assert pareto_front(cost, score).tolist() == [4, 0, 3]


def test_the_picture_tells_lines_apart_without_colour():
    axes = plot_accuracy_runtime(totals_of_two(), cost_per_simulation=0.1)
    lines = [container[0] for container in axes.containers]
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in lines}) == 2
    assert axes.get_xscale() == axes.get_yscale() == "log"
    assert "Pareto front" in [text.get_text() for text in axes.get_legend().get_texts()]
    with pytest.raises(ValueError, match="no column 'nothing'"):
        plot_accuracy_runtime(totals_of_two(), score="nothing")
    plt.close("all")


def test_peak_memory_sees_an_array_that_is_gone_again():
    with peak_memory() as peak:
        array = np.ones(2**24)
        array.sum()
        del array
    assert peak.megabytes > 100
