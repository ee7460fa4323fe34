"""Conditional densities of statistics given parameters, and posteriors from them."""
