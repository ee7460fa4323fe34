"""Rounds that a store holds belong to the observation that they closed in on."""

import numpy as np
import pymc as pm
import pytest

import pymc_kbr as pk
from pymc_kbr.simulation import ForwardModel, Proposal, SimulationOptions, simulate_table


def normal(rng, mean, size):
    return rng.normal(mean, 0.1, size)


def refined(observed, store):
    with pm.Model():
        pm.Simulator("y", normal, pm.Normal("mean"), observed=[observed])
        return pk.refine(
            120,
            rounds=2,
            estimator=pk.Adjusted(pk.Rejection(30), "local_linear"),
            random_seed=1,
            store=store,
            progressbar=False,
        )


def test_rounds_of_another_observation_are_refused(tmp_path):
    first = refined(0.5, tmp_path)
    with pytest.raises(ValueError, match=r"of another call, with .*0\.5.* and now .*1\.5"):
        refined(1.5, tmp_path)
    again = refined(0.5, tmp_path)
    np.testing.assert_array_equal(again.parameters, first.parameters)


def test_a_round_is_gone_on_with_by_its_own_proposal_alone(tmp_path):
    with pm.Model() as made:
        pm.Simulator("y", normal, pm.Normal("mean"), observed=[0.5])
    forward = ForwardModel.read(made)

    def simulated(mean):
        proposal = Proposal(np.ones(1), np.array([[mean]]), np.ones((1, 1, 1)), forward.support, 0.5)
        how = {"proposal": proposal, "store": tmp_path / "t.zarr", "random_seed": 1, "progressbar": False}
        return simulate_table(SimulationOptions(20, **how), forward).load()

    np.testing.assert_array_equal(simulated(0.0).parameters, simulated(0.0).parameters)
    with pytest.raises(ValueError, match="was made with other proposal"):
        simulated(1.0)
