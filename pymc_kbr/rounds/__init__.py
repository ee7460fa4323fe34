"""Simulations that close in on an observation."""
