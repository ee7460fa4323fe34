import itertools
import runpy
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

import pymc_kbr as pk
from case_studies.coalescent import model as coalescent
from case_studies.coalescent.accuracy import score
from case_studies.coalescent.data import load_coalescent


def test_statistics_by_hand():
    """Four haplotypes, three sites."""
    genotypes = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0]])
    differences = [np.sum(genotypes[:, a] != genotypes[:, b]) for a, b in itertools.combinations(range(4), 2)]
    assert coalescent.mean_differences(genotypes) == pytest.approx(np.mean(differences))
    far = 2 * coalescent.NEAR
    assert coalescent.mean_r_squared(genotypes, np.array([0.0, 1.0, far])) == pytest.approx(1 / 3)
    assert coalescent.mean_r_squared(genotypes, np.array([0.0, far, far + 1])) == pytest.approx(1.0)
    assert coalescent.mean_r_squared(genotypes[:1], np.array([0.0])) == 0.0


def test_the_shipped_table_is_what_its_command_makes():
    model = coalescent.coalescent_model(np.zeros(7))
    table = pk.simulate(30, model=model, random_seed=20261121, progressbar=False)
    shipped = load_coalescent()
    np.testing.assert_array_equal(table.parameters, shipped.parameters[:30])
    # R2 is a matrix product, whose last bit is another one on another processor.
    np.testing.assert_allclose(table.statistics, shipped.statistics[:30], rtol=1e-14)


@pytest.mark.statistical
def test_fresh_simulations_are_distributed_as_the_shipped_ones():
    model = coalescent.coalescent_model(np.zeros(7))
    table = pk.simulate(250, model=model, random_seed=5, progressbar=False)
    shipped = load_coalescent().to_dataframe()
    for fresh, column in zip(table.to_dataframe().to_numpy().T, shipped, strict=True):
        assert ks_2samp(fresh, shipped[column]).pvalue > 1e-4, column


@pytest.mark.statistical
def test_localised_beats_rejection_on_held_out_rows():
    table = load_coalescent()
    fitted = table.parameters[:10_000], table.statistics[:10_000]
    held_out = table.parameters[-200:], table.statistics[-200:]
    local, rejection = (score(name, fitted, held_out)[0] for name in ("localised", "rejection"))
    for parameter in ("theta", "rho"):
        # Paired over the same rows: the gains, 5 to 6% on 1,000 rows, have errors of about 1.8% on 200.
        assert local[f"crps_{parameter}"] < rejection[f"crps_{parameter}"]
        assert local[f"rmse_{parameter}"] < rejection[f"rmse_{parameter}"]
        # A coverage of 0.9 from 200 rows has a deviation of 0.021.
        assert abs(local[f"coverage_90_{parameter}"] - 0.9) < 0.02 + 3 * 0.021


@pytest.mark.usefixtures("plain_layout")
@pytest.mark.filterwarnings("ignore")
def test_the_main_job_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["coalescent", "--quick", "--output", str(tmp_path)])
    runpy.run_module("case_studies.coalescent.__main__", run_name="__main__", alter_sys=True)
    assert "Conditioning every estimator" in capsys.readouterr().out
    results = pd.read_csv(tmp_path / "results.csv")
    # Both by the default, too, and by it from the larger table.
    assert len(results) == 3 * 2 * (len(pk.ESTIMATORS) + 2)
    assert results.notna().all().all()
    assert (results["lower_5"] < results["upper_95"]).all()
    assert (tmp_path / "posteriors.png").stat().st_size > 10_000
