"""Simulators that others publish or ask about, against what their users do today."""
