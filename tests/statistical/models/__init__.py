"""Forty PyMC models with simulators whose posteriors are known: see the README."""

from importlib import import_module

from tests.statistical.models.problem import PROBLEMS

KINDS = "hierarchical discrete simplex truncated heavy_tails raw mixed series counts"
for _file in KINDS.split():  # each enters its models, in this order
    import_module(f"{__name__}.{_file}")

__all__ = ["PROBLEMS"]
