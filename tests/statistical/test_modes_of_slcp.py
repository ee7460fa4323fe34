"""A posterior of four parts, of which a learned likelihood's draws hold all."""

import numpy as np
import pytest

import pymc_kbr as pk
from case_studies.sbi_benchmark.methods import simulated
from case_studies.sbi_benchmark.tasks import TASKS

TRUTH = np.array([[1.0, -1.0, 2.0, 1.5, 0.5]])
"""The third and fourth parameter enter by their squares: all signs are equally likely."""


@pytest.mark.statistical
def test_all_four_modes_of_slcp_are_found():
    table = simulated(TASKS["slcp"], 1000).table
    learnt = pk.KernelLikelihood("location_scale", particles=500).fit(table, random_seed=1)
    observed = TASKS["slcp"].simulate(TRUTH, np.random.default_rng(3))
    (posterior,) = learnt.condition(observed)
    positive = posterior.draw(2000, 1)[:, 2:4] > 0
    shares = np.bincount(positive @ [1, 2], minlength=4) / len(positive)
    # A quarter each. Chance moves a share by 0.05 where a hundred starting rows have descendants; the
    # table's error is added to it. A mode that is missed has none.
    assert np.all(shares > 0.1)
    assert posterior.settings["ancestors"] > 40
