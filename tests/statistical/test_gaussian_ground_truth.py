"""The papers' experiments on normal distributions, with fewer repetitions than the case study."""

import numpy as np
import pandas as pd
import pytest

from case_studies.gaussian_ground_truth import fukumizu_5_1, fukumizu_5_2, xu_5_1

# Mean squared errors that thirty runs of section 5.1 of Xu 2022 give with the published settings.
PUBLISHED = {16: (0.927, 0.775), 32: (1.82, 1.69)}


@pytest.mark.statistical
@pytest.mark.parametrize("d", [16, 32])
def test_published_settings_reproduce_and_defaults_beat_the_prior(d):
    runs = pd.DataFrame([xu_5_1.errors(d, run) for run in range(8)])
    for name, published in zip(
        ("original_published", "importance_weighted_published"), PUBLISHED[d], strict=True
    ):
        # Ten per cent, and three standard errors of eight random problems.
        allowed = 0.1 * published + 3 * runs[name].std() / np.sqrt(8)
        assert runs[name].mean() == pytest.approx(published, abs=allowed)
    if d == 32:  # at 16 gains are only two to five standard errors of thirty runs
        for rival in ("prior_mean", "importance_weighted_published"):
            gain = runs[rival] - runs["iw_kbr_default"]
            assert gain.mean() > 2 * gain.std() / np.sqrt(8)
    moved = runs["iw_kbr_default_moved"]
    np.testing.assert_allclose(moved, runs["iw_kbr_default"], rtol=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("d", [2, 8])
def test_kernel_bayes_is_below_kernel_density_estimation(d):
    runs = pd.DataFrame([fukumizu_5_1.errors(d, run) for run in range(2)])
    best_density = runs[[f"kde_{h:g}" for h in fukumizu_5_1.BANDWIDTHS]].mean().min()
    for name in ("kbr_median", "kbr_cross_validated", "kbr_default", "iw_kbr_default"):
        assert runs[name].mean() < best_density


@pytest.mark.statistical
@pytest.mark.parametrize("d", [2, 6])
def test_kernel_methods_are_below_rejection_at_equal_simulations(d):
    lines = pd.DataFrame([line for run in range(5) for line in fukumizu_5_2.lines_of(d, 800, run)])
    errors = lines.groupby("estimator")["error"].mean()
    rejection = errors[errors.index.str.startswith("rejection")].min()
    for name in ("kbr", "kbr_default", "conditional_mean", "conditional_mean_default"):
        assert errors[name] < rejection
