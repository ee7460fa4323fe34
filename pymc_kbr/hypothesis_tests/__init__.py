"""Tests of two samples and of independence by kernels, at bandwidths that are learnt or given."""

from pymc_kbr.hypothesis_tests.causal_learn import causal_learn_test
from pymc_kbr.hypothesis_tests.hsic import conditional_hsic_test, hsic_test, kci_test
from pymc_kbr.hypothesis_tests.mmd import mmd_test
from pymc_kbr.hypothesis_tests.power import PowerCurve, power_curve
from pymc_kbr.hypothesis_tests.result import TestResult
from pymc_kbr.hypothesis_tests.witness import Witness, witness

__all__ = [
    "PowerCurve",
    "TestResult",
    "Witness",
    "causal_learn_test",
    "conditional_hsic_test",
    "hsic_test",
    "kci_test",
    "mmd_test",
    "power_curve",
    "witness",
]
