"""From a PyMC model to a reference table: the only place that looks inside a PyMC model."""

from pymc_kbr.simulation.forward_model import ForwardModel
from pymc_kbr.simulation.model.learned_simulator import LearnedSimulator
from pymc_kbr.simulation.model.simulators import set_simulator, vector_simulator
from pymc_kbr.simulation.options import SimulationOptions
from pymc_kbr.simulation.predictive import simulate_data
from pymc_kbr.simulation.prior.model_prior import ModelPrior, model_prior
from pymc_kbr.simulation.prior.proposal import Proposal, check_can_be_proposed
from pymc_kbr.simulation.prior.truncated import Within
from pymc_kbr.simulation.resume_store import (
    Interrupted,
    SimulationError,
    simulate_table,
    warn_of_failures,
    warn_of_interrupt,
    weights_of,
)
from pymc_kbr.simulation.simulate import simulate, simulate_models, simulate_to_store
from pymc_kbr.simulation.streams import entropy_of

__all__ = [
    "ForwardModel",
    "Interrupted",
    "LearnedSimulator",
    "ModelPrior",
    "Proposal",
    "SimulationOptions",
    "SimulationError",
    "Within",
    "check_can_be_proposed",
    "entropy_of",
    "simulate_table",
    "model_prior",
    "set_simulator",
    "simulate",
    "simulate_data",
    "simulate_models",
    "simulate_to_store",
    "vector_simulator",
    "warn_of_failures",
    "warn_of_interrupt",
    "weights_of",
]
