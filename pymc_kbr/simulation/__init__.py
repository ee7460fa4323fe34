"""From a PyMC model to a reference table: the only place that looks inside a PyMC model."""

from pymc_kbr.simulation.make_table import SimulationError, simulate
from pymc_kbr.simulation.vector_simulator import vector_simulator

__all__ = ["SimulationError", "simulate", "vector_simulator"]
