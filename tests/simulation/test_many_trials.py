"""Learned likelihoods in a model warn where a parameter set has more trials than they are good for."""

import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk

pytestmark = pytest.mark.versions


@pytest.fixture(scope="module")
def learnt():
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(600, 1))
    return pk.KernelLikelihood("location_scale", 100).fit(
        theta, theta + rng.normal(size=(600, 1)), random_seed=1
    )


def test_a_learned_simulator_warns_of_many_trials_of_one_parameter_set(learnt):
    data = 0.3 + np.random.default_rng(1).normal(size=(2000, 1))
    with pm.Model():
        mean = pm.Normal("mean", 0, 1)
        with pytest.warns(pk.PosteriorWarning, match="2000 trials of 'many'"):
            pk.LearnedSimulator("many", learnt, mean, observed=data)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pk.PosteriorWarning)
            pk.LearnedSimulator("few", learnt, mean, observed=data[:3])
    group = np.repeat([0, 1], [3, 1997])
    with pm.Model():
        mean = pm.Normal("mean", 0, 1, shape=2)
        with pytest.warns(pk.PosteriorWarning, match="1997 trials of 'groups'"):
            pk.LearnedSimulator("groups", learnt, mean, observed=data, group=group)
    with pm.Model():
        mean = pm.Normal("mean", 0, 1, shape=2000)
        with warnings.catch_warnings():
            warnings.simplefilter("error", pk.PosteriorWarning)
            pk.LearnedSimulator("each", learnt, mean, observed=data)
    with pm.Model():
        mean = pm.Flat("mean", shape=2)
        pk.LearnedSimulator("flat", learnt, mean, observed=data, group=group)
    # As many parameter sets as there are different stimuli.
    with pm.Model():
        slope = pm.Normal("slope", 0, 1)
        stimulus = np.repeat([1.0, 2.0], [3, 1997])
        with pytest.warns(pk.PosteriorWarning, match="1997 trials of 'stimuli'"):
            pk.LearnedSimulator("stimuli", learnt, slope * stimulus, observed=data)
