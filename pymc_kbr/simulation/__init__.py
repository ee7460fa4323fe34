"""From a PyMC model to a reference table: the only place that looks inside a PyMC model."""

from pymc_kbr.simulation.density import ModelPrior, model_prior
from pymc_kbr.simulation.failures import SimulationError
from pymc_kbr.simulation.forward import Forward
from pymc_kbr.simulation.make_table import make_table
from pymc_kbr.simulation.model_to_table import simulate, simulate_to_store
from pymc_kbr.simulation.plan import Plan
from pymc_kbr.simulation.raw import simulate_data
from pymc_kbr.simulation.streams import entropy_of
from pymc_kbr.simulation.truncated import Within
from pymc_kbr.simulation.vector_simulator import vector_simulator

__all__ = [
    "Forward",
    "ModelPrior",
    "Plan",
    "SimulationError",
    "Within",
    "entropy_of",
    "make_table",
    "model_prior",
    "simulate",
    "simulate_data",
    "simulate_to_store",
    "vector_simulator",
]
