"""What a filter says of training that has one state, and of observations that are like none."""

import warnings

import numpy as np
import pytest

from pymc_kbr.posterior.posterior import PosteriorWarning
from tests.filtering.problems import fixed, turning

Z, X = turning(40, np.random.default_rng(5))


@pytest.mark.parametrize(
    "given",
    [
        {"states": np.zeros((40, 2)), "observations": X},
        {"states": [np.full((20, 1), 3.0)] * 2, "observations": [X[:20], X[20:]]},
        {"pairs": (np.ones((40, 1)), X), "transitions": (np.ones((9, 1)), np.ones((9, 1)))},
    ],
)
def test_one_state_alone_is_refused(given):
    with pytest.raises(ValueError, match=r"training states are the same, \[.*look at what is given"):
        fixed().fit(**given)


def test_a_state_that_is_only_the_same_among_pairs_is_taken():
    assert fixed().fit(pairs=(np.ones((40, 2)), X), transitions=(Z[:-1], Z[1:])).filter(X[:2]).mean().shape


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize(("beyond", "told"), [(-0.5, False), (11.0, True), (1e12, True)])
def test_observations_far_beyond_those_of_the_training_are_told_of(beyond, told, scale):
    kbf = fixed(scale=scale).fit(Z, 5 * X)
    far = np.vstack([5 * X[:4], [np.nan, np.nan]])
    far[2, 1] = 5 * X[:, 1].max() + beyond * (5 * X[:, 1]).std()
    calls = (lambda: kbf.filter(far), lambda: kbf.smooth(far), lambda: kbf.step(None, far[2]))
    for call, row in zip(calls, (2, 2, 0), strict=True):
        if told:
            with pytest.warns(PosteriorWarning, match=rf"^1 observation.s. lie far .* row {row} .* column 1"):
                call()
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                call()
