"""Likelihoods that do not hold, or that there cannot be, on the way into a model."""

import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_kbr as pk

RNG = np.random.default_rng(3)
THETA = pd.DataFrame({"a": RNG.normal(size=120)})
X = pd.DataFrame(THETA.to_numpy() + RNG.normal(size=(120, 2)), columns=["s", "t"])
QUIET = {"random_seed": 1, "progressbar": False}


def learnt(pvalue, worst=1, frames=True):
    """A likelihood whose held-out rows said so."""
    given = (THETA, X) if frames else (THETA.to_numpy(), X.to_numpy())
    likelihood = pk.KernelLikelihood("location_scale", 50).fit(*given, random_seed=1)
    likelihood.transforms_pvalue_, likelihood.transforms_worst_ = pvalue, worst
    return likelihood


def put(likelihood):
    with pm.Model():
        return pk.LearnedSimulator("y", likelihood, pm.Normal("a"), observed=[0.1, 0.2])


def test_a_likelihood_that_does_not_hold_is_warned_of():
    with pytest.warns(
        pk.PosteriorWarning, match=r"of 'y' does not hold.*'t' \(p = 9.0e-04\); simulate"
    ) as told:
        put(learnt(9e-4))
    assert told[0].filename == __file__
    with pytest.warns(pk.PosteriorWarning, match="least of all column 0"):
        put(learnt(9e-4, worst=0, frames=False))


def test_one_that_holds_is_not():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put(learnt(1.1e-3))


def noisy(rng, a, size):
    return np.asarray(a) + rng.normal(size=size)


def two_of_one_kind(function=noisy):
    with pm.Model() as model:
        a, b = pm.Normal("a"), pm.Normal("b")
        for name, given in (("y", a), ("z", b)):
            pm.Simulator(name, function, given, epsilon=0.1, sum_stat="mean", observed=np.zeros(3))
    return model


def test_a_simulator_without_noise_is_refused_by_its_name():
    def exact(rng, a, size):
        return np.asarray(a) * np.ones(size)

    with pytest.raises(ValueError, match=r"'y' of the simulator 'y' is an exact function.*its `epsilon`"):
        pk.learn_simulators(
            two_of_one_kind(exact), 100, likelihood=pk.KernelLikelihood("location_scale"), **QUIET
        )
