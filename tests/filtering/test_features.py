"""Features of observations in their columns' place."""

import numpy as np
import pytest

from pymc_kbr.estimators.summaries import LinearPosteriorMean, NeuralFeatures
from pymc_kbr.filtering import KernelBayesFilter
from pymc_kbr.kernels import Linear
from tests.filtering.problems import SETTINGS, turning

FIXED = {key: value for key, value in SETTINGS.items() if key != "observation_bandwidth"}


@pytest.fixture
def sequence(rng):
    z, x = turning(100, rng)
    return z[:80], x[:80], x[80:]


@pytest.fixture
def identity(torch):
    network = torch.nn.Linear(2, 2, bias=False).double().requires_grad_(False)
    network.weight[:] = torch.eye(2)
    return NeuralFeatures(network=network)


@pytest.mark.parametrize("rule", ["iw_kbr", "kbr"])
def test_with_the_identity_it_is_the_filter_with_the_linear_kernel(rule, sequence, identity):
    z, x, seen = sequence
    # Features have the variance 1 / q, columns have one: lambda is in another unit, delta in its square.
    factor = 2 if rule == "iw_kbr" else 4
    learnt = KernelBayesFilter(rule, **FIXED, features=identity, regularisation=1e-2).fit(z, x)
    linear = KernelBayesFilter(rule, **FIXED, observation_kernel=Linear(), regularisation=1e-2 * factor).fit(
        z, x
    )
    np.testing.assert_allclose(learnt.filter(seen).weights, linear.filter(seen).weights, atol=1e-8)
    assert learnt.settings_.observation_kernel == Linear()


def test_settings_are_chosen_with_features_of_the_first_part(sequence):
    z, x, seen = sequence
    rows = []

    class Learner:
        def fit(self, statistics, parameters):
            rows.append(len(statistics))
            return LinearPosteriorMean.fit(statistics, parameters)

    kbf = KernelBayesFilter(features=Learner(), **FIXED).fit(z, x)
    assert rows == [80, 54]  # a third of 80 is held out
    rows.clear()
    fitted = LinearPosteriorMean.fit(x, z)
    again = KernelBayesFilter(features=fitted, **FIXED, regularisation=kbf.settings_.regularisation).fit(z, x)
    np.testing.assert_allclose(again.filter(seen).weights, kbf.filter(seen).weights)
    named = KernelBayesFilter(features="linear_posterior_mean", **FIXED).fit(z, x)
    np.testing.assert_allclose(named.filter(seen).weights, kbf.filter(seen).weights)


def test_rows_without_an_observation_are_predictions(sequence):
    z, x, seen = sequence
    kbf = KernelBayesFilter(features="linear_posterior_mean", regularisation=1e-2, **FIXED).fit(z, x)
    gaps = seen.copy()
    gaps[5:7] = np.nan
    found = kbf.filter(gaps)
    np.testing.assert_allclose(found.weights[5:7], kbf.predict(2, found[4]).weights, atol=1e-12)
    assert np.isfinite(kbf.filter(np.full((3, 2), np.nan)).weights).all()
    gaps[9, 1] = np.nan
    with pytest.raises(ValueError, match=r"1 observation\(s\) hold NaN in some columns.*row 9"):
        kbf.filter(gaps)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"features": "cnn"}, "features is 'cnn'"),
        ({"features": True}, "features is True"),
        ({"features": "relevance", "tuning": "published"}, "'published'"),
        ({"features": "relevance", "observation_bandwidth": 1.0}, "linear, which has none"),
    ],
)
def test_features_that_cannot_be_used(arguments, words, sequence):
    with pytest.raises(ValueError, match=words):
        KernelBayesFilter(**arguments).fit(*sequence[:2])
