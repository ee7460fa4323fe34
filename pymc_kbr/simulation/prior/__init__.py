"""A PyMC model's prior: draws, support and density."""
