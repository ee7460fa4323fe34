"""What is read from a PyMC model."""
