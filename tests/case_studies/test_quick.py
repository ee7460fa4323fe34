"""Every study's command runs, and writes tables with every row filled and pictures that are not too large."""

import runpy
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

import pymc_kbr as pk
from case_studies.coalescent import accuracy
from case_studies.coalescent.data import load_coalescent
from case_studies.gaussian_ground_truth import localised_5_1

STUDIES = {
    "gaussian_ground_truth": [
        "xu_5_1",
        "fukumizu_5_2",
        "localised_ridges",
        "localised_modes",
        "localised_chosen",
        "localised_dimensions",
        "localised_sizes",
        "localised_draft_sizes",
    ],
    "nonlinear_regression": ["cross_validation", "surface"],
    "simulators": ["simulators"],
    "filtering": ["circles", "circles_means", "known_transition"],
    "coalescent.runtime": ["runtime"],
    "coalescent.rivals": ["rivals"],
    "coalescent.unif": ["unif"],
    "coalescent.growth": ["growth"],
    "coalescent.richer": ["richer", "richer_columns"],
    "coalescent.history": ["history"],
    "model_choice": ["toys"],
    "missing_statistics": ["gaps", "seconds"],
    "population_genetics": ["tuberculosis"],
    "data_sets": ["problems", "sizes"],
    "gallery": ["gallery"],
    "reaction_times": ["errors", "summary"],
    "trial_rivals": ["errors", "fits", "summary"],
    "field": ["errors", "fits", "summary"],
    "posterior_draws.joint_width": ["joint_width"],
    "posterior_draws.local_test": ["local_test"],
    "gallery.asked": ["asked", "asked_intervals"],
}
SHORTER = {
    "gaussian_ground_truth": [
        "--parts",
        "xu",
        "fukumizu_5_2",
        *(p for p in localised_5_1.PARTS if p != "settings"),
    ],
    "nonlinear_regression": ["--parts", "bandwidths", "settings"],
    "simulators": ["--models", "normal", "lotka_volterra"],
    "trial_rivals": ["--problems", "drift diffusion", "g-and-k pairs", "counts"],
    "population_genetics": ["--only", "tuberculosis"],  # the other one needs msprime
}
"""Options that leave out what differs from the rest, or from another study, in its model alone."""

MAY_BE_EMPTY = {
    "more_than_kbr",  # only conditional means are compared with the rule
    "more_than_kbr_standard_error",
    "rank",  # rejection factors nothing
    "regularisation",  # Nadaraya and Watson's estimator has none
    "log10_regularisation_less_exact",
    "rkhs_error",  # of the coalescent it is not known
    "note",
    "state_bandwidth",  # filters that are told the dynamics have no settings
    "observation_bandwidth",
    "printed_regularisation",
    "prior_regularisation",
    "transition_regularisation",
    "fewest_effective",  # `sample_smc` says nothing of it
}


@pytest.mark.statistical
@pytest.mark.usefixtures("plain_layout")
@pytest.mark.parametrize("study", STUDIES)
def test_the_quick_command_writes_full_tables(study, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [study, "--quick", "--output", str(tmp_path), *SHORTER.get(study, [])])
    # What "auto" tries has tests of its own.
    few = [pk.Localised(), pk.Rejection(0.1)]
    monkeypatch.setattr("pymc_kbr.selection.select.default_candidates", lambda n, d, **_: (few, []))
    with warnings.catch_warnings():
        module = study if "." in study else f"{study}.__main__"
        runpy.run_module(f"case_studies.{module}", run_name="__main__", alter_sys=True)
    assert {path.stem for path in tmp_path.glob("*.csv")} == set(STUDIES[study])
    for path in tmp_path.glob("*.csv"):
        table = pd.read_csv(path)
        assert len(table), path.name
        empty = {column for column in table if table[column].isna().any()}
        assert empty <= (MAY_BE_EMPTY if path.stem != "localised_sizes" else set()), path.name
        if "note" in table:
            assert table["note"].isna().all(), table["note"].dropna().tolist()
    for path in tmp_path.glob("*.png"):
        assert 1_000 < path.stat().st_size < 300_000, path.name


@pytest.mark.parametrize("suffix", ["csv", "png"])
def test_committed_results_are_small(suffix):
    found = list((Path(__file__).parents[2] / "case_studies").rglob(f"*.{suffix}"))
    assert found
    assert not [path.name for path in found if path.stat().st_size >= 300_000]


@pytest.mark.statistical
@pytest.mark.usefixtures("plain_layout")
@pytest.mark.parametrize("study", ["rivals"])
def test_a_users_own_coal_is_taken_without_its_first_rows(study, tmp_path, monkeypatch):
    table = load_coalescent().to_dataframe()[:450]
    table.iloc[:100, 2:] = 1e6  # what `coalobs` repeats must not come in
    table.to_csv(tmp_path / "coal.csv", index=False)
    parameters, statistics = accuracy.load(tmp_path / "coal.csv")
    assert len(parameters) == 350
    assert statistics.max() < 1e6
    output = tmp_path / "output"
    command = [study, "--quick", "--coal", str(tmp_path / "coal.csv"), "--output", str(output)]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_module(f"case_studies.coalescent.{study}", run_name="__main__", alter_sys=True)
    assert {path.name for path in output.iterdir()} == {f"{study}_coal.csv", f"{study}_coal.png"}
    found = pd.read_csv(output / f"{study}_coal.csv")
    column = "rmse[theta]" if study == "runtime" else "mse_of_mean_theta"
    assert (found[column] < 10).all()
