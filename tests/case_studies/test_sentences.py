"""Figures in the sentences of the studies' READMEs are those of the CSV files beside them."""

import numpy as np
import pandas as pd
import pytest

from tests.case_studies.readme_figures import frame, wide, wrong_figures
from tests.case_studies.sentences_of_gallery import OF_GALLERY
from tests.case_studies.sentences_of_posteriors import SENTENCES
from tests.case_studies.sentences_of_regressions import xu, xu_many
from tests.case_studies.tables_of_regressions import GAUSSIAN, fukumizu_5_2


@pytest.mark.parametrize(("study", "template", "values"), SENTENCES + OF_GALLERY)
def test_a_sentences_figures_are_its_files(study, template, values):
    assert wrong_figures(study, template, values()) == []


def test_ours_are_ordered_as_claimed_at_every_size():
    lines = fukumizu_5_2("fukumizu_5_2").dropna(subset=["kbr: error"])
    assert (lines["kbr_default: error"] >= lines["conditional_mean_default: error"]).all()
    assert (lines["rejection: error"] > lines["kbr_default: error"]).all()
    assert (lines["rejection: error"] > lines["kbr: error"]).all()
    above = lines[lines["conditional_mean: error"] > lines["rejection: error"]]
    assert above[["d", "n"]].to_numpy().tolist() == [[2, 200], [2, 400]]


def test_what_is_said_about_the_scale_of_lambda_holds_in_the_files():
    for table in (xu(), xu_many()):
        assert (table["importance_weighted_sum_one"] < table["original_sum_one"]).all()
        assert (table["importance_weighted_printed"] > table["original_printed"]).all()
        assert (table["original_printed"] > table["prior_mean"]).all()
    assert (xu_many()["iw_kbr_default"] < xu_many()["importance_weighted_sum_one"]).all()
    lines = frame(GAUSSIAN, "fukumizu_5_1").set_index("d")
    density = lines[["kde_best", "kde_least_squares"]].min(axis=1)
    for name in ("kbr_median", "kbr_cross_validated", "kbr_default", "iw_kbr_default"):
        assert (lines[name] < density).all(), name
    assert density[lines["kbr_median_printed"] > density].index.tolist() == [2, 4, 8, 16, 32]
    assert density[lines["kbr_cross_validated_printed"] > density].index.tolist() == [2]


def test_wide_tables_hold_what_the_long_ones_do():
    lines = pd.DataFrame({"n": [1, 1], "method": ["a", "b"], "error": [0.5, 0.7]})
    found = wide(lines, ["n"], "method", ["error"])
    np.testing.assert_array_equal(found[["a: error", "b: error"]].to_numpy(), [[0.5, 0.7]])
