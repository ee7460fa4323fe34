import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp, kstest

from case_studies.coalescent import data as datasets

ABCTOOLS = Path(__file__).parents[3] / "shared" / "data" / "abctools"
ABCTOOLS = Path(os.environ.get("ABCTOOLS_DATA", ABCTOOLS))
needs_abctools = pytest.mark.skipif(
    not ABCTOOLS.is_dir(), reason="the data of abctools are not here; set ABCTOOLS_DATA to their folder"
)


@pytest.fixture(scope="module")
def coalescent():
    return datasets.load_coalescent()


def test_the_coalescent_table_is_what_its_readme_says(coalescent):
    assert len(coalescent) == 100_000
    assert coalescent.parameter_names == ["theta", "rho"]
    assert coalescent.statistic_names == ["segsites", "unif", "meandiff", "R2", "nhap", "fhap", "shap"]
    assert coalescent.observed is None
    assert coalescent.seed == 20261121


def test_the_coalescent_table_obeys_theory(coalescent):
    frame = coalescent.to_dataframe()
    assert kstest((frame["theta"] - 2) / 8, "uniform").pvalue > 1e-4
    assert kstest(frame["rho"] / 10, "uniform").pvalue > 1e-4
    assert kstest(frame["unif"] / 25, "uniform").pvalue > 1e-4
    # Watterson: E[segsites] = theta (1 + 1/2 + ... + 1/49); Tajima: E[meandiff] = theta.
    for column, factor in (("segsites", np.sum(1 / np.arange(1, 50))), ("meandiff", 1.0)):
        ratio = frame[column] / (factor * frame["theta"])
        assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(len(ratio))
    assert frame["fhap"].between(1, 50).all()
    assert (frame["shap"] <= frame["nhap"]).all()


@needs_abctools
def test_the_coalescent_table_is_distributed_as_that_of_abctools(coalescent):
    coal = pd.read_csv(ABCTOOLS / "coal_rows_1_to_70000.csv.xz")
    frame = coalescent.to_dataframe()
    distances = {column: ks_2samp(frame[column], coal[column]).statistic for column in coal}
    assert max(distances.values()) < 0.03, distances


@needs_abctools
def test_an_rda_file_is_read():
    frame = datasets.read_rda(ABCTOOLS / "coalobs.rda")
    coal = pd.read_csv(ABCTOOLS / "coal_rows_1_to_70000.csv.xz", nrows=100)
    assert list(frame.columns) == list(coal.columns)
    np.testing.assert_allclose(frame.to_numpy(), coal.to_numpy(), rtol=1e-6)
    pd.testing.assert_frame_equal(datasets.read_rda(ABCTOOLS / "coalobs.rda", "coalobs"), frame)
    with pytest.raises(ValueError, match="no object 'coal'; it holds"):
        datasets.read_rda(ABCTOOLS / "coalobs.rda", "coal")


def test_files_that_are_no_rda_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        datasets.read_rda(tmp_path / "coal.rda")
    (tmp_path / "coal.rda").write_bytes(b"not R data at all")
    with pytest.raises(ValueError, match="cannot be read as an R data file"):
        datasets.read_rda(tmp_path / "coal.rda")
