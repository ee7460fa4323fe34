"""Models with a likelihood: draws against those of NUTS. ``python -m case_studies.posterior_draws.nuts``."""

import numpy as np
import pytest

import pymc_kbr as pk
from case_studies.posterior_draws.nuts import compare

DRAWS = 1000


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore")
def test_moments_of_a_hierarchical_model_agree_with_nuts():
    # What `auto` chooses here; by name, since its choice depends on the time that it is given.
    estimator = pk.Adjusted(pk.Rejection(500, kernel="epanechnikov"), "heteroscedastic_kernel_ridge")
    result = compare("hierarchical", 5_000, DRAWS, estimator)
    # Both sides are means of at least 1,000 effective draws.
    error = np.sqrt(2 / 1000)
    assert np.abs(result["error_of_mean"]).max() < 0.15 + 3 * error
    assert np.abs(result["ratio_of_sd"] - 1).max() < 0.15 + 3 * error / np.sqrt(2)
